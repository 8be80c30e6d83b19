//! The rules of other systems, stated again from their sources, on the same candidates.
//!
//! Each system runs a candidate beside its reference in one process on inputs of a public seed and compares the outputs once.
//! Isolation, poison and timing are left out here: what is compared are tolerances and data alone, on outputs that ran in
//! akg's worker. A candidate that crashes is rejected by all.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use akg::backend::{BackendExt as _, Limits, Poison, RunRequest};
use akg::reference::{Options, Precision, evaluate};
use akg::source::Artifact;
use akg::verify::{Distribution, make_inputs};
use akg::{Backend, Dsl, Result, Target, Tensor};
use futures::executor::block_on;

use crate::entry::{Entry, Form};

/// A system's rule.
#[derive(Debug, Clone, Copy)]
struct Rule {
    system: &'static str,
    /// The number of seeds.
    seeds: u64,
    /// Whether an output's elements agree with those of the reference.
    agrees: fn(&[f64], &[f64]) -> bool,
}

/// The rules.
///
/// - AKG: an element is bad if its relative error is above 0.02 (where the reference is above 1e-8); up to 0.02 of all may be.
/// - `KernelBench`: five inputs, and `torch.allclose` with both tolerances 1e-4.
/// - `KernelAgent`: one input, and `torch.allclose` with both tolerances 1e-2.
const RULES: [Rule; 3] = [
    Rule {
        system: "AKG",
        seeds: 1,
        agrees: |got, expected| {
            let bad = |(got, expected): (&f64, &f64)| {
                let error = (got - expected).abs();
                let relative = if expected.abs() > 1e-8 {
                    error / expected.abs()
                } else {
                    error
                };
                relative > 0.02 || relative.is_nan()
            };
            let count = got.iter().zip(expected).filter(|pair| bad(*pair)).count();
            count as f64 <= 0.02 * expected.len() as f64
        },
    },
    Rule {
        system: "KernelBench",
        seeds: 5,
        agrees: |got, expected| all_close(got, expected, 1e-4),
    },
    Rule {
        system: "KernelAgent",
        seeds: 1,
        agrees: |got, expected| all_close(got, expected, 1e-2),
    },
];

fn all_close(got: &[f64], expected: &[f64], tolerance: f64) -> bool {
    let close = |(got, expected): (&f64, &f64)| {
        got == expected || (got - expected).abs() <= tolerance + tolerance * expected.abs()
    };
    got.iter().zip(expected).all(close)
}

/// The time limit of a call.
const TIME: Duration = Duration::from_secs(10);

/// The elements of an output and of the reference.
type Pair = (Vec<f64>, Vec<f64>);

/// Hostile candidates that a rule accepts, and honest ones that it rejects.
#[derive(Debug, Clone, Copy, Default)]
struct Mistakes {
    hostile: usize,
    honest: usize,
}

/// The table of `docs/judge.md`: how many candidates in C++ each rule gets wrong.
pub(crate) fn table(entries: &[Entry]) -> Result<String> {
    let elsewhere = Elsewhere::new()?;
    let entries: Vec<&Entry> = entries
        .iter()
        .filter(|entry| matches!(entry.form, Form::Source(_)))
        .collect();
    let mistakes = Mutex::new([Mistakes::default(); RULES.len()]);
    let next = AtomicUsize::new(0);
    let work = || -> Result<()> {
        while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
            let accepted = elsewhere
                .accepted(entry)
                .map_err(|error| error.with("candidate", &entry.name))?;
            let mut mistakes = mistakes.lock().unwrap_or_else(PoisonError::into_inner);
            for (mistakes, accepted) in mistakes.iter_mut().zip(accepted) {
                match (entry.reasons.is_empty(), accepted) {
                    (true, false) => mistakes.honest += 1,
                    (false, true) => mistakes.hostile += 1,
                    _ => {}
                }
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap())
    })?;
    let honest = entries.iter().filter(|entry| entry.reasons.is_empty()).count();
    let hostile = entries.len() - honest;
    let mut table = format!(
        "| rules of | hostile accepted, of {hostile} | honest rejected, of {honest} |\n|---|---|---|\n"
    );
    let mistakes = mistakes.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (rule, mistakes) in RULES.iter().zip(mistakes) {
        let _ = writeln!(
            table,
            "| {} | {} | {} |",
            rule.system, mistakes.hostile, mistakes.honest
        );
    }
    table.push_str("| akg, as this test asserts | 0 | 0 |\n");
    Ok(table)
}

/// The tools to run candidates with.
struct Elsewhere {
    dsl: Arc<dyn Dsl>,
    backend: Arc<dyn Backend>,
    target: Target,
}

impl Elsewhere {
    fn new() -> Result<Self> {
        let registry = akg::registry();
        let (dsl, backend) = (registry.dsl("cpp")?, registry.backend("cpu")?);
        let target = block_on(backend.devices())?.remove(0);
        Ok(Self { dsl, backend, target })
    }

    /// Whether each rule accepts an entry; none does if it is not C++.
    fn accepted(&self, entry: &Entry) -> Result<[bool; RULES.len()]> {
        let Form::Source(source) = &entry.form else {
            return Ok([false; RULES.len()]);
        };
        let Ok(artifact) = self.dsl.build(source, &self.target)? else {
            return Ok([false; RULES.len()]);
        };
        let mut accepted = [true; RULES.len()];
        for seed in 0..RULES.iter().map(|rule| rule.seeds).max().unwrap_or(0) {
            if accepted == [false; RULES.len()] {
                break;
            }
            let outputs = self.outputs(entry, &artifact, seed)?;
            for (accepted, rule) in accepted.iter_mut().zip(RULES) {
                if seed < rule.seeds {
                    let agree = |(got, expected): &Pair| (rule.agrees)(got, expected);
                    *accepted &= outputs.as_ref().is_some_and(|outputs| outputs.iter().all(agree));
                }
            }
        }
        Ok(accepted)
    }

    /// What the candidate and the reference in single precision return; `None` where the candidate fails.
    fn outputs(&self, entry: &Entry, artifact: &Artifact, seed: u64) -> Result<Option<Vec<Pair>>> {
        let (task, dims) = (&entry.task, &entry.task.contract.hints);
        let inputs: Vec<Tensor> = make_inputs(task, &*self.backend, Distribution::Contract, seed, dims)?;
        let given = inputs.get(..task.graph.inputs().len()).unwrap_or_default();
        let options = Options {
            precision: Precision::F32Pairwise,
            ..Options::default()
        };
        let expected = evaluate(&task.graph, given, &options)?;
        let mut limits = Limits::default();
        limits.time = TIME;
        let ran = block_on(self.backend.run(RunRequest {
            artifact: artifact.clone(),
            inputs: inputs.clone(),
            dims: dims.clone(),
            poison: Poison::Finite,
            limits,
        }))?;
        let Ok(ran) = ran else {
            return Ok(None);
        };
        let pairs = ran.outputs.iter().zip(&expected);
        let pairs = pairs.map(|(got, expected)| Ok((got.to_f64()?, expected.to_f64())));
        pairs.collect::<Result<_>>().map(Some)
    }
}
