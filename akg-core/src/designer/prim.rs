//! The few operations that every ATen operator of the rules comes down to.

use super::window::{Outside, Window};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::ValueId;
use crate::sketch::ir::{BinaryOp, CompareOp, ReduceOp, UnaryOp};

/// Names a primitive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct PrimId(pub(super) usize);

/// An element-wise operation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum MapOp {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(CompareOp),
    Select,
    /// To the node's element type.
    Cast,
}

/// A prefix combination along a dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scan {
    pub(super) op: ReduceOp,
    pub(super) dim: usize,
    /// Whether an element's own value is left out.
    pub(super) exclusive: bool,
    /// Whether it runs from the end.
    pub(super) reverse: bool,
}

/// What a primitive computes.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Prim {
    /// An input or constant of the graph.
    Input(ValueId),
    /// A literal of rank 0.
    Number(f64),
    /// An integer of rank 0 that follows from the extents.
    Integer(Expr),
    /// The coordinate along a dimension.
    Coordinate(usize),
    /// Element-wise with broadcasting.
    Map(MapOp, Vec<PrimId>),
    /// Combines along dimensions, which disappear.
    Reduce(ReduceOp, PrimId, Vec<usize>),
    /// Index of the extreme element along a dimension, which disappears.
    ArgReduce(ReduceOp, PrimId, usize),
    /// Combines each element with those before it.
    Scan(Scan, PrimId),
    /// `[batch.., M, K]` times `[batch.., K, N]`.
    Contract(PrimId, PrimId),
    /// The rows of a table `[T, D]` that the numbers `[M]` name, each from 0 to T - 1: `[M, D]`.
    Gather(PrimId, PrimId),
    /// Result dimension `i` is operand dimension `perm[i]`.
    Permute(PrimId, Vec<usize>),
    /// The same elements in row-major order.
    Reshape(PrimId),
    /// Broadcast to the node's shape.
    Expand(PrimId),
    /// Parts, reversals, paddings, and what sliding windows see.
    Window(Window, PrimId),
    /// The hidden vectors `[T, B, H]` of a recurrent layer, step by step. The operands are the input's share of the gates
    /// `[T, B, G, H]`, the hidden weights `[G, H, H]`, the first hidden vectors `[B, H]`, of an LSTM the first cells, and the
    /// hidden bias `[G, H]` if there is one. Those of a linear recurrence, which has results `[T, H]`, are factors and terms in
    /// that shape, and the first hidden vector `[H]`.
    Recur {
        cell: Cell,
        reverse: bool,
        operands: Vec<PrimId>,
    },
    /// The cells that go along with the hidden vectors of an LSTM.
    Carried(PrimId),
}

/// What a recurrent layer computes in a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell {
    Lstm,
    Gru,
    Tanh,
    Relu,
    /// `h = a * h + b`, element by element.
    Linear,
}

impl Cell {
    /// Gates of each hidden element.
    pub(super) fn gates(self) -> i64 {
        match self {
            Cell::Lstm => 4,
            Cell::Gru => 3,
            Cell::Tanh | Cell::Relu | Cell::Linear => 1,
        }
    }
}

impl Prim {
    /// Reads other primitives in the place of its operands.
    pub(super) fn rename(&mut self, name: impl Fn(PrimId) -> PrimId) {
        match self {
            Prim::Input(_) | Prim::Number(_) | Prim::Integer(_) | Prim::Coordinate(_) => {}
            Prim::Map(_, args) | Prim::Recur { operands: args, .. } => {
                args.iter_mut().for_each(|a| *a = name(*a));
            }
            Prim::Reduce(_, a, _)
            | Prim::ArgReduce(_, a, _)
            | Prim::Scan(_, a)
            | Prim::Permute(a, _)
            | Prim::Reshape(a)
            | Prim::Expand(a)
            | Prim::Window(_, a)
            | Prim::Carried(a) => *a = name(*a),
            Prim::Contract(a, b) | Prim::Gather(a, b) => (*a, *b) = (name(*a), name(*b)),
        }
    }
}

/// A primitive with its type and the ATen operator that it comes from.
#[derive(Debug, Clone)]
pub(super) struct PrimNode {
    pub(super) prim: Prim,
    pub(super) dtype: DType,
    pub(super) shape: Vec<Expr>,
    pub(super) origin: &'static str,
}

/// A graph of primitives under construction.
#[derive(Debug, Clone, Default)]
pub(super) struct Prims {
    pub(super) nodes: Vec<PrimNode>,
    /// The operator being decomposed.
    pub(super) origin: &'static str,
    /// Steps of operators that PyTorch's kernels round to their types, as they do values of the graph.
    pub(super) rounded: Vec<PrimId>,
}

impl Prims {
    pub(super) fn node(&self, id: PrimId) -> &PrimNode {
        &self.nodes[id.0]
    }

    pub(super) fn shape(&self, id: PrimId) -> &[Expr] {
        &self.node(id).shape
    }

    pub(super) fn dtype(&self, id: PrimId) -> DType {
        self.node(id).dtype
    }

    pub(super) fn rank(&self, id: PrimId) -> usize {
        self.shape(id).len()
    }

    /// The extent of a dimension.
    pub(super) fn extent(&self, id: PrimId, dim: usize) -> Expr {
        self.shape(id).get(dim).cloned().unwrap_or(Expr::constant(1))
    }

    pub(super) fn push(&mut self, prim: Prim, dtype: DType, shape: Vec<Expr>) -> PrimId {
        self.nodes.push(PrimNode {
            prim,
            dtype,
            shape,
            origin: self.origin,
        });
        PrimId(self.nodes.len() - 1)
    }

    /// A literal; its type follows its use.
    pub(super) fn number(&mut self, value: f64) -> PrimId {
        self.push(Prim::Number(value), DType::F32, Vec::new())
    }

    /// An integer that follows from the extents: a literal if it is known.
    pub(super) fn integer(&mut self, value: &Expr) -> PrimId {
        match value.as_const() {
            Some(value) => self.number(value as f64),
            None => self.push(Prim::Integer(value.clone()), DType::I64, Vec::new()),
        }
    }

    pub(super) fn is_number(&self, id: PrimId) -> bool {
        matches!(self.node(id).prim, Prim::Number(_))
    }

    /// The coordinate along `dim` of a value of the given shape.
    pub(super) fn coordinate(&mut self, dim: usize, shape: Vec<Expr>) -> PrimId {
        let short = shape
            .get(dim)
            .and_then(Expr::as_const)
            .is_some_and(|e| i32::try_from(e).is_ok());
        let dtype = if short { DType::I32 } else { DType::I64 };
        self.push(Prim::Coordinate(dim), dtype, shape)
    }

    /// A literal of an element type, repeated over a shape.
    pub(super) fn full(&mut self, value: f64, dtype: DType, shape: Vec<Expr>) -> PrimId {
        let number = self.push(Prim::Number(value), dtype, Vec::new());
        self.expand(number, shape)
    }

    /// The literal that a value repeats.
    pub(super) fn constant(&self, id: PrimId) -> Option<f64> {
        match &self.node(id).prim {
            Prim::Number(value) => Some(*value),
            Prim::Map(MapOp::Cast, args) => args.first().and_then(|a| self.constant(*a)),
            _ => self.viewed(id).and_then(|a| self.constant(a)),
        }
    }

    fn map(&mut self, op: MapOp, args: Vec<PrimId>, dtype: DType) -> Result<PrimId> {
        let mut shape: Vec<Expr> = Vec::new();
        for arg in &args {
            shape = broadcast(&shape, self.shape(*arg))?;
        }
        Ok(self.push(Prim::Map(op, args), dtype, shape))
    }

    pub(super) fn unary(&mut self, op: UnaryOp, a: PrimId) -> Result<PrimId> {
        let dtype = if op == UnaryOp::IsNan {
            DType::Bool
        } else {
            self.dtype(a)
        };
        self.map(MapOp::Unary(op), vec![a], dtype)
    }

    /// Both operands must have the same type already, or one be a literal.
    pub(super) fn binary(&mut self, op: BinaryOp, a: PrimId, b: PrimId) -> Result<PrimId> {
        // Compilers keep divisions by one.
        if matches!(op, BinaryOp::Mul | BinaryOp::Div)
            && self.node(b).prim == Prim::Number(1.0)
            && !self.is_number(a)
        {
            return Ok(a);
        }
        let dtype = self.dtype(if self.is_number(a) { b } else { a });
        // Truth values have one bit, in which a machine's sum would be another.
        let op = match op {
            BinaryOp::Add | BinaryOp::Max if dtype == DType::Bool => BinaryOp::Or,
            BinaryOp::Mul | BinaryOp::Min if dtype == DType::Bool => BinaryOp::And,
            op => op,
        };
        // So do they divisions by powers of two, whose inverses are exact.
        if op == BinaryOp::Div
            && dtype.is_float()
            && let Prim::Number(divisor) = self.node(b).prim
            && is_small_power(divisor)
        {
            return self.mul_number(a, divisor.recip());
        }
        self.map(MapOp::Binary(op), vec![a, b], dtype)
    }

    /// Compares; literals are compared here, since nothing else would give them a type.
    pub(super) fn compare(&mut self, op: CompareOp, a: PrimId, b: PrimId) -> Result<PrimId> {
        if let (Prim::Number(x), Prim::Number(y)) = (&self.node(a).prim, &self.node(b).prim) {
            let is_single = self.dtype(a).promote(self.dtype(b)) == DType::F32;
            let round = |value: f64| if is_single { f64::from(value as f32) } else { value };
            let holds = op.holds(&round(*x), &round(*y));
            return Ok(self.full(f64::from(u8::from(holds)), DType::Bool, Vec::new()));
        }
        self.map(MapOp::Compare(op), vec![a, b], DType::Bool)
    }

    pub(super) fn select(&mut self, condition: PrimId, a: PrimId, b: PrimId) -> Result<PrimId> {
        let dtype = self.dtype(if self.is_number(a) { b } else { a });
        if let Some(chooses_a) = self.constant(condition) {
            let chosen = if chooses_a != 0.0 { a } else { b };
            let shape = broadcast(self.shape(a), self.shape(b))?;
            let shape = broadcast(&shape, self.shape(condition))?;
            let chosen = self.cast(chosen, dtype);
            return Ok(self.expand(chosen, shape));
        }
        self.map(MapOp::Select, vec![condition, a, b], dtype)
    }

    /// Converts unless the type is the same already; literals take any type.
    pub(super) fn cast(&mut self, a: PrimId, dtype: DType) -> PrimId {
        if self.dtype(a) == dtype || self.is_number(a) {
            return a;
        }
        let shape = self.shape(a).to_vec();
        self.push(Prim::Map(MapOp::Cast, vec![a]), dtype, shape)
    }

    pub(super) fn add(&mut self, a: PrimId, b: PrimId) -> Result<PrimId> {
        self.binary(BinaryOp::Add, a, b)
    }

    pub(super) fn sub(&mut self, a: PrimId, b: PrimId) -> Result<PrimId> {
        self.binary(BinaryOp::Sub, a, b)
    }

    pub(super) fn mul(&mut self, a: PrimId, b: PrimId) -> Result<PrimId> {
        self.binary(BinaryOp::Mul, a, b)
    }

    pub(super) fn div(&mut self, a: PrimId, b: PrimId) -> Result<PrimId> {
        self.binary(BinaryOp::Div, a, b)
    }

    pub(super) fn mul_number(&mut self, a: PrimId, factor: f64) -> Result<PrimId> {
        let factor = self.number(factor);
        self.mul(a, factor)
    }

    pub(super) fn add_number(&mut self, a: PrimId, term: f64) -> Result<PrimId> {
        let term = self.number(term);
        self.add(a, term)
    }

    /// Reduces over `axes` (none given means all) and drops or keeps them with extent 1.
    pub(super) fn reduce(&mut self, op: ReduceOp, a: PrimId, axes: &[usize], keep: bool) -> PrimId {
        let a = self.as_elements(a);
        let shape = self.shape(a).to_vec();
        let kept: Vec<Expr> = shape
            .iter()
            .enumerate()
            .filter(|(i, _)| !axes.contains(i))
            .map(|(_, d)| d.clone())
            .collect();
        let dtype = self.dtype(a);
        // Size-1 dimensions have nothing to combine.
        let real: Vec<usize> = axes
            .iter()
            .copied()
            .filter(|i| shape.get(*i).is_some_and(|d| !d.is(1)))
            .collect();
        let reduced = if real.is_empty() {
            self.push(Prim::Reshape(a), dtype, kept)
        } else {
            self.push(Prim::Reduce(op, a, axes.to_vec()), dtype, kept)
        };
        if keep {
            self.restore(reduced, &shape, axes)
        } else {
            reduced
        }
    }

    /// Puts reduced dimensions back with extent 1.
    pub(super) fn restore(&mut self, a: PrimId, shape: &[Expr], axes: &[usize]) -> PrimId {
        let kept = shape.iter().enumerate();
        let kept = kept
            .map(|(i, d)| {
                if axes.contains(&i) {
                    Expr::constant(1)
                } else {
                    d.clone()
                }
            })
            .collect();
        self.push(Prim::Reshape(a), self.dtype(a), kept)
    }

    pub(super) fn reshape(&mut self, a: PrimId, shape: Vec<Expr>) -> PrimId {
        if self.shape(a) == shape {
            return a;
        }
        self.push(Prim::Reshape(a), self.dtype(a), shape)
    }

    /// All elements as one row.
    pub(super) fn row(&mut self, a: PrimId) -> PrimId {
        let count = self.shape(a).iter().fold(Expr::constant(1), |n, d| &n * d);
        self.reshape(a, vec![count])
    }

    pub(super) fn permute(&mut self, a: PrimId, perm: Vec<usize>) -> PrimId {
        if perm.iter().copied().eq(0..perm.len()) {
            return a;
        }
        let shape = perm
            .iter()
            .filter_map(|p| self.shape(a).get(*p).cloned())
            .collect();
        self.push(Prim::Permute(a, perm), self.dtype(a), shape)
    }

    pub(super) fn expand(&mut self, a: PrimId, shape: Vec<Expr>) -> PrimId {
        if self.shape(a) == shape {
            return a;
        }
        self.push(Prim::Expand(a), self.dtype(a), shape)
    }

    /// `extent` coordinates of `a` along the window's dimension, of which `a` must have more than one.
    pub(super) fn window(&mut self, a: PrimId, window: Window, extent: Expr) -> PrimId {
        let whole = window.start.is(0) && window.steps == [1] && self.extent(a, window.dim) == extent;
        if whole {
            a
        } else {
            self.slide(a, window, &[extent])
        }
    }

    /// What stands at a coordinate along a dimension, which disappears.
    pub(super) fn at(&mut self, a: PrimId, dim: usize, place: Expr) -> PrimId {
        let kept = self.shape(a).iter().enumerate().filter(|(i, _)| *i != dim);
        let kept = kept.map(|(_, extent)| extent.clone()).collect();
        let one = self.window(a, Window::new(dim, place, 1), Expr::constant(1));
        self.reshape(one, kept)
    }

    /// The dimensions of so many coordinates that stand for the window's, of which `a` must have more than one.
    pub(super) fn slide(&mut self, a: PrimId, window: Window, counts: &[Expr]) -> PrimId {
        if let Prim::Window(first, original) = self.node(a).prim.clone()
            && let ([step], true) = (first.steps.as_slice(), first.dim == window.dim)
            && window.stays_inside(counts, &self.extent(a, window.dim))
        {
            let composed = Window {
                start: window.start * *step + first.start,
                steps: window.steps.iter().map(|s| s * step).collect(),
                ..first
            };
            return match counts {
                [extent] => self.window(original, composed, extent.clone()),
                _ => self.slide(original, composed, counts),
            };
        }
        let mut shape = self.shape(a).to_vec();
        if window.dim < shape.len() {
            shape.splice(window.dim..=window.dim, counts.iter().cloned());
        }
        let a = if self.shows_dimension(a, window.dim) {
            a
        } else {
            self.copy(a)
        };
        self.push(Prim::Window(window, a), self.dtype(a), shape)
    }

    /// Whether a dimension of a view is one of what is viewed, seen as a whole.
    fn shows_dimension(&self, a: PrimId, dim: usize) -> bool {
        match &self.node(a).prim {
            Prim::Permute(inner, perm) => perm.get(dim).is_some_and(|d| self.shows_dimension(*inner, *d)),
            Prim::Window(w, inner) => w.shown(dim).is_some_and(|d| self.shows_dimension(*inner, d)),
            Prim::Reshape(_) => self.reshaped(a).is_some(),
            Prim::Expand(_) => false,
            _ => true,
        }
    }

    /// What `a` holds all elements of, in order.
    pub(super) fn reshaped(&self, a: PrimId) -> Option<PrimId> {
        match &self.node(a).prim {
            Prim::Reshape(inner) => self.reshaped(*inner),
            _ => self.viewed(a).is_none().then_some(a),
        }
    }

    /// The value itself, or a copy if it shows zeros beyond a tensor or elements more than once: combinations take what
    /// stands outside of tensors for nothing, and go through each element of memory once.
    pub(super) fn as_elements(&mut self, a: PrimId) -> PrimId {
        let mut view = a;
        while let Some(inner) = self.viewed(view) {
            let is_other = match &self.node(view).prim {
                Prim::Window(w, _) => {
                    let reaches_out = !w.stays_inside(w.counts(self.shape(view)), &self.extent(inner, w.dim));
                    w.outside == Outside::Zeros && reaches_out
                }
                Prim::Expand(_) => self.repeats(view, inner),
                _ => false,
            };
            if is_other {
                return self.copy(a);
            }
            view = inner;
        }
        a
    }

    /// Whether an expansion has more elements than what it expands.
    fn repeats(&self, expanded: PrimId, inner: PrimId) -> bool {
        let real = |id: PrimId| self.shape(id).iter().filter(|d| !d.is(1)).count();
        real(expanded) != real(inner)
    }

    /// The same elements as a value of its own.
    pub(super) fn copy(&mut self, a: PrimId) -> PrimId {
        let (dtype, shape) = (self.dtype(a), self.shape(a).to_vec());
        self.push(Prim::Map(MapOp::Cast, vec![a]), dtype, shape)
    }

    /// The elements along a dimension in opposite order.
    pub(super) fn flip(&mut self, a: PrimId, dim: usize) -> PrimId {
        let extent = self.extent(a, dim);
        if extent.is(1) {
            return a;
        }
        let start = extent.clone() - 1;
        self.window(a, Window::new(dim, start, -1), extent)
    }

    /// A prefix combination; along a dimension that is reversed, one from the end.
    pub(super) fn scan(&mut self, scan: Scan, a: PrimId) -> PrimId {
        if let Prim::Window(w, _) = &self.node(a).prim
            && w.dim == scan.dim
            && matches!(w.steps[..], [step] if step < 0)
        {
            let original = self.flip(a, scan.dim);
            let reversed = Scan {
                reverse: !scan.reverse,
                ..scan
            };
            let result = self.scan(reversed, original);
            return self.flip(result, scan.dim);
        }
        let a = self.as_elements(a);
        // One element has nothing before it.
        if self.extent(a, scan.dim).is(1) && !scan.exclusive {
            return a;
        }
        let shape = self.shape(a).to_vec();
        self.push(Prim::Scan(scan, a), self.dtype(a), shape)
    }

    /// The number of elements along `axes` for arithmetic in `dtype`: a literal if it is known.
    pub(super) fn count(&mut self, a: PrimId, axes: &[usize], dtype: DType) -> PrimId {
        let extents = axes.iter().map(|axis| self.extent(a, *axis));
        let count = extents.fold(Expr::constant(1), |n, d| &n * &d);
        let count = self.integer(&count);
        // Types shorter than f32, which are computed in f32, do not hold it.
        self.cast(count, if dtype == DType::F64 { dtype } else { DType::F32 })
    }

    /// Arithmetic mean over `axes`, kept with extent 1.
    pub(super) fn mean(&mut self, a: PrimId, axes: &[usize]) -> Result<PrimId> {
        let sum = self.reduce(ReduceOp::Sum, a, axes, true);
        let count = self.count(a, axes, self.dtype(sum));
        self.div(sum, count)
    }

    /// `variance`, the mean squared deviation over `axes` of `a`, divided by `correction` fewer than all elements.
    pub(super) fn corrected(
        &mut self,
        variance: PrimId,
        a: PrimId,
        axes: &[usize],
        correction: f64,
    ) -> Result<PrimId> {
        let count = self.count(a, axes, self.dtype(variance));
        if let Some(count) = self.constant(count) {
            return self.mul_number(variance, count / (count - correction).max(0.0));
        }
        let (zero, correction) = (self.number(0.0), self.number(correction));
        let left = self.sub(count, correction)?;
        let left = self.binary(BinaryOp::Max, left, zero)?;
        let sum = self.mul(variance, count)?;
        self.div(sum, left)
    }

    /// Arithmetic mean and mean squared deviation from it over `axes`, kept with extent 1.
    ///
    /// In double precision the mean of the squares loses nothing that matters to a norm against the square of the mean, and
    /// both take one pass over the data. What is double itself is centred first.
    pub(super) fn moments(&mut self, a: PrimId, axes: &[usize]) -> Result<(PrimId, PrimId)> {
        let dtype = self.dtype(a);
        if dtype == DType::F64 {
            return self.centred_moments(a, axes);
        }
        let wide = self.cast(a, DType::F64);
        let squares = self.mul(wide, wide)?;
        let (mean, of_squares) = (self.mean(wide, axes)?, self.mean(squares, axes)?);
        let squared = self.mul(mean, mean)?;
        let difference = self.sub(of_squares, squared)?;
        let zero = self.number(0.0);
        let variance = self.binary(BinaryOp::Max, difference, zero)?;
        // Narrow floats are computed with in f32.
        Ok((self.cast(mean, DType::F32), self.cast(variance, DType::F32)))
    }

    /// Arithmetic mean and mean squared deviation from it over `axes`, kept with extent 1, in double precision and in two
    /// passes: however far the mean is from zero, digits do not cancel.
    pub(super) fn centred_moments(&mut self, a: PrimId, axes: &[usize]) -> Result<(PrimId, PrimId)> {
        let wide = self.cast(a, DType::F64);
        let mean = self.mean(wide, axes)?;
        let centred = self.sub(wide, mean)?;
        let squares = self.mul(centred, centred)?;
        Ok((mean, self.mean(squares, axes)?))
    }

    /// The operands of a primitive.
    pub(super) fn operands(&self, id: PrimId) -> Vec<PrimId> {
        match &self.node(id).prim {
            Prim::Input(_) | Prim::Number(_) | Prim::Integer(_) | Prim::Coordinate(_) => Vec::new(),
            Prim::Map(_, args) | Prim::Recur { operands: args, .. } => args.clone(),
            Prim::Reduce(_, a, _)
            | Prim::ArgReduce(_, a, _)
            | Prim::Scan(_, a)
            | Prim::Permute(a, _)
            | Prim::Reshape(a)
            | Prim::Expand(a)
            | Prim::Window(_, a)
            | Prim::Carried(a) => vec![*a],
            Prim::Contract(a, b) | Prim::Gather(a, b) => vec![*a, *b],
        }
    }

    /// What a view is a view of, one step.
    pub(super) fn viewed(&self, id: PrimId) -> Option<PrimId> {
        match &self.node(id).prim {
            Prim::Permute(a, _) | Prim::Reshape(a) | Prim::Expand(a) | Prim::Window(_, a) => Some(*a),
            _ => None,
        }
    }

    /// Follows views to what they are a view of.
    pub(super) fn root(&self, id: PrimId) -> PrimId {
        self.viewed(id).map_or(id, |a| self.root(a))
    }

    /// Whether a view on the way to the root is a window.
    pub(super) fn is_windowed(&self, id: PrimId) -> bool {
        matches!(self.node(id).prim, Prim::Window(..)) || self.viewed(id).is_some_and(|a| self.is_windowed(a))
    }

    /// Whether a kernel computes this, as opposed to inputs, literals and views.
    pub(super) fn is_computed(&self, id: PrimId) -> bool {
        matches!(
            self.node(id).prim,
            Prim::Map(..)
                | Prim::Reduce(..)
                | Prim::ArgReduce(..)
                | Prim::Scan(..)
                | Prim::Contract(..)
                | Prim::Gather(..)
                | Prim::Recur { .. }
                | Prim::Carried(_)
        )
    }

    /// How many elements a sum adds up, `None` for everything else. Unknown extents count as many.
    pub(super) fn summed(&self, id: PrimId) -> Option<i64> {
        let Prim::Reduce(ReduceOp::Sum, a, axes) = &self.node(id).prim else {
            return None;
        };
        let extents = axes.iter().map(|axis| self.extent(*a, *axis).as_const());
        Some(extents.fold(1, |n: i64, extent| n.saturating_mul(extent.unwrap_or(i64::MAX))))
    }

    /// Whether a kernel is made for this that reads all its operands from memory.
    pub(super) fn reads_memory(&self, id: PrimId) -> bool {
        matches!(
            self.node(id).prim,
            Prim::Contract(..) | Prim::Gather(..) | Prim::Recur { .. }
        )
    }
}

/// Whether a number is a power of two up to 2^14 in magnitude, whose inverse is a normal number in every type.
fn is_small_power(number: f64) -> bool {
    let magnitude = number.abs();
    magnitude.log2().fract() == 0.0 && (1.0..=16384.0).contains(&magnitude)
}

/// The shape that two shapes broadcast to.
pub(super) fn broadcast(a: &[Expr], b: &[Expr]) -> Result<Vec<Expr>> {
    let rank = a.len().max(b.len());
    let one = Expr::constant(1);
    let at = |s: &[Expr], i: usize| {
        (i + s.len())
            .checked_sub(rank)
            .map_or(one.clone(), |j| s[j].clone())
    };
    (0..rank)
        .map(|i| {
            let (x, y) = (at(a, i), at(b, i));
            match (x.is(1), y.is(1)) {
                (true, _) => Ok(y),
                (_, true) => Ok(x),
                _ if x == y => Ok(x),
                _ => Err(Error::invalid(format!(
                    "cannot prove that the extents `{x}` and `{y}` are equal"
                ))),
            }
        })
        .collect()
}
