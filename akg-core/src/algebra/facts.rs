//! What is known about the values of a class: types, ranges, structure.

use std::sync::Arc;

use egg::{Analysis, DidMerge, EGraph, Id};

use super::term::{Form, Term};
use crate::dtype::DType;
use crate::graph::{Arg, Graph, TensorType};
use crate::reference::{Buffer, Options, evaluate};

/// The e-graph of a graph's values.
pub(super) type Classes = EGraph<Term, Leaves>;

/// What is known about the values that are given, by the number of the value.
#[derive(Debug, Clone, Default)]
pub(super) struct Leaves {
    pub(super) facts: Vec<Leaf>,
}

/// What is known about one given value.
#[derive(Debug, Clone)]
pub(super) struct Leaf {
    /// Whether it is the same at every call until the caller changes it.
    pub(super) weight: bool,
    pub(super) range: Range,
    pub(super) uniform: Option<f64>,
}

/// Bounds of all elements that are numbers; an element may be NaN besides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    pub(super) lo: f64,
    pub(super) hi: f64,
}

impl Range {
    pub(super) const ALL: Range = Range::new(f64::NEG_INFINITY, f64::INFINITY);

    pub(super) const fn new(lo: f64, hi: f64) -> Self {
        Self { lo, hi }
    }

    fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self::new(f(self.lo), f(self.hi))
    }

    fn union(self, other: Range) -> Self {
        Self::new(self.lo.min(other.lo), self.hi.max(other.hi))
    }

    /// Bounds that are NaN are none.
    fn sane(self) -> Self {
        Self::new(
            if self.lo.is_nan() {
                f64::NEG_INFINITY
            } else {
                self.lo
            },
            if self.hi.is_nan() { f64::INFINITY } else { self.hi },
        )
    }
}

/// Where the matrices of the last two dimensions are zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Structure {
    /// Zero above the main diagonal.
    pub(super) lower: bool,
    /// Zero below the main diagonal.
    pub(super) upper: bool,
}

impl Structure {
    fn and(self, other: Structure) -> Self {
        Self {
            lower: self.lower && other.lower,
            upper: self.upper && other.upper,
        }
    }

    fn or(self, other: Structure) -> Self {
        Self {
            lower: self.lower || other.lower,
            upper: self.upper || other.upper,
        }
    }
}

/// What is known about the values of a class.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Facts {
    /// The types of the results, one for all but calls with several.
    pub(super) types: Arc<[TensorType]>,
    pub(super) range: Range,
    /// The number that every element is.
    pub(super) uniform: Option<f64>,
    pub(super) structure: Structure,
    /// Whether it follows from weights and constants alone.
    pub(super) weight: bool,
}

impl Facts {
    /// The type of the only result.
    pub(super) fn ty(&self) -> Option<&TensorType> {
        match &*self.types {
            [ty] => Some(ty),
            _ => None,
        }
    }
}

impl Analysis<Term> for Leaves {
    type Data = Facts;

    fn make(classes: &mut Classes, term: &Term, _: Id) -> Facts {
        let operands: Vec<&Facts> = egg::Language::children(term)
            .iter()
            .map(|id| &classes[*id].data)
            .collect();
        if let Form::Given(value) = &term.form {
            let leaf = classes.analysis.facts.get(value.index());
            return Facts {
                types: term.types.clone(),
                range: leaf.map_or(Range::ALL, |l| l.range),
                uniform: leaf.and_then(|l| l.uniform),
                structure: Structure::default(),
                weight: leaf.is_some_and(|l| l.weight),
            };
        }
        let uniform = uniform(term, &operands);
        Facts {
            types: term.types.clone(),
            range: uniform.map_or_else(|| range(term, &operands).sane(), |v| Range::new(v, v).sane()),
            uniform,
            structure: structure(term, &operands),
            weight: operands.iter().all(|o| o.weight),
        }
    }

    fn merge(&mut self, to: &mut Facts, from: Facts) -> DidMerge {
        let merged = Facts {
            types: to.types.clone(),
            range: Range::new(to.range.lo.max(from.range.lo), to.range.hi.min(from.range.hi)),
            uniform: to.uniform.or(from.uniform),
            structure: to.structure.or(from.structure),
            weight: to.weight || from.weight,
        };
        let changed = DidMerge(*to != merged, from != merged);
        *to = merged;
        changed
    }
}

/// The number that every element of the result is.
fn uniform(term: &Term, operands: &[&Facts]) -> Option<f64> {
    let ty = term.ty()?;
    let number = match term.name() {
        "full.default" | "full_like.default" => term.number("fill_value"),
        "zeros.default" | "zeros_like.default" => Some(0.0),
        "ones.default" | "ones_like.default" => Some(1.0),
        "scalar_tensor.default" => term.number("s"),
        name if is_view(name) || is_expansion(name) || is_copy(name) => return operands.first()?.uniform,
        name if FOLDED.contains(&name) && ty.dtype.is_float() => return folded(term, operands),
        _ => None,
    }?;
    // Only what the element type can hold is known.
    let exact = match ty.dtype {
        DType::F64 => number,
        DType::F32 => f64::from(number as f32),
        _ if number.fract() == 0.0 && number.abs() <= 127.0 && number >= 0.0 => number,
        _ => return None,
    };
    (ty.dtype != DType::Bool && !exact.is_nan()).then_some(exact)
}

/// Bounds of the result that hold whatever the elements of the operands are.
fn range(term: &Term, operands: &[&Facts]) -> Range {
    let first = operands.first().map_or(Range::ALL, |o| o.range);
    let second = operands.get(1).map_or(Range::ALL, |o| o.range);
    let float = term.ty().is_some_and(|ty| ty.dtype.is_float());
    let clamp = |lo: f64, hi: f64| first.map(|v| v.max(lo).min(hi));
    let non_negative = Range::new(0.0, f64::INFINITY);
    let number = |name: &str, missing: f64| term.number(name).unwrap_or(missing);
    match term.name() {
        "relu.default" => clamp(0.0, f64::INFINITY),
        "relu6.default" => clamp(0.0, 6.0),
        "hardtanh.default" | "clamp.default" | "clamp_min.default" | "clamp_max.default" => {
            let (low, high) = if term.name() == "hardtanh.default" {
                ("min_val", "max_val")
            } else {
                ("min", "max")
            };
            clamp(number(low, f64::NEG_INFINITY), number(high, f64::INFINITY))
        }
        "sigmoid.default" | "hardsigmoid.default" | "softmax.int" | "_softmax.default" => {
            Range::new(0.0, 1.0)
        }
        "tanh.default" | "sin.default" | "cos.default" | "erf.default" | "sign.default" => {
            Range::new(-1.0, 1.0)
        }
        "softplus.default" if number("beta", 1.0) > 0.0 => non_negative,
        "exp.default"
        | "exp2.default"
        | "sqrt.default"
        | "rsqrt.default"
        | "cosh.default"
        | "linalg_vector_norm.default"
        | "norm.Scalar"
        | "norm.ScalarOpt_dim"
        | "var.correction"
        | "std.correction" => non_negative,
        // The magnitude of the smallest integer is not one.
        "abs.default" | "square.default" if float => non_negative,
        "pow.Tensor_Scalar" if float && number("exponent", 1.0) % 2.0 == 0.0 => non_negative,
        "mul.Tensor" if float && is_square(term) => non_negative,
        "mul.Tensor" if float && first.lo >= 0.0 && second.lo >= 0.0 => non_negative,
        "add.Tensor" if float && number("alpha", 1.0) == 1.0 => {
            Range::new(first.lo + second.lo, first.hi + second.hi)
        }
        "add.Scalar" if float => {
            let shift = number("other", f64::NAN) * number("alpha", 1.0);
            first.map(|v| v + shift)
        }
        "mul.Scalar" if float => scaled(first, number("other", f64::NAN)),
        "div.Scalar" if float => scaled(first, 1.0 / number("other", f64::NAN)),
        "neg.default" if float => Range::new(-first.hi, -first.lo),
        "maximum.default" | "max.other" => Range::new(first.lo.max(second.lo), first.hi.max(second.hi)),
        "minimum.default" | "min.other" => Range::new(first.lo.min(second.lo), first.hi.min(second.hi)),
        "sum.dim_IntList" | "sum.default" | "cumsum.default" if float && first.lo >= 0.0 => non_negative,
        "mean.dim" | "mean.default" if first.lo >= 0.0 => non_negative,
        "amax.default" | "amin.default" | "max_pool1d.default" | "max_pool2d.default"
        | "max_pool3d.default" => first,
        "cat.default" | "stack.default" => {
            let all = operands.iter().map(|o| o.range);
            all.reduce(Range::union).unwrap_or(Range::ALL)
        }
        "index_copy.default" => {
            let source = operands.get(2).map_or(Range::ALL, |o| o.range);
            first.union(source)
        }
        name if is_view(name) || is_expansion(name) || is_copy(name) || is_selection(name) => first,
        _ => Range::ALL,
    }
}

fn scaled(range: Range, by: f64) -> Range {
    if by > 0.0 {
        range.map(|v| v * by)
    } else if by < 0.0 {
        Range::new(range.hi * by, range.lo * by)
    } else {
        Range::ALL
    }
}

/// Whether both operands of a product are the same class.
fn is_square(term: &Term) -> bool {
    matches!(egg::Language::children(term), [a, b] if a == b)
}

/// Where the result is zero whatever the other elements are, as long as they are finite.
fn structure(term: &Term, operands: &[&Facts]) -> Structure {
    let of = |at: usize| operands.get(at).map_or(Structure::default(), |o| o.structure);
    let same_shape = |at: usize| {
        let shape = |facts: Option<&TensorType>| facts.map(|ty| ty.shape.clone());
        operands
            .get(at)
            .is_some_and(|o| shape(o.ty()) == shape(term.ty()))
    };
    match term.name() {
        "tril.default" => of(0).or(Structure {
            lower: term.int("diagonal").is_some_and(|d| d <= 0),
            upper: false,
        }),
        "triu.default" => of(0).or(Structure {
            lower: false,
            upper: term.int("diagonal").is_some_and(|d| d >= 0),
        }),
        "mul.Tensor" if same_shape(0) && same_shape(1) => of(0).or(of(1)),
        "mul.Tensor" if same_shape(0) => of(0),
        "mul.Tensor" if same_shape(1) => of(1),
        "add.Tensor" | "sub.Tensor" if same_shape(0) && same_shape(1) => of(0).and(of(1)),
        "matmul.default" | "mm.default" | "bmm.default" => of(0).and(of(1)),
        "transpose.int" | "t.default" | "permute.default" if swaps_last(term) => Structure {
            lower: of(0).upper,
            upper: of(0).lower,
        },
        "mul.Scalar" | "div.Scalar" if term.number("other").is_some_and(|v| v != 0.0 && v.is_finite()) => {
            of(0)
        }
        "neg.default" | "abs.default" | "relu.default" | "square.default" | "tanh.default" => of(0),
        name if is_copy(name) => of(0),
        _ => Structure::default(),
    }
}

/// Whether a permutation exchanges the last two axes and leaves the others.
fn swaps_last(term: &Term) -> bool {
    let Some(rank) = term.ty().map(TensorType::rank).filter(|r| *r >= 2) else {
        return false;
    };
    let at = |d: i64| if d < 0 { d + rank as i64 } else { d };
    let last = [rank as i64 - 2, rank as i64 - 1];
    match term.name() {
        "t.default" => true,
        "transpose.int" => {
            let dims = (term.int("dim0").map(at), term.int("dim1").map(at));
            dims == (Some(last[0]), Some(last[1])) || dims == (Some(last[1]), Some(last[0]))
        }
        _ => term.ints("dims").is_some_and(|dims| {
            let mut wanted: Vec<i64> = (0..rank as i64).collect();
            wanted.swap(rank - 2, rank - 1);
            dims.into_iter().map(at).collect::<Vec<_>>() == wanted
        }),
    }
}

/// Operators whose result has the operand's elements in their order.
pub(super) fn is_view(name: &str) -> bool {
    VIEWS.contains(&name)
}

/// See [`is_view`].
pub(super) const VIEWS: &[&str] = &[
    "view.default",
    "_unsafe_view.default",
    "reshape.default",
    "flatten.using_ints",
    "unflatten.int",
    "squeeze.default",
    "squeeze.dim",
    "squeeze.dims",
    "unsqueeze.default",
];

/// Operators that repeat an operand along axes where it has one element.
pub(super) const EXPANSIONS: &[&str] = &["expand.default", "broadcast_to.default", "expand_as.default"];

/// Operators whose result is their operand.
pub(super) const COPIES: &[&str] = &[
    "alias.default",
    "clone.default",
    "contiguous.default",
    "detach.default",
    "lift_fresh_copy.default",
];

pub(super) fn is_expansion(name: &str) -> bool {
    EXPANSIONS.contains(&name)
}

pub(super) fn is_copy(name: &str) -> bool {
    COPIES.contains(&name)
}

/// Operators whose result consists of elements of the operand.
pub(super) fn is_selection(name: &str) -> bool {
    matches!(
        name,
        "permute.default"
            | "transpose.int"
            | "t.default"
            | "numpy_T.default"
            | "slice.Tensor"
            | "narrow.default"
            | "select.int"
            | "flip.default"
            | "roll.default"
            | "repeat.default"
            | "unfold.default"
            | "index_select.default"
    )
}

/// Functions of single elements that are computed for operands that are numbers.
pub(super) const FOLDED: &[&str] = &[
    "abs.default",
    "add.Scalar",
    "add.Tensor",
    "clamp.default",
    "cos.default",
    "div.Scalar",
    "div.Tensor",
    "exp.default",
    "log.default",
    "maximum.default",
    "minimum.default",
    "mul.Scalar",
    "mul.Tensor",
    "neg.default",
    "pow.Tensor_Scalar",
    "reciprocal.default",
    "relu.default",
    "rsqrt.default",
    "sigmoid.default",
    "sin.default",
    "sqrt.default",
    "square.default",
    "sub.Scalar",
    "sub.Tensor",
    "tanh.default",
];

/// What a function of single elements gives for operands that are numbers, by the reference interpreter.
fn folded(term: &Term, operands: &[&Facts]) -> Option<f64> {
    let Form::Call { op, .. } = &term.form else {
        return None;
    };
    let mut graph = Graph::new("folded");
    let mut numbers = Vec::new();
    for facts in operands {
        // Numbers in between are not rounded to the element type, as in the interpreter.
        let wide = facts
            .ty()
            .is_some_and(|ty| matches!(ty.dtype, DType::F32 | DType::F64));
        let number = facts.uniform.filter(|_| wide)?;
        numbers.push(graph.full([1i64; 0], number, DType::F64).ok()?);
    }
    let args: Vec<Arg> = term
        .args()
        .iter()
        .map(|a| a.map_values(&|v| numbers.get(v.index()).copied().unwrap_or(v)))
        .collect();
    let result = graph.push(op, args, &[]).ok()?;
    graph.output(*result.first()?);
    let outcome = evaluate(&graph, &[], &Options::default()).ok()?;
    match &outcome.first()?.data {
        Buffer::F64(list) => list.first().copied().filter(|v| v.is_finite()),
        _ => None,
    }
}
