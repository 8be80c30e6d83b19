//! Products on devices that multiply numbers shorter than f32 much faster.
//!
//! Operands of one type of 16 bits are multiplied as they are: their products are exact in f32. They are only copied where
//! rows in memory are not multiples of what copy engines ask.
//!
//! Where accuracy asks for all of f32, each operand is scaled, row by row of the sum, by a power of two and split into a
//! high and a low half. Three of the four products of such pairs give what f32 would, and more: Ootomo and Yokota,
//! "Recovering single precision accuracy from Tensor Cores while surpassing the FP32 theoretical peak performance" (2022).
//! Rows are scaled to nearly the largest half, so that low halves keep their bits without a scale of their own, and all
//! three products are of one size. Otherwise an operand becomes a single [factor](Factors).
//!
//! An operand that few tiles need becomes factors where they multiply it, others beforehand. It is then on the left of the
//! product, where tensor cores read from registers, and the result is transposed if it was on the right.
//!
//! The units that sum products cut off what does not fit, always toward zero. So partial sums of one step are added to the
//! accumulator outside of them, rounded, and rows that are smaller without their mean are centred before they are split: with
//! A = A' + a 1^T and B = B' + 1 b^T, where a and b are the rows' means, A B = A' B' + a (1^T B) + (A' 1) b^T. The sums on
//! the right are known from the pass that finds the means, and what is cut off A' B' has no sign of its own. A centre has
//! few bits, as the larger part of a sum has: their product, which may be nearly all of the result, is exact in f32.

mod lengths;
mod operand;
pub(in crate::designer::emit) mod pair;
mod split;
mod stream;
mod strips;

use std::collections::HashMap;

pub(super) use lengths::LEVEL;
use operand::Operand;
pub(in crate::designer::emit) use split::LEAST_SCALE;

use super::{Product, UNIT, ceildiv};
use crate::designer::device::{Device, Factors};
use crate::designer::emit::{Emitter, Names, Walk, Written};
use crate::designer::plan::{Access, Axis, TensorKey};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;

/// Halves lie in memory in rows of multiples of this many, 16 bytes, as copy engines ask.
const GRAIN: i64 = 8;
/// What the products of one step at most, and the parts of a sum, are multiples of.
const STEP: i64 = 64;
/// Rows whose products with each other are not worth splitting them.
const FEW_ROWS: i64 = 64;
/// Rows of a tile where the parts are added up.
const PART_ROWS: i64 = 4;
/// The largest element of a row that was scaled is between this, as a power of two, and its double.
pub(super) const TOP: &str = "0x1p14";
/// What takes that of one and of both operands off a product.
pub(super) const TOPS_OFF: [&str; 2] = ["0x1p-14", "0x1p-28"];
/// The variable for the product of what was split.
const PRODUCT: &str = "z0";

/// How a program goes along the sum.
struct Steps {
    /// The length of a step, as text.
    len: String,
    /// How many may be under way; `None` for a sum of one step.
    stages: Option<String>,
    /// The length of what is added up apart from the rest, if the sum has levels.
    level: Option<i64>,
}

impl Steps {
    /// The walk along the sum's axis, from `base` on.
    fn walk(&self, depth: Axis, base: &str) -> Walk {
        let start = match (self.level, &self.stages) {
            (Some(_), _) => format!("{base}b{depth} + r{depth}"),
            (None, None) => "0".to_owned(),
            (None, Some(_)) => format!("{base}r{depth}"),
        };
        Walk::Tile {
            start,
            len: self.len.clone(),
            overhang: true,
        }
    }
}

/// A product of factors.
struct Split<'a> {
    product: &'a Product<'a>,
    device: Device<'a>,
    number: usize,
    operands: [Operand; 2],
    /// Whether dots have the right operand on their left, and make the transposed result.
    is_turned: bool,
}

/// Writes the kernels of `product`, if they should multiply factors of its operands.
pub(super) fn emit(
    product: &Product<'_>,
    device: Device<'_>,
    names: &mut Names,
    number: usize,
) -> Result<Option<Vec<Written>>> {
    let Some(factors) = factors_of(product, device) else {
        return Ok(None);
    };
    let depth = product.extent(product.depth).as_const();
    // Of a few terms the scales and centres are more work than the sum, and less exact.
    let is_worth_it = depth.is_some_and(|depth| depth >= UNIT || matches!(factors, Factors::Given(_)));
    if product.dtype != DType::F32 || product.kernel.reduced.len() != 1 || !is_worth_it {
        return Ok(None);
    }
    // Squares have one sign, so that what is cut off them adds up. Where there are few rows, they are much of the result.
    let [a, b] = &product.operands;
    let rows = product.extent(product.rows).as_const();
    if a.tensor == b.tensor && rows.is_some_and(|rows| rows <= FEW_ROWS) {
        return Ok(None);
    }
    let operand = |i: usize, letter: char, kept: Axis| {
        let access = product.operands[i].clone();
        let mut axes = product.kernel.walked(&access);
        let is_tiled = |a: &Axis| *a == kept || *a == product.depth;
        // What tiles have one of is no row in memory.
        if !axes.last().is_some_and(is_tiled) {
            axes.sort_by_key(is_tiled);
        }
        Operand {
            axes,
            access,
            kept,
            name: format!("{letter}{number}"),
            factors,
            is_inside: false,
            meets_weights: false,
            sums_few: false,
        }
    };
    let mut split = Split {
        product,
        device,
        number,
        operands: [operand(0, 'A', product.rows), operand(1, 'B', product.columns)],
        is_turned: false,
    };
    split.settle();
    if split.lengths_of_tiles().iter().any(Vec::is_empty) {
        return Err(Error::unsupported(
            "no design rule yet for tiles that hold several groups of so many columns",
        ));
    }
    let mut written = Vec::new();
    for operand in &split.operands {
        if !operand.is_inside || operand.is_scaled() {
            written.extend(split.write_factors(operand, names)?);
        }
    }
    if let Some(tiles) = split.tiles_of_strips() {
        written.push(split.write_strips(names, &tiles)?);
    } else if let Some(stream) = split.stream() {
        written.extend(split.write_stream(names, &stream)?);
    } else {
        written.extend(split.write_product(names)?);
    }
    Ok(Some(written))
}

/// What should be multiplied in the place of the operands.
pub(super) fn factors_of(product: &Product<'_>, device: Device<'_>) -> Option<Factors> {
    let factors = device.factors(given(product))?;
    // The class allows for the rounding of inputs alone, and a result may hold less error than that.
    let is_input = |access: &Access| matches!(access.tensor, TensorKey::Input(_));
    let is_rough = factors == Factors::Bf16 && !product.operands.iter().all(is_input);
    Some(if is_rough { Factors::F16 } else { factors })
}

/// The type of 16 bits that both operands lie in memory in.
fn given(product: &Product<'_>) -> Option<DType> {
    let [a, b] = product.dtypes();
    (a == b && a.is_float() && a.size() == 2).then_some(a)
}

impl Split<'_> {
    fn depth(&self) -> Axis {
        self.product.depth
    }

    fn extent(&self, axis: Axis) -> &Expr {
        self.product.extent(axis)
    }

    fn length(&self, axis: Axis) -> Option<i64> {
        self.extent(axis).as_const()
    }

    fn emitter<'b>(&'b self, names: &'b Names) -> Emitter<'b> {
        Emitter::new(self.product.plan, self.product.prims, self.product.kernel, names)
    }

    /// The extent of a dimension of an operand's halves.
    fn padded(&self, operand: &Operand, axis: Axis) -> String {
        let extent = self.extent(axis);
        if operand.axes.last() != Some(&axis) {
            return extent.to_string();
        }
        match extent.as_const() {
            Some(length) => (ceildiv(length, GRAIN) * GRAIN).to_string(),
            None => format!("roundup({extent}, {GRAIN})"),
        }
    }

    /// The dimensions of an operand without the sum's.
    fn rows_of(&self, operand: &Operand) -> Vec<Axis> {
        let others = operand.axes.iter().copied();
        others.filter(|a| *a != self.depth()).collect()
    }

    fn factors(&self) -> Factors {
        self.operands[0].factors
    }

    /// Decides which operands become factors where they are multiplied, and which is on the left.
    fn settle(&mut self) {
        let inside = self
            .operands
            .each_ref()
            .map(|operand| self.is_worth_it_inside(operand));
        let is_given = matches!(self.factors(), Factors::Given(_));
        self.is_turned = inside == [false, true] && !is_given;
        for (operand, is_inside) in self.operands.iter_mut().zip(inside) {
            operand.is_inside = is_inside;
            // The range of a row is not known where it is multiplied.
            if operand.factors == Factors::F16 && inside.contains(&true) {
                operand.factors = Factors::Tf32;
            }
        }
    }

    /// The left and the right operand of dots.
    fn sides(&self) -> [&Operand; 2] {
        let [a, b] = &self.operands;
        if self.is_turned { [b, a] } else { [a, b] }
    }

    /// The kernel that multiplies, and the one that adds up the parts of the sum if there are any.
    fn write_product(&self, names: &mut Names) -> Result<Vec<Written>> {
        let (number, depth) = (self.number, self.depth());
        let lengths_of_tiles = self.lengths_of_tiles();
        let parts = self.parts();
        let mut walks = HashMap::new();
        let grid = self
            .product
            .walk_result(names, number, &lengths_of_tiles, &mut walks);
        let len = names.knob("BK", number, &self.lengths_of_steps());
        let (base, end) = match parts {
            Some((_, part)) => (format!("s0*{part} + "), part),
            None => (String::new(), self.length(depth).unwrap_or_default()),
        };
        let steps = Steps {
            len,
            stages: (!self.is_short()).then(|| names.hint("STAGES", number, self.stages())),
            level: self.level(end),
        };
        walks.insert(depth, steps.walk(depth, &base));
        let order = self.order(names, &steps);

        let mut e = self.emitter(names);
        e.walks.clone_from(&walks);
        self.add_up(&mut e, &steps, ["0", &end.to_string()])?;
        let Some((count, _)) = parts else {
            let over = format!("({}){order}", grid.join(", "));
            let product = self.finish(e, PRODUCT, &over)?;
            return Ok(vec![product]);
        };

        let name = format!("k{number}_parts");
        let region = self.product.region(&e)?;
        e.line(format!("store part{number}[s0, {region}] = {PRODUCT}"));
        let text = e.finish(&format!(
            "kernel {name} over (s0 in {count}, {}){order}",
            grid.join(", ")
        ));
        let sums = Written { name, text };
        self.product.declare_parts(names, number, count);
        let (e, over) = self
            .product
            .add_parts(names, number, count, PART_ROWS, walks, grid)?;
        Ok(vec![sums, self.finish(e, "f32(acc0)", &over)?])
    }

    /// In which order programs take the tiles of the result.
    fn order(&self, names: &mut Names, steps: &Steps) -> String {
        match self.product.result().as_slice() {
            // Short sums are over when their result is stored, best row by row.
            [.., a, b] if steps.stages.is_some() && *a == self.product.rows && *b == self.product.columns => {
                let group = names.hint("GROUP", self.number, &[8, 4, 16, 1]);
                format!(" grouped p{a} by {group}")
            }
            _ => String::new(),
        }
    }

    /// Makes [`PRODUCT`] of the steps of the sum from one of these places to the other. Of a whole sum only the tiles that
    /// are needed are computed.
    fn add_up(&self, e: &mut Emitter<'_>, steps: &Steps, [from, to]: [&str; 2]) -> Result<()> {
        let (depth, len) = (self.depth(), &steps.len);
        let condition = match self.parts() {
            Some(_) => None,
            None => self.product.condition(e)?,
        };
        let extents = e.extents(&self.sides().map(|operand| operand.kept))?;
        self.prepare(e)?;
        e.line(format!("acc0 = zeros f32{extents}"));
        if let Some(condition) = &condition {
            e.open(format!("if {condition} {{"));
        }
        let add = |e: &mut Emitter<'_>, [from, to]: [&str; 2], sum: &str| -> Result<()> {
            let Some(stages) = &steps.stages else {
                return self.multiply(e, sum);
            };
            e.open(format!(
                "for r{depth} in {from}..{to} step {len} pipeline({stages}) {{"
            ));
            self.multiply(e, sum)?;
            e.close();
            Ok(())
        };
        match steps.level {
            Some(level) => {
                e.open(format!("for b{depth} in {from}..{to} step {level} {{"));
                e.line(format!("sum0 = zeros f32{extents}"));
                let is_even = from == "0" && to.parse().is_ok_and(|to: i64| to % level == 0);
                let rest = if is_even {
                    level.to_string()
                } else {
                    format!("min({level}, {to} - b{depth})")
                };
                add(e, ["0", &rest], "sum0")?;
                e.line("acc0 = acc0 + sum0");
                e.close();
            }
            None => add(e, [from, to], "acc0")?,
        }
        if condition.is_some() {
            e.close();
        }
        e.tile = vec![self.product.rows, self.product.columns];
        self.rescale(e)
    }

    /// Loads what is needed to make factors of operands in the steps of the sum. A short sum waits for memory once: what its
    /// result needs is loaded beside the factors.
    fn prepare(&self, e: &mut Emitter<'_>) -> Result<()> {
        if self.is_short() {
            for (operand, buffer) in self.facts() {
                self.load(e, operand, &buffer)?;
            }
            return Ok(());
        }
        let inside = self.operands.iter().filter(|operand| operand.is_inside);
        for operand in inside.filter(|operand| operand.is_scaled()) {
            let (scale, inverse) = (operand.scale(), operand.inverse());
            self.load(e, operand, &operand.centre())?;
            self.load(e, operand, &scale)?;
            e.line(format!("{inverse} = {TOP} / {}", scale.to_lowercase()));
        }
        Ok(())
    }

    /// One step of the sum.
    fn multiply(&self, e: &mut Emitter<'_>, sum: &str) -> Result<()> {
        let [left, right] = self.sides();
        let left = left.factor(e, [left.kept, self.depth()])?;
        let right = right.factor(e, [self.depth(), right.kept])?;
        add_product(e, self.factors(), self.device, sum, [left, right]);
        Ok(())
    }

    /// The buffers about the rows of operands that the result needs.
    fn facts(&self) -> Vec<(&Operand, String)> {
        let [a, b] = &self.operands;
        let scaled = self.operands.iter().filter(|operand| operand.is_scaled());
        let mut facts: Vec<_> = scaled.map(|operand| (operand, operand.scale())).collect();
        if a.is_centred() {
            facts.extend([(a, a.centre()), (a, a.rest()), (b, b.centre())]);
            facts.extend(b.totals().map(|total| (b, total)));
        }
        facts
    }

    /// Loads something about the rows that the result's tile comes from. Returns what it is called.
    fn load(&self, e: &mut Emitter<'_>, operand: &Operand, buffer: &str) -> Result<String> {
        let (place, leaves) = e.place(&self.rows_of(operand))?;
        let outside = if leaves { " else 0.0" } else { "" };
        let name = buffer.to_lowercase();
        e.line(format!("{name} = load {buffer}[{}]{outside}", place.join(", ")));
        Ok(name)
    }

    /// Something about the rows that the result's tile comes from, as a tile that lines up with it.
    fn about(&self, e: &mut Emitter<'_>, operand: &Operand, buffer: &str) -> Result<String> {
        let name = if self.is_short() {
            buffer.to_lowercase()
        } else {
            self.load(e, operand, buffer)?
        };
        let is_left = operand.kept == self.product.rows;
        Ok(format!(
            "{name}{}",
            if is_left { "[:, None]" } else { "[None, :]" }
        ))
    }

    /// Makes [`PRODUCT`] of `acc0`: the product of what was made factors.
    fn rescale(&self, e: &mut Emitter<'_>) -> Result<()> {
        let sum = if self.is_turned { "trans(acc0)" } else { "acc0" };
        let scaled = self.operands.iter().filter(|operand| operand.is_scaled());
        let scales = scaled.map(|operand| self.about(e, operand, &operand.scale()));
        let scales = scales.collect::<Result<Vec<_>>>()?;
        let tops = scales.len().checked_sub(1).and_then(|i| TOPS_OFF.get(i));
        let mut terms = vec![sum];
        terms.extend(tops);
        terms.extend(scales.iter().map(String::as_str));
        e.line(format!("{PRODUCT} = {}", terms.join(" * ")));
        Ok(())
    }

    /// Makes `y0` of `sum`, a product in f32 of what was split, by adding what centring took away.
    fn restore(&self, e: &mut Emitter<'_>, sum: &str) -> Result<()> {
        let [a, b] = &self.operands;
        if !a.is_centred() {
            e.line(format!("y0 = {sum}"));
            return Ok(());
        }
        let centre_a = self.about(e, a, &a.centre())?;
        let [high, low] = b.totals();
        let (high, low) = (self.about(e, b, &high)?, self.about(e, b, &low)?);
        let (rest, centre_b) = (self.about(e, a, &a.rest())?, self.about(e, b, &b.centre())?);
        e.line(format!(
            "y0 = {centre_a} * {high} + ({centre_a} * {low} + {rest} * {centre_b} + {sum})"
        ));
        Ok(())
    }

    /// The work on the product, which is `sum` without what centring took away, and the end of a kernel over programs in the
    /// order `over`.
    fn finish(&self, mut e: Emitter<'_>, sum: &str, over: &str) -> Result<Written> {
        self.restore(&mut e, sum)?;
        self.product.finish(e, "y0", format!("k{}", self.number), over)
    }
}

/// Adds the product of the high and the low factors of the left and the right operand.
pub(super) fn add_product(
    e: &mut Emitter<'_>,
    factors: Factors,
    device: Device<'_>,
    sum: &str,
    [left, right]: [[String; 2]; 2],
) {
    let [high, low] = &left;
    let text = if factors.has_low() || device.sums_in_full() {
        format!("{sum} + {}", dot(e, factors, [high, low], &right))
    } else {
        format!("dot({high}, {}, {sum}) {}", right[0], factors.method())
    };
    e.line(format!("{sum} = {text}"));
}

/// The text of the product of the high and the low factors of the left and the right operand. What low ones add to it is
/// written before.
fn dot(e: &mut Emitter<'_>, factors: Factors, [high, low]: [&str; 2], right: &[String; 2]) -> String {
    let [right_high, right_low] = right;
    let method = factors.method();
    if !factors.has_low() {
        return format!("dot({high}, {right_high}) {method}");
    }
    e.line(format!("low = dot({low}, {right_high}) {method}"));
    e.line(format!("low = dot({high}, {right_low}, low) {method}"));
    format!("dot({high}, {right_high}, low) {method}")
}
