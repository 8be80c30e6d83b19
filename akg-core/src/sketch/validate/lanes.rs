//! Lanes that stand outside a tensor do not change reductions, scans and dots.
//!
//! Outside lanes are ordinary values: a load gives its `else` constant there, and element-wise operators compute with
//! it. Where lanes are combined along an axis, the outside ones must hold the operator's identity at that point. Each
//! region that may leave its tensor is an [`Origin`]; for every combined tile the value on the lanes of each origin is
//! found by evaluating the chain of operators on them: `exp(-inf - m)` is 0. Ordinary elements count as finite.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::bounds::ends;
use super::prove::nonnegative;
use super::walk::{Site, walk};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::expr::Symbol;
use crate::sketch::ir::*;

mod origin;
mod value;

use origin::{Origin, inside, reshaped, unmoved};
use value::Lane;

/// How a value comes to be.
enum Definition<'a> {
    Op(&'a Op),
    /// A value at the start of an iteration.
    Inner,
    /// A value after a loop.
    Result(Carried, BTreeSet<Symbol>),
    /// A value after a branch, with what is known on either side.
    Merge(Merge, Box<[Site; 2]>),
    /// An operand of a combine.
    Part,
}

struct Lanes<'a> {
    kernel: &'a Kernel,
    definitions: BTreeMap<Val, Definition<'a>>,
    /// The origins of each value, by axis.
    origins: BTreeMap<Val, BTreeSet<(usize, Origin)>>,
    known: BTreeMap<(Val, Option<usize>, Origin), Lane>,
    depth: usize,
}

/// Operators that are followed from one combination back to its loads.
const DEPTH: usize = 200;

pub(super) fn check(program: &Program, out: &mut Diagnostics) {
    for kernel in &program.kernels {
        let mut lanes = Lanes {
            kernel,
            definitions: BTreeMap::new(),
            origins: BTreeMap::new(),
            known: BTreeMap::new(),
            depth: 0,
        };
        let mut combinations: Vec<(&Op, Site, &Range<usize>)> = Vec::new();
        walk(kernel, &mut |site, statement| match statement {
            Stmt::Define { value, op, span } => {
                lanes.define((program, kernel), *value, op, site);
                if matches!(
                    op,
                    Op::Reduce(..) | Op::ArgReduce(..) | Op::Scan { .. } | Op::Dot { .. }
                ) {
                    combinations.push((op, site.clone(), span));
                }
            }
            Stmt::For(l) => lanes.define_loop(l),
            Stmt::If(branch) => lanes.define_branch(branch, site),
            Stmt::Store { .. } | Stmt::Barrier => {}
        });
        lanes.settle();
        for (op, site, span) in combinations {
            out.extend(lanes.objection(op, &site, span));
        }
    }
}

impl<'a> Lanes<'a> {
    fn define(&mut self, (program, kernel): (&Program, &Kernel), value: Val, op: &'a Op, site: &Site) {
        self.definitions.insert(value, Definition::Op(op));
        if let Op::Load { tensor, region, .. } = op {
            let mut own = BTreeSet::new();
            let ranked = region.iter().zip(program.shape(kernel, *tensor));
            let ranked = ranked.filter(|(axis, _)| matches!(axis, Axis::Range { .. } | Axis::Gather(_)));
            for (i, (axis, extent)) in ranked.enumerate() {
                let Axis::Range { start, step, .. } = axis else {
                    continue;
                };
                let ends = ends(axis, start);
                let low = !nonnegative(&ends.0, site);
                if low || !nonnegative(&(extent - &ends.1 - 1), site) {
                    own.insert((
                        i,
                        Origin {
                            start: start.clone(),
                            ends,
                            step: *step,
                            extent: extent.clone(),
                            low,
                            lanes: 1,
                        },
                    ));
                }
            }
            self.origins.insert(value, own);
        }
    }

    fn define_loop(&mut self, l: &'a Loop) {
        let symbols: BTreeSet<_> = l.axes.iter().map(|a| a.symbol.clone()).collect();
        for carried in &l.carried {
            self.definitions.insert(carried.inner, Definition::Inner);
            self.definitions
                .insert(carried.result, Definition::Result(*carried, symbols.clone()));
        }
        if let Some(combine) = &l.combine {
            let parts = combine.left.iter().chain(&combine.right);
            self.definitions.extend(parts.map(|v| (*v, Definition::Part)));
        }
    }

    fn define_branch(&mut self, branch: &'a Branch, site: &Site) {
        let side = |holds: bool| {
            let mut side = site.clone();
            side.conditions.push((branch.condition.clone(), holds));
            side
        };
        for merge in &branch.merges {
            let sides = Box::new([side(true), side(false)]);
            self.definitions
                .insert(merge.result, Definition::Merge(*merge, sides));
        }
    }

    /// Passes origins on from operands to results until nothing changes. Values are numbered after their operands,
    /// except what loops carry, so few rounds are needed.
    fn settle(&mut self) {
        let values: Vec<_> = self.definitions.keys().copied().collect();
        loop {
            let mut changed = false;
            for value in &values {
                let found = self.inherited(*value);
                let own = self.origins.entry(*value).or_default();
                let before = own.len();
                own.extend(found);
                changed |= own.len() > before;
            }
            if !changed {
                return;
            }
        }
    }

    fn origins(&self, value: Val) -> impl Iterator<Item = &(usize, Origin)> {
        self.origins.get(&value).into_iter().flatten()
    }

    fn inherited(&self, value: Val) -> Vec<(usize, Origin)> {
        let all = |v: Val| self.origins(v).cloned().collect::<Vec<_>>();
        match self.definitions.get(&value) {
            Some(Definition::Op(op)) => match op {
                Op::Reduce(_, v, axis) | Op::ArgReduce(_, v, axis) => {
                    let kept = all(*v).into_iter().filter(|(a, _)| a != axis);
                    kept.map(|(a, o)| (a - usize::from(a > *axis), o)).collect()
                }
                Op::Dot { a, b, init, .. } => {
                    let rows = all(*a).into_iter().filter(|(axis, _)| *axis == 0);
                    let columns = all(*b).into_iter().filter(|(axis, _)| *axis == 1);
                    rows.chain(columns)
                        .chain(init.iter().flat_map(|v| all(*v)))
                        .collect()
                }
                Op::Transpose(v, permutation) => {
                    let moved = |(axis, o)| permutation.iter().position(|p| *p == axis).map(|at| (at, o));
                    all(*v).into_iter().filter_map(moved).collect()
                }
                Op::Reshape(v) => {
                    let (from, to) = (&self.kernel.ty(*v).extents, &self.kernel.ty(value).extents);
                    all(*v)
                        .into_iter()
                        .flat_map(|(axis, o)| reshaped(from, to, axis, &o))
                        .collect()
                }
                // Element-wise: an axis of extent 1 repeats one lane, which is not outside.
                _ => {
                    let extents = &self.kernel.ty(value).extents;
                    let operands = op.operands().into_iter();
                    let operands = operands.filter(|v| self.kernel.ty(*v).extents.len() == extents.len());
                    let origins = operands.flat_map(|v| {
                        let own = &self.kernel.ty(v).extents;
                        all(v)
                            .into_iter()
                            .filter(|(axis, _)| own.get(*axis) == extents.get(*axis))
                    });
                    if matches!(op, Op::Load { .. }) {
                        Vec::new()
                    } else {
                        origins.collect()
                    }
                }
            },
            Some(Definition::Result(c, _)) => [all(c.initial), all(c.next)].concat(),
            Some(Definition::Merge(m, _)) => [all(m.then), all(m.otherwise)].concat(),
            Some(Definition::Inner | Definition::Part) | None => Vec::new(),
        }
    }

    /// What outside lanes change about `op`.
    fn objection(&mut self, op: &Op, site: &Site, span: &Range<usize>) -> Option<Diagnostic> {
        match op {
            Op::Reduce(reduce, v, axis) | Op::ArgReduce(reduce, v, axis) => {
                self.combined(*reduce, *v, *axis, site, span)
            }
            Op::Scan {
                op,
                value,
                axis,
                reverse,
                ..
            } => {
                // Lanes after the end do not reach those before it.
                let at_end = |o: &Origin| !o.low && o.step > 0;
                if !reverse && self.origins(*value).all(|(a, o)| a != axis || at_end(o)) {
                    return None;
                }
                self.combined(*op, *value, *axis, site, span)
            }
            Op::Dot { a, b, .. } => {
                let along = |v, axis| {
                    let own = self.origins(v).filter(move |(x, _)| *x == axis);
                    own.map(|(_, o)| o.clone()).collect::<BTreeSet<_>>()
                };
                let origins: Vec<_> = along(*a, 1).union(&along(*b, 0)).cloned().collect();
                origins
                    .into_iter()
                    .filter(|o| !inside(o, site))
                    .find_map(|origin| {
                        let product = self.at(*a, Some(1), &origin).binary(
                            BinaryOp::Mul,
                            &self.at(*b, Some(0), &origin),
                            site,
                        );
                        complaint(&product, product.is(0.0), "dot", &origin, span)
                    })
            }
            _ => None,
        }
    }

    fn combined(
        &mut self,
        op: ReduceOp,
        v: Val,
        axis: usize,
        site: &Site,
        span: &Range<usize>,
    ) -> Option<Diagnostic> {
        let origins: Vec<_> = self
            .origins(v)
            .filter(|(a, _)| *a == axis)
            .map(|(_, o)| o.clone())
            .collect();
        let dtype = self.kernel.ty(v).dtype;
        origins
            .into_iter()
            .filter(|o| !inside(o, site))
            .find_map(|origin| {
                let lane = self.at(v, Some(axis), &origin);
                let neutral = match op {
                    ReduceOp::Sum => lane.is(0.0),
                    ReduceOp::Prod => lane.is(1.0),
                    ReduceOp::Max => {
                        lane.is(value::lowest(dtype)) || (lane.is(0.0) && self.is_nonnegative(v, 0))
                    }
                    ReduceOp::Min => lane.is(value::highest(dtype)),
                };
                complaint(&lane, neutral, op.name(), &origin, span)
            })
    }

    /// The value of `v` on the lanes of `origin` along `axis`; `None` as axis if `v` is the same on all lanes.
    fn at(&mut self, v: Val, axis: Option<usize>, origin: &Origin) -> Lane {
        let key = (v, axis, origin.clone());
        if let Some(lane) = self.known.get(&key) {
            return lane.clone();
        }
        if self.depth >= DEPTH {
            return Lane::Data;
        }
        self.depth += 1;
        let lane = self.find(v, axis, origin);
        self.depth -= 1;
        self.known.insert(key, lane.clone());
        lane
    }

    fn find(&mut self, v: Val, axis: Option<usize>, origin: &Origin) -> Lane {
        let op = match self.definitions.get(&v) {
            Some(Definition::Op(op)) => *op,
            Some(Definition::Inner) => return Lane::Carried(v),
            Some(Definition::Result(carried, symbols)) => {
                let (carried, symbols) = (*carried, symbols.clone());
                return self.after_loop(carried, &symbols, axis, origin);
            }
            Some(Definition::Merge(merge, sides)) => {
                let merge = *merge;
                let [then, otherwise] = &**sides;
                return match (inside(origin, then), inside(origin, otherwise)) {
                    (true, true) => Lane::Clean,
                    (true, false) => self.at(merge.otherwise, axis, origin),
                    (false, true) => self.at(merge.then, axis, origin),
                    (false, false) => {
                        let (a, b) = (
                            self.at(merge.then, axis, origin),
                            self.at(merge.otherwise, axis, origin),
                        );
                        if a == b { a } else { Lane::Data }
                    }
                };
            }
            Some(Definition::Part) | None => return Lane::Data,
        };
        let site = Site::default();
        // An operand with the axis, or one that repeats along it.
        let rank = self.kernel.ty(v).extents.len();
        let extent = axis.and_then(|a| self.kernel.ty(v).extents.get(a).copied());
        let kernel = self.kernel;
        let of = |operand: Val| {
            let ty = kernel.ty(operand);
            axis.filter(|a| ty.extents.len() == rank && ty.extents.get(*a).copied() == extent)
        };
        match op {
            Op::Load { fill, .. } => {
                let own = axis.is_some_and(|a| self.origins(v).any(|(x, o)| *x == a && o == origin));
                match (own, fill) {
                    (true, Some(Scalar::Float(fill))) => Lane::Known(*fill),
                    (true, Some(Scalar::Int(fill))) => Lane::Known(*fill as f64),
                    _ => Lane::Data,
                }
            }
            Op::Full(Scalar::Float(value)) => Lane::Known(*value),
            Op::Full(Scalar::Int(value)) => Lane::Known(*value as f64),
            Op::Iota if axis.is_some() && origin.step == 1 && !origin.low && origin.lanes == 1 => {
                Lane::AtLeast(&origin.extent - &origin.start)
            }
            Op::Index(expr) => Lane::Exact(expr.clone()),
            Op::Unary(op, a) => self.at(*a, of(*a), origin).unary(*op),
            Op::Binary(op, a, b) => {
                let (x, y) = (self.at(*a, of(*a), origin), self.at(*b, of(*b), origin));
                x.binary(*op, &y, &site)
            }
            Op::Compare(op, a, b) => {
                let (x, y) = (self.at(*a, of(*a), origin), self.at(*b, of(*b), origin));
                x.compare(*op, &y, &site)
            }
            Op::Select(c, a, b) => match self.at(*c, of(*c), origin) {
                Lane::Known(0.0) => self.at(*b, of(*b), origin),
                Lane::Known(_) => self.at(*a, of(*a), origin),
                _ => {
                    let (x, y) = (self.at(*a, of(*a), origin), self.at(*b, of(*b), origin));
                    if x == y { x } else { Lane::Data }
                }
            },
            Op::Cast(a) => self.at(*a, of(*a), origin).cast(self.kernel.ty(v).dtype),
            Op::Reduce(op, a, along) => {
                let inner = axis.map(|x| x + usize::from(x >= *along));
                match (op, self.at(*a, inner, origin)) {
                    (ReduceOp::Sum, Lane::Known(0.0)) => Lane::Known(0.0),
                    (ReduceOp::Max | ReduceOp::Min, Lane::Known(value)) if inner.is_some() => {
                        Lane::Known(value)
                    }
                    _ => Lane::Data,
                }
            }
            Op::Dot { a, b, init, .. } => {
                let product = match axis {
                    Some(0) => self.at(*a, Some(0), origin),
                    Some(_) => self.at(*b, Some(1), origin),
                    None => Lane::Data,
                };
                match (product, init) {
                    (Lane::Known(0.0), None) => Lane::Known(0.0),
                    (Lane::Known(0.0), Some(init)) => self.at(*init, axis, origin),
                    _ => Lane::Data,
                }
            }
            Op::Transpose(a, permutation) => {
                let inner = axis.and_then(|x| permutation.get(x).copied());
                self.at(*a, inner, origin)
            }
            Op::Reshape(a) => {
                let (from, to) = (&self.kernel.ty(*a).extents, &self.kernel.ty(v).extents);
                let Some(axis) = axis else {
                    return self.at(*a, None, origin);
                };
                if origin.lanes == 0 {
                    return Lane::Data;
                }
                let images =
                    |(x, o): &(usize, Origin)| reshaped(from, to, *x, o).contains(&(axis, origin.clone()));
                let source = self.origins(*a).find(|s| images(s)).cloned();
                match source {
                    Some((x, o)) => self.at(*a, Some(x), &o),
                    None if to.get(axis) == Some(&1) => self.at(*a, None, origin),
                    None => match unmoved(from, to, axis) {
                        Some(inner) => self.at(*a, Some(inner), origin),
                        None => Lane::Data,
                    },
                }
            }
            Op::Iota | Op::Bits(_) | Op::ArgReduce(..) | Op::Scan { .. } => Lane::Data,
        }
    }

    fn after_loop(
        &mut self,
        carried: Carried,
        symbols: &BTreeSet<Symbol>,
        axis: Option<usize>,
        origin: &Origin,
    ) -> Lane {
        let before = self.at(carried.initial, axis, origin);
        let by_round = symbols
            .iter()
            .any(|s| origin.start.mentions(s) || origin.extent.mentions(s));
        match self.at(carried.next, axis, origin) {
            // Outside lanes keep what earlier rounds, in which they were inside, left there.
            Lane::Carried(inner) if inner == carried.inner => {
                if by_round {
                    Lane::Clean
                } else {
                    before
                }
            }
            Lane::Clean => Lane::Clean,
            after if after == before && !by_round => after,
            _ => Lane::Data,
        }
    }

    /// Whether no element of a tile can be negative, by the operators that make it.
    fn is_nonnegative(&self, v: Val, depth: usize) -> bool {
        let Some(Definition::Op(op)) = self.definitions.get(&v) else {
            return false;
        };
        if depth > DEPTH {
            return false;
        }
        let of = |v: &Val| self.is_nonnegative(*v, depth + 1);
        match op {
            Op::Unary(UnaryOp::Abs | UnaryOp::Exp | UnaryOp::Exp2 | UnaryOp::Sqrt | UnaryOp::Sigmoid, _) => {
                true
            }
            Op::Full(Scalar::Float(value)) => *value >= 0.0,
            Op::Full(Scalar::Int(value)) => *value >= 0,
            Op::Cast(a) | Op::Reshape(a) | Op::Transpose(a, _) => of(a),
            Op::Binary(BinaryOp::Mul, a, b) => a == b || (of(a) && of(b)),
            Op::Binary(BinaryOp::Max, a, b) => of(a) || of(b),
            Op::Binary(BinaryOp::Add | BinaryOp::Min | BinaryOp::Div, a, b) => of(a) && of(b),
            _ => false,
        }
    }
}

fn complaint(
    lane: &Lane,
    neutral: bool,
    operator: &str,
    origin: &Origin,
    span: &Range<usize>,
) -> Option<Diagnostic> {
    let place = format!(
        "of a region from {} beyond the extent {}",
        origin.start, origin.extent
    );
    match lane {
        Lane::Clean => None,
        _ if neutral => None,
        Lane::Known(value) => {
            let message = format!("lanes {place} hold {value} here, which changes the {operator}");
            let note =
                "give the load an `else` that leads to a neutral value, or mask those lanes with `select`";
            Some(Diagnostic::error(message, span.clone()).note(note))
        }
        _ => {
            let message = format!("cannot show that lanes {place} leave the {operator} unchanged");
            let note = "mask them: `select(first + iota(N) < EXTENT, t, neutral)`";
            Some(Diagnostic::warning(message, span.clone()).note(note))
        }
    }
}
