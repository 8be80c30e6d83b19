//! Errors of an output in units of what rounding can do, as a whole and by group of elements.

use std::collections::BTreeMap;

use crate::verdict::ErrorMeasure;

/// The largest root mean square of a group of many elements, and the largest error of one element, in units.
const RMS: f64 = 1.5;
pub(super) const MAX: f64 = 5.0;

/// Groups of columns at most.
const COLUMNS: usize = 256;

/// Errors of the elements of an output.
#[derive(Debug, Clone, Default)]
pub(super) struct Scores {
    whole: Tally,
    columns: Vec<Tally>,
    bands: BTreeMap<u64, Tally>,
    /// The run whose errors are the most beyond what they may be.
    row: Option<Tally>,
    /// Sums over elements: of the expected, of its square, of squared errors, and of squared units.
    sum: f64,
    squares: f64,
    errors: f64,
    units: f64,
    largest_error: f64,
    largest_unit: f64,
}

/// Errors of a group of elements, in units.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    count: u64,
    squares: f64,
    max: f64,
    /// The element with the largest error.
    worst: Worst,
}

#[derive(Debug, Clone, Copy, Default)]
struct Worst {
    index: usize,
    got: f64,
    expected: f64,
}

/// A group of elements whose errors are too large.
#[derive(Debug)]
pub(super) struct Excess {
    /// `row`, `column 5`: which elements.
    pub(super) group: String,
    /// The root mean square and the maximum of the errors in units, and the largest that they may be.
    pub(super) error: ErrorMeasure,
    pub(super) limit: ErrorMeasure,
    /// The number, value and expected value of the worst element.
    pub(super) index: usize,
    pub(super) got: f64,
    pub(super) expected: f64,
}

impl Tally {
    fn add(&mut self, units: f64, worst: Worst) {
        self.count += 1;
        self.squares += units * units;
        if units >= self.max {
            self.max = units;
            self.worst = worst;
        }
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.squares += other.squares;
        if other.max >= self.max {
            self.max = other.max;
            self.worst = other.worst;
        }
    }

    fn error(&self) -> ErrorMeasure {
        ErrorMeasure {
            rms: (self.squares / self.count.max(1) as f64).sqrt(),
            max: self.max,
        }
    }

    /// The largest error of a group: the root mean square of few elements is as uncertain as their maximum.
    fn limit(&self) -> ErrorMeasure {
        let few = (self.count.max(1) as f64).sqrt().recip();
        ErrorMeasure {
            rms: (RMS.powi(2) + (MAX.powi(2) - RMS.powi(2)) * few).sqrt(),
            max: MAX,
        }
    }

    /// The largest part of a limit that an error is; more than 1 is too much.
    fn excess(&self) -> f64 {
        let (error, limit) = (self.error(), self.limit());
        (error.rms / limit.rms).max(error.max / limit.max)
    }
}

/// An element and its error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scored {
    /// Its number in the output, and in its run.
    pub(super) index: usize,
    pub(super) column: usize,
    pub(super) got: f64,
    pub(super) expected: f64,
    pub(super) error: f64,
    /// What rounding can do at this element.
    pub(super) unit: f64,
}

impl Scores {
    /// Adds neighbouring elements of a run of `len`.
    pub(super) fn add_run(&mut self, len: usize, elements: &[Scored]) {
        let together = len.div_ceil(COLUMNS).max(1);
        let columns = self.columns.len().max(len.div_ceil(together));
        self.columns.resize(columns, Tally::default());
        let mut row = Tally::default();
        for element in elements {
            let units = element.error / element.unit;
            let worst = Worst {
                index: element.index,
                got: element.got,
                expected: element.expected,
            };
            row.add(units, worst);
            let expected = element.expected;
            self.bands.entry(band(expected)).or_default().add(units, worst);
            if let Some(column) = self.columns.get_mut(element.column / together) {
                column.add(units, worst);
            }
            self.sum += expected;
            self.squares += expected * expected;
            self.errors += element.error * element.error;
            self.units += element.unit * element.unit;
            self.largest_error = self.largest_error.max(element.error);
            self.largest_unit = self.largest_unit.max(element.unit);
        }
        self.whole.merge(&row);
        self.add_row(row);
    }

    /// Adds what was found in other elements.
    pub(super) fn merge(&mut self, other: &Self) {
        self.whole.merge(&other.whole);
        self.columns
            .resize(self.columns.len().max(other.columns.len()), Tally::default());
        for (column, other) in self.columns.iter_mut().zip(&other.columns) {
            column.merge(other);
        }
        for (band, other) in &other.bands {
            self.bands.entry(*band).or_default().merge(other);
        }
        other.row.iter().for_each(|row| self.add_row(*row));
        self.sum += other.sum;
        self.squares += other.squares;
        self.errors += other.errors;
        self.units += other.units;
        self.largest_error = self.largest_error.max(other.largest_error);
        self.largest_unit = self.largest_unit.max(other.largest_unit);
    }

    fn add_row(&mut self, row: Tally) {
        if self.row.is_none_or(|before| before.excess() < row.excess()) {
            self.row = Some(row);
        }
    }

    /// The root mean square of all errors, in units.
    pub(super) fn rms(&self) -> f64 {
        self.whole.error().rms
    }

    /// The error of the output and its limit, relative to the spread of the expected values.
    pub(super) fn measures(&self) -> (ErrorMeasure, ErrorMeasure) {
        let n = self.whole.count.max(1) as f64;
        let spread = (self.squares / n - (self.sum / n).powi(2)).max(0.0).sqrt();
        let norm = if spread > 0.0 {
            spread
        } else {
            (self.squares / n).sqrt()
        };
        let norm = if norm > 0.0 { norm } else { 1.0 };
        let measure = |squares: f64, max: f64| ErrorMeasure {
            rms: (squares / n).sqrt() / norm,
            max: max / norm,
        };
        let error = measure(self.errors, self.largest_error);
        (error, measure(self.units * RMS * RMS, self.largest_unit * MAX))
    }

    /// A group of elements whose errors are too large.
    pub(super) fn excess(&self) -> Option<Excess> {
        let columns = self.columns.iter().enumerate();
        let columns = columns.map(|(i, tally)| (format!("column {i}"), tally));
        let bands = self.bands.iter().map(|(band, tally)| (magnitude(*band), tally));
        let row = self.row.iter().map(|tally| ("row".to_owned(), tally));
        let whole = std::iter::once(("all elements".to_owned(), &self.whole));
        let mut groups = whole.chain(row).chain(columns).chain(bands);
        let (group, tally) = groups.find(|(_, tally)| tally.excess() > 1.0 || tally.squares.is_nan())?;
        Some(Excess {
            group,
            error: tally.error(),
            limit: tally.limit(),
            index: tally.worst.index,
            got: tally.worst.got,
            expected: tally.worst.expected,
        })
    }
}

/// The band of a magnitude, of four powers of two.
pub(super) fn band(value: f64) -> u64 {
    value.to_bits() >> 54 & 0x1ff
}

fn magnitude(band: u64) -> String {
    let from = band as i64 * 4 - 1023;
    format!("magnitudes from 2^{from}")
}
