//! Search over candidates: which of them to go on from, whoever proposes and whoever measures.
//!
//! A [`Population`] holds what was tried: each [`Member`] with its parents, its [features](Features) and its
//! [outcome](Outcome). A [`Strategy`] looks at it and says how the next one begins: [from nothing](Move::Fresh), [from one
//! that is there](Move::Improve) or [from two](Move::Cross). The caller [begins](Population::begin) that move, has it
//! proposed by an agent, recognises a [duplicate](Population::identify) before it costs device time, measures it, and
//! [settles](Population::settle) it. Any number of moves may be under way, and they settle in any order.
//!
//! Strategies have no state: what is drawn follows from the seed and the number of the move, and everything else from the
//! population. A run that was killed goes on from the population that its records make; moves that were under way are its
//! [pending](Population::pending) members.
//!
//! ```
//! use std::ops::ControlFlow;
//! use akg_core::search::{BestOfN, Measured, Outcome, Population, Strategy};
//!
//! let strategy = BestOfN { most: 3, width: 3 };
//! let mut population = Population::default();
//! while let ControlFlow::Continue(next) = strategy.next(&population) {
//!     let number = population.begin(&next)?;
//!     let seconds = 1.0 / (1 + number) as f64; // An agent proposes, a device measures.
//!     population.settle(number, None, Outcome::Passed(Measured { seconds, spread: 0.0 }))?;
//! }
//! assert_eq!(population.best().map(|member| member.number), Some(2));
//! # Ok::<(), akg_core::Error>(())
//! ```

mod adaptive;
mod crossover;
mod draw;
mod evolution;
mod features;
pub mod fingerprint;
mod lexemes;
mod population;
mod ranking;
mod sampling;
#[cfg(test)]
mod tests;
mod words;

use std::fmt;
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
pub use adaptive::Adaptive;
pub use crossover::{Crossed, crossings, mixed};
pub use evolution::Evolution;
pub use features::{Cell, Features};
pub use lexemes::Syntax;
pub use population::{Measured, Member, Outcome, Population};
pub use sampling::{BestOfN, Random};

/// How the next candidate begins. Members are named by their numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Move {
    /// From nothing.
    Fresh {
        /// Members to take ideas from.
        inspirations: Vec<usize>,
    },
    /// From a member, which is to become faster.
    Improve {
        /// The member.
        parent: usize,
        /// Members to take ideas from, others than the parent.
        inspirations: Vec<usize>,
    },
    /// From two members, which have something good each.
    Cross {
        /// The members, the one to keep more of first.
        parents: [usize; 2],
        /// Members to take ideas from, others than the parents.
        inspirations: Vec<usize>,
    },
}

impl Move {
    /// The move from these members: none, one or two.
    pub(crate) fn from_parents(parents: &[usize], inspirations: Vec<usize>) -> Self {
        match *parents {
            [] => Move::Fresh { inspirations },
            [parent] => Move::Improve { parent, inspirations },
            [first, second, ..] => Move::Cross {
                parents: [first, second],
                inspirations,
            },
        }
    }

    /// The members that it goes on from.
    pub fn parents(&self) -> &[usize] {
        match self {
            Move::Fresh { .. } => &[],
            Move::Improve { parent, .. } => std::slice::from_ref(parent),
            Move::Cross { parents, .. } => parents,
        }
    }

    /// The members to take ideas from.
    pub fn inspirations(&self) -> &[usize] {
        match self {
            Move::Fresh { inspirations }
            | Move::Improve { inspirations, .. }
            | Move::Cross { inspirations, .. } => inspirations,
        }
    }
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Move::Fresh { .. } => "one from nothing",
            Move::Improve { .. } => "one that goes on from another",
            Move::Cross { .. } => "one from two",
        })?;
        match self.inspirations().len() {
            0 => Ok(()),
            1 => f.write_str(", with ideas of one more"),
            count => write!(f, ", with ideas of {count} more"),
        }
    }
}

/// Why a search ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Stop {
    /// All moves that it was to make are begun.
    Done,
    /// The last moves brought nothing faster.
    Converged,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stop::Done => "all moves are made",
            Stop::Converged => "the last moves brought nothing faster",
        })
    }
}

/// Decides which members the next candidate begins with.
pub trait Strategy: fmt::Debug + Send + Sync {
    /// The name on the command line and in records.
    fn name(&self) -> &'static str;

    /// The next move, or why there is none. The same population gives the same answer.
    fn next(&self, population: &Population) -> ControlFlow<Stop, Move>;
}

impl<S: Strategy + ?Sized> Strategy for Box<S> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn next(&self, population: &Population) -> ControlFlow<Stop, Move> {
        (**self).next(population)
    }
}

/// The names of the strategies.
pub const STRATEGIES: [&str; 5] = ["adaptive", "evolution", "climb", "best-of-n", "random"];

/// The name of the strategy that found the fastest candidates of measured tables: see docs/search.md.
pub const DEFAULT: &str = "adaptive";

/// What draws follow from if nobody says.
pub const SEED: u64 = 0;

/// Moves of a search for each that its usual settings spend on a beginning, such as the first ones from nothing.
const SHARE: usize = 16;

/// A number of a strategy's usual settings in a search of so many moves: `usual`, which is for long ones, or less.
fn scaled(usual: usize, most: usize) -> usize {
    (most / SHARE).clamp(1, usual)
}

/// The strategy of a name in its usual settings, for so many moves at most.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) if there is none of that name.
pub fn strategy(name: &str, seed: u64, most: usize) -> Result<Box<dyn Strategy>> {
    Ok(match name {
        "random" => Box::new(Random { seed, most }),
        "best-of-n" => Box::new(BestOfN { most, width: most }),
        "climb" => Box::new(BestOfN {
            most,
            width: scaled(8, most),
        }),
        "evolution" => Box::new(Evolution::new(seed, most)),
        "adaptive" => Box::new(Adaptive::new(seed, most)),
        _ => {
            let known = STRATEGIES.join(", ");
            return Err(Error::invalid(format!(
                "there is no search strategy `{name}`: there are {known}"
            )));
        }
    })
}
