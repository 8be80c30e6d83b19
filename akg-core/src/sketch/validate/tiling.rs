//! What of a dimension ranges tile: which coordinates they take exactly once.
//!
//! A coordinate `c0*i0 + c1*i1 + … + lane` with `ci = c(i-1) * count(i-1)` and the smallest factor 1 is a number in a
//! mixed radix system: indices and coordinates are in bijection. That decides the usual patterns for unknown extents.

use super::prove::nonnegative;
use super::walk::{Index, Site};
use crate::expr::{Atom, Expr};
use crate::sketch::ir::Axis;

/// A digit: how far one step of an index goes, and how many steps there are.
struct Digit {
    weight: Expr,
    count: Expr,
}

/// Coordinates that follow each other.
pub(super) struct Run {
    pub(super) start: Expr,
    pub(super) length: Expr,
}

impl Run {
    /// Whether these are all of `0..extent`, and maybe some beyond.
    pub(super) fn covers(&self, extent: &Expr) -> bool {
        self.start.is(0) && nonnegative(&(&self.length - extent), &Site::default())
    }
}

/// The coordinates that `axis` takes exactly once each as `indices` (outermost first) vary: of a range that descends, counted
/// from the end of a dimension of this extent. `None` if they are no run or that cannot be shown.
pub(super) fn run(axis: &Axis, extent: &Expr, indices: &[&Index]) -> Option<Run> {
    let (start, lanes) = match axis {
        Axis::At(at) => (at.clone(), None),
        Axis::Range { start, len, step } if *step > 0 => (start.clone(), Some((*len, *step))),
        // The same coordinates, counted from the end.
        Axis::Range { start, len, step } => (extent - start - 1, Some((*len, -step))),
        _ => return None,
    };
    let mut digits = Vec::new();
    if let Some((len, step)) = lanes {
        digits.push(Digit {
            weight: step.into(),
            count: len.into(),
        });
    }
    let mut base = start;
    for index in joined(indices).iter().rev() {
        let (weight, rest) = linear(&base, &index.symbol)?;
        let hi = if weight.is(1) {
            within(&index.hi, extent)
        } else {
            index.hi.clone()
        };
        let index = Index { hi, ..index.clone() };
        base = rest + &weight * &index.lo;
        digits.push(Digit {
            weight: weight * index.step,
            count: index.count(),
        });
    }
    let mut covered = Expr::constant(1);
    digits.retain(|d| !d.count.is(1));
    while let Some(at) = digits.iter().position(|d| d.weight == covered) {
        let digit = digits.swap_remove(at);
        covered = covered * digit.count;
    }
    digits.is_empty().then_some(Run {
        start: base,
        length: covered,
    })
}

/// The indices, with one in place of each two of which the inner goes on from the outer in steps of the outer's count:
/// `i in 0..N, j in i..E step N` takes every value below `E` once.
fn joined(indices: &[&Index]) -> Vec<Index> {
    // The only index whose bounds mention another, if it goes on from there.
    let continued = |outer: &Index| {
        let mut mentioning = indices
            .iter()
            .filter(|i| i.lo.mentions(&outer.symbol) || i.hi.mentions(&outer.symbol));
        let inner = mentioning.next().filter(|_| mentioning.next().is_none())?;
        let from_zero = outer.lo.is(0) && outer.step == 1 && outer.hi.is(inner.step);
        let strides = inner.lo.as_symbol() == Some(&outer.symbol) && !inner.hi.mentions(&outer.symbol);
        (from_zero && strides).then_some(&inner.symbol)
    };
    let whole = |index: &Index| {
        let goes_on = indices
            .iter()
            .any(|outer| continued(outer) == Some(&index.symbol));
        let (lo, step) = if goes_on {
            (0.into(), 1)
        } else {
            (index.lo.clone(), index.step)
        };
        Index {
            lo,
            step,
            ..index.clone()
        }
    };
    indices
        .iter()
        .filter(|index| continued(index).is_none())
        .map(|index| whole(index))
        .collect()
}

/// An end of `min(extent, e)` only cuts off coordinates outside the tensor: the same as `e`.
fn within(hi: &Expr, extent: &Expr) -> Expr {
    if let [term] = hi.terms()
        && let ([Atom::Min(a, b)], 1) = (term.factors.as_slice(), term.coefficient)
    {
        if a == extent {
            return b.clone();
        }
        if b == extent {
            return a.clone();
        }
    }
    hi.clone()
}

/// `expr = weight * symbol + rest` with neither part mentioning the symbol.
fn linear(expr: &Expr, symbol: &str) -> Option<(Expr, Expr)> {
    let rest = expr.substitute(&|name| (name == symbol).then(|| Expr::constant(0)));
    let weight = (expr - &rest).exact_div(&Expr::symbol(symbol))?;
    (!weight.mentions(symbol) && !rest.mentions(symbol)).then_some((weight, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(symbol: &str, hi: &str, step: i64) -> Index {
        Index {
            symbol: symbol.into(),
            lo: 0.into(),
            hi: Expr::parse(hi).unwrap(),
            step,
        }
    }

    fn check(start: &str, len: usize, step: i64, extent: &str, indices: &[Index]) -> bool {
        let axis = Axis::Range {
            start: Expr::parse(start).unwrap(),
            len,
            step,
        };
        let extent = Expr::parse(extent).unwrap();
        let indices: Vec<_> = indices.iter().collect();
        run(&axis, &extent, &indices).is_some_and(|run| run.covers(&extent))
    }

    #[test]
    fn strides_from_an_index_tile() {
        let from = |symbol: &str, lo: &str, hi: &str, step: i64| Index {
            lo: Expr::parse(lo).unwrap(),
            ..index(symbol, hi, step)
        };
        let teams = [index("g", "16", 1), from("r", "g", "N", 16)];
        assert!(check("r", 1, 1, "N", &teams));
        assert!(!check("r", 1, 1, "N + 1", &teams), "misses the end");
        assert!(!check("r + g", 1, 1, "N", &teams), "moves with the start");
        let wide = [index("g", "17", 1), from("r", "g", "N", 16)];
        assert!(!check("r", 1, 1, "N", &wide), "overlap");
        let few = [index("g", "15", 1), from("r", "g", "N", 16)];
        assert!(!check("r", 1, 1, "N", &few), "gaps");
        let late = [index("g", "16", 1), from("r", "g + 1", "N", 16)];
        assert!(!check("r", 1, 1, "N", &late), "misses 0");
        let twice = [
            index("g", "16", 1),
            from("r", "g", "N", 16),
            from("s", "g", "N", 16),
        ];
        assert!(!check("r", 1, 1, "N", &twice), "what else starts there");
    }

    #[test]
    fn mixed_radix_patterns_tile() {
        let blocks = [index("i", "ceildiv(N, 64)", 1)];
        assert!(check("i*64", 64, 1, "N", &blocks));
        assert!(!check("i*64", 32, 1, "N", &blocks), "gaps");
        assert!(!check("i*32", 64, 1, "N", &blocks), "overlap");
        assert!(!check("i*64 + 1", 64, 1, "N", &blocks), "misses 0");
        assert!(!check("i*64", 64, 1, "N + 1", &blocks), "misses the end");
        let nested = [index("c", "ceildiv(N, 1024)", 1), index("t", "4", 1)];
        assert!(check("c*1024 + t*256", 256, 1, "N", &nested));
        assert!(
            check("c*1024 + t", 256, 4, "N", &nested),
            "strided lanes between the indices"
        );
        assert!(check("k", 32, 1, "N", &[index("k", "N", 32)]));
    }

    #[test]
    fn descending_ranges_tile_from_the_end() {
        let rows = [index("k", "N", 32)];
        assert!(check("N - 1 - k", 32, -1, "N", &rows));
        assert!(!check("N - k", 32, -1, "N", &rows), "misses 0");
        assert!(!check("N - 1 - k", 16, -1, "N", &rows), "gaps");
        assert!(!check("k", 32, -1, "N", &rows), "another direction");
    }

    #[test]
    fn a_clipped_part_of_a_loop_tiles() {
        let mut k = index("k", "min(N, 96*s + 96)", 32);
        k.lo = Expr::parse("96*s").unwrap();
        assert!(check("k", 32, 1, "N", &[index("s", "ceildiv(N, 96)", 1), k]));
    }
}
