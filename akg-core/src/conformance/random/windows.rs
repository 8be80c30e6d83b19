//! Convolutions and pools.

use crate::error::Result;
use crate::graph::{Arg, Conv, ValueId};

use super::grow::{Grower, WORK, closed};

/// An image of so many spatial dimensions, and how many of its extents are not spatial.
fn image(g: &mut Grower, spatial: i64) -> Result<ValueId> {
    let old = g.value(|g, v| {
        let fits = (g.rank(v) == spatial + 2 || g.rank(v) == spatial + 1) && g.dtype(v).is_float();
        fits && g.shape(v).iter().all(|d| *d < 200)
    });
    if let Ok(old) = old
        && g.chance(0.5)
    {
        return Ok(old);
    }
    let mut shape = vec![1 + g.below(3), g.pick(&[1, 2, 3, 4, 6, 8, 16])?];
    if g.chance(0.1) {
        shape.remove(0);
    }
    let mut room = 3000 / shape.iter().product::<i64>();
    for i in 0..spatial {
        let extent = if i + 2 < spatial { g.small() } else { g.extent() };
        let extent = extent.min(room).min(40);
        room = (room / extent).max(1);
        shape.push(extent);
    }
    g.float_input(&shape)
}

/// One number for each dimension.
fn each(g: &mut Grower, count: i64, choices: &[i64]) -> Result<Vec<i64>> {
    (0..count).map(|_| g.pick(choices)).collect()
}

pub(super) fn convolution(g: &mut Grower) -> Result<()> {
    let spatial = g.pick(&[1, 1, 2, 2, 2, 3])?;
    let x = image(g, spatial)?;
    let (shape, dtype) = (g.shape(x), g.dtype(x));
    let Some(at) = shape.len().checked_sub(spatial as usize + 1) else {
        return closed();
    };
    let channels = shape.get(at).copied().unwrap_or(1);
    let kernel = each(g, spatial, &[1, 2, 3, 3, 4, 5])?;
    let divisors: Vec<i64> = (1..=channels).filter(|d| channels % d == 0).collect();
    let groups = if g.chance(0.6) { 1 } else { g.pick(&divisors)? };
    let window = Conv {
        stride: each(g, spatial, &[1, 1, 1, 2, 3])?,
        padding: each(g, spatial, &[0, 0, 1, 2])?,
        dilation: each(g, spatial, &[1, 1, 1, 2])?,
        groups,
    };
    let out = groups * g.pick(&[1, 2, 3, 5, 8])?;
    let taps: i64 = kernel.iter().product();
    if shape.iter().product::<i64>() * out * taps / groups > WORK {
        return closed();
    }
    let fan_in = taps * channels / groups;
    let bias = if g.chance(0.5) {
        Some(g.weight(dtype, &[out], 1)?)
    } else {
        None
    };
    if g.chance(0.3) {
        let weight = g.weight(
            dtype,
            &[&[channels, out / groups], kernel.as_slice()].concat(),
            fan_in,
        )?;
        let extra: Vec<i64> = window.stride.iter().map(|s| i64::from(*s > 1)).collect();
        let extra = if g.chance(0.5) {
            extra
        } else {
            vec![0; spatial as usize]
        };
        return g.graph.conv_transpose(x, weight, bias, &window, &extra).map(drop);
    }
    let weight = g.weight(
        dtype,
        &[&[out, channels / groups], kernel.as_slice()].concat(),
        fan_in,
    )?;
    g.graph.conv(x, weight, bias, &window).map(drop)
}

pub(super) fn pool(g: &mut Grower) -> Result<()> {
    let spatial = g.pick(&[1, 2, 2, 3])?;
    let x = image(g, spatial)?;
    let shape = g.shape(x);
    let last: Vec<i64> = shape
        .iter()
        .skip(shape.len() - spatial as usize)
        .copied()
        .collect();
    if g.chance(0.25) {
        let sizes: Result<Vec<i64>> = last
            .iter()
            .map(|extent| {
                let divisors: Vec<i64> = (1..=*extent).filter(|d| extent % d == 0).collect();
                g.pick(&divisors)
            })
            .collect();
        let args = [("self", x.into()), ("output_size", sizes?.into())];
        return g
            .call(&format!("adaptive_avg_pool{spatial}d.default"), args)
            .map(drop);
    }
    let kernel = each(g, spatial, &[1, 2, 2, 3, 3, 4])?;
    let padding: Vec<i64> = kernel.iter().map(|k| g.below(k / 2 + 1)).collect();
    let mut args: Vec<(&str, Arg)> = vec![
        ("self", x.into()),
        ("kernel_size", kernel.into()),
        ("padding", padding.into()),
    ];
    if g.chance(0.6) {
        args.push(("stride", each(g, spatial, &[1, 2, 3])?.into()));
    }
    args.push(("ceil_mode", g.chance(0.3).into()));
    if g.chance(0.5) {
        if g.chance(0.3) {
            args.push(("dilation", each(g, spatial, &[1, 2])?.into()));
        }
        return g
            .graph
            .call(&format!("max_pool{spatial}d.default"), args)
            .map(drop);
    }
    args.push(("count_include_pad", g.chance(0.5).into()));
    if spatial > 1 && g.chance(0.2) {
        args.push(("divisor_override", 3.into()));
    }
    g.graph
        .call(&format!("avg_pool{spatial}d.default"), args)
        .map(drop)
}
