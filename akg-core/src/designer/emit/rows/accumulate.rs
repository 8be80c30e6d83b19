//! Reductions: of whole tiles, and over the tiles of a loop by accumulators.

use std::ops::RangeInclusive;

use super::super::{Emitter, Var, Walk, compute_type, literal};
use super::Passes;
use crate::designer::plan::{Axis, KernelPlan};
use crate::designer::prim::{Prim, PrimId, Scan};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::sketch::ir::ReduceOp;

/// Elements at most that are summed in their own type, one after the other, and those along one axis: more are a row of a slice, and
/// no window.
const FEW: i64 = 256;
const FEW_ALONG: i64 = 32;
/// Elements of a row whose lanes are combined after a loop over rows. (In Triton 3.6 a pass that does this by itself fails
/// where the result is used twice.)
const SHORT: RangeInclusive<i64> = 0..=4;
/// The same on processors, where fewer leave vectors half empty, and more fill them without that.
const BESIDE: RangeInclusive<i64> = 8..=24;

/// The state of a reduction between tiles.
pub(super) struct Accumulator {
    pub(super) kind: Kind,
    /// The tile axes of the state.
    pub(super) axes: Vec<Axis>,
    /// The element type of the state.
    pub(super) dtype: DType,
}

pub(super) enum Kind {
    /// What all elements so far combine to; with `lane` those of each coordinate along that axis of a tile.
    Fold {
        op: ReduceOp,
        name: String,
        lane: Option<Axis>,
    },
    /// The extreme element so far and its place; with `lane` one for each coordinate along that axis of a tile.
    Extreme {
        op: ReduceOp,
        name: String,
        index: String,
        lane: Option<Axis>,
    },
}

impl Accumulator {
    /// The variables of the state that another kernel needs to go on.
    pub(super) fn names(&self) -> Vec<&str> {
        match &self.kind {
            Kind::Fold { name, .. } => vec![name],
            Kind::Extreme { name, index, .. } => vec![name, index],
        }
    }

    /// The variable that all elements so far are combined in.
    pub(super) fn fold(&self) -> Result<&str> {
        match &self.kind {
            Kind::Fold { name, .. } => Ok(name),
            Kind::Extreme { .. } => Err(Error::unexpected("an emitter combines what it should index")),
        }
    }
}

impl Passes<'_> {
    /// A reduction whose axis is in the tile as a whole.
    pub(super) fn reduce_whole(&mut self, id: PrimId) -> Result<()> {
        if let Some(element) = self.pick(id)? {
            self.emitter.define(id, element);
            return Ok(());
        }
        let (var, position) = self.argument(id)?;
        let axes = without(&var.axes, position);
        let text = match &self.emitter.prims.node(id).prim {
            Prim::ArgReduce(op, ..) => format!("i64(arg{}({}, {position}))", op.name(), var.text),
            Prim::Reduce(op, ..) => format!("reduce_{}({}, {position})", op.name(), var.text),
            _ => var.text,
        };
        let result = self.bind("s", text, axes);
        self.emitter.define(id, result);
        Ok(())
    }

    /// Declares the accumulator of a reduction or scan; `apart` says that lanes may be summed by themselves.
    pub(super) fn start(&mut self, id: PrimId, apart: bool) -> Result<Accumulator> {
        let along = self.along(id);
        let short = self.short();
        let e = &mut self.emitter;
        let kept: Vec<Axis> = e
            .tile
            .iter()
            .copied()
            .filter(|a| !e.kernel.reduced.contains(a))
            .collect();
        let mut extents = e.extents(&kept)?;
        let element = compute_type(e.prims.dtype(e.prims.operands(id)[0]));
        // Sums over many tiles are kept in f64 so that their error does not grow with the number of tiles.
        let wide = if element == DType::F32 && !sums_few(e.kernel) {
            DType::F64
        } else {
            element
        };
        let (kind, dtype) = match e.prims.node(id).prim {
            Prim::ArgReduce(op, ..) => {
                let (name, index) = (e.fresh("acc"), e.fresh("at"));
                let lane = e.tile.iter().copied().find(|a| e.kernel.reduced.contains(a));
                let lane = lane.filter(|_| self.spreads);
                if lane.is_some() {
                    extents = e.extents(&e.tile)?;
                }
                let places = lane.map_or(DType::I64, |_| index_type(e, &along));
                e.line(format!("{index} = zeros {places}{extents}"));
                let kind = Kind::Extreme {
                    op,
                    name,
                    index,
                    lane,
                };
                (kind, element)
            }
            Prim::Reduce(op, ..) | Prim::Scan(Scan { op, .. }, _) => {
                let dtype = match op {
                    ReduceOp::Sum | ReduceOp::Prod => wide,
                    ReduceOp::Max | ReduceOp::Min => element,
                };
                let name = e.fresh("acc");
                let lane = e.tile.first().copied().filter(|a| e.kernel.reduced.contains(a));
                let lane = lane.filter(|_| apart && op == ReduceOp::Sum && !kept.is_empty());
                let lane = lane.or(short.filter(|_| !kept.is_empty()));
                if lane.is_some() {
                    extents = e.extents(&e.tile)?;
                }
                (Kind::Fold { op, name, lane }, dtype)
            }
            _ => return Err(Error::unexpected("an emitter accumulates what is no reduction")),
        };
        let (name, first) = match &kind {
            Kind::Fold { op, name, .. } | Kind::Extreme { op, name, .. } => (name, identity(*op, dtype)),
        };
        // A single tile is all that there is.
        if !self.loops.is_empty() {
            e.line(format!("{name} = full {dtype}{extents} {first}"));
        }
        Ok(Accumulator {
            kind,
            axes: kept,
            dtype,
        })
    }

    /// The axis along which few elements are combined, if a loop goes over more of them: whole rows are added, and what is in a row
    /// is combined once, after the loop. Processors' vectors lie along the last axis.
    fn short(&self) -> Option<Axis> {
        let e = &self.emitter;
        let (few, first) = if self.spreads {
            (SHORT, 0)
        } else {
            (BESIDE, e.tile.len().saturating_sub(1))
        };
        let is_short = |a: &Axis| {
            let extent = e.extent(*a).as_const();
            e.kernel.reduced.contains(a) && extent.is_some_and(|extent| few.contains(&extent))
        };
        let waits = !self.loops.is_empty() && self.scales.is_empty();
        e.tile
            .iter()
            .copied()
            .skip(first)
            .find(is_short)
            .filter(|_| waits)
    }

    /// Declares the accumulators of reductions.
    pub(super) fn start_all(&mut self, reductions: &[PrimId]) -> Result<Vec<(PrimId, Accumulator)>> {
        // Where threads sum columns together, they would wait for each other once for each sum and tile.
        let sums = reductions
            .iter()
            .filter(|id| !self.scales.contains_key(id))
            .count();
        let apart = self.spreads && sums > 1 && !self.loops.is_empty();
        // A sum that shrinks with a maximum of its row has no lanes, as the maximum has none.
        let start = |id: &PrimId| {
            let apart = apart && !self.scales.contains_key(id);
            Ok((*id, self.start(*id, apart)?))
        };
        reductions.iter().map(start).collect()
    }

    /// Combines the lanes of what a loop summed by lanes.
    pub(super) fn join_lanes(&mut self, accumulator: Accumulator) -> Accumulator {
        let Kind::Fold {
            op,
            name,
            lane: Some(lane),
        } = &accumulator.kind
        else {
            return accumulator;
        };
        let position = self.emitter.tile.iter().position(|a| a == lane).unwrap_or(0);
        let text = format!("reduce_{}({name}, {position})", op.name());
        let joined = self.bind("acc", text, accumulator.axes.clone());
        Accumulator {
            kind: Kind::Fold {
                op: *op,
                name: joined.text,
                lane: None,
            },
            ..accumulator
        }
    }

    /// Takes a tile into account in all reductions of a pass.
    pub(super) fn accumulate_all(
        &mut self,
        accumulators: &[(PrimId, Accumulator)],
        masked: bool,
    ) -> Result<()> {
        for (id, accumulator) in accumulators {
            let scaled = self.scaled_by(*id, accumulators);
            if !scaled.is_empty() {
                self.accumulate_scaled(*id, accumulator, &scaled, masked)?;
            } else if !self.scales.contains_key(id) {
                self.accumulate(*id, accumulator, masked)?;
            }
        }
        Ok(())
    }

    /// Takes a tile into account.
    fn accumulate(&mut self, id: PrimId, accumulator: &Accumulator, masked: bool) -> Result<()> {
        let (mut var, position) = self.argument(id)?;
        let e = &self.emitter;
        if !e.tile.iter().any(|a| e.kernel.reduced.contains(a)) {
            return self.accumulate_elements(id, &var, accumulator);
        }
        let element = self.element_type(id);
        let widened = |text: String| {
            if accumulator.dtype == element {
                text
            } else {
                format!("{}({text})", accumulator.dtype)
            }
        };
        if masked {
            let neutral = match &accumulator.kind {
                Kind::Fold { op, .. } | Kind::Extreme { op, .. } => identity(*op, element),
            };
            var = self.mask(var, position, &neutral)?;
        }
        match &accumulator.kind {
            Kind::Fold {
                op,
                name,
                lane: Some(_),
            } => {
                let element = widened(Emitter::expanded(&var, &self.emitter.tile));
                let so_far = combined(*op, name, &element);
                self.emitter.line(format!("{name} = {so_far}"));
            }
            Kind::Fold { op, name, lane: None } => {
                let reduce = |x: &str| format!("reduce_{}({x}, {position})", op.name());
                // Threads that wait for memory convert every element for nothing; others only sums of tiles.
                let reduced = if self.spreads && !self.busy {
                    reduce(&widened(var.text))
                } else {
                    widened(reduce(&var.text))
                };
                let so_far = if self.loops.is_empty() {
                    reduced
                } else {
                    combined(*op, name, &reduced)
                };
                self.emitter.line(format!("{name} = {so_far}"));
            }
            Kind::Extreme {
                op,
                name,
                index,
                lane: None,
            } => self.accumulate_index(id, &var, position, *op, (name, index)),
            Kind::Extreme {
                op,
                name,
                index,
                lane: Some(_),
            } => self.accumulate_lanes(id, &var, *op, (name, index))?,
        }
        Ok(())
    }

    /// The type in which the elements of a combination are computed.
    fn element_type(&self, id: PrimId) -> DType {
        let prims = self.emitter.prims;
        compute_type(prims.dtype(prims.operands(id)[0]))
    }

    /// Takes a tile with one element for each combination into account.
    fn accumulate_elements(&mut self, id: PrimId, var: &Var, accumulator: &Accumulator) -> Result<()> {
        let Kind::Fold { op, name, .. } = &accumulator.kind else {
            return Err(Error::unsupported(
                "no design rule yet for the place of an extreme element in a sliding window",
            ));
        };
        let dtype = accumulator.dtype;
        let mut element = Emitter::expanded(var, &accumulator.axes);
        if dtype != self.element_type(id) {
            element = format!("{dtype}({element})");
        }
        let so_far = combined(*op, name, &element);
        self.emitter.line(format!("{name} = {so_far}"));
        Ok(())
    }

    /// The axes along which an extreme element has its place.
    fn along(&self, id: PrimId) -> Vec<Axis> {
        self.emitter.kernel.places.get(&id).cloned().unwrap_or_default()
    }

    /// The place in its dimension of what is at `at` in the tile.
    fn place(&self, id: PrimId, at: &str) -> String {
        let mut terms = Vec::new();
        let mut stride = Expr::constant(1);
        for axis in self.along(id).iter().rev() {
            let term = match self.emitter.walks.get(axis) {
                Some(Walk::Tile { start, .. }) => format!("({at} + {start})"),
                Some(Walk::Index(name)) => name.clone(),
                None => at.to_owned(),
            };
            terms.push(if stride.is(1) {
                term
            } else {
                format!("{term}*({stride})")
            });
            stride = &stride * self.emitter.extent(*axis);
        }
        terms.join(" + ")
    }

    /// Keeps the first extreme element: a later tile wins only if it is strictly better, or the first with a NaN.
    fn accumulate_index(
        &mut self,
        id: PrimId,
        var: &Var,
        position: usize,
        op: ReduceOp,
        (name, index): (&str, &str),
    ) {
        let suffix = op.name();
        let at = self.place(id, &format!("i64(arg{suffix}({}, {position}))", var.text));
        let e = &mut self.emitter;
        let (value, place) = (e.fresh("v"), e.fresh("at"));
        e.line(format!("{value} = reduce_{suffix}({}, {position})", var.text));
        e.line(format!("{place} = {at}"));
        let wins = self.wins(id, op, (&value, &place), (name, index));
        let e = &mut self.emitter;
        e.line(format!("{index} = select({wins}, {place}, {index})"));
        e.line(format!("{name} = {suffix}({name}, {value})"));
    }

    /// The same for each coordinate along an axis of the tile by itself, so that threads need not talk to each other.
    fn accumulate_lanes(
        &mut self,
        id: PrimId,
        var: &Var,
        op: ReduceOp,
        (name, index): (&str, &str),
    ) -> Result<()> {
        let along = self.along(id);
        let place = self
            .emitter
            .coordinate(&along, index_type(&self.emitter, &along))?;
        let place = Emitter::expanded(&place, &self.emitter.tile);
        let value = Emitter::expanded(var, &self.emitter.tile);
        let wins = self.wins(id, op, (&value, &place), (name, index));
        let e = &mut self.emitter;
        e.line(format!("{index} = select({wins}, {place}, {index})"));
        e.line(format!("{name} = select({wins}, {value}, {name})"));
        Ok(())
    }

    /// Where an element takes the place of the extreme one so far. Walks along several axes need not come to equal elements,
    /// of which all NaN are some, in the order of their places.
    fn wins(
        &mut self,
        id: PrimId,
        op: ReduceOp,
        (value, place): (&str, &str),
        (so_far, index): (&str, &str),
    ) -> String {
        let sign = if op == ReduceOp::Max { ">" } else { "<" };
        let is_float = self.element_type(id).is_float();
        let earlier = if self.along(id).len() > 1 {
            let same = if is_float {
                format!("({value} == {so_far}) | (isnan({value}) & isnan({so_far}))")
            } else {
                format!("{value} == {so_far}")
            };
            format!(" | (({same}) & ({place} < {index}))")
        } else {
            String::new()
        };
        let wins = self.emitter.fresh("wins");
        let nan = if is_float {
            format!(" | (isnan({value}) & !isnan({so_far}))")
        } else {
            String::new()
        };
        self.emitter
            .line(format!("{wins} = ({value} {sign} {so_far}){nan}{earlier}"));
        wins
    }

    /// The place of the first of the extreme elements of all coordinates along `lane`.
    fn first_of_lanes(
        &mut self,
        id: PrimId,
        op: ReduceOp,
        (name, index): (&str, &str),
        lane: Axis,
    ) -> Result<Var> {
        let tile = self.emitter.tile.clone();
        let position = tile.iter().position(|a| *a == lane).unwrap_or(0);
        let axes = without(&tile, position);
        let text = format!("reduce_{}({name}, {position})", op.name());
        let best = self.bind("v", text, axes.clone());
        let marks: Vec<_> = tile
            .iter()
            .map(|a| if *a == lane { "None" } else { ":" })
            .collect();
        let best = if axes.is_empty() {
            best.text
        } else {
            format!("{}[{}]", best.text, marks.join(", "))
        };
        let end = count(&self.emitter, &self.along(id));
        let is_best = if self.element_type(id).is_float() {
            format!("({name} == {best}) | isnan({name})")
        } else {
            format!("{name} == {best}")
        };
        let text = format!("select({is_best}, {index}, {end})");
        let places = self.bind("at", text, tile).text;
        Ok(self.bind("s", format!("i64(reduce_min({places}, {position}))"), axes))
    }

    /// Names a tile.
    pub(super) fn bind(&mut self, stem: &str, text: impl AsRef<str>, axes: Vec<Axis>) -> Var {
        let name = self.emitter.fresh(stem);
        self.emitter.line(format!("{name} = {}", text.as_ref()));
        Var { text: name, axes }
    }

    /// Makes what a loop accumulated the value of a reduction.
    pub(super) fn conclude(&mut self, id: PrimId, accumulator: Accumulator) -> Result<()> {
        let own = compute_type(self.emitter.prims.dtype(id));
        let var = match accumulator.kind {
            Kind::Fold { name, .. } if accumulator.dtype == own => Var {
                text: name,
                axes: accumulator.axes,
            },
            Kind::Fold { name, .. } => self.bind("s", format!("{own}({name})"), accumulator.axes),
            Kind::Extreme {
                op,
                name,
                index,
                lane: Some(lane),
            } => self.first_of_lanes(id, op, (&name, &index), lane)?,
            Kind::Extreme { index, .. } => Var {
                text: index,
                axes: accumulator.axes,
            },
        };
        self.emitter.define(id, var);
        Ok(())
    }
}

/// Whether a kernel combines so few elements, those that a window sees, that sums of their own type lose little.
fn sums_few(kernel: &KernelPlan) -> bool {
    let taps = kernel.taps();
    let extents = kernel.reduced.iter().map(|a| kernel.extents.get(*a)?.as_const());
    let mut few = extents.map(|extent| extent.filter(|extent| *extent <= FEW_ALONG));
    let count = few.try_fold(1i64, |all, extent| all.checked_mul(extent?));
    kernel.reduced.is_subset(&taps) && count.is_some_and(|count| count <= FEW)
}

/// The number of places along axes.
fn count(emitter: &Emitter<'_>, axes: &[Axis]) -> Expr {
    let extents = axes.iter().map(|axis| emitter.extent(*axis));
    extents.fold(Expr::constant(1), |all, extent| &all * extent)
}

/// The type of places along axes: the narrow one where it is known to hold them all.
fn index_type(emitter: &Emitter<'_>, axes: &[Axis]) -> DType {
    match count(emitter, axes).as_const() {
        Some(extent) if i32::try_from(extent).is_ok() => DType::I32,
        _ => DType::I64,
    }
}

/// All axes but the one at `position`.
fn without(axes: &[Axis], position: usize) -> Vec<Axis> {
    let others = axes.iter().enumerate().filter(|(i, _)| *i != position);
    others.map(|(_, a)| *a).collect()
}

/// The combination of two results of a reduction.
pub(super) fn combined(op: ReduceOp, a: &str, b: &str) -> String {
    match op {
        ReduceOp::Sum => format!("{a} + {b}"),
        ReduceOp::Prod => format!("{a} * {b}"),
        ReduceOp::Max => format!("max({a}, {b})"),
        ReduceOp::Min => format!("min({a}, {b})"),
    }
}

pub(super) fn identity(op: ReduceOp, dtype: DType) -> String {
    let extreme = |low: bool| match dtype {
        d if d.is_float() => literal(if low { f64::NEG_INFINITY } else { f64::INFINITY }, d),
        DType::Bool => i64::from(!low).to_string(),
        d => {
            let bits = 8 * d.size() as u32 - u32::from(d != DType::U8);
            let top = ((1i128 << bits) - 1) as i64;
            if !low {
                top.to_string()
            } else if d == DType::U8 {
                "0".to_owned()
            } else {
                // Its magnitude alone does not fit i64.
                format!("(-{top} - 1)")
            }
        }
    };
    match op {
        ReduceOp::Sum => literal(0.0, dtype),
        ReduceOp::Prod => literal(1.0, dtype),
        ReduceOp::Max => extreme(true),
        ReduceOp::Min => extreme(false),
    }
}
