//! Sides take turns.

use std::time::Duration;

use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::assess::{Assessment, assess};
use super::device::{Reading, Readings};
use super::held::Held;
use super::outcome::{Contest, SideTimes};
use super::policy::{ContestPolicy, Entrants};
use super::slots::Returned;
use super::statistics::{fewest_samples, median};
use super::turn::{Out, Runner, Sample, Turn, batch_of, of, turn};
use super::witness::Witness;
use crate::error::Result;

/// Precision is looked at once in so many rounds.
const LOOK_EVERY: usize = 4;

/// Seconds by which what others used may be wrong: systems count in ticks of a hundredth, for each process and processor.
const UNCERTAIN: f64 = 0.03;

/// Rounds in a row in which a candidate is slower that is hopelessly slower.
const CONCEDED_AFTER: usize = 3;

/// Bytes of outputs that wait to be judged when the rounds are over.
const MOST_KEPT: usize = 1 << 30;

/// What is seldom verified: one round in so many, beside the first, the last and one drawn before the start, as long as
/// taking outputs has not taken more than a part of the time: one over this.
const VERIFY_ONE_IN: u32 = 8;
const VERIFY_PART: u32 = 4;

/// Lets sides take turns until their ratios are known, and judges what they returned; see the [module](super) for how. `seed`
/// decides the order of turns, the lengths of batches and the numbers of rounds; no candidate may know it.
///
/// Speed is only claimed of sides that stay right: a candidate that fails, in a timed round or by falling below the
/// floor, has the [`failure`](SideTimes::failure) in its times.
///
/// # Errors
/// For akg's own trouble, such as a worker that cannot be started.
pub async fn contest(
    entrants: Entrants<'_>,
    policy: &ContestPolicy,
    seed: u64,
    witness: &mut dyn Witness,
) -> Result<Contest> {
    hold(entrants, policy, seed, witness).await?.judge()
}

/// A [`contest`] up to the end of its rounds.
async fn hold(
    entrants: Entrants<'_>,
    policy: &ContestPolicy,
    seed: u64,
    witness: &mut dyn Witness,
) -> Result<Held> {
    let floor = entrants.floor;
    let twin = usize::from(entrants.twin.is_some());
    let sides = std::iter::once(entrants.candidate)
        .chain(entrants.twin)
        .chain(entrants.rivals);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut ring = Ring {
        runners: sides.map(Runner::new).collect(),
        own: 1 + twin,
        rounds: Vec::new(),
        readings: Vec::new(),
        returned: Vec::new(),
        verifying: Duration::ZERO,
        last_reference: 0.0,
        // Data follows from the number: that of other contests is other data.
        next: rng.random_range(0..u32::MAX / 2),
        policy,
        rng,
        witness,
    };
    let start = ring.witness.now();
    ring.calibrate().await?;
    let mut repeats = 0;
    let assessment = loop {
        ring.run(start).await?;
        let assessment = ring.assess();
        let spent = ring.witness.now().saturating_sub(start);
        if ring.lost() || !assessment.worth_repeating() || spent >= policy.budget {
            break assessment;
        }
        repeats += 1;
        ring.rounds.clear();
        ring.readings.clear();
    };
    ring.once_more().await?;
    let returned = std::mem::take(&mut ring.returned);
    let contest = ring.conclude(assessment, repeats);
    Ok(Held::new(contest, floor, returned))
}

/// One turn of every side.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Round {
    /// What each side did, unless it fell out.
    pub(super) samples: Vec<Option<Sample>>,
    /// The judge's loop before and after, the longer of both, in seconds.
    pub(super) reference: f64,
    /// Stolen processor time over wall time.
    pub(super) stolen: Option<f64>,
    /// Processor time that others used over that of all processors, as far as it is certain.
    pub(super) others: Option<f64>,
}

struct Ring<'a, 'p> {
    /// The candidate, its twin if it has one, the rivals.
    runners: Vec<Runner<'a>>,
    /// How many of them are the candidate.
    own: usize,
    rounds: Vec<Round>,
    /// What the device said of itself in these rounds, if it says anything.
    readings: Vec<Result<Reading>>,
    /// What is to be judged, of sides by their position in the contest.
    returned: Vec<(usize, Returned)>,
    /// What taking outputs to be judged took.
    verifying: Duration,
    /// The judge's loop after the last round.
    last_reference: f64,
    /// The number of the next round.
    next: u32,
    policy: &'p ContestPolicy,
    rng: ChaCha8Rng,
    witness: &'p mut dyn Witness,
}

impl Ring<'_, '_> {
    fn names(&self) -> Vec<String> {
        self.runners.iter().map(|r| r.side.name().to_owned()).collect()
    }

    /// What the rounds say so far.
    fn assess(&self) -> Assessment {
        let readings = Readings::of(&self.readings);
        assess(&self.rounds, readings, &self.names(), self.own, self.policy)
    }

    /// Whether the candidate fell out.
    fn lost(&self) -> bool {
        self.runners.iter().take(self.own).any(|r| r.failure.is_some())
    }

    /// Whether the candidate is hopelessly slower than a rival.
    fn conceded(&self) -> bool {
        let Some(factor) = self.policy.concede else {
            return false;
        };
        let slower = |round: &Round, rival: usize| {
            let time = |at: usize| Some(round.samples.get(at)?.as_ref()?.warm);
            time(0)
                .zip(time(rival))
                .is_some_and(|(own, rival)| own > factor * rival)
        };
        let Some(last) = self.rounds.last_chunk::<CONCEDED_AFTER>() else {
            return false;
        };
        (self.own..self.runners.len()).any(|rival| last.iter().all(|r| slower(r, rival)))
    }

    /// Keeps a side's failure with the side.
    fn settle<T>(&mut self, at: usize, turn: Turn<T>) -> Result<Option<T>> {
        match (turn, self.runners.get_mut(at)) {
            (Ok(value), _) => Ok(Some(value)),
            (Err(Out::Trouble(error)), _) => Err(error),
            (Err(Out::Failed(failure)), runner) => {
                if let Some(runner) = runner {
                    runner.failure = Some(failure);
                }
                Ok(None)
            }
        }
    }

    /// Finds out how many calls make a batch of each side.
    async fn calibrate(&mut self) -> Result<()> {
        let round = self.next;
        self.next += 1;
        for at in 0..self.runners.len() {
            let turn = match self.runners.get_mut(at) {
                Some(runner) => batch_of(runner.side, round).await,
                None => continue,
            };
            if let (Some(batch), Some(runner)) = (self.settle(at, turn)?, self.runners.get_mut(at)) {
                runner.batch = batch;
            }
        }
        // Both are the same program.
        let own = self.runners.iter().take(self.own);
        let batch = own.map(|r| r.batch).max().unwrap_or(1);
        self.runners
            .iter_mut()
            .take(self.own)
            .for_each(|r| r.batch = batch);
        Ok(())
    }

    /// Runs rounds until the ratios are known or the budget is spent.
    async fn run(&mut self, start: Duration) -> Result<()> {
        let certain = self.rng.random_range(1..self.policy.least_rounds.max(2));
        self.last_reference = self.witness.reference().as_secs_f64();
        while !self.lost() && !self.conceded() {
            let number = self.rounds.len() as u32;
            let last = self.is_last(start);
            let spent = self.witness.now().saturating_sub(start);
            let afford = VERIFY_PART * self.verifying <= spent;
            let chosen = number == 0
                || self.policy.thorough
                    && (number == certain || self.rng.random_ratio(1, VERIFY_ONE_IN) && afford || last);
            self.round(chosen).await?;
            if last {
                break;
            }
        }
        Ok(())
    }

    /// Whether the round that begins now is the last. Looks at widths of intervals only, never at what they say: who
    /// stops when he likes what he sees finds differences where there are none.
    fn is_last(&self, start: Duration) -> bool {
        let policy = self.policy;
        let done = self.rounds.len() + 1;
        let spent = self.witness.now().saturating_sub(start);
        if done >= policy.most_rounds as usize {
            return true;
        }
        if spent >= 3 * policy.budget {
            let assessment = self.assess();
            let few = assessment.kept() + 1 < fewest_samples(policy.confidence);
            return !few || spent >= policy.patience;
        }
        if done < policy.least_rounds as usize {
            return false;
        }
        if done.is_multiple_of(LOOK_EVERY) || spent >= policy.budget {
            let assessment = self.assess();
            let enough = assessment.kept() + 1 >= policy.least_rounds as usize;
            return enough && (spent >= policy.budget || assessment.precise(policy.precision));
        }
        false
    }

    async fn round(&mut self, verify: bool) -> Result<()> {
        let number = self.next;
        self.next += 1;
        let (began, stolen, others) = (self.witness.now(), self.witness.stolen(), self.witness.others());
        let mut order: Vec<usize> = (0..self.runners.len()).collect();
        order.shuffle(&mut self.rng);
        let mut samples = vec![None; order.len()];
        for at in order {
            let (long, cold_first) = (self.rng.random::<bool>(), self.rng.random::<bool>());
            let (policy, Some(runner)) = (self.policy, self.runners.get_mut(at)) else {
                continue;
            };
            if runner.failure.is_some() {
                continue;
            }
            // Nothing is claimed of the twin.
            let verify = verify && !(1..self.own).contains(&at);
            let mut executed_at = None;
            let mut executed = || {
                self.readings.extend(self.witness.device());
                executed_at = Some(self.witness.now());
            };
            let turn = turn(runner, policy, number, long, cold_first, verify, &mut executed).await;
            let (sample, returned) = self.settle(at, turn)?.unzip();
            if let Some(returned) = returned.flatten() {
                self.keep(at, returned)?;
                let began = executed_at.unwrap_or_default();
                self.verifying += self.witness.now().saturating_sub(began);
            }
            if let Some(place) = samples.get_mut(at) {
                *place = sample;
            }
        }
        let wall = self.witness.now().saturating_sub(began).as_secs_f64();
        let wall = wall.max(f64::MIN_POSITIVE);
        let stolen = stolen
            .zip(self.witness.stolen())
            .map(|(before, after)| after.saturating_sub(before).as_secs_f64() / wall);
        let others = others.zip(self.witness.others()).map(|(before, after)| {
            let certain = after.seconds - before.seconds - UNCERTAIN;
            certain.max(0.0) / (wall * after.processors.max(1) as f64)
        });
        let before = self.last_reference;
        self.last_reference = self.witness.reference().as_secs_f64();
        self.rounds.push(Round {
            samples,
            reference: before.max(self.last_reference),
            stolen,
            others,
        });
        Ok(())
    }

    /// Calls the candidate's processes once more, when they can have learned that the rounds are over.
    async fn once_more(&mut self) -> Result<()> {
        for at in 0..self.own {
            let turn = match self.runners.get_mut(at) {
                Some(runner) if runner.failure.is_none() => of(runner.side.once_more().await),
                _ => continue,
            };
            if let Some(returned) = self.settle(at, turn)?.flatten() {
                self.keep(at, returned)?;
            }
        }
        Ok(())
    }

    /// Keeps what a side returned for later; what there is no memory for is judged at once.
    fn keep(&mut self, at: usize, returned: Returned) -> Result<()> {
        // The twin has no place in the contest.
        let place = at.saturating_sub(self.own - 1);
        let kept: usize = self.returned.iter().map(|(_, r)| r.bytes()).sum();
        let fits = kept + returned.bytes() <= MOST_KEPT;
        let returned = if fits { returned } else { returned.judged()? };
        self.returned.push((place, returned));
        Ok(())
    }

    fn conclude(self, assessment: Assessment, repeats: u32) -> Contest {
        let rounds = self.rounds.len();
        let stolen: Vec<f64> = self.rounds.iter().filter_map(|r| r.stolen).collect();
        let twin_failure = self.runners.iter().take(self.own).find_map(|r| r.failure.clone());
        let mut sides = Vec::new();
        for (at, runner) in self.runners.into_iter().enumerate() {
            if at > 0 && at < self.own {
                continue;
            }
            let samples = assessment.samples(at);
            let all = |f: &dyn Fn(&Sample) -> Option<f64>| samples.iter().filter_map(f).collect::<Vec<f64>>();
            sides.push(SideTimes {
                name: runner.side.name().to_owned(),
                batches: runner.batches(),
                verified: 0,
                failure: if at == 0 {
                    twin_failure.clone()
                } else {
                    runner.failure
                },
                constant_seconds: median(&all(&|s| Some(s.constant))).unwrap_or_default(),
                own_clock: median(&all(&|s| s.own_clock)),
                page_faults: median(&all(&|s| s.page_faults)),
                warm: super::Timing {
                    seconds: all(&|s| Some(s.warm)),
                },
                cold: super::Timing {
                    seconds: all(&|s| s.cold),
                },
            });
        }
        let kept = assessment.kept();
        Contest {
            sides,
            comparisons: assessment.comparisons,
            noise: assessment.noise,
            confidence: self.policy.confidence,
            rounds: kept as u32,
            discarded: (rounds - kept) as u32,
            repeats,
            stolen: (!stolen.is_empty()).then(|| stolen.iter().sum::<f64>() / stolen.len() as f64),
            device: assessment.device,
            disturbances: assessment.disturbances,
        }
    }
}
