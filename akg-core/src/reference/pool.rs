//! Pooling.

use super::array::Array;
use super::fold::sum;
use super::invocation::{Invocation, Kernel, Results};
use super::memory::zeros;
use super::parallel::lines;
use super::real::Real;
use super::strided::Strided;
use crate::dtype::DType;
use crate::error::Result;

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "max_pool1d.default" | "max_pool1d_with_indices.default" => |c| maximum(c, &Windows::moving(c, 1)?),
        "max_pool2d.default" | "max_pool2d_with_indices.default" => |c| maximum(c, &Windows::moving(c, 2)?),
        "max_pool3d.default" | "max_pool3d_with_indices.default" => |c| maximum(c, &Windows::moving(c, 3)?),
        "avg_pool1d.default" => |c| average(c, &Windows::moving(c, 1)?),
        "avg_pool2d.default" => |c| average(c, &Windows::moving(c, 2)?),
        "avg_pool3d.default" => |c| average(c, &Windows::moving(c, 3)?),
        "adaptive_avg_pool1d.default" => |c| average(c, &Windows::adaptive(c, 1)?),
        "adaptive_avg_pool2d.default" | "_adaptive_avg_pool2d.default" => {
            |c| average(c, &Windows::adaptive(c, 2)?)
        }
        "adaptive_avg_pool3d.default" | "_adaptive_avg_pool3d.default" => {
            |c| average(c, &Windows::adaptive(c, 3)?)
        }
        "adaptive_max_pool1d.default" => |c| maximum(c, &Windows::adaptive(c, 1)?),
        "adaptive_max_pool2d.default" => |c| maximum(c, &Windows::adaptive(c, 2)?),
        "adaptive_max_pool3d.default" => |c| maximum(c, &Windows::adaptive(c, 3)?),
        _ => return None,
    };
    Some(kernel)
}

/// What one output position reads along one dimension.
struct Span {
    /// Positions inside the input.
    inside: Vec<usize>,
    /// How many positions the window covers, padding included.
    size: i64,
}

/// The windows of a pool over three dimensions, the first of which may be idle.
struct Windows {
    spans: [Vec<Span>; 3],
    extents: [usize; 3],
}

impl Windows {
    /// Windows of one span list for each of the last `rank` dimensions of `self`.
    fn new<T: Real>(
        c: &Invocation<'_, T>,
        rank: usize,
        spans: impl Fn(usize, usize, usize) -> Vec<Span>,
    ) -> Result<Self> {
        let (shape, out) = (c.operand_shape("self")?, c.shape(0)?);
        let lead = shape.len() - rank;
        let mut extents = [1; 3];
        extents[3 - rank..].copy_from_slice(&shape[lead..]);
        let spans = std::array::from_fn(|d| match (d + rank).checked_sub(3) {
            Some(own) => spans(own, shape[lead + own], out[lead + own]),
            None => vec![Span {
                inside: vec![0],
                size: 1,
            }],
        });
        Ok(Self { spans, extents })
    }

    fn moving<T: Real>(c: &Invocation<'_, T>, rank: usize) -> Result<Self> {
        let list = |name: &str, missing: i64| -> Result<Vec<i64>> {
            let list = if c.has(name) { c.ints(name)? } else { Vec::new() };
            Ok(match list.as_slice() {
                [] => vec![missing; rank],
                [lone] => vec![*lone; rank],
                _ => list,
            })
        };
        let kernel = list("kernel_size", 1)?;
        let stride = if c.ints("stride")?.is_empty() {
            kernel.clone()
        } else {
            list("stride", 1)?
        };
        let (padding, dilation) = (list("padding", 0)?, list("dilation", 1)?);
        Self::new(c, rank, |d, extent, count| {
            let extent = extent as i64;
            let span = |out: i64| {
                let start = out * stride[d] - padding[d];
                let end = (start + kernel[d]).min(extent + padding[d]);
                let positions = (0..kernel[d]).map(|tap| start + tap * dilation[d]);
                let inside = positions
                    .filter(|at| (0..extent).contains(at))
                    .map(|at| at as usize)
                    .collect();
                Span {
                    inside,
                    size: end - start,
                }
            };
            (0..count as i64).map(span).collect()
        })
    }

    fn adaptive<T: Real>(c: &Invocation<'_, T>, rank: usize) -> Result<Self> {
        Self::new(c, rank, |_, extent, count| {
            let span = |out: usize| {
                let (start, end) = (out * extent / count, ((out + 1) * extent).div_ceil(count));
                Span {
                    inside: (start..end).collect(),
                    size: (end - start) as i64,
                }
            };
            (0..count).map(span).collect()
        })
    }

    /// Calls `f(output position in its plane, positions read, window size)` for each output position of a plane.
    fn each(&self, mut f: impl FnMut(usize, &[usize], i64)) {
        let mut read = Vec::new();
        let mut at = 0;
        for d in &self.spans[0] {
            for h in &self.spans[1] {
                for w in &self.spans[2] {
                    read.clear();
                    for d in &d.inside {
                        for h in &h.inside {
                            let line = (d * self.extents[1] + h) * self.extents[2];
                            read.extend(w.inside.iter().map(|w| line + w));
                        }
                    }
                    f(at, &read, d.size * h.size * w.size);
                    at += 1;
                }
            }
        }
    }

    fn pixels(&self) -> usize {
        self.spans.iter().map(Vec::len).product()
    }

    fn plane(&self) -> usize {
        self.extents.iter().product()
    }
}

/// Largest elements and, if the operator returns them, their positions in the plane. The last NaN wins.
fn maximum<T: Real>(c: &mut Invocation<'_, T>, windows: &Windows) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let x = c.float("self")?.into_vec();
    let mut best = vec![(T::neg_infinity(), 0); shape.iter().product()];
    lines(&mut best, windows.pixels(), &|at, best| {
        let x = &x[at * windows.plane()..(at + 1) * windows.plane()];
        windows.each(|out, read, _| {
            best[out].1 = read.first().map_or(0, |at| *at as i64);
            for &at in read {
                if x[at] > best[out].0 || x[at].is_nan() {
                    best[out] = (x[at], at as i64);
                }
            }
        });
    });
    let (values, positions) = best.into_iter().unzip();
    let mut results = vec![Array::float(dtype, Strided::new(shape.clone(), values))];
    if c.results() > 1 {
        results.push(Array::int(DType::I64, Strided::new(shape, positions)));
    }
    Ok(results)
}

fn average<T: Real>(c: &mut Invocation<'_, T>, windows: &Windows) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let divisor = if c.has("divisor_override") {
        c.opt_int("divisor_override")?
    } else {
        None
    };
    let padded = c.has("count_include_pad") && c.flag("count_include_pad")?;
    let x = c.float("self")?.into_vec();
    let mut values = zeros(shape.iter().product());
    lines(&mut values, windows.pixels(), &|at, values| {
        let x = &x[at * windows.plane()..(at + 1) * windows.plane()];
        let mut terms = Vec::new();
        windows.each(|out, read, size| {
            terms.clear();
            terms.extend(read.iter().map(|&at| x[at]));
            let inside = terms.len() as i64;
            let divisor = divisor.unwrap_or(if padded { size } else { inside });
            values[out] = if inside == 0 {
                T::zero()
            } else {
                sum(&mut terms) / T::of_int(divisor)
            };
        });
    });
    Ok(vec![Array::float(dtype, Strided::new(shape, values))])
}
