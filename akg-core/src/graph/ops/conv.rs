//! Convolutions.

use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "conv1d.default(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], \
         SymInt[1] padding=[0], SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
        convolution,
    ),
    Row::new(
        "conv2d.default(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], \
         SymInt[2] padding=[0, 0], SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
        convolution,
    ),
    Row::new(
        "conv3d.default(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], \
         SymInt[3] padding=[0, 0, 0], SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
        convolution,
    ),
    Row::new(
        "conv1d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], \
         str padding='valid', SymInt[1] dilation=[1], SymInt groups=1) -> Tensor",
        padded_convolution,
    ),
    Row::new(
        "conv2d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], \
         str padding='valid', SymInt[2] dilation=[1, 1], SymInt groups=1) -> Tensor",
        padded_convolution,
    ),
    Row::new(
        "conv3d.padding(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, 1], \
         str padding='valid', SymInt[3] dilation=[1, 1, 1], SymInt groups=1) -> Tensor",
        padded_convolution,
    ),
    Row::new(
        "conv_transpose1d.default(Tensor input, Tensor weight, Tensor? bias=None, SymInt[1] stride=[1], \
         SymInt[1] padding=[0], SymInt[1] output_padding=[0], SymInt groups=1, \
         SymInt[1] dilation=[1]) -> Tensor",
        transposed_convolution,
    ),
    Row::new(
        "conv_transpose2d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=[1, 1], \
         SymInt[2] padding=[0, 0], SymInt[2] output_padding=[0, 0], SymInt groups=1, \
         SymInt[2] dilation=[1, 1]) -> Tensor",
        transposed_convolution,
    ),
    Row::new(
        "conv_transpose3d.input(Tensor input, Tensor weight, Tensor? bias=None, SymInt[3] stride=[1, 1, \
         1], SymInt[3] padding=[0, 0, 0], SymInt[3] output_padding=[0, 0, 0], SymInt groups=1, \
         SymInt[3] dilation=[1, 1, 1]) -> Tensor",
        transposed_convolution,
    ),
    Row::new(
        "convolution.default(Tensor input, Tensor weight, Tensor? bias, SymInt[] stride, \
         SymInt[] padding, SymInt[] dilation, bool transposed, SymInt[] output_padding, \
         SymInt groups) -> Tensor",
        any_convolution,
    ),
];

/// How the window moves along each spatial dimension.
struct Geometry {
    stride: Vec<i64>,
    padding: Padding,
    dilation: Vec<i64>,
    /// Given for transposed convolutions.
    output_padding: Option<Vec<i64>>,
}

enum Padding {
    /// The same on both sides of each dimension.
    Each(Vec<i64>),
    /// As much as keeps the extents.
    Same,
}

/// The number of spatial dimensions: what the operator's name says, or the weight's.
fn spatial_rank(call: &Call<'_>) -> Result<usize> {
    let weight = call.tensor("weight")?;
    let named = call.op().base_name();
    let named = named
        .strip_suffix('d')
        .and_then(|n| n.chars().last()?.to_digit(10));
    let wanted = named.map_or_else(|| vec![3, 4, 5], |n| vec![n as usize + 2]);
    require_rank("weight", &weight.shape, &wanted)?;
    Ok(weight.rank() - 2)
}

fn convolution(call: &Call<'_>) -> Inferred {
    let count = spatial_rank(call)?;
    let geometry = Geometry {
        stride: call.per_dimension("stride", count, 1)?,
        padding: Padding::Each(call.per_dimension("padding", count, 0)?),
        dilation: call.per_dimension("dilation", count, 1)?,
        output_padding: None,
    };
    convolved(call, &geometry)
}

fn padded_convolution(call: &Call<'_>) -> Inferred {
    let count = spatial_rank(call)?;
    let stride = call.per_dimension("stride", count, 1)?;
    let padding = match call.str("padding")? {
        "valid" => Padding::Each(vec![0; count]),
        "same" if stride.iter().all(|s| *s == 1) => Padding::Same,
        "same" => return Err(Error::invalid("padding `same` needs a stride of 1")),
        other => {
            return Err(Error::invalid(format!(
                "padding is `{other}`, expected `valid`, `same` or numbers"
            )));
        }
    };
    let dilation = call.per_dimension("dilation", count, 1)?;
    convolved(
        call,
        &Geometry {
            stride,
            padding,
            dilation,
            output_padding: None,
        },
    )
}

fn transposed_convolution(call: &Call<'_>) -> Inferred {
    let count = spatial_rank(call)?;
    let geometry = Geometry {
        stride: call.per_dimension("stride", count, 1)?,
        padding: Padding::Each(call.per_dimension("padding", count, 0)?),
        dilation: call.per_dimension("dilation", count, 1)?,
        output_padding: Some(call.per_dimension("output_padding", count, 0)?),
    };
    convolved(call, &geometry)
}

fn any_convolution(call: &Call<'_>) -> Inferred {
    let batched = call.tensor("weight")?.rank();
    require_rank("input", &call.tensor("input")?.shape, &[batched])?;
    if call.bool("transposed")? {
        transposed_convolution(call)
    } else {
        convolution(call)
    }
}

fn convolved(call: &Call<'_>, geometry: &Geometry) -> Inferred {
    let (input, weight) = (call.tensor("input")?, call.tensor("weight")?);
    require_same("input", input.dtype, "weight", weight.dtype)?;
    require_float("input", input.dtype)?;
    require_rank("input", &input.shape, &[weight.rank() - 1, weight.rank()])?;
    let [first, second, kernel @ ..] = weight.shape.as_slice() else {
        return Err(Error::invalid(format!("weight {weight} has no kernel")));
    };
    let groups = call.int("groups")?;
    if groups <= 0 || first.exact_div(&Expr::constant(groups)).is_none() {
        return Err(Error::invalid(format!(
            "{first} channels of the weight do not divide into {groups} groups"
        )));
    }
    let grouped = second * &Expr::constant(groups);
    let (in_channels, out_channels) = match geometry.output_padding {
        Some(_) => (first, &grouped),
        None => (&grouped, first),
    };
    let spatial_start = input.rank() - kernel.len();
    let (leading, spatial) = input.shape.split_at(spatial_start);
    let channels = extent(leading, spatial_start - 1);
    require_equal(
        "the number of input channels",
        &channels,
        "what the weight expects",
        in_channels,
    )?;
    if let Some(bias) = call.opt_tensor("bias")? {
        require_same("input", input.dtype, "bias", bias.dtype)?;
        require_shape("bias", &bias.shape, std::slice::from_ref(out_channels))?;
    }
    let mut shape = with_extent(leading, spatial_start - 1, out_channels.clone());
    for (at, (extent, kernel)) in spatial.iter().zip(kernel).enumerate() {
        shape.push(geometry.output_extent(at, extent, kernel)?);
    }
    Ok(vec![TensorType {
        dtype: input.dtype,
        shape,
    }])
}

impl Geometry {
    fn output_extent(&self, at: usize, extent: &Expr, kernel: &Expr) -> Result<Expr> {
        let get = |list: &[i64]| Expr::constant(list.get(at).copied().unwrap_or_default());
        let Padding::Each(padding) = &self.padding else {
            return Ok(extent.clone());
        };
        let (stride, padding) = (get(&self.stride), get(padding) * 2);
        let reach = get(&self.dilation) * (kernel.clone() - 1);
        let out = match &self.output_padding {
            None => {
                let room = extent + &padding - reach - 1;
                if room.as_const().is_some_and(|v| v < 0) {
                    return Err(Error::invalid(format!(
                        "a padded extent of {} is smaller than the kernel",
                        extent + &padding
                    )));
                }
                room.floor_div(&stride) + 1
            }
            Some(list) => {
                let extra = get(list);
                let limit = stride.maximum(&get(&self.dilation));
                if extra >= limit {
                    return Err(Error::invalid(format!(
                        "output_padding {extra} is not smaller than stride or dilation, {limit}"
                    )));
                }
                (extent.clone() - 1) * stride - padding + reach + extra + 1
            }
        };
        if out.as_const().is_some_and(|v| v <= 0) {
            return Err(Error::invalid(format!(
                "output dimension {at} would have the extent {out}"
            )));
        }
        Ok(out)
    }
}
