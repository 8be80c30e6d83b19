//! The form that a printer for a loop machine writes down: scalars, local arrays, counted loops.

use std::collections::BTreeMap;

use crate::dtype::DType;
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{self, BinaryOp, CompareOp, Condition, ReduceOp, StoreMode, TensorId, UnaryOp};

/// One kernel: the work of one program.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopKernel {
    /// A C identifier, unique among the kernels of all programs of one artifact.
    pub name: String,
    /// What the kernel does, for people.
    pub doc: String,
    /// Whether all programs run at the same time and may meet at barriers.
    pub cooperative: bool,
    /// The tensors that it touches.
    pub params: Vec<Param>,
    /// Extents without a value, in the order of [`ir::Program::dims`], as the body names them.
    pub dims: Vec<Symbol>,
    /// The program's number, as [`indices`](Self::indices) names it.
    pub program: Symbol,
    /// The program indices by [`program`](Self::program).
    pub indices: Vec<(Symbol, Expr)>,
    /// Local storage; [`LocalId`] indexes it.
    pub locals: Vec<Local>,
    /// The statements.
    pub body: Vec<Stmt>,
    /// Inclusive ranges of the integer symbols.
    pub ranges: BTreeMap<Symbol, (i64, i64)>,
}

impl LoopKernel {
    /// The inclusive range of an index expression, if it can be bounded.
    pub fn bounds(&self, expr: &Expr) -> Option<(i64, i64)> {
        expr.bounds(&|name| self.ranges.get(name).copied())
    }
}

/// A tensor parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// The tensor.
    pub tensor: TensorId,
    /// Its name in the body.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// Whether the kernel writes it.
    pub written: bool,
}

/// Names a local of a [`LoopKernel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LocalId(pub usize);

/// Local storage. Half-precision tiles are stored as [`DType::F32`] that hold rounded values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// A C identifier, unique in the kernel.
    pub name: String,
    /// The type of an element in storage, never half precision.
    pub dtype: DType,
    /// The number of elements, or `None` for a scalar variable.
    pub len: Option<usize>,
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Stmt {
    /// A remark: which statement of the sketch follows.
    Comment(String),
    /// Brings a local into scope, uninitialised.
    Declare(LocalId),
    /// Names a value.
    Let {
        /// The name, unique in the kernel.
        name: Symbol,
        /// The type; `None` for a 64-bit index.
        dtype: Option<DType>,
        /// The value.
        value: Scalar,
    },
    /// Names the first tile index `lo` and the end `hi` (not reached), both in `0..=len`, for which
    /// `start + step * index` lies in `0..extent`.
    Clip {
        /// First valid index; `None` where that is 0 or not of interest.
        lo: Option<Symbol>,
        /// End of the valid indices; `None` where that is `len` or not of interest.
        hi: Option<Symbol>,
        /// The coordinate of index 0.
        start: Expr,
        /// The distance of coordinates, not 0.
        step: i64,
        /// The tensor's extent.
        extent: Expr,
        /// The tile's extent.
        len: usize,
    },
    /// A counted loop.
    For {
        /// The index.
        symbol: Symbol,
        /// First value.
        lo: Expr,
        /// The end, not reached.
        hi: Expr,
        /// The increment, positive.
        step: i64,
        /// What is known of the iterations.
        kind: LoopKind,
        /// The statements.
        body: Vec<Stmt>,
    },
    /// A branch.
    If {
        /// The condition.
        condition: Condition,
        /// Statements if it holds.
        then: Vec<Stmt>,
        /// Statements if not.
        otherwise: Vec<Stmt>,
    },
    /// Writes an element of a local.
    Set {
        /// The local.
        local: LocalId,
        /// The element; 0 for a scalar.
        offset: Expr,
        /// The value.
        value: Scalar,
    },
    /// Writes an element of a tensor.
    Store {
        /// The tensor.
        tensor: TensorId,
        /// The element.
        offset: Expr,
        /// Whether it replaces or adds.
        mode: StoreMode,
        /// The value, of the tensor's type.
        value: Scalar,
    },
    /// Writes elements of a local, from its first, to a tensor past the caches.
    Stream {
        /// The tensor.
        tensor: TensorId,
        /// The first element to write.
        offset: Expr,
        /// The local.
        from: LocalId,
        /// The number of elements.
        len: Expr,
    },
    /// A hint that elements of a tensor will be read soon. Some of them may be outside of it.
    Prefetch {
        /// The tensor.
        tensor: TensorId,
        /// The first element.
        offset: Expr,
        /// The number of elements.
        len: Expr,
    },
    /// Replaces elements of a local of [`DType::F64`] by their running sums or products, which may be associated in any way.
    Scan {
        /// The local.
        local: LocalId,
        /// The first element.
        offset: Expr,
        /// The number of elements.
        len: usize,
        /// [`ReduceOp::Sum`] or [`ReduceOp::Prod`].
        op: ReduceOp,
        /// Whether an element is left out of its own result.
        exclusive: bool,
        /// Whether the last element comes first.
        reverse: bool,
    },
    /// Copies a matrix into the panels that a [`Dot`] reads.
    Pack(Pack),
    /// Multiplies local matrices into a local matrix.
    Dot(Dot),
    /// Waits for every program.
    Barrier,
}

/// What is known of a loop's iterations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoopKind {
    /// A loop of the sketch, over 64-bit indices.
    Sketch {
        /// Hint: unroll.
        unroll: bool,
    },
    /// Over a tile dimension; indices fit in 32 bits.
    Tile,
    /// Over a few indices of a tile dimension, to be written out.
    Unrolled,
    /// Over a tile dimension with independent iterations but for these accumulators.
    Vector(Vec<(Accumulation, LocalId)>),
}

/// How the iterations of a vector loop change an accumulator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Accumulation {
    /// By an associative operator; extremes ignore NaN.
    Reduce(ReduceOp),
    /// By a bitwise or.
    Or,
}

/// Copies a matrix into panels of `width` columns, each row by row: element `i, j` of what the panels hold is at
/// `(j / width) * rows * width + i * width + j % width`. If it is all that they hold, then columns of the last panel that it
/// lacks may become anything, and so may elements after that, as many as a vector register holds. If not, there is one
/// panel.
#[derive(Debug, Clone, PartialEq)]
pub struct Pack {
    /// What is copied.
    pub from: Matrix,
    /// The panels.
    pub to: LocalId,
    /// Rows of the panels.
    pub rows: usize,
    /// Columns of a panel.
    pub width: usize,
    /// The row and the column of the panels where the matrix goes.
    pub at: [Expr; 2],
}

impl Pack {
    /// Copies all that panels hold.
    pub(super) fn all(from: Matrix, to: LocalId, width: usize) -> Self {
        Self {
            rows: from.extents[0],
            at: [0.into(), 0.into()],
            from,
            to,
            width,
        }
    }

    /// Whether it copies all that the panels hold.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.from.extents[0] == self.rows && self.at.iter().all(|at| at.is(0))
    }
}

/// A matrix in memory: element `i, j` is at `offset + i * strides[0] + j * strides[1]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Where it is.
    pub place: Place,
    /// The element of row 0 and column 0.
    pub offset: Expr,
    /// Rows and columns.
    pub extents: [usize; 2],
    /// Distance of rows and of columns. That of columns is a number, or that of rows is 1.
    pub strides: [Expr; 2],
    /// The first row and column that exists, and the end of them; others are zero. The end may be before the first.
    pub valid: [[Expr; 2]; 2],
}

impl Matrix {
    /// The same with rows for columns.
    pub(super) fn transposed(mut self) -> Self {
        self.extents.reverse();
        self.strides.reverse();
        self.valid.reverse();
        self
    }
}

/// Where elements of an operand begin.
#[derive(Debug, Clone, PartialEq)]
pub struct Address {
    /// Where they are.
    pub place: Place,
    /// The first of them.
    pub offset: Expr,
}

impl From<LocalId> for Address {
    fn from(local: LocalId) -> Self {
        Self {
            place: Place::Local(local),
            offset: 0.into(),
        }
    }
}

/// What holds elements of a matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A tensor.
    Tensor(TensorId),
    /// A local.
    Local(LocalId),
}

/// `a[m, k] * b[k, n]` into `c[m, n]`, which is dense.
#[derive(Debug, Clone, PartialEq)]
pub struct Dot {
    /// The left operand.
    pub a: Address,
    /// Where the elements of the left operand are.
    pub a_layout: Layout,
    /// The right operand, in panels as [`Pack`] describes them.
    pub b: Address,
    /// Columns of a panel of `b`: those of the register block, or at least as many as there are, and there is one panel.
    pub width: usize,
    /// The result.
    pub c: LocalId,
    /// The extents m, n, k.
    pub extents: [usize; 3],
    /// The type of operands and of sums of up to `chunk` products.
    pub dtype: DType,
    /// The most products in a partial sum.
    pub chunk: usize,
    /// The type that partial sums are added up in.
    pub sum: DType,
    /// What becomes of the sums.
    pub sums: Sums,
    /// The register block: rows, and vectors of columns.
    pub block: [usize; 2],
}

/// Where a [`Dot`] finds element `i, p` of its left operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// At `i * row + p * column`, for these two.
    Strided([usize; 2]),
    /// Rows come in lines of so many: row `i` of line `j` is at `j * line + i * row + p * column`, for these three.
    Lines(usize, [usize; 3]),
    /// Where [`Pack`] puts element `p, i` in panels as wide as the register block has rows.
    Panels,
}

/// How the sums of a [`Dot`] get into its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sums {
    /// They start from the elements of `c`, one partial sum after the other.
    Continue,
    /// They start from zero and are added to `c` in the end.
    Add,
    /// They replace `c`.
    Replace,
}

/// A scalar expression. Half-precision values are held as f32 and rounded after every operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// A constant.
    Const(DType, ir::Scalar),
    /// An index expression as an integer.
    Index(DType, Expr),
    /// A [`Stmt::Let`].
    Var(Symbol),
    /// An element of a local.
    Local(LocalId, Expr),
    /// An element of a tensor.
    Tensor(TensorId, Expr),
    /// One operand, of the given type.
    Unary(UnaryOp, DType, Box<Scalar>),
    /// Two operands, the first of the given type.
    Binary(BinaryOp, DType, Box<[Scalar; 2]>),
    /// Two operands of the given type, boolean result.
    Compare(CompareOp, DType, Box<[Scalar; 2]>),
    /// Condition and two values.
    Select(Box<[Scalar; 3]>),
    /// Conversion.
    Cast {
        /// The operand's type.
        from: DType,
        /// The result's type.
        to: DType,
        /// The operand.
        value: Box<Scalar>,
    },
    /// Reinterpretation of bits.
    Bits {
        /// The operand's type.
        from: DType,
        /// The result's type.
        to: DType,
        /// The operand.
        value: Box<Scalar>,
    },
    /// An f32 rounded to 10 mantissa bits.
    Tf32(Box<Scalar>),
    /// `value` where the condition holds, which is not evaluated elsewhere, and `fill` there.
    Guarded(Condition, Box<[Scalar; 2]>),
}

impl Scalar {
    /// The expressions that it is made of.
    #[must_use]
    pub fn operands(&self) -> &[Scalar] {
        match self {
            Scalar::Const(..)
            | Scalar::Index(..)
            | Scalar::Var(_)
            | Scalar::Local(..)
            | Scalar::Tensor(..) => &[],
            Scalar::Unary(_, _, a)
            | Scalar::Cast { value: a, .. }
            | Scalar::Bits { value: a, .. }
            | Scalar::Tf32(a) => std::slice::from_ref(a),
            Scalar::Binary(_, _, operands)
            | Scalar::Compare(_, _, operands)
            | Scalar::Guarded(_, operands) => &**operands,
            Scalar::Select(operands) => &**operands,
        }
    }
}
