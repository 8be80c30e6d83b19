//! Elements that stand at places known to the design: a resampled image reads others at places that follow from its own.
//!
//! Places are taken apart into windows. Those of a nearest neighbour repeat each element, those of a linear interpolation by a
//! whole factor are two windows, one for each half of the factor. Such reads need no table of indices and stand in the kernel
//! that wants the elements.

use std::collections::HashSet;

use super::Step;
use crate::designer::prim::PrimId;
use crate::designer::window::Window;
use crate::dtype::DTypeClass;
use crate::error::{Error, Result};
use crate::expr::{Bindings, Expr};
use crate::graph::{Graph, ValueId};
use crate::reference::{Buffer, Options, Semantics, evaluate};
use crate::sketch::ir::CompareOp;

/// The largest factor that a resampling is recognised by.
const MOST_PHASES: usize = 16;

/// Reads of a table for each element that are worth it: an interpolation between two places along each of two dimensions has up to
/// sixteen for each of its four neighbours, with those at the ends.
const MOST_READS: usize = 16;

/// Indices that are evaluated for a design have so many elements at most.
const MOST_PLACES: usize = 1 << 16;

/// An index whose numbers follow from the graph alone.
struct FixedIndex {
    shape: Vec<usize>,
    numbers: Vec<i64>,
}

/// The elements that indices name along neighbouring dimensions; `None` unless their numbers are known and each varies along a
/// dimension of its own, in their order.
pub(super) fn named(s: &mut Step<'_>, table: PrimId, indices: &[(usize, ValueId)]) -> Result<Option<PrimId>> {
    let mut along: Vec<(usize, Vec<i64>)> = Vec::new();
    let mut outer = None;
    let mut fixed = Vec::new();
    for (dim, index) in indices {
        match s.fixed(*index)? {
            Some(index) => fixed.push((*dim, index)),
            None => return Ok(None),
        }
    }
    let rank = fixed
        .iter()
        .map(|(_, index)| index.shape.len())
        .max()
        .unwrap_or(0);
    let neighbours = fixed.iter().zip(fixed.iter().skip(1));
    if neighbours.into_iter().any(|((a, _), (b, _))| a + 1 != *b) {
        return Ok(None);
    }
    for (dim, FixedIndex { shape, numbers }) in fixed {
        let lead = rank - shape.len();
        let mut wide = shape.iter().enumerate().filter(|(_, extent)| **extent != 1);
        let own = wide.next().map(|(axis, _)| lead + axis);
        if wide.next().is_some() || own.is_some() && own <= outer {
            return Ok(None);
        }
        outer = own.or(outer);
        let Some(extent) = s.prims.extent(table, dim).as_const() else {
            return Ok(None);
        };
        let places = numbers.iter().map(|n| if *n < 0 { n + extent } else { *n });
        let places: Vec<i64> = places.collect();
        if places.is_empty() || !places.iter().all(|at| (0..extent).contains(at)) {
            return Ok(None);
        }
        along.push((dim, places));
    }
    let patterns = along.iter().map(|(dim, places)| {
        let extent = s.prims.extent(table, *dim).as_const()?;
        Pattern::of(places, *dim, extent)
    });
    let patterns: Option<Vec<Pattern>> = patterns.collect();
    let Some(patterns) = patterns.filter(|patterns| reads(patterns) <= MOST_READS) else {
        return Ok(None);
    };
    taken(s, table, &patterns).map(Some)
}

/// The reads of the table for each element.
fn reads(patterns: &[Pattern]) -> usize {
    let each = patterns.iter().map(|pattern| {
        let runs = pattern.runs.iter();
        runs.map(|run| 1 + run.places.edges.len()).sum::<usize>()
    });
    each.product()
}

/// The elements of `table` at places along several dimensions.
fn taken(s: &mut Step<'_>, table: PrimId, patterns: &[Pattern]) -> Result<PrimId> {
    let mut result = s.prims.shape(table).to_vec();
    let mut apart = Vec::new();
    for (dim, extent) in result.iter_mut().enumerate() {
        match patterns.iter().find(|pattern| pattern.dim == dim) {
            Some(pattern) => {
                *extent = (pattern.count * pattern.phases).into();
                apart.extend([pattern.count.into(), pattern.phases.into()]);
            }
            None => apart.push(extent.clone()),
        }
    }
    let taken = Taking { patterns, apart };
    let read = taken.read(s, table, patterns)?;
    let read = s.prims.expand(read, taken.apart);
    Ok(s.prims.reshape(read, result))
}

/// A table whose elements are taken. All windows come first, since what they see must lie in memory.
struct Taking<'a> {
    patterns: &'a [Pattern],
    /// The shape of what is taken, with a dimension for the phases after each that is named.
    apart: Vec<Expr>,
}

impl Taking<'_> {
    /// Reads a view in which the patterns before those of `rest` are windows.
    fn read(&self, s: &mut Step<'_>, view: PrimId, rest: &[Pattern]) -> Result<PrimId> {
        let Some((pattern, rest)) = rest.split_first() else {
            return Ok(self.with_phases(s, view));
        };
        let dim = pattern.dim;
        let before = self.patterns.iter().filter(|other| other.dim < dim).count();
        let (place, phase) = (dim + before, dim + before + 1);
        let is_at = |s: &mut Step<'_>, axis: usize, op: CompareOp, limit: i64| -> Result<PrimId> {
            let at = s.prims.coordinate(axis, self.apart.clone());
            let limit = s.prims.number(limit as f64);
            s.prims.compare(op, at, limit)
        };
        let mut taken: Option<PrimId> = None;
        for run in pattern.runs.iter().rev() {
            let window = pattern.window(s, view, &run.places);
            let mut own = self.read(s, window, rest)?;
            for edge in &run.places.edges {
                let at = s
                    .prims
                    .window(view, Window::new(dim, edge.at.into(), 1), 1.into());
                let at = self.read(s, at, rest)?;
                let is_edge = is_at(s, place, edge.op, edge.limit)?;
                own = s.prims.select(is_edge, at, own)?;
            }
            taken = Some(match taken {
                None => own,
                Some(later) => {
                    let is_own = is_at(s, phase, CompareOp::Lt, run.end)?;
                    s.prims.select(is_own, own, later)?
                }
            });
        }
        taken.ok_or_else(|| Error::unexpected("a pattern without phases"))
    }

    /// A view with a dimension of extent 1 after each that is named.
    fn with_phases(&self, s: &mut Step<'_>, view: PrimId) -> PrimId {
        let mut shape = Vec::new();
        for (dim, extent) in s.prims.shape(view).iter().enumerate() {
            shape.push(extent.clone());
            if self.patterns.iter().any(|pattern| pattern.dim == dim) {
                shape.push(Expr::constant(1));
            }
        }
        s.prims.reshape(view, shape)
    }
}

impl Step<'_> {
    /// The numbers of an index, if they follow from the graph alone and are not too many.
    fn fixed(&self, index: ValueId) -> Result<Option<FixedIndex>> {
        if !self.fixed.contains(&index) {
            return Ok(None);
        }
        let ty = self.graph.ty(index);
        let Ok(shape) = ty.concrete_shape(&Bindings::new()) else {
            return Ok(None);
        };
        if ty.dtype.class() != DTypeClass::Int || shape.iter().product::<usize>() > MOST_PLACES {
            return Ok(None);
        }
        let own = self.graph.subgraph(&[], &[index])?;
        let options = Options {
            semantics: Semantics::wide(self.graph),
            ..Options::default()
        };
        let numbers = evaluate(&own, &[], &options)?.into_iter().next();
        Ok(numbers.and_then(|outcome| match outcome.data {
            Buffer::Int(numbers) => Some(FixedIndex { shape, numbers }),
            _ => None,
        }))
    }
}

/// Places along a dimension, of which the same phases occur again and again.
#[derive(Debug, PartialEq)]
struct Pattern {
    dim: usize,
    /// The extent of the dimension.
    extent: i64,
    phases: i64,
    /// The number of times that each phase occurs.
    count: i64,
    runs: Vec<Run>,
}

/// Phases that follow one another with the same places: for occurrence `i`, `i * step + offset`, or that of an edge.
#[derive(Debug, PartialEq)]
struct Run {
    /// The first phase after them.
    end: i64,
    places: Places,
}

#[derive(Debug, PartialEq)]
struct Places {
    step: i64,
    offset: i64,
    edges: Vec<Edge>,
}

/// One place that the first occurrences have, or the last ones: those of which the number is below or from a limit on.
#[derive(Debug, PartialEq)]
struct Edge {
    op: CompareOp,
    limit: i64,
    at: i64,
}

impl Pattern {
    fn of(places: &[i64], dim: usize, extent: i64) -> Option<Self> {
        let phases = (1..=MOST_PHASES).filter(|phases| places.len().is_multiple_of(*phases));
        phases.into_iter().find_map(|phases| {
            let mut runs: Vec<Run> = Vec::new();
            for phase in 0..phases {
                let own: Vec<i64> = places.iter().skip(phase).step_by(phases).copied().collect();
                let (own, end) = (Places::of(&own)?, phase as i64 + 1);
                match runs.last_mut() {
                    Some(run) if run.places == own => run.end = end,
                    _ => runs.push(Run { end, places: own }),
                }
            }
            Some(Self {
                dim,
                extent,
                phases: phases as i64,
                count: (places.len() / phases) as i64,
                runs,
            })
        })
    }

    /// A view of the places of a run, whatever stands where they are those of an edge.
    fn window(&self, s: &mut Step<'_>, view: PrimId, places: &Places) -> PrimId {
        let &Places { step, offset, .. } = places;
        if self.extent == 1 {
            view
        } else if step == 0 {
            s.prims
                .window(view, Window::new(self.dim, offset.into(), 1), 1.into())
        } else {
            let window = Window::new(self.dim, offset.into(), step);
            s.prims.window(view, window, self.count.into())
        }
    }
}

impl Places {
    /// The step is that in the middle, where no end of the dimension is near.
    fn of(places: &[i64]) -> Option<Self> {
        let middle = places.len() / 2;
        let (at, before) = (*places.get(middle)?, places.get(middle.wrapping_sub(1)));
        let step = before.map_or(0, |before| at - before);
        let offset = at - middle as i64 * step;
        let (head, tail) = places.split_at(middle);
        let is_apart = |(at, i): &(&i64, i64)| **at != i * step + offset;
        let first = head.iter().zip(0..).filter(is_apart).count();
        let last = tail.iter().zip(middle as i64..).filter(is_apart).count();
        let mut edges = Vec::new();
        for (op, limit, edge) in [
            (CompareOp::Lt, first, head.get(..first)?),
            (CompareOp::Ge, places.len() - last, tail.get(tail.len() - last..)?),
        ] {
            if let [at, others @ ..] = edge {
                if others.iter().any(|other| other != at) {
                    return None;
                }
                edges.push(Edge {
                    op,
                    limit: limit as i64,
                    at: *at,
                });
            }
        }
        // What is apart must be at the ends.
        let inner = places.get(first..places.len() - last)?.iter().zip(first as i64..);
        if inner.clone().any(|place| is_apart(&place)) {
            return None;
        }
        Some(Self { step, offset, edges })
    }
}

/// The values of a graph that follow from it alone: its constants, and what is computed from nothing else.
pub(super) fn fixed(graph: &Graph) -> HashSet<ValueId> {
    let mut fixed: HashSet<ValueId> = graph.constants().iter().map(|c| c.value).collect();
    for node in graph.nodes() {
        if node.inputs().all(|value| fixed.contains(&value)) {
            fixed.extend(node.outputs.iter().copied());
        }
    }
    fixed
}
