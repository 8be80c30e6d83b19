//! Data that differs from earlier data in a part of one input, which a memory of earlier calls may take for the same.

use std::ops::Range;

use bytemuck::Pod;
use half::{bf16, f16};
use rand::RngExt as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use super::inputs::{CHUNK, Fresh};
use crate::backend::TensorBuffer;
use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

/// The part of an input that is changed: small, so that sums over samples of the elements can miss it.
const CHANGED_PART: usize = 16;

/// Elements that are looked at for one that can be changed a little.
const SAMPLE: usize = 64;

/// The power of two by which an element is nudged once: less than most people round to, and more than products of f32 lose.
const NUDGE: i32 = 13;

/// A way to change an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// New elements in a part: a memory that looks at samples of the elements sees some of it.
    Renewed,
    /// Two parts in each other's place: sums, extremes and the sorted elements are as before.
    Exchanged,
    /// One element nearer to zero by this negative power of two of it: rounded elements are as before.
    Nudged(i32),
}

impl Change {
    /// The changes of each input, one after the other. Any kind may be first, since the first is all that a large task has.
    pub(super) fn sequence(rng: &mut ChaCha8Rng) -> [Self; 7] {
        let mut first = [Self::Renewed, Self::Exchanged, Self::Nudged(NUDGE)];
        first.shuffle(rng);
        let [a, b, c] = first;
        let other = Self::Nudged(rng.random_range(8..=18));
        [a, b, c, Self::Renewed, other, Self::Exchanged, Self::Renewed]
    }

    /// The words of verdicts for it.
    pub(super) fn about(self, input: &str) -> String {
        match self {
            Self::Renewed => format!("a part of `{input}` overwritten in place"),
            Self::Exchanged => format!("two parts of `{input}` exchanged in place"),
            Self::Nudged(_) => format!("one element of `{input}` changed a little in place"),
        }
    }

    /// The kind that suits elements of this type. Other places of integers may not be legal.
    fn suited(self, input: &Tensor) -> Self {
        if input.dtype().is_float() && input.len() > 1 {
            self
        } else {
            Self::Renewed
        }
    }
}

/// An input to change, and how its elements lie.
pub(super) struct Changing<'a> {
    pub(super) input: &'a Tensor,
    /// The axis along which rows of the outputs lie, and their number; `None` if rows are not apart.
    pub(super) rows: Option<(usize, usize)>,
    /// Makes new elements.
    pub(super) fresh: &'a (dyn Fn() -> Result<Fresh> + Sync),
}

impl Changing<'_> {
    /// A copy of the input in `buffer` with this change, and a row of the outputs that it concerns, if rows are apart.
    pub(super) fn copy(
        &self,
        change: Change,
        mut buffer: Box<dyn TensorBuffer>,
        rng: &mut ChaCha8Rng,
    ) -> Result<(Tensor, Option<Range<usize>>)> {
        let input = self.input;
        let (part, other, row) = self.parts(rng);
        let to = buffer.bytes_mut();
        to.par_chunks_mut(CHUNK)
            .zip(input.bytes().par_chunks(CHUNK))
            .for_each(|(to, from)| to.copy_from_slice(from));
        match change.suited(input) {
            Change::Renewed => self.renew(to, &part)?,
            Change::Exchanged => exchange(to, input.dtype().size(), &part, &other),
            Change::Nudged(power) => {
                nudge(to, input.dtype(), &part.sample(rng), power);
            }
        }
        Ok((buffer.freeze()?, row))
    }

    /// Two parts that do not overlap, if there is more than one, and the row that the first belongs to.
    fn parts(&self, rng: &mut ChaCha8Rng) -> (Part, Part, Option<Range<usize>>) {
        let shape = self.input.shape();
        match self.rows {
            Some((axis, rows)) => {
                let row = rng.random_range(0..rows);
                let other = (row + rng.random_range(1..rows)) % rows;
                let [part, other] = [row, other].map(|row| Part::row(shape, axis, rows, row));
                (part, other, Some(row..row + 1))
            }
            None => {
                let [part, other] = Part::stretches(self.input.len(), rng);
                (part, other, None)
            }
        }
    }

    /// Writes new elements to a part.
    fn renew(&self, to: &mut [u8], part: &Part) -> Result<()> {
        let size = self.input.dtype().size();
        let fresh = (self.fresh)()?;
        let renew = |(number, to): (usize, &mut [u8])| -> Result<()> {
            let first = number * CHUNK;
            let mut ranges = part.within(first..first + to.len() / size).peekable();
            if ranges.peek().is_none() {
                return Ok(());
            }
            // Aligned for every element type.
            let mut words = vec![0u128; to.len().div_ceil(size_of::<u128>())];
            let made = bytemuck::cast_slice_mut::<u128, u8>(&mut words).get_mut(..to.len());
            let made = made.unwrap_or_default();
            fresh.fill(made, number)?;
            for range in ranges {
                let range = (range.start - first) * size..(range.end - first) * size;
                if let (Some(to), Some(from)) = (to.get_mut(range.clone()), made.get(range)) {
                    to.copy_from_slice(from);
                }
            }
            Ok(())
        };
        to.par_chunks_mut(CHUNK * size).enumerate().try_for_each(renew)
    }
}

/// Exchanges what lies in two parts of the same form.
fn exchange(bytes: &mut [u8], size: usize, part: &Part, other: &Part) {
    let elements = bytes.len() / size;
    let (of, with) = (part.within(0..elements), other.within(0..elements));
    for (a, b) in of.zip(with) {
        let [a, b] = [a, b].map(|range| range.start * size..range.end * size);
        if let Ok([a, b]) = bytes.get_disjoint_mut([a, b]) {
            a.swap_with_slice(b);
        }
    }
}

/// Moves the first of these elements that is a number other than zero nearer to zero, by a power of two of it or by as little
/// as its type can.
fn nudge(bytes: &mut [u8], dtype: DType, elements: &[usize], power: i32) {
    let nearer = |value: f64| {
        let is_changed = value != 0.0 && value.is_finite();
        is_changed.then(|| value * (1.0 - 2f64.powi(-power)))
    };
    // Of numbers other than zero, the next nearer to zero has the bits before theirs.
    match dtype {
        DType::F64 => replace_first(bytes, elements, nearer),
        DType::F32 => replace_first(bytes, elements, |value: f32| {
            let near = nearer(value.into())? as f32;
            Some(unless_equal(near, value, || f32::from_bits(value.to_bits() - 1)))
        }),
        DType::F16 => replace_first(bytes, elements, |value: f16| {
            let near = f16::from_f64(nearer(value.into())?);
            Some(unless_equal(near, value, || f16::from_bits(value.to_bits() - 1)))
        }),
        DType::BF16 => replace_first(bytes, elements, |value: bf16| {
            let near = bf16::from_f64(nearer(value.into())?);
            Some(unless_equal(near, value, || bf16::from_bits(value.to_bits() - 1)))
        }),
        _ => {}
    }
}

/// Gives a number, or another one if it is equal to `value`.
fn unless_equal<T: PartialEq>(number: T, value: T, other: impl FnOnce() -> T) -> T {
    if number == value { other() } else { number }
}

/// Replaces the first of these elements for which there is another value.
fn replace_first<T: Pod>(bytes: &mut [u8], elements: &[usize], other: impl Fn(T) -> Option<T>) {
    let size = size_of::<T>();
    for at in elements {
        let Some(element) = bytes.get_mut(at * size..(at + 1) * size) else {
            continue;
        };
        if let Some(value) = other(bytemuck::pod_read_unaligned(element)) {
            element.copy_from_slice(bytemuck::bytes_of(&value));
            return;
        }
    }
}

/// A part of a dense tensor: `count` stretches of `length` elements, `stride` apart, from `start` on.
struct Part {
    start: usize,
    length: usize,
    stride: usize,
    count: usize,
}

impl Part {
    /// The part of row `row` of `rows` along `axis`.
    fn row(shape: &[usize], axis: usize, rows: usize, row: usize) -> Self {
        let inner: usize = shape.iter().skip(axis + 1).product();
        let extent = shape.get(axis).copied().unwrap_or(1);
        let length = extent / rows.max(1) * inner;
        Self {
            start: row * length,
            length,
            stride: extent * inner,
            count: shape.iter().take(axis).product(),
        }
    }

    /// Two random stretches of this many elements in all, which do not overlap if there is more than one element.
    fn stretches(elements: usize, rng: &mut ChaCha8Rng) -> [Self; 2] {
        let length = elements.div_ceil(CHANGED_PART).min(elements.div_ceil(2));
        let others = elements.saturating_sub(2 * length);
        let [a, b] = [(); 2].map(|()| rng.random_range(0..=others));
        let mut starts = [a.min(b), a.max(b) + length];
        starts.shuffle(rng);
        starts.map(|start| Self {
            start: start.min(elements - length),
            length,
            stride: elements,
            count: 1,
        })
    }

    /// Random elements of it, some of them more than once.
    fn sample(&self, rng: &mut ChaCha8Rng) -> Vec<usize> {
        let elements = self.length * self.count;
        let element = |at: usize| self.start + at / self.length * self.stride + at % self.length;
        let sample = if elements > 0 { SAMPLE } else { 0 };
        (0..sample)
            .map(|_| element(rng.random_range(0..elements)))
            .collect()
    }

    /// Gives the stretches of it in a range of elements.
    fn within(&self, range: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<'_> {
        let first = match range.start.checked_sub(self.start + self.length) {
            Some(beyond) => beyond / self.stride.max(1) + 1,
            None => 0,
        };
        (first..self.count)
            .map(|i| self.start + i * self.stride)
            .take_while(move |start| *start < range.end)
            .map(move |start| start.max(range.start)..(start + self.length).min(range.end))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;
    use crate::backend::host_buffer;
    use crate::graph::Graph;
    use crate::task::Task;
    use crate::verify::inputs::{Distribution, host_inputs};

    /// An input of this type and shape before and after a change, and the row that the change is said to concern.
    fn changed(
        change: Change,
        dtype: DType,
        shape: [usize; 2],
        rows: Option<(usize, usize)>,
        seed: u64,
    ) -> (Vec<f64>, Vec<f64>, Option<Range<usize>>) {
        let mut graph = Graph::new("g");
        let x = graph.input("x", dtype, shape);
        let y = graph.abs(x).unwrap();
        graph.output(y);
        let task = Task::new("t", graph);
        let before = host_inputs(&task, Distribution::Signed, seed).unwrap().remove(0);
        let fresh = || Fresh::new(&task, Distribution::Signed, seed + 1, &task.contract.hints, 0);
        let changing = Changing {
            input: &before,
            rows,
            fresh: &fresh,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let buffer = host_buffer(dtype, &shape).unwrap();
        let (after, row) = changing.copy(change, buffer, &mut rng).unwrap();
        (before.to_f64().unwrap(), after.to_f64().unwrap(), row)
    }

    const FLOATS: [DType; 4] = [DType::F64, DType::F32, DType::F16, DType::BF16];

    /// The places of the elements that differ.
    fn different(before: &[f64], after: &[f64]) -> Vec<usize> {
        assert_eq!(before.len(), after.len());
        (0..before.len()).filter(|at| before[*at] != after[*at]).collect()
    }

    #[test]
    fn exchanged_parts_keep_the_sorted_elements() {
        for dtype in FLOATS {
            for (seed, rows) in [
                (1, None),
                (2, Some((0, 6))),
                (3, Some((1, 50))),
                (4, Some((1, 10))),
            ] {
                let (before, after, row) = changed(Change::Exchanged, dtype, [6, 50], rows, seed);
                let different = different(&before, &after);
                assert!(!different.is_empty());
                if let (Some((axis, rows)), Some(row)) = (rows, row) {
                    let number = |at: &usize| [at / 50, at % 50][axis] * rows / [6, 50][axis];
                    assert!(different.iter().any(|at| row.contains(&number(at))));
                }
                let sorted = |mut values: Vec<f64>| {
                    values.sort_by(f64::total_cmp);
                    values
                };
                assert_eq!(sorted(before), sorted(after));
            }
        }
    }

    #[test]
    fn a_nudge_moves_one_element_nearer_to_zero() {
        for dtype in FLOATS {
            for (seed, power) in (0..20).zip([8, 13, 18].into_iter().cycle()) {
                let (before, after, row) = changed(Change::Nudged(power), dtype, [8, 9], Some((0, 8)), seed);
                let different = different(&before, &after);
                let [at] = different[..] else {
                    panic!("{different:?} of {dtype} differ");
                };
                assert_eq!(row, Some(at / 9..at / 9 + 1));
                let part = after[at] / before[at];
                let least = 1.0 - f64::max(2f64.powi(-power) * 1.1, dtype.unit_roundoff().unwrap() * 2.2);
                assert!((least..1.0).contains(&part), "{part} of {dtype} by 2^-{power}");
            }
        }
    }

    #[test]
    fn integers_and_single_elements_are_renewed() {
        let (before, after, _) = changed(Change::Exchanged, DType::I32, [9, 9], None, 1);
        let count = different(&before, &after).len();
        assert!((1..=6).contains(&count));
        let (before, after, _) = changed(Change::Nudged(13), DType::F32, [1, 1], None, 1);
        assert!((before[0] - after[0]).abs() > 1e-2);
        let (before, after, _) = changed(Change::Renewed, DType::F32, [0, 3], None, 1);
        assert_eq!(before, after);
    }

    #[test]
    fn a_row_is_what_lies_at_its_index() {
        let (shape, axis) = ([3, 4, 5], 1);
        let part = Part::row(&shape, axis, 2, 1);
        let inside: Vec<usize> = (0..60)
            .step_by(7)
            .flat_map(|start| part.within(start..(start + 7).min(60)))
            .flatten()
            .collect();
        let expected: Vec<usize> = (0..60).filter(|i| i / 5 % 4 >= 2).collect();
        assert_eq!(inside, expected);
    }
}
