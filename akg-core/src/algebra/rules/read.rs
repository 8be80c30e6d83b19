//! What terms mean, whichever of ATen's operators say it.

use egg::Id;

use crate::algebra::site::{Site, arg};
use crate::algebra::term::Term;
use crate::expr::Expr;
use crate::graph::TensorType;

/// Sums and means over axes.
pub(super) const SUMS: &[&str] = &["sum.dim_IntList", "sum.default", "mean.dim", "mean.default"];

/// Matrix products of two operands.
pub(super) const PRODUCTS: &[&str] = &["matmul.default", "mm.default", "bmm.default"];

/// Convolutions whose padding is given in numbers.
pub(super) const CONVOLUTIONS: &[&str] = &[
    "conv1d.default",
    "conv2d.default",
    "conv3d.default",
    "conv_transpose1d.default",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution.default",
];

/// Linear layers and convolutions.
pub(super) const LAYERS: &[&str] = &[
    "linear.default",
    "conv1d.default",
    "conv2d.default",
    "conv3d.default",
    "conv_transpose1d.default",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "convolution.default",
];

/// Operators that [`scaled`] may read.
pub(super) const SCALES: &[&str] = &[
    "mul.Scalar",
    "mul.Tensor",
    "div.Scalar",
    "div.Tensor",
    "neg.default",
];

/// Operators that [`shifted`] may read.
pub(super) const SHIFTS: &[&str] = &["add.Scalar", "add.Tensor", "sub.Scalar", "sub.Tensor"];

/// Permutations of axes.
pub(super) const PERMUTATIONS: &[&str] =
    &["permute.default", "transpose.int", "t.default", "numpy_T.default"];

/// An axis counted from the first.
pub(super) fn axis(dim: i64, rank: usize) -> Option<usize> {
    let at = if dim < 0 { dim + rank.max(1) as i64 } else { dim };
    usize::try_from(at).ok().filter(|at| *at < rank.max(1))
}

/// The number of elements along axes, if it is known.
pub(super) fn count(shape: &[Expr], axes: &[usize]) -> Option<f64> {
    let mut extents = axes.iter().map(|a| shape.get(*a)?.as_const());
    extents.try_fold(1.0, |n, extent| Some(n * extent? as f64))
}

/// A reduction over axes.
pub(super) struct Reduction {
    pub(super) x: Id,
    pub(super) axes: Vec<usize>,
    pub(super) keep: bool,
    pub(super) is_mean: bool,
}

/// Reads a sum, a mean or an extremum of floating elements that keeps their type.
pub(super) fn reduction(site: &Site<'_>, term: &Term) -> Option<Reduction> {
    let x = term.operand("self")?;
    let ty = site.ty(x)?;
    if !ty.dtype.is_float() || term.types.first()?.dtype != ty.dtype {
        return None;
    }
    let rank = ty.rank();
    let dims = term.ints("dim").unwrap_or_default();
    let mut axes: Vec<usize> = dims.into_iter().map(|d| axis(d, rank)).collect::<Option<_>>()?;
    if axes.is_empty() {
        axes = (0..rank).collect();
    }
    axes.sort_unstable();
    Some(Reduction {
        x,
        axes,
        keep: term.flag("keepdim"),
        is_mean: term.name().starts_with("mean"),
    })
}

impl Reduction {
    /// The same kind of reduction of another value over one axis, which stays with extent 1.
    pub(super) fn along(&self, site: &mut Site<'_>, x: Id, axis: usize) -> Option<Id> {
        if !self.is_mean {
            return site.sum(x, &[axis]);
        }
        let args = [
            ("self", arg(x)),
            ("dim", [axis as i64].into()),
            ("keepdim", true.into()),
        ];
        site.call("mean.dim", args)
    }

    /// The shape of a value that has extent 1 along all axes, after the reduction.
    pub(super) fn rest(&self, shape: &[Expr]) -> Vec<Expr> {
        let all = shape.iter().enumerate();
        let kept = all.filter(|(at, _)| self.keep || !self.axes.contains(at));
        kept.map(|(_, d)| d.clone()).collect()
    }
}

/// Reads `x * c` of the shape and type of `x`, with the number `c`.
pub(super) fn scaled(site: &Site<'_>, term: &Term) -> Option<(Id, f64)> {
    let own = term.operand("self")?;
    let (x, by) = match term.name() {
        "mul.Scalar" => (own, term.number("other")?),
        "div.Scalar" => (own, 1.0 / term.number("other")?),
        "neg.default" => (own, -1.0),
        "mul.Tensor" | "div.Tensor" => {
            let other = term.operand("other")?;
            match (site.facts(own).uniform, site.facts(other).uniform) {
                (_, Some(by)) if term.name() == "mul.Tensor" => (own, by),
                (_, Some(by)) => (own, 1.0 / by),
                (Some(by), None) if term.name() == "mul.Tensor" => (other, by),
                _ => return None,
            }
        }
        _ => return None,
    };
    (by.is_finite() && site.is_float(x) && site.facts(x).ty() == term.ty()).then_some((x, by))
}

/// Reads `x + c` of the shape and type of `x`, with the number `c`.
pub(super) fn shifted(site: &Site<'_>, term: &Term) -> Option<(Id, f64)> {
    let own = term.operand("self")?;
    let sign = if term.name().starts_with("sub") { -1.0 } else { 1.0 };
    let alpha = sign * term.number("alpha")?;
    let (x, by) = match term.name() {
        "add.Scalar" | "sub.Scalar" => (own, alpha * term.number("other")?),
        "add.Tensor" | "sub.Tensor" => {
            let other = term.operand("other")?;
            match (site.facts(own).uniform, site.facts(other).uniform) {
                (_, Some(by)) => (own, alpha * by),
                (Some(by), None) if alpha == 1.0 => (other, by),
                _ => return None,
            }
        }
        _ => return None,
    };
    (by.is_finite() && site.is_float(x) && site.facts(x).ty() == term.ty()).then_some((x, by))
}

/// The order of axes that a permutation makes.
pub(super) fn order(site: &Site<'_>, term: &Term) -> Option<Vec<usize>> {
    let rank = site.rank(term.operand("self")?)?;
    let mut order: Vec<usize> = (0..rank).collect();
    match term.name() {
        "permute.default" => {
            let dims = term.ints("dims")?;
            order = dims.into_iter().map(|d| axis(d, rank)).collect::<Option<_>>()?;
        }
        "transpose.int" if rank > 0 => {
            order.swap(axis(term.int("dim0")?, rank)?, axis(term.int("dim1")?, rank)?);
        }
        _ => order.reverse(),
    }
    Some(order)
}

/// The operand beside one that is the same number throughout, and the number.
pub(super) fn beside_number(site: &Site<'_>, term: &Term) -> Option<(Id, f64)> {
    let (a, b) = (term.operand("self")?, term.operand("other")?);
    match (site.facts(a).uniform, site.facts(b).uniform) {
        (_, Some(number)) => Some((a, number)),
        (Some(number), None) => Some((b, number)),
        _ => None,
    }
}

/// Whether a class is made by sums of products, whose rounding is already part of it.
pub(super) fn is_product(site: &Site<'_>, x: Id) -> bool {
    !site.makers(x, LAYERS).is_empty() || !site.makers(x, PRODUCTS).is_empty()
}

/// The two operands of a product.
pub(super) fn factors(term: &Term) -> Option<(Id, Id, &'static str)> {
    let right = if term.name() == "matmul.default" {
        "other"
    } else {
        "mat2"
    };
    Some((term.operand("self")?, term.operand(right)?, right))
}

/// A linear layer or a convolution.
pub(super) struct Layer {
    pub(super) weight: Id,
    pub(super) bias: Option<Id>,
    /// The axis of the result that is the channels.
    axis: usize,
    /// The axis of the weight that is the result's channels, if there is one.
    weight_axis: Option<usize>,
    /// The number of channels of the result.
    pub(super) channels: Expr,
    rank: usize,
    weight_rank: usize,
}

/// Reads a linear layer or a convolution of wide elements.
pub(super) fn layer(site: &Site<'_>, term: &Term) -> Option<Layer> {
    let weight = term.operand("weight")?;
    let bias = term.operand("bias");
    let shape = &term.ty()?.shape;
    let (rank, weight_rank) = (shape.len(), site.rank(weight)?);
    if !site.is_wide(weight) || weight_rank < 2 {
        return None;
    }
    let (axis, weight_axis) = match term.name() {
        "linear.default" => (rank.checked_sub(1)?, Some(0)),
        _ if term.is_transposed() => {
            let dense = term.int("groups") == Some(1);
            (rank.checked_sub(weight_rank - 1)?, dense.then_some(1))
        }
        _ => (rank.checked_sub(weight_rank - 1)?, Some(0)),
    };
    let channels = shape.get(axis)?.clone();
    let fits = |b: Id| site.shape(b).is_some_and(|s| s == [channels.clone()]);
    if !bias.is_none_or(fits) {
        return None;
    }
    Some(Layer {
        weight,
        bias,
        axis,
        weight_axis,
        channels,
        rank,
        weight_rank,
    })
}

impl Layer {
    /// A value that differs only between channels of the result, as a vector over them.
    pub(super) fn vector(&self, site: &mut Site<'_>, value: Id) -> Option<Id> {
        let ty: TensorType = site.ty(value)?;
        let missing = self.rank.checked_sub(ty.rank())?;
        let apart = ty.shape.iter().enumerate().all(|(at, extent)| {
            let wanted = if at + missing == self.axis {
                self.channels.clone()
            } else {
                Expr::constant(1)
            };
            *extent == wanted
        });
        let has_axis = missing <= self.axis;
        if !apart || !has_axis {
            return None;
        }
        site.reshape(value, std::slice::from_ref(&self.channels))
    }

    /// A vector over the channels of the result, in a shape that broadcasts over the weight.
    pub(super) fn over_weight(&self, site: &mut Site<'_>, vector: Id) -> Option<Id> {
        let axis = self.weight_axis?;
        let shape: Vec<Expr> = (0..self.weight_rank)
            .map(|at| {
                if at == axis {
                    self.channels.clone()
                } else {
                    Expr::constant(1)
                }
            })
            .collect();
        site.reshape(vector, &shape)
    }
}
