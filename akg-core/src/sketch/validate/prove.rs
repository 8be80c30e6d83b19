//! Proofs that an index expression is never negative.
//!
//! Sound and incomplete: indices are replaced by the bound that makes the expression smallest, quotients by linear
//! bounds, minima and maxima by their arguments; what remains must have no negative term, extents being non-negative.

use super::walk::{Index, Site};
use crate::expr::{Atom, Expr, Term};
use crate::sketch::ir::{CompareOp, Condition};

/// Replacements that one proof may try.
const BUDGET: usize = 400;

/// Whether `expr >= 0` wherever `site` is reached.
pub(super) fn nonnegative(expr: &Expr, site: &Site) -> bool {
    let mut known = Vec::new();
    for (condition, holds) in &site.conditions {
        assume(condition, *holds, &mut known);
    }
    let mut budget = BUDGET;
    let plain = prove(expr, &site.indices, &mut budget);
    plain
        || known
            .iter()
            .any(|k| prove(&(expr - k), &site.indices, &mut budget))
}

/// Collects expressions that are not negative because `condition` holds or not.
fn assume(condition: &Condition, holds: bool, known: &mut Vec<Expr>) {
    match (condition, holds) {
        (Condition::Compare(op, a, b), _) => {
            let less = |x: &Expr, y: &Expr| y - x - 1;
            match (op, holds) {
                (CompareOp::Lt, true) | (CompareOp::Ge, false) => known.push(less(a, b)),
                (CompareOp::Gt, true) | (CompareOp::Le, false) => known.push(less(b, a)),
                (CompareOp::Le, true) | (CompareOp::Gt, false) => known.push(b - a),
                (CompareOp::Ge, true) | (CompareOp::Lt, false) => known.push(a - b),
                (CompareOp::Eq, true) | (CompareOp::Ne, false) => known.extend([a - b, b - a]),
                (CompareOp::Eq, false) | (CompareOp::Ne, true) => {}
            }
        }
        (Condition::And(a, b), true) | (Condition::Or(a, b), false) => {
            assume(a, holds, known);
            assume(b, holds, known);
        }
        (Condition::Not(a), _) => assume(a, !holds, known),
        (Condition::And(..), false) | (Condition::Or(..), true) => {}
    }
}

fn prove(expr: &Expr, indices: &[Index], budget: &mut usize) -> bool {
    if let Some(value) = expr.as_const() {
        return value >= 0;
    }
    if *budget == 0 {
        return false;
    }
    *budget -= 1;
    // Extents of loops and of tensors often cancel, so indices go before quotients.
    if by_index(expr, indices, budget) {
        return true;
    }
    match deepest(expr) {
        Some((term, atom)) => by_atom(expr, term, atom, indices, budget),
        None => {
            let index = |s: &Atom| indices.iter().any(|i| is(s, &i.symbol));
            expr.terms()
                .iter()
                .all(|t| t.coefficient > 0 && !t.factors.iter().any(index))
        }
    }
}

/// Replaces the innermost index by one of its bounds. Inner ones first, because their bounds may mention outer ones.
fn by_index(expr: &Expr, indices: &[Index], budget: &mut usize) -> bool {
    let used = |index: &Index| expr.terms().iter().any(|t| mentions(t, &index.symbol));
    let Some(at) = indices.iter().rposition(used) else {
        return false;
    };
    let (Some(index), outer) = (indices.get(at), indices.get(..at).unwrap_or_default()) else {
        return false;
    };
    // Inside a quotient or minimum a bound of the index need not be a bound of the expression.
    let hidden = |i: &Index| {
        expr.terms()
            .iter()
            .flat_map(|t| &t.factors)
            .any(|f| contains(f, &i.symbol))
    };
    if indices.iter().skip(at).any(hidden) {
        return false;
    }
    let terms: Vec<_> = expr
        .terms()
        .iter()
        .filter(|t| mentions(t, &index.symbol))
        .collect();
    let bound = if terms.iter().all(|t| t.coefficient > 0) {
        index.lo.clone()
    } else if terms.iter().all(|t| t.coefficient < 0) {
        index.last()
    } else {
        return false;
    };
    // The sign of a term is that of its coefficient only if its other factors are extents.
    let extent = |f: &Atom| matches!(f, Atom::Sym(s) if !indices.iter().any(|i| i.symbol == *s));
    let linear = terms
        .iter()
        .all(|t| t.factors.iter().filter(|f| !extent(f)).count() == 1);
    let replaced = expr.substitute(&|name| (*name == *index.symbol).then(|| bound.clone()));
    linear && prove(&replaced, outer, budget)
}

fn is(atom: &Atom, symbol: &str) -> bool {
    matches!(atom, Atom::Sym(name) if **name == *symbol)
}

/// Whether `symbol` occurs inside `atom`, which is not just the symbol.
fn contains(atom: &Atom, symbol: &str) -> bool {
    match atom {
        Atom::Sym(_) | Atom::Excess(_) => false,
        Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
            a.mentions(symbol) || b.mentions(symbol)
        }
    }
}

fn mentions(term: &Term, symbol: &str) -> bool {
    term.factors.iter().any(|f| is(f, symbol))
}

/// A term with a factor that is no symbol, the most deeply nested one: what it is made of may cancel others.
fn deepest(expr: &Expr) -> Option<(&Term, &Atom)> {
    let candidates = expr.terms().iter().filter_map(|term| {
        let atoms = term.factors.iter().filter(|f| !matches!(f, Atom::Sym(_)));
        atoms.max_by_key(|a| depth(a)).map(|a| (term, a))
    });
    candidates.max_by_key(|(_, atom)| depth(atom))
}

fn depth(atom: &Atom) -> usize {
    match atom {
        Atom::Sym(_) | Atom::Excess(_) => 0,
        Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
            let inner = |e: &Expr| {
                e.terms()
                    .iter()
                    .flat_map(|t| &t.factors)
                    .map(depth)
                    .max()
                    .unwrap_or(0)
            };
            1 + inner(a).max(inner(b))
        }
    }
}

/// Replaces `atom` in `term` by a bound.
fn by_atom(expr: &Expr, term: &Term, atom: &Atom, indices: &[Index], budget: &mut usize) -> bool {
    let mut others = term.factors.clone();
    if let Some(at) = others.iter().position(|f| f == atom) {
        others.remove(at);
    }
    // The sign of the term is that of its coefficient if everything else in it is an extent.
    let extents_only = |f: &Atom| matches!(f, Atom::Sym(s) if !indices.iter().any(|i| i.symbol == *s));
    if !others.iter().all(extents_only) {
        return false;
    }
    let whole = Expr::from(vec![term.clone()]);
    let others = Expr::from(vec![Term {
        factors: others,
        coefficient: 1,
    }]);
    let (c, rest) = (term.coefficient, expr - &whole);
    let mut holds = |replacement: Expr| prove(&(&rest + &(&others * &replacement)), indices, budget);
    let up = c > 0;
    match atom {
        Atom::Sym(_) | Atom::Excess(_) => false,
        Atom::Min(a, b) | Atom::Max(a, b) => {
            let (x, y) = (a.clone() * c, b.clone() * c);
            // One of the arguments is a bound by itself only on the side where the atom lies beyond both.
            if matches!(atom, Atom::Max(..)) == up {
                holds(x) || holds(y)
            } else {
                holds(x) && holds(y)
            }
        }
        Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) => {
            let floor = matches!(atom, Atom::FloorDiv(..));
            let is_positive =
                |budget: &mut usize| up && prove(&rest, indices, budget) && prove(a, indices, budget);
            let Some(b) = b.as_const().filter(|b| *b > 0) else {
                return is_positive(budget);
            };
            // Times the divisor a quotient is the dividend, less a remainder. What is a whole number is not negative if it is
            // more than -1.
            let dividend = match (floor, up) {
                (true, true) => a.clone() - (b - 1),
                (false, false) => a.clone() + (b - 1),
                _ => a.clone(),
            };
            let scaled = &(&rest * &b.into()) + &(&others * &(dividend * c));
            prove(&(scaled + (b - 1)), indices, budget) || is_positive(budget)
        }
        Atom::Mod(_, b) if b.as_const().is_some_and(|b| b <= 0) => false,
        Atom::Mod(..) if up => holds(0.into()),
        Atom::Mod(_, b) => holds((b.clone() - 1) * c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::expr::Bindings;

    fn e(text: &str) -> Expr {
        Expr::parse(text).unwrap()
    }

    fn index(symbol: &str, lo: &str, hi: &str, step: i64) -> Index {
        Index {
            symbol: symbol.into(),
            lo: e(lo),
            hi: e(hi),
            step,
        }
    }

    fn site() -> Site {
        Site {
            indices: vec![
                index("m", "0", "ceildiv(M, 16)", 1),
                index("k", "m*16", "min(K, m*16 + 16)", 4),
            ],
            conditions: vec![(
                Condition::Compare(CompareOp::Gt, e("k + 4"), e("min(K, m*16 + 16)")),
                false,
            )],
        }
    }

    #[test]
    fn offsets_of_tiles() {
        let site = site();
        for holds in [
            "m",
            "M - 1 - m*16",
            "k - m*16",
            "16 - (k - m*16)",
            "K - k - 1",
            "K - k - 4",
            "1 - k % 2",
            "2 - (5 - m % 2) // 2",
            "1 - (15 - m % 8) // 8",
            "(m % 3 + 4) // 3 - 1",
        ] {
            assert!(nonnegative(&e(holds), &site), "{holds}");
        }
        for fails in [
            "m - 1",
            "M - 16 - m*16",
            "K - k - 5",
            "M - K",
            "1 - (16 - m % 8) // 8",
        ] {
            assert!(!nonnegative(&e(fails), &site), "{fails}");
        }
    }

    fn arbitrary() -> impl Strategy<Value = Expr> {
        let leaf = prop_oneof![
            (-9i64..10).prop_map(Expr::constant),
            prop::sample::select(vec!["M", "K", "m", "k"]).prop_map(Expr::symbol),
        ];
        leaf.prop_recursive(3, 16, 2, |inner| {
            (0..8usize, inner.clone(), inner).prop_map(|(op, a, b)| match op {
                0 => a + b,
                1 => a - b,
                2 => a * Expr::constant(4),
                3 => a.floor_div(&Expr::constant(3)),
                4 => a.modulo(&Expr::constant(5)),
                5 => a.minimum(&b),
                6 => a.maximum(&b),
                _ => a.ceil_div(&Expr::constant(4)) * Expr::constant(4),
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn what_is_proved_is_true(expr in arbitrary(), big_m in 0i64..70, big_k in 0i64..70) {
            let mut site = site();
            site.conditions.clear();
            if nonnegative(&expr, &site) {
                let mut at = Bindings::from([("M".into(), big_m), ("K".into(), big_k)]);
                for m in 0..(big_m + 15) / 16 {
                    for k in (m * 16..big_k.min(m * 16 + 16)).step_by(4) {
                        at.insert("m".into(), m);
                        at.insert("k".into(), k);
                        prop_assert!(expr.eval(&at).unwrap() >= 0, "{} with {:?}", expr, at);
                    }
                }
            }
        }
    }
}
