//! Sums of exponentials in the pass that finds their maximum: whenever a tile raises the maximum, the sum so far shrinks
//! accordingly (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018).

use super::super::{Emitter, Var, literal};
use super::Passes;
use super::accumulate::Accumulator;
use crate::designer::plan::KernelPlan;
use crate::designer::prim::{MapOp, Prim, PrimId, Prims};
use crate::dtype::DType;
use crate::error::Result;
use crate::sketch::ir::{BinaryOp, ReduceOp, UnaryOp};

/// The terms of a sum in the tile that a program holds.
#[derive(Debug, Clone)]
pub(super) struct Held {
    /// The maximum that scales them in the end, and that of the tile, which does so far.
    max: PrimId,
    top: Var,
    values: Var,
}

/// The maximum `m` of `x` and the terms, if `id` is the sum of `exp(x - m)`.
pub(in crate::designer::emit) fn scaled_sum(
    prims: &Prims,
    kernel: &KernelPlan,
    id: PrimId,
) -> Option<(PrimId, PrimId)> {
    let prim = |id: PrimId| &prims.node(id).prim;
    let operand = |id: PrimId, i: usize| kernel.operands.get(&(id, i));
    let term = kernel.node(id, 0)?;
    let difference = kernel.node(term, 0)?;
    let max = kernel.node(difference, 1)?;
    let fits = matches!(prim(id), Prim::Reduce(ReduceOp::Sum, ..))
        && matches!(prim(term), Prim::Map(MapOp::Unary(UnaryOp::Exp), _))
        && matches!(prim(difference), Prim::Map(MapOp::Binary(BinaryOp::Sub), _))
        && matches!(prim(max), Prim::Reduce(ReduceOp::Max, ..))
        && operand(difference, 0) == operand(max, 0);
    fits.then_some((max, term))
}

impl Passes<'_> {
    /// Takes a tile into account in a maximum and in the `sums` whose terms it scales.
    pub(super) fn accumulate_scaled(
        &mut self,
        id: PrimId,
        max: &Accumulator,
        sums: &[&Accumulator],
        masked: bool,
    ) -> Result<()> {
        let (mut x, position) = self.argument(id)?;
        if masked {
            let lowest = literal(f64::NEG_INFINITY, max.dtype);
            x = self.mask(x, position, &lowest)?;
        }
        let so_far = max.fold()?;
        if self.loops.is_empty() {
            return self.hold_scaled(id, &x, position, (max, sums));
        }
        let text = format!("max({so_far}, reduce_max({}, {position}))", x.text);
        let top = self.bind("m", text, max.axes.clone());
        let base = self.base(&top);
        let shrink = match sums.first().map(|sum| sum.dtype) {
            Some(DType::F64) => format!("exp(f64({so_far}) - f64({}))", base.text),
            _ => format!("exp({so_far} - {})", base.text),
        };
        let shrink = self.bind("w", shrink, base.axes.clone()).text;
        let text = format!("exp({} - {})", x.text, Emitter::expanded(&base, &x.axes));
        let terms = self.bind("t", text, x.axes).text;
        for sum in sums {
            let name = sum.fold()?;
            let dtype = sum.dtype;
            let line = format!("{name} = {name}*{shrink} + {dtype}(reduce_sum({terms}, {position}))");
            self.emitter.line(line);
        }
        self.emitter.line(format!("{so_far} = {}", top.text));
        Ok(())
    }

    /// The same where a program has one tile of a row, whose terms it keeps.
    fn hold_scaled(
        &mut self,
        id: PrimId,
        x: &Var,
        position: usize,
        (max, sums): (&Accumulator, &[&Accumulator]),
    ) -> Result<()> {
        let top = Var {
            text: max.fold()?.to_owned(),
            axes: max.axes.clone(),
        };
        self.emitter
            .line(format!("{} = reduce_max({}, {position})", top.text, x.text));
        let base = self.base(&top);
        let text = format!("exp({} - {})", x.text, Emitter::expanded(&base, &x.axes));
        let values = self.bind("t", text, x.axes.clone());
        for sum in sums {
            let line = format!(
                "{} = {}(reduce_sum({}, {position}))",
                sum.fold()?,
                sum.dtype,
                values.text
            );
            self.emitter.line(line);
        }
        let scaled = self.scales.iter().filter(|(_, max)| **max == id);
        let terms: Vec<PrimId> = scaled
            .filter_map(|(sum, _)| self.operand_nodes(*sum).first().copied())
            .collect();
        for term in terms {
            let held = Held {
                max: id,
                top: top.clone(),
                values: values.clone(),
            };
            self.held.insert(term, held);
        }
        Ok(())
    }

    /// Makes those held terms known that `results` depend on: they are scaled by the maximum of the row. Where a number of
    /// the row divides them all, it divides the scale.
    pub(super) fn rescale_held(&mut self, results: &[PrimId]) -> Result<()> {
        let (needed, _) = self.needed(results.iter().copied());
        for id in needed.iter().copied() {
            if self.emitter.find(id).is_some() {
                continue;
            }
            let Some(Held { max, top, values }) = self.held.get(&id).cloned() else {
                continue;
            };
            let Some(whole) = self.emitter.find(max) else {
                continue;
            };
            let scale = self.bind("w", format!("exp({} - {})", top.text, whole.text), top.axes);
            let users: Vec<PrimId> = needed
                .iter()
                .copied()
                .filter(|user| self.operand_nodes(*user).contains(&id))
                .collect();
            let divisors: Option<Vec<Var>> =
                users.iter().map(|user| self.divisor(*user, id, &scale)).collect();
            let Some(divisors) = divisors.filter(|_| !results.contains(&id)) else {
                self.define_scaled(id, &values, &scale);
                continue;
            };
            for (user, divisor) in users.into_iter().zip(divisors) {
                let text = format!("{} / {}", scale.text, divisor.text);
                let scale = self.bind("w", text, scale.axes.clone());
                self.define_scaled(user, &values, &scale);
            }
        }
        Ok(())
    }

    /// What `user` divides the term `id` by, if that is known for each row as `scale` is.
    fn divisor(&self, user: PrimId, id: PrimId, scale: &Var) -> Option<Var> {
        let is_quotient = matches!(
            self.emitter.prims.node(user).prim,
            Prim::Map(MapOp::Binary(BinaryOp::Div), _)
        );
        let kernel = &self.emitter.kernel;
        let by = kernel
            .node(user, 1)
            .filter(|_| is_quotient && kernel.node(user, 0) == Some(id))?;
        self.emitter.find(by).filter(|divisor| divisor.axes == scale.axes)
    }

    fn define_scaled(&mut self, id: PrimId, values: &Var, scale: &Var) {
        let text = format!("{}*{}", values.text, Emitter::expanded(scale, &values.axes));
        let term = self.bind("t", text, values.axes.clone());
        self.emitter.define(id, term);
    }

    /// What to subtract for a maximum: itself, or zero if no element so far is above negative infinity.
    fn base(&mut self, max: &Var) -> Var {
        let text = format!("select({0} == -inf, 0.0, {0})", max.text);
        self.bind("b", text, max.axes.clone())
    }

    /// The sum of the sums of all parts, from tiles of the parts' maxima and sums.
    pub(super) fn combine_scaled(&mut self, sum: &Accumulator, maxima: &str, sums: &str) -> Var {
        let axis = sum.axes.len();
        let top = self.bind("m", format!("reduce_max({maxima}, {axis})"), sum.axes.clone());
        let base = self.base(&top).text;
        let base = match axis {
            0 => base,
            _ => format!("{base}[{}None]", ":, ".repeat(axis)),
        };
        let text = format!("reduce_sum({sums}*f64(exp({maxima} - {base})), {axis})");
        self.bind("s", text, sum.axes.clone())
    }

    /// The sums among the reductions of a pass whose terms `max` scales.
    pub(super) fn scaled_by<'a>(
        &self,
        max: PrimId,
        accumulators: &'a [(PrimId, Accumulator)],
    ) -> Vec<&'a Accumulator> {
        let scaled = accumulators
            .iter()
            .filter(|(id, _)| self.scales.get(id) == Some(&max));
        scaled.map(|(_, sum)| sum).collect()
    }
}
