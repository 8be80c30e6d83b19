//! How long tiles and steps of a sum are, what parts it has, and where operands become factors for that.

use std::collections::HashSet;

use super::{GRAIN, Operand, STEP, Split, ceildiv};
use crate::designer::device::Factors;
use crate::designer::emit::matmul::filled;
use crate::designer::plan::Axis;
use crate::designer::prim::{MapOp, Prim, PrimId};
use crate::dtype::DType;
use crate::expr::Expr;

/// The shortest part of a sum that is worth a program.
const PART: i64 = 512;
/// The most rows of a tile of which one may be all that there is.
const TILE: i64 = 128;
/// Bytes of the longest tiles that one step multiplies, of single factors: 128 and 256 rows of 64 of 16 bits, or half as many
/// of 32.
const STAGE: i64 = (128 + 256) * 64 * 2;
/// The longest sum that is added up step by step: rounding errors grow with the square root of the steps.
pub(in crate::designer::emit::matmul) const LEVEL: i64 = 1024;
/// The shortest sum that has levels in every class. Matrix units cut sums off toward zero, so that errors do not cancel where
/// a result is a sum of many others.
const LONG: i64 = 16384;

impl Split<'_> {
    /// Lengths of tiles along an axis: of `most` those that it fills. Of groups of columns, tiles hold several.
    pub(super) fn lengths(&self, axis: Axis, most: &[i64]) -> Vec<i64> {
        let mut lengths = filled(self.extent(axis), most);
        if let Some(columns) = self.product.kernel.columns.filter(|columns| columns.all == axis) {
            lengths.retain(|length| *length > columns.count);
        }
        lengths
    }

    /// Lengths of tiles along the right operand's dimension of the result.
    pub(super) fn lengths_on_the_right(&self, axis: Axis) -> Vec<i64> {
        let most: &[i64] = match self.factors() {
            // A program of one step has nothing to do while it waits: small ones share a core.
            _ if self.is_short() => &[64, 128, 256],
            // Two sums are held beside each other.
            _ if self.length(self.depth()).is_some_and(|l| self.has_levels(l)) => &[128, 64, 256],
            _ => &[256, 128, 64],
        };
        self.lengths(axis, most)
    }

    /// Lengths of tiles along the rows and the columns of the result.
    pub(super) fn lengths_of_tiles(&self) -> [Vec<i64>; 2] {
        let [left, right] = self.sides();
        let most: &[i64] = if self.streams() { &[256, 128] } else { &[128, 64] };
        let left = self.lengths(left.kept, most);
        let right = self.lengths_on_the_right(right.kept);
        if self.is_turned {
            [right, left]
        } else {
            [left, right]
        }
    }

    /// The number and the length of the parts that the sum is computed in, if the result has few tiles.
    pub(super) fn parts(&self) -> Option<(i64, i64)> {
        let [rows, columns] = self.lengths_of_tiles();
        let tiles = self.product.tiles(*rows.first()?, *columns.first()?)?;
        let length = self.length(self.depth())?;
        let mut wanted = self.device.cores() / tiles.max(1);
        if self.streams() && length >= LONG {
            // The parts take the place of levels: registers hold one sum of a tile so long.
            let part = if self.is_summed() { 2 * LEVEL } else { LONG / 2 };
            wanted = wanted.max(ceildiv(length, part));
        }
        parts_of(length, wanted.min(length / PART), STEP)
    }

    /// Whether many elements of the product are added up, through no function that makes others of them. The error that they
    /// have in common, since units cut their sums off, is then all that is left of theirs.
    fn is_summed(&self) -> bool {
        let prims = self.product.prims;
        let mut made = HashSet::from([self.product.contract]);
        let mut later = (self.product.contract.0 + 1..prims.nodes.len()).map(PrimId);
        later.any(|id| {
            let is_function =
                matches!(prims.node(id).prim, Prim::Map(MapOp::Unary(op), _) if op.is_transcendental());
            let reads = prims.operands(id).iter().any(|operand| made.contains(operand));
            if !reads || is_function || prims.reads_memory(id) {
                return false;
            }
            made.insert(id);
            prims.summed(id).is_some_and(|count| count >= LEVEL)
        })
    }

    /// Whether a long operand is read once, where it becomes factors, and the other, of which there is one tile, by all
    /// programs: the longer their tiles, the less they read of it. Of 32-bit factors they would otherwise read more than the
    /// last cache has time for.
    pub(super) fn streams(&self) -> bool {
        let [left, right] = self.sides();
        let is_one_tile = self.length(right.kept).is_some_and(|length| length <= TILE);
        let is_long = left.factors == Factors::Tf32;
        is_one_tile && is_long && left.is_inside && !right.is_inside
    }

    /// Whether an operand should become factors where it is multiplied. All tiles that need it read the longer f32 then, but
    /// nothing is written and read besides.
    pub(super) fn is_worth_it_inside(&self, operand: &Operand) -> bool {
        if matches!(operand.factors, Factors::Given(_)) && self.suits_copy_engines(operand) {
            return true;
        }
        let most = match operand.factors {
            // In TF32, which takes twice the time.
            Factors::F16 | Factors::Tf32 => 1,
            Factors::Halves => 2,
            Factors::Bf16 | Factors::Given(_) => 3,
        };
        let fits = self.length(self.depth()).is_some_and(|length| {
            let is_whole =
                length % STEP == 0 && self.parts().is_none_or(|(count, part)| count * part == length);
            // Beyond the end of a sum, centred rows would have to be made zero: such steps are left to halves.
            length > STEP && (is_whole || !operand.is_centred())
        });
        let others = self.product.result().into_iter();
        let mut others = others.filter(|axis| !operand.axes.contains(axis));
        let tiles = others.try_fold(1i64, |tiles, axis| {
            let is_tiled = axis == self.product.rows || axis == self.product.columns;
            let length = if is_tiled {
                self.lengths_on_the_right(axis).first().copied()?
            } else {
                1
            };
            Some(tiles.saturating_mul(ceildiv(self.length(axis)?, length)))
        });
        fits && tiles.is_some_and(|tiles| tiles <= most)
    }

    /// Whether rows of an operand lie in memory as copy engines ask.
    fn suits_copy_engines(&self, operand: &Operand) -> bool {
        let shape = self.product.kernel.shapes.get(&operand.access.tensor);
        let row = shape.and_then(|extents| extents.last());
        row.is_some_and(|row| row.exact_div(&Expr::constant(GRAIN)).is_some())
    }

    /// Lengths of the steps of the sum to choose from.
    pub(super) fn lengths_of_steps(&self) -> Vec<i64> {
        let [_, right] = self.sides();
        let steps: &[i64] = match self.factors() {
            // A short sum is one step, and nothing is left to choose.
            _ if self.is_short() => &[STEP],
            Factors::Halves | Factors::Given(_) => &[STEP, STEP / 2],
            // A long tile of f32 takes the memory of two.
            _ if right.is_inside || right.dtype() == DType::F32 => &[STEP / 2, STEP],
            _ => &[STEP, STEP / 2],
        };
        self.lengths(self.depth(), steps)
    }

    /// How many steps of the sum may be under way.
    pub(super) fn stages(&self) -> &'static [i64] {
        let is_single = matches!(self.factors(), Factors::F16 | Factors::Bf16 | Factors::Tf32);
        if is_single && self.device.tile_bytes() >= 4 * STAGE {
            &[4, 3, 2]
        } else {
            &[3, 4, 2]
        }
    }

    /// The length of the parts of a sum of `length` that are added up apart from each other, if it has some.
    pub(super) fn level(&self, length: i64) -> Option<i64> {
        level_of(length).filter(|_| self.has_levels(length))
    }

    /// Whether a sum of `length` has parts that are added up apart from each other.
    pub(super) fn has_levels(&self, length: i64) -> bool {
        self.device.sums_in_full() || length >= LONG
    }

    pub(super) fn is_short(&self) -> bool {
        self.length(self.depth()).is_some_and(|length| length <= STEP)
    }
}

/// The products that are summed before their sum is added to those before, if a sum of `length` is so long that its error
/// would grow.
pub(super) fn level_of(length: i64) -> Option<i64> {
    let count = ceildiv(length, LEVEL);
    (count > 1).then(|| ceildiv(ceildiv(length, count), STEP) * STEP)
}

/// The number and the length of about `wanted` parts of a sum, in multiples of `step`: equal ones, if not many fewer.
pub(super) fn parts_of(length: i64, wanted: i64, step: i64) -> Option<(i64, i64)> {
    let equal = (wanted - wanted / 4..=wanted)
        .rev()
        .find(|n| length % (n * step).max(1) == 0);
    let part = ceildiv(ceildiv(length, equal.unwrap_or(wanted).max(1)), step) * step;
    let parts = ceildiv(length, part.max(1));
    (wanted > 1 && parts > 1).then_some((parts, part))
}
