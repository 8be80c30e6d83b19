//! Robust statistics of small samples.
//!
//! Times are skewed: whatever disturbs a run makes it longer. Nothing here uses a mean or assumes a distribution.

use serde::{Deserialize, Serialize};

/// Times of single calls, in seconds, in the order they were taken.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Timing {
    /// One entry for each sample.
    pub seconds: Vec<f64>,
}

impl Timing {
    /// The median in seconds; `None` without samples.
    pub fn median(&self) -> Option<f64> {
        median(&self.seconds)
    }

    /// The median absolute deviation from the median, in seconds.
    pub fn spread(&self) -> Option<f64> {
        let median = self.median()?;
        let distances: Vec<_> = self.seconds.iter().map(|s| (s - median).abs()).collect();
        self::median(&distances)
    }

    /// The interval that holds the median with this confidence.
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        bootstrap_median(&self.seconds, confidence)
    }
}

/// A range that holds a value with a stated confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` is in it, ends included.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The larger distance of an end from `value`.
    pub fn reach(&self, value: f64) -> f64 {
        (value - self.low).abs().max((self.high - value).abs())
    }

    pub(super) fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self {
            low: f(self.low),
            high: f(self.high),
        }
    }
}

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

/// The bootstrap percentile interval of the median (Efron & Tibshirani, An Introduction to the Bootstrap, 1993, chapter
/// 13). The bias-corrected and accelerated interval is no better here: its acceleration comes from the jackknife, which
/// is inconsistent for medians (ibid., section 11.7).
///
/// Nothing is drawn: the distribution over all resamples is known (Efron, Annals of Statistics 7, 1979, section 3). The
/// value of rank m in a resample is at most that of rank k in the sample if at least m of the n draws are among the
/// first k, which is a binomial probability.
pub fn bootstrap_median(values: &[f64], confidence: f64) -> Option<Interval> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let tail = (1.0 - confidence) / 2.0;
    // The two middle ranks are one if n is odd.
    let middle = [n.div_ceil(2), n / 2 + 1];
    let end = |part: f64| {
        let [lower, upper] = middle.map(|rank| {
            let k = (1..=n).find(|k| at_least(rank, n, *k as f64 / n as f64) >= part);
            sorted.get(k.unwrap_or(n).checked_sub(1)?).copied()
        });
        Some(f64::midpoint(lower?, upper?))
    };
    Some(Interval {
        low: end(tail)?,
        high: end(1.0 - tail)?,
    })
}

/// The probability of at least `hits` successes in `n` trials.
fn at_least(hits: usize, n: usize, chance: f64) -> f64 {
    if chance >= 1.0 {
        return 1.0;
    }
    let factorial = |n: usize| libm::lgamma(n as f64 + 1.0);
    let exactly = |k: usize| {
        let ways = factorial(n) - factorial(k) - factorial(n - k);
        (ways + k as f64 * chance.ln() + (n - k) as f64 * (-chance).ln_1p()).exp()
    };
    (hits..=n).map(exactly).sum()
}

/// The fewest samples whose extremes hold the median with this confidence: both lie on one side of it with probability
/// 2^(1 − n). With fewer, no interval of any method can.
pub fn fewest_samples(confidence: f64) -> usize {
    let mut n = 1;
    while 0.5f64.powi(n - 1) > (1.0 - confidence).max(1e-9) {
        n += 1;
    }
    n as usize
}

/// A monotone change of a series over its whole length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Change from the start to the end, divided by the median: 0.1 is 10 % up. The slope is Theil's and Sen's, the
    /// median over all pairs (Sen, Journal of the American Statistical Association 63, 1968).
    pub change: f64,
    /// Probability of a series at least so ordered without a trend (Mann, Econometrica 13, 1945; Kendall), by the
    /// normal approximation.
    pub chance: f64,
}

/// The trend of a series; `None` for less than four values.
pub fn trend(values: &[f64]) -> Option<Trend> {
    let n = values.len();
    let middle = median(values).filter(|m| *m > 0.0)?;
    if n < 4 {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let mut ordered = 0.0;
    for (i, a) in values.iter().enumerate() {
        for (j, b) in values.iter().enumerate().skip(i + 1) {
            slopes.push((b - a) / (j - i) as f64);
            ordered += f64::from(i8::from(b > a) - i8::from(b < a));
        }
    }
    let size = n as f64;
    let deviation = (size * (size - 1.0) * (2.0 * size + 5.0) / 18.0).sqrt();
    // One less for continuity.
    let z = (f64::abs(ordered) - 1.0).max(0.0) / deviation;
    Some(Trend {
        change: median(&slopes)? * (size - 1.0) / middle,
        chance: libm::erfc(z / std::f64::consts::SQRT_2),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    /// The interval by drawing resamples.
    fn resampled(values: &[f64], confidence: f64) -> Interval {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let mut medians: Vec<f64> = (0..20_000)
            .map(|_| {
                let sample: Vec<f64> = (0..values.len())
                    .map(|_| values[rng.random_range(0..values.len())])
                    .collect();
                median(&sample).unwrap()
            })
            .collect();
        medians.sort_by(f64::total_cmp);
        let at = |part: f64| medians[(part * medians.len() as f64) as usize];
        Interval {
            low: at((1.0 - confidence) / 2.0),
            high: at(f64::midpoint(1.0, confidence)),
        }
    }

    #[test]
    fn the_interval_is_that_of_drawn_resamples() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for n in [8, 9, 20, 61] {
            let values: Vec<f64> = (0..n).map(|_| rng.random::<f64>().powi(3)).collect();
            let (mine, drawn) = (bootstrap_median(&values, 0.95).unwrap(), resampled(&values, 0.95));
            let slack = 0.1 * (drawn.high - drawn.low);
            assert!((mine.low - drawn.low).abs() <= slack, "{mine:?} {drawn:?}");
            assert!((mine.high - drawn.high).abs() <= slack, "{mine:?} {drawn:?}");
        }
        assert_eq!(bootstrap_median(&[], 0.95), None);
        assert_eq!(
            bootstrap_median(&[2.0], 0.95),
            Some(Interval { low: 2.0, high: 2.0 })
        );
    }

    #[test]
    fn the_interval_holds_the_true_median_as_often_as_stated() {
        let mut rng = ChaCha8Rng::seed_from_u64(7);
        let trials = 400;
        let hits = (0..trials).filter(|_| {
            let values: Vec<f64> = (0..15).map(|_| -rng.random::<f64>().max(1e-12).ln()).collect();
            bootstrap_median(&values, 0.9).unwrap().contains(2f64.ln())
        });
        let rate = hits.count() as f64 / trials as f64;
        assert!((0.86..=0.98).contains(&rate), "{rate}");
    }

    #[test]
    fn a_trend_is_told_from_noise() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let flat: Vec<f64> = (0..30).map(|_| 1.0 + 0.02 * rng.random::<f64>()).collect();
        assert!(trend(&flat).unwrap().chance > 0.01);
        let rising: Vec<f64> = flat
            .iter()
            .enumerate()
            .map(|(i, v)| v + 0.01 * i as f64)
            .collect();
        let found = trend(&rising).unwrap();
        assert!(
            found.chance < 1e-6 && (found.change - 0.25).abs() < 0.05,
            "{found:?}"
        );
        assert_eq!(trend(&[1.0, 2.0, 3.0]), None);
    }

    #[test]
    fn so_many_samples_are_needed() {
        assert_eq!(fewest_samples(0.5), 2);
        assert_eq!(fewest_samples(0.99), 8);
    }

    proptest! {
        #[test]
        fn half_of_the_values_are_on_each_side_of_the_median(values in prop::collection::vec(-1e3..1e3f64, 1..40)) {
            let m = median(&values).unwrap();
            let half = values.len().div_ceil(2);
            prop_assert!(values.iter().filter(|v| **v <= m).count() >= half);
            prop_assert!(values.iter().filter(|v| **v >= m).count() >= half);
            let interval = bootstrap_median(&values, 0.99).unwrap();
            prop_assert!(interval.contains(m));
        }

        #[test]
        fn one_outlier_moves_the_median_no_further_than_its_neighbours(mut values in prop::collection::vec(1.0..2.0f64, 3..20)) {
            values.push(1e9);
            prop_assert!(median(&values).unwrap() <= 2.0);
        }
    }
}
