//! Integer expressions over named symbols: tensor extents, tile offsets, grid sizes.
//!
//! An [`Expr`] is kept in a canonical form, a sum of integer multiples of products of *atoms*, so that structural
//! equality is algebraic equality of polynomials: `2*(N + 1) - 2 == 2*N`. Division, remainder, minimum and maximum are
//! atoms of their own, simplified where that is provable. All symbols stand for integers; extents are non-negative.
//!
//! Expressions come from files and models, so their size is bounded: arithmetic that would go beyond [`MAX_PARTS`],
//! [`MAX_DEPTH`] or 64-bit coefficients gives an [excessive](Excess) expression instead, which absorbs everything it
//! meets. Whoever takes an expression from outside asks [`Expr::check`].

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::Arc;

mod evaluate;
mod limits;
mod parse;
mod print;

pub use limits::{Excess, MAX_DEPTH, MAX_PARTS};

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
    /// A value that is not represented. The only factor of the only term.
    Excess(Excess),
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
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expr {
    terms: Arc<[Term]>,
    /// Terms and atoms in the expression, those inside of atoms included.
    parts: u32,
    /// Atoms inside of each other.
    depth: u16,
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expr").field(&self.terms).finish()
    }
}

impl Expr {
    /// The constant `value`.
    pub fn constant(value: i64) -> Self {
        if value == 0 {
            return Self::from(Vec::new());
        }
        Self::from(vec![Term {
            factors: Vec::new(),
            coefficient: value,
        }])
    }

    /// The free symbol `name`.
    pub fn symbol(name: impl Into<Symbol>) -> Self {
        Self::atom(Atom::Sym(name.into()))
    }

    fn atom(atom: Atom) -> Self {
        Self::from(vec![Term {
            factors: vec![atom],
            coefficient: 1,
        }])
    }

    /// The terms of the sum, in canonical order.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }

    /// The value, if there is no symbol in it.
    pub fn as_const(&self) -> Option<i64> {
        match &*self.terms {
            [] => Some(0),
            [Term { factors, coefficient }] if factors.is_empty() => Some(*coefficient),
            _ => None,
        }
    }

    /// The name, if this is just a symbol.
    pub fn as_symbol(&self) -> Option<&Symbol> {
        match &*self.terms {
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

    /// The name and the factor, if this is a positive multiple of a symbol.
    pub fn as_multiple(&self) -> Option<(&Symbol, i64)> {
        match &*self.terms {
            [Term { factors, coefficient }] if *coefficient > 0 => match factors.as_slice() {
                [Atom::Sym(name)] => Some((name, *coefficient)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether this is the constant `value`.
    pub fn is(&self, value: i64) -> bool {
        self.as_const() == Some(value)
    }

    /// The sum of terms in any order, whose products of factors are sorted.
    fn from_terms(terms: impl IntoIterator<Item = (Vec<Atom>, i128)>) -> Self {
        let mut sum: BTreeMap<Vec<Atom>, i128> = BTreeMap::new();
        for (factors, coefficient) in terms {
            if let [Atom::Excess(excess)] = factors.as_slice() {
                return Self::excessive(*excess);
            }
            let slot = sum.entry(factors).or_insert(0);
            match slot.checked_add(coefficient) {
                Some(total) => *slot = total,
                None => return Self::excessive(Excess::overflow()),
            }
        }
        let mut terms = Vec::with_capacity(sum.len());
        for (factors, coefficient) in sum.into_iter().filter(|(_, c)| *c != 0) {
            match i64::try_from(coefficient) {
                Ok(coefficient) => terms.push(Term { factors, coefficient }),
                Err(_) => return Self::excessive(Excess::overflow()),
            }
        }
        Self::from(terms)
    }

    /// The sum of expressions.
    fn total(parts: impl IntoIterator<Item = Expr>) -> Self {
        let mut terms = Vec::new();
        for part in parts {
            terms.extend(part.terms.iter().map(wide));
        }
        Self::from_terms(terms)
    }

    /// Splits into a multiple of `divisor` and the rest: `self = divisor * quotient + rest`, term by term.
    fn split_multiple(&self, divisor: i64) -> (Self, Self) {
        let (multiple, rest): (Vec<_>, Vec<_>) = self
            .terms
            .iter()
            .cloned()
            .partition(|t| t.coefficient % divisor == 0);
        let quotient = multiple
            .into_iter()
            .map(|t| (t.factors, i128::from(t.coefficient / divisor)));
        (Self::from_terms(quotient), rest.into())
    }

    /// `self / other` if every term divides exactly.
    pub fn exact_div(&self, other: &Expr) -> Option<Self> {
        if let Some(excess) = self.excess().or(other.excess()) {
            return Some(Self::excessive(excess));
        }
        if self.is(0) {
            return Some(self.clone());
        }
        let [divisor] = &*other.terms else {
            return (self == other).then(|| Self::constant(1));
        };
        let mut out = Vec::with_capacity(self.terms.len());
        for term in self.terms.iter() {
            let (a, b) = (i128::from(term.coefficient), i128::from(divisor.coefficient));
            if a % b != 0 {
                return None;
            }
            let mut factors = term.factors.clone();
            for factor in &divisor.factors {
                let at = factors.iter().position(|f| f == factor)?;
                factors.remove(at);
            }
            out.push((factors, a / b));
        }
        Some(Self::from_terms(out))
    }

    /// `floor(self / other)`.
    pub fn floor_div(&self, other: &Expr) -> Self {
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const())
            && b != 0
        {
            return Self::from_terms([(Vec::new(), floor_div(a, b))]);
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
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const())
            && b != 0
        {
            // The product has more than 64 bits where the quotient is rounded down from near their end.
            let rest = i128::from(a) - i128::from(b) * floor_div(a, b);
            return Self::from_terms([(Vec::new(), rest)]);
        }
        if self.exact_div(other).is_some() {
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
        match self.compare(other) {
            Some(order) => if order.is_le() { self } else { other }.clone(),
            None => {
                let [a, b] = self.ordered(other);
                Self::atom(Atom::Min(a, b))
            }
        }
    }

    /// The larger of the two.
    pub fn maximum(&self, other: &Expr) -> Self {
        match self.compare(other) {
            Some(order) => if order.is_ge() { self } else { other }.clone(),
            None => {
                let [a, b] = self.ordered(other);
                Self::atom(Atom::Max(a, b))
            }
        }
    }

    /// Which is larger, if it is the same one whatever the values of the symbols.
    fn compare(&self, other: &Expr) -> Option<Ordering> {
        if let (Some(a), Some(b)) = (self.as_const(), other.as_const()) {
            return Some(a.cmp(&b));
        }
        // One of the differences may be 2^63, which has more than 64 bits.
        let difference = (self - other).as_const().map(|d| d.cmp(&0));
        difference.or_else(|| Some(0.cmp(&(other - self).as_const()?)))
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
        for atom in self.terms.iter().flat_map(|t| &t.factors) {
            match atom {
                Atom::Sym(name) => {
                    out.insert(name.clone());
                }
                Atom::Excess(_) => {}
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
        let products = self.terms.iter().map(|term| {
            let factors = term.factors.iter().map(|atom| match atom {
                Atom::Sym(name) => f(name).unwrap_or_else(|| Expr::atom(atom.clone())),
                Atom::FloorDiv(a, b) => a.substitute(f).floor_div(&b.substitute(f)),
                Atom::CeilDiv(a, b) => a.substitute(f).ceil_div(&b.substitute(f)),
                Atom::Mod(a, b) => a.substitute(f).modulo(&b.substitute(f)),
                Atom::Min(a, b) => a.substitute(f).minimum(&b.substitute(f)),
                Atom::Max(a, b) => a.substitute(f).maximum(&b.substitute(f)),
                Atom::Excess(excess) => Expr::excessive(*excess),
            });
            factors.fold(Expr::constant(term.coefficient), |product, factor| {
                product * factor
            })
        });
        Self::total(products)
    }

    /// Replaces the symbols that have a value.
    pub fn bind(&self, bindings: &Bindings) -> Self {
        self.substitute(&|name| bindings.get(name).map(|v| Expr::constant(*v)))
    }
}

/// A term whose coefficient has room for sums and products.
fn wide(term: &Term) -> (Vec<Atom>, i128) {
    (term.factors.clone(), i128::from(term.coefficient))
}

/// `floor(a / b)` for a divisor that is not zero; the quotient of the smallest integer and -1 needs 65 bits.
fn floor_div(a: i64, b: i64) -> i128 {
    let (a, b) = (i128::from(a), i128::from(b));
    a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0)
}

impl From<i64> for Expr {
    fn from(value: i64) -> Self {
        Self::constant(value)
    }
}

impl From<usize> for Expr {
    fn from(value: usize) -> Self {
        Self::from_terms([(Vec::new(), value as i128)])
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
        Expr::from_terms(self.terms.iter().chain(other.terms.iter()).map(wide))
    }
}

impl Mul for &Expr {
    type Output = Expr;
    fn mul(self, other: &Expr) -> Expr {
        if let Some(excess) = self.excess().or(other.excess()) {
            return Expr::excessive(excess);
        }
        if !limits::may_multiply(self, other) {
            return Expr::excessive(Excess::size());
        }
        let pairs = self
            .terms
            .iter()
            .flat_map(|a| other.terms.iter().map(move |b| (a, b)));
        Expr::from_terms(pairs.map(|(a, b)| {
            let mut factors: Vec<Atom> = a.factors.iter().chain(&b.factors).cloned().collect();
            factors.sort();
            (factors, i128::from(a.coefficient) * i128::from(b.coefficient))
        }))
    }
}

impl Neg for &Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        if let Some(excess) = self.excess() {
            return Expr::excessive(excess);
        }
        let terms = self.terms.iter().map(wide);
        Expr::from_terms(terms.map(|(factors, coefficient)| (factors, -coefficient)))
    }
}

impl Sub for &Expr {
    type Output = Expr;
    fn sub(self, other: &Expr) -> Expr {
        if let Some(excess) = self.excess().or(other.excess()) {
            return Expr::excessive(excess);
        }
        // What is subtracted may have no negative of its own.
        let negative = |term: &Term| (term.factors.clone(), -i128::from(term.coefficient));
        let terms = self.terms.iter().map(wide);
        Expr::from_terms(terms.chain(other.terms.iter().map(negative)))
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
mod tests;
