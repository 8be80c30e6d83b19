//! Chance: dropout, and tensors of random numbers, as far as a seed decides on them.

use std::f64::consts::TAU;

use super::Step;
use crate::designer::prim::PrimId;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::philox;
use crate::sketch::ir::{BinaryOp, CompareOp, UnaryOp};

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let result = match name {
        "dropout" => {
            if s.call.bool("train")? && s.call.number("p")? != 0.0 {
                return Ok(None);
            }
            Some(s.tensor("input")?)
        }
        "seeded_dropout" => dropout(s)?,
        "seeded_rand" => rand(s)?,
        "seeded_randn" => randn(s)?,
        _ => None,
    };
    Ok(result.map(|id| vec![id]))
}

fn dropout(s: &mut Step<'_>) -> Result<Option<PrimId>> {
    let (p, offset) = (s.call.number("p")?, s.call.int("offset")?);
    let Some(number) = numbers(s, offset, 1)? else {
        return Ok(None);
    };
    let seed = s.tensor("seed")?;
    let word = s.prims.binary(BinaryOp::Philox, seed, number)?;
    let least = s.prims.number(philox::least_kept(p));
    let kept = s.prims.compare(CompareOp::Ge, word, least)?;
    let x = s.tensor("input")?;
    let scaled = s.prims.mul_number(x, (1.0 - p).recip())?;
    let zero = s.prims.number(0.0);
    s.prims.select(kept, scaled, zero).map(Some)
}

fn rand(s: &mut Step<'_>) -> Result<Option<PrimId>> {
    let (dtype, offset) = (s.dtype()?, s.call.int("offset")?);
    let Some(number) = numbers(s, offset, 1)? else {
        return Ok(None);
    };
    let fraction = fraction(s, number)?;
    Ok(Some(s.prims.cast(fraction, dtype)))
}

/// Box and Muller's normal numbers, each of two uniform ones.
fn randn(s: &mut Step<'_>) -> Result<Option<PrimId>> {
    let (dtype, offset) = (s.dtype()?, s.call.int("offset")?);
    let (Some(first), Some(second)) = (numbers(s, offset, 2)?, numbers(s, offset + 1, 2)?) else {
        return Ok(None);
    };
    let below_one = fraction(s, first)?;
    let one = s.prims.number(1.0);
    let above_zero = s.prims.binary(BinaryOp::Sub, one, below_one)?;
    let log = s.prims.unary(UnaryOp::Log, above_zero)?;
    let square = s.prims.mul_number(log, -2.0)?;
    let radius = s.prims.unary(UnaryOp::Sqrt, square)?;
    let turn = fraction(s, second)?;
    let angle = s.prims.mul_number(turn, TAU)?;
    let cos = s.prims.unary(UnaryOp::Cos, angle)?;
    let normal = s.prims.mul(radius, cos)?;
    Ok(Some(s.prims.cast(normal, dtype)))
}

/// A random number of [0, 1) for each number of the sequence, of [`philox::FRACTION_BITS`] bits.
fn fraction(s: &mut Step<'_>, number: PrimId) -> Result<PrimId> {
    let seed = s.tensor("seed")?;
    let word = s.prims.binary(BinaryOp::Philox, seed, number)?;
    let rest = s.prims.number(f64::from(32 - philox::FRACTION_BITS));
    let bits = s.prims.binary(BinaryOp::Shr, word, rest)?;
    let bits = s.prims.cast(bits, DType::F32);
    let unit = 2f64.powi(-(philox::FRACTION_BITS as i32));
    s.prims.mul_number(bits, unit)
}

/// For each element of the result `offset` and `step` times its row-major number; `None` if that depends on symbols.
fn numbers(s: &mut Step<'_>, offset: i64, step: i64) -> Result<Option<PrimId>> {
    let shape = s.result(0)?.shape.clone();
    let mut stride = step;
    let mut number = None;
    let is_long = |(_, extent): &(usize, &Expr)| !extent.is(1);
    for (dim, extent) in shape.iter().enumerate().rev().filter(is_long) {
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
    Ok(Some(number))
}
