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
    if let Some((term, atom)) = deepest(expr) {
        return by_atom(expr, term, atom, indices, budget);
    }
    // Inner indices first: their bounds may mention outer ones.
    for (i, index) in indices.iter().enumerate().rev() {
        let terms: Vec<_> = expr
            .terms()
            .iter()
            .filter(|t| mentions(t, &index.symbol))
            .collect();
        if terms.is_empty() {
            continue;
        }
        // Only ranges that shrink toward the outside are replaced, so this ends.
        let outer = indices.get(..i).unwrap_or_default();
        let bound = if terms.iter().all(|t| t.coefficient > 0) {
            index.lo.clone()
        } else if terms.iter().all(|t| t.coefficient < 0) {
            index.last()
        } else {
            return false;
        };
        let linear = terms
            .iter()
            .all(|t| t.factors.iter().filter(|f| is(f, &index.symbol)).count() == 1);
        let replaced = expr.substitute(&|name| (*name == *index.symbol).then(|| bound.clone()));
        return linear && prove(&replaced, outer, budget);
    }
    expr.terms().iter().all(|t| t.coefficient > 0)
}

fn is(atom: &Atom, symbol: &str) -> bool {
    matches!(atom, Atom::Sym(name) if **name == *symbol)
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
        Atom::Sym(_) => 0,
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
        Atom::Sym(_) => false,
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
            match b.as_const() {
                Some(b) if b > 0 && c % b == 0 => holds(match (floor, up) {
                    (true, true) => (a.clone() - (b - 1)) * (c / b),
                    (false, false) => (a.clone() + (b - 1)) * (c / b),
                    _ => a.clone() * (c / b),
                }),
                Some(b) if b > 0 && !up => {
                    let above = if floor { a.clone() } else { a.clone() + (b - 1) };
                    holds(above * c.div_euclid(b)) && prove(a, indices, budget)
                }
                _ => up && holds(0.into()) && prove(a, indices, budget),
            }
        }
        Atom::Mod(_, b) => {
            if up {
                holds(0.into())
            } else {
                holds((b.clone() - 1) * c)
            }
        }
    }
}
