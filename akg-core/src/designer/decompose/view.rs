//! Views and copies.

use super::{Step, normalise};
use crate::designer::prim::PrimId;
use crate::designer::window::Window;
use crate::error::Result;
use crate::expr::Expr;
use crate::graph::ops::element_count;

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
        "as_strided" => match as_strided(s)? {
            Some(result) => result,
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(vec![result]))
}

/// Elements of a dense tensor at strides: a permutation where they are all there and in one piece, else a window.
fn as_strided(s: &mut Step<'_>) -> Result<Option<PrimId>> {
    let (x, shape) = (s.tensor("self")?, s.result(0)?.shape.clone());
    let start = s.call.opt_size("storage_offset")?.cloned().unwrap_or(0.into());
    let strides = s.call.sizes("stride")?.iter().map(Expr::as_const);
    let Some(strides) = strides.collect::<Option<Vec<i64>>>() else {
        return Ok(None);
    };
    let count = element_count(s.prims.shape(x));
    let flat = s.prims.reshape(x, vec![count.clone()]);
    // Dimensions of one coordinate, or with the same elements at each, are none of the operand's.
    let own = |(extent, step): &(&Expr, &i64)| !extent.is(1) && **step != 0;
    let (counts, steps): (Vec<Expr>, Vec<i64>) = shape
        .iter()
        .zip(&strides)
        .filter(own)
        .map(|(extent, step)| (extent.clone(), *step))
        .unzip();
    let mut order: Vec<usize> = (0..steps.len()).collect();
    order.sort_by_key(|dim| steps.get(*dim).map(|step| -step));
    let stored: Vec<Expr> = order.iter().filter_map(|dim| counts.get(*dim).cloned()).collect();
    let mut piece = Expr::constant(1);
    let is_piece = order.iter().zip(&stored).rev().all(|(dim, extent)| {
        let fits = steps.get(*dim).is_some_and(|step| piece.is(*step));
        piece = &piece * extent;
        fits
    });
    let seen = if is_piece && start.is(0) && piece == count {
        let mut perm = vec![0; order.len()];
        order.iter().enumerate().for_each(|(at, dim)| perm[*dim] = at);
        let stored = s.prims.reshape(flat, stored);
        s.prims.permute(stored, perm)
    } else {
        match (counts.as_slice(), steps.as_slice()) {
            ([], _) => s.prims.at(flat, 0, start),
            ([extent], [step]) => s.prims.window(flat, Window::new(0, start, *step), extent.clone()),
            _ => {
                let window = Window {
                    steps,
                    ..Window::new(0, start, 1)
                };
                let seen = s.prims.slide(flat, window, &counts);
                // Products take windows for those of a convolution.
                s.prims.copy(seen)
            }
        }
    };
    let once = strides.iter().zip(&shape).map(|(step, extent)| match step {
        0 => Expr::constant(1),
        _ => extent.clone(),
    });
    let once = s.prims.reshape(seen, once.collect());
    Ok(Some(s.prims.expand(once, shape)))
}

/// The coordinates along two dimensions, in one type.
pub(super) fn coordinates(s: &mut Step<'_>, shape: Vec<Expr>, dims: [usize; 2]) -> [PrimId; 2] {
    let [a, b] = dims.map(|dim| s.prims.coordinate(dim, shape.clone()));
    let wide = s.prims.dtype(a).promote(s.prims.dtype(b));
    [a, b].map(|coordinate| s.prims.cast(coordinate, wide))
}
