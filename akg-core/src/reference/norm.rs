//! Normalisation.

use super::array::Array;
use super::fold::{fold, row_moments, sum, sum_over};
use super::invocation::{Invocation, Kernel, Results};
use super::parallel::lines;
use super::real::Real;
use super::strided::Strided;
use crate::dtype::DType;
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "layer_norm.default" | "native_layer_norm.default" => layer_norm,
        "rms_norm.default" => rms_norm,
        "group_norm.default" => |c| {
            let groups = c.int("num_groups")? as usize;
            group_norm(c, groups)
        },
        "native_group_norm.default" => |c| {
            let groups = c.int("group")? as usize;
            group_norm(c, groups)
        },
        "instance_norm.default" => |c| {
            if !c.flag("use_input_stats")? {
                return batch_norm(c, false);
            }
            group_norm(c, 0)
        },
        "batch_norm.default"
        | "_native_batch_norm_legit.no_stats"
        | "_native_batch_norm_legit_functional.default" => |c| {
            let training = c.flag("training")?;
            batch_norm(c, training)
        },
        _ => return None,
    };
    Some(kernel)
}

/// Scale and shift of one stretch of elements.
#[derive(Clone, Copy)]
struct Affine<T> {
    mean: T,
    scale: T,
    weight: Option<T>,
    bias: Option<T>,
}

impl<T: Real> Affine<T> {
    fn apply(self, x: T) -> T {
        let x = (x - self.mean) * self.scale;
        let x = self.weight.map_or(x, |w| x * w);
        self.bias.map_or(x, |b| x + b)
    }
}

/// `1 / sqrt(variance + eps)` with its mean.
fn scales<T: Real>(moments: Vec<(T, T)>, eps: T) -> Vec<(T, T)> {
    moments
        .into_iter()
        .map(|(mean, variance)| (mean, (variance + eps).sqrt().recip()))
        .collect()
}

fn parameter<T: Real>(c: &mut Invocation<'_, T>, name: &str) -> Result<Option<Vec<T>>> {
    Ok(if c.has(name) {
        Some(c.float(name)?.into_vec())
    } else {
        None
    })
}

fn layer_norm<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let (weight, bias) = (parameter(c, "weight")?, parameter(c, "bias")?);
    let eps = c.number("eps")?;
    let len: usize = c.counts("normalized_shape")?.into_iter().product();
    let x = c.float("input")?;
    let shape = x.shape().to_vec();
    let mut values = x.into_vec();
    let moments = scales(row_moments(&values, len), eps);
    lines(&mut values, len, &|at, row| {
        let (mean, scale) = moments[at];
        for (i, x) in row.iter_mut().enumerate() {
            let (weight, bias) = (weight.as_ref().map(|w| w[i]), bias.as_ref().map(|b| b[i]));
            *x = Affine {
                mean,
                scale,
                weight,
                bias,
            }
            .apply(*x);
        }
    });
    finish(c, Strided::new(shape, values), moments)
}

/// The normalised tensor, and means and scales where the operator returns them.
fn finish<T: Real>(c: &Invocation<'_, T>, out: Strided<T>, moments: Vec<(T, T)>) -> Results<T> {
    let mut results = vec![Array::float(c.dtype(0)?, out)];
    if c.results() > 1 {
        let (means, scales): (Vec<T>, Vec<T>) = moments.into_iter().unzip();
        results.push(Array::float(c.dtype(1)?, Strided::new(c.shape(1)?, means)));
        results.push(Array::float(c.dtype(2)?, Strided::new(c.shape(2)?, scales)));
    }
    Ok(results)
}

fn rms_norm<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let weight = parameter(c, "weight")?;
    let eps = match c.opt_number("eps")? {
        Some(eps) => eps,
        None => default_eps(c.dtype(0)?),
    };
    let len: usize = c.counts("normalized_shape")?.into_iter().product();
    let x = c.float("input")?;
    let shape = x.shape().to_vec();
    let mut values = x.into_vec();
    lines(&mut values, len, &|_, row| {
        let mut squares: Vec<T> = row.iter().map(|x| *x * *x).collect();
        let scale = (sum(&mut squares) / T::of_int(len as i64) + eps).sqrt().recip();
        for (i, x) in row.iter_mut().enumerate() {
            *x *= scale;
            if let Some(weight) = &weight {
                *x *= weight[i];
            }
        }
    });
    Ok(vec![Array::float(c.dtype(0)?, Strided::new(shape, values))])
}

/// The spacing of the numbers at 1 of the type that ATen normalises `dtype` in.
fn default_eps<T: Real>(dtype: DType) -> T {
    let roundoff = match dtype {
        DType::F64 => dtype.unit_roundoff(),
        _ => DType::F32.unit_roundoff(),
    };
    T::of(2.0 * roundoff.unwrap_or_default())
}

/// Normalises groups of channels of each sample; no groups mean each channel by itself.
fn group_norm<T: Real>(c: &mut Invocation<'_, T>, groups: usize) -> Results<T> {
    let (weight, bias) = (parameter(c, "weight")?, parameter(c, "bias")?);
    let eps = c.number("eps")?;
    let x = c.float("input")?;
    let shape = x.shape().to_vec();
    let channels = shape[1];
    let groups = if groups == 0 { channels } else { groups };
    let spatial: usize = shape[2..].iter().product();
    let per_group = channels / groups.max(1);
    let mut values = x.into_vec();
    let mut moments = row_moments(&values, per_group * spatial);
    if values.is_empty() {
        moments = vec![(T::zero(), T::nan()); shape[0] * groups];
    }
    let moments = scales(moments, eps);
    lines(&mut values, spatial, &|at, run| {
        let (mean, scale) = moments[at / per_group];
        let channel = at % channels;
        let (weight, bias) = (
            weight.as_ref().map(|w| w[channel]),
            bias.as_ref().map(|b| b[channel]),
        );
        let affine = Affine {
            mean,
            scale,
            weight,
            bias,
        };
        for x in &mut *run {
            *x = affine.apply(*x);
        }
    });
    finish(c, Strided::new(shape, values), moments)
}

/// Normalises each channel over the batch, by its own statistics if `training`, else by the running ones.
fn batch_norm<T: Real>(c: &mut Invocation<'_, T>, training: bool) -> Results<T> {
    let (weight, bias) = (parameter(c, "weight")?, parameter(c, "bias")?);
    let (running_mean, running_var) = (parameter(c, "running_mean")?, parameter(c, "running_var")?);
    let (eps, momentum) = (c.number("eps")?, c.number("momentum")?);
    let x = c.float("input")?;
    let shape = x.shape().to_vec();
    let channels = shape[1];
    let axes: Vec<usize> = (0..shape.len()).filter(|a| *a != 1).collect();
    let count = T::of_int(axes.iter().map(|&a| shape[a] as i64).product());
    let statistics: Vec<(T, T)> = if training {
        let means: Vec<T> = sum_over(&x, &axes, |e, _| e)
            .into_iter()
            .map(|s| s / count)
            .collect();
        let term = |e: T, channel: usize, _| (e - means[channel]) * (e - means[channel]);
        let squares = fold(&x, &axes, term, |a, b| a + b, T::zero());
        means
            .iter()
            .copied()
            .zip(squares.into_iter().map(|s| s / count))
            .collect()
    } else {
        match (&running_mean, &running_var) {
            (Some(mean), Some(var)) => mean.iter().copied().zip(var.iter().copied()).collect(),
            _ => {
                return Err(Error::invalid(
                    "normalising by running statistics needs running_mean and running_var",
                ));
            }
        }
    };
    let moments = scales(statistics.clone(), eps);
    let spatial: usize = shape[2..].iter().product();
    let mut values = x.into_vec();
    lines(&mut values, spatial, &|at, run| {
        let channel = at % channels;
        let (mean, scale) = moments[channel];
        let (weight, bias) = (
            weight.as_ref().map(|w| w[channel]),
            bias.as_ref().map(|b| b[channel]),
        );
        let affine = Affine {
            mean,
            scale,
            weight,
            bias,
        };
        for x in &mut *run {
            *x = affine.apply(*x);
        }
    });

    let saved = if training { moments } else { Vec::new() };
    let mut results = finish(c, Strided::new(shape, values), saved)?;
    if let (Some(mut mean), Some(mut var), 5) = (running_mean, running_var, c.results()) {
        if training {
            let unbiased = count / (count - T::one());
            for (channel, (batch_mean, batch_var)) in statistics.into_iter().enumerate() {
                mean[channel] = momentum * batch_mean + (T::one() - momentum) * mean[channel];
                var[channel] = momentum * batch_var * unbiased + (T::one() - momentum) * var[channel];
            }
        }
        results.push(Array::float(c.dtype(3)?, Strided::new(c.shape(3)?, mean)));
        results.push(Array::float(c.dtype(4)?, Strided::new(c.shape(4)?, var)));
    }
    Ok(results)
}
