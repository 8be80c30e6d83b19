//! Before a candidate is rejected for its error: what the class is worth on inputs that are nearly the same.

use std::time::Duration;

use half::{bf16, f16};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::{Element, Tensor};

/// Evaluations on nudged inputs of up to so many bytes, and the part of an element that it is moved by at most: some
/// neighbours away, so that sums of many are rounded elsewhere. Outputs of few elements need many: their errors are those
/// of a few roundings.
const APPEALS: [(usize, usize); 2] = [(1 << 20, 64), (1 << 28, 16)];
const NUDGE: f64 = 1.0 / (1 << 18) as f64;

/// Evaluations on inputs of more bytes, the bytes of an input that is still nudged, and the time after which no further one
/// begins. Where a large weight stays as it is, what it is multiplied with moves every term.
const HEAVY_APPEALS: usize = 8;
const LIGHT: usize = 1 << 26;
const HEAVY_TIME: Duration = Duration::from_secs(4);

/// Evaluations of the yardstick on inputs of which elements are a little off, after the inputs themselves and before a
/// candidate is rejected for its error.
///
/// Where a few ill-conditioned elements make up most of the error, as in the softmax of large products, one evaluation
/// in fp32 may be right in them by luck. What fp32 is worth there shows in several.
pub(super) struct Appeals {
    count: usize,
    /// Bytes up to which an input is nudged.
    most: usize,
    /// When no further one begins.
    pub(super) time: Duration,
}

impl Appeals {
    pub(super) fn of(inputs: &[Tensor]) -> Self {
        let bytes: usize = inputs.iter().map(|t| t.bytes().len()).sum();
        if let Some((most, count)) = APPEALS.iter().find(|(most, _)| bytes <= *most) {
            return Self {
                count: *count,
                most: *most,
                time: Duration::MAX,
            };
        }
        let heavy = Self {
            count: HEAVY_APPEALS,
            most: LIGHT,
            time: HEAVY_TIME,
        };
        let moves = inputs.iter().any(|t| heavy.moves(t));
        Self {
            count: if moves { heavy.count } else { 0 },
            ..heavy
        }
    }

    /// Whether a tensor's elements are moved.
    pub(super) fn moves(&self, tensor: &Tensor) -> bool {
        is_nudged(tensor) && tensor.bytes().len() <= self.most
    }

    /// The number of evaluations, that on the inputs themselves included.
    pub(super) fn turns(&self) -> usize {
        self.count + 1
    }

    pub(super) fn nudged(&self, inputs: &[Tensor], seed: u64) -> impl Iterator<Item = Result<Vec<Tensor>>> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x006e_7564_6765);
        let mut nudge = move |tensor: &Tensor| {
            if self.moves(tensor) {
                nudge(tensor, NUDGE, &mut rng)
            } else {
                Ok(tensor.clone())
            }
        };
        (0..self.count).map(move |_| inputs.iter().map(&mut nudge).collect())
    }
}

/// The inputs with every floating element moved by at most a part of `size` of itself, or by the neighbours that its type has.
pub(super) fn nudge_all(inputs: &[Tensor], size: f64, seed: u64) -> Result<Vec<Tensor>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x6e65_6172);
    let nudged = inputs.iter().map(|tensor| match tensor.dtype().unit_roundoff() {
        Some(unit) => nudge(tensor, size.max(NEIGHBOURS * unit), &mut rng),
        None => Ok(tensor.clone()),
    });
    nudged.collect()
}

/// Units of roundoff that reach some neighbours of an element.
const NEIGHBOURS: f64 = 4.0;

/// Returns true for types whose elements have neighbours that are near enough.
fn is_nudged(tensor: &Tensor) -> bool {
    matches!(tensor.dtype(), DType::F32 | DType::F64)
}

/// The tensor with every finite element moved by at most a part of `size` of itself.
fn nudge(tensor: &Tensor, size: f64, rng: &mut ChaCha8Rng) -> Result<Tensor> {
    let mut moved = |v: f64| v * (1.0 + rng.random_range(-size..size));
    match tensor.dtype() {
        DType::F16 => move_each(tensor, f16::is_finite, |v| f16::from_f64(moved(v.to_f64()))),
        DType::BF16 => move_each(tensor, bf16::is_finite, |v| bf16::from_f64(moved(v.to_f64()))),
        DType::F32 => move_each(tensor, f32::is_finite, |v| moved(f64::from(v)) as f32),
        DType::F64 => move_each(tensor, f64::is_finite, moved),
        _ => Ok(tensor.clone()),
    }
}

/// The tensor with every element moved to a finite one, or left where it is.
fn move_each<T: Element>(
    tensor: &Tensor,
    is_finite: fn(T) -> bool,
    mut moved: impl FnMut(T) -> T,
) -> Result<Tensor> {
    let to = |v: &T| {
        let to = moved(*v);
        if is_finite(to) { to } else { *v }
    };
    let values: Vec<T> = tensor.as_slice::<T>()?.iter().map(to).collect();
    Tensor::from_slice(tensor.shape(), &values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_weights_stay_where_what_they_are_multiplied_with_is_moved() {
        let zeros = |bytes: usize| Tensor::zeros(DType::F32, [bytes / 4]).unwrap();
        let sets = |inputs: &[Tensor]| -> Vec<Vec<Tensor>> {
            let appeals = Appeals::of(inputs);
            appeals.nudged(inputs, 1).collect::<Result<_>>().unwrap()
        };
        let light = Tensor::from_slice([3], &[1.0f32, -2.0, f32::INFINITY]).unwrap();
        let heavy = zeros((1 << 28) + 4);
        assert_eq!(sets(std::slice::from_ref(&light)).len(), 64);
        assert_eq!(sets(&[light.clone(), zeros(1 << 21)]).len(), 16);
        assert!(sets(std::slice::from_ref(&heavy)).is_empty());
        let both = sets(&[light.clone(), heavy.clone()]);
        assert_eq!(both.len(), 8);
        for set in both {
            assert!(heavy.mark().is(&set[1]));
            let (before, after) = (light.to_f64().unwrap(), set[0].to_f64().unwrap());
            for (before, after) in before.iter().zip(&after) {
                let near = (after - before).abs() <= 1.01 * NUDGE * before.abs();
                assert!(after == before || near, "{before} became {after}");
            }
            assert_ne!(before, after);
        }
    }
}
