//! A contest whose rounds are over.

use super::floor::Floor;
use super::outcome::{Contest, Disturbance};
use super::slots::Returned;
use crate::error::Result;

/// What a contest measured, and what is still to be judged of it.
#[must_use = "times say nothing before what was returned is judged"]
pub(super) struct Held {
    contest: Contest,
    floor: Option<Floor>,
    /// What sides returned in timed rounds, by the position of the side.
    returned: Vec<(usize, Returned)>,
}

impl Held {
    pub(super) fn new(contest: Contest, floor: Option<Floor>, returned: Vec<(usize, Returned)>) -> Self {
        Self {
            contest,
            floor,
            returned,
        }
    }

    /// Judges what was returned, and whether the candidate's time can be true. The first thing that is wrong with a side is its
    /// [`failure`](super::SideTimes::failure).
    pub(super) fn judge(self) -> Result<Contest> {
        let Self {
            mut contest,
            floor,
            returned,
        } = self;
        for (at, returned) in returned {
            let Some(side) = contest.sides.get_mut(at).filter(|s| s.failure.is_none()) else {
                continue;
            };
            side.failure = returned.judge()?;
            side.verified += 1;
        }
        let sides = &contest.sides;
        let failed = |name: &str| sides.iter().any(|s| s.name == name && s.failure.is_some());
        contest.comparisons.retain(|c| !failed(&c.rival));
        // Of a few rounds, what disturbed one of them may be the median.
        let few = |d: &Disturbance| matches!(d, Disturbance::FewRounds { .. });
        let enough = !contest.disturbances.iter().any(few);
        if let (Some(floor), Some(candidate)) = (floor, contest.sides.first_mut())
            && candidate.failure.is_none()
            && enough
        {
            candidate.failure = floor.judge(candidate);
        }
        Ok(contest)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::backend::RunOutput;
    use crate::timing::{Check, SideTimes, SlotId};
    use crate::verdict::{Failure, FailureKind};

    fn side(name: &str) -> SideTimes {
        SideTimes {
            name: name.to_owned(),
            ..SideTimes::default()
        }
    }

    #[test]
    fn what_sides_returned_is_judged_in_order_up_to_the_first_failure_of_each() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = asked.clone();
        let check: Check = Arc::new(move |slot, _| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok((slot.index == 1).then(|| Failure::new(FailureKind::WrongValues, "call 1")))
        });
        let returned = |index| {
            let output = RunOutput {
                outputs: Vec::new(),
                inputs_unchanged: true,
            };
            Returned::new(check.clone(), vec![(SlotId { round: 0, index }, output)])
        };
        let contest = Contest {
            sides: vec![side("candidate"), side("rival")],
            ..Contest::default()
        };
        let calls = [(0, 0), (1, 0), (0, 1), (1, 0), (0, 0)];
        let kept = Vec::from(calls.map(|(at, call)| (at, returned(call))));
        let held = Held::new(contest, None, kept);
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        let contest = held.judge().unwrap();
        let [candidate, rival] = &contest.sides[..] else {
            panic!("two sides took part: {contest:?}");
        };
        assert_eq!((candidate.verified, rival.verified), (2, 2));
        assert_eq!(
            candidate.failure.as_ref().map(|f| f.evidence.as_str()),
            Some("call 1")
        );
        assert_eq!(rival.failure, None);
        assert_eq!(asked.load(Ordering::Relaxed), 4);
    }
}
