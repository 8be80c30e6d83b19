//! Losses.

use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "cross_entropy_loss.default(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100, float label_smoothing=0.0) -> Tensor",
        cross_entropy,
    ),
    Row::new(
        "nll_loss.default(Tensor self, Tensor target, Tensor? weight=None, int reduction=1, SymInt ignore_index=-100) -> Tensor",
        nll,
    ),
    Row::new(
        "kl_div.default(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
        divergence,
    ),
    Row::new(
        "smooth_l1_loss.default(Tensor self, Tensor target, int reduction=1, float beta=1.0) -> Tensor",
        elementwise,
    ),
    Row::new(
        "huber_loss.default(Tensor self, Tensor target, int reduction=1, float delta=1.0) -> Tensor",
        huber,
    ),
    Row::new(
        "mse_loss.default(Tensor self, Tensor target, int reduction=1) -> Tensor",
        elementwise,
    ),
    Row::new(
        "l1_loss.default(Tensor self, Tensor target, int reduction=1) -> Tensor",
        absolute,
    ),
    Row::new(
        "binary_cross_entropy.default(Tensor self, Tensor target, Tensor? weight=None, int reduction=1) -> Tensor",
        binary_cross_entropy,
    ),
    Row::new(
        "binary_cross_entropy_with_logits.default(Tensor self, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, int reduction=1) -> Tensor",
        binary_cross_entropy_with_logits,
    ),
    Row::new(
        "triplet_margin_loss.default(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, float eps=1e-06, bool swap=False, int reduction=1) -> Tensor",
        triplet_margin,
    ),
    Row::new(
        "cosine_similarity.default(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor",
        cosine_similarity,
    ),
];

fn one(dtype: DType, shape: impl Into<Vec<Expr>>) -> Inferred {
    Ok(vec![TensorType {
        dtype,
        shape: shape.into(),
    }])
}

/// ATen's numbers for what becomes of the element-wise losses: 0 keeps them, 1 is their mean, 2 their sum.
fn reduced(call: &Call<'_>, dtype: DType, shape: Vec<Expr>) -> Inferred {
    match call.int("reduction")? {
        0 => one(dtype, shape),
        1 | 2 => one(dtype, []),
        other => Err(Error::invalid(format!(
            "reduction is {other}, expected 0 (none), 1 (mean) or 2 (sum)"
        ))),
    }
}

/// Losses of the type in which the operands meet.
fn elementwise(call: &Call<'_>) -> Inferred {
    let dtype = result_type(call, &["self", "target"])?;
    reduced(
        call,
        require_float("the common type of the operands", dtype)?,
        common_shape(call)?,
    )
}

fn common_shape(call: &Call<'_>) -> Result<Vec<Expr>> {
    let (input, target) = (call.tensor("self")?, call.tensor("target")?);
    broadcast([input.shape.as_slice(), &target.shape])
}

fn absolute(call: &Call<'_>) -> Inferred {
    let dtype = result_type(call, &["self", "target"])?;
    if call.int("reduction")? == 1 {
        require_float("the type of a mean", dtype)?;
    }
    reduced(
        call,
        reject_bool("the common type of the operands", dtype)?,
        common_shape(call)?,
    )
}

fn huber(call: &Call<'_>) -> Inferred {
    let dtype = require_float("self", call.tensor("self")?.dtype)?;
    reduced(call, dtype, common_shape(call)?)
}

fn divergence(call: &Call<'_>) -> Inferred {
    require_float("self", call.tensor("self")?.dtype)?;
    require_float("target", call.tensor("target")?.dtype)?;
    elementwise(call)
}

/// Checks that the arguments `names` broadcast to the shape of `self`.
fn require_fitting(call: &Call<'_>, names: &[&str]) -> Result<()> {
    let input = call.tensor("self")?;
    for name in names {
        if let Some(ty) = call.opt_tensor(name)? {
            let shape = broadcast([input.shape.as_slice(), &ty.shape])?;
            require_shape(&format!("self with {name}"), &shape, &input.shape)?;
        }
    }
    Ok(())
}

fn binary_cross_entropy(call: &Call<'_>) -> Inferred {
    let (input, target) = (call.tensor("self")?, call.tensor("target")?);
    require_float("self", input.dtype)?;
    require_same("self", input.dtype, "target", target.dtype)?;
    require_fitting(call, &["target", "weight"])?;
    reduced(call, input.dtype, input.shape.clone())
}

/// The result has the type of the target, into which PyTorch accumulates.
fn binary_cross_entropy_with_logits(call: &Call<'_>) -> Inferred {
    let (input, target) = (call.tensor("self")?, call.tensor("target")?);
    require_float("self", input.dtype)?;
    require_float("target", target.dtype)?;
    require_shape("target", &target.shape, &input.shape)?;
    require_fitting(call, &["weight", "pos_weight"])?;
    reduced(call, target.dtype, input.shape.clone())
}

/// The number of classes of `[C]` or `[N, C, ...]` scores, and their shape without it.
fn classes(ty: &TensorType) -> Result<(Expr, Vec<Expr>)> {
    require_float("self", ty.dtype)?;
    if ty.rank() == 0 {
        return Err(Error::invalid("self must have a dimension of classes"));
    }
    let at = usize::from(ty.rank() > 1);
    let mut rest = ty.shape.clone();
    Ok((rest.remove(at), rest))
}

fn check_class_weights(call: &Call<'_>, ty: &TensorType, classes: &Expr) -> Result<()> {
    if let Some(weight) = call.opt_tensor("weight")? {
        require_same("self", ty.dtype, "weight", weight.dtype)?;
        require_shape("weight", &weight.shape, std::slice::from_ref(classes))?;
    }
    Ok(())
}

/// Losses for class indices, one for each sample.
fn indexed(call: &Call<'_>) -> Inferred {
    let (ty, target) = (call.tensor("self")?, call.tensor("target")?);
    let (classes, samples) = classes(ty)?;
    check_class_weights(call, ty, &classes)?;
    if target.dtype != DType::I64 && target.dtype != DType::U8 {
        return Err(Error::invalid(format!(
            "class indices must be i64 or u8, not {}",
            target.dtype
        )));
    }
    require_shape("target", &target.shape, &samples)?;
    reduced(call, ty.dtype, samples)
}

fn nll(call: &Call<'_>) -> Inferred {
    require_rank("self", &call.tensor("self")?.shape, &[1, 2])?;
    indexed(call)
}

fn cross_entropy(call: &Call<'_>) -> Inferred {
    let (ty, target) = (call.tensor("self")?, call.tensor("target")?);
    if !target.dtype.is_float() {
        return indexed(call);
    }
    let (classes, samples) = classes(ty)?;
    check_class_weights(call, ty, &classes)?;
    require_shape("target (class probabilities)", &target.shape, &ty.shape)?;
    reduced(call, ty.dtype.promote(target.dtype), samples)
}

fn triplet_margin(call: &Call<'_>) -> Inferred {
    let types = [
        call.tensor("anchor")?,
        call.tensor("positive")?,
        call.tensor("negative")?,
    ];
    let [anchor, ..] = types;
    if types.iter().any(|t| t.rank() != anchor.rank()) {
        return Err(Error::invalid(
            "anchor, positive and negative must have the same number of dimensions",
        ));
    }
    let dtype = require_float(
        "the common type",
        result_type(call, &["anchor", "positive", "negative"])?,
    )?;
    let mut shape = broadcast(types.iter().map(|t| t.shape.as_slice()))?;
    shape.pop();
    reduced(call, dtype, shape)
}

fn cosine_similarity(call: &Call<'_>) -> Inferred {
    let (a, b) = (call.tensor("x1")?, call.tensor("x2")?);
    let dtype = require_float("the common type", result_type(call, &["x1", "x2"])?)?;
    let mut shape = broadcast([a.shape.as_slice(), &b.shape])?;
    let at = axis(call.int("dim")?, shape.len())?;
    if at < shape.len() {
        shape.remove(at);
    }
    one(dtype, shape)
}
