//! What a copy reaches on the device, and how near the kernels come to it that memory bounds.

use akg::graph::Arg;
use akg::session::{Event, Session};
use akg::{DType, Error, Graph, Result, Target, Task};
use serde::{Deserialize, Serialize};

use super::record::Record;
use super::solve::Solver;
use super::summary::geomean;

/// A copy of an array that is far larger than the caches, verified and timed like every kernel.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Copy {
    /// Bytes that are read and written.
    pub(super) bytes: u64,
    /// The median time.
    pub(super) seconds: f64,
    /// Bytes in a second.
    pub(super) bandwidth: f64,
}

/// The array is so many times as large as the last-level cache.
const TIMES_CACHE: u64 = 16;

/// The array's bytes where the caches are unknown.
const LEAST_BYTES: u64 = 64 << 20;

impl Copy {
    /// Designs a copy, verifies and times it on the first device, unless the store knows it; `None` if the run is to end.
    ///
    /// # Errors
    /// If there is no kernel, or no time of it.
    pub(super) fn measure(solver: &Solver<'_>, target: &Target) -> Result<Option<Self>> {
        let cache = target.caches.last().copied().unwrap_or_default();
        let room = solver.memory.unwrap_or(u64::MAX) / 2;
        let elements = (TIMES_CACHE * cache).max(LEAST_BYTES).min(room) / DType::F32.size() as u64;
        let task = task(elements)?;
        let backend = solver.backends.first().cloned();
        let backend = backend.ok_or_else(|| Error::unexpected("there is no device to copy on"))?;
        let judge = &solver.args.judge;
        let work = solver.stop.work();
        let step = work.clone();
        let session = Session::new(solver.dsl.clone(), backend)
            .with_verifier(judge.verifier())
            .with_timing(Some(judge.contest()))
            .with_store(solver.store.clone())
            .with_observer(move |_: Event<'_>| step.step_ended());
        let Some(outcome) = work.run(session.run(&task)) else {
            return Ok(None);
        };
        let outcome = outcome?;
        let times = outcome.best().and_then(|best| best.timing.as_ref());
        let seconds = times.and_then(|times| times.candidate()?.warm.median());
        let seconds =
            seconds.ok_or_else(|| Error::unexpected(format!("no copy was timed: {}", outcome.stopped)))?;
        let bytes = 2 * elements * DType::F32.size() as u64;
        Ok(Some(Self {
            bytes,
            seconds,
            bandwidth: bytes as f64 / seconds,
        }))
    }
}

/// `y = x`.
fn task(elements: u64) -> Result<Task> {
    let mut graph = Graph::new("copy");
    let elements = i64::try_from(elements).map_err(|_| Error::invalid("too much memory to copy"))?;
    let x = graph.input("x", DType::F32, [elements]);
    for y in graph.call("aten.clone.default", [("self", Arg::Value(x))])? {
        graph.output(y);
    }
    Ok(Task::new("copy", graph))
}

/// How fast memory-bound kernels move their tasks' bytes, over how fast a copy does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Share {
    /// Those with a verified kernel whose [bound](akg::session::Outcome::bound_seconds) is that of their bytes, and longer
    /// than 50 µs.
    pub(super) problems: usize,
    pub(super) geomean: f64,
    pub(super) lowest: f64,
    /// The problem with the lowest.
    pub(super) lowest_problem: String,
}

/// Shorter times are not those of memory alone.
const LEAST_SECONDS: f64 = 50e-6;

impl Share {
    /// Of some records; `None` if memory bounds none of them.
    pub(super) fn of(records: &[Record], copy: &Copy) -> Option<Self> {
        let share = |record: &Record| {
            let time = record.side("candidate")?.warm?.median;
            let counts =
                record.passed() && record.work.memory_bound && record.bound_seconds? >= LEAST_SECONDS;
            counts.then(|| record.work.bytes as f64 / time / copy.bandwidth)
        };
        let (shares, problems): (Vec<f64>, Vec<&str>) = records
            .iter()
            .filter_map(|record| Some((share(record)?, record.problem.as_str())))
            .unzip();
        let (lowest, problem) = shares.iter().zip(problems).min_by(|a, b| a.0.total_cmp(b.0))?;
        Some(Self {
            problems: shares.len(),
            geomean: geomean(&shares)?,
            lowest: *lowest,
            lowest_problem: problem.to_owned(),
        })
    }
}
