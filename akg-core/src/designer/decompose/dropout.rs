//! Dropout.

use super::Step;
use crate::designer::prim::PrimId;
use crate::dtype::DType;
use crate::error::Result;
use crate::philox;
use crate::sketch::ir::{BinaryOp, CompareOp};

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let result = match name {
        "dropout" => {
            if s.call.bool("train")? && s.call.number("p")? != 0.0 {
                return Ok(None);
            }
            s.tensor("input")?
        }
        "seeded_dropout" => match kept(s)? {
            Some(kept) => {
                let x = s.tensor("input")?;
                let scaled = s.prims.mul_number(x, (1.0 - s.call.number("p")?).recip())?;
                let zero = s.prims.number(0.0);
                s.prims.select(kept, scaled, zero)?
            }
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    Ok(Some(vec![result]))
}

/// Which elements a seeded dropout keeps; `None` if their numbers depend on symbols.
fn kept(s: &mut Step<'_>) -> Result<Option<PrimId>> {
    let (p, offset) = (s.call.number("p")?, s.call.int("offset")?);
    let (seed, shape) = (s.tensor("seed")?, s.result(0)?.shape.clone());
    let mut stride = 1;
    let mut number = None;
    for (dim, extent) in shape.iter().enumerate().rev().filter(|(_, e)| !e.is(1)) {
        let place = s.prims.coordinate(dim, shape.clone());
        let place = s.prims.cast(place, DType::I64);
        let term = s.prims.mul_number(place, stride as f64)?;
        number = Some(match number {
            Some(sum) => s.prims.add(term, sum)?,
            None => term,
        });
        match extent.as_const() {
            Some(extent) => stride *= extent,
            // The first dimension needs no stride for those before it.
            None if shape.iter().take(dim).all(|e| e.is(1)) => {}
            None => return Ok(None),
        }
    }
    let number = match number {
        Some(number) if offset != 0 => s.prims.add_number(number, offset as f64)?,
        Some(number) => number,
        None => s.prims.full(offset as f64, DType::I64, shape),
    };
    let word = s.prims.binary(BinaryOp::Philox, seed, number)?;
    let least = s.prims.number(philox::least_kept(p));
    s.prims.compare(CompareOp::Ge, word, least).map(Some)
}
