//! The typed form of a sketch: what the interpreter runs, the cost model counts and the lowerings translate.
//!
//! Knobs and parameters have their values, tile extents are numbers, tile values are in static single assignment, and
//! index arithmetic is [`Expr`] over program indices, loop indices and those extents that are still symbols.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;

use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, Symbol};
use crate::source::{PlanTensor, TensorRole};
use crate::task::Accuracy;

mod operator;

pub use operator::{BinaryOp, CompareOp, DotMethod, ReduceOp, UnaryOp};

/// A typed sketch.
#[derive(Debug, Clone, PartialEq)]
pub struct Program {
    /// The sketch's name.
    pub name: String,
    /// Inputs, outputs and buffers; [`TensorId`] indexes them.
    pub tensors: Vec<PlanTensor>,
    /// Extents without a value, which kernels take as arguments.
    pub dims: Vec<Symbol>,
    /// The class that results are for. Beyond fp32, lowerings may use functions that err by what the class has room for.
    pub accuracy: Accuracy,
    /// The kernels in launch order.
    pub kernels: Vec<Kernel>,
}

impl Program {
    /// The tensors of one role with their ids, in the order of declaration.
    pub fn with_role(&self, role: TensorRole) -> impl Iterator<Item = (TensorId, &PlanTensor)> {
        self.tensors
            .iter()
            .enumerate()
            .filter(move |(_, t)| t.role == role)
            .map(|(i, t)| (TensorId(i), t))
    }

    /// The extents in which a kernel sees a tensor.
    pub fn shape<'a>(&'a self, kernel: &'a Kernel, tensor: TensorId) -> &'a [Expr] {
        let declared = || self.tensors.get(tensor.0).map_or(&[][..], |t| &t.shape);
        kernel.views.get(&tensor).map_or_else(declared, Vec::as_slice)
    }
}

/// Names a tensor of a [`Program`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub usize);

/// Names a tile value of a [`Kernel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Val(pub u32);

/// Element type and extents of a tile; rank 0 is one element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TileType {
    /// The element type.
    pub dtype: DType,
    /// The extents, outermost first.
    pub extents: Vec<usize>,
}

impl fmt::Display for TileType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype, self.extents)
    }
}

/// A tile value's type and the name that it has in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValInfo {
    /// Element type and extents.
    pub ty: TileType,
    /// The name it was bound to; empty for intermediate results.
    pub name: String,
}

/// A grid of independent programs that run one body.
#[derive(Debug, Clone, PartialEq)]
pub struct Kernel {
    /// Unique in the program, and a C identifier.
    pub name: String,
    /// The program indices and their extents, outermost first.
    pub grid: Vec<GridAxis>,
    /// How program numbers map to program indices.
    pub order: Order,
    /// Which programs meet at barriers, if all run at the same time.
    pub cooperative: Option<Team>,
    /// Tensors that the kernel sees in other extents than they are declared with: the same elements in the same order.
    pub views: BTreeMap<TensorId, Vec<Expr>>,
    /// Every tile value of the body; [`Val`] indexes it.
    pub values: Vec<ValInfo>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// What the kernel does, for people.
    pub doc: String,
}

impl Kernel {
    /// The type of a tile value.
    pub fn ty(&self, value: Val) -> &TileType {
        &self.values[value.0 as usize].ty
    }
}

/// The programs of a cooperative kernel that meet at barriers: those that differ in some indices alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// Positions in [`Kernel::grid`] of the indices in which they differ, ascending; all of them where every program meets
    /// every other.
    pub along: Vec<usize>,
}

/// One dimension of a grid.
#[derive(Debug, Clone, PartialEq)]
pub struct GridAxis {
    /// The program index; unique in the kernel.
    pub symbol: Symbol,
    /// The number of values it takes, from 0.
    pub extent: Expr,
}

/// How program numbers map to program indices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Row-major: the last index runs fastest.
    RowMajor,
    /// Of a grid of two axes (after leading ones, which stay outermost): blocks of `size` values of `axis` run fastest,
    /// then the other axis, then the blocks.
    Grouped {
        /// Position in [`Kernel::grid`], one of the last two.
        axis: usize,
        /// Values of the axis that run together.
        size: i64,
    },
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Stmt {
    /// Defines a tile value.
    Define {
        /// The value.
        value: Val,
        /// How it is computed.
        op: Op,
        /// Place in the text.
        span: Range<usize>,
    },
    /// Writes a tile; coordinates outside the tensor are not written.
    Store {
        /// The tensor.
        tensor: TensorId,
        /// One entry for each dimension.
        region: Vec<Axis>,
        /// The tile; its extents are those of the ranges and gathers in order.
        value: Val,
        /// Whether it replaces or adds.
        mode: StoreMode,
        /// Place in the text.
        span: Range<usize>,
    },
    /// A loop.
    For(Loop),
    /// A branch that all of the program takes.
    If(Branch),
    /// Waits for every program of the [`Team`]; their stores before it are visible after it.
    Barrier,
}

impl Stmt {
    /// The values that the statement itself reads: operands, what loops start from and go on with, what branches merge.
    pub fn reads(&self) -> Vec<Val> {
        match self {
            Stmt::Define { op, .. } => op.operands(),
            Stmt::Store { region, value, .. } => region_operands(region).chain([*value]).collect(),
            Stmt::For(l) => {
                let combined = l.combine.iter().flat_map(|c| c.result.iter().copied());
                l.carried
                    .iter()
                    .flat_map(|c| [c.initial, c.next])
                    .chain(combined)
                    .collect()
            }
            Stmt::If(b) => b.merges.iter().flat_map(|m| [m.then, m.otherwise]).collect(),
            Stmt::Barrier => Vec::new(),
        }
    }

    /// The blocks of statements inside, a fold's combine included.
    pub fn blocks(&self) -> Vec<&[Stmt]> {
        match self {
            Stmt::For(l) => {
                let combine = l.combine.iter().map(|c| c.body.as_slice());
                std::iter::once(l.body.as_slice()).chain(combine).collect()
            }
            Stmt::If(b) => vec![&b.then, &b.otherwise],
            Stmt::Define { .. } | Stmt::Store { .. } | Stmt::Barrier => Vec::new(),
        }
    }
}

/// Whether programs wait for each other somewhere in `body`.
pub(crate) fn has_barrier(body: &[Stmt]) -> bool {
    let inside = |stmt: &Stmt| stmt.blocks().into_iter().any(has_barrier);
    body.iter()
        .any(|stmt| matches!(stmt, Stmt::Barrier) || inside(stmt))
}

/// How a store changes memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreMode {
    /// Replaces.
    Set,
    /// Adds atomically, in no particular order: floating results are not deterministic.
    AtomicAdd,
}

/// A loop over one or more indices, the last fastest; a nest without statements between the levels.
#[derive(Debug, Clone, PartialEq)]
pub struct Loop {
    /// The indices, outermost first. Bounds do not mention each other.
    pub axes: Vec<LoopAxis>,
    /// Values that pass from one iteration to the next.
    pub carried: Vec<Carried>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// Hint: software pipelining depth.
    pub pipeline: Option<i64>,
    /// Hint: unroll.
    pub unroll: bool,
    /// For a fold: how the carried values of two parts of the iteration space combine.
    pub combine: Option<Combine>,
    /// Place in the text.
    pub span: Range<usize>,
}

/// One loop index.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopAxis {
    /// The index; unique in the kernel.
    pub symbol: Symbol,
    /// First value.
    pub lo: Expr,
    /// The end, not reached.
    pub hi: Expr,
    /// The increment, positive.
    pub step: i64,
}

/// A value carried by a loop. All four have the same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carried {
    /// The value before the first iteration, defined outside.
    pub initial: Val,
    /// The value at the start of an iteration.
    pub inner: Val,
    /// The value at the end of an iteration, defined in the body (or outside, or `inner` itself).
    pub next: Val,
    /// The value after the loop.
    pub result: Val,
}

/// `(left, right) -> result` for the carried values of a fold, in their order; associative, with the initial values
/// as identity.
#[derive(Debug, Clone, PartialEq)]
pub struct Combine {
    /// Values of the earlier part.
    pub left: Vec<Val>,
    /// Values of the later part.
    pub right: Vec<Val>,
    /// Statements, [`Stmt::Define`] only.
    pub body: Vec<Stmt>,
    /// The combined values.
    pub result: Vec<Val>,
}

/// A branch.
#[derive(Debug, Clone, PartialEq)]
pub struct Branch {
    /// The same for the whole program.
    pub condition: Condition,
    /// Statements if it holds.
    pub then: Vec<Stmt>,
    /// Statements if not.
    pub otherwise: Vec<Stmt>,
    /// Values that differ by the branch taken.
    pub merges: Vec<Merge>,
    /// Place in the text.
    pub span: Range<usize>,
}

/// A value that depends on a branch. All three have the same type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Merge {
    /// If the condition holds.
    pub then: Val,
    /// If not.
    pub otherwise: Val,
    /// After the branch.
    pub result: Val,
}

/// A condition on integers.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// A comparison.
    Compare(CompareOp, Expr, Expr),
    /// Both.
    And(Box<Condition>, Box<Condition>),
    /// Either.
    Or(Box<Condition>, Box<Condition>),
    /// The opposite.
    Not(Box<Condition>),
}

impl Condition {
    /// Whether it holds when `f` gives the value of each symbol.
    pub fn eval_with(&self, f: &dyn Fn(&str) -> Option<i64>) -> Result<bool> {
        Ok(match self {
            Condition::Compare(op, a, b) => op.holds(&a.eval_with(f)?, &b.eval_with(f)?),
            Condition::And(a, b) => a.eval_with(f)? && b.eval_with(f)?,
            Condition::Or(a, b) => a.eval_with(f)? || b.eval_with(f)?,
            Condition::Not(a) => !a.eval_with(f)?,
        })
    }

    /// Every symbol in it.
    pub fn symbols(&self) -> BTreeSet<Symbol> {
        match self {
            Condition::Compare(_, a, b) => &a.symbols() | &b.symbols(),
            Condition::And(a, b) | Condition::Or(a, b) => &a.symbols() | &b.symbols(),
            Condition::Not(a) => a.symbols(),
        }
    }
}

/// One dimension of a region.
#[derive(Debug, Clone, PartialEq)]
pub enum Axis {
    /// `len` coordinates from `start`, `step` apart; they may leave the tensor on both sides.
    Range {
        /// First coordinate.
        start: Expr,
        /// Number of coordinates.
        len: usize,
        /// Distance; not 0, may be negative.
        step: i64,
    },
    /// One coordinate; no tile dimension.
    At(Expr),
    /// One coordinate from a rank-0 integer tile; no tile dimension.
    AtTile(Val),
    /// Coordinates from a rank-1 integer tile.
    Gather(Val),
}

/// A constant element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    /// Of an integer or boolean tile.
    Int(i64),
    /// Of a floating tile.
    Float(f64),
}

/// How a tile value is computed. Element-wise operators take operands of equal rank whose extents are equal or 1, or
/// of rank 0, and round their result to the tile's element type.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Reads a region of a tensor.
    Load {
        /// The tensor.
        tensor: TensorId,
        /// One entry for each dimension.
        region: Vec<Axis>,
        /// The element outside the tensor; `None` promises that the region stays inside.
        fill: Option<Scalar>,
    },
    /// Every element is the constant.
    Full(Scalar),
    /// `0, 1, 2, …` along the only dimension.
    Iota,
    /// A rank-0 integer tile with the value of an index expression.
    Index(Expr),
    /// Element-wise, one operand.
    Unary(UnaryOp, Val),
    /// Element-wise, two operands.
    Binary(BinaryOp, Val, Val),
    /// Element-wise, boolean result.
    Compare(CompareOp, Val, Val),
    /// Element-wise `condition ? a : b`.
    Select(Val, Val, Val),
    /// Converts to the result's element type: rounds to nearest even, truncates to integers, compares with 0 for bool.
    Cast(Val),
    /// Reinterprets the bits as the result's element type of the same size.
    Bits(Val),
    /// Combines along `axis`, which disappears.
    Reduce(ReduceOp, Val, usize),
    /// Index of the extreme element along `axis`, the first among equals; NaN counts as extreme. i32 result.
    ArgReduce(ReduceOp, Val, usize),
    /// Prefix combination along `axis`.
    Scan {
        /// The combination.
        op: ReduceOp,
        /// The tile.
        value: Val,
        /// The axis.
        axis: usize,
        /// Whether an element's own value is left out.
        exclusive: bool,
        /// Whether it runs from the end.
        reverse: bool,
    },
    /// `a [M, K] times b [K, N]`, added to `init [M, N]` if there is one.
    Dot {
        /// Left operand.
        a: Val,
        /// Right operand.
        b: Val,
        /// The accumulator.
        init: Option<Val>,
        /// How operands are read and partial sums are kept.
        method: DotMethod,
        /// Partial sums of at most this many products are rounded into the accumulator; `None` leaves it open.
        promote: Option<usize>,
    },
    /// Reorders dimensions: result dimension `i` is operand dimension `perm[i]`.
    Transpose(Val, Vec<usize>),
    /// The same elements in row-major order with the result's extents.
    Reshape(Val),
}

impl Op {
    /// The tile values that the operator reads, region indices included.
    pub fn operands(&self) -> Vec<Val> {
        match self {
            Op::Load { region, .. } => region_operands(region).collect(),
            Op::Full(_) | Op::Iota | Op::Index(_) => Vec::new(),
            Op::Unary(_, a)
            | Op::Cast(a)
            | Op::Bits(a)
            | Op::Reduce(_, a, _)
            | Op::ArgReduce(_, a, _)
            | Op::Scan { value: a, .. }
            | Op::Transpose(a, _)
            | Op::Reshape(a) => vec![*a],
            Op::Binary(_, a, b) | Op::Compare(_, a, b) => vec![*a, *b],
            Op::Select(c, a, b) => vec![*c, *a, *b],
            Op::Dot { a, b, init, .. } => [*a, *b].into_iter().chain(*init).collect(),
        }
    }
}

/// The tile values that a region reads.
pub fn region_operands(region: &[Axis]) -> impl Iterator<Item = Val> {
    region.iter().filter_map(|axis| match axis {
        Axis::AtTile(v) | Axis::Gather(v) => Some(*v),
        Axis::Range { .. } | Axis::At(_) => None,
    })
}
