//! The syntax tree of a sketch: what the parser makes and the printer prints.
//!
//! Nothing is resolved here. Names are strings, index arithmetic and tile arithmetic share one expression type, and
//! every node carries the bytes it came from. [`elaborate`](super::Sketch::elaborate) turns the tree into the typed
//! [`Program`](super::ir::Program).

use std::ops::Range;

use crate::dtype::DType;
use crate::task::Accuracy;

/// A value with the byte range of the text that it came from. Equality ignores the range.
#[derive(Debug, Clone)]
pub struct Spanned<T> {
    /// The value.
    pub node: T,
    /// Byte range in the sketch's text; empty for trees that were not parsed.
    pub span: Range<usize>,
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.node == other.node
    }
}

impl<T> Spanned<T> {
    /// Attaches a byte range.
    pub fn new(node: T, span: Range<usize>) -> Self {
        Self { node, span }
    }
}

/// A name with its place.
pub type Name = Spanned<String>;

/// An expression with its place.
pub type Ex = Spanned<Box<Expression>>;

/// A whole sketch.
#[derive(Debug, Clone, PartialEq)]
pub struct SketchTree {
    /// The sketch's name.
    pub name: Name,
    /// The tensors it reads. Extents of inputs and outputs that are bare names bind symbols.
    pub inputs: Vec<TensorSyntax>,
    /// The tensors it writes: completely, but for those that update an input.
    pub outputs: Vec<TensorSyntax>,
    /// Parameters, definitions, knobs, hints, requirements, buffers and the accuracy in the order written.
    pub items: Vec<Spanned<Item>>,
    /// The kernels in launch order.
    pub kernels: Vec<Spanned<KernelSyntax>>,
    /// Comment lines above the sketch, without `#` and one space.
    pub doc: Vec<String>,
}

/// `x: f32[M, K]`.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorSyntax {
    /// The tensor's name.
    pub name: Name,
    /// A type name, or the name of a type knob.
    pub dtype: Name,
    /// The extents.
    pub shape: Vec<Ex>,
    /// `new: f32[M] updates cache`: the input as whose contents an output begins.
    pub updates: Option<Name>,
}

/// A declaration before the kernels.
#[derive(Debug, Clone, PartialEq)]
pub enum Item {
    /// `param SLOPE: f32 = 0.01`, `param PH = 1`, `param SH`: a constant of the sketch. Without a type it is an
    /// integer; without a value it must be bound before use.
    Param {
        /// Its name.
        name: Name,
        /// Element type of a scalar parameter; `None` for integers.
        dtype: Option<DType>,
        /// Its value.
        value: Option<Ex>,
    },
    /// `let HO = (H + 2*PH - KH) // SH + 1`: an integer definition.
    Let {
        /// Its name.
        name: Name,
        /// Its value.
        value: Ex,
    },
    /// `knob BM in {16, 32}`, `knob CT in {f16, f32}`, `hint STAGES in {2, 3}`.
    Knob {
        /// Its name.
        name: Name,
        /// Legal values, the default first: integers, or type names for a type knob.
        values: Vec<Ex>,
        /// A hint cannot change what is computed.
        hint: bool,
    },
    /// `require BM*BN <= 16384`: knob values that break it are illegal.
    Require(Ex),
    /// `buffer xh: f16[M, K] align 16`: crosses kernels; written by one kernel, then read by later ones.
    Buffer {
        /// The tensor.
        tensor: TensorSyntax,
        /// Alignment of the first byte; at least the element size.
        align: Option<Ex>,
    },
    /// `accuracy tf32`: the class that results are for, which says how near functions must come.
    Accuracy(Spanned<Accuracy>),
    /// `# text`: a comment line between declarations.
    Comment(String),
}

/// A kernel.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelSyntax {
    /// The kernel's name.
    pub name: Name,
    /// `for (X, R) in {(x, M), (w, N)}`: one instance for each row, the names replaced.
    pub template: Option<Template>,
    /// `over (m in ceildiv(M, BM), n in N)`: independent programs.
    pub grid: Vec<(Name, Ex)>,
    /// `grouped m by GROUP`: programs are numbered so that GROUP neighbours along `m` run together.
    pub grouped: Option<(Name, Ex)>,
    /// `cooperative`: all programs run at the same time and may meet at barriers; `cooperative along r, s`: those meet that
    /// differ in these indices alone. The indices are empty in the first form.
    pub cooperative: Option<Vec<Name>>,
    /// `seeing x as [M*N], y as [M, N]`: tensors in other extents than they are declared with.
    pub views: Vec<(Name, Vec<Ex>)>,
    /// The statements.
    pub body: Vec<Spanned<Statement>>,
    /// Comment lines above the kernel, without `#` and one space.
    pub doc: Vec<String>,
}

/// The instances of a kernel template.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    /// The names to replace.
    pub names: Vec<Name>,
    /// What to replace them by, one row for each instance.
    pub rows: Vec<Vec<Ex>>,
}

/// A statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// `acc = acc + p`: binds a name, or rebinds it. A name that is bound outside a loop and rebound inside is carried.
    Assign {
        /// The name.
        name: Name,
        /// The value.
        value: Ex,
    },
    /// `store y[m*BM :+ BM, n] = t`, or `+=` for an atomic addition.
    Store {
        /// The tensor.
        tensor: Name,
        /// One entry for each dimension.
        region: Vec<RegionSyntax>,
        /// The tile.
        value: Ex,
        /// Whether the tile is added atomically, in no particular order.
        atomic_add: bool,
    },
    /// `for k in 0..K step BK, c in 0..C pipeline(STAGES) unroll { … } combine (m: m2, d: d2) { … }`.
    For {
        /// The indices, outermost first.
        indices: Vec<LoopIndex>,
        /// Software pipelining depth.
        pipeline: Option<Ex>,
        /// Whether the loop should be unrolled.
        unroll: bool,
        /// The statements.
        body: Vec<Spanned<Statement>>,
        /// How results of two parts of the loop combine, if the loop is a fold.
        combine: Option<CombineSyntax>,
    },
    /// `if m*BM > 3 { … } else { … }`: the same for the whole program.
    If {
        /// A condition on integers.
        condition: Ex,
        /// Statements if it holds.
        then: Vec<Spanned<Statement>>,
        /// Statements if not.
        otherwise: Vec<Spanned<Statement>>,
    },
    /// `barrier`: every program of a cooperative kernel waits for those that it meets; their stores before it are visible
    /// after it.
    Barrier,
    /// `# text`: a comment line, without `#` and one space.
    Comment(String),
}

/// `k in LO..HI step STEP`.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopIndex {
    /// The index.
    pub name: Name,
    /// First value.
    pub lo: Ex,
    /// The end, not reached.
    pub hi: Ex,
    /// The increment; 1 if absent.
    pub step: Option<Ex>,
}

/// `combine (mx: mx2, den: den2) { … }`: the body rebinds the first names, reading both.
#[derive(Debug, Clone, PartialEq)]
pub struct CombineSyntax {
    /// Carried names paired with the names of the other part's values.
    pub pairs: Vec<(Name, Name)>,
    /// The statements.
    pub body: Vec<Spanned<Statement>>,
}

/// One dimension of a region.
#[derive(Debug, Clone, PartialEq)]
pub enum RegionSyntax {
    /// `START :+ LEN by STEP`.
    Range {
        /// First coordinate; may be negative or beyond the tensor.
        start: Ex,
        /// Number of coordinates.
        len: Ex,
        /// Distance between coordinates; 1 if absent.
        step: Option<Ex>,
    },
    /// A coordinate (an integer or rank-0 tile: the dimension is dropped) or a rank-1 index tile (a gather).
    At(Ex),
}

/// An expression, over integers or tiles.
#[derive(Debug, Clone, PartialEq)]
pub enum Expression {
    /// An integer literal.
    Int(i64),
    /// A floating literal, `inf` and `nan` included.
    Float(f64),
    /// A name.
    Name(String),
    /// `-x`, `!x`.
    Unary(char, Ex),
    /// `+ - * / // % < <= > >= == != & | ^ << >>`.
    Binary(&'static str, Ex, Ex),
    /// `f(a, b)`: operators, casts (`f16(t)`), `ceildiv(a, b)`. `trans(t, [1, 0])`'s list is a [`Expression::List`].
    Call(Name, Vec<Ex>),
    /// `[a, b]`, an argument of `reshape` and `trans`.
    List(Vec<Ex>),
    /// `t[:, None]`: `true` keeps a dimension, `false` inserts one of extent 1.
    Expand(Ex, Vec<bool>),
    /// `load x[region] else 0`.
    Load {
        /// The tensor.
        tensor: Name,
        /// One entry for each dimension.
        region: Vec<RegionSyntax>,
        /// What stands outside the tensor; without it the region must stay inside.
        fill: Option<Ex>,
    },
    /// `zeros f32[BM, BN]`, `full f32[BM] -inf`.
    Full {
        /// A type name or type knob.
        dtype: Name,
        /// The extents.
        shape: Vec<Ex>,
        /// The value of every element; `None` for `zeros`.
        value: Option<Ex>,
    },
    /// `dot(a, b, init) ieee promote(64)`.
    Dot {
        /// Left operand, `[M, K]`.
        a: Ex,
        /// Right operand, `[K, N]`.
        b: Ex,
        /// The accumulator to add to, `[M, N]`.
        init: Option<Ex>,
        /// `ieee`, `tf32`, `f16` or `bf16`.
        method: Name,
        /// Length of the partial sums that are rounded into the accumulator.
        promote: Option<Ex>,
    },
}
