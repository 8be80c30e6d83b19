//! The order in which a comparison asks for tolerance.

use crate::task::Accuracy;
use crate::verdict::OutputCheck;

/// What the limits of the outputs rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The arithmetic of the class, on some of the rows that were compared.
    Class,
    /// Single precision as well, which every class allows.
    Fp32Floor,
    /// The arithmetic of the class on all rows that were compared and, after the first turn, on inputs that are nearly the same.
    Perturbed(usize),
    /// The whole is within its limits. What is left are its groups and elements.
    Elements,
    /// The whole is not.
    Rejected,
}

/// What decides about the next stage.
#[derive(Debug, Clone, Copy)]
pub(super) struct Findings<'a> {
    pub(super) checks: &'a [OutputCheck],
    /// An output is beyond its limits.
    pub(super) failed: bool,
    /// Only some rows were compared.
    pub(super) sampled: bool,
}

/// An error this many times its limit is hopeless: that the yardstick is so right by luck has about one chance in as many.
/// After `n` evaluations it is the `n`-th root of it.
const HOPELESS: f64 = 1e6;

impl Stage {
    /// The stage after this one, in a class with so many `turns` of the perturbed evaluations.
    pub(super) fn next(self, found: Findings<'_>, accuracy: Accuracy, turns: usize) -> Self {
        if !found.failed {
            return Self::Elements;
        }
        match self {
            Self::Class if accuracy != Accuracy::Fp32 => Self::Fp32Floor,
            Self::Class | Self::Fp32Floor => found.perturbed(0, turns),
            Self::Perturbed(turn) => found.perturbed(turn + 1, turns),
            Self::Elements | Self::Rejected => Self::Rejected,
        }
    }
}

impl Findings<'_> {
    fn perturbed(self, turn: usize, turns: usize) -> Stage {
        let beyond = HOPELESS.powf(1.0 / turn.max(1) as f64);
        // A few rows may be zeros where others are not. If all were compared, all may be measured.
        let may_tell = turn > 0 || self.sampled;
        if turn >= turns || may_tell && is_hopeless(self.checks, beyond) {
            return Stage::Rejected;
        }
        Stage::Perturbed(turn)
    }
}

/// Returns true if an output's errors are more than `times` their limits.
fn is_hopeless(checks: &[OutputCheck], times: f64) -> bool {
    let beyond = |error: f64, limit: f64| error.is_nan() || error > times * limit;
    checks
        .iter()
        .any(|c| beyond(c.error.rms, c.limit.rms) && beyond(c.error.max, c.limit.max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::ErrorMeasure;

    fn check(times: f64) -> OutputCheck {
        let limit = ErrorMeasure { rms: 1e-7, max: 1e-6 };
        OutputCheck {
            output: "y".to_owned(),
            error: ErrorMeasure {
                rms: times * limit.rms,
                max: times * limit.max,
            },
            limit,
            bytes_compared: 4,
            bytes: 4,
            overflowed: 0,
            undecided: 0,
            not_finite: 0,
        }
    }

    /// The stages until a decision, for an error that stays so many times its limit.
    fn stages(times: f64, accuracy: Accuracy) -> Vec<Stage> {
        let checks = [check(times)];
        let found = Findings {
            checks: &checks,
            failed: times > 1.0,
            sampled: true,
        };
        let mut stages = vec![Stage::Class];
        while let Some(stage) = stages.last()
            && !matches!(stage, Stage::Elements | Stage::Rejected)
        {
            stages.push(stage.next(found, accuracy, 3));
        }
        stages
    }

    #[test]
    fn tolerance_is_asked_for_in_order_and_not_where_there_is_no_hope() {
        use Stage::{Class, Elements, Fp32Floor, Perturbed, Rejected};
        assert_eq!(stages(0.5, Accuracy::Fp32), [Class, Elements]);
        let all = [Class, Perturbed(0), Perturbed(1), Perturbed(2), Rejected];
        assert_eq!(stages(1.5, Accuracy::Fp32), all);
        assert_eq!(stages(1e7, Accuracy::Fp32), [Class, Rejected]);
        assert_eq!(stages(1e7, Accuracy::Half), [Class, Fp32Floor, Rejected]);
        let some = [Class, Fp32Floor, Perturbed(0), Perturbed(1), Rejected];
        assert_eq!(stages(2e3, Accuracy::Tf32), some);
    }
}
