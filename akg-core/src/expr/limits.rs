//! Limits on the size of expressions, which bound the time and the stack that every operation on them takes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{Atom, Expr, Term};
use crate::error::{Error, Result};

/// The largest number of terms and factors of an expression, those inside of divisions, minima and the like included.
pub const MAX_PARTS: usize = 1024;

/// The largest number of divisions, remainders, minima and maxima inside of each other.
pub const MAX_DEPTH: usize = 64;

/// Factors that one multiplication may write before equal products are added up.
const MAX_PRODUCT: usize = 16 * MAX_PARTS;

/// The reason why a value is not represented. Equal to its clones only: nothing is known of two such values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Excess {
    limit: Limit,
    serial: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Limit {
    Parts,
    Depth,
    Integers,
}

impl Excess {
    /// The identifier that printers write for it. Nothing defines it, so compilers refuse the kernel.
    pub const IDENTIFIER: &'static str = "akg_expression_too_large";

    /// More than [`MAX_PARTS`] parts.
    pub(super) fn size() -> Self {
        Self::of(Limit::Parts)
    }

    /// A number beyond 64 bits.
    pub(super) fn overflow() -> Self {
        Self::of(Limit::Integers)
    }

    fn of(limit: Limit) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            limit,
            serial: NEXT.fetch_add(1, Ordering::Relaxed),
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Limit::Parts => write!(
                f,
                "the integer expression has more than {MAX_PARTS} terms and factors"
            ),
            Limit::Depth => write!(
                f,
                "the integer expression is nested deeper than {MAX_DEPTH} levels"
            ),
            Limit::Integers => f.write_str("the integer expression overflows 64-bit integers"),
        }
    }
}

impl From<Excess> for Error {
    fn from(excess: Excess) -> Self {
        Error::invalid(excess.to_string())
    }
}

impl Expr {
    /// An expression without a value.
    pub(super) fn excessive(excess: Excess) -> Self {
        Self {
            terms: Arc::new([Term {
                factors: vec![Atom::Excess(excess)],
                coefficient: 1,
            }]),
            parts: 1,
            depth: 0,
        }
    }

    /// The reason why the value is not represented, if it is not.
    pub fn excess(&self) -> Option<Excess> {
        match self.terms() {
            [Term { factors, .. }] => match factors.as_slice() {
                [Atom::Excess(excess)] => Some(*excess),
                _ => None,
            },
            _ => None,
        }
    }

    /// The number of terms and factors, those inside of divisions, minima and the like included.
    pub fn parts(&self) -> usize {
        self.parts as usize
    }

    /// An error that names the limit, if the expression went beyond one.
    pub fn check(&self) -> Result<()> {
        self.excess().map_or(Ok(()), |excess| Err(excess.into()))
    }
}

impl From<Vec<Term>> for Expr {
    /// The expression of terms in canonical order, or an excessive one if they are too many.
    fn from(terms: Vec<Term>) -> Self {
        let (mut parts, mut depth) = (0usize, 0usize);
        for atom in terms.iter().flat_map(|t| &t.factors) {
            let (inside, below) = match atom {
                Atom::Sym(_) => (1, 0),
                Atom::Excess(excess) => return Self::excessive(*excess),
                Atom::FloorDiv(a, b)
                | Atom::CeilDiv(a, b)
                | Atom::Mod(a, b)
                | Atom::Min(a, b)
                | Atom::Max(a, b) => {
                    if let Some(excess) = a.excess().or(b.excess()) {
                        return Self::excessive(excess);
                    }
                    let inside = 1 + a.parts as usize + b.parts as usize;
                    (inside, 1 + usize::from(a.depth.max(b.depth)))
                }
            };
            parts += inside;
            depth = depth.max(below);
        }
        parts += terms.len();
        if parts > MAX_PARTS {
            return Self::excessive(Excess::size());
        }
        if depth > MAX_DEPTH {
            return Self::excessive(Excess::of(Limit::Depth));
        }
        Self {
            terms: terms.into(),
            parts: parts as u32,
            depth: depth as u16,
        }
    }
}

/// Whether the product of two expressions can be written out in bounded time.
pub(super) fn may_multiply(a: &Expr, b: &Expr) -> bool {
    let size = a.terms.len() * b.parts as usize + b.terms.len() * a.parts as usize;
    size <= MAX_PRODUCT
}
