//! Sums of errors over groups of elements.

/// The errors of one group of elements.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Tally {
    pub(super) count: u64,
    squared: f64,
    quartic: f64,
    pub(super) max: f64,
    /// The index of the element with the largest error.
    pub(super) at: usize,
}

impl Tally {
    #[inline(always)]
    pub(super) fn add(&mut self, index: usize, error: f64) {
        self.count += 1;
        if error == 0.0 {
            return;
        }
        let squared = error * error;
        self.squared += squared;
        self.quartic += squared * squared;
        if error > self.max {
            self.max = error;
            self.at = index;
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.squared += other.squared;
        self.quartic += other.quartic;
        if other.max > self.max {
            self.max = other.max;
            self.at = other.at;
        }
    }

    /// The root mean square.
    pub(super) fn rms(&self) -> f64 {
        (self.squared / self.count.max(1) as f64).sqrt()
    }

    /// The same, with an error that one element makes up.
    pub(super) fn of_one(&self) -> Self {
        Self {
            quartic: self.squared.powi(2),
            ..*self
        }
    }

    /// The share of the error that few elements have: Σe⁴ / (Σe²)², which is one over their number if they err alike.
    pub(super) fn concentration(&self) -> f64 {
        let share = self.quartic / self.squared.powi(2);
        // Unknown beyond the range of f64.
        if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            1.0
        }
    }
}

/// How the elements of an output form groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Layout {
    /// Extents of the axes before those of a run.
    outer: Vec<usize>,
    /// Elements of a run: the last axis, and those before it until there are enough.
    run: usize,
    /// Neighbouring columns, and runs, of one group.
    columns_together: usize,
    runs_together: usize,
}

/// Elements of a run at least, if the output has as many.
const RUN_FROM: usize = 64;

/// Elements of a group of runs at least.
const RUNS_FROM: usize = 256;

/// Groups along one axis at most: neighbours share one where there are more indices.
const MAX_GROUPS: usize = 1024;

/// Magnitude bands: each has 16 exponents of two less, so that all of f64 is covered.
const BANDS: usize = 512;

/// The band of a magnitude: four powers of two.
#[inline(always)]
pub(super) fn band(value: f64) -> usize {
    (value.to_bits() >> 54) as usize & (BANDS - 1)
}

/// Evidence for a band: `magnitude 2^-12 to 2^-8`.
pub(super) fn band_name(band: usize) -> String {
    if band == 0 {
        return "magnitude 0".to_owned();
    }
    let from = band as i64 * 4 - 1023;
    format!("magnitude 2^{from} to 2^{}", from + 4)
}

impl Layout {
    pub(super) fn new(shape: &[usize]) -> Self {
        let mut outer = shape.to_vec();
        let mut run = 1;
        while run < RUN_FROM
            && let Some(extent) = outer.pop()
        {
            run *= extent.max(1);
        }
        Self {
            outer,
            run,
            columns_together: run.div_ceil(MAX_GROUPS),
            runs_together: RUNS_FROM.div_ceil(run),
        }
    }

    /// The name of a group in evidence.
    pub(super) fn name(&self, group: Group) -> String {
        let indices = |axis: &str, index: usize, together: usize| match together {
            1 => format!("{axis} {index}"),
            _ => format!("{axis}s {} to {}", index * together, (index + 1) * together - 1),
        };
        match group {
            Group::Band(band) => band_name(band),
            Group::Column(index) => indices("column", index, self.columns_together),
            Group::Row(index) => indices("row", index, self.runs_together),
            Group::Axis(axis, index) => {
                let together = self.outer.get(axis).map_or(1, |n| n.div_ceil(MAX_GROUPS));
                format!("axis {axis}, {}", indices("slice", index, together))
            }
        }
    }

    /// The first element of a group of rows.
    pub(super) fn row_start(&self, row: usize) -> usize {
        row * self.runs_together * self.run
    }
}

/// One group of the elements of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    /// Elements of like magnitude.
    Band(usize),
    /// Elements at one place of the last axis.
    Column(usize),
    /// Elements that are neighbours along the last axis.
    Row(usize),
    /// Elements at one place of another axis.
    Axis(usize, usize),
}

/// The errors of a row, and its magnitude.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Row {
    pub(super) number: usize,
    pub(super) tally: Tally,
    pub(super) squares: f64,
}

/// The errors of an output by group.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Groups {
    pub(super) layout: Layout,
    pub(super) bands: Vec<Tally>,
    pub(super) columns: Vec<Tally>,
    pub(super) axes: Vec<Vec<Tally>>,
    pub(super) rows: Vec<Row>,
}

impl Groups {
    pub(super) fn new(layout: &Layout) -> Self {
        let zeros = |groups: usize| vec![Tally::default(); groups];
        let grouped = |extent: usize| zeros(extent.div_ceil(extent.div_ceil(MAX_GROUPS).max(1)));
        Self {
            bands: zeros(BANDS),
            columns: grouped(layout.run),
            axes: layout.outer.iter().map(|extent| grouped(*extent)).collect(),
            rows: Vec::new(),
            layout: layout.clone(),
        }
    }

    /// Adds neighbouring elements from `offset` on. `element` gives the expected value and the error of the i-th of them; `None`
    /// for those that are not measured.
    #[inline(always)]
    pub(super) fn add(
        &mut self,
        offset: usize,
        len: usize,
        mut element: impl FnMut(usize) -> Option<(f64, f64)>,
    ) {
        let run_len = self.layout.run.max(1);
        let mut at = 0;
        while at < len {
            let (run, first) = ((offset + at) / run_len, (offset + at) % run_len);
            let end = (at + run_len - first).min(len);
            let mut row = Row {
                number: run / self.layout.runs_together.max(1),
                ..Row::default()
            };
            for i in at..end {
                let Some((expected, error)) = element(i) else {
                    continue;
                };
                let index = offset + i;
                row.tally.add(index, error);
                row.squares += expected * expected;
                if let Some(tally) = self.bands.get_mut(band(expected)) {
                    tally.add(index, error);
                }
                let column = (first + i - at) / self.layout.columns_together.max(1);
                if let Some(tally) = self.columns.get_mut(column) {
                    tally.add(index, error);
                }
            }
            self.add_run(run, row);
            at = end;
        }
    }

    fn add_run(&mut self, run: usize, row: Row) {
        if row.tally.count == 0 {
            return;
        }
        let mut rest = run;
        for (axis, extent) in self.layout.outer.iter().enumerate().rev() {
            let index = rest % (*extent).max(1);
            rest /= (*extent).max(1);
            let group = index / extent.div_ceil(MAX_GROUPS).max(1);
            if let Some(tally) = self.axes.get_mut(axis).and_then(|groups| groups.get_mut(group)) {
                tally.merge(&row.tally);
            }
        }
        match self.rows.last_mut() {
            Some(last) if last.number == row.number => {
                last.tally.merge(&row.tally);
                last.squares += row.squares;
            }
            _ => self.rows.push(row),
        }
    }

    /// Adds the errors of other elements of the same output.
    pub(super) fn merge(&mut self, other: &Self) {
        if self.bands.is_empty() {
            *self = other.clone();
            return;
        }
        let merge = |all: &mut [Tally], part: &[Tally]| {
            all.iter_mut().zip(part).for_each(|(all, part)| all.merge(part));
        };
        merge(&mut self.bands, &other.bands);
        merge(&mut self.columns, &other.columns);
        for (all, part) in self.axes.iter_mut().zip(&other.axes) {
            merge(all, part);
        }
        self.rows.extend_from_slice(&other.rows);
    }
}
