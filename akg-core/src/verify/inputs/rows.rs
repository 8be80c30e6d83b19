//! Rows with a structure: zero, constant, sorted, repeated, saturated.

use super::normal::{hash, mix, normal};

/// The rows of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// Elements that differ along this axis only.
    Along(usize),
    /// Elements that share the indices of this many leading axes.
    Leading(usize),
    /// Elements that share the index of this axis.
    Channel(usize),
}

/// The rows of a tensor of a concrete shape: element `(outer * extent + index) * inner + i`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rows {
    extent: usize,
    inner: usize,
    /// Whether `index` names the row, instead of the place in it.
    is_channel: bool,
    /// Elements of a row.
    length: usize,
}

/// The power of two that a far row is at least away from zero.
const NEAREST: u32 = 7;

/// Elements of a row where a tensor has no rows to speak of.
const SEGMENT: usize = 16;

impl Rows {
    /// The rows along the last axis; stretches of a tensor of one axis.
    pub(super) fn last(shape: &[usize]) -> Self {
        let extent = shape.last().copied().unwrap_or(1);
        let elements: usize = shape.iter().product();
        if elements == extent {
            return Self::along(extent.div_ceil(8).clamp(1, SEGMENT), 1);
        }
        Self::along(extent, 1)
    }

    /// The rows of a layout.
    pub(super) fn of(layout: Layout, shape: &[usize]) -> Self {
        let elements: usize = shape.iter().product();
        match layout {
            Layout::Along(axis) => Self::along(
                shape.get(axis).copied().unwrap_or(1),
                shape.iter().skip(axis + 1).product(),
            ),
            Layout::Leading(axes) => Self::along(shape.iter().skip(axes).product(), 1),
            Layout::Channel(axis) => {
                let extent = shape.get(axis).copied().unwrap_or(1).max(1);
                Self {
                    extent,
                    inner: shape.iter().skip(axis + 1).product::<usize>().max(1),
                    is_channel: true,
                    length: elements / extent,
                }
            }
        }
    }

    fn along(extent: usize, inner: usize) -> Self {
        Self {
            extent: extent.max(1),
            inner: inner.max(1),
            is_channel: false,
            length: extent.max(1),
        }
    }

    /// The row of an element, and its place there.
    pub(super) fn find(&self, at: usize) -> (usize, usize) {
        let (line, i) = (at / self.inner, at % self.inner);
        let (outer, index) = (line / self.extent, line % self.extent);
        if self.is_channel {
            (index, outer * self.inner + i)
        } else {
            (outer * self.inner + i, index)
        }
    }

    /// The elements from `at` on that are neighbours in memory and in one row.
    pub(super) fn stretch(&self, at: usize) -> usize {
        if self.is_channel {
            self.inner - at % self.inner
        } else if self.inner == 1 {
            self.extent - at % self.extent
        } else {
            1
        }
    }

    /// Elements of a row.
    pub(super) fn length(&self) -> usize {
        self.length.max(1)
    }
}

/// The structure of one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Structure {
    /// None.
    Ordinary,
    Zero,
    Constant,
    Ascending,
    Descending,
    /// Stretches of equal elements.
    Repeated,
    /// Zero but for one element.
    OneHot,
    /// Far from zero, of either sign.
    Saturated,
    /// Near zero.
    Small,
    /// All of one sign and far from zero.
    Far,
}

const STRUCTURES: [Structure; 8] = [
    Structure::Zero,
    Structure::Constant,
    Structure::Ascending,
    Structure::Descending,
    Structure::Repeated,
    Structure::OneHot,
    Structure::Saturated,
    Structure::Small,
];

/// The structures of the rows of one input: which rows have which follows from the seed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Strewn {
    pub(super) rows: Rows,
    pub(super) seed: u64,
    pub(super) strewing: Strewing,
}

/// The structures that rows have, and how many have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strewing {
    /// Three rows in four have some structure.
    Most,
    /// One row in eight has.
    Few,
    /// Every other row is far from zero, by 2^7 to this power of two.
    Far(u32),
}

/// A row that elements are asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) structure: Structure,
    seed: u64,
    length: usize,
    /// The power of two that a far row is at most away from zero.
    farthest: u32,
}

impl Strewn {
    /// The row of this number.
    pub(super) fn row(&self, number: usize) -> Row {
        let seed = mix(self.seed, number as u64);
        // Neighbouring rows take turns, so that few rows have different structures.
        let turn = (self.seed as usize).wrapping_add(number) % STRUCTURES.len();
        let is_ordinary = match self.strewing {
            Strewing::Most => seed.is_multiple_of(4),
            Strewing::Few => !seed.is_multiple_of(8),
            Strewing::Far(_) => seed.is_multiple_of(2),
        };
        let (structure, farthest) = match (self.strewing, STRUCTURES.get(turn)) {
            _ if is_ordinary => (Structure::Ordinary, 0),
            (Strewing::Far(farthest), _) => (Structure::Far, farthest),
            (_, Some(structure)) => (*structure, 0),
            (_, None) => (Structure::Ordinary, 0),
        };
        Row {
            structure: match structure {
                Structure::Constant if !is_steady(self.rows.length()) => Structure::Zero,
                structure => structure,
            },
            seed,
            length: self.rows.length(),
            farthest,
        }
    }
}

/// Whether the mean of equal elements is exact, divided by their number or multiplied by its reciprocal: elsewhere the
/// deviation of a constant row from its mean is rounding noise.
fn is_steady(length: usize) -> bool {
    let length = length as f32;
    length * length.recip() == 1.0
}

/// A power of two between 2^-2 and 2^3, of either sign.
pub(super) fn power_of_two(seed: u64) -> f32 {
    let sign = if seed >> 40 & 1 == 0 { 1.0 } else { -1.0 };
    sign * [0.25, 0.5, 1.0, 2.0, 4.0, 8.0][(seed >> 41) as usize % 6]
}

impl Row {
    /// A random word that belongs to a place of the row.
    pub(super) fn word(&self, place: usize) -> u64 {
        mix(self.seed, 1 + place as u64)
    }

    /// The first of the equal elements that one belongs to, for a row in which some are.
    pub(super) fn group(&self, place: usize) -> usize {
        match self.structure {
            Structure::Constant => 0,
            // Groups of 2 to 5.
            Structure::Repeated => place - place % (2 + (self.seed >> 8) as usize % 4),
            _ => place,
        }
    }

    /// The place that differs from all others in a row of one: half of the time the first or the last, which loops miss.
    pub(super) fn hot(&self) -> usize {
        let word = hash(self.seed);
        match word & 3 {
            0 => 0,
            1 => self.length - 1,
            _ => (word >> 2) as usize % self.length,
        }
    }

    /// The element at a place; `None` in an ordinary row.
    pub(super) fn value(&self, place: usize) -> Option<f32> {
        let word = || self.word(self.group(place));
        let ordinary = || normal((word() >> 32) as u32);
        let sorted = || {
            let jitter = (word() >> 40) as f32 / (1u64 << 24) as f32;
            (place as f32 + jitter) / self.length as f32 * 6.0 - 3.0
        };
        Some(match self.structure {
            Structure::Ordinary => return None,
            Structure::Zero => 0.0,
            Structure::Constant => power_of_two(self.seed),
            Structure::Ascending => sorted(),
            Structure::Descending => -sorted(),
            Structure::Repeated => ordinary(),
            Structure::OneHot if place == self.hot() => power_of_two(word()),
            Structure::OneHot => 0.0,
            Structure::Saturated => {
                let ordinary = ordinary();
                ordinary.signum() * 24.0 + ordinary * 4.0
            }
            Structure::Small => ordinary() / 1024.0,
            Structure::Far => {
                let steps = self.farthest.saturating_sub(NEAREST) + 1;
                let exponent = NEAREST + (self.seed >> 8) as u32 % steps;
                let sign = if self.seed >> 7 & 1 == 0 { 1.0 } else { -1.0 };
                sign * 2f32.powi(exponent as i32) * (1.0 + ordinary().abs() / 16.0)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_a_row_and_a_place_of_its_own() {
        let shape = [3, 4, 5];
        for (layout, length) in [
            (Layout::Along(0), 3),
            (Layout::Along(1), 4),
            (Layout::Along(2), 5),
            (Layout::Leading(1), 20),
            (Layout::Leading(0), 60),
            (Layout::Channel(1), 15),
        ] {
            let rows = Rows::of(layout, &shape);
            assert_eq!(rows.length(), length, "{layout:?}");
            let mut places: Vec<_> = (0..60).map(|at| rows.find(at)).collect();
            places.sort_unstable();
            let expected: Vec<_> = (0..60).map(|n| (n / length, n % length)).collect();
            assert_eq!(places, expected, "{layout:?}");
        }
    }

    #[test]
    fn many_rows_have_every_structure() {
        let rows = Rows::last(&[64, 40]);
        for seed in 0..20 {
            let strewn = Strewn {
                rows,
                seed,
                strewing: Strewing::Most,
            };
            let all: Vec<Row> = (0..64).map(|n| strewn.row(n)).collect();
            for structure in STRUCTURES {
                assert!(all.iter().any(|r| r.structure == structure), "{structure:?}");
            }
            for row in all {
                let values: Vec<f32> = (0..40).filter_map(|k| row.value(k)).collect();
                let pairs = || values.windows(2);
                match row.structure {
                    Structure::Zero => assert!(values.iter().all(|v| *v == 0.0)),
                    Structure::Constant => assert!(pairs().all(|p| p[0] == p[1] && p[0] != 0.0)),
                    Structure::Ascending => assert!(pairs().all(|p| p[0] < p[1])),
                    Structure::Descending => assert!(pairs().all(|p| p[0] > p[1])),
                    Structure::Repeated => assert!(pairs().filter(|p| p[0] == p[1]).count() >= 16),
                    Structure::OneHot => assert_eq!(values.iter().filter(|v| **v != 0.0).count(), 1),
                    Structure::Saturated => assert!(values.iter().all(|v| v.abs() >= 24.0)),
                    Structure::Small => assert!(values.iter().all(|v| v.abs() < 0.01)),
                    Structure::Far => panic!("rows are far in data of their own"),
                    Structure::Ordinary => assert!(values.is_empty()),
                }
            }
        }
    }

    #[test]
    fn far_rows_are_of_one_sign_and_many_magnitudes() {
        let strewn = Strewn {
            rows: Rows::last(&[200, 8]),
            seed: 3,
            strewing: Strewing::Far(30),
        };
        let far = (0..200)
            .map(|n| strewn.row(n))
            .filter(|row| row.structure == Structure::Far);
        let rows: Vec<Vec<f32>> = far
            .map(|row| (0..8).filter_map(|k| row.value(k)).collect())
            .collect();
        assert!((60..140).contains(&rows.len()));
        for row in &rows {
            assert!(
                row.iter()
                    .all(|v| v.signum() == row[0].signum() && v.abs() >= 128.0)
            );
        }
        let lies = |low: f32, high: f32| rows.iter().any(|row| row.iter().all(|v| low <= *v && *v < high));
        assert!(lies(-1e3, -1e2) && lies(1e2, 1e3) && lies(-1e10, -1e7) && lies(1e7, 1e10));
    }
}
