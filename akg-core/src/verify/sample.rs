//! Which rows of the outputs are compared, and in what order.

use std::ops::Range;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::measure::{Measured, Mismatch, View, add_outcome};
use crate::error::Result;
use crate::reference::{Outcome, RowPlan};
use crate::tensor::Tensor;

/// How much of the outputs is compared.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    /// Reference time after which no further rows are compared; `None` for all rows. Times are those of two cores: a
    /// machine with more of them needs less for the same rows.
    pub(super) time: Option<Duration>,
    /// Time for the yardstick of the limits.
    pub(super) yardstick: Duration,
    /// Rows that are compared first, if the graph splits into rows.
    pub(super) first: Option<Range<usize>>,
}

/// Bytes of f64 values that one piece may take for its largest value, unless a single row is larger.
const MOST_BYTES: usize = 64 << 20;

/// Bytes of the largest values of all pieces that are computed at the same time.
const BYTES_AT_ONCE: usize = 256 << 20;

/// Bytes of a piece's largest value that a core's cache holds, so that what is computed from it is found there.
const CACHED_BYTES: usize = 1 << 20;

/// What all rows have in common is read again for each piece, so that a piece is at least one part in so many of it.
const SHARED_PARTS: usize = 16;

/// Bytes in common from which products with them may be worth the way to a device. Then a piece is as large, so that the
/// way is not gone again and again for the same, up to the second number.
const LARGE_SHARED_BYTES: usize = 8 << 20;
const MOST_DEVICE_BYTES: usize = 1 << 30;

/// Rows that take a device no longer than a single one.
const DEVICE_ROWS: usize = 64;

/// The cores that an extent's times are for, and the least part of them that is left where there are more: not everything
/// goes faster.
const CORES: f64 = 2.0;
const FASTEST: f64 = 0.25;

/// A sample is at least one part in so many of the rows.
const SAMPLES: usize = 32;

/// Elements of each output, if it has as many, that are compared even if that takes so many times as long as it should, and
/// that the yardstick is measured on: the error of fewer says little.
const FEWEST: u64 = 64;
const PATIENCE: f64 = 4.0;

/// Elements of each output after which a sample ends, and those after which the yardstick is known well enough: more say
/// no more.
const MOST: u64 = 1 << 26;
const MOST_YARDED: u64 = 1 << 24;

/// What was found out in one piece.
pub(super) struct Piece {
    pub(super) measured: Vec<Measured>,
    /// Elements of each output.
    pub(super) compared: Vec<usize>,
    /// The first output with an element that is wrong under any tolerance.
    pub(super) wrong: Option<(usize, Mismatch)>,
    yards: Vec<Measured>,
    /// Elements of each output that the yardstick was evaluated for.
    yarded: Vec<usize>,
    /// What the yardstick took.
    spent: Option<Duration>,
}

impl Piece {
    pub(super) fn new(outputs: usize) -> Self {
        Self {
            measured: vec![Measured::default(); outputs],
            compared: vec![0; outputs],
            wrong: None,
            yards: vec![Measured::default(); outputs],
            yarded: vec![0; outputs],
            spent: None,
        }
    }

    /// Measures the yardstick, on the first elements of the reference or on all.
    /// The views are those of the outputs with the element that the reference begins with.
    pub(super) fn measure_yard(
        &mut self,
        views: &[(View<'_>, usize)],
        reference: &[Outcome],
        yardstick: impl FnOnce() -> Result<Vec<Outcome>>,
    ) -> Result<()> {
        let start = Instant::now();
        for (i, ((view, offset), (reference, got))) in
            views.iter().zip(reference.iter().zip(&yardstick()?)).enumerate()
        {
            add_outcome(&mut self.yards[i], view, *offset, reference, got);
            self.yarded[i] = got.shape.iter().product();
        }
        self.spent = Some(start.elapsed());
        Ok(())
    }
}

/// What was found out in all pieces so far.
pub(super) struct Found {
    pub(super) measured: Vec<Measured>,
    pub(super) yards: Vec<Measured>,
    /// Elements of each output.
    pub(super) compared: Vec<u64>,
    /// Elements of each output that the yardstick was evaluated for, in so many pieces, and what that took on one thread.
    yarded: Vec<u64>,
    yard_pieces: usize,
    yard_spent: Duration,
}

impl Found {
    pub(super) fn new(outputs: usize) -> Self {
        Self {
            measured: vec![Measured::default(); outputs],
            yards: vec![Measured::default(); outputs],
            compared: vec![0; outputs],
            yarded: vec![0; outputs],
            yard_pieces: 0,
            yard_spent: Duration::ZERO,
        }
    }

    pub(super) fn add(&mut self, piece: &Piece) {
        let merge = |all: &mut [Measured], part: &[Measured]| {
            all.iter_mut().zip(part).for_each(|(all, part)| all.merge(part));
        };
        merge(&mut self.measured, &piece.measured);
        merge(&mut self.yards, &piece.yards);
        let count = |all: &mut [u64], part: &[usize]| {
            all.iter_mut()
                .zip(part)
                .for_each(|(all, part)| *all += *part as u64);
        };
        count(&mut self.compared, &piece.compared);
        count(&mut self.yarded, &piece.yarded);
        if let Some(spent) = piece.spent {
            self.yard_pieces += 1;
            self.yard_spent += spent;
        }
    }
}

/// Rows in pieces that are computed apart, in an order that nobody can expect.
pub(super) struct Sample<'a> {
    pieces: Vec<Range<usize>>,
    /// Pieces that were given out.
    given: usize,
    /// Pieces that may be computed at the same time.
    at_once: usize,
    /// Pieces that are given out first.
    first: usize,
    /// Rows of a piece that suffice to know the error of the class in it.
    few: usize,
    extent: &'a Extent,
    /// Elements of each output that suffice.
    fewest: Vec<u64>,
    /// The part of the extent's times that this machine needs.
    pace: f64,
    start: Instant,
}

impl<'a> Sample<'a> {
    /// The pieces of a graph with these outputs; one if it does not split. `by_device`: large products do not take the
    /// host's cores, and are worth the way only if they are large.
    pub(super) fn new(
        plan: Option<&RowPlan>,
        outputs: &[Tensor],
        extent: &'a Extent,
        seed: u64,
        by_device: bool,
    ) -> Self {
        let mut sample = Self {
            pieces: std::iter::once(0..1).collect(),
            given: 0,
            at_once: 1,
            first: 1,
            few: 1,
            extent,
            fewest: outputs.iter().map(|o| FEWEST.min(o.len() as u64)).collect(),
            pace: (CORES / rayon::current_num_threads() as f64).clamp(FASTEST, 1.0),
            start: Instant::now(),
        };
        let Some(plan) = plan else {
            return sample;
        };
        let rows = plan.rows();
        let row = plan.row_elements().max(1) * size_of::<f64>();
        let shared = plan.shared_elements() * size_of::<f64>();
        let mut part = rows.div_ceil(SAMPLES);
        let bytes = if by_device && shared >= LARGE_SHARED_BYTES {
            part = part.max(DEVICE_ROWS.min(rows));
            shared.clamp(MOST_BYTES, MOST_DEVICE_BYTES)
        } else {
            CACHED_BYTES.max(shared / SHARED_PARTS).min(MOST_BYTES)
        };
        sample.few = part;
        let most = if extent.time.is_some() { part } else { rows };
        let step = (bytes / row).clamp(1, most);
        sample.pieces = (0..rows)
            .step_by(step)
            .map(|start| start..(start + step).min(rows))
            .collect();
        sample.at_once = (BYTES_AT_ONCE / (step * row)).max(1);
        sample.first = (MOST_BYTES / row).clamp(1, part).div_ceil(step);
        let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x726f_7773);
        sample.pieces.shuffle(&mut rng);
        if let Some(first) = &extent.first {
            sample.pieces.insert(0, first.clone());
        }
        sample
    }

    /// The pieces to compute next, each with its first rows in which the yardstick is measured; `None` when enough was
    /// compared.
    pub(super) fn next(&mut self, found: &Found) -> Option<Vec<(Range<usize>, Range<usize>)>> {
        let few = |counts: &[u64]| counts.iter().zip(&self.fewest).any(|(n, fewest)| n < fewest);
        let plenty = |counts: &[u64], most: u64| counts.iter().all(|n| *n >= most);
        let threads = rayon::current_num_threads();
        let count = match self.extent.time {
            _ if self.given == 0 => self.first,
            None => self.at_once,
            Some(time) => {
                let time = time.as_secs_f64() * self.pace;
                let elapsed = self.start.elapsed().as_secs_f64();
                let enough = !few(&found.compared) || elapsed >= time * PATIENCE;
                if enough && (elapsed >= time || plenty(&found.compared, MOST)) {
                    return None;
                }
                let fit = (time - elapsed) / elapsed.max(1e-9) * self.given as f64;
                (fit as usize).max(if few(&found.compared) { threads } else { 1 })
            }
        };
        let rest = self.pieces.get(self.given..).filter(|rest| !rest.is_empty())?;
        let wave = rest.get(..count.min(self.at_once)).unwrap_or(rest);
        let yards = if self.given == 0 || few(&found.yarded) {
            wave.len()
        } else if plenty(&found.yarded, MOST_YARDED) {
            0
        } else {
            let time = self.extent.yardstick.as_secs_f64() * self.pace * threads.min(wave.len()) as f64;
            let spent = found.yard_spent.as_secs_f64();
            let each = spent / found.yard_pieces.max(1) as f64;
            ((time - spent) / each.max(1e-9)) as usize
        };
        self.given += wave.len();
        let yard = |i: usize, range: &Range<usize>| {
            let few = if i < yards { self.few } else { 0 };
            range.start..range.end.min(range.start + few)
        };
        let wave = wave.iter().enumerate();
        Some(wave.map(|(i, range)| (range.clone(), yard(i, range))).collect())
    }

    /// What was given out, in waves that may be computed at the same time.
    pub(super) fn done(&self) -> impl Iterator<Item = &[Range<usize>]> {
        let done = self.pieces.get(..self.given).unwrap_or_default();
        done.chunks(self.at_once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::expr::Bindings;
    use crate::graph::Graph;

    #[test]
    fn a_device_is_given_as_many_rows_as_take_it_no_longer() {
        let mut graph = Graph::new("g");
        let x = graph.input("x", DType::F32, [128, 4096]);
        let w = graph.weight("w", DType::F32, [4096, 4096]);
        let y = graph.matmul(x, w).unwrap();
        let y = graph.sum(y, &[1], false).unwrap();
        graph.output(y);
        let plan = RowPlan::new(&graph, &Bindings::new()).unwrap();
        let outputs = [Tensor::zeros(DType::F32, [128]).unwrap()];
        let extent = Extent {
            time: Some(Duration::from_millis(100)),
            yardstick: Duration::from_millis(100),
            first: None,
        };
        for (by_device, rows) in [(true, 64), (false, 4)] {
            let mut sample = Sample::new(plan.as_ref(), &outputs, &extent, 1, by_device);
            let wave = sample.next(&Found::new(1)).unwrap();
            for (compared, yard) in &wave {
                assert!(compared.len() <= rows && yard == compared, "{wave:?}");
            }
            assert_eq!(wave[0].0.len(), rows);
        }
    }
}
