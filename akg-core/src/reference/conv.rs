//! Convolutions as matrix products over gathered windows.

use std::ops::Range;

use super::array::Array;
use super::invocation::{Invocation, Kernel, Results};
use super::memory::zeros;
use super::parallel::{lines, tasks};
use super::real::Real;
use super::strided::{Matrix, Strided};
use crate::error::Result;

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "conv1d.default" | "conv2d.default" | "conv3d.default" | "conv1d.padding" | "conv2d.padding"
        | "conv3d.padding" => |c| convolution(c, false),
        "conv_transpose1d.default" | "conv_transpose2d.input" | "conv_transpose3d.input" => {
            |c| convolution(c, true)
        }
        "convolution.default" => |c| {
            let transposed = c.flag("transposed")?;
            convolution(c, transposed)
        },
        _ => return None,
    };
    Some(kernel)
}

/// Elements of the gathered windows that one product reads.
const GATHERED: usize = 1 << 20;

/// Output positions of one dimension that see the same taps, evenly spaced: all of them in a convolution, each residue
/// class modulo the stride in a transposed one.
struct Phase {
    first: usize,
    step: usize,
    count: usize,
    /// Input positions that advance with each of these output positions.
    pace: usize,
    /// Each tap with the input position it reads for the first of these output positions.
    taps: Vec<(usize, i64)>,
}

/// How the kernel moves along one dimension.
struct Movement {
    kernel: usize,
    output: usize,
    stride: i64,
    padding: i64,
    dilation: i64,
}

impl Movement {
    fn phases(&self, transposed: bool) -> Vec<Phase> {
        let taps = 0..self.kernel;
        if !transposed {
            let taps = taps
                .map(|t| (t, t as i64 * self.dilation - self.padding))
                .collect();
            return vec![Phase {
                first: 0,
                step: 1,
                count: self.output,
                pace: self.stride as usize,
                taps,
            }];
        }
        // Output o reads input i through tap t where o + padding = i * stride + t * dilation.
        let residues = (0..self.stride).filter_map(|first| {
            let count = (self.output as i64 - first + self.stride - 1)
                .div_euclid(self.stride)
                .max(0) as usize;
            let reach = |t: usize| first + self.padding - t as i64 * self.dilation;
            let hits = taps.clone().filter(|t| reach(*t).rem_euclid(self.stride) == 0);
            let taps = hits.map(|t| (t, reach(t).div_euclid(self.stride))).collect();
            let phase = Phase {
                first: first as usize,
                step: self.stride as usize,
                count,
                pace: 1,
                taps,
            };
            (count > 0).then_some(phase)
        });
        residues.collect()
    }
}

/// A list argument with one entry for each of the last of three dimensions; `missing` for the others.
fn spread(list: &[i64], spatial: usize, missing: i64) -> [i64; 3] {
    let mut out = [missing; 3];
    for (at, slot) in out.iter_mut().enumerate().skip(3 - spatial) {
        let own = if list.len() == 1 { 0 } else { at + spatial - 3 };
        *slot = list.get(own).copied().unwrap_or(missing);
    }
    out
}

/// The last three extents of `shape`, ones where it has fewer than three after `skip`.
fn last_three(shape: &[usize], skip: usize) -> [usize; 3] {
    let spatial = &shape[skip..];
    let mut out = [1; 3];
    out[3 - spatial.len()..].copy_from_slice(spatial);
    out
}

fn convolution<T: Real>(c: &mut Invocation<'_, T>, transposed: bool) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let weight = c.float("weight")?.into_dense();
    let bias = c.opt_float("bias")?.map(Strided::into_vec);
    let input = c.float("input")?;
    let spatial = weight.rank() - 2;
    let batched = input.rank() == weight.rank();
    let lead = usize::from(batched);
    let (batch, channels) = (if batched { input.shape()[0] } else { 1 }, input.shape()[lead]);
    let kernel = last_three(weight.shape(), 2);
    let extents = last_three(input.shape(), lead + 1);
    let outputs = last_three(&shape, lead + 1);
    let stride = spread(&c.ints("stride")?, spatial, 1);
    let dilation = spread(&c.ints("dilation")?, spatial, 1);
    let padding = match c.opt_str("padding") {
        Ok(Some("same")) => std::array::from_fn(|d| dilation[d] * (kernel[d] as i64 - 1) / 2),
        Ok(_) => [0; 3],
        Err(_) => spread(&c.ints("padding")?, spatial, 0),
    };
    let phases: [Vec<Phase>; 3] = std::array::from_fn(|d| {
        let (kernel, output) = (kernel[d], outputs[d]);
        let movement = Movement {
            kernel,
            output,
            stride: stride[d],
            padding: padding[d],
            dilation: dilation[d],
        };
        movement.phases(transposed)
    });
    let groups = c.int("groups")? as usize;
    let out_channels = shape[lead];
    let job = Job {
        groups,
        in_channels: channels / groups,
        out_channels: out_channels / groups,
        extents,
        outputs,
        kernel,
        transposed,
    };
    let input = input.into_dense();
    let (Some(x), Some(w)) = (input.as_slice(), weight.as_slice()) else {
        return Ok(vec![Array::float(dtype, Strided::new(shape, Vec::new()))]);
    };
    let mut out = zeros(batch * out_channels * job.pixels());
    for depth in &phases[0] {
        for height in &phases[1] {
            for width in &phases[2] {
                job.run(x, w, [depth, height, width], &mut out)?;
            }
        }
    }
    if let Some(bias) = bias {
        lines(&mut out, job.pixels(), &|at, plane| {
            let bias = bias[at % out_channels];
            for v in &mut *plane {
                *v += bias;
            }
        });
    }
    Ok(vec![Array::float(dtype, Strided::new(shape, out))])
}

/// A convolution of dense tensors with three spatial dimensions.
struct Job {
    groups: usize,
    /// Channels of one group.
    in_channels: usize,
    out_channels: usize,
    extents: [usize; 3],
    outputs: [usize; 3],
    kernel: [usize; 3],
    transposed: bool,
}

impl Job {
    fn pixels(&self) -> usize {
        self.outputs.iter().product()
    }

    /// Computes the output positions of one combination of phases.
    fn run<T: Real>(&self, x: &[T], w: &[T], phases: [&Phase; 3], out: &mut [T]) -> Result<()> {
        let taps: Vec<(usize, [i64; 3])> = phases[0]
            .taps
            .iter()
            .flat_map(|d| {
                phases[1].taps.iter().flat_map(move |h| {
                    phases[2].taps.iter().map(move |w| {
                        (
                            (d.0 * self.kernel[1] + h.0) * self.kernel[2] + w.0,
                            [d.1, h.1, w.1],
                        )
                    })
                })
            })
            .collect();
        let terms = self.in_channels * taps.len();
        let counts = phases.map(|p| p.count);
        let positions: usize = counts.iter().product();
        if terms == 0 || positions == 0 {
            return Ok(());
        }
        let weights: Vec<Vec<T>> = (0..self.groups).map(|g| self.weights(w, g, &taps)).collect();
        let block = (GATHERED / terms).clamp(64, positions.max(64)).min(positions);
        let plane: usize = self.extents.iter().product();
        tasks(out, self.out_channels * self.pixels(), &|at, out| {
            let x = &x[at * self.in_channels * plane..(at + 1) * self.in_channels * plane];
            let weights = Matrix::dense(&weights[at % self.groups], self.out_channels, terms);
            let mut windows = vec![T::zero(); terms * block];
            let mut values = vec![T::zero(); self.out_channels * block];
            for first in (0..positions).step_by(block) {
                let width = block.min(positions - first);
                let windows = &mut windows[..terms * width];
                lines(windows, width, &|term, row| {
                    let (channel, tap) = (term / taps.len(), term % taps.len());
                    let plane = &x[channel * plane..(channel + 1) * plane];
                    self.gather(plane, phases, taps[tap].1, first, row);
                });
                let values = &mut values[..self.out_channels * width];
                T::product(None, &weights, &Matrix::dense(windows, terms, width), values);
                for (values, out) in values.chunks(width).zip(out.chunks_mut(self.pixels())) {
                    for ([d, h, w], run) in runs(first, width, counts) {
                        let at = |axis: usize, q: usize| phases[axis].first + q * phases[axis].step;
                        let start = (at(0, d) * self.outputs[1] + at(1, h)) * self.outputs[2] + at(2, w);
                        let slots = out[start..].iter_mut().step_by(phases[2].step);
                        for (slot, value) in slots.zip(&values[run]) {
                            *slot = *value;
                        }
                    }
                }
            }
        });
        Ok(())
    }

    /// The weights of one group and some taps as a matrix from input terms to output channels.
    fn weights<T: Real>(&self, w: &[T], group: usize, taps: &[(usize, [i64; 3])]) -> Vec<T> {
        let size: usize = self.kernel.iter().product();
        let mut out = Vec::with_capacity(self.out_channels * self.in_channels * taps.len());
        for to in 0..self.out_channels {
            for from in 0..self.in_channels {
                let at = if self.transposed {
                    (group * self.in_channels + from) * self.out_channels + to
                } else {
                    (group * self.out_channels + to) * self.in_channels + from
                };
                out.extend(taps.iter().map(|(tap, _)| w[at * size + tap]));
            }
        }
        out
    }

    /// What one tap reads of one channel for the output positions from `first` on; zero outside the input.
    fn gather<T: Real>(&self, plane: &[T], phases: [&Phase; 3], base: [i64; 3], first: usize, row: &mut [T]) {
        let counts = phases.map(|p| p.count);
        let source = |axis: usize, q: usize| {
            let at = base[axis] + (q * phases[axis].pace) as i64;
            usize::try_from(at).ok().filter(|at| *at < self.extents[axis])
        };
        let (pace, extent) = (phases[2].pace, self.extents[2]);
        for ([d, h, w], run) in runs(first, row.len(), counts) {
            let run = &mut row[run];
            let (Some(d), Some(h)) = (source(0, d), source(1, h)) else {
                run.fill(T::zero());
                continue;
            };
            let start = base[2] + (w * pace) as i64;
            let until = |at: i64| (usize::try_from(at - start).unwrap_or(0)).div_ceil(pace);
            let before = until(0).min(run.len());
            let inside = until(extent as i64).clamp(before, run.len());
            run[..before].fill(T::zero());
            run[inside..].fill(T::zero());
            let run = &mut run[before..inside];
            if run.is_empty() {
                continue;
            }
            let line = (d * self.extents[1] + h) * extent;
            let seen = &plane[line + (start + (before * pace) as i64) as usize..line + extent];
            if pace == 1 {
                run.copy_from_slice(&seen[..run.len()]);
            } else {
                for (slot, value) in run.iter_mut().zip(seen.iter().step_by(pace)) {
                    *slot = *value;
                }
            }
        }
    }
}

/// Neighbours among `count` row-major positions from `first` on that differ in the last index alone: the index of the first, and
/// which of the `count` they are.
fn runs(first: usize, count: usize, counts: [usize; 3]) -> impl Iterator<Item = ([usize; 3], Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        (at < count).then(|| {
            let index = split(first + at, counts);
            let run = at..count.min(at + counts[2] - index[2]);
            at = run.end;
            (index, run)
        })
    })
}

/// The index of a row-major position.
fn split(position: usize, counts: [usize; 3]) -> [usize; 3] {
    let (rest, w) = (position / counts[2], position % counts[2]);
    [rest / counts[1], rest % counts[1], w]
}
