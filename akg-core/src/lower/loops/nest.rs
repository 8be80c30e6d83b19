//! From per-element computations to loops: which bounds are checked where, what is computed at which level.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::dtype::DType;
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{CompareOp, Condition};

use super::ahead::Ahead;
use super::effect::Effect;
use super::ir::{LoopKind, Scalar, Stmt};
use super::mapper::Mapper;
use super::node::{Guard, NodeId, NodeKind};
use super::parts::Parts;
use super::stream::Stream;

/// Loops around effects.
#[derive(Debug)]
pub(super) struct Nest {
    /// Indices and their extents, outermost first; no extent is 1.
    pub(super) axes: Vec<(Symbol, usize)>,
    pub(super) effects: Vec<Effect>,
    /// Points where one of these fails are skipped.
    pub(super) clip: Vec<Guard>,
    /// The number of loops around `before` and `after`.
    pub(super) level: usize,
    pub(super) before: Vec<Stmt>,
    pub(super) after: Vec<Stmt>,
    /// The innermost loop.
    pub(super) innermost: LoopKind,
    /// The parts that the innermost loop is cut into, and what follows each.
    pub(super) parts: Option<(Parts, Vec<Stmt>)>,
}

impl Nest {
    /// A nest whose points are independent.
    pub(super) fn parallel(axes: Vec<(Symbol, usize)>, effects: Vec<Effect>) -> Self {
        Self {
            axes,
            effects,
            clip: Vec::new(),
            level: 0,
            before: Vec::new(),
            after: Vec::new(),
            innermost: LoopKind::Vector(Vec::new()),
            parts: None,
        }
    }
}

/// How a guard is checked.
#[derive(Debug, Clone)]
enum Check {
    /// The tile index lies between the bounds that a [`Stmt::Clip`] computes.
    Range(Vec<Condition>),
    /// The same for all points.
    Once(Condition),
    /// For each point.
    Each(Condition),
    /// The loops go only where it holds.
    Holds,
}

/// The nodes of a nest: how often each is used, and the number of loops it depends on.
pub(super) struct Plan {
    pub(super) levels: BTreeMap<NodeId, usize>,
    /// Nodes with a name, and whether it is an index.
    pub(super) named: BTreeMap<NodeId, Vec<(Symbol, bool)>>,
    checks: HashMap<Guard, Check>,
    /// The first row of a block, if rows are combined block by block.
    pub(super) block: Option<Symbol>,
    /// How the innermost loop stores, if that goes past the caches.
    pub(super) stream: Option<Stream>,
    /// What the innermost loop reads ahead.
    ahead: Vec<Ahead>,
}

impl Mapper<'_> {
    /// Appends the loops of `nest`.
    pub(super) fn emit(&mut self, nest: &Nest) {
        let mut plan = self.plan(nest);
        let (clipped, mut condition) = self.clip_checks(nest, &mut plan);
        self.load_checks(nest, &mut plan);
        // A part is written as a whole.
        if clipped.each.is_empty() {
            plan.stream = self.stream(nest);
        }
        plan.block = self.block_of_rows(nest, &plan);
        plan.ahead = self.read_ahead(nest, &plan);
        let mut interior: Vec<Condition> = Vec::new();
        for check in plan.checks.values() {
            match check {
                Check::Range(c) => interior.extend(c.iter().map(|c| full_range(c, nest))),
                Check::Once(c) => interior.push(c.clone()),
                Check::Each(_) | Check::Holds => {}
            }
        }
        interior.sort_by_key(|c| format!("{c:?}"));
        interior.dedup();
        let never = interior.iter().any(is_false);
        let mut body = match all(interior) {
            None => self.level(nest, &plan, &clipped, 0, false),
            Some(_) if never => self.level(nest, &plan, &clipped, 0, false),
            Some(interior) => vec![Stmt::If {
                condition: interior,
                then: self.level(nest, &plan, &clipped, 0, true),
                otherwise: self.level(nest, &plan, &clipped, 0, false),
            }],
        };
        if let Some(condition) = condition.take() {
            body = vec![Stmt::If {
                condition,
                then: body,
                otherwise: Vec::new(),
            }];
        }
        self.out.append(&mut body);
    }

    fn plan(&mut self, nest: &Nest) -> Plan {
        let mut refs: BTreeMap<NodeId, usize> = BTreeMap::new();
        let mut indexed: BTreeSet<NodeId> = BTreeSet::new();
        let mut stack: Vec<NodeId> = Vec::new();
        let mut users: BTreeMap<NodeId, Vec<Option<NodeId>>> = BTreeMap::new();
        let visit_indices = |exprs: Vec<&Expr>, dynamic: &HashMap<Symbol, NodeId>| -> Vec<NodeId> {
            let symbols = exprs.into_iter().flat_map(|e| e.symbols());
            symbols.filter_map(|s| dynamic.get(&s).copied()).collect()
        };
        for effect in &nest.effects {
            let value = effect.value();
            *refs.entry(value).or_default() += 1 + usize::from(effect.repeats_value());
            users.entry(value).or_default().push(None);
            stack.push(value);
            for node in visit_indices(effect.indices(), &self.dynamic) {
                indexed.insert(node);
                users.entry(node).or_default().push(None);
                stack.push(node);
            }
        }
        for guard in &nest.clip {
            for node in visit_indices(vec![&guard.coordinate, &guard.extent], &self.dynamic) {
                indexed.insert(node);
                stack.push(node);
            }
        }
        let mut seen: BTreeSet<NodeId> = BTreeSet::new();
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            let kind = &self.nodes.get(id).kind;
            for operand in kind.operands() {
                *refs.entry(operand).or_default() += 1;
                users.entry(operand).or_default().push(Some(id));
                stack.push(operand);
            }
            for node in visit_indices(kind.indices(), &self.dynamic) {
                indexed.insert(node);
                users.entry(node).or_default().push(Some(id));
                stack.push(node);
            }
        }
        let mut levels: BTreeMap<NodeId, usize> = BTreeMap::new();
        for id in &seen {
            let kind = &self.nodes.get(*id).kind;
            let direct = kind.operands().filter_map(|o| levels.get(&o).copied()).max();
            let through = kind
                .indices()
                .into_iter()
                .map(|e| self.index_level(e, nest, &levels))
                .max();
            levels.insert(*id, direct.max(through).unwrap_or(0));
        }
        let innermost = nest.axes.len();
        let mut named: BTreeMap<NodeId, Vec<(Symbol, bool)>> = BTreeMap::new();
        for (id, level) in &levels {
            let node = self.nodes.get(*id);
            let trivial = match &node.kind {
                NodeKind::Const(_) | NodeKind::Index(_) => true,
                NodeKind::Local(local, _) => self.locals[local.0].len.is_none(),
                _ => false,
            };
            let hoisted = users.get(id).is_some_and(|users| {
                users
                    .iter()
                    .any(|u| u.map_or(innermost, |u| levels.get(&u).copied().unwrap_or(innermost)) > *level)
            });
            let shared = refs.get(id).copied().unwrap_or(0) > 1;
            let mut names = Vec::new();
            if !trivial && (hoisted || shared) {
                let base = self.labels.get(id).cloned().unwrap_or_else(|| "v".into());
                names.push((self.names.fresh(&base), false));
            }
            if indexed.contains(id) {
                names.extend(
                    self.dynamic
                        .iter()
                        .filter(|(_, n)| *n == id)
                        .map(|(s, _)| (s.clone(), true)),
                );
            }
            if !names.is_empty() {
                named.insert(*id, names);
            }
        }
        Plan {
            levels,
            named,
            checks: HashMap::new(),
            block: None,
            stream: None,
            ahead: Vec::new(),
        }
    }

    /// The number of loops around the innermost one whose index the expression mentions.
    fn index_level(&self, expr: &Expr, nest: &Nest, levels: &BTreeMap<NodeId, usize>) -> usize {
        expr.symbols()
            .iter()
            .map(|s| match nest.axes.iter().position(|(axis, _)| axis == s) {
                Some(position) => position + 1,
                None => self
                    .dynamic
                    .get(s)
                    .and_then(|n| levels.get(n))
                    .copied()
                    .unwrap_or(0),
            })
            .max()
            .unwrap_or(0)
    }

    /// Turns the nest's clip into loop ranges, a condition around the nest, and conditions around its effects.
    fn clip_checks(&mut self, nest: &Nest, plan: &mut Plan) -> (Clipped, Option<Condition>) {
        let mut clipped = Clipped::default();
        let mut once = Vec::new();
        for guard in &nest.clip {
            match self.check(guard, nest, plan) {
                None | Some(Check::Holds) => {}
                Some(Check::Range(bounds)) => clipped.ranges.extend(bounds),
                Some(Check::Once(c)) => once.push(c),
                Some(Check::Each(c)) => clipped.each.push(c),
            }
            plan.checks.insert(guard.clone(), Check::Holds);
        }
        (clipped, all(once))
    }

    fn load_checks(&mut self, nest: &Nest, plan: &mut Plan) {
        let guards: Vec<Guard> = plan
            .levels
            .keys()
            .filter_map(|id| match &self.nodes.get(*id).kind {
                NodeKind::Tensor { guards, .. } => Some(guards.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        for guard in guards {
            if !plan.checks.contains_key(&guard) {
                let check = self.check(&guard, nest, plan).unwrap_or(Check::Holds);
                plan.checks.insert(guard, check);
            }
        }
    }

    /// How `guard` is checked in `nest`, with the bounds it needs appended; `None` if it always holds.
    fn check(&mut self, guard: &Guard, nest: &Nest, plan: &Plan) -> Option<Check> {
        let Guard { coordinate, extent } = guard;
        let low_holds = self.bounds(coordinate).is_some_and(|b| b.0 >= 0);
        let high_holds = self.below(coordinate, extent);
        if low_holds && high_holds {
            return None;
        }
        let on: Vec<_> = nest.axes.iter().filter(|(s, _)| coordinate.mentions(s)).collect();
        let is_dynamic = coordinate.symbols().iter().any(|s| self.dynamic.contains_key(s));
        if let ([(symbol, len)], false) = (on.as_slice(), is_dynamic)
            && let Some((start, step)) = affine(coordinate, symbol)
        {
            let first_holds = self.bounds(&start).is_some_and(|b| b.0 >= 0);
            let (need_lo, need_hi) = if step > 0 {
                (!first_holds, !high_holds)
            } else {
                (!self.below(&start, extent), !low_holds)
            };
            let index = Expr::symbol(symbol.clone());
            if let (Some(start), Some(extent)) = (start.as_const(), extent.as_const()) {
                let (lo, hi) = clip(start, step, extent, *len as i64);
                let lo = need_lo.then(|| Condition::Compare(CompareOp::Ge, index.clone(), lo.into()));
                let hi = need_hi.then(|| Condition::Compare(CompareOp::Lt, index, hi.into()));
                return Some(Check::Range(lo.into_iter().chain(hi).collect()));
            }
            let mut bound = |needed: bool, suffix: &str| {
                needed.then(|| {
                    let name = self.names.fresh(&format!("{symbol}_{suffix}"));
                    self.ranges.insert(name.clone(), (0, *len as i64));
                    name
                })
            };
            let (lo, hi) = (bound(need_lo, "lo"), bound(need_hi, "hi"));
            self.out.push(Stmt::Clip {
                lo: lo.clone(),
                hi: hi.clone(),
                start,
                step,
                extent: extent.clone(),
                len: *len,
            });
            let lo = lo.map(|lo| Condition::Compare(CompareOp::Ge, index.clone(), Expr::symbol(lo)));
            let hi = hi.map(|hi| Condition::Compare(CompareOp::Lt, index, Expr::symbol(hi)));
            return Some(Check::Range(lo.into_iter().chain(hi).collect()));
        }
        let low = (!low_holds).then(|| Condition::Compare(CompareOp::Ge, coordinate.clone(), 0.into()));
        let high =
            (!high_holds).then(|| Condition::Compare(CompareOp::Lt, coordinate.clone(), extent.clone()));
        let condition = all(low.into_iter().chain(high).collect())?;
        let once = !is_dynamic && self.index_level(coordinate, nest, &plan.levels) == 0;
        Some(if once {
            Check::Once(condition)
        } else {
            Check::Each(condition)
        })
    }

    /// The statements inside of `level` loops. In the interior every check that does not depend on data holds.
    fn level(&self, nest: &Nest, plan: &Plan, clipped: &Clipped, level: usize, interior: bool) -> Vec<Stmt> {
        let mut body = Vec::new();
        for (id, names) in &plan.named {
            if plan.levels.get(id) != Some(&level) {
                continue;
            }
            let dtype = self.nodes.get(*id).dtype;
            let mut value = self.define_node(*id, plan, interior);
            for (name, is_index) in names {
                let (dtype, value) = if *is_index {
                    let cast = Scalar::Cast {
                        from: dtype,
                        to: DType::I64,
                        value: Box::new(value.clone()),
                    };
                    (None, cast)
                } else {
                    let defined = std::mem::replace(&mut value, Scalar::Var(name.clone()));
                    (Some(dtype), defined)
                };
                body.push(Stmt::Let {
                    name: name.clone(),
                    dtype,
                    value,
                });
            }
        }
        if level == nest.level {
            body.extend(nest.before.iter().cloned());
        }
        match nest.axes.get(level) {
            Some((row, rows)) if level == nest.level && plan.block.is_some() => {
                let inside = self.level(nest, plan, clipped, level + 2, interior);
                body.extend(plan.blocks_of_rows(nest, row, *rows, inside));
            }
            Some((symbol, len)) => {
                let (lo, hi) = clipped.range(symbol, *len);
                let is_innermost = level + 1 == nest.axes.len();
                let inside = self.level(nest, plan, clipped, level + 1, interior);
                let kind = nest.innermost.clone();
                body.push(match (&plan.stream, &nest.parts) {
                    (Some(stream), _) if is_innermost => stream.split(symbol, (lo, hi), kind, inside),
                    (_, Some((parts, after))) if is_innermost => {
                        parts.split(symbol, (lo, hi), kind, inside, |start, len| {
                            let next = plan.ahead.iter().map(|row| row.part(start, &len));
                            next.chain(after.iter().cloned()).collect()
                        })
                    }
                    _ => Stmt::For {
                        symbol: symbol.clone(),
                        lo,
                        hi,
                        step: 1,
                        kind: if is_innermost { kind } else { LoopKind::Tile },
                        body: inside,
                    },
                });
            }
            None => {
                let effects = nest
                    .effects
                    .iter()
                    .flat_map(|e| self.effect(e, nest, plan, interior))
                    .collect();
                match all(clipped.each.clone()) {
                    None => body.extend(effects),
                    Some(condition) => body.push(Stmt::If {
                        condition,
                        then: effects,
                        otherwise: Vec::new(),
                    }),
                }
            }
        }
        if level == nest.level {
            body.extend(nest.after.iter().cloned());
        }
        body
    }

    /// A node by its name, if it has one.
    pub(super) fn scalar(&self, id: NodeId, plan: &Plan, interior: bool) -> Scalar {
        let name = plan
            .named
            .get(&id)
            .and_then(|names| names.iter().find(|(_, is_index)| !is_index));
        match name {
            Some((name, _)) => Scalar::Var(name.clone()),
            None => self.define_node(id, plan, interior),
        }
    }

    fn define_node(&self, id: NodeId, plan: &Plan, interior: bool) -> Scalar {
        let node = self.nodes.get(id);
        let operand = |id: NodeId| self.scalar(id, plan, interior);
        let boxed = |id: NodeId| Box::new(operand(id));
        let dtype_of = |id: NodeId| self.nodes.get(id).dtype;
        match &node.kind {
            NodeKind::Const(bits) => Scalar::Const(node.dtype, (*bits).into()),
            NodeKind::Index(expr) => Scalar::Index(node.dtype, expr.clone()),
            NodeKind::Local(local, offset) => Scalar::Local(*local, offset.clone()),
            NodeKind::Tensor {
                tensor,
                offset,
                guards,
                fill,
            } => {
                let load = Scalar::Tensor(*tensor, offset.clone());
                let conditions = guards
                    .iter()
                    .flat_map(|g| match plan.checks.get(g) {
                        Some(Check::Range(c)) if !interior => c.clone(),
                        Some(Check::Once(c)) if !interior => vec![c.clone()],
                        Some(Check::Each(c)) => vec![c.clone()],
                        _ => Vec::new(),
                    })
                    .collect();
                match all(conditions) {
                    None => load,
                    Some(c) => {
                        Scalar::Guarded(c, Box::new([load, Scalar::Const(node.dtype, (*fill).into())]))
                    }
                }
            }
            NodeKind::Unary(op, a) => Scalar::Unary(*op, dtype_of(*a), boxed(*a)),
            NodeKind::Binary(op, a, b) => {
                Scalar::Binary(*op, dtype_of(*a), Box::new([operand(*a), operand(*b)]))
            }
            NodeKind::Compare(op, a, b) => {
                Scalar::Compare(*op, dtype_of(*a), Box::new([operand(*a), operand(*b)]))
            }
            NodeKind::Select(c, a, b) => Scalar::Select(Box::new([operand(*c), operand(*a), operand(*b)])),
            NodeKind::Cast(a) => Scalar::Cast {
                from: dtype_of(*a),
                to: node.dtype,
                value: boxed(*a),
            },
            NodeKind::Bits(a) => Scalar::Bits {
                from: dtype_of(*a),
                to: node.dtype,
                value: boxed(*a),
            },
            NodeKind::Tf32(a) => Scalar::Tf32(boxed(*a)),
        }
    }
}

/// What the clip of a nest comes down to.
#[derive(Default)]
struct Clipped {
    /// Bounds of loop indices.
    ranges: Vec<Condition>,
    /// Conditions on each point.
    each: Vec<Condition>,
}

impl Clipped {
    fn range(&self, symbol: &Symbol, len: usize) -> (Expr, Expr) {
        let (mut lo, mut hi) = (Expr::constant(0), Expr::from(len));
        for condition in &self.ranges {
            if let Condition::Compare(op, index, bound) = condition
                && index.as_symbol() == Some(symbol)
            {
                match op {
                    CompareOp::Ge => lo = lo.maximum(bound),
                    _ => hi = hi.minimum(bound),
                }
            }
        }
        // The bounds lie in `0..=len`, which the expressions cannot know.
        let simplify = |e: Expr, neutral: i64| match e.terms() {
            [t] if t.coefficient == 1 => match t.factors.as_slice() {
                [crate::expr::Atom::Max(a, b) | crate::expr::Atom::Min(a, b)] if a.is(neutral) => b.clone(),
                [crate::expr::Atom::Max(a, b) | crate::expr::Atom::Min(a, b)] if b.is(neutral) => a.clone(),
                _ => e,
            },
            _ => e,
        };
        (simplify(lo, 0), simplify(hi, len as i64))
    }
}

/// The condition that an index bound leaves out no index of the tile.
fn full_range(condition: &Condition, nest: &Nest) -> Condition {
    match condition {
        Condition::Compare(CompareOp::Lt, index, bound) => {
            let len = nest
                .axes
                .iter()
                .find(|(s, _)| index.as_symbol() == Some(s))
                .map_or(0, |(_, len)| *len);
            Condition::Compare(CompareOp::Eq, bound.clone(), len.into())
        }
        Condition::Compare(_, _, bound) => Condition::Compare(CompareOp::Eq, bound.clone(), 0.into()),
        other => other.clone(),
    }
}

/// Whether a condition on constants fails.
fn is_false(condition: &Condition) -> bool {
    matches!(condition, Condition::Compare(CompareOp::Eq, a, b)
        if a.as_const().is_some() && b.as_const().is_some() && a != b)
}

/// The bounds of a [`Stmt::Clip`].
fn clip(start: i64, step: i64, extent: i64, len: i64) -> (i64, i64) {
    let inside = |i: &i64| (0..extent).contains(&(start + step * i));
    let lo = (0..len).find(inside).unwrap_or(len);
    let hi = (0..len).rev().find(inside).map_or(0, |i| i + 1);
    (lo, hi)
}

/// The conjunction, if there is anything to check.
fn all(conditions: Vec<Condition>) -> Option<Condition> {
    conditions
        .into_iter()
        .reduce(|a, b| Condition::And(Box::new(a), Box::new(b)))
}

/// `(start, step)` if `expr` is `start + step * symbol`.
pub(super) fn affine(expr: &Expr, symbol: &Symbol) -> Option<(Expr, i64)> {
    let start = expr.substitute(&|s| (s == &**symbol).then(|| 0.into()));
    let step = (expr - &start)
        .exact_div(&Expr::symbol(symbol.clone()))?
        .as_const()?;
    Some((start, step))
}
