//! Tensors made from numbers.

use super::{Step, chance};
use crate::designer::prim::PrimId;
use crate::error::Result;

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let value = match name {
        "zeros" | "zeros_like" => 0.0,
        "ones" | "ones_like" => 1.0,
        "full" | "full_like" => s.call.number("fill_value")?,
        "scalar_tensor" => s.call.number("s")?,
        "_assert_tensor_metadata" => return Ok(Some(Vec::new())),
        "arange" => return arange(s).map(|id| Some(vec![id])),
        _ => return chance::decompose(s, name),
    };
    let result = s.result(0)?.clone();
    Ok(Some(vec![s.prims.full(value, result.dtype, result.shape)]))
}

fn arange(s: &mut Step<'_>) -> Result<PrimId> {
    let result = s.result(0)?.clone();
    let argument = |name: &str, default: f64| match s.call.opt_arg(name) {
        Some(_) => s.call.number(name),
        None => Ok(default),
    };
    let (start, step) = (argument("start", 0.0)?, argument("step", 1.0)?);
    let place = s.prims.coordinate(0, result.shape);
    let mut x = s.prims.cast(place, result.dtype);
    if step != 1.0 {
        x = s.prims.mul_number(x, step)?;
    }
    if start != 0.0 {
        x = s.prims.add_number(x, start)?;
    }
    Ok(x)
}
