//! Attention.

use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[Row::new(
    "scaled_dot_product_attention.default(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> Tensor",
    attention,
)];

/// The batch extents, the number of rows and the width of a stack of matrices.
fn stack<'a>(what: &str, ty: &'a TensorType) -> Result<(&'a [Expr], &'a Expr, &'a Expr)> {
    match ty.shape.as_slice() {
        [batch @ .., rows, width] => Ok((batch, rows, width)),
        _ => Err(Error::invalid(format!(
            "`{what}` must have at least two dimensions, not {ty}"
        ))),
    }
}

fn attention(call: &Call<'_>) -> Inferred {
    let (query, key, value) = (call.tensor("query")?, call.tensor("key")?, call.tensor("value")?);
    require_float("query", query.dtype)?;
    require_same("query", query.dtype, "key", key.dtype)?;
    require_same("query", query.dtype, "value", value.dtype)?;
    let (q_batch, rows, width) = stack("query", query)?;
    let (k_batch, columns, k_width) = stack("key", key)?;
    let (v_batch, v_columns, v_width) = stack("value", value)?;
    require_equal("the width of query", width, "the width of key", k_width)?;
    require_equal("the number of keys", columns, "the number of values", v_columns)?;
    let gqa = call.bool("enable_gqa")?;
    let heads = |own: &[Expr]| {
        if gqa {
            shared_heads(q_batch, own)
        } else {
            Ok(own.to_vec())
        }
    };
    let (k_batch, v_batch) = (heads(k_batch)?, heads(v_batch)?);
    let batch = broadcast([q_batch, k_batch.as_slice(), v_batch.as_slice()])?;
    if let Some(mask) = call.opt_tensor("attn_mask")? {
        if call.bool("is_causal")? {
            return Err(Error::invalid("attn_mask and is_causal exclude each other"));
        }
        if mask.dtype != DType::Bool {
            require_same("query", query.dtype, "attn_mask", mask.dtype)?;
        }
        let scores = [batch.as_slice(), &[rows.clone(), columns.clone()]].concat();
        require_shape(
            "the masked scores",
            &broadcast([scores.as_slice(), &mask.shape])?,
            &scores,
        )?;
    }
    let shape = [batch.as_slice(), &[rows.clone(), v_width.clone()]].concat();
    Ok(vec![TensorType {
        dtype: query.dtype,
        shape,
    }])
}

/// The batch extents after each key or value head is repeated for the query heads that share it.
fn shared_heads(query: &[Expr], own: &[Expr]) -> Result<Vec<Expr>> {
    match (query.last(), own.split_last()) {
        (Some(heads), Some((shared, rest))) if heads.exact_div(shared).is_some() => {
            Ok([rest, std::slice::from_ref(heads)].concat())
        }
        _ => Err(Error::invalid(format!(
            "the heads of query {} do not divide among those of key and value {}",
            list(query),
            list(own)
        ))),
    }
}
