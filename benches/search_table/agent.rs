//! An agent that is simulated: it proposes candidates of a table, as a model proposes sketches.
//!
//! From nothing it takes a structure and values at random. To improve a candidate it changes one or two of its coordinates, a
//! knob's value more often than the structure, and takes a coordinate of an inspiration now and then. Of two candidates it takes
//! the structure of the first and each value from either. Of its proposals, a part does not even parse.

use akg::search::Move;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::space::Structure;

/// A candidate by its coordinates.
pub(super) type Point = (usize, Vec<usize>);

/// The probability that a proposal is no candidate at all.
const SLIP: f64 = 0.1;
/// The probability that a change is one of structure, from nothing but the parent, or an idea of an inspiration.
const RESTRUCTURE: f64 = 0.15;
const INSPIRED: f64 = 0.2;
/// The probability of a second change.
const SECOND: f64 = 0.4;

/// The agent in one run.
pub(super) struct Simulated<'a> {
    pub(super) structures: &'a [Structure],
    pub(super) random: ChaCha8Rng,
}

impl<'a> Simulated<'a> {
    pub(super) fn new(structures: &'a [Structure], seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(u64::MAX);
        Self { structures, random }
    }

    fn below(&mut self, count: usize) -> usize {
        self.random.random_range(0..count.max(1))
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.random.random_range(0.0..1.0) < probability
    }

    /// What it proposes for a move, given what it proposed for members before; `None` for what does not parse.
    pub(super) fn propose(&mut self, next: &Move, known: &[Option<Point>]) -> Option<Point> {
        let of = |number: usize| known.get(number).cloned().flatten();
        let slips = self.chance(SLIP);
        let point = match next {
            Move::Fresh { .. } => self.fresh(),
            Move::Improve { parent, inspirations } => {
                let ideas: Vec<Point> = inspirations.iter().filter_map(|number| of(*number)).collect();
                let mut point = of(*parent)?;
                let changes = 1 + usize::from(self.chance(SECOND));
                for _ in 0..changes {
                    self.change(&mut point, &ideas);
                }
                point
            }
            Move::Cross {
                parents: [first, second],
                ..
            } => {
                let (first, second) = (of(*first)?, of(*second)?);
                self.cross(&first, &second)
            }
        };
        (!slips).then_some(point)
    }

    fn fresh(&mut self) -> Point {
        let structure = self.below(self.structures.len());
        let lengths: Vec<usize> = self
            .knobs(structure)
            .iter()
            .map(|(_, values)| values.len())
            .collect();
        (
            structure,
            lengths.into_iter().map(|count| self.below(count)).collect(),
        )
    }

    fn knobs(&self, structure: usize) -> &'a [(String, Vec<i64>)] {
        self.structures
            .get(structure)
            .map_or(&[], |structure| &structure.knobs)
    }

    /// Changes one coordinate.
    fn change(&mut self, point: &mut Point, ideas: &[Point]) {
        if !ideas.is_empty() && self.chance(INSPIRED) {
            let idea = ideas[self.below(ideas.len())].clone();
            let at = self.below(self.knobs(point.0).len() + 1);
            match self.knobs(point.0).get(at) {
                Some((knob, values)) => {
                    if let Some(place) = self
                        .value(&idea, knob)
                        .and_then(|v| values.iter().position(|o| *o == v))
                    {
                        point.1[at] = place;
                    }
                }
                None => *point = self.moved(idea.0, point),
            }
        } else if self.knobs(point.0).is_empty() || self.chance(RESTRUCTURE) {
            let structure = self.below(self.structures.len());
            *point = self.moved(structure, point);
        } else {
            let at = self.below(self.knobs(point.0).len());
            let count = self.knobs(point.0)[at].1.len();
            point.1[at] = (point.1[at] + 1 + self.below(count.saturating_sub(1))) % count;
        }
    }

    /// The value that a knob has at a point.
    fn value(&self, point: &Point, knob: &str) -> Option<i64> {
        let mut pairs = self.knobs(point.0).iter().zip(&point.1);
        pairs.find_map(|((name, values), place)| values.get(*place).copied().filter(|_| name == knob))
    }

    /// Another structure, with the values that the point has for knobs of the same name.
    fn moved(&mut self, structure: usize, point: &Point) -> Point {
        let knobs = self.knobs(structure);
        let places = knobs.iter().map(|(knob, values)| {
            let kept = self
                .value(point, knob)
                .and_then(|value| values.iter().position(|v| *v == value));
            kept.unwrap_or_default()
        });
        (structure, places.collect())
    }

    fn cross(&mut self, first: &Point, second: &Point) -> Point {
        let other = self.moved(first.0, second);
        let places = first.1.iter().zip(&other.1);
        (
            first.0,
            places
                .map(|(a, b)| if self.chance(0.5) { *a } else { *b })
                .collect(),
        )
    }
}
