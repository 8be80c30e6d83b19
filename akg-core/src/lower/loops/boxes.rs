//! Boxes of tensors that several iterations of a loop read parts of.
//!
//! What a window meets at one tap lies an element or a row beside what it meets at the next. Where a loop over taps loads
//! an operand of a dot, all that its iterations load is copied once before the loop, zeros around a tensor included, and dots
//! read it from there. The left operand of a dot, whose elements are taken one by one, is not even brought together first.

use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{Axis, DotMethod, Loop, Op, Scalar as Constant, Stmt as SketchStmt, TensorId, Val};

use super::checks::affine;
use super::element::row_major;
use super::ir::{LocalId, Place, Stmt};
use super::mapper::Mapper;
use super::pack::Slab;

/// The most bytes of what is brought together for several iterations, which should stay in a core's cache with all else.
pub(super) const MOST: usize = 1 << 19;
/// The most iterations of a loop that a box is for.
const ITERATIONS: i64 = 64;

/// The part of a box that a load is in an iteration.
#[derive(Debug, Clone)]
pub(super) struct Held {
    pub(super) local: LocalId,
    /// The element at index 0 of all dimensions.
    pub(super) offset: Expr,
    /// The distance of elements along each dimension of the tile.
    pub(super) strides: Vec<i64>,
}

/// A loop around loads.
#[derive(Debug)]
pub(super) struct Around {
    pub(super) symbol: Symbol,
    /// The first and the last value, if these are known and all between them are values, too.
    pub(super) values: Option<(i64, i64)>,
}

/// A dimension of a box: the elements `start + step * i` of one of the tensor's.
struct Dimension {
    start: Expr,
    step: i64,
    extent: usize,
    /// The place in it of the load's first element.
    first: Expr,
    /// The distance of the load's elements in it, if there is a dimension of the tile along it.
    distance: Option<i64>,
}

impl Mapper<'_> {
    /// Copies boxes for the loop `l`, whose indices are `around`. Returns how many of these, innermost first, each box is
    /// for, and the statements.
    pub(super) fn boxes(&mut self, l: &Loop, around: &[Around]) -> Result<Vec<(usize, Vec<Stmt>)>> {
        let mut copied = Vec::new();
        for stmt in &l.body {
            if let SketchStmt::Define {
                value,
                op: Op::Load { tensor, region, fill },
                ..
            } = stmt
                && matches!(fill, None | Some(Constant::Int(0) | Constant::Float(0.0)))
                && !self.written.contains(tensor)
                && self.is_operand(*value, l)
                && let Some((inner, dimensions)) = self.worthwhile(*value, region, around)
                && let Some(copy) = self.copy_box(*value, *tensor, dimensions)?
            {
                copied.push((inner, copy));
            }
        }
        Ok(copied)
    }

    /// Whether all that becomes of a value in the loop is to be the right operand of a dot as it is, or the left one
    /// transposed.
    fn is_operand(&self, v: Val, l: &Loop) -> bool {
        let is_once = |v: Val| self.uses[v.0 as usize].count == 1;
        let (mut now, mut transposed) = (v, false);
        if !is_once(v) {
            return false;
        }
        for stmt in &l.body {
            let SketchStmt::Define { value, op, .. } = stmt else {
                continue;
            };
            match op {
                Op::Reshape(u) if *u == now && !transposed => now = *value,
                Op::Transpose(u, perm) if *u == now && !transposed && perm[..] == [1, 0] => {
                    (now, transposed) = (*value, true);
                }
                Op::Dot { a, b, method, .. } if *a == now || *b == now => {
                    let operand = if transposed { a } else { b };
                    let is_float = self.kernel.ty(v).dtype == DType::F32;
                    return *operand == now && a != b && *method == DotMethod::Ieee && is_float;
                }
                _ => continue,
            }
            if !is_once(now) {
                return false;
            }
        }
        false
    }

    /// The box for most of the inner loops that is small, and read several times.
    fn worthwhile(&self, v: Val, region: &[Axis], around: &[Around]) -> Option<(usize, Vec<Dimension>)> {
        let elements = |dimensions: &[Dimension]| {
            dimensions
                .iter()
                .fold(1usize, |all, d| all.saturating_mul(d.extent))
        };
        let each: usize = self.kernel.ty(v).extents.iter().product();
        let mut found = None;
        let mut loaded = each;
        for inner in 1..=around.len() {
            let inside = &around[around.len() - inner..];
            let iterations = inside.first().and_then(|outermost| outermost.values);
            let iterations = iterations.map_or(0, |(first, last)| last - first + 1);
            let Some(dimensions) = self.dimensions(region, inside) else {
                break;
            };
            let size = elements(&dimensions);
            if !(1..=ITERATIONS).contains(&iterations) || size > MOST / DType::F32.size() {
                break;
            }
            loaded = loaded.saturating_mul(iterations as usize);
            if size.saturating_mul(3) < loaded.saturating_mul(2) {
                found = Some((inner, dimensions));
            }
        }
        found
    }

    /// All that is loaded from a region while these loops go on.
    fn dimensions(&self, region: &[Axis], inside: &[Around]) -> Option<Vec<Dimension>> {
        let dimension = |axis: &Axis| {
            let (start, len, step, is_tile) = match axis {
                Axis::Range { start, len, step } => (start, *len, *step, true),
                Axis::At(at) => (at, 1, 1, false),
                Axis::AtTile(_) | Axis::Gather(_) => return None,
            };
            let (mut start, mut first) = (self.index(start), Expr::constant(0));
            let (mut low, mut high) = (0, 0);
            for Around { symbol, values } in inside {
                let (rest, factor) = affine(&start, symbol)?;
                let ends = <[i64; 2]>::from((*values)?).map(|value| factor * value);
                low += ends[0].min(ends[1]);
                high += ends[0].max(ends[1]);
                first = first + Expr::symbol(symbol.clone()) * factor;
                start = rest;
            }
            if first.is(0) {
                let distance = is_tile.then_some(1);
                return Some(Dimension {
                    start,
                    step,
                    extent: len,
                    first,
                    distance,
                });
            }
            let reach = step * (i64::try_from(len).ok()? - 1);
            low += reach.min(0);
            high += reach.max(0);
            Some(Dimension {
                start: start + low,
                step: 1,
                extent: usize::try_from(high - low + 1).ok()?,
                first: first - low,
                distance: is_tile.then_some(step),
            })
        };
        region.iter().map(dimension).collect()
    }

    /// Copies a box of a tensor, in which `v` is found from now on. Returns the statements.
    fn copy_box(
        &mut self,
        v: Val,
        tensor: TensorId,
        dimensions: Vec<Dimension>,
    ) -> Result<Option<Vec<Stmt>>> {
        let mut extents: Vec<usize> = dimensions.iter().map(|d| d.extent).collect();
        let outer = self.open_extents(extents.clone());
        let index = self.frame.index.clone();
        self.frame = outer;
        let coordinates = dimensions.iter().zip(&index);
        let coordinates = coordinates
            .map(|(d, i)| &d.start + &(i.clone() * d.step))
            .collect();
        let (offset, guards) = self.locate(tensor, coordinates);
        let rows = extents.len().saturating_sub(1);
        let place = Place::Tensor(tensor);
        let slab = self.slab_at(place, offset, guards, (&index, &extents), None, rows);
        let Some(slab) = slab.filter(Slab::is_regular) else {
            return Ok(None);
        };
        let before = std::mem::take(&mut self.out);
        let lanes = self.machine.vector_bytes / DType::F32.size();
        let mut width = 1;
        if let Some(row) = extents.last_mut() {
            *row = self.apart(*row, DType::F32);
            width = *row;
        }
        let len = extents.iter().product::<usize>() + lanes;
        let local = self.local("held", DType::F32, &[len]);
        self.pack(&slab, local, width)?;

        let firsts: Vec<Expr> = dimensions.iter().map(|d| d.first.clone()).collect();
        let mut stride = 1;
        let mut strides = Vec::new();
        for (dimension, extent) in dimensions.iter().zip(&extents).rev() {
            strides.extend(dimension.distance.map(|distance| distance * stride));
            stride *= *extent as i64;
        }
        strides.reverse();
        let offset = row_major(&extents, &firsts);
        self.held.insert(
            v,
            Held {
                local,
                offset,
                strides,
            },
        );
        Ok(Some(std::mem::replace(&mut self.out, before)))
    }
}
