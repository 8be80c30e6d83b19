//! Draws that follow from a seed and the number of a move.

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// What one move draws.
#[derive(Debug)]
pub(super) struct Draw(ChaCha8Rng);

impl Draw {
    /// The draws of the move with this number.
    pub(super) fn new(seed: u64, number: usize) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number as u64);
        Self(rng)
    }

    /// Whether something happens that does so with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        self.0.random_range(0.0..1.0) < probability
    }

    /// One of them, each as likely.
    pub(super) fn pick<'a, T>(&mut self, from: &'a [T]) -> Option<&'a T> {
        match from.len() {
            0 => None,
            count => from.get(self.0.random_range(0..count)),
        }
    }

    /// A position, as likely as its weight; `None` if no weight is positive.
    pub(super) fn weighted(&mut self, weights: &[f64]) -> Option<usize> {
        let total: f64 = weights.iter().sum();
        if !(total > 0.0 && total.is_finite()) {
            return None;
        }
        let mut left = self.0.random_range(0.0..total);
        let found = weights.iter().position(|weight| {
            left -= weight;
            left < 0.0
        });
        // Rounding may leave a little.
        found.or_else(|| weights.iter().rposition(|weight| *weight > 0.0))
    }
}
