//! Attention in one kernel: scores never reach memory.
//!
//! A program holds some rows of queries and goes through the keys, tile by tile, [folding](fold) them into the values
//! weighted so far: Dao, Fu, Ermon, Rudra and Ré, "FlashAttention: Fast and Memory-Efficient Exact Attention with
//! IO-Awareness" (2022).
//!
//! Whatever stands between the scores and their softmax is computed with the tile. What stands between the exponentials
//! and the values only multiplies rows, and is done once, in the end. Where there is no softmax, as in attention with ReLU,
//! the weights are computed with the tile. Tiles of keys that no row of a program sees, by the condition of a
//! [triangle](roles), are skipped.

mod fold;
mod lengths;
mod roles;

use std::collections::HashMap;

pub(in crate::designer) use lengths::Heads;
use roles::Roles;

use super::matmul::factors::pair::Pair;
use super::matmul::{Product, UNIT, filled, overhangs};
use super::{Emitter, Names, Var, Walk, Written};
use crate::designer::attention::factors;
use crate::designer::device::Device;
use crate::designer::plan::{Access, Axis, KernelPlan, Plan, TensorKey};
use crate::designer::prim::{PrimId, Prims};
use crate::error::{Error, Result};

/// Writes kernel number `number`: an attention with these scores and this product with the values.
pub(in crate::designer) fn emit(
    device: Device<'_>,
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
    names: &mut Names,
    number: usize,
    [scores, product]: [PrimId; 2],
) -> Result<Vec<Written>> {
    let roles = Roles::new(prims, kernel, product)?;
    let scores = Product::new(device, plan, prims, kernel, scores)?;
    // Weights are an operand that is never in memory.
    let weights = Access {
        tensor: TensorKey::Buffer(roles.weights),
        axes: kernel.axes.get(&roles.weights).cloned().unwrap_or_default(),
    };
    let values = kernel
        .load(product, roles.values)
        .ok_or_else(unsupported)?
        .clone();
    let operands = match roles.values {
        0 => [values, weights],
        _ => [weights, values],
    };
    let weighted = Product::of(device, plan, prims, kernel, product, operands)?;
    let attention = Tiled::new(device, plan, prims, kernel, number, &roles, [&scores, &weighted])?;
    let mut written = attention.pair.write_factors(names)?;
    written.push(attention.write(names)?);
    Ok(written)
}

fn unsupported() -> Error {
    Error::unsupported("no design rule yet for how an attention arranges its operands")
}

/// Bytes that the work on an element along both axes reads for it.
fn read(plan: &Plan, prims: &Prims, kernel: &KernelPlan, axes: [Axis; 2]) -> i64 {
    let operands = kernel
        .nodes
        .iter()
        .flat_map(|id| (0..prims.operands(*id).len()).filter_map(|i| kernel.load(*id, i)));
    let masks = operands.filter(|access| {
        let walked = kernel.walked(access);
        axes.iter().all(|axis| walked.contains(axis))
    });
    masks.map(|access| plan.dtype(&access.tensor).size() as i64).sum()
}

/// The kernel and its tiles.
struct Tiled<'a> {
    plan: &'a Plan,
    prims: &'a Prims,
    kernel: &'a KernelPlan,
    device: Device<'a>,
    number: usize,
    roles: &'a Roles,
    pair: Pair<'a>,
    heads: Heads,
    axes: Axes,
}

/// What an attention has extents along.
#[derive(Clone, Copy)]
struct Axes {
    rows: Axis,
    keys: Axis,
    /// What scores are summed along.
    depth: Axis,
    /// The values' own.
    width: Axis,
}

impl<'a> Tiled<'a> {
    fn new(
        device: Device<'a>,
        plan: &'a Plan,
        prims: &'a Prims,
        kernel: &'a KernelPlan,
        number: usize,
        roles: &'a Roles,
        [scores, weighted]: [&'a Product<'a>; 2],
    ) -> Result<Self> {
        let keys = weighted.depth;
        let (width, rows) = match roles.values {
            0 => (weighted.rows, weighted.columns),
            _ => (weighted.columns, weighted.rows),
        };
        let axes = Axes {
            rows,
            keys,
            depth: scores.depth,
            width,
        };
        let of_scores = [scores.rows, scores.columns];
        let result = kernel.axes.get(&roles.product).map_or(&[][..], Vec::as_slice);
        let is_seen =
            |axis: &Axis| *axis == width || kernel.axes.get(&roles.weights).is_some_and(|a| a.contains(axis));
        let is_known = kernel.reduced.len() == 2 && axes.depth != keys;
        // A program has all values of its rows, which have no other axes of their own.
        if !is_known
            || (of_scores != [rows, keys] && of_scores != [keys, rows])
            || !result.iter().all(is_seen)
        {
            return Err(unsupported());
        }
        let extent = |axis: Axis| kernel.extents.get(axis).and_then(|e| e.as_const());
        let (Some(depth), Some(width), Some(key_count)) = (extent(axes.depth), extent(width), extent(keys))
        else {
            return Err(unsupported());
        };
        let [a, b] = scores.dtypes();
        let [c, d] = weighted.dtypes();
        let values = if roles.values == 0 { c } else { d };
        let factors = factors(device, [a, b, values]).ok_or_else(unsupported)?;
        let sees_few = key_count < UNIT || !roles.weighs_all_keys(prims, kernel);
        Ok(Self {
            plan,
            prims,
            kernel,
            device,
            number,
            roles,
            pair: Pair::new(
                [scores, weighted],
                [scores.rows == keys, roles.values == 0],
                device,
                number,
                factors,
                sees_few,
            ),
            heads: Heads {
                depth,
                width,
                read: read(plan, prims, kernel, [rows, keys]),
                factors,
            },
            axes,
        })
    }

    /// Declares tiles, and how they are walked along. Returns the walks, the grid and the head of the loop along keys.
    fn walk(&self, names: &mut Names) -> Result<(HashMap<Axis, Walk>, String, String)> {
        let Axes {
            rows,
            keys,
            depth,
            width,
        } = self.axes;
        let extent = |axis: Axis| &self.kernel.extents[axis];
        let lengths = self.heads.lengths(self.device).ok_or_else(unsupported)?;
        let [of_rows, of_keys] = [(rows, lengths.rows), (keys, lengths.keys)]
            .map(|(axis, lengths)| filled(extent(axis), &lengths));
        let mut walks = HashMap::new();
        for axis in [depth, width] {
            let walk = Walk::Tile {
                start: "0".to_owned(),
                len: extent(axis).to_string(),
                overhang: false,
            };
            walks.insert(axis, walk);
        }
        let block = names.knob("BM", self.number, &of_rows);
        let mut grid = Vec::new();
        for axis in self
            .kernel
            .axes
            .get(&self.roles.product)
            .into_iter()
            .flatten()
            .copied()
        {
            if axis == rows {
                grid.push(format!("p{axis} in ceildiv({}, {block})", extent(axis)));
                let walk = Walk::Tile {
                    start: format!("p{axis}*{block}"),
                    len: block.clone(),
                    overhang: overhangs(extent(axis), &of_rows),
                };
                walks.insert(axis, walk);
            } else if axis != width {
                grid.push(format!("p{axis} in {}", extent(axis)));
                walks.insert(axis, Walk::Index(format!("p{axis}")));
            }
        }
        let step = names.knob("BN", self.number, &of_keys);
        let stages = names.hint("STAGES", self.number, &lengths.stages);
        let all = extent(keys);
        let seen = match self.roles.last_key(self.prims, self.kernel, [rows, keys]) {
            Some(0) => Some(format!("p{rows}*{block} + {block}")),
            Some(more @ 1..) => Some(format!("p{rows}*{block} + {block} + {more}")),
            Some(less) => Some(format!("max(0, p{rows}*{block} + {block} - {})", -less)),
            None => None,
        };
        // Of keys that a program may leave out, tiles are counted: that whole ones stay inside is plain then.
        let (start, over) = match seen {
            Some(seen) => (
                format!("r{keys}*{step}"),
                format!("min(ceildiv({all}, {step}), ceildiv({seen}, {step}))"),
            ),
            None => (format!("r{keys}"), format!("{all} step {step}")),
        };
        let walk = Walk::Tile {
            start,
            len: step.clone(),
            overhang: overhangs(all, &of_keys),
        };
        walks.insert(keys, walk);
        let head = format!("for r{keys} in 0..{over} pipeline({stages}) {{");
        Ok((walks, grid.join(", "), head))
    }

    fn write(&self, names: &mut Names) -> Result<Written> {
        let Axes {
            rows, keys, width, ..
        } = self.axes;
        let (walks, grid, head) = self.walk(names)?;
        let mut e = Emitter::new(self.plan, self.prims, self.kernel, names);
        e.walks = walks;
        let queries = self.pair.load_queries(&mut e)?;
        self.begin(&mut e)?;
        e.line(format!("acc0 = zeros f32{}", e.extents(&[rows, width])?));
        e.open(head);
        let scores = self.pair.score(&mut e, &queries)?;
        e.tile = vec![rows, keys];
        let scores = Var {
            text: scores.to_owned(),
            axes: e.tile.clone(),
        };
        e.define(self.roles.scores, scores);
        self.step(&mut e)?;
        e.close();
        let coefficient = self.coefficient(&mut e)?;
        let result = self.pair.conclude(&mut e, &coefficient, self.sum())?;
        e.line(format!("y0 = {result}"));
        e.tile = vec![rows, width];
        let result = Var {
            text: "y0".to_owned(),
            axes: e.tile.clone(),
        };
        e.define(self.roles.product, result);
        e.store_all(|_, _| true)?;
        let name = format!("k{}", self.number);
        let text = e.finish(&format!("kernel {name} over ({grid})"));
        Ok(Written { name, text })
    }
}
