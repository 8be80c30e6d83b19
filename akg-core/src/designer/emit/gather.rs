//! Rows of a table by their numbers.

use super::text::{compute_type, literal};
use super::{Emitter, Names, Var, Walk, Written};
use crate::designer::device::Device;
use crate::designer::plan::{Axis, KernelPlan, Plan};
use crate::designer::prim::{PrimId, Prims};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Elements that a program copies: some, and more.
const ELEMENTS: [i64; 2] = [1024, 4096];
/// Elements of a row that a program copies at most.
const ROW: u64 = 512;

/// Writes kernel number `number`, which is the gather `id`.
pub(in crate::designer) fn emit(
    device: Device<'_>,
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
    names: &mut Names,
    number: usize,
    id: PrimId,
) -> Result<Written> {
    let (table, numbers) = (kernel.loaded(id, 0)?, kernel.loaded(id, 1)?);
    let own = kernel.axes.get(&id).map(Vec::as_slice).unwrap_or_default();
    let (rows, columns): (Vec<Axis>, Vec<Axis>) = own.iter().partition(|axis| numbers.axes.contains(axis));
    if table.axes.iter().filter(|axis| !columns.contains(axis)).count() > 1 {
        return Err(Error::unsupported(
            "no design rule yet for how a gather sees its table",
        ));
    }
    let extent = |axis: &Axis| kernel.extents.get(*axis).and_then(|extent| extent.as_const());
    let width = match columns.last().map(extent) {
        Some(Some(extent)) => extent.unsigned_abs().next_power_of_two().min(ROW) as i64,
        Some(None) => ROW as i64,
        None => 1,
    };
    let heights: &[i64] = if device.shares_tiles() {
        &ELEMENTS
    } else {
        &ELEMENTS[1..]
    };
    let heights: Vec<i64> = heights.iter().map(|elements| elements / width).collect();

    let mut walks = Vec::new();
    let mut programs = Vec::new();
    for (axes, name, lengths) in [(&rows, "BM", heights), (&columns, "BN", vec![width])] {
        let Some((last, outer)) = axes.split_last() else {
            continue;
        };
        for axis in outer {
            let program = format!("p{}", programs.len());
            programs.push(format!("{program} in {}", kernel.extents[*axis]));
            walks.push((*axis, Walk::Index(program)));
        }
        let program = format!("p{}", programs.len());
        let len = names.knob(name, number, &lengths);
        programs.push(format!("{program} in ceildiv({}, {len})", kernel.extents[*last]));
        let start = format!("{program}*{len}");
        walks.push((
            *last,
            Walk::Tile {
                start,
                len,
                overhang: true,
            },
        ));
    }
    let mut e = Emitter::new(plan, prims, kernel, names);
    e.tile = rows.last().into_iter().chain(columns.last()).copied().collect();
    e.walks.extend(walks);
    let at = e.load_as(numbers, DType::I64)?;
    let mut parts = Vec::new();
    for axis in &table.axes {
        parts.push(if e.walks.contains_key(axis) {
            e.place(&[*axis])?.0.concat()
        } else {
            at.text.clone()
        });
    }
    let own = plan.dtype(&table.tensor);
    let mut text = format!(
        "load {}[{}] else {}",
        e.name(&table.tensor)?,
        parts.join(", "),
        literal(0.0, own)
    );
    if compute_type(own) != own {
        text = format!("{}({text})", compute_type(own));
    }
    e.line(format!("row = {text}"));
    let axes = e.tile.clone();
    e.define(
        id,
        Var {
            text: "row".to_owned(),
            axes,
        },
    );
    e.store_all(|_, _| true)?;
    let name = format!("k{number}");
    if programs.is_empty() {
        programs.push("p0 in 1".to_owned());
    }
    let text = e.finish(&format!("kernel {name} over ({})", programs.join(", ")));
    Ok(Written { name, text })
}
