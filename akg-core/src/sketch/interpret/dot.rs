//! Products of matrices by the named methods.

use super::element;
use super::tile::{Data, Tile};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::sketch::ir::{DotMethod, TileType};

/// A number that partial sums are kept in.
trait Number: Copy + Into<f64> + std::ops::Add<Output = Self> + std::ops::Mul<Output = Self> {
    const ZERO: Self;
}

impl Number for f32 {
    const ZERO: Self = 0.0;
}

impl Number for f64 {
    const ZERO: Self = 0.0;
}

#[derive(Clone, Copy)]
struct Extents {
    m: usize,
    n: usize,
    k: usize,
}

/// Products that a matrix unit adds up before it rounds: NVIDIA's tensor cores take 4 to 16 (Fasi, Higham, Mikaitis and
/// Pranesh, *Numerical behavior of NVIDIA tensor cores*, 2021, section 3).
const UNIT: usize = 8;

/// `a b + init`. Partial sums of at most `promote` products are kept in f32 (f64 for f64 operands) and added to the
/// accumulator with one rounding. `ieee` rounds each product and each sum; the other methods, which matrix units
/// compute, round after [`UNIT`] products.
pub(super) fn dot(
    ty: &TileType,
    (a, b, init): (&Tile, &Tile, Option<&Tile>),
    method: DotMethod,
    promote: Option<usize>,
) -> Result<Tile> {
    let ([m, k], [k2, n]) = (a.ty.extents.as_slice(), b.ty.extents.as_slice()) else {
        return Err(Error::invalid("dot takes tiles of rank 2"));
    };
    let fits = |t: &Tile| t.ty == *ty;
    if k != k2 || ty.extents != [*m, *n] || !init.is_none_or(fits) {
        return Err(Error::invalid(format!(
            "dot of {:?} and {:?} does not give {:?}",
            a.ty.extents, b.ty.extents, ty.extents
        )));
    }
    let size = Extents { m: *m, n: *n, k: *k };
    let (Data::Float(a_values), Data::Float(b_values)) = (&a.data, &b.data) else {
        return int_dot(ty, (a, b, init), size);
    };
    let mut acc = match init {
        Some(init) => init.floats()?.to_vec(),
        None => vec![0.0; m * n],
    };
    let promote = promote.unwrap_or(*k).max(1);
    if a.ty.dtype == DType::F64 && method == DotMethod::Ieee {
        accumulate(a_values, b_values, &mut acc, size, promote, ty.dtype);
        return Ok(Tile::float(ty, acc.into_iter()));
    }
    let read: fn(f64) -> f32 = match method {
        DotMethod::Ieee => |v| v as f32,
        DotMethod::Tf32 => |v| element::round_tf32(v) as f32,
        DotMethod::F16 => |v| element::round(DType::F16, v) as f32,
        DotMethod::Bf16 => |v| element::round(DType::BF16, v) as f32,
    };
    let a_values: Vec<f32> = a_values.iter().map(|v| read(*v)).collect();
    let b_values: Vec<f32> = b_values.iter().map(|v| read(*v)).collect();
    let add = match method {
        DotMethod::Ieee => accumulate,
        DotMethod::Tf32 | DotMethod::F16 | DotMethod::Bf16 => accumulate_units,
    };
    add(&a_values, &b_values, &mut acc, size, promote, ty.dtype);
    Ok(Tile::float(ty, acc.into_iter()))
}

fn accumulate<T: Number>(a: &[T], b: &[T], acc: &mut [f64], size: Extents, promote: usize, into: DType) {
    let Extents { m, n, k } = size;
    let mut partial = vec![T::ZERO; n];
    for i in 0..m {
        for first in (0..k).step_by(promote) {
            partial.fill(T::ZERO);
            for l in first..k.min(first + promote) {
                let left = a[i * k + l];
                for (sum, right) in partial.iter_mut().zip(&b[l * n..(l + 1) * n]) {
                    *sum = *sum + left * *right;
                }
            }
            for (acc, sum) in acc[i * n..(i + 1) * n].iter_mut().zip(&partial) {
                *acc = element::round(into, *acc + (*sum).into());
            }
        }
    }
}

fn accumulate_units(a: &[f32], b: &[f32], acc: &mut [f64], size: Extents, promote: usize, into: DType) {
    let Extents { m, n, k } = size;
    let (mut partial, mut unit) = (vec![0f32; n], vec![0f64; n]);
    for i in 0..m {
        for first in (0..k).step_by(promote) {
            partial.fill(0.0);
            let last = k.min(first + promote);
            for start in (first..last).step_by(UNIT) {
                unit.fill(0.0);
                for l in start..last.min(start + UNIT) {
                    let left = f64::from(a[i * k + l]);
                    for (sum, right) in unit.iter_mut().zip(&b[l * n..(l + 1) * n]) {
                        *sum += left * f64::from(*right);
                    }
                }
                for (sum, unit) in partial.iter_mut().zip(&unit) {
                    *sum = (f64::from(*sum) + unit) as f32;
                }
            }
            for (acc, sum) in acc[i * n..(i + 1) * n].iter_mut().zip(&partial) {
                *acc = element::round(into, *acc + f64::from(*sum));
            }
        }
    }
}

fn int_dot(ty: &TileType, (a, b, init): (&Tile, &Tile, Option<&Tile>), size: Extents) -> Result<Tile> {
    let Extents { m, n, k } = size;
    let (a, b) = (a.ints()?, b.ints()?);
    let mut acc = match init {
        Some(init) => init.ints()?.to_vec(),
        None => vec![0; m * n],
    };
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                let product = a[i * k + l].wrapping_mul(b[l * n + j]);
                acc[i * n + j] = acc[i * n + j].wrapping_add(product);
            }
        }
    }
    Ok(Tile::int(ty, acc.into_iter()))
}
