//! The walk over a kernel's statements: which values get storage, and when.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::error::{Error, Result};
use crate::expr::{Expr, Symbol};
use crate::lower::grid;
use crate::sketch::ir::{
    self, Axis, Carried, Kernel, Loop, Op, Program, StoreMode, TensorId, Val, region_operands,
};

use super::Machine;
use super::added::{Added, Addition};
use super::boxes::Held;
use super::cost;
use super::effect::Effect;
use super::element::Frame;
use super::ir::{Local, LocalId, LoopKernel, LoopKind, Param, Stmt, Sums};
use super::names::Names;
use super::nest::Nest;
use super::node::{Guard, NodeId, NodeKind, Nodes};
use super::stream::streamed_tensors;
use super::uses::{Use, is_elementwise, uses};

/// The largest value assumed for an extent that is not known.
pub(super) const UNKNOWN_EXTENT: i64 = 1 << 40;

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
    added: Added,
    /// Position of the statement at hand, as in [`Use::last`].
    pub(super) at: usize,
    pub(super) names: Names,
    /// What the sketch's symbols stand for.
    pub(super) symbols: HashMap<Symbol, Expr>,
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
    pub(super) next: HashMap<Val, LocalId>,
    pub(super) written: BTreeSet<TensorId>,
    /// Tensors that are written past the caches.
    pub(super) streamed: BTreeSet<TensorId>,
    /// The loops around the statement at hand by index and step, the one over programs first.
    pub(super) advances: Vec<(Symbol, i64)>,
    /// Rows that loops have read so far, by their first elements.
    pub(super) rows_read: Vec<(TensorId, Expr)>,
    /// Loops that elements go through where they are used, by what they result in.
    pub(super) inside: HashMap<Val, (&'a Loop, Carried)>,
    /// Loads whose elements are in boxes.
    pub(super) held: HashMap<Val, Held>,
    /// What nodes are called in the sketch.
    pub(super) labels: HashMap<NodeId, String>,
    pub(super) block: usize,
    pub(super) blocks: usize,
    /// The block of the innermost loop around the statement at hand.
    pub(super) loop_block: Option<usize>,
    /// Statements that come before that loop.
    pub(super) before: Vec<Stmt>,
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
        let (uses, added) = uses(kernel);
        Ok(Self {
            program,
            kernel,
            machine,
            nodes: Nodes::default(),
            values: vec![value; kernel.values.len()],
            uses,
            added,
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
            streamed: streamed_tensors(program, kernel, machine),
            advances: Vec::new(),
            rows_read: Vec::new(),
            inside: HashMap::new(),
            held: HashMap::new(),
            labels: HashMap::new(),
            block: 0,
            blocks: 0,
            loop_block: None,
            before: Vec::new(),
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
        let index = indices.last().map(|(symbol, _)| (symbol.clone(), 1));
        self.advancing(index, |mapper| mapper.statements(&kernel.body))?;
        Ok(LoopKernel {
            name: format!("{}_{}", self.program.name, kernel.name),
            doc: kernel.doc.clone(),
            cooperative: kernel.cooperative.is_some(),
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
    pub(super) fn declare(&mut self, symbol: &Symbol, range: (i64, i64)) -> Symbol {
        let name = self.names.fresh(symbol);
        self.symbols.insert(symbol.clone(), Expr::symbol(name.clone()));
        self.ranges.insert(name.clone(), range);
        name
    }

    /// An index expression of the sketch by the names of the kernel.
    pub(super) fn index(&self, expr: &Expr) -> Expr {
        expr.substitute(&|s| self.symbols.get(s).cloned())
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

    pub(super) fn value_mut(&mut self, v: Val) -> &mut Value<'a> {
        &mut self.values[v.0 as usize]
    }

    pub(super) fn set_state(&mut self, v: Val, state: State) {
        self.value_mut(v).state = state;
    }

    /// Whether a later statement may need the value.
    pub(super) fn is_live(&self, v: Val) -> bool {
        self.uses[v.0 as usize].last > self.at
    }

    /// Whether neither the statement at hand nor a later one needs the value for anything but what is being emitted.
    pub(super) fn is_past(&self, v: Val) -> bool {
        self.uses[v.0 as usize].last < self.at
    }

    pub(super) fn is_dead(&self, v: Val) -> bool {
        self.uses[v.0 as usize].count == 0
    }

    pub(super) fn all_values(&self) -> impl Iterator<Item = Val> + use<> {
        (0..self.values.len() as u32).map(Val)
    }

    pub(super) fn reads(&self, v: Val) -> BTreeSet<Resource> {
        match self.value(v).state {
            State::Stored(local) => BTreeSet::from([Resource::Local(local)]),
            _ => self.value(v).reads.clone(),
        }
    }

    pub(super) fn statements(&mut self, stmts: &'a [ir::Stmt]) -> Result<()> {
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
                    let team = self.kernel.cooperative.as_ref();
                    if team.is_some_and(|team| team.along.len() < self.kernel.grid.len()) {
                        return Err(Error::unsupported(format!(
                            "the kernel `{}` has barriers of some of its programs; here all meet: leave out `along`",
                            self.kernel.name
                        )));
                    }
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
        if (is_elementwise(op) && !self.added.contains_key(&v)) || matches!(op, Op::Reduce(..)) {
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
        match self.added.get(&v) {
            Some(Some(Addition { to, dot })) => {
                let (to, dot) = (*to, *dot);
                return self.product(v, dot, Some(to), Sums::Add);
            }
            Some(None) => return Ok(()),
            None => {}
        }
        match op {
            Op::ArgReduce(..) | Op::Scan { .. } => self.collect(v)?,
            Op::Dot { .. } => self.dot(v)?,
            Op::Transpose(u, perm) if self.is_turned(v, *u, perm) => self.turn(v, *u)?,
            _ => debug_assert!(is_elementwise(op) || state == State::Reduction),
        }
        Ok(())
    }

    /// Scalar operations per element when evaluated in place.
    pub(super) fn cost(&self, op: &Op) -> u32 {
        let of = |v: Val| match self.value(v).state {
            State::Inline => self.value(v).cost,
            _ => 1,
        };
        let own = match op {
            Op::Full(_) | Op::Iota | Op::Index(_) | Op::Transpose(..) | Op::Reshape(_) => 0,
            Op::Load { region, .. } => 1 + 2 * region_operands(region).count() as u32,
            Op::Unary(op, _) => cost::unary(*op),
            Op::Binary(op, ..) => cost::binary(*op),
            _ => 1,
        };
        op.operands()
            .into_iter()
            .map(of)
            .fold(own, |sum, cost| sum.saturating_add(cost))
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

    /// The element of a region at a tile index: its offset, and the coordinates that may be outside.
    pub(super) fn place(
        &mut self,
        tensor: TensorId,
        region: &[Axis],
        index: &[Expr],
    ) -> Result<(Expr, Vec<Guard>)> {
        let mut index = index.iter();
        let mut take = || {
            index
                .next()
                .cloned()
                .ok_or_else(|| Error::unexpected("a region has more dimensions than its tile"))
        };
        let mut coordinates = Vec::new();
        for axis in region {
            coordinates.push(match axis {
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
            });
        }
        Ok(self.locate(tensor, coordinates))
    }

    /// The offset of the element of a tensor at these coordinates, and what must be checked.
    pub(super) fn locate(&self, tensor: TensorId, coordinates: Vec<Expr>) -> (Expr, Vec<Guard>) {
        let shape = self.program.shape(self.kernel, tensor).iter();
        let shape: Vec<Expr> = shape.map(|e| self.index(e)).collect();
        let mut offset = Expr::constant(0);
        let mut guards = Vec::new();
        for (coordinate, extent) in coordinates.into_iter().zip(shape) {
            offset = offset * extent.clone() + coordinate.clone();
            let inside =
                self.bounds(&coordinate).is_some_and(|b| b.0 >= 0) && self.below(&coordinate, &extent);
            if !inside {
                guards.push(Guard { coordinate, extent });
            }
        }
        (offset, guards)
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

pub(super) fn stored_tensors(stmts: &[ir::Stmt], out: &mut BTreeSet<TensorId>) {
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

pub(super) fn loaded_tensors(stmts: &[ir::Stmt], out: &mut BTreeSet<TensorId>) {
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
