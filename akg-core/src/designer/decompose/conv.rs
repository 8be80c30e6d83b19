//! Convolutions: products of the weights with what sliding windows see.
//!
//! A transposed convolution is one ordinary convolution for each phase of its stride: results that are a stride apart meet
//! the same taps. Without dilation these are one product, in which the phases are dimensions of the weights and of the result;
//! otherwise they are joined after.

use super::slide::{Seen, Sliding, slide};
use super::{Step, join, matmul};
use crate::designer::prim::PrimId;
use crate::designer::window::{Outside, Window};
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::{CompareOp, ReduceOp};

/// Dimensions before the spatial ones where channels are by group.
const LEADING: usize = 3;

/// How the windows move along each spatial dimension.
struct Geometry {
    strides: Vec<i64>,
    /// Elements before the first.
    paddings: Vec<i64>,
    dilations: Vec<i64>,
    taps: Vec<i64>,
    groups: i64,
    /// The result's spatial extents.
    places: Vec<Expr>,
}

/// Which taps of the weights a convolution uses along one dimension.
#[derive(Debug, Clone)]
struct Taps {
    first: i64,
    step: i64,
    count: i64,
}

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let is_transposed = match name {
        "conv1d" | "conv2d" | "conv3d" => false,
        "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" => true,
        "convolution" => s.call.bool("transposed")?,
        _ => return Ok(None),
    };
    let Some(geometry) = geometry(s, is_transposed)? else {
        return Ok(None);
    };
    let result = s.result(0)?.shape.clone();
    let (x, weight) = (s.tensor("input")?, s.tensor("weight")?);
    let rank = geometry.taps.len();
    // A lone image is a batch of one.
    let mut shape = s.prims.shape(x).to_vec();
    if shape.len() == rank + 1 {
        shape.insert(0, Expr::constant(1));
    }
    let x = s.prims.reshape(x, shape);
    let mut y = if is_transposed {
        transposed(s, x, weight, &geometry)?
    } else {
        let along: Vec<Sliding> = (0..rank).map(|d| geometry.sliding(d)).collect();
        let (x, weight) = geometry.grouped(s, x, weight, is_transposed);
        let taps = geometry.taps.iter().map(|count| Taps {
            first: 0,
            step: 1,
            count: *count,
        });
        convolve(s, x, weight, &along, &taps.collect::<Vec<_>>())?
    };
    y = s.prims.reshape(y, result);
    if let Some(bias) = s.opt_tensor("bias")? {
        let mut shape = s.prims.shape(bias).to_vec();
        shape.extend(vec![Expr::constant(1); rank]);
        let bias = s.prims.reshape(bias, shape);
        y = s.prims.add(y, bias)?;
    }
    Ok(Some(vec![y]))
}

/// `None` if it depends on extents that are not known.
fn geometry(s: &Step<'_>, is_transposed: bool) -> Result<Option<Geometry>> {
    let weight = s.tensor("weight")?;
    let spatial = s.prims.shape(weight).iter().skip(2);
    let Some(taps) = spatial.map(Expr::as_const).collect::<Option<Vec<i64>>>() else {
        return Ok(None);
    };
    let rank = taps.len();
    let dilations = s.call.per_dimension("dilation", rank, 1)?;
    let is_named = s.call.op().name().ends_with(".padding");
    let paddings = match is_named {
        // What is left over of an odd sum stands after the last element.
        true if s.call.str("padding")? == "same" => {
            let reach = taps
                .iter()
                .zip(&dilations)
                .map(|(taps, step)| (taps - 1) * step / 2);
            reach.collect()
        }
        true => vec![0; rank],
        false => s.call.per_dimension("padding", rank, 0)?,
    };
    let shape = &s.result(0)?.shape;
    let places = shape[shape.len() - rank..].to_vec();
    if is_transposed && places.iter().any(|extent| extent.as_const().is_none()) {
        return Ok(None);
    }
    Ok(Some(Geometry {
        strides: s.call.per_dimension("stride", rank, 1)?,
        paddings,
        dilations,
        taps,
        groups: s.call.int("groups")?,
        places,
    }))
}

impl Geometry {
    /// The windows along a dimension of an ordinary convolution.
    fn sliding(&self, d: usize) -> Sliding {
        Sliding {
            start: -self.paddings[d],
            stride: self.strides[d],
            step: self.dilations[d],
            places: self.places[d].clone(),
            taps: self.taps[d],
        }
    }

    /// The input as `[N, G, C, S..]` and the weights as `[G, O, C, T..]`, with channels by group.
    fn grouped(&self, s: &mut Step<'_>, x: PrimId, weight: PrimId, is_transposed: bool) -> (PrimId, PrimId) {
        let groups = Expr::constant(self.groups);
        let by_group = |extent: &Expr| extent.exact_div(&groups).unwrap_or_else(|| extent.clone());
        let mut shape = s.prims.shape(x).to_vec();
        shape[1] = by_group(&shape[1]);
        shape.insert(1, groups.clone());
        let x = s.prims.reshape(x, shape);
        let mut shape = s.prims.shape(weight).to_vec();
        shape[0] = by_group(&shape[0]);
        shape.insert(0, groups.clone());
        let weight = s.prims.reshape(weight, shape);
        if !is_transposed {
            return (x, weight);
        }
        let mut perm: Vec<usize> = (0..s.prims.rank(weight)).collect();
        perm.swap(1, 2);
        (x, s.prims.permute(weight, perm))
    }

    /// Whether the phases of a transposed convolution should be dimensions of one product: there are several, and the taps of
    /// each are a stride apart.
    fn interleaves(&self, s: &Step<'_>, x: PrimId, weight: PrimId) -> bool {
        let rank = self.taps.len();
        let is_matrix = !s.prims.extent(x, 2).is(1) && !s.prims.extent(weight, 1).is(1);
        let is_wide = (0..rank)
            .all(|d| !s.prims.extent(x, LEADING + d).is(1) && !s.prims.extent(weight, LEADING + d).is(1));
        let has_phases = self.strides.iter().any(|stride| *stride > 1);
        is_matrix && is_wide && has_phases && self.dilations.iter().all(|step| *step == 1)
    }

    /// How many phases the results along a dimension of a transposed convolution have, and the most results of one.
    fn phases(&self, d: usize) -> Option<(i64, i64)> {
        let places = self.places.get(d)?.as_const()?;
        let count = self.strides[d].min(places);
        Some((count, (places + count - 1) / count))
    }

    /// The windows and taps of `places` results `phase`, `phase + stride`, … of a transposed convolution along a dimension;
    /// `None` if they meet no taps.
    fn phase(&self, d: usize, phase: i64, places: i64) -> Option<(Sliding, Taps)> {
        let (stride, step) = (self.strides[d], self.dilations[d]);
        let common = gcd(stride, step);
        let period = stride / common;
        // Result `o` meets tap `t` where `o + padding - t * step` is a multiple of the stride.
        let at = phase + self.paddings[d];
        let first = (0..period.min(self.taps[d])).find(|t| (at - t * step) % stride == 0)?;
        let count = (self.taps[d] - first + period - 1) / period;
        let sliding = Sliding {
            start: (at - first * step) / stride,
            stride: 1,
            step: -(step / common),
            places: places.into(),
            taps: count,
        };
        let taps = Taps {
            first,
            step: period,
            count,
        };
        Some((sliding, taps))
    }
}

/// The phases of a transposed convolution along a dimension, as a dimension of the weights.
struct Interleaved {
    /// What phases and taps see of the weights.
    weights: Window,
    /// What taps see of the input.
    along: Sliding,
    /// Results before the first that is wanted.
    before: i64,
}

impl Geometry {
    /// How the phases along a dimension, number `dim` of the weights, lie between each other. The result `o` meets the tap `t`
    /// where `o + padding - t` is `stride` times the coordinate of an element of the input.
    fn interleaved(&self, d: usize, dim: usize) -> Interleaved {
        let (stride, padding, taps) = (self.strides[d], self.paddings[d], self.taps[d]);
        let places = self.places[d].as_const().unwrap_or_default();
        let count = (taps + stride - 1) / stride;
        // So many taps of nothing before the first let each phase begin with the result of its number.
        let none = (stride - padding % stride) % stride;
        let lead = (padding + none) / stride;
        let (start, of_taps, first, step, before) = if none == 0 {
            (0, stride, lead, -1, 0)
        } else if (taps + none) % stride == 0 {
            // From the last tap on, those of nothing come last.
            (stride * (count - 1) - none, -stride, lead - (count - 1), 1, 0)
        } else {
            (0, stride, 0, -1, padding)
        };
        Interleaved {
            weights: Window {
                dim,
                start: start.into(),
                steps: vec![1, of_taps],
                outside: Outside::Nothing,
            },
            along: Sliding {
                start: first,
                stride: 1,
                step,
                places: ((places + before + stride - 1) / stride).into(),
                taps: count,
            },
            before,
        }
    }
}

/// A transposed convolution as `[N, G, O, P..]`, whose phases are dimensions of one product.
fn interleaved(s: &mut Step<'_>, x: PrimId, weight: PrimId, geometry: &Geometry) -> Result<PrimId> {
    let rank = geometry.taps.len();
    let mut along = Vec::new();
    let mut before = Vec::new();
    let mut by_phase = weight;
    // [G, O, C, (S, T)..]
    for d in 0..rank {
        let phases = geometry.interleaved(d, LEADING + 2 * d);
        let counts = [geometry.strides[d].into(), phases.along.taps.into()];
        by_phase = s.prims.slide(by_phase, phases.weights, &counts);
        along.push(phases.along);
        before.push(phases.before);
    }
    let [batch, groups, channels] = [0, 1, 2].map(|d| s.prims.extent(x, d));
    let results = s.prims.extent(weight, 1);
    let phases: Vec<Expr> = geometry.strides.iter().map(|n| (*n).into()).collect();
    let places: Vec<Expr> = along.iter().map(|a| a.places.clone()).collect();
    let all = |list: &[Expr]| list.iter().fold(Expr::constant(1), |n, e| &n * e);
    let products = along.iter().fold(channels, |n, a| n * a.taps);

    let of_phases = (0..rank).map(|d| LEADING + 2 * d);
    let of_taps = of_phases.clone().map(|dim| dim + 1);
    let perm = std::iter::once(0).chain(of_phases).chain([1, 2]).chain(of_taps);
    let rows = s.prims.permute(by_phase, perm.collect());
    let mut shape = vec![groups.clone()];
    shape.extend(phases.iter().cloned());
    shape.extend([results.clone(), products.clone()]);
    let rows = s.prims.reshape(rows, shape);

    let seen = slide(s.prims, x, &along)?;
    let perm = [0, 1, 2]
        .into_iter()
        .chain(seen.taps.iter().copied())
        .chain(seen.places);
    let columns = s.prims.permute(seen.value, perm.collect());
    let mut shape = vec![batch.clone(), groups.clone()];
    shape.extend(vec![Expr::constant(1); rank]);
    shape.extend([products, all(&places)]);
    let columns = s.prims.reshape(columns, shape);

    // [N, G, S.., O, Q..] becomes [N, G, O, (Q, S)..].
    let y = matmul::contract(s, rows, columns)?;
    let mut shape = vec![batch.clone(), groups.clone()];
    shape.extend(
        phases
            .iter()
            .cloned()
            .chain([results.clone()])
            .chain(places.iter().cloned()),
    );
    let y = s.prims.reshape(y, shape);
    let pairs = (0..rank).flat_map(|d| [LEADING + rank + d, 2 + d]);
    let perm = [0, 1, 2 + rank].into_iter().chain(pairs);
    let y = s.prims.permute(y, perm.collect());
    let joined = places.iter().zip(&phases).map(|(places, phases)| places * phases);
    let shape = [batch, groups, results].into_iter().chain(joined);
    let mut y = s.prims.reshape(y, shape.collect());
    for (d, (places, before)) in geometry.places.iter().zip(before).enumerate() {
        let dim = LEADING + d;
        if before > 0 || s.prims.extent(y, dim) != *places {
            y = s
                .prims
                .window(y, Window::new(dim, before.into(), 1), places.clone());
        }
    }
    Ok(y)
}

/// A transposed convolution as `[N, G, O, P..]`: its phases side by side along each dimension. They are joined as if all
/// had the same extent, and what is too much is left out in the end.
fn transposed(s: &mut Step<'_>, x: PrimId, weight: PrimId, geometry: &Geometry) -> Result<PrimId> {
    let (x, weight) = geometry.grouped(s, x, weight, true);
    if geometry.interleaves(s, x, weight) {
        return interleaved(s, x, weight, geometry);
    }
    let mut y = phases(s, x, weight, geometry, &mut Vec::new())?;
    for (d, places) in geometry.places.iter().enumerate() {
        let dim = LEADING + d;
        if s.prims.extent(y, dim) != *places {
            y = s.prims.window(y, Window::new(dim, 0.into(), 1), places.clone());
        }
    }
    Ok(y)
}

/// The results whose phases along the first dimensions are `chosen`.
fn phases(
    s: &mut Step<'_>,
    x: PrimId,
    weight: PrimId,
    geometry: &Geometry,
    chosen: &mut Vec<Option<(Sliding, Taps)>>,
) -> Result<PrimId> {
    let d = chosen.len();
    let Some((count, most)) = geometry.phases(d) else {
        return phase(s, x, weight, geometry, chosen);
    };
    let mut parts = Vec::new();
    for phase in 0..count {
        chosen.push(geometry.phase(d, phase, most));
        parts.push(phases(s, x, weight, geometry, chosen)?);
        chosen.pop();
    }
    if let [part] = parts[..] {
        return Ok(part);
    }
    let dim = LEADING + d;
    let joined = join::stack(s, &parts, dim + 1)?;
    let mut shape = s.prims.shape(joined).to_vec();
    shape.splice(dim..dim + 2, [Expr::constant(most * count)]);
    Ok(s.prims.reshape(joined, shape))
}

/// The results of one phase along every dimension.
fn phase(
    s: &mut Step<'_>,
    x: PrimId,
    weight: PrimId,
    geometry: &Geometry,
    chosen: &[Option<(Sliding, Taps)>],
) -> Result<PrimId> {
    let met: Option<Vec<(Sliding, Taps)>> = chosen.iter().cloned().collect();
    if let Some(met) = met {
        let (along, taps): (Vec<_>, Vec<_>) = met.into_iter().unzip();
        return convolve(s, x, weight, &along, &taps);
    }
    let mut shape = s.prims.shape(x)[..2].to_vec();
    shape.push(s.prims.extent(weight, 1));
    let most = (0..chosen.len()).filter_map(|d| geometry.phases(d));
    shape.extend(most.map(|(_, most)| Expr::constant(most)));
    let dtype = s.prims.dtype(x);
    Ok(s.prims.full(0.0, dtype, shape))
}

/// `[N, G, C, S..]` with `[G, O, C, T..]`, of whose taps these are used, as `[N, G, O, P..]`.
fn convolve(s: &mut Step<'_>, x: PrimId, weight: PrimId, along: &[Sliding], taps: &[Taps]) -> Result<PrimId> {
    let (mut x, mut weight) = (x, weight);
    let (mut along, mut taps) = (along.to_vec(), taps.to_vec());
    for (d, (along, taps)) in along.iter_mut().zip(&mut taps).enumerate() {
        let dim = LEADING + d;
        if s.prims.extent(x, dim).is(1) && !only_tap(along, taps) {
            x = before_zero(s, x, dim)?;
        }
        if !s.prims.extent(weight, dim).is(1) {
            let window = Window::new(dim, taps.first.into(), taps.step);
            weight = s.prims.window(weight, window, taps.count.into());
        }
    }
    let [batch, groups, channels] = [0, 1, 2].map(|d| s.prims.extent(x, d));
    let results = s.prims.extent(weight, 1);
    let places: Vec<Expr> = along.iter().map(|a| a.places.clone()).collect();
    let counts: Vec<Expr> = taps.iter().map(|t| t.count.into()).collect();
    let Seen {
        value,
        places: at,
        taps: met,
    } = slide(s.prims, x, &along)?;
    // [N, G, C, T.., P..]
    let perm = [0, 1, 2].into_iter().chain(met.iter().copied()).chain(at);
    let seen = s.prims.permute(value, perm.collect());
    let y = if channels.is(1) || results.is(1) {
        sum_products(s, seen, weight, met.len())?
    } else {
        let all = |list: &[Expr]| list.iter().fold(Expr::constant(1), |n, e| &n * e);
        let products = &channels * &all(&counts);
        let columns = vec![batch.clone(), groups.clone(), products.clone(), all(&places)];
        let columns = s.prims.reshape(seen, columns);
        let rows = vec![groups.clone(), results.clone(), products];
        let rows = s.prims.reshape(weight, rows);
        matmul::contract(s, rows, columns)?
    };
    let leading = [batch, groups, results].into_iter();
    Ok(s.prims.reshape(y, leading.chain(places).collect()))
}

/// The sums over channels and taps of `[N, G, C, T.., P..]` times `[G, O, C, T..]`, with so many dimensions of more than one
/// tap.
fn sum_products(s: &mut Step<'_>, seen: PrimId, weight: PrimId, dims: usize) -> Result<PrimId> {
    let one = Expr::constant(1);
    let mut shape = s.prims.shape(seen).to_vec();
    let taps = shape[LEADING..LEADING + dims].to_vec();
    let places = shape.len() - LEADING - dims;
    shape.insert(2, one.clone());
    let seen = s.prims.reshape(seen, shape);
    let mut shape = s.prims.shape(weight)[..LEADING].to_vec();
    shape.extend(taps);
    shape.extend(vec![one; places]);
    let weight = s.prims.reshape(weight, shape);
    let products = s.prims.mul(seen, weight)?;
    let axes: Vec<usize> = (LEADING..=LEADING + dims).collect();
    Ok(s.prims.reduce(ReduceOp::Sum, products, &axes, false))
}

/// `x` with a zero after its only element along a dimension, so that places differ in what they see.
fn before_zero(s: &mut Step<'_>, x: PrimId, dim: usize) -> Result<PrimId> {
    let mut shape = s.prims.shape(x).to_vec();
    shape[dim] = 2.into();
    let wide = s.prims.expand(x, shape.clone());
    let place = s.prims.coordinate(dim, shape);
    let (zero, one) = (s.prims.number(0.0), s.prims.number(1.0));
    let is_first = s.prims.compare(CompareOp::Lt, place, one)?;
    s.prims.select(is_first, wide, zero)
}

/// Leaves the one tap of the one place that meets the only element of a dimension; false if there is another place, or none
/// that meets it.
fn only_tap(along: &mut Sliding, taps: &mut Taps) -> bool {
    let meets = |t: &i64| along.start + along.step * t == 0;
    let Some(tap) = (0..taps.count).find(meets).filter(|_| along.places.is(1)) else {
        return false;
    };
    *taps = Taps {
        first: taps.first + taps.step * tap,
        step: taps.step,
        count: 1,
    };
    *along = Sliding {
        start: 0,
        stride: 1,
        step: 1,
        places: 1.into(),
        taps: 1,
    };
    true
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
