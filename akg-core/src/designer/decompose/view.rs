//! Views and copies.

use super::{Step, normalise};
use crate::designer::prim::PrimId;
use crate::designer::window::Window;
use crate::error::Result;
use crate::expr::Expr;

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let result = match name {
        "view" | "_unsafe_view" | "reshape" | "flatten" | "unflatten" | "squeeze" | "unsqueeze" => {
            let (x, shape) = (s.tensor("self")?, s.result(0)?.shape.clone());
            s.prims.reshape(x, shape)
        }
        "expand" | "broadcast_to" | "expand_as" => {
            let (x, shape) = (s.tensor("self")?, s.result(0)?.shape.clone());
            s.prims.expand(x, shape)
        }
        "clone" | "detach" | "alias" | "contiguous" | "lift_fresh_copy" => s.tensor("self")?,
        "permute" => {
            let x = s.tensor("self")?;
            let rank = s.prims.rank(x);
            let perm = s
                .call
                .ints("dims")?
                .into_iter()
                .map(|d| normalise(d, rank))
                .collect::<Result<_>>()?;
            s.prims.permute(x, perm)
        }
        "transpose" => {
            let x = s.tensor("self")?;
            let rank = s.prims.rank(x);
            let (i, j) = (s.dim("dim0", rank)?, s.dim("dim1", rank)?);
            let mut perm: Vec<usize> = (0..rank).collect();
            if rank > 0 {
                perm.swap(i, j);
            }
            s.prims.permute(x, perm)
        }
        "t" | "numpy_T" => {
            let x = s.tensor("self")?;
            let perm = (0..s.prims.rank(x)).rev().collect();
            s.prims.permute(x, perm)
        }
        "slice" | "narrow" => {
            let x = s.tensor("self")?;
            let dim = s.dim("dim", s.prims.rank(x))?;
            let extent = s.prims.extent(x, dim);
            let Some(count) = s.result(0)?.shape.get(dim).cloned() else {
                return Ok(None);
            };
            let start = s.call.opt_size("start")?.cloned().unwrap_or(0.into());
            let step = if name == "slice" { s.call.int("step")? } else { 1 };
            let start = match (start.as_const(), extent.as_const()) {
                (Some(at), Some(extent)) => (if at < 0 { at + extent } else { at }).clamp(0, extent).into(),
                (Some(at), None) if at < 0 => extent + at,
                _ => start,
            };
            s.prims.window(x, Window::new(dim, start, step), count)
        }
        "select" => {
            let x = s.tensor("self")?;
            let dim = s.dim("dim", s.prims.rank(x))?;
            let index = s.call.size("index")?.clone();
            let extent = s.prims.extent(x, dim);
            let is_negative = index.as_const().is_some_and(|i| i < 0);
            let place = if is_negative { index + extent } else { index };
            s.prims.at(x, dim, place)
        }
        "unfold" => {
            let x = s.tensor("self")?;
            let rank = s.prims.rank(x);
            let dim = s.dim("dimension", rank)?;
            let (size, step) = (s.call.int("size")?, s.call.int("step")?);
            let shape = s.result(0)?.shape.clone();
            if s.prims.extent(x, dim).is(1) {
                s.prims.reshape(x, shape)
            } else {
                let window = Window {
                    steps: vec![step, 1],
                    ..Window::new(dim, 0.into(), step)
                };
                let count = shape.get(dim).cloned().unwrap_or(Expr::constant(1));
                let seen = s.prims.slide(x, window, &[count, size.into()]);
                let perm = (0..=rank).filter(|d| *d != dim + 1).chain([dim + 1]);
                s.prims.permute(seen, perm.collect())
            }
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![result]))
}

/// The coordinates along two dimensions, in one type.
pub(super) fn coordinates(s: &mut Step<'_>, shape: Vec<Expr>, dims: [usize; 2]) -> [PrimId; 2] {
    let [a, b] = dims.map(|dim| s.prims.coordinate(dim, shape.clone()));
    let wide = s.prims.dtype(a).promote(s.prims.dtype(b));
    [a, b].map(|coordinate| s.prims.cast(coordinate, wide))
}
