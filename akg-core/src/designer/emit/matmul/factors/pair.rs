//! The two products of an attention, of factors.
//!
//! Queries, keys and values become factors beforehand, as operands of other products do. Weights, of which none is above
//! two, become factors where they are made. They are not centred: what is taken off the rows of values comes back with the
//! sum of weights, which is known. Values are not centred where rows do not see all keys: the first row of a causal attention is one
//! value.

use super::{Operand, Split, TOP, TOPS_OFF, dot};
use crate::designer::device::{Device, Factors};
use crate::designer::emit::matmul::Product;
use crate::designer::emit::{Emitter, Names, Written};
use crate::designer::plan::{Access, Axis};
use crate::error::Result;

/// Scores, and values weighted by what is made of them.
pub(in crate::designer::emit) struct Pair<'a> {
    scores: Split<'a>,
    weighted: Split<'a>,
    /// Whether the first operand of scores is the keys, and that of the other product the values.
    turned: [bool; 2],
    factors: Factors,
}

/// The variables for the high and the low factor of a tile.
pub(in crate::designer::emit) type Tile = [String; 2];

impl<'a> Pair<'a> {
    /// The products of kernel number `number`, whether the first operand of scores is the keys, and that of the other product the
    /// values, and whether rows may see few keys.
    pub(in crate::designer::emit) fn new(
        [scores, weighted]: [&'a Product<'a>; 2],
        turned: [bool; 2],
        device: Device<'a>,
        number: usize,
        factors: Factors,
        sees_few: bool,
    ) -> Self {
        let split = |product: &'a Product<'a>, [a, b]: [char; 2], meets_weights: bool| {
            let operand = |access: &Access, letter: char, kept: Axis| Operand {
                axes: product.kernel.walked(access),
                access: access.clone(),
                kept,
                name: format!("{letter}{number}"),
                factors,
                is_inside: matches!(factors, Factors::Given(_)),
                meets_weights,
                sums_few: meets_weights && sees_few,
            };
            let [left, right] = &product.operands;
            Split {
                product,
                device,
                number,
                operands: [operand(left, a, product.rows), operand(right, b, product.columns)],
                is_turned: false,
            }
        };
        Self {
            scores: split(scores, if turned[0] { ['K', 'Q'] } else { ['Q', 'K'] }, false),
            weighted: split(weighted, if turned[1] { ['V', 'W'] } else { ['W', 'V'] }, true),
            turned,
            factors,
        }
    }

    /// Queries and keys.
    fn of_scores(&self) -> [&Operand; 2] {
        let [a, b] = &self.scores.operands;
        if self.turned[0] { [b, a] } else { [a, b] }
    }

    fn values(&self) -> &Operand {
        let [a, b] = &self.weighted.operands;
        if self.turned[1] { a } else { b }
    }

    fn keys(&self) -> Axis {
        self.of_scores()[1].kept
    }

    /// The kernels that make factors.
    pub(in crate::designer::emit) fn write_factors(&self, names: &mut Names) -> Result<Vec<Written>> {
        let mut written = Vec::new();
        let queries_and_keys = self.of_scores().map(|operand| (&self.scores, operand));
        for (split, operand) in queries_and_keys
            .into_iter()
            .chain([(&self.weighted, self.values())])
        {
            if !operand.is_inside {
                written.extend(split.write_factors(operand, names)?);
            }
        }
        Ok(written)
    }

    /// What is asked about the rows of an operand of scores beside their scale, if they are centred.
    fn facts(&self, operand: &Operand) -> Vec<String> {
        if !operand.is_centred() {
            return Vec::new();
        }
        let mut facts = vec![operand.centre()];
        if operand.kept == self.scores.product.rows {
            facts.push(operand.rest());
        } else {
            facts.extend(operand.totals());
        }
        facts
    }

    /// Loads a program's queries, and what is known of their rows.
    pub(in crate::designer::emit) fn load_queries(&self, e: &mut Emitter<'_>) -> Result<Tile> {
        let [queries, _] = self.of_scores();
        let tile = queries.factor(e, [queries.kept, self.scores.depth()])?;
        if queries.is_scaled() {
            let scale = self.scores.load(e, queries, &queries.scale())?;
            e.line(format!("unit0 = {scale} * {}", TOPS_OFF[1]));
        }
        for fact in self.facts(queries) {
            self.scores.load(e, queries, &fact)?;
        }
        Ok(tile)
    }

    /// Makes the scores of a tile of keys. Returns what they are called.
    pub(in crate::designer::emit) fn score(
        &self,
        e: &mut Emitter<'_>,
        [high, low]: &Tile,
    ) -> Result<&'static str> {
        let [queries, keys] = self.of_scores();
        let key = keys.factor(e, [self.scores.depth(), keys.kept])?;
        let product = dot(e, self.factors, [high, low], &key);
        e.line(format!("s0 = {product}"));
        if !keys.is_scaled() {
            return Ok("s0");
        }
        let scale = self.scores.load(e, keys, &keys.scale())?;
        e.line(format!("s0 = s0 * unit0[:, None] * {scale}[None, :]"));
        if !keys.is_centred() {
            return Ok("s0");
        }
        for fact in self.facts(keys) {
            self.scores.load(e, keys, &fact)?;
        }
        let about = |operand: &Operand, what: &str| {
            let marks = if operand.kept == queries.kept {
                "[:, None]"
            } else {
                "[None, :]"
            };
            format!("{}{marks}", what.to_lowercase())
        };
        // As in other products: left is the one of which the rest is known.
        let [left, right] = &self.scores.operands;
        let [total_high, total_low] = right.totals().map(|total| about(right, &total));
        let (centre, rest) = (about(left, &left.centre()), about(left, &left.rest()));
        let centre_right = about(right, &right.centre());
        e.line(format!(
            "s0 = {centre} * {total_high} + ({centre} * {total_low} + {rest} * {centre_right} + s0)"
        ));
        Ok("s0")
    }

    /// Adds the values of a tile of keys to `acc0`, which shrinks first. Both are given by the names of tiles: `weights`, and
    /// how the rows `shrink`.
    pub(in crate::designer::emit) fn weigh(
        &self,
        e: &mut Emitter<'_>,
        weights: &str,
        shrink: &str,
    ) -> Result<()> {
        let values = self.values();
        let factors = values.factor(e, [self.keys(), values.kept])?;
        let shrunk = format!("acc0 * {shrink}[:, None]");
        let whole = if values.is_scaled() {
            format!("{weights} * {TOP}")
        } else {
            weights.to_owned()
        };
        let method = self.factors.method();
        if self.factors.has_low() {
            e.line(format!("whole0 = {whole}"));
            e.line("wh = f16(whole0)");
            e.line("wl = f16(whole0 - f32(wh))");
        } else {
            e.line(format!("wh = {method}({whole})"));
        }
        let length = self.weighted.length(self.keys()).unwrap_or(i64::MAX);
        let text = if self.factors.has_low() || self.weighted.has_levels(length) {
            format!("{shrunk} + {}", dot(e, self.factors, ["wh", "wl"], &factors))
        } else {
            format!("dot(wh, {}, {shrunk}) {method}", factors[0])
        };
        e.line(format!("acc0 = {text}"));
        Ok(())
    }

    /// The weighted values, from `acc0` and what its rows are multiplied by: names of tiles, of which the second is the sum
    /// of a row's weights.
    pub(in crate::designer::emit) fn conclude(
        &self,
        e: &mut Emitter<'_>,
        coefficient: &str,
        sum: &str,
    ) -> Result<String> {
        let values = self.values();
        if !values.is_scaled() {
            return Ok(format!("acc0 * {coefficient}[:, None]"));
        }
        let scale = self.weighted.load(e, values, &values.scale())?;
        let text = format!(
            "acc0 * {} * {scale}[None, :] * {coefficient}[:, None]",
            TOPS_OFF[1]
        );
        if !self.restores() {
            return Ok(text);
        }
        let centre = self.weighted.load(e, values, &values.centre())?;
        Ok(format!(
            "{centre}[None, :] * ({sum} * {coefficient})[:, None] + {text}"
        ))
    }

    /// Whether something was taken off the values, which comes back with the sum of weights.
    pub(in crate::designer::emit) fn restores(&self) -> bool {
        self.values().is_centred()
    }
}
