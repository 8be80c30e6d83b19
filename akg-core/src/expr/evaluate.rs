//! Values of expressions, and what is known of them without the values of all symbols.

use super::{Atom, Bindings, Expr, floor_div};
use crate::error::{Error, Result};

impl Expr {
    /// The value under `bindings`; an error names the symbol that has none, a division by zero or an overflow.
    pub fn eval(&self, bindings: &Bindings) -> Result<i64> {
        self.eval_with(&|name| bindings.get(name).copied())
    }

    /// The value when `f` gives the value of each symbol.
    pub fn eval_with(&self, f: &dyn Fn(&str) -> Option<i64>) -> Result<i64> {
        let overflow = || Error::invalid(format!("`{self}` overflows 64-bit integers"));
        let mut sum = 0i64;
        for term in self.terms.iter() {
            let mut product = term.coefficient;
            for atom in &term.factors {
                let value = match atom {
                    Atom::Sym(name) => {
                        f(name).ok_or_else(|| Error::invalid(format!("`{name}` has no value in `{self}`")))?
                    }
                    Atom::Min(a, b) => a.eval_with(f)?.min(b.eval_with(f)?),
                    Atom::Max(a, b) => a.eval_with(f)?.max(b.eval_with(f)?),
                    Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) | Atom::Mod(a, b) => {
                        let (a, b) = (a.eval_with(f)?, b.eval_with(f)?);
                        if b == 0 {
                            return Err(Error::invalid(format!("`{self}` divides by zero")));
                        }
                        let floor = floor_div(a, b);
                        let (a, b) = (i128::from(a), i128::from(b));
                        let value = match atom {
                            Atom::FloorDiv(..) => floor,
                            Atom::CeilDiv(..) => floor + i128::from(a != floor * b),
                            _ => a - floor * b,
                        };
                        i64::try_from(value).map_err(|_| overflow())?
                    }
                    Atom::Excess(excess) => return Err((*excess).into()),
                };
                product = product.checked_mul(value).ok_or_else(overflow)?;
            }
            sum = sum.checked_add(product).ok_or_else(overflow)?;
        }
        Ok(sum)
    }

    /// The inclusive range of values when each symbol lies in the inclusive range that `f` gives; `None` if a symbol
    /// has no range or a divisor may be zero or negative. Sound, not tight: terms are bounded independently.
    pub fn bounds(&self, f: &dyn Fn(&str) -> Option<(i64, i64)>) -> Option<(i64, i64)> {
        let mut sum = (0i128, 0i128);
        for term in self.terms.iter() {
            let c = i128::from(term.coefficient);
            let mut product = (c, c);
            for atom in &term.factors {
                let (lo, hi) = match atom {
                    Atom::Sym(name) => f(name)?,
                    Atom::Min(a, b) => {
                        let (a, b) = (a.bounds(f)?, b.bounds(f)?);
                        (a.0.min(b.0), a.1.min(b.1))
                    }
                    Atom::Max(a, b) => {
                        let (a, b) = (a.bounds(f)?, b.bounds(f)?);
                        (a.0.max(b.0), a.1.max(b.1))
                    }
                    Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) => {
                        let (a, b) = (a.bounds(f)?, b.bounds(f)?);
                        if b.0 <= 0 {
                            return None;
                        }
                        let up = i128::from(matches!(atom, Atom::CeilDiv(..)));
                        let div = |x: i64, y: i64| {
                            let (x, y) = (i128::from(x), i128::from(y));
                            i64::try_from((x + up * (y - 1)).div_euclid(y)).ok()
                        };
                        let corners = [div(a.0, b.0)?, div(a.0, b.1)?, div(a.1, b.0)?, div(a.1, b.1)?];
                        (*corners.iter().min()?, *corners.iter().max()?)
                    }
                    Atom::Mod(a, b) => {
                        let (a, b) = (a.bounds(f)?, b.bounds(f)?);
                        if b.0 <= 0 {
                            return None;
                        }
                        if a.0 >= 0 && a.1 < b.0 { a } else { (0, b.1 - 1) }
                    }
                    Atom::Excess(_) => return None,
                };
                let (lo, hi) = (i128::from(lo), i128::from(hi));
                let corner = |x: i128, y: i128| x.checked_mul(y);
                let corners = [
                    corner(product.0, lo)?,
                    corner(product.0, hi)?,
                    corner(product.1, lo)?,
                    corner(product.1, hi)?,
                ];
                product = (*corners.iter().min()?, *corners.iter().max()?);
            }
            sum = (sum.0.checked_add(product.0)?, sum.1.checked_add(product.1)?);
        }
        Some((i64::try_from(sum.0).ok()?, i64::try_from(sum.1).ok()?))
    }

    /// The largest power of two (up to 2^16) that divides every value of the expression, when each symbol is a
    /// multiple of what `f` gives (1 if unknown).
    pub fn divisibility(&self, f: &dyn Fn(&str) -> i64) -> i64 {
        const LIMIT: i64 = 1 << 16;
        let power = |n: i64| 1i64 << n.trailing_zeros().min(LIMIT.trailing_zeros());
        let mut all = LIMIT;
        for term in self.terms.iter() {
            let mut product = power(term.coefficient);
            for atom in &term.factors {
                let factor = match atom {
                    Atom::Sym(name) => power(f(name)),
                    Atom::Min(a, b) | Atom::Max(a, b) | Atom::Mod(a, b) => {
                        a.divisibility(f).min(b.divisibility(f))
                    }
                    Atom::FloorDiv(..) | Atom::CeilDiv(..) | Atom::Excess(_) => 1,
                };
                product = product.saturating_mul(factor).min(LIMIT);
            }
            all = all.min(product);
        }
        all
    }
}
