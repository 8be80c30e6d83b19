//! The walk over a kernel's statements: which values get storage, and when.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{Expr, Symbol};
use crate::lower::grid;
use crate::sketch::ir::{
    self, Axis, Branch, Condition, Kernel, Loop, Op, Program, StoreMode, TensorId, Val, region_operands,
};

use super::Machine;
use super::element::{Frame, row_major};
use super::ir::{Local, LocalId, LoopKernel, LoopKind, Param, Stmt};
use super::names::Names;
use super::nest::{Effect, Nest};
use super::node::{Guard, NodeId, NodeKind, Nodes};
use super::uses::{Use, is_elementwise, uses};

/// The largest value assumed for an extent that is not known.
const UNKNOWN_EXTENT: i64 = 1 << 40;

/// Evaluations per element above which a value that is used again is stored.
const DEAR: u32 = 4;

/// What computing a value reads that may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Resource {
    Local(LocalId),
    Tensor(TensorId),
    /// A reduction that has not been emitted yet.
    Reduction(Val),
}

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Evaluated where it is used.
    Inline,
    /// To be stored by the first loops that pass over all of it.
    Pending,
    /// Being stored by the loops under construction.
    Passing,
    /// A reduction that waits for others over the same tile.
    Reduction,
    /// In a local, row-major.
    Stored(LocalId),
}

#[derive(Debug, Clone)]
pub(super) struct Value<'a> {
    pub(super) op: Option<&'a Op>,
    pub(super) state: State,
    pub(super) reads: BTreeSet<Resource>,
    pub(super) cost: u32,
    /// The block that defines it.
    pub(super) block: usize,
}

pub(super) struct Mapper<'a> {
    pub(super) program: &'a Program,
    pub(super) kernel: &'a Kernel,
    pub(super) machine: Machine,
    pub(super) nodes: Nodes,
    pub(super) values: Vec<Value<'a>>,
    pub(super) uses: Vec<Use>,
    /// Position of the statement at hand, as in [`Use::last`].
    pub(super) at: usize,
    pub(super) names: Names,
    /// What the sketch's symbols are called.
    symbols: HashMap<Symbol, Symbol>,
    pub(super) ranges: BTreeMap<Symbol, (i64, i64)>,
    pub(super) locals: Vec<Local>,
    /// Statements of the block at hand.
    pub(super) out: Vec<Stmt>,
    /// Symbols that stand for the value of a node.
    pub(super) dynamic: HashMap<Symbol, NodeId>,
    pub(super) frame: Frame,
    /// Waiting reductions.
    pub(super) reductions: Vec<Val>,
    /// Values that end an iteration of the loop at hand in the storage of a carried value.
    next: HashMap<Val, LocalId>,
    written: BTreeSet<TensorId>,
    /// What nodes are called in the sketch.
    pub(super) labels: HashMap<NodeId, String>,
    block: usize,
    blocks: usize,
}

impl<'a> Mapper<'a> {
    pub(super) fn new(
        program: &'a Program,
        kernel: &'a Kernel,
        machine: Machine,
        reserved: &[&str],
    ) -> Result<Self> {
        let mut written = BTreeSet::new();
        stored_tensors(&kernel.body, &mut written);
        let value = Value {
            op: None,
            state: State::Inline,
            reads: BTreeSet::new(),
            cost: 0,
            block: 0,
        };
        Ok(Self {
            program,
            kernel,
            machine,
            nodes: Nodes::default(),
            values: vec![value; kernel.values.len()],
            uses: uses(kernel),
            at: 0,
            names: Names::new(reserved),
            symbols: HashMap::new(),
            ranges: BTreeMap::new(),
            locals: Vec::new(),
            out: Vec::new(),
            dynamic: HashMap::new(),
            frame: Frame::default(),
            reductions: Vec::new(),
            next: HashMap::new(),
            written,
            labels: HashMap::new(),
            block: 0,
            blocks: 0,
        })
    }

    pub(super) fn run(mut self) -> Result<LoopKernel> {
        let mut touched = self.written.clone();
        loaded_tensors(&self.kernel.body, &mut touched);
        let mut params = Vec::new();
        for tensor in touched {
            let info = self
                .program
                .tensors
                .get(tensor.0)
                .ok_or_else(|| Error::unexpected(format!("tensor number {} does not exist", tensor.0)))?;
            params.push(Param {
                tensor,
                name: self.names.fresh(&info.name).to_string(),
                dtype: info.dtype,
                written: self.written.contains(&tensor),
            });
        }
        let program = self.names.fresh("program");
        self.ranges.insert(program.clone(), (0, UNKNOWN_EXTENT));
        let dims: Vec<Symbol> = self
            .program
            .dims
            .iter()
            .map(|dim| self.declare(dim, (0, UNKNOWN_EXTENT)))
            .collect();
        let numbers = grid::program_indices(self.kernel, &Expr::symbol(program.clone()));
        let numbers: Vec<Expr> = numbers.iter().map(|e| self.index(e)).collect();
        let mut indices = Vec::new();
        for (axis, number) in self.kernel.grid.iter().zip(numbers) {
            let extent = self.index(&axis.extent);
            let last = self.bounds(&extent).map_or(UNKNOWN_EXTENT, |b| b.1 - 1);
            indices.push((self.declare(&axis.symbol, (0, last.max(0))), number));
        }
        let kernel = self.kernel;
        self.statements(&kernel.body)?;
        Ok(LoopKernel {
            name: format!("{}_{}", self.program.name, kernel.name),
            doc: kernel.doc.clone(),
            cooperative: kernel.cooperative,
            params,
            dims,
            program,
            indices,
            locals: self.locals,
            body: self.out,
            ranges: self.ranges,
        })
    }

    /// Gives a symbol of the sketch a name and a range.
    fn declare(&mut self, symbol: &Symbol, range: (i64, i64)) -> Symbol {
        let name = self.names.fresh(symbol);
        self.symbols.insert(symbol.clone(), name.clone());
        self.ranges.insert(name.clone(), range);
        name
    }

    /// An index expression of the sketch by the names of the kernel.
    pub(super) fn index(&self, expr: &Expr) -> Expr {
        expr.substitute(&|s| self.symbols.get(s).map(|n| Expr::symbol(n.clone())))
    }

    pub(super) fn bounds(&self, expr: &Expr) -> Option<(i64, i64)> {
        expr.bounds(&|s| self.ranges.get(s).copied())
    }

    /// Whether `coordinate < extent` for certain.
    pub(super) fn below(&self, coordinate: &Expr, extent: &Expr) -> bool {
        self.bounds(&(coordinate - extent)).is_some_and(|b| b.1 < 0)
    }

    pub(super) fn value(&self, v: Val) -> &Value<'a> {
        &self.values[v.0 as usize]
    }

    fn value_mut(&mut self, v: Val) -> &mut Value<'a> {
        &mut self.values[v.0 as usize]
    }

    pub(super) fn set_state(&mut self, v: Val, state: State) {
        self.value_mut(v).state = state;
    }

    /// Whether a later statement may need the value.
    fn is_live(&self, v: Val) -> bool {
        self.uses[v.0 as usize].last > self.at
    }

    /// Whether neither the statement at hand nor a later one needs the value for anything but what is being emitted.
    pub(super) fn is_past(&self, v: Val) -> bool {
        self.uses[v.0 as usize].last < self.at
    }

    pub(super) fn is_dead(&self, v: Val) -> bool {
        self.uses[v.0 as usize].count == 0
    }

    fn all_values(&self) -> impl Iterator<Item = Val> + use<> {
        (0..self.values.len() as u32).map(Val)
    }

    pub(super) fn reads(&self, v: Val) -> BTreeSet<Resource> {
        match self.value(v).state {
            State::Stored(local) => BTreeSet::from([Resource::Local(local)]),
            _ => self.value(v).reads.clone(),
        }
    }

    fn statements(&mut self, stmts: &'a [ir::Stmt]) -> Result<()> {
        for stmt in stmts {
            self.at += 1;
            match stmt {
                ir::Stmt::Define { value, op, .. } => self.define(*value, op)?,
                ir::Stmt::Store {
                    tensor,
                    region,
                    value,
                    mode,
                    ..
                } => self.store(*tensor, region, *value, *mode)?,
                ir::Stmt::For(l) => self.for_loop(l)?,
                ir::Stmt::If(b) => self.branch(b)?,
                ir::Stmt::Barrier => {
                    self.invalidate_tensors(&self.written.clone())?;
                    self.out.push(Stmt::Barrier);
                }
            }
        }
        Ok(())
    }

    fn define(&mut self, v: Val, op: &'a Op) -> Result<()> {
        if self.is_dead(v) {
            return Ok(());
        }
        let mut reads = BTreeSet::new();
        if is_elementwise(op) || matches!(op, Op::Reduce(..)) {
            // Others are computed at once.
            reads.extend(op.operands().iter().flat_map(|o| self.reads(*o)));
        }
        if let Op::Load { tensor, .. } = op
            && self.written.contains(tensor)
        {
            reads.insert(Resource::Tensor(*tensor));
        }
        let cost = self.cost(op);
        let used = self.uses[v.0 as usize];
        let block = self.block;
        let state = match op {
            Op::Reduce(..) => State::Reduction,
            _ if (used.count > 1 || used.repeated) && cost > DEAR => State::Pending,
            _ => State::Inline,
        };
        if state == State::Reduction {
            reads.insert(Resource::Reduction(v));
            self.reductions.push(v);
        }
        *self.value_mut(v) = Value {
            op: Some(op),
            state,
            reads,
            cost,
            block,
        };
        match op {
            Op::ArgReduce(..) | Op::Scan { .. } => self.collect(v)?,
            Op::Dot { .. } => self.dot(v)?,
            _ => debug_assert!(is_elementwise(op) || state == State::Reduction),
        }
        Ok(())
    }

    /// Scalar operations per element when evaluated in place.
    fn cost(&self, op: &Op) -> u32 {
        use ir::{BinaryOp as B, UnaryOp as U};
        let of = |v: Val| match self.value(v).state {
            State::Inline => self.value(v).cost,
            _ => 1,
        };
        let own = match op {
            Op::Full(_) | Op::Iota | Op::Index(_) | Op::Transpose(..) | Op::Reshape(_) => 0,
            Op::Load { region, .. } => 1 + 2 * region_operands(region).count() as u32,
            Op::Unary(U::Neg | U::Not | U::Abs | U::IsNan | U::Floor | U::Ceil | U::Round | U::Trunc, _) => 1,
            Op::Unary(U::Sqrt | U::Rsqrt | U::Pow2Floor, _) => 4,
            Op::Unary(..) => 12,
            Op::Binary(B::Div | B::FloorDiv | B::Mod | B::Ldexp, ..) => 4,
            Op::Binary(B::Pow, ..) => 24,
            _ => 1,
        };
        op.operands()
            .into_iter()
            .map(of)
            .fold(own, |sum, cost| sum.saturating_add(cost))
    }

    /// Storage for a value.
    pub(super) fn local(&mut self, name: &str, dtype: DType, extents: &[usize]) -> LocalId {
        let storage = if matches!(dtype, DType::F16 | DType::BF16) {
            DType::F32
        } else {
            dtype
        };
        let id = LocalId(self.locals.len());
        let name = if name.is_empty() { "tile" } else { name };
        self.locals.push(Local {
            name: self.names.fresh(name).to_string(),
            dtype: storage,
            len: (!extents.is_empty()).then(|| extents.iter().product()),
        });
        self.out.push(Stmt::Declare(id));
        id
    }

    pub(super) fn local_for(&mut self, v: Val) -> LocalId {
        let info = &self.kernel.values[v.0 as usize];
        self.local(&info.name, info.ty.dtype, &info.ty.extents)
    }

    /// Sees to it that the value is in a local. One that an outer block defines is not remembered to be there, since
    /// this block may not be executed.
    pub(super) fn settle(&mut self, v: Val) -> Result<LocalId> {
        match self.value(v).state {
            State::Stored(local) => Ok(local),
            State::Reduction => self.flush_reductions(v),
            State::Inline | State::Pending | State::Passing => {
                let own = self.value(v).block == self.block;
                if let Some(Op::Reshape(u)) = self.value(v).op
                    && let State::Stored(local) = self.value(*u).state
                {
                    if own {
                        self.set_state(v, State::Stored(local));
                    }
                    return Ok(local);
                }
                if let (State::Pending, true, Some(r)) = (self.value(v).state, own, self.reduction_over(v)) {
                    // Its loops pass over the value anyway.
                    self.flush_reductions(r)?;
                    if let State::Stored(local) = self.value(v).state {
                        return Ok(local);
                    }
                }
                let local = self.local_for(v);
                let state = self.value(v).state;
                self.set_state(v, State::Inline);
                self.write(local, v)?;
                self.set_state(v, if own { State::Stored(local) } else { state });
                Ok(local)
            }
        }
    }

    /// A waiting reduction whose loops pass over the whole of `v`.
    fn reduction_over(&self, v: Val) -> Option<Val> {
        self.reductions.iter().copied().find(|r| match self.value(*r).op {
            Some(Op::Reduce(_, operand, _)) => {
                self.value(*r).state == State::Reduction && self.passes(*operand, v)
            }
            _ => false,
        })
    }

    /// Whether an element of `tile` is computed in place from the same element of `v`.
    fn passes(&self, tile: Val, v: Val) -> bool {
        tile == v
            || match self.value(tile).op {
                Some(op @ (Op::Unary(..) | Op::Binary(..) | Op::Select(..) | Op::Cast(_))) => {
                    self.value(tile).state == State::Inline
                        && op.operands().into_iter().any(|o| {
                            self.kernel.ty(o).extents == self.kernel.ty(v).extents && self.passes(o, v)
                        })
                }
                _ => false,
            }
    }

    /// Writes all elements of a value to a local of its size.
    pub(super) fn write(&mut self, local: LocalId, v: Val) -> Result<()> {
        let mut source = v;
        while let (State::Inline, Some(Op::Reshape(u))) = (self.value(source).state, self.value(source).op) {
            source = *u;
        }
        if self.value(source).state == State::Pending {
            if self.is_live(source) {
                self.settle(source)?;
            } else {
                self.set_state(source, State::Inline);
            }
        }
        let outer = self.open(source);
        let index = self.frame.index.clone();
        let value = self.element(source, &index)?;
        let offset = row_major(&self.kernel.ty(source).extents, &index);
        let reads_elsewhere = self.reads_local(value, local, &offset);
        let target = if reads_elsewhere { self.local_for(v) } else { local };
        self.close(
            outer,
            vec![Effect::Set {
                local: target,
                offset,
                value,
            }],
            Nest::parallel,
        );
        if reads_elsewhere {
            let outer = self.open(source);
            let index = self.frame.index.clone();
            let offset = row_major(&self.kernel.ty(source).extents, &index);
            let dtype = self.kernel.ty(source).dtype;
            let value = self.nodes.add(dtype, NodeKind::Local(target, offset.clone()));
            self.close(outer, vec![Effect::Set { local, offset, value }], Nest::parallel);
        }
        Ok(())
    }

    /// Whether computing `value` reads an element of `local` other than the one at `offset`.
    fn reads_local(&self, value: NodeId, local: LocalId, offset: &Expr) -> bool {
        let mut stack = vec![value];
        let mut seen = BTreeSet::new();
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            let kind = &self.nodes.get(id).kind;
            if matches!(kind, NodeKind::Local(l, at) if *l == local && at != offset) {
                return true;
            }
            stack.extend(kind.operands());
            let symbols = kind.indices().into_iter().flat_map(|e| e.symbols());
            stack.extend(symbols.filter_map(|s| self.dynamic.get(&s).copied()));
        }
        false
    }

    /// Stores every live value that reads what is about to change.
    pub(super) fn invalidate(&mut self, resource: Resource) -> Result<()> {
        for v in self.all_values() {
            let stored = matches!(self.value(v).state, State::Stored(_));
            if !stored && self.is_live(v) && self.value(v).reads.contains(&resource) {
                self.settle(v)?;
            }
        }
        Ok(())
    }

    fn invalidate_tensors(&mut self, tensors: &BTreeSet<TensorId>) -> Result<()> {
        tensors
            .iter()
            .try_for_each(|t| self.invalidate(Resource::Tensor(*t)))
    }

    /// Stores what must not be stored for the first time inside a block that may not be executed.
    fn settle_waiting(&mut self) -> Result<()> {
        for v in self.all_values() {
            if matches!(self.value(v).state, State::Pending | State::Reduction)
                && self.is_live(v)
                && self.value(v).op.is_some()
            {
                self.settle(v)?;
            }
        }
        self.reductions.clear();
        Ok(())
    }

    fn store(&mut self, tensor: TensorId, region: &'a [Axis], v: Val, mode: StoreMode) -> Result<()> {
        let info = self
            .program
            .tensors
            .get(tensor.0)
            .ok_or_else(|| Error::unexpected(format!("tensor number {} does not exist", tensor.0)))?;
        self.out.push(Stmt::Comment(format!("store {}", info.name)));
        if self.reads(v).contains(&Resource::Tensor(tensor)) {
            self.settle(v)?;
        }
        self.invalidate(Resource::Tensor(tensor))?;
        let outer = self.open(v);
        self.frame.covers = false;
        let index = self.frame.index.clone();
        let (offset, clip) = self.place(tensor, region, &index)?;
        let value = self.element(v, &index)?;
        let innermost = match mode {
            StoreMode::Set if !region.iter().any(|a| matches!(a, Axis::Gather(_))) => {
                LoopKind::Vector(Vec::new())
            }
            _ => LoopKind::Tile,
        };
        let effect = Effect::Store {
            tensor,
            offset,
            mode,
            value,
        };
        self.close(outer, vec![effect], |axes, effects| Nest {
            clip,
            innermost,
            ..Nest::parallel(axes, effects)
        });
        Ok(())
    }

    /// Storage of a value that is about to be overwritten, if nothing else needs its contents.
    pub(super) fn reusable(&self, v: Val) -> Option<LocalId> {
        let State::Stored(local) = self.value(v).state else {
            return None;
        };
        let needed = self
            .all_values()
            .any(|u| self.value(u).state == State::Stored(local) && self.is_live(u));
        (!needed).then_some(local)
    }

    /// The storage that the value should end up in, if its contents are not needed any more.
    pub(super) fn destination(&self, v: Val) -> Option<LocalId> {
        let local = *self.next.get(&v)?;
        let needed = self
            .all_values()
            .any(|u| self.value(u).state == State::Stored(local) && self.is_live(u));
        (!needed).then_some(local)
    }

    fn for_loop(&mut self, l: &'a Loop) -> Result<()> {
        let mut stored = BTreeSet::new();
        if has_barrier(&l.body) {
            stored.clone_from(&self.written);
        } else {
            stored_tensors(&l.body, &mut stored);
        }
        self.invalidate_tensors(&stored)?;
        let mut storage: Vec<LocalId> = Vec::new();
        for c in &l.carried {
            let local = match self.reusable(c.initial).filter(|local| !storage.contains(local)) {
                Some(local) => {
                    self.invalidate(Resource::Local(local))?;
                    local
                }
                None => {
                    let local = self.local_for(c.result);
                    self.write(local, c.initial)?;
                    local
                }
            };
            storage.push(local);
        }
        self.settle_waiting()?;
        let mut axes = Vec::new();
        for axis in &l.axes {
            let (lo, hi) = (self.index(&axis.lo), self.index(&axis.hi));
            let least = self.bounds(&lo).map_or(-UNKNOWN_EXTENT, |b| b.0);
            let most = match (lo.as_const(), hi.as_const()) {
                (Some(lo), Some(hi)) if hi > lo => lo + (hi - 1 - lo) / axis.step * axis.step,
                _ => self.bounds(&hi).map_or(UNKNOWN_EXTENT, |b| b.1 - 1),
            };
            axes.push((
                self.declare(&axis.symbol, (least, most.max(least))),
                lo,
                hi,
                axis.step,
            ));
        }
        let outer = self.enter();
        let outer_next = std::mem::take(&mut self.next);
        for (c, local) in l.carried.iter().zip(&storage) {
            let block = self.block;
            let inner = self.value_mut(c.inner);
            inner.state = State::Stored(*local);
            inner.block = block;
            self.next.insert(c.next, *local);
        }
        self.statements(&l.body)?;
        self.at += 1;
        let targets: Vec<_> = l.carried.iter().map(|c| c.next).zip(storage.clone()).collect();
        self.assign(targets)?;
        self.next = outer_next;
        let mut body = self.leave(outer);
        for (symbol, lo, hi, step) in axes.into_iter().rev() {
            body = vec![Stmt::For {
                symbol,
                lo,
                hi,
                step,
                kind: LoopKind::Sketch { unroll: l.unroll },
                body,
            }];
        }
        self.out.append(&mut body);
        for (c, local) in l.carried.iter().zip(storage) {
            self.define_stored(c.result, local);
        }
        Ok(())
    }

    fn branch(&mut self, b: &'a Branch) -> Result<()> {
        let mut stored = BTreeSet::new();
        stored_tensors(&b.then, &mut stored);
        stored_tensors(&b.otherwise, &mut stored);
        self.invalidate_tensors(&stored)?;
        self.settle_waiting()?;
        let results: Vec<LocalId> = b.merges.iter().map(|m| self.local_for(m.result)).collect();
        let outer_next = std::mem::take(&mut self.next);
        let mut blocks = Vec::new();
        for (stmts, is_then) in [(&b.then, true), (&b.otherwise, false)] {
            let outer = self.enter();
            self.statements(stmts)?;
            self.at += 1;
            let of = |m: &ir::Merge| if is_then { m.then } else { m.otherwise };
            self.assign(b.merges.iter().map(of).zip(results.clone()).collect())?;
            blocks.push(self.leave(outer));
        }
        self.next = outer_next;
        let otherwise = blocks.pop().unwrap_or_default();
        let then = blocks.pop().unwrap_or_default();
        let condition = self.condition(&b.condition);
        self.out.push(Stmt::If {
            condition,
            then,
            otherwise,
        });
        for (m, local) in b.merges.iter().zip(results) {
            self.define_stored(m.result, local);
        }
        Ok(())
    }

    fn condition(&self, condition: &Condition) -> Condition {
        let both = |a: &Condition, b: &Condition| (Box::new(self.condition(a)), Box::new(self.condition(b)));
        match condition {
            Condition::Compare(op, a, b) => Condition::Compare(*op, self.index(a), self.index(b)),
            Condition::And(a, b) => {
                let (a, b) = both(a, b);
                Condition::And(a, b)
            }
            Condition::Or(a, b) => {
                let (a, b) = both(a, b);
                Condition::Or(a, b)
            }
            Condition::Not(a) => Condition::Not(Box::new(self.condition(a))),
        }
    }

    fn define_stored(&mut self, v: Val, local: LocalId) {
        let block = self.block;
        let value = self.value_mut(v);
        value.state = State::Stored(local);
        value.block = block;
    }

    fn enter(&mut self) -> (Vec<Stmt>, usize) {
        self.blocks += 1;
        let outer = (
            std::mem::take(&mut self.out),
            std::mem::replace(&mut self.block, self.blocks),
        );
        debug_assert!(self.reductions.is_empty());
        outer
    }

    fn leave(&mut self, outer: (Vec<Stmt>, usize)) -> Vec<Stmt> {
        self.reductions.clear();
        self.block = outer.1;
        std::mem::replace(&mut self.out, outer.0)
    }

    /// Writes values to storage as if all at once.
    fn assign(&mut self, mut targets: Vec<(Val, LocalId)>) -> Result<()> {
        targets.retain(|(v, local)| self.value(*v).state != State::Stored(*local));
        for (v, _) in &targets {
            if self.value(*v).state == State::Reduction {
                self.settle(*v)?;
            }
        }
        while !targets.is_empty() {
            let read_by_others = |mapper: &Self, i: usize, targets: &[(Val, LocalId)]| {
                let overwritten = Resource::Local(targets[i].1);
                targets
                    .iter()
                    .enumerate()
                    .any(|(j, (v, _))| j != i && mapper.reads(*v).contains(&overwritten))
            };
            let free = (0..targets.len()).find(|i| !read_by_others(self, *i, &targets));
            let (v, local) = targets.remove(free.unwrap_or(0));
            if free.is_none() {
                for (other, _) in targets.clone() {
                    if self.reads(other).contains(&Resource::Local(local)) {
                        let copy = self.local_for(other);
                        self.write(copy, other)?;
                        self.define_stored(other, copy);
                    }
                }
            }
            self.write(local, v)?;
        }
        Ok(())
    }

    /// The element of a region at a tile index: its offset, and the coordinates that may be outside.
    pub(super) fn place(
        &mut self,
        tensor: TensorId,
        region: &[Axis],
        index: &[Expr],
    ) -> Result<(Expr, Vec<Guard>)> {
        let shape: Vec<Expr> = self
            .program
            .tensors
            .get(tensor.0)
            .map(|t| t.shape.iter().map(|e| self.index(e)).collect())
            .unwrap_or_default();
        let mut index = index.iter();
        let mut take = || {
            index
                .next()
                .cloned()
                .ok_or_else(|| Error::unexpected("a region has more dimensions than its tile"))
        };
        let mut offset = Expr::constant(0);
        let mut guards = Vec::new();
        for (axis, extent) in region.iter().zip(shape) {
            let coordinate = match axis {
                Axis::Range { start, step, .. } => self.index(start) + take()? * *step,
                Axis::At(e) => self.index(e),
                Axis::AtTile(v) => {
                    let node = self.element(*v, &[])?;
                    self.dynamic_index(node)
                }
                Axis::Gather(v) => {
                    let node = self.element(*v, &[take()?])?;
                    self.dynamic_index(node)
                }
            };
            offset = offset * extent.clone() + coordinate.clone();
            let inside =
                self.bounds(&coordinate).is_some_and(|b| b.0 >= 0) && self.below(&coordinate, &extent);
            if !inside {
                guards.push(Guard { coordinate, extent });
            }
        }
        Ok((offset, guards))
    }

    /// An index expression with the value of an integer node.
    fn dynamic_index(&mut self, node: NodeId) -> Expr {
        if let NodeKind::Index(expr) = &self.nodes.get(node).kind {
            return expr.clone();
        }
        let known = self.dynamic.iter().find(|(_, n)| **n == node);
        let symbol = match known {
            Some((symbol, _)) => symbol.clone(),
            None => {
                let symbol = self.names.fresh("at");
                self.dynamic.insert(symbol.clone(), node);
                symbol
            }
        };
        Expr::symbol(symbol)
    }
}

fn stored_tensors(stmts: &[ir::Stmt], out: &mut BTreeSet<TensorId>) {
    for stmt in stmts {
        match stmt {
            ir::Stmt::Store { tensor, .. } => {
                out.insert(*tensor);
            }
            ir::Stmt::For(l) => stored_tensors(&l.body, out),
            ir::Stmt::If(b) => {
                stored_tensors(&b.then, out);
                stored_tensors(&b.otherwise, out);
            }
            ir::Stmt::Define { .. } | ir::Stmt::Barrier => {}
        }
    }
}

fn loaded_tensors(stmts: &[ir::Stmt], out: &mut BTreeSet<TensorId>) {
    for stmt in stmts {
        match stmt {
            ir::Stmt::Define {
                op: Op::Load { tensor, .. },
                ..
            } => {
                out.insert(*tensor);
            }
            ir::Stmt::For(l) => loaded_tensors(&l.body, out),
            ir::Stmt::If(b) => {
                loaded_tensors(&b.then, out);
                loaded_tensors(&b.otherwise, out);
            }
            ir::Stmt::Define { .. } | ir::Stmt::Store { .. } | ir::Stmt::Barrier => {}
        }
    }
}

fn has_barrier(stmts: &[ir::Stmt]) -> bool {
    stmts.iter().any(|s| match s {
        ir::Stmt::Barrier => true,
        ir::Stmt::For(l) => has_barrier(&l.body),
        ir::Stmt::If(b) => has_barrier(&b.then) || has_barrier(&b.otherwise),
        ir::Stmt::Define { .. } | ir::Stmt::Store { .. } => false,
    })
}
