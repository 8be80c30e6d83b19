//! Builds mutants, shows them to the judge and says what became of them.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use akg::backend::Limits;
use akg::cpp::{CppConfig, CppDsl};
use akg::cpu::CpuBackend;
use akg::expr::Bindings;
use akg::source::{Artifact, LaunchPlan, Source};
use akg::verdict::{Failure, FailureKind};
use akg::verify::Judge;
use akg::{Backend as _, Candidate, Dsl as _, Error, Result, Sketch, Target, Verifier, sketch};
use futures::executor::block_on;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::kept::Kept;
use crate::operators::{self, Fault};
use crate::shard::Shard;
use crate::subjects::{self, Subject};
use crate::tokens::Language;
use crate::twin::{Likeness, Original};

/// What became of a mutant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Fate {
    /// The parser, the validator or a compiler refused it; it never ran.
    Refused,
    /// Its object code and launches are the original's, or those of an earlier mutant; it did not run.
    Repeated,
    /// The judge failed it.
    Detected(FailureKind),
    /// The judge passed it, and so must every judge: see [`Excuse`].
    Excused(Excuse),
    /// The judge passed it, and it differs on these inputs.
    Escaped(Cow<'static, str>),
    /// The judge passed it, and may fail it another time: what it computes depends on which thread comes first.
    Raced,
}

/// Why a mutant is no fault that a run can show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Excuse {
    /// It gives the original's bits on all hostile inputs.
    SameBits,
    /// It gives the original's bits wherever arithmetic is exact, and differs by rounding elsewhere.
    Rounding,
    /// It weakens an order of memory accesses that this machine keeps anyhow.
    MemoryModel,
    /// It reads a variable that nothing was written to, and the compiler's code finds the original's value there.
    Undefined,
    /// It differs only where inputs are infinite or NaN, which the contract leaves out.
    SpecialValues,
}

impl Excuse {
    /// Every excuse.
    pub(crate) const ALL: [Excuse; 5] = [
        Excuse::SameBits,
        Excuse::Rounding,
        Excuse::MemoryModel,
        Excuse::Undefined,
        Excuse::SpecialValues,
    ];
}

/// A mutant and its fate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Mutant {
    pub(crate) subject: usize,
    pub(crate) fault: Fault,
    pub(crate) fate: Fate,
}

/// The mutants that a subject gets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Order {
    /// The subject's place in the campaign.
    pub(crate) index: usize,
    /// The mutants that run.
    pub(crate) quota: usize,
    /// The choice of faults.
    pub(crate) seed: u64,
}

/// What a campaign tries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Campaign {
    /// The mutants of each subject that run.
    pub(crate) quota: usize,
    /// The choice of faults.
    pub(crate) seed: u64,
    /// The subjects, by their numbers.
    pub(crate) shard: Shard,
}

/// What a campaign found.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) mutants: Vec<Mutant>,
    /// Subjects that the judge failed as they are, with its evidence.
    pub(crate) originals_failed: Vec<(String, String)>,
}

/// Faults in the order of memory accesses, which show only when threads meet. All else that a judge with the same secret sees is
/// the same each time, whatever the machine does beside it.
const RACES: [&str; 4] = ["plain access", "dropped barrier", "memory order", "dropped fence"];

impl Mutant {
    /// Whether it is a matter of luck what the judge says of it.
    pub(crate) fn is_race(&self) -> bool {
        self.fate == Fate::Raced || RACES.contains(&&*self.fault.operator)
    }

    /// Returns true if the judge passed it, rightly or not.
    pub(crate) fn has_passed(&self) -> bool {
        !matches!(self.fate, Fate::Refused | Fate::Repeated | Fate::Detected(_))
    }
}

/// Mutants of one subject that are looked at together: a few subjects take most of the time.
const LANES: usize = 4;

/// How often a mutant is judged again that seems to have escaped.
const TRIALS: usize = 3;

/// The tools of a campaign.
#[derive(Debug)]
pub(crate) struct Bench {
    dsl: CppDsl,
    backend: CpuBackend,
    target: Target,
    judge: Judge,
}

fn limits() -> Limits {
    let mut limits = Limits::default();
    // Kernels take milliseconds; what is stuck stays stuck.
    limits.time = Duration::from_secs(10);
    limits
}

impl Bench {
    pub(crate) fn new(seed: u64) -> Result<Self> {
        let mut config = CppConfig::default();
        // Mutants are many and small: compile time counts more than theirs.
        config.flags.push("-O1".to_owned());
        let backend = CpuBackend::builder().build();
        let target = block_on(backend.devices())?.into_iter().next();
        Ok(Self {
            dsl: CppDsl::new(config),
            target: target.ok_or_else(|| Error::unsupported("this machine has no device"))?,
            backend,
            judge: Judge::standard(0, Some(seed), &limits()),
        })
    }

    pub(crate) fn device(&self) -> &str {
        &self.target.name
    }

    pub(crate) fn subjects(&self) -> Result<Vec<Subject>> {
        subjects::subjects(&self.dsl, &self.target)
    }

    /// Puts faults into every subject of the shard until the quota of each has run. The same seed chooses the same faults, whatever
    /// the shard.
    pub(crate) fn run(&self, subjects: &[Subject], campaign: Campaign, kept: &Kept) -> Result<Findings> {
        let Campaign { quota, seed, shard } = campaign;
        let next = AtomicUsize::new(0);
        let findings = Mutex::new(Findings::default());
        let work = || -> Result<()> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(subject) = subjects.get(index) else {
                    return Ok(());
                };
                if !shard.has(index as u64) {
                    continue;
                }
                let order = Order { index, quota, seed };
                let mutants = match kept.find(subject, &order) {
                    Some(mutants) => Ok(mutants),
                    None => {
                        let mutants = self
                            .mutate(subject, &order)
                            .map_err(|e| e.with("subject", &subject.name))?;
                        if let Ok(mutants) = &mutants {
                            kept.keep(subject, &order, mutants)?;
                        }
                        mutants
                    }
                };
                let mut findings = findings.lock().unwrap_or_else(PoisonError::into_inner);
                match mutants {
                    Ok(mutants) => findings.mutants.extend(mutants),
                    Err(failure) => {
                        let found = (subject.name.clone(), failure.evidence);
                        findings.originals_failed.push(found);
                    }
                }
                eprintln!("{}", subject.name);
            }
        };
        let threads = thread::available_parallelism().map_or(1, |n| n.get());
        thread::scope(|scope| {
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            handles.into_iter().try_for_each(join)
        })?;
        let mut findings = findings.into_inner().unwrap_or_else(PoisonError::into_inner);
        findings.mutants.sort_by_key(|m| m.subject);
        Ok(findings)
    }

    /// The subject's mutants, or why the judge fails the subject itself.
    fn mutate(&self, subject: &Subject, order: &Order) -> Result<Result<Vec<Mutant>, Failure>> {
        let Order { index, quota, seed } = *order;
        let original = match self.dsl.build(&subject.source, &self.target)? {
            Ok(original) => original,
            Err(failure) => return Ok(Err(failure)),
        };
        if let Some(failure) = self.judge(subject, &subject.source, &original)? {
            return Ok(Err(failure));
        }
        let mut seen = HashSet::from([code(&original)]);
        let (mut mutants, mut passed) = (Vec::new(), Vec::new());
        let mut ran = 0;
        let mut faults = chosen(subject, seed ^ (index as u64) << 32).into_iter();
        while ran < quota {
            let batch: Vec<Fault> = faults.by_ref().take(quota - ran).collect();
            if batch.is_empty() {
                break;
            }
            let built = at_once(batch, |fault| {
                let built = self.build(subject, &fault)?;
                Ok((fault, built))
            })?;
            let mut fresh = Vec::new();
            for (fault, built) in built {
                let fate = match built {
                    None => Fate::Refused,
                    Some((_, artifact)) if !seen.insert(code(&artifact)) => Fate::Repeated,
                    Some((source, artifact)) => {
                        fresh.push((fault, source, artifact));
                        continue;
                    }
                };
                mutants.push(Mutant {
                    subject: index,
                    fault,
                    fate,
                });
            }
            ran += fresh.len();
            let judged = at_once(fresh, |(fault, source, artifact)| {
                let failure = self.judge(subject, &source, &artifact)?;
                Ok((failure, fault, source, artifact))
            })?;
            for (failure, fault, source, artifact) in judged {
                match failure {
                    None => passed.push((fault, source, artifact)),
                    Some(failure) => mutants.push(Mutant {
                        subject: index,
                        fault,
                        fate: Fate::Detected(failure.kind),
                    }),
                }
            }
        }
        if !passed.is_empty() {
            let original = Original::new(&subject.task, &self.backend, &original, limits())?;
            for (fault, source, artifact) in passed {
                let mut fate = question(&original, &fault, &artifact)?;
                for _ in 0..TRIALS {
                    // With the same secret only a race gets another verdict.
                    let seems = matches!(fate, Fate::Escaped(_));
                    if seems && self.judge(subject, &source, &artifact)?.is_some() {
                        fate = Fate::Raced;
                    }
                }
                mutants.push(Mutant {
                    subject: index,
                    fault,
                    fate,
                });
            }
        }
        Ok(Ok(mutants))
    }

    /// The mutant's source and artifact, unless something refuses it.
    fn build(&self, subject: &Subject, fault: &Fault) -> Result<Option<(Source, Artifact)>> {
        let source = match (&subject.sketch, fault.language) {
            (Some((_, knobs)), Language::Sketch) => {
                let Ok(sketch) = Sketch::parse(&fault.text) else {
                    return Ok(None);
                };
                let Ok(program) = sketch.elaborate(knobs, &Bindings::new()) else {
                    return Ok(None);
                };
                if sketch::validate(&program, Some(&self.target)).has_errors() {
                    return Ok(None);
                }
                let Ok(source) = subjects::lower(&subject.task, &sketch, knobs, &self.dsl, &self.target)
                else {
                    return Ok(None);
                };
                source
            }
            _ => Source {
                text: fault.text.clone(),
                ..subject.source.clone()
            },
        };
        Ok(self
            .dsl
            .build(&source, &self.target)?
            .ok()
            .map(|artifact| (source, artifact)))
    }

    fn judge(&self, subject: &Subject, source: &Source, artifact: &Artifact) -> Result<Option<Failure>> {
        let candidate = Candidate {
            source: source.clone(),
            artifact: artifact.clone(),
        };
        let verdict = self
            .judge
            .verify(&candidate, &subject.task, &self.target, &self.backend);
        Ok(block_on(verdict)?.failure)
    }
}

/// Does the same with several, a few at a time; the results are in their order.
fn at_once<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> Result<R> + Sync) -> Result<Vec<R>> {
    let items = Mutex::new(items.into_iter().enumerate());
    let next = || items.lock().unwrap_or_else(PoisonError::into_inner).next();
    let some = || -> Result<Vec<(usize, R)>> {
        std::iter::from_fn(next)
            .map(|(at, item)| Ok((at, work(item)?)))
            .collect()
    };
    let found: Result<Vec<_>> = thread::scope(|scope| {
        let handles: Vec<_> = (0..LANES).map(|_| scope.spawn(some)).collect();
        handles.into_iter().map(join).collect()
    });
    let mut found: Vec<_> = found?.into_iter().flatten().collect();
    found.sort_by_key(|(at, _)| *at);
    Ok(found.into_iter().map(|(_, result)| result).collect())
}

fn join<T>(handle: ScopedJoinHandle<'_, Result<T>>) -> Result<T> {
    handle
        .join()
        .unwrap_or_else(|_| Err(Error::unexpected("a thread of the campaign panicked")))
}

/// Whether a mutant that passed could have failed.
fn question(original: &Original<'_>, fault: &Fault, mutant: &Artifact) -> Result<Fate> {
    let mut programs = 0;
    for launch in &mutant.plan.launches {
        programs = programs.max(LaunchPlan::programs(launch, &Bindings::new())?);
    }
    let ordered =
        matches!(&*fault.operator, "memory order" | "dropped fence") && cfg!(target_arch = "x86_64");
    Ok(match original.compare(mutant)? {
        Likeness::Different(inputs) => Fate::Escaped(inputs.into()),
        // Right only as long as every program is called for alone.
        _ if programs > 1 && fault.after.contains("program < last; program +=") => {
            Fate::Escaped("ranges of programs".into())
        }
        _ if matches!(&*fault.operator, "plain access" | "dropped barrier") => Fate::Raced,
        _ if ordered => Fate::Excused(Excuse::MemoryModel),
        Likeness::Same if fault.operator == "uninitialised" => Fate::Excused(Excuse::Undefined),
        Likeness::Same => Fate::Excused(Excuse::SameBits),
        Likeness::Near => Fate::Excused(Excuse::Rounding),
        Likeness::Special => Fate::Excused(Excuse::SpecialValues),
    })
}

/// What runs: object code and launches.
fn code(artifact: &Artifact) -> (Vec<u8>, String) {
    (artifact.bytes.clone(), format!("{:?}", artifact.plan))
}

/// The subject's faults in the order in which they are tried: one of each operator in turn, so that common sites do not
/// crowd out rare ones.
fn chosen(subject: &Subject, seed: u64) -> Vec<Fault> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut groups = operators::faults(&subject.source.text, Language::Cpp);
    if let Some((sketch, _)) = &subject.sketch {
        groups.extend(operators::faults(&sketch.to_string(), Language::Sketch));
    }
    groups.shuffle(&mut rng);
    for group in &mut groups {
        group.shuffle(&mut rng);
    }
    let mut out = Vec::new();
    while groups.iter().any(|g| !g.is_empty()) {
        out.extend(groups.iter_mut().filter_map(Vec::pop));
    }
    out
}
