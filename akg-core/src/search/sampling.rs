//! Strategies that do not look at what became of members, or only at the best.

use std::ops::ControlFlow;

use super::draw::Draw;
use super::{Move, Population, Stop, Strategy};

/// From nothing, or from any member that passed: what a strategy must beat that looks at times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Random {
    /// What draws follow from.
    pub seed: u64,
    /// Moves at most.
    pub most: usize,
}

impl Strategy for Random {
    fn name(&self) -> &'static str {
        "random"
    }

    fn next(&self, population: &Population) -> ControlFlow<Stop, Move> {
        let number = population.members().len();
        if number >= self.most {
            return ControlFlow::Break(Stop::Done);
        }
        let mut draw = Draw::new(self.seed, number);
        let passed: Vec<usize> = population.passed().map(|(member, _)| member.number).collect();
        // Nothing is as likely as each of the members.
        let anew = draw.chance(1.0 / (passed.len() + 1) as f64);
        let parent = draw.pick(&passed).copied().filter(|_| !anew);
        ControlFlow::Continue(Move::from_parents(parent.as_slice(), Vec::new()))
    }
}

/// The best of several from nothing; where there are moves left, the best of several from that, and so on. With a width of
/// all moves it is plain best-of-N, with a smaller one a climb; with a width of one, that goes on from the best member that there
/// is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BestOfN {
    /// Moves at most.
    pub most: usize,
    /// Moves from the same member.
    pub width: usize,
}

impl Strategy for BestOfN {
    fn name(&self) -> &'static str {
        if self.width < self.most {
            "climb"
        } else {
            "best-of-n"
        }
    }

    fn next(&self, population: &Population) -> ControlFlow<Stop, Move> {
        let number = population.members().len();
        if number >= self.most {
            return ControlFlow::Break(Stop::Done);
        }
        let best = population.best().filter(|_| number >= self.width);
        // The others of the same round have the same parent, although better ones may have come meanwhile.
        let begun = number % self.width.max(1);
        let last = population.members().last().filter(|_| begun > 0);
        let parent = last.map_or(best.map(|best| best.number), |last| last.parents.first().copied());
        ControlFlow::Continue(Move::from_parents(parent.as_slice(), Vec::new()))
    }
}
