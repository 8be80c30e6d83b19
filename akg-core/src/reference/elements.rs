//! Where the elements of a value lie: in memory of the evaluation's own, or in a tensor as it is stored.

use std::fmt;
use std::sync::OnceLock;
use std::thread;

use super::memory::zeros;
use super::shift::Shift;
use crate::tensor::Tensor;

/// Elements that views share.
#[derive(Debug)]
pub(super) enum Memory<E> {
    Own(Vec<E>),
    Stored(Stored<E>),
}

impl<E> Memory<E> {
    pub(super) fn elements(&self) -> Elements<'_, E> {
        match self {
            Self::Own(values) => Elements::Own(values),
            Self::Stored(stored) => Elements::Stored(stored),
        }
    }
}

/// A dense tensor of `f32`, read as elements of an evaluation where somebody asks for them: it is lent as it is to who can do
/// without.
pub struct Stored<E> {
    tensor: Tensor,
    /// The move of each element, if they are moved.
    shift: Option<Shift>,
    /// All elements.
    read: fn(&Self) -> &[E],
    read_before: OnceLock<Vec<E>>,
    /// Some of the elements, as [`read_run`] reads them.
    read_run: fn(&Self, isize, isize, &mut [E]),
}

impl<E> Stored<E> {
    fn values(&self) -> &[f32] {
        self.tensor.as_slice().unwrap_or_default()
    }
}

/// Fills `run` with elements from `start` on, which are `stride` apart.
fn read_run<S: Copy, E: Copy>(
    from: &[S],
    start: isize,
    stride: isize,
    run: &mut [E],
    convert: impl Fn(S) -> E,
) {
    let first = start as usize;
    match stride {
        1 => {
            let from = &from[first..first + run.len()];
            let pairs = run.iter_mut().zip(from);
            pairs.for_each(|(slot, value)| *slot = convert(*value));
        }
        0 if !run.is_empty() => run.fill(convert(from[first])),
        _ => {
            let mut at = start;
            for slot in run {
                *slot = convert(from[at as usize]);
                at += stride;
            }
        }
    }
}

impl<E> fmt::Debug for Stored<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Stored").field(&self.tensor).finish()
    }
}

impl Stored<f32> {
    /// The tensor's own elements.
    pub(super) fn single(tensor: Tensor) -> Self {
        Self {
            tensor,
            shift: None,
            read: Self::values,
            read_before: OnceLock::new(),
            read_run: |stored, start, stride, run| read_run(stored.values(), start, stride, run, |v| v),
        }
    }
}

impl Stored<f64> {
    /// The tensor's elements, widened and moved.
    pub(super) fn wide(tensor: Tensor, shift: Option<Shift>) -> Self {
        Self {
            tensor,
            shift,
            read: |stored| stored.read_before.get_or_init(|| stored.widened()),
            read_before: OnceLock::new(),
            read_run: Self::widen,
        }
    }

    fn widen(&self, start: isize, stride: isize, run: &mut [f64]) {
        match self.shift {
            None => read_run(self.values(), start, stride, run, f64::from),
            Some(shift) => read_run(self.values(), start, stride, run, |v| shift.apply(f64::from(v))),
        }
    }

    /// All elements, by threads of its own: those of a pool could wait here for what they have begun themselves.
    fn widened(&self) -> Vec<f64> {
        let mut wide = zeros(self.tensor.len());
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let part = wide.len().div_ceil(threads).max(1);
        thread::scope(|scope| {
            for (i, to) in wide.chunks_mut(part).enumerate() {
                scope.spawn(move || self.widen((i * part) as isize, 1, to));
            }
        });
        wide
    }
}

/// What a [`Matrix`](super::Matrix) lies in.
#[derive(Debug)]
pub enum Elements<'a, E> {
    /// Elements in the precision of the evaluation.
    Own(&'a [E]),
    /// A tensor of `f32`.
    Stored(&'a Stored<E>),
}

impl<E> Clone for Elements<'_, E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> Copy for Elements<'_, E> {}

impl<'a, E> Elements<'a, E> {
    /// The elements in the precision of the evaluation; those of a tensor may have to be converted first, and stay.
    #[inline(always)]
    pub fn get(self) -> &'a [E] {
        match self {
            Self::Own(values) => values,
            Self::Stored(stored) => (stored.read)(stored),
        }
    }

    /// Fills `run` with elements from `start` on, which are `stride` apart; those of a tensor are converted on the way.
    pub(super) fn run(self, start: isize, stride: isize, run: &mut [E])
    where
        E: Copy,
    {
        match self {
            Self::Own(values) => read_run(values, start, stride, run, |v| v),
            Self::Stored(stored) => (stored.read_run)(stored, start, stride, run),
        }
    }

    /// The number of elements.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(self) -> usize {
        match self {
            Self::Own(values) => values.len(),
            Self::Stored(stored) => stored.tensor.len(),
        }
    }

    /// The tensor of `f32` whose elements these are, if they are a tensor's.
    pub fn stored(self) -> Option<&'a Tensor> {
        match self {
            Self::Stored(stored) if stored.shift.is_none() => Some(&stored.tensor),
            _ => None,
        }
    }

    /// Returns true if elements are converted where they are read.
    pub(super) fn is_converted(self) -> bool {
        matches!(self, Self::Stored(_))
    }
}
