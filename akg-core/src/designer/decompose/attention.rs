//! Attention: two products with a softmax between them.

use super::reduce::exponentials;
use super::{Step, matmul, rearrange};
use crate::designer::prim::PrimId;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::sketch::ir::{CompareOp, ReduceOp, UnaryOp};

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    if name != "scaled_dot_product_attention" || s.call.number("dropout_p")? != 0.0 {
        return Ok(None);
    }
    let query = s.tensor("query")?;
    let (mut key, mut value) = (s.tensor("key")?, s.tensor("value")?);
    if s.call.bool("enable_gqa")? {
        let heads = s
            .prims
            .rank(query)
            .checked_sub(3)
            .map(|dim| s.prims.extent(query, dim));
        let heads = heads.ok_or_else(|| Error::invalid("shared heads need a dimension of heads"))?;
        key = share_heads(s, key, &heads);
        value = share_heads(s, value, &heads);
    }
    let dtype = s.prims.dtype(query);
    let key = matmul::turned(s, key);
    let scores = matmul::contract(s, query, key)?;
    let scale = scale(s, query)?;
    let mut scores = s.prims.mul(scores, scale)?;
    let mask = s.opt_tensor("attn_mask")?;
    if let Some(mask) = mask {
        scores = masked(s, scores, mask, dtype)?;
    }
    if s.call.bool("is_causal")? {
        let seen = rearrange::triangle(s, scores, CompareOp::Le, 0.0)?;
        let nothing = s.prims.number(f64::NEG_INFINITY);
        scores = s.prims.select(seen, scores, nothing)?;
    }
    let axis = s.prims.rank(scores) - 1;
    let (_, e, sum) = exponentials(s, scores, axis)?;
    let mut weights = s.prims.div(e, sum)?;
    if mask.is_some() {
        // A row that sees nothing attends to nothing.
        let most = s.prims.reduce(ReduceOp::Max, scores, &[axis], true);
        let nothing = s.prims.number(f64::NEG_INFINITY);
        let is_blind = s.prims.compare(CompareOp::Eq, most, nothing)?;
        let zero = s.prims.number(0.0);
        weights = s.prims.select(is_blind, zero, weights)?;
    }
    // PyTorch's kernels multiply values with weights of their type.
    s.prims.rounded.push(weights);
    let result = matmul::contract(s, weights, value)?;
    let shape = s.result(0)?.shape.clone();
    Ok(Some(vec![s.prims.reshape(result, shape)]))
}

/// What scores are multiplied by: one over the root of the heads' width, unless it is given.
fn scale(s: &mut Step<'_>, query: PrimId) -> Result<PrimId> {
    if let Some(scale) = s.call.opt_number("scale")? {
        return Ok(s.prims.number(scale));
    }
    let last = s.prims.rank(query).saturating_sub(1);
    let width = s.prims.count(query, &[last], s.prims.dtype(query));
    match s.prims.constant(width) {
        Some(width) => Ok(s.prims.number(width.sqrt().recip())),
        None => s.prims.unary(UnaryOp::Rsqrt, width),
    }
}

/// Repeats each head for the query heads that share it.
fn share_heads(s: &mut Step<'_>, x: PrimId, heads: &Expr) -> PrimId {
    let mut shape = s.prims.shape(x).to_vec();
    let dim = shape.len() - 3;
    if shape[dim] == *heads {
        return x;
    }
    let repeats = heads.exact_div(&shape[dim]).unwrap_or(Expr::constant(1));
    shape.insert(dim + 1, Expr::constant(1));
    let apart = s.prims.reshape(x, shape.clone());
    shape[dim + 1] = repeats;
    let repeated = s.prims.expand(apart, shape.clone());
    shape.splice(dim..dim + 2, [heads.clone()]);
    s.prims.reshape(repeated, shape)
}

/// Scores with a mask: booleans say what may be seen, numbers are added.
fn masked(s: &mut Step<'_>, scores: PrimId, mask: PrimId, dtype: DType) -> Result<PrimId> {
    if s.prims.dtype(mask) != DType::Bool {
        let mask = s.prims.cast(mask, dtype);
        return s.prims.add(scores, mask);
    }
    let nothing = s.prims.number(f64::NEG_INFINITY);
    s.prims.select(mask, scores, nothing)
}
