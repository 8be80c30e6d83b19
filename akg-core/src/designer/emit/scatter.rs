//! Rows that are written to an input in place, each where its number says.

use super::text::compute_type;
use super::{Emitter, Names, Var, Walk, Written};
use crate::designer::plan::{Access, Axis, KernelPlan, Plan};
use crate::designer::prim::{PrimId, Prims};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Elements that a program copies at most.
const ELEMENTS: u64 = 1024;
/// Numbers that are searched at a time.
const NUMBERS: u64 = 1024;

/// Writes kernel number `number`, which is the scatter `id`: a program for each row and tile of its elements.
///
/// Of rows with the same number the last one stays, so each program looks for a later one and writes nothing if there is one.
pub(in crate::designer) fn emit(
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
    names: &mut Names,
    number: usize,
    id: PrimId,
) -> Result<Written> {
    let (numbers, rows) = (kernel.loaded(id, 0)?, kernel.loaded(id, 1)?);
    let [(_, output)] = kernel.stores.as_slice() else {
        return Err(Error::unexpected("a scatter writes one tensor"));
    };
    let of_numbers = |axis: &Axis| numbers.axes.contains(axis);
    let named: Vec<Axis> = output
        .axes
        .iter()
        .copied()
        .filter(|axis| !rows.axes.contains(axis))
        .collect();
    let [named] = named[..] else {
        return Err(Error::unsupported(
            "no design rule yet for how rows are arranged that are written in place",
        ));
    };
    let mut walks: Vec<(Axis, Walk)> = Vec::new();
    let mut programs = Vec::new();
    let mut index = |axis: Axis| {
        let program = format!("p{}", programs.len());
        programs.push(format!("{program} in {}", kernel.extents[axis]));
        walks.push((axis, Walk::Index(program)));
    };
    let elements: Vec<Axis> = rows.axes.iter().copied().filter(|a| !of_numbers(a)).collect();
    numbers.axes.iter().for_each(|axis| index(*axis));
    let last = match elements.split_last() {
        Some((last, outer)) => {
            outer.iter().for_each(|axis| index(*axis));
            let extent = kernel.extents[*last].as_const();
            let len = extent.map_or(ELEMENTS, |n| n.unsigned_abs().next_power_of_two().min(ELEMENTS));
            let len = names.knob("BN", number, &[len as i64]);
            let program = format!("p{}", programs.len());
            programs.push(format!("{program} in ceildiv({}, {len})", kernel.extents[*last]));
            let walk = Walk::Tile {
                start: format!("{program}*{len}"),
                len,
                overhang: true,
            };
            walks.push((*last, walk));
            Some(*last)
        }
        None => None,
    };
    let search = (!numbers.axes.is_empty()).then(|| {
        let extents = numbers.axes.iter().map(|axis| kernel.extents[*axis].as_const());
        let count = extents.product::<Option<i64>>();
        let len = count.map_or(NUMBERS, |n| n.unsigned_abs().next_power_of_two().min(NUMBERS));
        names.knob("BJ", number, &[len as i64])
    });
    let mut e = Emitter::new(plan, prims, kernel, names);
    e.tile = last.into_iter().collect();
    e.walks.extend(walks);
    let count = kernel.extents[named].to_string();
    let given = e.load_as(numbers, DType::I64)?.text;
    let mut at = e.fresh("n");
    e.line(format!("{at} = select({given} < 0, {given} + {count}, {given})"));
    if let Some(len) = search {
        at = unless_later(&mut e, numbers, &len, &at, &count)?;
    }
    let row = e.load(rows)?;
    let mut parts = Vec::new();
    let mut order = Vec::new();
    for axis in &output.axes {
        if *axis == named {
            parts.push(at.clone());
        } else {
            parts.push(e.place(&[*axis])?.0.concat());
            order.extend(e.tile.iter().copied().filter(|a| a == axis));
        }
    }
    let own = plan.dtype(&output.tensor);
    let mut text = Emitter::expanded(&row, &order);
    if compute_type(own) != own {
        text = format!("{own}({text})");
    }
    let name = e.name(&output.tensor)?.to_owned();
    e.line(format!("store {name}[{}] = {text}", parts.join(", ")));
    e.define(
        id,
        Var {
            text: row.text,
            axes: order,
        },
    );
    let name = format!("k{number}");
    if programs.is_empty() {
        programs.push("p0 in 1".to_owned());
    }
    let text = e.finish(&format!("kernel {name} over ({})", programs.join(", ")));
    Ok(Written { name, text })
}

/// The place `at`, or one outside of the tensor, where nothing is written, if a later row has the same number.
fn unless_later(e: &mut Emitter<'_>, numbers: &Access, len: &str, at: &str, count: &str) -> Result<String> {
    let [axis] = numbers.axes[..] else {
        return Err(Error::unexpected("the numbers of a scatter are one dimension"));
    };
    let own = e.coordinate(&[axis], DType::I64)?.text;
    let (name, total) = (e.name(&numbers.tensor)?.to_owned(), e.extent(axis).clone());
    let later = e.fresh("n");
    e.line(format!("{later} = zeros i64[]"));
    let from = e.fresh("r");
    e.open(format!("for {from} in 0..{total} step {len} {{"));
    let others = e.fresh("x");
    let load = format!("load {name}[{from} :+ {len}] else 0");
    e.line(match e.plan.dtype(&numbers.tensor) {
        DType::I64 => format!("{others} = {load}"),
        _ => format!("{others} = i64({load})"),
    });
    let places = e.fresh("t");
    e.line(format!(
        "{places} = select({others} < 0, {others} + {count}, {others})"
    ));
    let row = e.fresh("t");
    e.line(format!("{row} = i64(iota({len})) + {from}"));
    let same = e.fresh("t");
    e.line(format!(
        "{same} = ({places} == {at}) & ({row} > {own}) & ({row} < {total})"
    ));
    e.line(format!("{later} = {later} + reduce_sum(i64({same}), 0)"));
    e.close();
    let to = e.fresh("n");
    e.line(format!("{to} = select({later} == 0, {at}, -1)"));
    Ok(to)
}
