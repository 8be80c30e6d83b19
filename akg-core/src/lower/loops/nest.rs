//! From per-element computations to loops: which bounds are checked where, what is computed at which level.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::dtype::DType;
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::Condition;

use super::ahead::Ahead;
use super::checks::{Check, Clipped, Elements, all, full_range, is_false};
use super::effect::Effect;
use super::ir::{LoopKind, Scalar, Stmt};
use super::mapper::Mapper;
use super::node::{Guard, NodeId, NodeKind};
use super::parts::Parts;
use super::stream::Stream;

/// Loops around effects.
#[derive(Debug, Clone)]
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

/// The nodes of a nest: how often each is used, and the number of loops it depends on.
pub(super) struct Plan {
    pub(super) levels: BTreeMap<NodeId, usize>,
    /// Nodes with a name, and whether it is an index.
    pub(super) named: BTreeMap<NodeId, Vec<(Symbol, bool)>>,
    pub(super) checks: HashMap<Guard, Check>,
    /// The elements of vectors, if some of what they read is checked along them.
    elements: Option<Elements>,
    /// The first row of a block, if rows are combined block by block.
    pub(super) block: Option<Symbol>,
    /// How the innermost loop stores, if that goes past the caches.
    pub(super) stream: Option<Stream>,
    /// What the innermost loop reads ahead.
    ahead: Vec<Ahead>,
}

impl Mapper<'_> {
    /// Appends the loops of one alternative of a nest.
    pub(super) fn loops(&mut self, nest: &Nest) {
        let mut plan = self.plan(nest);
        let clipped = self.clip_checks(nest, &mut plan);
        let skipped = self.skip_checks(nest, &mut plan);
        self.load_checks(nest, &mut plan);
        plan.elements = Elements::checked(nest, &plan.checks);
        // A part is written as a whole.
        if clipped.each.is_empty() {
            plan.stream = self.stream(nest);
        }
        plan.block = self.block_of_rows(nest, &plan);
        plan.ahead = self.read_ahead(nest, &plan);
        let mut interior: Vec<Condition> = skipped.ranges.iter().map(|c| full_range(c, nest)).collect();
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
        let once = all([&clipped.once[..], &skipped.once].concat());
        let border = Clipped {
            ranges: [&clipped.ranges[..], &skipped.ranges].concat(),
            ..clipped.clone()
        };
        let mut body = match all(interior) {
            None => self.level(nest, &plan, &border, 0, false),
            Some(_) if never => self.level(nest, &plan, &border, 0, false),
            Some(interior) => vec![Stmt::If {
                condition: interior,
                then: self.level(nest, &plan, &clipped, 0, true),
                otherwise: self.level(nest, &plan, &border, 0, false),
            }],
        };
        if let Some(condition) = once {
            body = vec![Stmt::If {
                condition,
                then: body,
                otherwise: Vec::new(),
            }];
        }
        // Nests side by side name the same value when they index by it.
        let is_named = |stmt: &Stmt, name: &Symbol| matches!(stmt, Stmt::Let { name: n, .. } if n == name);
        body.retain(|stmt| match stmt {
            Stmt::Let {
                name, dtype: None, ..
            } => !self.out.iter().any(|s| is_named(s, name)),
            _ => true,
        });
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
            elements: None,
            block: None,
            stream: None,
            ahead: Vec::new(),
        }
    }

    /// The number of loops around the innermost one whose index the expression mentions.
    pub(super) fn index_level(&self, expr: &Expr, nest: &Nest, levels: &BTreeMap<NodeId, usize>) -> usize {
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
                match (&plan.stream, &nest.parts) {
                    (Some(stream), _) if is_innermost => {
                        body.push(stream.split(symbol, (lo, hi), kind, inside));
                    }
                    (_, Some((parts, after))) if is_innermost => {
                        body.push(parts.split(symbol, (lo, hi), kind, inside, |start, len| {
                            let next = plan.ahead.iter().map(|row| row.part(start, &len));
                            next.chain(after.iter().cloned()).collect()
                        }));
                    }
                    _ if is_innermost => body.extend(self.vector_loop(symbol, (lo, hi), kind, inside)),
                    _ => body.push(Stmt::For {
                        symbol: symbol.clone(),
                        lo,
                        hi,
                        step: 1,
                        kind: LoopKind::Tile,
                        body: inside,
                    }),
                }
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
                let conditions = guards.iter().flat_map(|g| match plan.checks.get(g) {
                    Some(Check::Range(c)) if !interior => c.clone(),
                    Some(Check::Once(c)) if !interior => vec![c.clone()],
                    Some(Check::Each(c)) => vec![c.clone()],
                    _ => Vec::new(),
                });
                let conditions = match &plan.elements {
                    // What is read outside of the innermost loop knows nothing of its index.
                    Some(elements) if plan.levels.get(&id) == Some(&elements.depth) => {
                        elements.bounds(conditions.collect())
                    }
                    _ => conditions.collect(),
                };
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
