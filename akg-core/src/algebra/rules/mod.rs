//! The rules, by family.
//!
//! A rule is data: where it may be tried, what it says, and on what condition it is sound. Its function looks at one term,
//! and perhaps at one that makes an operand of it, and builds an equal one. That the result has the same type is checked
//! for all rules in one place.

use super::site::Site;
use super::term::Term;
use crate::task::{Accuracy, Contract};

mod affine;
mod bounds;
mod convolution;
mod diagonal;
mod fold;
mod identity;
mod one;
mod product;
mod read;
mod reduce;
mod views;

/// Why a rule is sound, and so when it may be applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// Equal in every element, NaN and infinities included (zeros may change their sign). Applied always.
    Exact,
    /// Equal where facts about the operators' results prove it, such as that a sigmoid is in `0..=1`, whatever the inputs
    /// hold. Applied where the proof is found.
    Ranges,
    /// Equal as long as all values are finite. Applied unless the contract has special values.
    Finite,
    /// Equal in exact arithmetic, and in floating point with an error bound that is not larger up to a small factor. Applied
    /// from this accuracy class on, to `f32` and `f64`, unless the contract has special values.
    Reassociating(Accuracy),
}

impl Kind {
    /// Whether rules of this kind may be applied under a contract.
    pub fn allowed(self, contract: &Contract) -> bool {
        match self {
            Kind::Exact | Kind::Ranges => true,
            Kind::Finite => !contract.special_values,
            Kind::Reassociating(least) => !contract.special_values && contract.accuracy >= least,
        }
    }

    /// A few words for tables.
    pub fn describe(self) -> String {
        match self {
            Kind::Exact => "exact".to_owned(),
            Kind::Ranges => "needs ranges".to_owned(),
            Kind::Finite => "finite values".to_owned(),
            Kind::Reassociating(least) => format!("reassociating, from {least}"),
        }
    }
}

/// A rewrite of terms into equal terms.
pub struct Rule {
    /// Its name in results.
    pub name: &'static str,
    /// Why it is sound.
    pub kind: Kind,
    /// What it says, in one line.
    pub statement: &'static str,
    /// The operators that it is tried at.
    pub(super) roots: &'static [&'static str],
    /// Operators of which one must make an operand; none if operands do not matter.
    pub(super) inner: &'static [&'static str],
    pub(super) apply: fn(&mut Site<'_>, &Found<'_>) -> Option<egg::Id>,
}

impl Rule {
    /// The operators that it looks at.
    pub fn operators(&self) -> impl Iterator<Item = &'static str> {
        self.roots.iter().chain(self.inner).copied()
    }
}

impl std::fmt::Debug for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// A place where a rule may apply.
pub(super) struct Found<'a> {
    /// The term at the root.
    pub(super) node: &'a Term,
    /// The term that makes one of its operands; the root again for rules that ask for none.
    pub(super) inner: &'a Term,
    /// Which operand that is.
    pub(super) at: usize,
}

impl Found<'_> {
    /// The other of two operands.
    pub(super) fn other(&self) -> Option<egg::Id> {
        let operands = egg::Language::children(self.node);
        let [_, _] = operands else { return None };
        operands.get(1 - self.at.min(1)).copied()
    }
}

/// Every rule.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    let families = [
        identity::RULES,
        one::RULES,
        views::RULES,
        fold::RULES,
        bounds::RULES,
        diagonal::RULES,
        reduce::RULES,
        product::RULES,
        convolution::RULES,
        affine::RULES,
    ];
    families.into_iter().flatten()
}
