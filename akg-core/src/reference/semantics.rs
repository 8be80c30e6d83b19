//! Meaning of element types: where the results of an evaluation are rounded.

use super::array::{Array, Data, map_in_place, map_in_place_at};
use super::real::Real;
use super::run::Stretch;
use super::shift::Shift;
use crate::dtype::DType;
use crate::graph::{Graph, Node, ValueId};

/// Where an evaluation rounds the results of operators.
///
/// PyTorch's operators compute on `f16` and `bf16` tensors in f32 and round each result to its type, where it may
/// overflow. A kernel may do the same, or keep intermediate values in a wider type. [`Rounded`](Self::Rounded) is the
/// first reading of a graph, [`Wide`](Self::Wide) the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Semantics {
    /// Results keep the precision of the evaluation.
    #[default]
    Exact,
    /// Every operator's floating result is rounded to the type that the graph gives it. A value beyond the largest of
    /// the type becomes infinite.
    Rounded {
        /// Rounds up or down at random instead of to nearest. Both are as likely; a value of the type stays.
        perturb: Option<Perturb>,
    },
    /// Results keep the precision of the evaluation, but operators whose results jump read their floating operands
    /// rounded to the operands' types. Such operators are predicates, comparisons, conversions to integers, choices of
    /// indices, and roundings to whole numbers.
    Wide,
}

/// Chance in the rounding of results, by a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Perturb {
    /// Equal results of an operator are rounded alike, so that the errors of many of them add up.
    Alike(u64),
    /// Each element is rounded by itself, so that equal results that cancel leave a rest. A kernel leaves one where it
    /// scales them apart, as an attention does that finds the largest score as it goes.
    Apart(u64),
}

impl Semantics {
    /// The reading of a graph that a kernel with wide intermediate values has: [`Wide`](Self::Wide) if the graph has
    /// values of half precision, else [`Exact`](Self::Exact).
    pub fn wide(graph: &Graph) -> Self {
        if has_half(graph) { Self::Wide } else { Self::Exact }
    }

    /// The rounding of results of type `dtype`; `salt` makes the chance of one operator its own.
    pub(super) fn rounder(self, dtype: DType, salt: usize) -> Option<Rounder> {
        match self {
            Self::Rounded { perturb } if dtype.is_float() && dtype != DType::F64 => Some(Rounder {
                dtype,
                perturb: perturb.map(|perturb| perturb.of(salt)),
            }),
            _ => None,
        }
    }
}

/// Whether `graph` has a value of half precision, so that rounding its intermediate values makes a difference that a
/// kernel may have.
pub fn has_half(graph: &Graph) -> bool {
    graph.values().iter().any(|value| value.ty.dtype.is_half())
}

/// For each output of `graph`, whether it is computed from a value of half precision, or is one.
pub(crate) fn half_outputs(graph: &Graph) -> Vec<bool> {
    let own = graph.values().iter().map(|value| value.ty.dtype.is_half());
    let mut halves: Vec<bool> = own.collect();
    for node in graph.nodes() {
        let from_half = node
            .inputs()
            .any(|v| halves.get(v.index()).copied().unwrap_or(false));
        for value in &node.outputs {
            if let Some(half) = halves.get_mut(value.index()) {
                *half |= from_half;
            }
        }
    }
    let output = |value: ValueId| halves.get(value.index()).copied().unwrap_or(false);
    graph.outputs().iter().map(|o| output(o.value)).collect()
}

/// Float to float operators whose results jump where their operands change continuously.
const JUMPS: [&str; 13] = [
    "ceil.default",
    "floor.default",
    "round.default",
    "trunc.default",
    "sign.default",
    "div.Tensor_mode",
    "div.Scalar_mode",
    "floor_divide.default",
    "floor_divide.Scalar",
    "remainder.Tensor",
    "remainder.Scalar",
    "fmod.Tensor",
    "fmod.Scalar",
];

/// Whether a small change of a floating operand of `node` can change its result by much: the result is discrete, or the
/// operator rounds to whole numbers.
pub(crate) fn jumps(graph: &Graph, node: &Node) -> bool {
    let discrete = |value: &ValueId| !graph.ty(*value).dtype.is_float();
    JUMPS.contains(&node.op.name()) || node.outputs.iter().any(discrete)
}

impl Perturb {
    /// The chance of one operator.
    fn of(self, salt: usize) -> Self {
        let own = |seed: u64| mix(seed ^ mix(salt as u64));
        match self {
            Self::Alike(seed) => Self::Alike(own(seed)),
            Self::Apart(seed) => Self::Apart(own(seed)),
        }
    }

    /// Returns true if `value` at `place` is rounded up: the same whichever part of a tensor is computed, since it follows from both
    /// alone.
    fn is_up(self, value: f64, place: u64) -> bool {
        // In f32, so that the last digits of a sum, which its order decides, do not.
        let bits = u64::from((value as f32).to_bits());
        let word = match self {
            Self::Alike(seed) => mix(seed ^ bits),
            Self::Apart(seed) => mix(mix(seed ^ bits) ^ place),
        };
        word & 1 == 1
    }
}

/// Rounding to an element type, to nearest or by chance.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounder {
    dtype: DType,
    perturb: Option<Perturb>,
}

impl Rounder {
    fn nearest(dtype: DType) -> Self {
        Self { dtype, perturb: None }
    }

    /// The element at `place` of a tensor, rounded.
    pub(super) fn round<T: Real>(self, value: T, place: u64) -> T {
        match (self.perturb, Grid::of(self.dtype)) {
            (Some(perturb), Some(grid)) => {
                let value = value.widen();
                T::of(grid.round(value, perturb.is_up(value, place)))
            }
            _ => value.round_to(self.dtype),
        }
    }
}

/// The places of the elements of a part of a tensor, in row-major order of the whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    /// Elements of the part, and of the whole, that share the indices of the axes before the stretch's.
    part: usize,
    whole: usize,
    /// The first of these.
    start: usize,
}

impl Places {
    /// Those of all elements.
    pub(super) const ALL: Self = Self {
        part: usize::MAX,
        whole: 0,
        start: 0,
    };

    /// Those of a stretch of a tensor of this shape.
    pub(super) fn of(stretch: Stretch, shape: &[usize]) -> Self {
        let inner: usize = shape.iter().skip(stretch.axis + 1).product();
        Self {
            part: (inner * (stretch.end - stretch.start)).max(1),
            whole: inner * shape.get(stretch.axis).copied().unwrap_or(1),
            start: inner * stretch.start,
        }
    }

    /// The place of the `i`-th element of the part.
    fn place(self, i: usize) -> u64 {
        (i / self.part * self.whole + self.start + i % self.part) as u64
    }
}

impl<T: Real> Array<T> {
    /// The floating elements, which are at these places, rounded by `rounder`.
    pub(super) fn rounded(self, rounder: Rounder, places: Places) -> Self {
        match self.data {
            Data::Float(x) => {
                let x = map_in_place_at(x, |i, v| rounder.round(v, places.place(i)));
                Self::float(self.dtype, x)
            }
            data => Self { data, ..self },
        }
    }

    /// The floating elements moved by `shift`.
    pub(super) fn shifted(self, shift: Shift) -> Self {
        match self.data {
            Data::Float(x) => Self::float(self.dtype, map_in_place(x, |v: T| T::of(shift.apply(v.widen())))),
            data => Self { data, ..self },
        }
    }

    /// The floating elements rounded to nearest in the array's own type.
    pub(super) fn rounded_to_type(self) -> Self {
        match self.dtype {
            DType::F64 => self,
            dtype => self.rounded(Rounder::nearest(dtype), Places::ALL),
        }
    }
}

/// The numbers of a floating type.
#[derive(Debug, Clone, Copy)]
struct Grid {
    mantissa_bits: i32,
    least_exponent: i32,
    largest: f64,
}

impl Grid {
    /// The numbers of `dtype`; none if it is not narrower than f64.
    fn of(dtype: DType) -> Option<Self> {
        let (mantissa_bits, least_exponent, largest) = match dtype {
            DType::F16 => (10, -14, half::f16::MAX.to_f64()),
            DType::BF16 => (7, -126, half::bf16::MAX.to_f64()),
            DType::F32 => (23, -126, f64::from(f32::MAX)),
            _ => return None,
        };
        Some(Self {
            mantissa_bits,
            least_exponent,
            largest,
        })
    }

    /// The neighbour of `value` above or below it.
    ///
    /// Both are as likely, however near one of them is: an evaluation that is in reach of a jump has to meet it soon.
    fn round(self, value: f64, is_up: bool) -> f64 {
        if !value.is_finite() {
            return value;
        }
        let exponent = (value.to_bits() >> 52 & 0x7ff) as i32 - 1023;
        let unit = power_of_two(exponent.max(self.least_exponent) - self.mantissa_bits);
        let below = (value / unit).floor();
        let is_whole = value == below * unit;
        let rounded = (below + f64::from(u8::from(is_up && !is_whole))) * unit;
        if rounded.abs() > self.largest {
            return f64::INFINITY.copysign(value);
        }
        rounded.copysign(value)
    }
}

/// `2^exponent` for exponents of normal numbers.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(((exponent.clamp(-1022, 1023) + 1023) as u64) << 52)
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*, 2014).
fn mix(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    #[test]
    fn chance_rounds_to_either_neighbour() {
        let up = |dtype: DType, value: f64| {
            let count = |seed| {
                let perturb = Some(Perturb::Alike(mix(seed)));
                Rounder { dtype, perturb }.round(value, 0)
            };
            let rounded: Vec<f64> = (0..4000).map(count).collect();
            let (low, high) = rounded
                .iter()
                .fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(*v), high.max(*v)));
            let share = rounded.iter().filter(|v| **v == high).count() as f64 / 4000.0;
            (low, high, share)
        };
        let either = |(low, high, share): (f64, f64, f64), want: (f64, f64)| {
            assert_eq!((low, high), want);
            assert!((share - 0.5).abs() < 0.05, "{share}");
        };
        let unit = f16::EPSILON.to_f64();
        either(up(DType::F16, 1.0 + 0.25 * unit), (1.0, 1.0 + unit));
        either(up(DType::F16, -1.0 - 0.75 * unit), (-1.0 - unit, -1.0));
        either(up(DType::F16, 65508.0), (65504.0, f64::INFINITY));
        either(up(DType::F16, 2f64.powi(-25)), (0.0, 2f64.powi(-24)));
        let unit = bf16::EPSILON.to_f64();
        either(up(DType::BF16, 3.0 + unit), (3.0, 3.0 + 2.0 * unit));
        either(up(DType::F32, 1e-60), (0.0, 2f64.powi(-149)));
    }

    #[test]
    fn values_of_the_type_stay() {
        for bits in (0..=u16::MAX).step_by(7) {
            for seed in 0..4 {
                let round = |dtype, value: f64| {
                    let perturb = Some(Perturb::Apart(seed));
                    Rounder { dtype, perturb }.round(value, 0)
                };
                let (half, brain) = (f16::from_bits(bits).to_f64(), bf16::from_bits(bits).to_f64());
                assert_eq!(round(DType::F16, half).to_bits(), half.to_bits());
                assert_eq!(round(DType::BF16, brain).to_bits(), brain.to_bits());
            }
        }
    }
}
