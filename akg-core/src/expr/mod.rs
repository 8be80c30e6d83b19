//! Integer expressions over named symbols: tensor extents, tile offsets, grid sizes.
//!
//! An [`Expr`] is kept in a canonical form, a sum of integer multiples of products of *atoms*, so that structural
//! equality is algebraic equality of polynomials: `2*(N + 1) - 2 == 2*N`. Division, remainder, minimum and maximum are
//! atoms of their own, simplified where that is provable. All symbols stand for integers; extents are non-negative.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

mod evaluate;
mod parse;
mod print;

/// A symbol's name.
pub type Symbol = Arc<str>;

/// Values of symbols.
pub type Bindings = BTreeMap<Symbol, i64>;

/// A factor of a term.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Atom {
    /// A free symbol.
    Sym(Symbol),
    /// `floor(a / b)`.
    FloorDiv(Expr, Expr),
    /// `ceil(a / b)`.
    CeilDiv(Expr, Expr),
    /// `a - b * floor(a / b)`: the sign of `b`.
    Mod(Expr, Expr),
    /// The smaller.
    Min(Expr, Expr),
    /// The larger.
    Max(Expr, Expr),
}

/// One term of the sum: `coefficient` times the product of `factors` (sorted; empty for the constant).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    /// The factors, in canonical order.
    pub factors: Vec<Atom>,
    /// The integer multiple; never 0.
    pub coefficient: i64,
}

/// An integer expression in canonical form. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expr(Arc<[Term]>);

impl Expr {
    /// The constant `value`.
    pub fn constant(value: i64) -> Self {
        if value == 0 {
            return Self(Arc::new([]));
        }
        Self(Arc::new([Term {
            factors: Vec::new(),
            coefficient: value,
        }]))
    }

    /// The free symbol `name`.
    pub fn symbol(name: impl Into<Symbol>) -> Self {
        Self::atom(Atom::Sym(name.into()))
    }

    fn atom(atom: Atom) -> Self {
        Self(Arc::new([Term {
            factors: vec![atom],
            coefficient: 1,
        }]))
    }

    /// The terms of the sum, in canonical order.
    pub fn terms(&self) -> &[Term] {
        &self.0
    }

    /// The value, if there is no symbol in it.
    pub fn as_const(&self) -> Option<i64> {
        match &*self.0 {
            [] => Some(0),
            [Term { factors, coefficient }] if factors.is_empty() => Some(*coefficient),
            _ => None,
        }
    }

    /// The name, if this is just a symbol.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match &*self.0 {
            [
                Term {
                    factors,
                    coefficient: 1,
                },
            ] => match factors.as_slice() {
                [Atom::Sym(name)] => Some(name),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether this is the constant `value`.
    pub fn is(&self, value: i64) -> bool {
        self.as_const() == Some(value)
    }

    fn from_terms(terms: impl IntoIterator<Item = (Vec<Atom>, i64)>) -> Self {
        let mut sum: BTreeMap<Vec<Atom>, i64> = BTreeMap::new();
        for (factors, coefficient) in terms {
            let slot = sum.entry(factors).or_insert(0);
            *slot = slot.saturating_add(coefficient);
        }
        sum.into_iter()
            .filter(|(_, c)| *c != 0)
            .map(|(factors, coefficient)| Term { factors, coefficient })
            .collect::<Vec<_>>()
            .into()
    }

    /// Splits into a multiple of `divisor` and the rest: `self = divisor * quotient + rest`, term by term.
    fn split_multiple(&self, divisor: i64) -> (Self, Self) {
        let (multiple, rest): (Vec<_>, Vec<_>) =
            self.0.iter().cloned().partition(|t| t.coefficient % divisor == 0);
        let quotient = multiple.into_iter().map(|t| (t.factors, t.coefficient / divisor));
        (Self::from_terms(quotient), rest.into())
    }

    /// `self / other` if every term divides exactly.
    pub fn exact_div(&self, other: &Expr) -> Option<Self> {
        if self.is(0) {
            return Some(self.clone());
        }
        let [divisor] = &*other.0 else {
            return (self == other).then(|| Self::constant(1));
        };
        let mut out = Vec::with_capacity(self.0.len());
        for term in self.0.iter() {
            if term.coefficient.wrapping_rem(divisor.coefficient) != 0 {
                return None;
            }
            let mut factors = term.factors.clone();
            for factor in &divisor.factors {
                let at = factors.iter().position(|f| f == factor)?;
                factors.remove(at);
            }
            out.push((factors, term.coefficient.saturating_div(divisor.coefficient)));
        }
        Some(Self::from_terms(out))
    }

    /// `floor(self / other)`.
    pub fn floor_div(&self, other: &Expr) -> Self {
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const())
            && b != 0
        {
            return Self::constant(
                a.checked_div_euclid(b)
                    .unwrap_or(i64::MAX)
                    .saturating_sub(i64::from(b < 0 && a.wrapping_rem_euclid(b) != 0)),
            );
        }
        if let Some(q) = self.exact_div(other) {
            return q;
        }
        if let Some(b) = other.as_const().filter(|b| *b > 0) {
            let (q, rest) = self.split_multiple(b);
            if !q.is(0) {
                return q + rest.floor_div(other);
            }
        }
        Self::atom(Atom::FloorDiv(self.clone(), other.clone()))
    }

    /// `ceil(self / other)`.
    pub fn ceil_div(&self, other: &Expr) -> Self {
        if let (Some(_), Some(b)) = (self.as_const(), other.as_const())
            && b != 0
        {
            return -(-self.clone()).floor_div(other);
        }
        if let Some(q) = self.exact_div(other) {
            return q;
        }
        if let Some(b) = other.as_const().filter(|b| *b > 0) {
            let (q, rest) = self.split_multiple(b);
            if !q.is(0) {
                return q + rest.ceil_div(other);
            }
        }
        Self::atom(Atom::CeilDiv(self.clone(), other.clone()))
    }

    /// `self - other * floor(self / other)`.
    pub fn modulo(&self, other: &Expr) -> Self {
        if self.as_const().is_some() && other.as_const().is_some_and(|b| b != 0)
            || self.exact_div(other).is_some()
        {
            return self - &(other * &self.floor_div(other));
        }
        if let Some(b) = other.as_const().filter(|b| *b > 0) {
            let (q, rest) = self.split_multiple(b);
            if !q.is(0) {
                return rest.modulo(other);
            }
        }
        Self::atom(Atom::Mod(self.clone(), other.clone()))
    }

    /// The smaller of the two.
    pub fn minimum(&self, other: &Expr) -> Self {
        match (self - other).as_const() {
            Some(difference) => if difference <= 0 { self } else { other }.clone(),
            None => {
                let [a, b] = self.ordered(other);
                Self::atom(Atom::Min(a, b))
            }
        }
    }

    /// The larger of the two.
    pub fn maximum(&self, other: &Expr) -> Self {
        match (self - other).as_const() {
            Some(difference) => if difference >= 0 { self } else { other }.clone(),
            None => {
                let [a, b] = self.ordered(other);
                Self::atom(Atom::Max(a, b))
            }
        }
    }

    /// Both in canonical order, for operators that do not depend on it.
    fn ordered(&self, other: &Expr) -> [Self; 2] {
        let (a, b) = if self <= other {
            (self, other)
        } else {
            (other, self)
        };
        [a.clone(), b.clone()]
    }

    /// The next multiple of `other`.
    pub fn round_up(&self, other: &Expr) -> Self {
        self.ceil_div(other) * other.clone()
    }

    /// Every symbol in the expression.
    pub fn symbols(&self) -> BTreeSet<Symbol> {
        let mut out = BTreeSet::new();
        self.collect_symbols(&mut out);
        out
    }

    fn collect_symbols(&self, out: &mut BTreeSet<Symbol>) {
        for atom in self.0.iter().flat_map(|t| &t.factors) {
            match atom {
                Atom::Sym(name) => {
                    out.insert(name.clone());
                }
                Atom::FloorDiv(a, b)
                | Atom::CeilDiv(a, b)
                | Atom::Mod(a, b)
                | Atom::Min(a, b)
                | Atom::Max(a, b) => {
                    a.collect_symbols(out);
                    b.collect_symbols(out);
                }
            }
        }
    }

    /// Whether `name` occurs.
    pub fn mentions(&self, name: &str) -> bool {
        self.symbols().contains(name)
    }

    /// Replaces symbols by expressions; symbols for which `f` gives `None` stay.
    pub fn substitute(&self, f: &dyn Fn(&str) -> Option<Expr>) -> Self {
        let mut sum = Expr::constant(0);
        for term in self.0.iter() {
            let mut product = Expr::constant(term.coefficient);
            for atom in &term.factors {
                let factor = match atom {
                    Atom::Sym(name) => f(name).unwrap_or_else(|| Expr::atom(atom.clone())),
                    Atom::FloorDiv(a, b) => a.substitute(f).floor_div(&b.substitute(f)),
                    Atom::CeilDiv(a, b) => a.substitute(f).ceil_div(&b.substitute(f)),
                    Atom::Mod(a, b) => a.substitute(f).modulo(&b.substitute(f)),
                    Atom::Min(a, b) => a.substitute(f).minimum(&b.substitute(f)),
                    Atom::Max(a, b) => a.substitute(f).maximum(&b.substitute(f)),
                };
                product = product * factor;
            }
            sum = sum + product;
        }
        sum
    }

    /// Replaces the symbols that have a value.
    pub fn bind(&self, bindings: &Bindings) -> Self {
        self.substitute(&|name| bindings.get(name).map(|v| Expr::constant(*v)))
    }
}

impl From<Vec<Term>> for Expr {
    fn from(terms: Vec<Term>) -> Self {
        Self(terms.into())
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Self {
        Self::constant(value)
    }
}

impl From<usize> for Expr {
    fn from(value: usize) -> Self {
        Self::constant(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<i32> for Expr {
    fn from(value: i32) -> Self {
        Self::constant(i64::from(value))
    }
}

impl From<&str> for Expr {
    /// The free symbol of that name.
    fn from(name: &str) -> Self {
        Self::symbol(name)
    }
}

impl From<&Expr> for Expr {
    fn from(expr: &Expr) -> Self {
        expr.clone()
    }
}

impl Add for &Expr {
    type Output = Expr;
    fn add(self, other: &Expr) -> Expr {
        let terms = self.0.iter().chain(other.0.iter());
        Expr::from_terms(terms.map(|t| (t.factors.clone(), t.coefficient)))
    }
}

impl Mul for &Expr {
    type Output = Expr;
    fn mul(self, other: &Expr) -> Expr {
        let pairs = self.0.iter().flat_map(|a| other.0.iter().map(move |b| (a, b)));
        Expr::from_terms(pairs.map(|(a, b)| {
            let mut factors: Vec<Atom> = a.factors.iter().chain(&b.factors).cloned().collect();
            factors.sort();
            (factors, a.coefficient.saturating_mul(b.coefficient))
        }))
    }
}

impl Neg for &Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        Expr::from_terms(
            self.0
                .iter()
                .map(|t| (t.factors.clone(), t.coefficient.saturating_neg())),
        )
    }
}

impl Sub for &Expr {
    type Output = Expr;
    fn sub(self, other: &Expr) -> Expr {
        self + &-other
    }
}

impl Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        -&self
    }
}

macro_rules! owned_operators {
    ($($op:ident $method:ident),*) => {$(
        impl<T: Into<Expr>> $op<T> for Expr {
            type Output = Expr;
            fn $method(self, other: T) -> Expr {
                (&self).$method(&other.into())
            }
        }
    )*};
}
owned_operators!(Add add, Mul mul, Sub sub);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn e(text: &str) -> Expr {
        Expr::parse(text).unwrap()
    }

    #[test]
    fn polynomials_have_one_form() {
        assert_eq!(e("2*(N + 1) - 2"), e("N*2"));
        assert_eq!(e("(A + B)*(A - B)"), e("A*A - B*B"));
        assert_eq!(e("(4*N + 3) // 4"), e("N"));
        assert_eq!(e("ceildiv(4*N + 3, 4)"), e("N + 1"));
        assert_eq!(e("(N*M) // M"), e("N"));
        assert_eq!(e("(8*N + 5) % 8"), e("5"));
    }

    #[test]
    fn division_floors() {
        assert!(e("-7 // 2").is(-4) && e("-7 % 2").is(1) && e("ceildiv(-7, 2)").is(-3));
        assert!(e("7 // -2").is(-4) && e("7 % -2").is(-1));
    }

    #[test]
    fn bounds_hold_a_tile_offset() {
        let range = |name: &str| match name {
            "m" => Some((0, 7)),
            "k" => Some((-1, 3)),
            _ => None,
        };
        assert_eq!(e("m*64 - k").bounds(&range), Some((-3, 449)));
        assert_eq!(e("m*N").bounds(&range), None);
    }

    fn arbitrary() -> impl Strategy<Value = Expr> {
        let leaf = prop_oneof![
            (-9i64..10).prop_map(Expr::constant),
            prop::sample::select(vec!["M", "N", "k"]).prop_map(Expr::symbol),
        ];
        leaf.prop_recursive(4, 24, 2, |inner| {
            (0..7usize, inner.clone(), inner).prop_map(|(op, a, b)| match op {
                0 => a + b,
                1 => a - b,
                2 => a * b,
                3 => a.floor_div(&Expr::constant(3)),
                4 => a.modulo(&Expr::constant(5)),
                5 => a.minimum(&b),
                _ => a.ceil_div(&Expr::constant(4)),
            })
        })
    }

    proptest! {
        #[test]
        fn printing_parses_back(a in arbitrary()) {
            prop_assert_eq!(Expr::parse(&a.to_string()).unwrap(), a);
        }

        #[test]
        fn binding_agrees_with_evaluation(a in arbitrary(), m in 0i64..9, n in 0i64..9, k in -5i64..5) {
            let all = Bindings::from([("M".into(), m), ("N".into(), n), ("k".into(), k)]);
            let value = a.eval(&all).unwrap();
            prop_assert_eq!(a.bind(&all).as_const(), Some(value));
            let (lo, hi) = a.bounds(&|s| all.get(s).map(|v| (*v - 1, *v + 1))).unwrap();
            prop_assert!(lo <= value && value <= hi);
        }
    }
}
