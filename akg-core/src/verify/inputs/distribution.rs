//! The distributions of inputs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The distribution of the inputs of a check. Integers keep the contract's range, or the range that their use as an index
/// leaves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Distribution {
    /// As the contract says.
    Contract,
    /// Standard normal.
    Signed,
    /// Signed, scaled by 2^6; one row in eight has a [structure](Self::Rows).
    Large,
    /// Signed, scaled by 2^-6; one row in eight has a structure.
    Tiny,
    /// Signed about a mean of 4; one row in eight has a structure.
    Offset,
    /// Signs and magnitudes that spread over 2^±10, so that sums cancel.
    IllConditioned,
    /// Signed, scaled by 2^20 in one input and by 2^-20 in the next, weights too: beyond the range of half precision.
    Apart,
    /// Small integers and their close neighbours: elements are equal, or differ by little.
    Ties,
    /// Signed about -100 in one input and 100 in the next: whole inputs of one sign.
    OneSided,
    /// Small integers, and a few elements far above and below: by the seed, either one of each in the whole input, or two
    /// in each row along the last axis (its first, its last or any), of which the input's first and last are farthest.
    Extremes,
    /// Half of the elements at, beside and far beyond the constants that the graph compares them with, at random places;
    /// rows of all magnitudes where such a constant stands behind a product, a sum or a norm.
    Thresholds,
    /// Rows along the last axis that are zero, constant, sorted up or down, equal in neighbours, zero but for one element,
    /// saturated or small, strewn among signed ones.
    Rows,
    /// The same along the axes that the graph reduces, or along the first.
    Columns,
    /// Zero in every activation.
    Zeros,
    /// The same power of two throughout each activation.
    Constant,
    /// Signed, with NaN, infinities, zeros of both signs and subnormal numbers strewn in.
    Special,
}

impl Distribution {
    /// Every distribution.
    pub const ALL: [Distribution; 16] = [
        Distribution::Contract,
        Distribution::Signed,
        Distribution::Large,
        Distribution::Tiny,
        Distribution::Offset,
        Distribution::IllConditioned,
        Distribution::Apart,
        Distribution::Ties,
        Distribution::OneSided,
        Distribution::Extremes,
        Distribution::Thresholds,
        Distribution::Rows,
        Distribution::Columns,
        Distribution::Zeros,
        Distribution::Constant,
        Distribution::Special,
    ];

    /// The name in verdicts.
    pub const fn name(self) -> &'static str {
        match self {
            Distribution::Contract => "contract",
            Distribution::Signed => "signed",
            Distribution::Large => "large",
            Distribution::Tiny => "tiny",
            Distribution::Offset => "offset",
            Distribution::IllConditioned => "ill-conditioned",
            Distribution::Apart => "apart",
            Distribution::Ties => "ties",
            Distribution::OneSided => "one-sided",
            Distribution::Extremes => "extremes",
            Distribution::Thresholds => "thresholds",
            Distribution::Rows => "rows",
            Distribution::Columns => "columns",
            Distribution::Zeros => "zeros",
            Distribution::Constant => "constant",
            Distribution::Special => "special",
        }
    }

    /// A number that keeps the data of one seed apart between distributions.
    pub(super) const fn salt(self) -> u64 {
        match self {
            Distribution::Contract => 0,
            Distribution::Signed => 1,
            Distribution::Large => 2,
            Distribution::Tiny => 3,
            Distribution::Offset => 4,
            Distribution::IllConditioned => 5,
            Distribution::Apart => 6,
            Distribution::Ties => 7,
            Distribution::OneSided => 8,
            Distribution::Extremes => 9,
            Distribution::Thresholds => 10,
            Distribution::Rows => 11,
            Distribution::Columns => 12,
            Distribution::Zeros => 13,
            Distribution::Constant => 14,
            Distribution::Special => 15,
        }
    }

    /// Whether integers without a range take values from all of their type.
    pub(super) const fn has_wide_integers(self) -> bool {
        matches!(
            self,
            Distribution::Large
                | Distribution::IllConditioned
                | Distribution::Apart
                | Distribution::Extremes
                | Distribution::Thresholds
                | Distribution::Rows
                | Distribution::Columns
        )
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
