//! What axes are for.

use std::collections::{BTreeMap, BTreeSet};

use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{Axis, Kernel, Loop, Op, Stmt, Val};

/// What an axis is for; a later role wins where an axis has several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AxisRole {
    /// Its points are independent, within one program.
    Parallel,
    /// Its points are independent programs.
    Grid,
    /// Its points are combined by a reduction, a scan, or a value that a loop carries.
    Reduced,
    /// Its points are summed by dots.
    Contracted,
}

/// The roles of program and loop indices.
///
/// A loop that carries values is contracted if both operands of a dot in it depend on its index, and reduced if not.
pub fn index_roles(kernel: &Kernel) -> BTreeMap<Symbol, AxisRole> {
    let mut roles = BTreeMap::new();
    for axis in &kernel.grid {
        roles.insert(axis.symbol.clone(), AxisRole::Grid);
    }
    let mut indices = vec![BTreeSet::new(); kernel.values.len()];
    loop_roles(&kernel.body, &mut indices, &mut roles);
    roles
}

/// Walks the statements, noting in `indices` the symbols that each value depends on within its iteration.
fn loop_roles(body: &[Stmt], indices: &mut [BTreeSet<Symbol>], roles: &mut BTreeMap<Symbol, AxisRole>) {
    for stmt in body {
        match stmt {
            Stmt::Define { value, op, .. } => {
                let mut depends: BTreeSet<Symbol> = index_exprs(op).iter().flat_map(Expr::symbols).collect();
                for operand in op.operands() {
                    depends.extend(indices.get(operand.0 as usize).into_iter().flatten().cloned());
                }
                if let Some(slot) = indices.get_mut(value.0 as usize) {
                    *slot = depends;
                }
            }
            Stmt::For(l) => {
                loop_roles(&l.body, indices, roles);
                let contracted = contracted_symbols(l, indices);
                for axis in &l.axes {
                    let role = match (l.carried.is_empty(), contracted.contains(&axis.symbol)) {
                        (true, _) => AxisRole::Parallel,
                        (false, false) => AxisRole::Reduced,
                        (false, true) => AxisRole::Contracted,
                    };
                    roles.insert(axis.symbol.clone(), role);
                }
            }
            Stmt::If(branch) => {
                loop_roles(&branch.then, indices, roles);
                loop_roles(&branch.otherwise, indices, roles);
            }
            Stmt::Store { .. } | Stmt::Barrier => {}
        }
    }
}

fn index_exprs(op: &Op) -> Vec<Expr> {
    match op {
        Op::Index(expr) => vec![expr.clone()],
        Op::Load { region, .. } => region
            .iter()
            .filter_map(|axis| match axis {
                Axis::Range { start: e, .. } | Axis::At(e) => Some(e.clone()),
                Axis::AtTile(_) | Axis::Gather(_) => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The symbols on which both operands of a dot in the loop depend.
fn contracted_symbols(l: &Loop, indices: &[BTreeSet<Symbol>]) -> BTreeSet<Symbol> {
    let mut found = BTreeSet::new();
    each_op(&l.body, &mut |_, op| {
        if let Op::Dot { a, b, .. } = op
            && let (Some(a), Some(b)) = (indices.get(a.0 as usize), indices.get(b.0 as usize))
        {
            found.extend(a.intersection(b).cloned());
        }
    });
    found
}

/// The roles of every axis of every tile, by value: axes that element-wise operators, transpositions, loops and
/// branches keep together share one role, and a reshape starts anew. Extents of 1 are always parallel.
pub fn tile_roles(kernel: &Kernel) -> Vec<Vec<AxisRole>> {
    let mut classes = Classes::new(kernel);
    classes.block(&kernel.body);
    let values = kernel.values.iter().enumerate();
    values
        .map(|(v, info)| {
            let role = |axis| classes.role(Val(v as u32), axis);
            let extents = info.ty.extents.iter().enumerate();
            extents
                .map(|(i, n)| if *n == 1 { AxisRole::Parallel } else { role(i) })
                .collect()
        })
        .collect()
}

/// Axes that are one: a union-find over (value, axis) with a role for each class.
struct Classes<'a> {
    kernel: &'a Kernel,
    first: Vec<usize>,
    parent: Vec<usize>,
    roles: Vec<AxisRole>,
}

impl<'a> Classes<'a> {
    fn new(kernel: &'a Kernel) -> Self {
        let mut axes = 0;
        let mut first = Vec::with_capacity(kernel.values.len());
        for info in &kernel.values {
            first.push(axes);
            axes += info.ty.extents.len();
        }
        Self {
            kernel,
            first,
            parent: (0..axes).collect(),
            roles: vec![AxisRole::Parallel; axes],
        }
    }

    fn root(&self, value: Val, axis: usize) -> usize {
        let mut at = self.first[value.0 as usize] + axis;
        while self.parent[at] != at {
            at = self.parent[at];
        }
        at
    }

    fn role(&self, value: Val, axis: usize) -> AxisRole {
        self.roles[self.root(value, axis)]
    }

    fn mark(&mut self, value: Val, axis: usize, role: AxisRole) {
        let root = self.root(value, axis);
        self.roles[root] = self.roles[root].max(role);
    }

    fn join(&mut self, a: (Val, usize), b: (Val, usize)) {
        let extent = |(value, axis): (Val, usize)| self.kernel.ty(value).extents.get(axis);
        if extent(a) != extent(b) {
            return;
        }
        let (a, b) = (self.root(a.0, a.1), self.root(b.0, b.1));
        self.roles[b] = self.roles[b].max(self.roles[a]);
        self.parent[a] = b;
    }

    /// Joins the axes of values of one shape, up to broadcasting.
    fn join_all(&mut self, a: Val, b: Val) {
        let rank = self.kernel.ty(a).extents.len();
        if rank == self.kernel.ty(b).extents.len() {
            (0..rank).for_each(|i| self.join((a, i), (b, i)));
        }
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            match stmt {
                Stmt::Define { value, op, .. } => self.op(*value, op),
                Stmt::For(l) => {
                    self.block(&l.body);
                    for c in &l.carried {
                        self.join_all(c.initial, c.inner);
                        self.join_all(c.inner, c.next);
                        self.join_all(c.next, c.result);
                    }
                }
                Stmt::If(branch) => {
                    self.block(&branch.then);
                    self.block(&branch.otherwise);
                    for m in &branch.merges {
                        self.join_all(m.then, m.otherwise);
                        self.join_all(m.otherwise, m.result);
                    }
                }
                Stmt::Store { .. } | Stmt::Barrier => {}
            }
        }
    }

    fn op(&mut self, value: Val, op: &Op) {
        match op {
            Op::Load { .. } | Op::Full(_) | Op::Iota | Op::Index(_) | Op::Reshape(_) => {}
            Op::Unary(..) | Op::Binary(..) | Op::Compare(..) | Op::Select(..) | Op::Cast(_) | Op::Bits(_) => {
                op.operands().into_iter().for_each(|a| self.join_all(a, value));
            }
            Op::Reduce(_, a, axis) | Op::ArgReduce(_, a, axis) => {
                self.mark(*a, *axis, AxisRole::Reduced);
                for i in 0..self.kernel.ty(value).extents.len() {
                    self.join((*a, i + usize::from(i >= *axis)), (value, i));
                }
            }
            Op::Scan { value: a, axis, .. } => {
                self.mark(*a, *axis, AxisRole::Reduced);
                self.join_all(*a, value);
            }
            Op::Dot { a, b, init, .. } => {
                self.mark(*a, 1, AxisRole::Contracted);
                self.join((*a, 1), (*b, 0));
                self.join((*a, 0), (value, 0));
                self.join((*b, 1), (value, 1));
                if let Some(init) = init {
                    self.join_all(*init, value);
                }
            }
            Op::Transpose(a, perm) => {
                for (i, from) in perm.iter().enumerate() {
                    self.join((*a, *from), (value, i));
                }
            }
        }
    }
}

/// Calls `f` for every definition in `body`, nested ones included.
pub fn each_op<'a>(body: &'a [Stmt], f: &mut dyn FnMut(Val, &'a Op)) {
    for stmt in body {
        match stmt {
            Stmt::Define { value, op, .. } => f(*value, op),
            Stmt::For(l) => each_op(&l.body, f),
            Stmt::If(branch) => {
                each_op(&branch.then, f);
                each_op(&branch.otherwise, f);
            }
            Stmt::Store { .. } | Stmt::Barrier => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::analysis::tests::{matmul, value_named};

    #[test]
    fn a_matmul_contracts_k_and_nothing_else() {
        let program = matmul(128, 128, 128, 32);
        let kernel = &program.kernels[0];
        let roles = index_roles(kernel);
        assert_eq!(roles[&Symbol::from("m")], AxisRole::Grid);
        assert_eq!(roles[&Symbol::from("k")], AxisRole::Contracted);
        let tiles = tile_roles(kernel);
        let of = |name| tiles[value_named(kernel, name).0 as usize].clone();
        assert_eq!(of("a"), [AxisRole::Parallel, AxisRole::Contracted]);
        assert_eq!(of("c"), [AxisRole::Parallel, AxisRole::Contracted]);
        assert_eq!(of("ct"), [AxisRole::Contracted, AxisRole::Parallel]);
        assert_eq!(of("result"), [AxisRole::Parallel; 2]);
    }

    #[test]
    fn a_loop_without_dots_that_carries_is_a_reduction() {
        let mut program = matmul(128, 128, 128, 32);
        let kernel = &mut program.kernels[0];
        let (inner, a, next) = (Val(1), Val(2), Val(5));
        let Some(Stmt::For(l)) = kernel.body.get_mut(1) else {
            panic!("matmul has a loop");
        };
        l.body.truncate(1);
        l.body.push(Stmt::Define {
            value: next,
            op: Op::Binary(crate::sketch::ir::BinaryOp::Add, inner, a),
            span: 0..0,
        });
        assert_eq!(index_roles(kernel)[&Symbol::from("k")], AxisRole::Reduced);
        let Some(Stmt::For(l)) = kernel.body.get_mut(1) else {
            panic!("matmul has a loop");
        };
        l.carried.clear();
        assert_eq!(index_roles(kernel)[&Symbol::from("k")], AxisRole::Parallel);
    }
}
