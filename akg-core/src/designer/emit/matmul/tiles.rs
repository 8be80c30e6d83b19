//! How long the tiles of a product are, and what its sums are held in.

use super::{PROMOTE, Product, ceildiv};
use crate::dtype::DType;
use crate::expr::Expr;

/// Lengths of tiles along the rows and the columns of the result.
const LENGTHS: [i64; 2] = [512, 256];
/// The same for short sums, where the result's tile is what must stay in a cache.
const SHORT_LENGTHS: [i64; 2] = [256, 512];
/// Multiply-adds that take as long as packing an element of an operand, as measured on AVX-512.
const PACKING: i64 = 24;
/// Lengths of tiles along the sum.
pub(super) const DEPTHS: [i64; 2] = [512, 256];
/// The same where runs are short: about as many runs as a run is long lose the least.
const SHORT_DEPTHS: [i64; 2] = [64, 32];
/// The same where threads share a tile.
const SHARED_LENGTHS: [i64; 2] = [64, 32];
const SHARED_DEPTHS: [i64; 2] = [32, 16];
/// Sums that are short.
const SHORT: i64 = 256;
/// The most sums of one `BK` that are added up in f32. The error of so many equal terms is 1.7 times that of pairwise
/// summation; more would bring it to twice that.
pub(super) const ADDED: i64 = 16;
/// The most products in an element of a sum of few, and the most in a result that takes no time.
const FEW: i64 = 64;
const FEW_IN_ALL: i64 = 1 << 16;
/// How long runs are there instead: where terms come again and again, all additions of a run may round in one direction.
const SHORT_RUN: u32 = 8;

impl Product<'_> {
    /// Lengths of tiles along the rows and along the columns to choose from.
    pub(super) fn lengths(&self) -> [[i64; 2]; 2] {
        match self.extent(self.depth).as_const() {
            _ if self.shares_tiles => [SHARED_LENGTHS; 2],
            Some(depth) if depth <= SHORT => [SHORT_LENGTHS; 2],
            // Small tiles follow a diagonal closely.
            _ if self.triangle().is_some() => [SHORT_LENGTHS; 2],
            _ => self.shared_lengths().unwrap_or([LENGTHS; 2]),
        }
    }

    /// Of [`LENGTHS`], those first that let all cores end at about the same time, without too much packing.
    fn shared_lengths(&self) -> Option<[[i64; 2]; 2]> {
        let mut extents = [1; 3];
        for axis in self.result() {
            let place = match axis {
                _ if axis == self.rows => 0,
                _ if axis == self.columns => 1,
                _ => 2,
            };
            extents[place] = self
                .extent(axis)
                .as_const()?
                .max(1)
                .saturating_mul(extents[place]);
        }
        let [rows, columns, matrices] = extents;
        let time = |[m, n]: [i64; 2]| {
            let (row_tiles, column_tiles) = (ceildiv(rows, m), ceildiv(columns, n));
            let (m, n) = (ceildiv(rows, row_tiles), ceildiv(columns, column_tiles));
            let turns = ceildiv(
                row_tiles.saturating_mul(column_tiles).saturating_mul(matrices),
                self.cores,
            );
            turns.saturating_mul(m * n + PACKING * (m + n))
        };
        let pairs = LENGTHS.iter().flat_map(|m| LENGTHS.map(|n| [*m, n]));
        let first = |length| match length {
            _ if length == LENGTHS[0] => LENGTHS,
            _ => [LENGTHS[1], LENGTHS[0]],
        };
        Some(pairs.min_by_key(|pair| time(*pair))?.map(first))
    }

    /// The number of products in an element of the result.
    pub(super) fn products(&self) -> Option<i64> {
        let mut extents = self
            .kernel
            .reduced
            .iter()
            .map(|axis| self.extent(*axis).as_const());
        extents.try_fold(1i64, |all, extent| Some(all.saturating_mul(extent?)))
    }

    /// The longest run of multiply-adds.
    pub(super) fn longest_run(&self) -> u32 {
        if self.has_short_runs {
            return SHORT_RUN;
        }
        let extents = self.result().into_iter().map(|axis| self.extent(axis).as_const());
        let all = self.products().filter(|products| *products <= FEW);
        let all = extents.fold(all, |all, extent| Some(all?.saturating_mul(extent?)));
        match all {
            Some(..=FEW_IN_ALL) => SHORT_RUN,
            _ => PROMOTE,
        }
    }

    /// The type that so many products are added up in.
    pub(super) fn sums(&self, products: Option<i64>) -> DType {
        let most = self
            .extent(self.depth)
            .as_const()
            .map(|depth| ADDED * depth.min(self.lengths_of_steps()[0]));
        match (products, most) {
            (Some(products), Some(most)) if self.dtype == DType::F32 && products <= most => DType::F32,
            _ => DType::F64,
        }
    }

    /// Lengths of tiles along the sum to choose from.
    pub(super) fn lengths_of_steps(&self) -> &'static [i64; 2] {
        if self.shares_tiles {
            &SHARED_DEPTHS
        } else if self.has_short_runs {
            &SHORT_DEPTHS
        } else {
            &DEPTHS
        }
    }

    /// Lengths of tiles along a sum of so many products in this type.
    pub(super) fn depths(&self, sums: DType, products: Option<i64>) -> &'static [i64] {
        let lengths = self.lengths_of_steps();
        match products {
            Some(products) if sums == DType::F32 && products > ADDED * lengths[1] => &lengths[..1],
            _ => lengths,
        }
    }
}

/// About as long as each of `lengths`, in multiples of `grain`, but such that the last tile along `extent` is nearly as
/// long as the others.
pub(super) fn balanced(extent: &Expr, lengths: &[i64], grain: i64) -> Vec<i64> {
    let mut values: Vec<i64> = lengths
        .iter()
        .map(|length| match extent.as_const() {
            Some(extent) if extent <= *length => extent.max(1),
            Some(extent) => ceildiv(ceildiv(extent, ceildiv(extent, *length)), grain) * grain,
            None => *length,
        })
        .collect();
    values.dedup();
    values
}
