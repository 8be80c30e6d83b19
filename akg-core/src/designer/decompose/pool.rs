//! Pooling: reductions over the place in a window.

use super::adaptive::Size;
use super::slide::{Sliding, slide};
use super::{Step, adaptive};
use crate::designer::prim::PrimId;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::sketch::ir::{BinaryOp, CompareOp, ReduceOp};

/// The windows along one pooled dimension.
struct Windows {
    extent: i64,
    /// How many there are.
    count: i64,
    /// Elements of each, and how far these are apart.
    taps: i64,
    dilation: i64,
    /// How far each is from the one before it.
    stride: i64,
    /// How far the first one starts before the first element, and the last may reach beyond the last one.
    padding: i64,
}

impl Windows {
    /// Whether they lie side by side and cover everything.
    fn is_partition(&self) -> bool {
        let is_apart = self.stride == self.taps || self.count == 1;
        let is_plain = self.padding == 0 && (self.dilation == 1 || self.taps == 1);
        is_apart && is_plain && self.count * self.taps == self.extent
    }

    /// Whether all of them have as many elements, padding counted or not.
    fn are_equal(&self, counts_padding: bool) -> bool {
        let padding = if counts_padding { self.padding } else { 0 };
        let starts_inside = counts_padding || self.padding == 0;
        let last = (self.count - 1) * self.stride - self.padding;
        starts_inside && last + self.taps <= self.extent + padding
    }

    fn sliding(&self) -> Sliding {
        Sliding {
            start: -self.padding,
            stride: self.stride,
            step: self.dilation,
            places: self.count.into(),
            taps: self.taps,
        }
    }
}

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let op = match name {
        "max_pool1d"
        | "max_pool2d"
        | "max_pool3d"
        | "max_pool2d_with_indices"
        | "max_pool3d_with_indices"
        | "adaptive_max_pool1d"
        | "adaptive_max_pool2d"
        | "adaptive_max_pool3d" => ReduceOp::Max,
        "avg_pool1d"
        | "avg_pool2d"
        | "avg_pool3d"
        | "adaptive_avg_pool1d"
        | "adaptive_avg_pool2d"
        | "_adaptive_avg_pool2d"
        | "adaptive_avg_pool3d"
        | "_adaptive_avg_pool3d" => ReduceOp::Sum,
        _ => return Ok(None),
    };
    let x = s.tensor("self")?;
    if name.contains("adaptive")
        && s.results.len() == 1
        && s.call.sizes("output_size")?.iter().all(|n| n.is(1))
    {
        return global(s, op, x).map(|pooled| Some(vec![pooled]));
    }
    let windows = if name.contains("adaptive") {
        let Some(sizes) = adaptive_sizes(s, x)? else {
            return Ok(None);
        };
        match equal(&sizes) {
            Some(windows) => windows,
            None => {
                let pooled = adaptive::pool(s, op, x, &sizes)?;
                let mut results = vec![pooled];
                if op == ReduceOp::Max {
                    results.push(adaptive::places(s, x, pooled, &sizes)?);
                }
                return Ok(Some(results));
            }
        }
    } else {
        match moving(s, x)? {
            Some(windows) => windows,
            None => return Ok(None),
        }
    };
    let pooled = if windows.iter().all(Windows::is_partition) {
        reduce_parts(s, op, x, &windows)
    } else {
        reduce_windows(s, op, x, &windows)?
    };
    let mut results = vec![match op {
        ReduceOp::Sum => average(s, pooled, &windows)?,
        _ => pooled,
    }];
    if s.results.len() > 1 {
        results.push(places(s, x, pooled, &windows)?);
    }
    Ok(Some(results))
}

/// Pools all elements of the last dimensions, whose extents may be open.
fn global(s: &mut Step<'_>, op: ReduceOp, x: PrimId) -> Result<PrimId> {
    let rank = s.prims.rank(x);
    let first = rank.saturating_sub(s.call.sizes("output_size")?.len());
    let axes: Vec<usize> = (first..rank).collect();
    let pooled = match op {
        ReduceOp::Sum => s.prims.mean(x, &axes)?,
        _ => s.prims.reduce(op, x, &axes, false),
    };
    let shape = s.result(0)?.shape.clone();
    Ok(s.prims.reshape(pooled, shape))
}

/// The known extents of the last dimensions of a shape.
fn last(shape: &[Expr], count: usize) -> Option<Vec<i64>> {
    let first = shape.len().checked_sub(count)?;
    shape.iter().skip(first).map(Expr::as_const).collect()
}

/// The numbers of windows and of elements along the dimensions of an adaptive pool.
fn adaptive_sizes(s: &Step<'_>, x: PrimId) -> Result<Option<Vec<Size>>> {
    let counts: Option<Vec<i64>> = s.call.sizes("output_size")?.iter().map(Expr::as_const).collect();
    Ok(counts.and_then(|counts| {
        let extents = last(s.prims.shape(x), counts.len())?;
        let sizes = counts.into_iter().zip(extents);
        Some(sizes.map(|(count, extent)| Size { count, extent }).collect())
    }))
}

/// The windows of an adaptive pool, if all are equal.
fn equal(sizes: &[Size]) -> Option<Vec<Windows>> {
    let windows = sizes.iter().map(|Size { count, extent }| {
        let divides = *count > 0 && extent % count == 0;
        divides.then(|| Windows {
            extent: *extent,
            count: *count,
            taps: extent / count,
            dilation: 1,
            stride: extent / count,
            padding: 0,
        })
    });
    windows.collect()
}

/// The windows of a pool that moves them by equal strides.
fn moving(s: &Step<'_>, x: PrimId) -> Result<Option<Vec<Windows>>> {
    let digit = s.call.op().name().chars().find_map(|c| c.to_digit(10));
    let dims = digit.unwrap_or(2) as usize;
    let taps = s.call.per_dimension("kernel_size", dims, 1)?;
    let strides = if s.call.sizes("stride")?.is_empty() {
        taps.clone()
    } else {
        s.call.per_dimension("stride", dims, 1)?
    };
    let dilations = match s.call.opt_arg("dilation") {
        Some(_) => s.call.per_dimension("dilation", dims, 1)?,
        None => vec![1; dims],
    };
    let paddings = s.call.per_dimension("padding", dims, 0)?;
    let (Some(extents), Some(counts)) = (last(s.prims.shape(x), dims), last(&s.result(0)?.shape, dims))
    else {
        return Ok(None);
    };
    let windows = (0..dims).map(|i| Windows {
        extent: extents[i],
        count: counts[i],
        taps: taps[i],
        dilation: dilations[i],
        stride: strides[i],
        padding: paddings[i],
    });
    Ok(Some(windows.collect()))
}

/// Combines the elements of windows that cut the last dimensions into equal parts.
fn reduce_parts(s: &mut Step<'_>, op: ReduceOp, x: PrimId, windows: &[Windows]) -> PrimId {
    let first = s.prims.rank(x) - windows.len();
    let mut shape: Vec<Expr> = s.prims.shape(x)[..first].to_vec();
    let mut axes = Vec::new();
    for window in windows {
        shape.push(window.count.into());
        axes.push(shape.len());
        shape.push(window.taps.into());
    }
    let split = s.prims.reshape(x, shape);
    s.prims.reduce(op, split, &axes, false)
}

/// Combines the elements that windows see as they slide along the last dimensions.
fn reduce_windows(s: &mut Step<'_>, op: ReduceOp, x: PrimId, windows: &[Windows]) -> Result<PrimId> {
    let along: Vec<_> = windows.iter().map(Windows::sliding).collect();
    let seen = slide(s.prims, x, &along)?;
    Ok(s.prims.reduce(op, seen.value, &seen.taps, false))
}

/// The place of each window's maximum among all elements of the pooled dimensions.
fn places(s: &mut Step<'_>, x: PrimId, maxima: PrimId, windows: &[Windows]) -> Result<PrimId> {
    let along: Vec<_> = windows.iter().map(Windows::sliding).collect();
    let seen = slide(s.prims, x, &along)?;
    let shape = s.prims.shape(seen.value).to_vec();
    let mut wide = s.prims.shape(maxima).to_vec();
    for axis in &seen.taps {
        wide.insert(*axis, Expr::constant(1));
    }
    let maxima = s.prims.reshape(maxima, wide);
    let maxima = s.prims.expand(maxima, shape.clone());
    let mut hit = adaptive::is_maximum(s.prims, seen.value, maxima)?;
    let mut taps = seen.taps.iter().copied().peekable();
    let mut flat = s.prims.full(0.0, DType::I64, shape.clone());
    for (window, place) in windows.iter().zip(&seen.places) {
        let element = s.prims.coordinate(*place, shape.clone());
        let element = s.prims.cast(element, DType::I64);
        let mut element = s.prims.mul_number(element, window.stride as f64)?;
        if taps.next_if_eq(&(place + 1)).is_some() {
            let tap = s.prims.coordinate(place + 1, shape.clone());
            let tap = s.prims.cast(tap, DType::I64);
            let tap = s.prims.mul_number(tap, window.dilation as f64)?;
            element = s.prims.add(element, tap)?;
        }
        if window.padding > 0 {
            element = s.prims.add_number(element, -window.padding as f64)?;
            for (op, bound) in [(CompareOp::Ge, 0), (CompareOp::Lt, window.extent)] {
                let bound = s.prims.number(bound as f64);
                let inside = s.prims.compare(op, element, bound)?;
                hit = s.prims.binary(BinaryOp::And, hit, inside)?;
            }
        }
        flat = adaptive::numbered(s.prims, flat, element, window.extent)?;
    }
    adaptive::first_place(s.prims, hit, flat, &seen.taps)
}

/// Divides sums by the number of elements.
fn average(s: &mut Step<'_>, sums: PrimId, windows: &[Windows]) -> Result<PrimId> {
    let given = match s.call.opt_arg("divisor_override") {
        Some(_) => s.call.opt_int("divisor_override")?,
        None => None,
    };
    let counts_padding = match s.call.opt_arg("count_include_pad") {
        Some(_) => s.call.bool("count_include_pad")?,
        None => true,
    };
    let mut elements = 1i64;
    let mut divisor = None;
    let first = s.prims.rank(sums) - windows.len();
    for (i, along) in windows.iter().enumerate() {
        if given.is_some() || along.are_equal(counts_padding) {
            elements *= along.taps;
        } else {
            let size = size(s, sums, first + i, along, counts_padding)?;
            divisor = Some(match divisor {
                Some(others) => s.prims.mul(others, size)?,
                None => size,
            });
        }
    }
    let constant = given.unwrap_or(elements);
    if constant == 0 {
        return Err(Error::invalid("a pool cannot divide by zero"));
    }
    let constant = s.prims.number(constant as f64);
    let pooled = s.prims.div(sums, constant)?;
    match divisor {
        Some(divisor) => s.prims.div(pooled, divisor),
        None => Ok(pooled),
    }
}

/// The number of elements of each window along a dimension of the results.
fn size(
    s: &mut Step<'_>,
    results: PrimId,
    dim: usize,
    along: &Windows,
    counts_padding: bool,
) -> Result<PrimId> {
    let dtype = s.prims.dtype(results);
    let shape = s.prims.shape(results).to_vec();
    let place = s.prims.coordinate(dim, shape);
    let start = s.prims.mul_number(place, along.stride as f64)?;
    let start = s.prims.add_number(start, -along.padding as f64)?;
    let end = s.prims.add_number(start, along.taps as f64)?;
    let most = along.extent + if counts_padding { along.padding } else { 0 };
    let most = s.prims.number(most as f64);
    let end = s.prims.binary(BinaryOp::Min, end, most)?;
    let start = if counts_padding {
        start
    } else {
        let zero = s.prims.number(0.0);
        s.prims.binary(BinaryOp::Max, start, zero)?
    };
    let size = s.prims.sub(end, start)?;
    let wide = if dtype.is_float() { dtype } else { DType::F32 };
    Ok(s.prims.cast(size, wide))
}
