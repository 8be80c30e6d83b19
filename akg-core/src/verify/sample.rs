//! Which rows of the outputs are compared, and in what order.

use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::work::Operations;
use crate::reference::{ELEMENT, EvaluationCost, RowPlan};

/// How much of the outputs is compared.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    /// Operations of the reference after which no further rows are compared; `None` for all rows.
    pub(super) work: Option<Operations>,
    /// Operations for the yardstick of the limits.
    pub(super) yardstick: Operations,
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

/// A sample is at least one part in so many of the rows.
const SAMPLES: usize = 32;

/// Elements of each output, if it has as many, that are compared even if that takes so many times as much work as it should,
/// and that the yardstick is measured on: the error of fewer says little.
const FEWEST: u64 = 64;
const PATIENCE: u64 = 4;

/// Elements of each output after which a sample ends, and those after which the yardstick is known well enough: more say
/// no more.
const MOST: u64 = 1 << 26;
const MOST_YARDED: u64 = 1 << 24;

/// Rows in an order that nobody can expect. Which rows are compared follows from the graph, its sizes, the budget and the
/// seed; the machine decides only how they are grouped.
pub(super) struct Sample {
    /// Rows that are computed together, and the first of them, in which the yardstick is measured.
    pieces: Vec<(Range<usize>, Range<usize>)>,
    /// Pieces that were given out.
    given: usize,
    /// Pieces that may be computed at the same time.
    at_once: usize,
    /// Pieces that are given out first.
    first: usize,
    traced: usize,
    /// Rows that are compared, and those of them in which the yardstick is measured.
    rows: usize,
    yarded: usize,
    cost: Costs,
    /// Operations of comparing a row.
    compared: u64,
}

impl Sample {
    /// The sample of a graph with outputs of so many elements; all of it in one piece if it does not split. `by_device`: large
    /// products do not take the host's cores, and are worth the way only if they are large.
    pub(super) fn new(
        plan: Option<&RowPlan>,
        cost: Costs,
        outputs: &[usize],
        extent: &Extent,
        seed: u64,
        by_device: bool,
    ) -> Self {
        let budget = Budget::new(cost, outputs);
        let mut sample = Self {
            pieces: vec![(0..1, 0..1)],
            given: 0,
            at_once: 1,
            first: 1,
            traced: 1,
            rows: 1,
            yarded: 1,
            cost,
            compared: budget.compared,
        };
        let Some(plan) = plan else {
            return sample;
        };
        let rows = plan.rows();
        let bytes_of_row = bytes(plan.row_elements().max(1));
        let shared = bytes(plan.shared_elements());
        let part = rows.div_ceil(SAMPLES);
        let least = (MOST_BYTES / bytes_of_row).clamp(1, part);
        let few = budget.reaching(FEWEST);
        let compared = extent.work.map_or(rows, |work| {
            let patient = budget.rows(Operations(work.0.saturating_mul(PATIENCE)));
            let wanted = budget.rows(work).max(few.min(patient));
            wanted.min(budget.reaching(MOST)).clamp(least, rows)
        });
        let yarded = budget.yards(extent.yardstick).max(few);
        let yarded = yarded.min(budget.reaching(MOST_YARDED)).max(least).min(compared);
        // Large products stay together, as far as so many rows are compared.
        let is_large = shared >= LARGE_SHARED_BYTES;
        let cached = CACHED_BYTES.max(shared / SHARED_PARTS).min(MOST_BYTES) / bytes_of_row;
        let host = cached.clamp(1, part);
        let unit = if is_large {
            DEVICE_ROWS.min(compared).max(host)
        } else {
            host
        };
        let mut units: Vec<Range<usize>> = cut(&(0..rows), unit).collect();
        units.shuffle(&mut ChaCha8Rng::seed_from_u64(seed ^ 0x726f_7773));
        if let Some(first) = &extent.first {
            units.insert(0, first.clone());
        }
        let piece = if by_device { unit } else { host };
        let (yards, rest) = split(&units, yarded);
        let pieces = yards.iter().flat_map(|unit| cut(unit, piece));
        sample.pieces = pieces.map(|range| (range.clone(), range)).collect();
        sample.yarded = count(yards);
        let (chosen, _) = split(rest, compared.saturating_sub(sample.yarded));
        sample.rows = sample.yarded + count(chosen);
        let most = if by_device && is_large {
            shared.clamp(MOST_BYTES, MOST_DEVICE_BYTES) / bytes_of_row
        } else {
            cached
        };
        let alone = |range: Range<usize>| (range.clone(), range.start..range.start);
        if extent.work.is_some() {
            let pieces = chosen.iter().flat_map(|unit| cut(unit, piece));
            sample.pieces.extend(pieces.map(alone));
        } else {
            let joined = joined(chosen);
            let pieces = joined.iter().flat_map(|range| cut(range, most));
            sample.pieces.extend(pieces.map(alone));
        }
        let longest = sample.pieces.iter().map(|(range, _)| range.len()).max();
        let longest = longest.unwrap_or(1).saturating_mul(bytes_of_row);
        sample.at_once = (BYTES_AT_ONCE / longest.max(1)).max(1);
        sample.first = least.div_ceil(piece);
        sample.traced = (cost.suspect_rows() / FEWEST_SUSPECTS).max(piece);
        sample
    }

    /// The pieces to compute next, each with its first rows in which the yardstick is measured; `None` when enough was
    /// compared.
    pub(super) fn next(&mut self) -> Option<&[(Range<usize>, Range<usize>)]> {
        let count = if self.given == 0 { self.first } else { self.at_once };
        let rest = self.pieces.get(self.given..).filter(|rest| !rest.is_empty())?;
        let wave = rest.get(..count.min(self.at_once)).unwrap_or(rest);
        self.given += wave.len();
        Some(wave)
    }

    /// What was given out, in waves that may be computed at the same time.
    pub(super) fn done(&self) -> impl Iterator<Item = &[(Range<usize>, Range<usize>)]> {
        let done = self.pieces.get(..self.given).unwrap_or_default();
        done.chunks(self.at_once)
    }

    /// Rows at most whose errors are kept apart, to be found again.
    pub(super) fn traced(&self) -> usize {
        self.traced
    }

    /// The rows that are compared.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// The work of the comparison, with the yardstick's.
    pub(super) fn work(&self) -> Operations {
        self.work_of(self.yarded)
    }

    /// The work of measuring the yardstick in all rows.
    pub(super) fn yardstick_work(&self) -> Operations {
        self.work_of(self.rows)
    }

    fn work_of(&self, yarded: usize) -> Operations {
        let compared = self.compared.saturating_mul((self.rows + yarded) as u64);
        let Costs { truth, yardstick } = &self.cost;
        let evaluated = truth.of_rows(self.rows).saturating_add(yardstick.of_rows(yarded));
        Operations(compared.saturating_add(evaluated))
    }
}

/// The operations of the evaluations of a comparison.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    pub(super) truth: EvaluationCost,
    pub(super) yardstick: EvaluationCost,
}

/// Work that suspect rows may take with each set of inputs, and the evaluations in f64 on it.
const SUSPECT_WORK: Operations = Operations::of_milliseconds(300);
const SUSPECT_EVALUATIONS: u64 = 6;

/// Pieces of suspect rows that are looked at, whatever work they take.
pub(super) const FEWEST_SUSPECTS: usize = 4;

impl Costs {
    /// Suspect rows that are looked at.
    pub(super) fn suspect_rows(&self) -> usize {
        let row = SUSPECT_EVALUATIONS
            .saturating_mul(self.truth.row)
            .saturating_add(self.yardstick.row);
        rows_for(SUSPECT_WORK, row)
    }
}

/// Rows that an amount of work is for.
struct Budget<'a> {
    cost: Costs,
    rows: usize,
    /// Operations of comparing the outputs of a row.
    compared: u64,
    /// Elements of each output.
    outputs: &'a [usize],
}

impl<'a> Budget<'a> {
    fn new(cost: Costs, outputs: &'a [usize]) -> Self {
        let rows = cost.truth.rows.max(1);
        let elements = outputs.iter().map(|n| n.div_ceil(rows) as u64).sum::<u64>();
        Self {
            cost,
            rows,
            compared: elements.saturating_mul(ELEMENT),
            outputs,
        }
    }

    /// Rows that are compared, with the yardstick in each of them.
    fn rows(&self, work: Operations) -> usize {
        let both = self
            .compared
            .saturating_mul(2)
            .saturating_add(self.cost.truth.row);
        rows_for(work, both.saturating_add(self.cost.yardstick.row))
    }

    /// Rows in which the yardstick is measured.
    fn yards(&self, work: Operations) -> usize {
        rows_for(work, self.compared.saturating_add(self.cost.yardstick.row))
    }

    /// Rows in which every output has so many elements, or all that it has.
    fn reaching(&self, elements: u64) -> usize {
        let rows = self.outputs.iter().map(|all| {
            let each = (all / self.rows).max(1) as u64;
            elements.min(*all as u64).div_ceil(each) as usize
        });
        rows.max().unwrap_or(0).min(self.rows)
    }
}

fn rows_for(work: Operations, row: u64) -> usize {
    usize::try_from(work.0 / row.max(1)).unwrap_or(usize::MAX)
}

fn bytes(elements: usize) -> usize {
    elements.saturating_mul(size_of::<f64>())
}

/// A stretch of rows in pieces of at most `most`.
pub(super) fn cut(range: &Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let (most, range) = (most.max(1), range.clone());
    let starts = range.clone().step_by(most);
    starts.map(move |start| start..range.end.min(start.saturating_add(most)))
}

/// The first stretches that have so many rows together, and the others.
fn split(units: &[Range<usize>], rows: usize) -> (&[Range<usize>], &[Range<usize>]) {
    let mut sum = 0;
    let enough = units.iter().take_while(|unit| {
        let more = sum < rows;
        sum += unit.len();
        more
    });
    units.split_at(enough.count())
}

fn count(units: &[Range<usize>]) -> usize {
    units.iter().map(ExactSizeIterator::len).sum()
}

/// Stretches in their order, those that follow one another as one.
fn joined(units: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut sorted = units.to_vec();
    sorted.sort_by_key(|unit| unit.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for unit in sorted {
        match joined.last_mut() {
            Some(last) if last.end == unit.start => last.end = unit.end,
            _ => joined.push(unit),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::dtype::DType;
    use crate::expr::Bindings;
    use crate::graph::Graph;
    use crate::reference::{Options, Precision, evaluate};
    use crate::task::Task;
    use crate::tensor::Tensor;
    use crate::verify::comparison::Comparison;

    /// Rows of sums of products with a square matrix.
    fn products(rows: usize, width: usize) -> (RowPlan, Costs) {
        let mut graph = Graph::new("g");
        let x = graph.input("x", DType::F32, [rows, width]);
        let w = graph.weight("w", DType::F32, [width, width]);
        let y = graph.matmul(x, w).unwrap();
        let y = graph.sum(y, &[1], false).unwrap();
        graph.output(y);
        let plan = RowPlan::new(&graph, &Bindings::new()).unwrap().unwrap();
        let of = |precision| EvaluationCost::new(&graph, Some(&plan), &Bindings::new(), precision).unwrap();
        let cost = Costs {
            truth: of(Precision::F64),
            yardstick: of(Precision::F32Pairwise),
        };
        (plan, cost)
    }

    fn extent(work: Option<u64>) -> Extent {
        Extent {
            work: work.map(Operations),
            yardstick: Operations::of_milliseconds(100),
            first: None,
        }
    }

    /// All pieces, and the rows in them.
    fn drained(mut sample: Sample) -> (Vec<Range<usize>>, BTreeSet<usize>, BTreeSet<usize>) {
        let (mut pieces, mut rows, mut yards) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        while let Some(wave) = sample.next() {
            for (range, yard) in wave {
                assert!(range.clone().all(|row| rows.insert(row)), "{range:?} twice");
                yards.extend(yard.clone());
                pieces.push(range.clone());
            }
        }
        assert_eq!((rows.len(), yards.len()), (sample.rows, sample.yarded));
        (pieces, rows, yards)
    }

    #[test]
    fn a_device_is_given_more_rows_at_a_time_and_the_same_rows() {
        let (plan, cost) = products(128, 4096);
        for work in [None, Some(1 << 32), Some(1 << 36)] {
            let [host, device] = [false, true].map(|by_device| {
                drained(Sample::new(
                    Some(&plan),
                    cost,
                    &[128],
                    &extent(work),
                    1,
                    by_device,
                ))
            });
            assert_eq!((&host.1, &host.2), (&device.1, &device.2));
            assert!(host.0.len() > device.0.len());
            assert!(host.0.iter().all(|piece| piece.len() <= 4) || work.is_none());
            assert!(device.0.iter().any(|piece| piece.len() >= 32));
        }
    }

    #[test]
    fn rows_follow_from_the_work_and_the_seed() {
        let (plan, cost) = products(4096, 256);
        let rows = |work: Option<u64>, seed: u64| {
            let sample = Sample::new(Some(&plan), cost, &[4096], &extent(work), seed, false);
            let operations = sample.work().0;
            (drained(sample).1, operations)
        };
        let work = 1000 * 8 * 256 * 256;
        let (some, operations) = rows(Some(work), 1);
        assert_eq!(some, rows(Some(work), 1).0);
        assert_ne!(some, rows(Some(work), 2).0);
        assert!((600..1100).contains(&some.len()), "{}", some.len());
        assert!((work / 2..work * 2).contains(&operations));
        assert_eq!(rows(None, 1).0.len(), 4096);
        // However little work is allowed, a part is looked at.
        assert_eq!(rows(Some(0), 1).0.len(), 4096 / 32);
    }

    #[test]
    fn rows_that_are_asked_for_come_first() {
        let (plan, cost) = products(4096, 64);
        let mut extent = extent(Some(1 << 20));
        extent.first = Some(77..78);
        let mut sample = Sample::new(Some(&plan), cost, &[4096], &extent, 1, false);
        assert_eq!(sample.next().unwrap()[0].0, 77..78);
    }

    #[test]
    fn errors_and_limits_do_not_depend_on_the_number_of_threads() {
        let mut graph = Graph::new("g");
        let x = graph.input("x", DType::F32, [600, 300]);
        let w = graph.weight("w", DType::F32, [300, 200]);
        let y = graph.matmul(x, w).unwrap();
        let y = graph.softmax(y, -1).unwrap();
        graph.output(y);
        let task = Task::new("t", graph);
        let tensor = |rows: usize, columns: usize| {
            let values: Vec<f32> = (0..rows * columns).map(|i| (i as f32 * 0.37).sin()).collect();
            Tensor::from_slice([rows, columns], &values).unwrap()
        };
        let inputs = [tensor(600, 300), tensor(300, 200)];
        let options = Options {
            precision: Precision::F32Pairwise,
            ..Options::default()
        };
        let outcome = evaluate(&task.graph, &inputs, &options).unwrap().remove(0);
        let values: Vec<f32> = outcome.to_f64().iter().map(|v| *v as f32).collect();
        let outputs = [Tensor::from_slice([600, 200], &values).unwrap()];
        let judged = |work: Option<u64>, threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .unwrap();
            let comparison = Comparison::returned(&task, &inputs, &outputs, None, 7);
            pool.install(|| comparison.judge(&extent(work)).unwrap())
        };
        for work in [None, Some(100_000_000)] {
            assert_eq!(judged(work, 1), judged(work, 5));
        }
    }
}
