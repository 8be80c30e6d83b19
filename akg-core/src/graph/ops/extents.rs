//! Arithmetic on extents and dimension numbers that the families share.

use crate::error::{Error, Result};
use crate::expr::{Atom, Expr};

/// The dimension that `dim` (negative: from the end) means. A 0-dimensional tensor counts as having one.
pub(super) fn axis(dim: i64, rank: usize) -> Result<usize> {
    let count = rank.max(1) as i64;
    let at = if dim < 0 { dim + count } else { dim };
    if (0..count).contains(&at) {
        return Ok(at as usize);
    }
    Err(Error::invalid(format!(
        "dimension {dim} is out of range for a tensor of {rank} dimensions; it must be in {}..{count}",
        -count
    )))
}

/// The distinct dimensions that `dims` mean.
pub(super) fn axes(dims: &[i64], rank: usize) -> Result<Vec<usize>> {
    let mut out = Vec::with_capacity(dims.len());
    for dim in dims {
        let at = axis(*dim, rank)?;
        if out.contains(&at) {
            return Err(Error::invalid(format!("dimension {dim} is given twice")));
        }
        out.push(at);
    }
    Ok(out)
}

/// The extent of dimension `at`; 1 for the pretended dimension of a 0-dimensional tensor.
pub(super) fn extent(shape: &[Expr], at: usize) -> Expr {
    shape.get(at).cloned().unwrap_or_else(|| Expr::constant(1))
}

/// `shape` with dimension `at` replaced.
pub(super) fn with_extent(shape: &[Expr], at: usize, extent: Expr) -> Vec<Expr> {
    let mut shape = shape.to_vec();
    if let Some(slot) = shape.get_mut(at) {
        *slot = extent;
    }
    shape
}

/// `[2, N]`.
pub(super) fn list(shape: &[Expr]) -> String {
    let dims: Vec<_> = shape.iter().map(ToString::to_string).collect();
    format!("[{}]", dims.join(", "))
}

/// The number of elements.
pub(crate) fn element_count(shape: &[Expr]) -> Expr {
    shape.iter().fold(Expr::constant(1), |n, d| n * d)
}

/// The shape that all of `shapes` broadcast to; an error where extents cannot be shown to fit.
pub(super) fn broadcast<'a>(shapes: impl IntoIterator<Item = &'a [Expr]>) -> Result<Vec<Expr>> {
    let mut out: Vec<Expr> = Vec::new();
    for shape in shapes {
        let clash = |a: &Expr, b: &Expr, out: &[Expr]| {
            let hint = if a.as_const().is_some() && b.as_const().is_some() {
                "the extents must be equal or one of them 1"
            } else {
                "the extents cannot be shown to be equal; use the same symbol or bind it"
            };
            Error::invalid(format!(
                "{} and {} do not broadcast: {a} against {b}; {hint}",
                list(out),
                list(shape)
            ))
        };
        while out.len() < shape.len() {
            out.insert(0, Expr::constant(1));
        }
        let offset = out.len() - shape.len();
        for (at, dim) in shape.iter().enumerate() {
            let have = extent(&out, offset + at);
            if have.is(1) {
                out = with_extent(&out, offset + at, dim.clone());
            } else if have != *dim && !dim.is(1) {
                return Err(clash(&have, dim, &out));
            }
        }
    }
    Ok(out)
}

/// An error unless the extents are provably the same.
pub(super) fn require_equal(what_a: &str, a: &Expr, what_b: &str, b: &Expr) -> Result<()> {
    if a == b {
        return Ok(());
    }
    let verb = if (a - b).as_const().is_some() {
        "is not"
    } else {
        "cannot be shown to be"
    };
    Err(Error::invalid(format!(
        "{what_a} is {a}, which {verb} {what_b}, {b}"
    )))
}

/// An error unless the shapes are provably the same.
pub(super) fn require_shape(what: &str, shape: &[Expr], wanted: &[Expr]) -> Result<()> {
    if shape == wanted {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{what} has shape {}, expected {}",
        list(shape),
        list(wanted)
    )))
}

/// An error unless the rank is one of `wanted`.
pub(super) fn require_rank(what: &str, shape: &[Expr], wanted: &[usize]) -> Result<()> {
    if wanted.contains(&shape.len()) {
        return Ok(());
    }
    let wanted: Vec<_> = wanted.iter().map(ToString::to_string).collect();
    Err(Error::invalid(format!(
        "{what} has shape {}, expected {} dimensions",
        list(shape),
        wanted.join(" or ")
    )))
}

/// An error if an extent is a negative number.
pub(super) fn require_non_negative(what: &str, shape: &[Expr]) -> Result<()> {
    match shape.iter().find(|d| d.as_const().is_some_and(|v| v < 0)) {
        None => Ok(()),
        Some(d) => Err(Error::invalid(format!(
            "{what} {} has the negative extent {d}",
            list(shape)
        ))),
    }
}

/// `expr`, or 0 where that is larger.
pub(super) fn at_least_zero(expr: &Expr) -> Expr {
    if is_non_negative(expr) {
        return expr.clone();
    }
    expr.maximum(&Expr::constant(0))
}

/// Whether `expr` can be shown to be at least 0, given that symbols stand for extents.
fn is_non_negative(expr: &Expr) -> bool {
    let atom = |atom: &Atom| match atom {
        Atom::Sym(_) => true,
        Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) => is_non_negative(a) && is_non_negative(b),
        Atom::Mod(_, b) => is_non_negative(b),
        Atom::Min(a, b) => is_non_negative(a) && is_non_negative(b),
        Atom::Max(a, b) => is_non_negative(a) || is_non_negative(b),
        Atom::Excess(_) => false,
    };
    let mut terms = expr.terms().iter();
    terms.all(|t| t.coefficient > 0 && t.factors.iter().all(atom))
}
