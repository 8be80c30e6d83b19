//! Products of vectors and matrices.

use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::TensorType;
use std::collections::BTreeMap;

pub(super) const ROWS: &[Row] = &[
    Row::new("mm.default(Tensor self, Tensor mat2) -> Tensor", mm),
    Row::new("bmm.default(Tensor self, Tensor mat2) -> Tensor", bmm),
    Row::new("matmul.default(Tensor self, Tensor other) -> Tensor", matmul),
    Row::new(
        "linear.default(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor",
        linear,
    ),
    Row::new(
        "addmm.default(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        addmm,
    ),
    Row::new(
        "baddbmm.default(Tensor self, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        baddbmm,
    ),
    Row::new("mv.default(Tensor self, Tensor vec) -> Tensor", mv),
    Row::new("dot.default(Tensor self, Tensor tensor) -> Tensor", dot),
    Row::new("outer.default(Tensor self, Tensor vec2) -> Tensor", outer),
    Row::new(
        "einsum.default(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
        einsum,
    ),
];

/// The types of two operands, which must have the same element type.
fn pair<'a>(call: &Call<'a>, a: &str, b: &str) -> Result<(&'a TensorType, &'a TensorType)> {
    let (left, right) = (call.tensor(a)?, call.tensor(b)?);
    require_same(a, left.dtype, b, right.dtype)?;
    reject_bool(a, left.dtype)?;
    Ok((left, right))
}

fn require_contraction(a: &Expr, b: &Expr) -> Result<()> {
    require_equal(
        "the inner extent of the left operand",
        a,
        "the right operand's",
        b,
    )
}

fn mm(call: &Call<'_>) -> Inferred {
    product(call, "self", "mat2")
}

fn product(call: &Call<'_>, a: &str, b: &str) -> Inferred {
    let (left, right) = pair(call, a, b)?;
    let ([m, k], [k2, n]) = (matrix(a, left)?, matrix(b, right)?);
    require_contraction(k, k2)?;
    Ok(vec![TensorType::new(left.dtype, [m, n])])
}

fn matrix<'a>(what: &str, ty: &'a TensorType) -> Result<&'a [Expr; 2]> {
    ty.shape
        .as_slice()
        .try_into()
        .map_err(|_| Error::invalid(format!("`{what}` must be a matrix, not {ty}")))
}

fn batch<'a>(what: &str, ty: &'a TensorType) -> Result<&'a [Expr; 3]> {
    ty.shape
        .as_slice()
        .try_into()
        .map_err(|_| Error::invalid(format!("`{what}` must be a batch of matrices, not {ty}")))
}

fn vector<'a>(what: &str, ty: &'a TensorType) -> Result<&'a Expr> {
    match ty.shape.as_slice() {
        [extent] => Ok(extent),
        _ => Err(Error::invalid(format!("`{what}` must be a vector, not {ty}"))),
    }
}

fn bmm(call: &Call<'_>) -> Inferred {
    batched_product(call, "self", "mat2")
}

fn batched_product(call: &Call<'_>, a: &str, b: &str) -> Inferred {
    let (left, right) = pair(call, a, b)?;
    let ([batch_a, m, k], [batch_b, k2, n]) = (batch(a, left)?, batch(b, right)?);
    require_equal("the left batch", batch_a, "the right batch", batch_b)?;
    require_contraction(k, k2)?;
    Ok(vec![TensorType::new(left.dtype, [batch_a, m, n])])
}

fn matmul(call: &Call<'_>) -> Inferred {
    let (left, right) = pair(call, "self", "other")?;
    let (batch_a, m, k) = match left.shape.as_slice() {
        [] => return Err(Error::invalid("`self` needs at least one dimension")),
        [k] => (&[][..], None, k),
        [batch @ .., m, k] => (batch, Some(m), k),
    };
    let (batch_b, k2, n) = match right.shape.as_slice() {
        [] => return Err(Error::invalid("`other` needs at least one dimension")),
        [k] => (&[][..], k, None),
        [batch @ .., k, n] => (batch, k, Some(n)),
    };
    require_contraction(k, k2)?;
    let mut shape = broadcast([batch_a, batch_b])?;
    shape.extend(m.into_iter().chain(n).cloned());
    Ok(vec![TensorType {
        dtype: left.dtype,
        shape,
    }])
}

fn linear(call: &Call<'_>) -> Inferred {
    let (input, weight) = pair(call, "input", "weight")?;
    let [rows @ .., k] = input.shape.as_slice() else {
        return Err(Error::invalid("`input` needs at least one dimension"));
    };
    let (k2, n) = match weight.shape.as_slice() {
        [k] => (k, None),
        [n, k] => (k, Some(n)),
        _ => {
            return Err(Error::invalid(format!(
                "`weight` must be a matrix [out, in], not {weight}"
            )));
        }
    };
    require_equal(
        "the last extent of the input",
        k,
        "the last extent of the weight",
        k2,
    )?;
    let mut shape = rows.to_vec();
    shape.extend(n.cloned());
    if let Some(bias) = call.opt_tensor("bias")? {
        require_rank("the weight of a biased product", &weight.shape, &[2])?;
        require_same("input", input.dtype, "bias", bias.dtype)?;
        require_shape(
            "the sum with the bias",
            &broadcast([shape.as_slice(), &bias.shape])?,
            &shape,
        )?;
    }
    Ok(vec![TensorType {
        dtype: input.dtype,
        shape,
    }])
}

/// Checks that `self` can be added to the result.
fn added(call: &Call<'_>, product: Inferred) -> Inferred {
    let product = product?;
    let own = call.tensor("self")?;
    for ty in &product {
        require_same("self", own.dtype, "the product", ty.dtype)?;
        require_shape(
            "the sum with `self`",
            &broadcast([ty.shape.as_slice(), &own.shape])?,
            &ty.shape,
        )?;
    }
    Ok(product)
}

fn addmm(call: &Call<'_>) -> Inferred {
    added(call, product(call, "mat1", "mat2"))
}

fn baddbmm(call: &Call<'_>) -> Inferred {
    added(call, batched_product(call, "batch1", "batch2"))
}

fn mv(call: &Call<'_>) -> Inferred {
    let (left, right) = pair(call, "self", "vec")?;
    let [m, k] = matrix("self", left)?;
    require_contraction(k, vector("vec", right)?)?;
    Ok(vec![TensorType::new(left.dtype, [m])])
}

fn dot(call: &Call<'_>) -> Inferred {
    let (left, right) = pair(call, "self", "tensor")?;
    require_contraction(vector("self", left)?, vector("tensor", right)?)?;
    Ok(vec![TensorType::new(left.dtype, [0i64; 0])])
}

fn outer(call: &Call<'_>) -> Inferred {
    let (left, right) = (call.tensor("self")?, call.tensor("vec2")?);
    let shape = [vector("self", left)?, vector("vec2", right)?];
    Ok(vec![TensorType::new(
        result_type(call, &["self", "vec2"])?,
        shape,
    )])
}

/// The labels of the operands and of the result of an `einsum`, `...` spelled out.
///
/// The dimensions under an ellipsis get the labels `0`, `1`, … counted from the last, so that they align like
/// broadcasting does.
pub(crate) struct Einsum {
    /// The labels of each operand's dimensions.
    pub(crate) operands: Vec<Vec<char>>,
    /// The labels of the result's dimensions.
    pub(crate) result: Vec<char>,
}

impl Einsum {
    /// Parses `equation` for operands of these ranks.
    pub(crate) fn parse(equation: &str, ranks: &[usize]) -> Result<Self> {
        let bad = |what: String| Error::invalid(format!("{what} in the einsum equation `{equation}`"));
        let text: String = equation.chars().filter(|c| *c != ' ').collect();
        let (inputs, result) = match text.split_once("->") {
            Some((inputs, result)) => (inputs, Some(result)),
            None => (text.as_str(), None),
        };
        let terms: Vec<&str> = inputs.split(',').collect();
        if terms.len() != ranks.len() {
            return Err(bad(format!("{} terms for {} operands", terms.len(), ranks.len())));
        }
        let mut hidden_rank = 0;
        let mut operands = Vec::with_capacity(terms.len());
        for (term, rank) in terms.into_iter().zip(ranks) {
            let letters = term.replacen("...", "", 1);
            let hidden = if letters.len() == term.len() {
                Some(0)
            } else {
                rank.checked_sub(letters.len())
            };
            let hidden = hidden
                .filter(|h| letters.len() + h == *rank && letters.chars().all(|c| c.is_ascii_alphabetic()))
                .ok_or_else(|| bad(format!("the term `{term}` does not fit {rank} dimensions")))?;
            hidden_rank = hidden_rank.max(hidden);
            operands.push(spell_out(term, hidden));
        }
        let result = match result {
            Some(result) => spell_out(result, hidden_rank),
            None => {
                let all = operands.concat();
                let mut once: Vec<char> = all
                    .iter()
                    .copied()
                    .filter(|c| c.is_ascii_alphabetic() && all.iter().filter(|d| *d == c).count() == 1)
                    .collect();
                once.sort_unstable();
                [spell_out("...", hidden_rank), once].concat()
            }
        };
        for (at, label) in result.iter().enumerate() {
            if result[..at].contains(label) || !operands.iter().any(|o| o.contains(label)) {
                return Err(bad(format!(
                    "the result label `{label}` is repeated or belongs to no operand"
                )));
            }
        }
        Ok(Self { operands, result })
    }
}

fn spell_out(term: &str, hidden: usize) -> Vec<char> {
    let hidden: String = (0..hidden)
        .rev()
        .filter_map(|i| char::from_digit(i as u32, 36))
        .collect();
    term.replacen("...", &hidden, 1).chars().collect()
}

fn einsum(call: &Call<'_>) -> Inferred {
    let types = call.tensors("tensors")?;
    let ranks: Vec<_> = types.iter().map(|t| t.rank()).collect();
    let einsum = Einsum::parse(call.str("equation")?, &ranks)?;
    let mut extents: BTreeMap<char, Expr> = BTreeMap::new();
    for (ty, labels) in types.iter().zip(&einsum.operands) {
        for (label, dim) in labels.iter().zip(&ty.shape) {
            let have = extents.entry(*label).or_insert_with(|| dim.clone());
            if have.is(1) {
                have.clone_from(dim);
            } else if !dim.is(1) {
                require_equal(
                    &format!("the extent of `{label}`"),
                    dim,
                    "what it is elsewhere",
                    have,
                )?;
            }
        }
    }
    let first = types
        .first()
        .ok_or_else(|| Error::invalid("einsum needs at least one operand"))?;
    for ty in &types {
        require_same("the first operand", first.dtype, "another", ty.dtype)?;
    }
    let shape = einsum.result.iter().filter_map(|label| extents.get(label));
    Ok(vec![TensorType::new(first.dtype, shape)])
}
