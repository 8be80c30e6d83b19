//! Normalization.

use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "batch_norm.default(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, float momentum, float eps, bool cudnn_enabled) -> Tensor",
        batch_norm,
    ),
    Row::new(
        "instance_norm.default(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
        instance_norm,
    ),
    Row::new(
        "group_norm.default(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enabled=True) -> Tensor",
        group_norm,
    ),
    Row::new(
        "layer_norm.default(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, bool cudnn_enable=True) -> Tensor",
        layer_norm,
    ),
    Row::new(
        "rms_norm.default(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
        rms_norm,
    ),
    Row::new(
        "native_layer_norm.default(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> (Tensor, Tensor, Tensor)",
        native_layer_norm,
    ),
    Row::new(
        "native_group_norm.default(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, SymInt HxW, int group, float eps) -> (Tensor, Tensor, Tensor)",
        native_group_norm,
    ),
    Row::new(
        "_native_batch_norm_legit.no_stats(Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
        batch_norm_with_statistics,
    ),
    Row::new(
        "_native_batch_norm_legit_functional.default(Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor, Tensor running_mean_out, Tensor running_var_out)",
        batch_norm_functional,
    ),
];

/// Checks an optional scale, shift or statistic.
fn check_parameter(call: &Call<'_>, name: &str, input: &TensorType, shape: &[Expr]) -> Result<()> {
    let Some(ty) = call.opt_tensor(name)? else {
        return Ok(());
    };
    require_shape(name, &ty.shape, shape)?;
    // Half-precision inputs may come with f32 parameters.
    if ty.dtype != DType::F32 || !matches!(input.dtype, DType::F16 | DType::BF16) {
        require_same("input", input.dtype, name, ty.dtype)?;
    }
    Ok(())
}

/// The input of a norm over channels, with its number of channels.
fn channels<'a>(call: &Call<'a>, least_rank: usize, parameters: &[&str]) -> Result<(&'a TensorType, Expr)> {
    let ty = call.tensor("input")?;
    require_float("input", ty.dtype)?;
    if ty.rank() < least_rank {
        return Err(Error::invalid(format!(
            "input must have at least {least_rank} dimensions, not {ty}"
        )));
    }
    let count = extent(&ty.shape, 1);
    for name in parameters {
        check_parameter(call, name, ty, std::slice::from_ref(&count))?;
    }
    Ok((ty, count))
}

fn batch_norm(call: &Call<'_>) -> Inferred {
    let (ty, _) = channels(call, 2, &["weight", "bias", "running_mean", "running_var"])?;
    if !(call.bool("training")? || call.has("running_mean")? && call.has("running_var")?) {
        return Err(Error::invalid(
            "running_mean and running_var must be given when not training",
        ));
    }
    Ok(vec![ty.clone()])
}

fn instance_norm(call: &Call<'_>) -> Inferred {
    let (ty, _) = channels(call, 2, &["weight", "bias", "running_mean", "running_var"])?;
    if !(call.bool("use_input_stats")? || call.has("running_mean")? && call.has("running_var")?) {
        return Err(Error::invalid(
            "running_mean and running_var must be given without use_input_stats",
        ));
    }
    Ok(vec![ty.clone()])
}

fn batch_norm_with_statistics(call: &Call<'_>) -> Inferred {
    let (ty, count) = channels(call, 2, &["weight", "bias"])?;
    let saved = saved_statistics(call, ty, &count)?;
    Ok(vec![ty.clone(), saved.clone(), saved])
}

/// The type of the batch statistics that are kept for the backward pass; empty when not training.
fn saved_statistics(call: &Call<'_>, ty: &TensorType, count: &Expr) -> Result<TensorType> {
    let dtype = call.opt_tensor("weight")?.map_or(ty.dtype, |w| w.dtype);
    let count = if call.bool("training")? {
        count.clone()
    } else {
        Expr::constant(0)
    };
    Ok(TensorType::new(dtype, [count]))
}

fn batch_norm_functional(call: &Call<'_>) -> Inferred {
    let (ty, count) = channels(call, 2, &["weight", "bias", "running_mean", "running_var"])?;
    let saved = saved_statistics(call, ty, &count)?;
    let (mean, var) = (call.tensor("running_mean")?, call.tensor("running_var")?);
    Ok(vec![ty.clone(), saved.clone(), saved, mean.clone(), var.clone()])
}

fn require_groups(count: &Expr, groups: i64) -> Result<()> {
    if groups > 0 && count.exact_div(&Expr::constant(groups)).is_some() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{count} channels do not divide into {groups} groups"
    )))
}

fn group_norm(call: &Call<'_>) -> Inferred {
    let (ty, count) = channels(call, 2, &["weight", "bias"])?;
    require_groups(&count, call.int("num_groups")?)?;
    Ok(vec![ty.clone()])
}

fn native_group_norm(call: &Call<'_>) -> Inferred {
    let (ty, count) = channels(call, 2, &["weight", "bias"])?;
    let groups = call.int("group")?;
    require_groups(&count, groups)?;
    let batch = extent(&ty.shape, 0);
    let spatial = element_count(ty.shape.get(2..).unwrap_or_default());
    for (name, actual) in [("N", &batch), ("C", &count), ("HxW", &spatial)] {
        require_equal(name, call.size(name)?, "the input's", actual)?;
    }
    let dtype = call.opt_tensor("weight")?.map_or(ty.dtype, |w| w.dtype);
    let saved = TensorType::new(dtype, [batch, Expr::constant(groups)]);
    Ok(vec![ty.clone(), saved.clone(), saved])
}

/// The input of a norm over the last dimensions, with its leading extents.
fn leading<'a>(call: &Call<'a>) -> Result<(&'a TensorType, &'a [Expr])> {
    let ty = call.tensor("input")?;
    require_float("input", ty.dtype)?;
    let normalized = call.sizes("normalized_shape")?;
    let split = ty
        .rank()
        .checked_sub(normalized.len())
        .filter(|_| !normalized.is_empty());
    let parts = split.and_then(|at| ty.shape.split_at_checked(at));
    let leading = parts
        .filter(|(_, last)| *last == normalized)
        .map(|(leading, _)| leading);
    let leading = leading.ok_or_else(|| {
        Error::invalid(format!(
            "the last dimensions of {ty} are not normalized_shape {}",
            list(normalized)
        ))
    })?;
    Ok((ty, leading))
}

fn rms_norm(call: &Call<'_>) -> Inferred {
    let (ty, _) = leading(call)?;
    if let Some(weight) = call.opt_tensor("weight")? {
        require_shape("weight", &weight.shape, call.sizes("normalized_shape")?)?;
    }
    Ok(vec![ty.clone()])
}

fn layer_norm(call: &Call<'_>) -> Inferred {
    let (ty, _) = leading(call)?;
    for name in ["weight", "bias"] {
        check_parameter(call, name, ty, call.sizes("normalized_shape")?)?;
    }
    Ok(vec![ty.clone()])
}

fn native_layer_norm(call: &Call<'_>) -> Inferred {
    layer_norm(call)?;
    let (ty, leading) = leading(call)?;
    let ones = ty.rank() - leading.len();
    let shape = leading
        .iter()
        .cloned()
        .chain(std::iter::repeat_n(Expr::constant(1), ones));
    let dtype = call.opt_tensor("weight")?.map_or(ty.dtype, |w| w.dtype);
    let saved = TensorType::new(dtype, shape);
    Ok(vec![ty.clone(), saved.clone(), saved])
}
