//! Pooling.

use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "max_pool1d.default(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], int[1] dilation=[1], bool ceil_mode=False) -> Tensor",
        max_pool,
    ),
    Row::new(
        "max_pool2d.default(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> Tensor",
        max_pool,
    ),
    Row::new(
        "max_pool3d.default(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> Tensor",
        max_pool,
    ),
    Row::new(
        "max_pool2d_with_indices.default(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, int[2] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
        max_pool_with_indices,
    ),
    Row::new(
        "max_pool3d_with_indices.default(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, int[3] dilation=1, bool ceil_mode=False) -> (Tensor, Tensor)",
        max_pool_with_indices,
    ),
    Row::new(
        "avg_pool1d.default(Tensor self, int[1] kernel_size, int[1] stride=[], int[1] padding=[0], bool ceil_mode=False, bool count_include_pad=True) -> Tensor",
        average_pool,
    ),
    Row::new(
        "avg_pool2d.default(Tensor self, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        average_pool,
    ),
    Row::new(
        "avg_pool3d.default(Tensor self, int[3] kernel_size, int[3] stride=[], int[3] padding=0, bool ceil_mode=False, bool count_include_pad=True, int? divisor_override=None) -> Tensor",
        average_pool,
    ),
    Row::new(
        "adaptive_avg_pool1d.default(Tensor self, int[1] output_size) -> Tensor",
        adaptive_pool,
    ),
    Row::new(
        "adaptive_avg_pool2d.default(Tensor self, SymInt[2] output_size) -> Tensor",
        adaptive_pool,
    ),
    Row::new(
        "adaptive_avg_pool3d.default(Tensor self, SymInt[3] output_size) -> Tensor",
        adaptive_pool,
    ),
    Row::new(
        "_adaptive_avg_pool2d.default(Tensor self, SymInt[2] output_size) -> Tensor",
        adaptive_pool,
    ),
    Row::new(
        "_adaptive_avg_pool3d.default(Tensor self, SymInt[3] output_size) -> Tensor",
        adaptive_pool,
    ),
    Row::new(
        "adaptive_max_pool1d.default(Tensor self, int[1] output_size) -> (Tensor, Tensor)",
        adaptive_pool_with_indices,
    ),
    Row::new(
        "adaptive_max_pool2d.default(Tensor self, int[2] output_size) -> (Tensor, Tensor)",
        adaptive_pool_with_indices,
    ),
    Row::new(
        "adaptive_max_pool3d.default(Tensor self, int[3] output_size) -> (Tensor, Tensor)",
        adaptive_pool_with_indices,
    ),
];

/// How the window of a pool moves along each dimension.
struct Window {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    ceil_mode: bool,
}

/// The number of pooled dimensions, the digit in the operator's name.
fn pooled_rank(call: &Call<'_>) -> usize {
    let digit = call.op().name().chars().find_map(|c| c.to_digit(10));
    digit.unwrap_or(2) as usize
}

/// The list `name` with a lone entry repeated for each of `count` dimensions.
fn spread(call: &Call<'_>, name: &str, count: usize, least: i64) -> Result<Vec<i64>> {
    let mut list = call.ints(name)?;
    if let [lone] = list.as_slice() {
        list = vec![*lone; count];
    }
    if list.len() == count && list.iter().all(|v| *v >= least) {
        return Ok(list);
    }
    Err(Error::invalid(format!(
        "{name} is {list:?}, expected one entry or {count}, each at least {least}"
    )))
}

impl Window {
    fn of(call: &Call<'_>) -> Result<Self> {
        let count = pooled_rank(call);
        let kernel = spread(call, "kernel_size", count, 1)?;
        let stride = if call.sizes("stride")?.is_empty() {
            kernel.clone()
        } else {
            spread(call, "stride", count, 1)?
        };
        let dilation = match call.opt_arg("dilation") {
            Some(_) => spread(call, "dilation", count, 1)?,
            None => vec![1; count],
        };
        let padding = spread(call, "padding", count, 0)?;
        for ((p, k), d) in padding.iter().zip(&kernel).zip(&dilation) {
            if *p > ((k - 1) * d + 1) / 2 {
                return Err(Error::invalid(format!(
                    "padding {p} is more than half the window of {k}"
                )));
            }
        }
        Ok(Self {
            kernel,
            stride,
            padding,
            dilation,
            ceil_mode: call.bool("ceil_mode")?,
        })
    }

    fn output_extent(&self, at: usize, extent: &Expr) -> Expr {
        let get = |list: &[i64]| Expr::constant(list.get(at).copied().unwrap_or(1));
        let (stride, padding) = (get(&self.stride), get(&self.padding));
        let reach = get(&self.dilation) * (get(&self.kernel) - 1);
        let room = extent + &(&padding + &padding) - reach - 1;
        if !self.ceil_mode {
            return room.floor_div(&stride) + 1;
        }
        // Every window must start inside the tensor or its left padding.
        (room.ceil_div(&stride) + 1).minimum(&(extent + &padding).ceil_div(&stride))
    }
}

/// The operand, checked, split into the leading dimensions and those that are pooled.
fn operand<'a>(call: &Call<'a>) -> Result<(&'a TensorType, &'a [Expr], &'a [Expr])> {
    let ty = call.tensor("self")?;
    let count = pooled_rank(call);
    require_float("self", ty.dtype)?;
    require_rank("self", &ty.shape, &[count + 1, count + 2])?;
    let (leading, pooled) = ty.shape.split_at(ty.rank() - count);
    if let Some(channels) = ty.shape.iter().skip(leading.len() - 1).find(|d| d.is(0)) {
        return Err(Error::invalid(format!(
            "{ty} has the empty extent {channels} besides its batch"
        )));
    }
    Ok((ty, leading, pooled))
}

fn max_pool(call: &Call<'_>) -> Inferred {
    let (ty, leading, pooled) = operand(call)?;
    let window = Window::of(call)?;
    let mut shape = leading.to_vec();
    for (at, extent) in pooled.iter().enumerate() {
        let out = window.output_extent(at, extent);
        if out.as_const().is_some_and(|v| v <= 0) {
            return Err(Error::invalid(format!(
                "pooled dimension {at} of {ty} would have the extent {out}"
            )));
        }
        shape.push(out);
    }
    Ok(vec![TensorType {
        dtype: ty.dtype,
        shape,
    }])
}

fn max_pool_with_indices(call: &Call<'_>) -> Inferred {
    with_indices(max_pool(call)?)
}

fn with_indices(mut types: Vec<TensorType>) -> Inferred {
    let indices = types.iter().map(|t| TensorType {
        dtype: DType::I64,
        shape: t.shape.clone(),
    });
    types.extend(indices.collect::<Vec<_>>());
    Ok(types)
}

/// In three dimensions PyTorch wants room for the window before padding.
fn average_pool(call: &Call<'_>) -> Inferred {
    if call.opt_arg("divisor_override").is_some() && call.opt_int("divisor_override")? == Some(0) {
        return Err(Error::invalid("divisor_override must not be 0"));
    }
    let types = max_pool(call)?;
    if pooled_rank(call) == 3 {
        let (_, _, pooled) = operand(call)?;
        for (extent, kernel) in pooled.iter().zip(spread(call, "kernel_size", 3, 1)?) {
            if extent.as_const().is_some_and(|v| v < kernel) {
                return Err(Error::invalid(format!(
                    "the extent {extent} is smaller than the window of {kernel}"
                )));
            }
        }
    }
    Ok(types)
}

fn adaptive_pool(call: &Call<'_>) -> Inferred {
    let (ty, leading, pooled) = operand(call)?;
    let size = call.sizes("output_size")?;
    if size.len() != pooled.len() {
        return Err(Error::invalid(format!(
            "output_size {} must have {} entries",
            list(size),
            pooled.len()
        )));
    }
    require_non_negative("output_size", size)?;
    Ok(vec![TensorType {
        dtype: ty.dtype,
        shape: [leading, size].concat(),
    }])
}

fn adaptive_pool_with_indices(call: &Call<'_>) -> Inferred {
    with_indices(adaptive_pool(call)?)
}
