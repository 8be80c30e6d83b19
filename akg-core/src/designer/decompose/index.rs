//! Elements that indices name: of short tables, the sum of all elements but with zeros in the place of the others.

use super::Step;
use crate::designer::prim::PrimId;
use crate::error::Result;
use crate::expr::Expr;
use crate::sketch::ir::{CompareOp, ReduceOp};

/// The longest dimension that is searched for each element.
const SHORT: i64 = 1024;

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let (table, dim, index) = match name {
        "index" => {
            let given = s.call.values("indices")?;
            let mut named = given
                .iter()
                .enumerate()
                .filter_map(|(dim, index)| Some((dim, (*index)?)));
            let (Some((dim, index)), None) = (named.next(), named.next()) else {
                return Ok(None);
            };
            (s.tensor("self")?, dim, s.value(index)?)
        }
        "index_select" => {
            let table = s.tensor("self")?;
            let dim = s.dim("dim", s.prims.rank(table))?;
            (table, dim, s.tensor("index")?)
        }
        "embedding" => (s.tensor("weight")?, 0, s.tensor("indices")?),
        _ => return Ok(None),
    };
    let count = s.prims.extent(table, dim).as_const();
    let Some(count) = count.filter(|count| *count <= SHORT && s.prims.rank(table) > 0) else {
        return Ok(None);
    };
    let one = |n: usize| vec![Expr::constant(1); n];
    let (shape, places) = (s.prims.shape(table).to_vec(), s.prims.shape(index).to_vec());
    let after = shape.len() - dim;
    // The dimension of the table comes after those of the index, which take its place.
    let axis = dim + places.len();
    let mut wide = shape.clone();
    wide.splice(dim..dim, one(places.len()));
    let table = s.prims.reshape(table, wide);
    let mut all = shape;
    all.splice(dim..dim, places.iter().cloned());
    let index = s.prims.reshape(index, [one(dim), places, one(after)].concat());
    let place = s.prims.coordinate(axis, all);
    let index = s.prims.cast(index, s.prims.dtype(place));
    let zero = s.prims.number(0.0);
    let from_end = s.prims.compare(CompareOp::Lt, index, zero)?;
    let turned = s.prims.add_number(index, count as f64)?;
    let index = s.prims.select(from_end, turned, index)?;
    let is_named = s.prims.compare(CompareOp::Eq, place, index)?;
    let named = s.prims.select(is_named, table, zero)?;
    let sum = s.prims.reduce(ReduceOp::Sum, named, &[axis], false);
    let shape = s.result(0)?.shape.clone();
    Ok(Some(vec![s.prims.reshape(sum, shape)]))
}
