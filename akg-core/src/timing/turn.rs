//! One side's part of a round.

use super::policy::ContestPolicy;
use super::side::Side;
use super::slots::Returned;
use crate::backend::{Cache, Execution};
use crate::error::{Error, Result};
use crate::verdict::Failure;

/// A batch outlasts the constant for asking and answering by this factor, so that an error of the constant by all of
/// itself is an error of 1 % in one round.
const OVER_CONSTANT: f64 = 100.0;

/// A batch takes at least this many seconds: thousands of ticks of any clock, and longer than an interrupt.
const LEAST_BATCH: f64 = 1e-3;

/// Calls in a batch at most.
const MOST_CALLS: u32 = 1 << 20;

/// One side and what is known of it.
pub(super) struct Runner<'a> {
    pub(super) side: &'a mut dyn Side,
    pub(super) failure: Option<Failure>,
    /// Calls in a short batch; a long one has twice as many, unless a single call is long enough.
    pub(super) batch: u32,
}

impl<'a> Runner<'a> {
    pub(super) fn new(side: &'a mut dyn Side) -> Self {
        Self {
            side,
            failure: None,
            batch: 1,
        }
    }

    pub(super) fn batches(&self) -> Vec<u32> {
        if self.batch == 1 {
            vec![1]
        } else {
            vec![self.batch, 2 * self.batch]
        }
    }
}

/// Executions at most that decide whether a batch is long enough: other work on the machine makes single ones longer, and a
/// batch chosen by one of those is too short ever after.
const TRIES: u32 = 3;

/// Seconds after which a batch needs no further execution to be long enough.
const CERTAIN: f64 = 0.5;

/// What one side did in one round, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Calls in the batch.
    pub(super) calls: u32,
    /// One warm call.
    pub(super) warm: f64,
    /// One call with empty caches.
    pub(super) cold: Option<f64>,
    /// A batch without calls.
    pub(super) constant: f64,
    /// The batch by the side's own clock, over the judge's.
    pub(super) own_clock: Option<f64>,
    /// Page faults of one call.
    pub(super) page_faults: Option<f64>,
}

/// A side's failure, or akg's own trouble.
pub(super) enum Out {
    Failed(Failure),
    Trouble(Error),
}

pub(super) type Turn<T> = std::result::Result<T, Out>;

/// What a side answered.
pub(super) fn of<T>(answer: Result<std::result::Result<T, Failure>>) -> Turn<T> {
    answer.map_err(Out::Trouble)?.map_err(Out::Failed)
}

/// The number of calls that outlast the constant and the clock by far, as far as a side has slots for them.
pub(super) async fn batch_of(side: &mut dyn Side, round: u32) -> Turn<u32> {
    of(side.refresh(round).await)?;
    of(side.execute(1, Cache::Warm).await)?;
    let constant = shortest(side, 0, 0.0).await?;
    let enough = (OVER_CONSTANT * constant).max(LEAST_BATCH);
    let most = MOST_CALLS.min(side.slots());
    let mut calls = 1u32;
    loop {
        let time = shortest(side, calls, enough + constant).await? - constant;
        if time >= enough || calls >= most {
            return Ok(calls);
        }
        // A first guess may be far off when the clock shows hardly anything.
        let factor = (1.1 * enough / time.max(enough / 64.0)).ceil() as u32;
        calls = calls.saturating_mul(factor.max(2)).min(most);
    }
}

/// The shortest of some executions, in seconds; the first below `enough` is the last.
async fn shortest(side: &mut dyn Side, calls: u32, enough: f64) -> Turn<f64> {
    let (mut shortest, mut spent) = (f64::INFINITY, 0.0);
    for _ in 0..TRIES {
        let time = of(side.execute(calls, Cache::Warm).await)?.as_secs_f64();
        shortest = shortest.min(time);
        spent += time;
        if shortest < enough || spent > CERTAIN {
            break;
        }
    }
    Ok(shortest)
}

/// A batch as executions of at most so many calls, which differ by no more than one.
fn parts(calls: u32, most: u32) -> impl Iterator<Item = u32> {
    let count = calls.div_ceil(most.max(1)).max(1);
    (0..count).map(move |part| calls / count + u32::from(part < calls % count))
}

/// One side's part of a round; calls `executed` when the device has just worked.
pub(super) async fn turn(
    runner: &mut Runner<'_>,
    policy: &ContestPolicy,
    round: u32,
    long: bool,
    cold_first: bool,
    verify: bool,
    executed: &mut (dyn FnMut() + Send),
) -> Turn<(Sample, Option<Returned>)> {
    let calls = if long && runner.batch > 1 {
        2 * runner.batch
    } else {
        runner.batch
    };
    let warmup = if runner.batch > 1 { policy.warmup } else { 1 };
    let side = &mut *runner.side;
    of(side.refresh(round).await)?;
    let warm = |calls| Execution {
        calls,
        cache: Cache::Warm,
    };
    let cold = Execution {
        calls: 1,
        cache: Cache::Cold,
    };
    // Asking and answering may take longer for more calls, so each kind of execution has a constant of its own.
    let mut executions = vec![warm(warmup)];
    let mut cold_at = None;
    if policy.cold && cold_first {
        cold_at = Some(executions.len());
        executions.extend([cold, warm(0), warm(warmup)]);
    }
    let timed = executions.len();
    executions.extend(parts(calls, side.slots()).map(warm));
    let empty_at = executions.len();
    executions.push(warm(0));
    if policy.cold && !cold_first {
        cold_at = Some(executions.len());
        executions.extend([cold, warm(0)]);
    }
    let times = of(side.execute_all(&executions).await)?;
    executed();
    let testimony = side.testimony();
    let time_of = |at: usize| {
        let missing = || Out::Trouble(Error::unexpected("a side left out an execution"));
        times.get(at).copied().ok_or_else(missing)
    };
    let constant = time_of(empty_at)?.as_secs_f64();
    let mut batch = 0.0;
    for at in timed..empty_at {
        batch += time_of(at)?.as_secs_f64() - constant;
    }
    let batch = batch.max(1e-12);
    let net_of = |at: usize| Ok(time_of(at)?.as_secs_f64() - time_of(at + 1)?.as_secs_f64());
    let cold = cold_at.map(net_of).transpose()?;
    let returned = if verify { of(side.take().await)? } else { None };
    let sample = Sample {
        calls,
        warm: batch / f64::from(calls),
        cold: cold.map(|time| time.max(1e-12)),
        constant,
        own_clock: testimony.time.map(|t| t.as_secs_f64() / batch),
        page_faults: testimony.page_faults.map(|n| n as f64 / f64::from(calls)),
    };
    Ok((sample, returned))
}
