//! One product and the element-wise work on its result.

use std::collections::HashMap;

use super::{Emitter, Names, Var, Walk, Written, compute_type};
use crate::designer::plan::{Access, Axis, KernelPlan, Operand, Plan};
use crate::designer::prim::{PrimId, Prims};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// The longest run of fused multiply-adds in f32 before the partial sum is rounded into a wider accumulator: keeps the
/// error of long products at that of pairwise summation.
const PROMOTE: u32 = 32;

/// Writes kernel number `number`.
pub(in crate::designer) fn emit(
    plan: &Plan,
    prims: &Prims,
    kernel: &KernelPlan,
    names: &mut Names,
    number: usize,
    contract: PrimId,
) -> Result<Written> {
    let access = |i: usize| match kernel.operands.get(&(contract, i)) {
        Some(Operand::Load(access)) => Ok(access.clone()),
        _ => Err(Error::unsupported(
            "no design rule yet for a product of something computed in the same kernel",
        )),
    };
    let (a, b) = (access(0)?, access(1)?);
    let dtype = compute_type(prims.dtype(contract));
    if !dtype.is_float() {
        return Err(Error::unsupported(format!(
            "no design rule yet for products of {dtype}"
        )));
    }
    let result = kernel.axes.get(&contract).cloned().unwrap_or_default();
    let only = |mine: &Access, other: &Access| -> Option<Axis> {
        result
            .iter()
            .rev()
            .copied()
            .find(|x| mine.axes.contains(x) && !other.axes.contains(x))
    };
    let (Some(m), Some(n)) = (only(&a, &b), only(&b, &a)) else {
        return Err(Error::unsupported(
            "no design rule yet for a product without rows or columns",
        ));
    };
    let Some(k) = a.axes.iter().rev().copied().find(|x| kernel.reduced.contains(x)) else {
        return Err(Error::unsupported(
            "no design rule yet for a product over a dimension of extent 1",
        ));
    };

    let mut walks = HashMap::new();
    let mut grid = Vec::new();
    let mut loops = Vec::new();
    for axis in &result {
        if *axis != m && *axis != n {
            grid.push(format!("p{axis} in {}", kernel.extents[*axis]));
            walks.insert(*axis, Walk::Index(format!("p{axis}")));
        }
    }
    for (axis, name, lengths) in [(m, "BM", [64, 128]), (n, "BN", [96, 64]), (k, "BK", [256, 64])] {
        let extent = &kernel.extents[axis];
        let fits = |length: i64| extent.as_const().map_or(length, |e| length.min(e.max(1)));
        let mut values: Vec<i64> = lengths.iter().map(|l| fits(*l)).collect();
        values.dedup();
        let overhang = !values
            .iter()
            .all(|b| extent.as_const().is_some_and(|e| e % b == 0));
        let len = names.knob(name, number, &values);
        let start = if axis == k {
            format!("r{axis}")
        } else {
            grid.push(format!("p{axis} in ceildiv({extent}, {len})"));
            format!("p{axis}*{len}")
        };
        walks.insert(axis, Walk::Tile { start, len, overhang });
    }
    for axis in a.axes.iter().filter(|x| kernel.reduced.contains(x)) {
        let extent = &kernel.extents[*axis];
        match walks.get(axis) {
            Some(Walk::Tile { len, .. }) => loops.push(format!("r{axis} in 0..{extent} step {len}")),
            _ => {
                loops.push(format!("r{axis} in 0..{extent}"));
                walks.insert(*axis, Walk::Index(format!("r{axis}")));
            }
        }
    }

    let mut e = Emitter::new(plan, prims, kernel, names);
    e.walks = walks;
    let extents = e.extents(&[m, n])?;
    e.line(format!("acc0 = zeros f64{extents}"));
    e.open(format!("for {} {{", loops.join(", ")));
    e.tile = vec![m, k];
    let left = e.load(&a)?;
    e.tile = vec![k, n];
    let right = e.load(&b)?;
    let promote = if dtype == DType::F64 {
        String::new()
    } else {
        format!(" promote({PROMOTE})")
    };
    e.line(format!(
        "acc0 = dot({}, {}, acc0) ieee{promote}",
        left.text, right.text
    ));
    e.close();
    e.tile = vec![m, n];
    let text = if dtype == DType::F64 {
        "acc0".to_owned()
    } else {
        e.line(format!("y0 = {dtype}(acc0)"));
        "y0".to_owned()
    };
    e.define(
        contract,
        Var {
            text,
            axes: vec![m, n],
        },
    );
    e.store_all(|_, _| true)?;
    let name = format!("k{number}");
    let text = e.finish(&format!("kernel {name} over ({})", grid.join(", ")));
    Ok(Written { name, text })
}
