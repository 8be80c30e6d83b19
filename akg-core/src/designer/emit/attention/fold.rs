//! What a program of an attention keeps of its rows from one tile of keys to the next.
//!
//! Of a softmax: the maximum of a row's logits so far, and the sum of their exponentials. A tile that raises the maximum
//! shrinks the sum and the values weighted so far accordingly: Milakov and Gimelshein, "Online normalizer calculation for
//! softmax" (2018). Weights that are made element by element have a scale in its place, which is a power of two, so that
//! they are in the range of their factors.

use super::Tiled;
use super::roles::Softmax;
use crate::designer::emit::matmul::factors::LEAST_SCALE;
use crate::designer::emit::text::literal;
use crate::designer::emit::{Emitter, Var, Walk};
use crate::dtype::DType;
use crate::error::Result;

impl Tiled<'_> {
    /// What is kept before the first tile.
    pub(super) fn begin(&self, e: &mut Emitter<'_>) -> Result<()> {
        let rows = e.extents(&[self.axes.rows])?;
        let least = match self.roles.softmax {
            Some(_) => "-inf",
            None => LEAST_SCALE,
        };
        e.line(format!("max0 = full f32{rows} {least}"));
        if self.sums_weights() {
            e.line(format!("sum0 = zeros {}{rows}", self.sums()));
        }
        Ok(())
    }

    /// Takes a tile of keys, whose scores are known, into account.
    pub(super) fn step(&self, e: &mut Emitter<'_>) -> Result<()> {
        let x = self.of_tile(e)?;
        if self.roles.softmax.is_some() {
            e.line(format!("max1 = max(max0, reduce_max({x}, 1))"));
            // While everything is -inf there is no difference to take.
            e.line("base0 = select(max1 == -inf, 0.0, max1)");
            e.line("less0 = exp(max0 - base0)");
            e.line(format!("e0 = exp({x} - base0[:, None])"));
        } else {
            e.line(format!("max1 = max(max0, pow2_floor(reduce_max(abs({x}), 1)))"));
            e.line("less0 = max0 / max1");
            e.line(format!("e0 = {x} * (1.0 / max1)[:, None]"));
        }
        if self.sums_weights() {
            let [less, sum] = ["less0", "reduce_sum(e0, 1)"].map(|term| match self.sums() {
                DType::F64 => format!("f64({term})"),
                _ => term.to_owned(),
            });
            e.line(format!("sum0 = sum0 * {less} + {sum}"));
        }
        self.pair.weigh(e, "e0", "less0")?;
        e.line("max0 = max1");
        Ok(())
    }

    /// What the rows of weighted values are multiplied by in the end: a tile along the rows. The sum of weights is in f32
    /// from here on.
    pub(super) fn coefficient(&self, e: &mut Emitter<'_>) -> Result<String> {
        let rows = [self.axes.rows];
        e.tile = rows.to_vec();
        if self.sums_weights() && self.sums() != DType::F32 {
            e.line("sum1 = f32(sum0)");
        }
        let Some(Softmax {
            maxima, term, sums, ..
        }) = &self.roles.softmax
        else {
            return Ok("max0".to_owned());
        };
        let of_rows = |text: &str| Var {
            text: text.to_owned(),
            axes: rows.to_vec(),
        };
        for id in maxima {
            e.define(*id, of_rows("max0"));
        }
        for id in sums {
            e.define(*id, of_rows(self.sum()));
        }
        // What is left of weights without the exponentials.
        e.line(format!("one0 = full f32{} 1.0", e.extents(&rows)?));
        e.define(*term, of_rows("one0"));
        let coefficient = e.value(self.roles.weights)?;
        e.repeated(&coefficient, &rows, DType::F32)
    }

    /// The sum of a row's weights in f32.
    pub(super) fn sum(&self) -> &'static str {
        match self.sums() {
            DType::F32 => "sum0",
            _ => "sum1",
        }
    }

    /// Whether the sum of weights is needed.
    fn sums_weights(&self) -> bool {
        self.roles.softmax.is_some() || self.pair.restores()
    }

    /// The type that weights are added up in: of the tiles, each is the sum of many already.
    fn sums(&self) -> DType {
        if self.device.sums_in_full() {
            DType::F64
        } else {
            DType::F32
        }
    }

    /// What is computed of a tile of scores, with nothing beyond the keys.
    fn of_tile(&self, e: &mut Emitter<'_>) -> Result<String> {
        let keys = self.axes.keys;
        let x = e.value(self.roles.of_tiles())?;
        let x = e.repeated(&x, &[self.axes.rows, keys], DType::F32)?;
        if !matches!(e.walks.get(&keys), Some(Walk::Tile { overhang: true, .. })) {
            return Ok(x);
        }
        let place = e.coordinate(&[keys], DType::I64)?.text;
        let inside = format!("({place} < {})[None, :]", e.extent(keys));
        let nothing = literal(self.roles.nothing(), DType::F32);
        e.line(format!("x0 = select({inside}, {x}, {nothing})"));
        Ok("x0".to_owned())
    }
}
