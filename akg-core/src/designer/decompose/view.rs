//! Views, copies and masks by position.

use super::{Step, normalise};
use crate::designer::prim::{Prim, PrimId};
use crate::dtype::DType;
use crate::error::Result;
use crate::sketch::ir::CompareOp;

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let result = match name {
        "_assert_tensor_metadata" => return Ok(Some(Vec::new())),
        "view" | "_unsafe_view" | "reshape" | "flatten" | "unflatten" | "squeeze" | "unsqueeze" => {
            let (x, shape) = (s.tensor("self")?, s.result(0)?.shape.clone());
            s.prims.reshape(x, shape)
        }
        "expand" => {
            let (x, shape) = (s.tensor("self")?, s.result(0)?.shape.clone());
            s.prims.expand(x, shape)
        }
        "clone" | "detach" | "alias" | "contiguous" | "lift_fresh_copy" | "dropout" => {
            let parameter = if name == "dropout" { "input" } else { "self" };
            if name == "dropout" && s.call.bool("train")? && s.call.number("p")? != 0.0 {
                return Ok(None);
            }
            s.tensor(parameter)?
        }
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
            perm.swap(i, j);
            s.prims.permute(x, perm)
        }
        "t" | "numpy_T" => {
            let x = s.tensor("self")?;
            let perm = (0..s.prims.rank(x)).rev().collect();
            s.prims.permute(x, perm)
        }
        "triu" | "tril" => {
            let x = s.tensor("self")?;
            let diagonal = s.call.number("diagonal")?;
            let shape = s.prims.shape(x).to_vec();
            let rank = shape.len();
            let row = s
                .prims
                .push(Prim::Coordinate(rank - 2), DType::I64, shape.clone());
            let column = s.prims.push(Prim::Coordinate(rank - 1), DType::I64, shape);
            let edge = if diagonal == 0.0 {
                row
            } else {
                s.prims.add_number(row, diagonal)?
            };
            let op = if name == "triu" {
                CompareOp::Ge
            } else {
                CompareOp::Le
            };
            let inside = s.prims.compare(op, column, edge)?;
            let zero = s.prims.number(0.0);
            s.prims.select(inside, x, zero)?
        }
        _ => return Ok(None),
    };
    Ok(Some(vec![result]))
}
