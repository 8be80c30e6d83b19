//! How long the tiles of an attention are: a program's rows of queries, and the keys of a step.

use crate::designer::device::{Device, Factors};
use crate::designer::emit::matmul::{UNIT, next_power_of_two};

/// Lengths of tiles along rows, and along keys.
const ROWS: [i64; 2] = [128, 64];
const KEYS: [i64; 3] = [64, 128, 32];
/// Steps that must be able to be under way.
const STAGES: i64 = 2;

/// What a program of an attention holds for each row and each key.
#[derive(Debug, Clone, Copy)]
pub(in crate::designer) struct Heads {
    /// Products that are summed for a score.
    pub(in crate::designer) depth: i64,
    /// Values of a key.
    pub(in crate::designer) width: i64,
    /// Bytes that are read for a score, as of masks.
    pub(in crate::designer) read: i64,
    pub(in crate::designer) factors: Factors,
}

/// The lengths of tiles to choose from, and how many steps may be under way; the defaults are first.
pub(in crate::designer) struct Lengths {
    pub(super) rows: Vec<i64>,
    pub(super) keys: Vec<i64>,
    pub(super) stages: Vec<i64>,
}

impl Heads {
    /// Lengths of which any two fit on a core; `None` if none do.
    pub(in crate::designer) fn lengths(&self, device: Device<'_>) -> Option<Lengths> {
        let fits = |rows: i64, keys: i64| {
            self.bytes(rows, keys, STAGES) <= device.tile_bytes()
                && self.numbers(rows, keys) <= device.numbers()
        };
        let last = KEYS.iter().min().copied()?;
        let mut rows: Vec<i64> = ROWS.into_iter().filter(|rows| fits(*rows, last)).collect();
        let most = rows.first().copied()?;
        let keys: Vec<i64> = KEYS.into_iter().filter(|keys| fits(most, *keys)).collect();
        let first = keys.first().copied()?;
        // Two programs of a core wait less than one that fills it.
        let shares = |rows: i64| 2 * self.bytes(rows, first, STAGES) <= device.tile_bytes();
        if 2 * self.numbers(most, first) > device.numbers() && rows.iter().any(|rows| shares(*rows)) {
            rows.sort_unstable();
        }
        let stages = if self.bytes(most, first, STAGES + 1) <= device.tile_bytes() {
            vec![STAGES, STAGES + 1, 1]
        } else {
            vec![STAGES, 1]
        };
        Some(Lengths { rows, keys, stages })
    }

    /// Bytes of on-chip memory for the factors of a program's queries, and of the keys, values and masks of so many steps.
    fn bytes(&self, rows: i64, keys: i64, stages: i64) -> i64 {
        let of_element = if self.factors == Factors::Halves { 4 } else { 2 };
        let (depth, width) = (padded(self.depth), padded(self.width));
        let elements = rows.saturating_mul(depth) + stages.saturating_mul(keys).saturating_mul(depth + width);
        // They need not lie still for products.
        let masks = (stages - 1).saturating_mul(keys).saturating_mul(rows * self.read);
        elements.saturating_mul(of_element).saturating_add(masks)
    }

    /// 32-bit numbers that its threads hold: sums and scores, and factors made of those.
    fn numbers(&self, rows: i64, keys: i64) -> i64 {
        let (sums, scores) = match self.factors {
            // A step's products are summed apart.
            Factors::Halves => (2, 2 * keys),
            _ => (1, keys + keys / 2),
        };
        rows.saturating_mul(sums * padded(self.width) + scores)
    }
}

/// Units for products take powers of two.
fn padded(length: i64) -> i64 {
    next_power_of_two(length.max(UNIT))
}
