//! Articles from what a store remembers.

use std::collections::{BTreeMap, BTreeSet};

use super::{Article, Body, Card, FixBody, KernelBody, Kind, Knowledge, KnowledgeExt as _, Problem};
use crate::agent::Role as _;
use crate::backend::Cache;
use crate::designer::Designer;
use crate::digest::Digest;
use crate::error::Result;
use crate::history::{History, passed};
use crate::sketch::Sketch;
use crate::store::{
    CandidateRecord, Measurement, RefutationRecord, RunRecord, StepRecord, Store, StoreExt as _, TaskRecord,
    TuningRecord, VerdictRecord,
};
use crate::task::Task;
use crate::tuner::{kernel_of, shape_of};
use crate::verdict::{JUDGE_VERSION, Verdict};

/// What was learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Learned {
    /// Kernels on the shelf that come from the store.
    pub kernels: usize,
    /// Fixes on the shelf that come from the store.
    pub fixes: usize,
    /// Articles that the store no longer bears out, and that were taken off the shelf.
    pub withdrawn: usize,
}

/// Puts on the shelf what a store has learned: of each task, device, DSL and sketch the fastest kernel that is verified, and
/// of each step that failed what passed after it. What earlier was learned from the store and no longer holds is taken off.
pub fn learn(store: &(impl Store + ?Sized), shelf: &(impl Knowledge + ?Sized)) -> Result<Learned> {
    let tasks = tasks(store)?;
    let kernels = kernels(store, &tasks)?;
    let fixes = fixes(store, &tasks)?;
    let mut learned = Learned {
        kernels: kernels.len(),
        fixes: fixes.len(),
        withdrawn: 0,
    };
    let mut held = BTreeSet::new();
    for article in kernels.iter().chain(&fixes) {
        held.insert(article.card.key);
        shelf.renew(article)?;
    }
    for card in shelf.cards(&[Kind::Kernel, Kind::Fix])? {
        if !held.contains(&card.key) {
            shelf.withdraw(card.key)?;
            learned.withdrawn += 1;
        }
    }
    Ok(learned)
}

/// A task with what it looks like.
struct Known {
    task: Task,
    problem: Problem,
}

fn tasks(store: &(impl Store + ?Sized)) -> Result<BTreeMap<Digest, Known>> {
    let mut tasks = BTreeMap::new();
    for record in store.all::<TaskRecord>(None)? {
        // What another akg wrote may hold operators that this one does not have.
        let Ok(Some(task)) = record.task(store) else {
            continue;
        };
        if let Ok(problem) = Problem::of(&task) {
            tasks.insert(record.key, Known { task, problem });
        }
    }
    Ok(tasks)
}

/// A candidate that passed.
struct Verified {
    candidate: CandidateRecord,
    verdict: Verdict,
    sketch: String,
    skeleton: Digest,
    seconds: Option<f64>,
    speedup: Option<f64>,
}

impl Verified {
    /// Whether it is the better of two: the faster, and one that was timed before one that was not.
    fn is_better(&self, other: &Self) -> bool {
        let time = |verified: &Self| verified.seconds.unwrap_or(f64::INFINITY);
        time(self) < time(other)
    }
}

fn kernels(store: &(impl Store + ?Sized), tasks: &BTreeMap<Digest, Known>) -> Result<Vec<Article>> {
    let mut verdicts: BTreeMap<Digest, VerdictRecord> = BTreeMap::new();
    let all = store.all::<VerdictRecord>(None)?.into_iter();
    for record in all.filter(|record| record.verdict.judge == JUDGE_VERSION) {
        // Of several judges, whoever objects counts.
        let known = verdicts.get(&record.candidate);
        if known.is_none_or(|known| known.verdict.passed()) {
            verdicts.insert(record.candidate, record);
        }
    }
    let refuted = store.all::<RefutationRecord>(None)?.into_iter();
    let refuted: BTreeSet<Digest> = refuted.map(|record| record.candidate).collect();
    let mut times: BTreeMap<Digest, Measurement> = BTreeMap::new();
    for record in store.all::<Measurement>(None)? {
        // A contest has rivals to compare with, a duel of tuning has not.
        if record.challenged.is_none() {
            times.insert(record.candidate, record);
        }
    }
    let mut best: BTreeMap<Digest, Verified> = BTreeMap::new();
    for candidate in store.all::<CandidateRecord>(None)? {
        let Some(verdict) = verdicts
            .get(&candidate.key)
            .filter(|record| record.verdict.passed() && !refuted.contains(&record.candidate))
        else {
            continue;
        };
        let Some(sketch) = sketch_of(store, &candidate)? else {
            continue;
        };
        let Ok(parsed) = Sketch::parse(&sketch) else {
            continue;
        };
        if !tasks.contains_key(&candidate.task) {
            continue;
        }
        let contest = times.get(&candidate.key).map(|measurement| &measurement.contest);
        let side = contest.and_then(|contest| contest.candidate());
        let verified = Verified {
            skeleton: kernel_of(&parsed),
            verdict: verdict.verdict.clone(),
            sketch,
            seconds: side.and_then(|side| side.warm.median()),
            speedup: contest.and_then(|contest| Some(contest.against_best(Cache::Warm)?.ratio)),
            candidate,
        };
        let key = Digest::of_parts([
            Kind::Kernel.name(),
            &verified.candidate.task.to_string(),
            &verified.candidate.target.to_string(),
            &verified.candidate.dsl,
            &verified.skeleton.to_string(),
        ]);
        if best.get(&key).is_none_or(|known| verified.is_better(known)) {
            best.insert(key, verified);
        }
    }
    let mut articles = Vec::new();
    for (key, verified) in best {
        if let Some(known) = tasks.get(&verified.candidate.task) {
            articles.push(kernel(key, verified, known, store)?);
        }
    }
    Ok(articles)
}

fn sketch_of(store: &(impl Store + ?Sized), candidate: &CandidateRecord) -> Result<Option<String>> {
    let Some(blob) = candidate.sketch else {
        return Ok(None);
    };
    let bytes = store.blob(blob)?;
    Ok(bytes.and_then(|bytes| String::from_utf8(bytes).ok()))
}

fn kernel(key: Digest, verified: Verified, known: &Known, store: &(impl Store + ?Sized)) -> Result<Article> {
    let candidate = verified.candidate;
    let shape = shape_of(&known.task)?;
    let records = store.all::<TuningRecord>(Some(verified.skeleton))?;
    let of_candidate = |record: &&TuningRecord| {
        record.device == candidate.target && record.dsl == candidate.dsl && record.shape == shape
    };
    let tried = records.iter().filter(of_candidate).count();
    Ok(Article {
        card: Card {
            key,
            kind: Kind::Kernel,
            name: candidate.name,
            // The sketch is one of every DSL, and its times are one of this device's.
            dsl: None,
            backend: (!candidate.backend.is_empty()).then_some(candidate.backend),
            arch: None,
            problem: Some(known.problem.clone()),
            skeleton: Some(verified.skeleton),
        },
        body: Body::Kernel(KernelBody {
            graph: known.task.graph.to_string(),
            sketch: verified.sketch,
            knobs: candidate.knobs,
            dsl: candidate.dsl,
            device: candidate.device,
            accuracy: verified.verdict.accuracy,
            seconds: verified.seconds,
            speedup: verified.speedup,
            tried,
        }),
        embedding: None,
    })
}

fn fixes(store: &(impl Store + ?Sized), tasks: &BTreeMap<Digest, Known>) -> Result<Vec<Article>> {
    let mut articles = Vec::new();
    for run in store.all::<RunRecord>(None)? {
        let history = History::load(store, run)?;
        for step in history.steps.iter().filter(|step| step.failure.is_some()) {
            if let Some(mended) = mended(&history, step) {
                articles.extend(fix(&history, (step, mended), store, tasks)?);
            }
        }
    }
    Ok(articles)
}

/// The first step with a verified candidate that began with this one, directly or not.
fn mended<'a>(history: &'a History, failed: &StepRecord) -> Option<&'a StepRecord> {
    let mut heirs = BTreeSet::from([failed.number]);
    for step in history.steps.iter().filter(|step| step.number > failed.number) {
        if step.parents.iter().any(|parent| heirs.contains(parent)) {
            if passed(step) {
                return Some(step);
            }
            heirs.insert(step.number);
        }
    }
    None
}

/// The article about a step and what mended it, if the texts of both are kept.
fn fix(
    history: &History,
    (failed, mended): (&StepRecord, &StepRecord),
    store: &(impl Store + ?Sized),
    tasks: &BTreeMap<Digest, Known>,
) -> Result<Option<Article>> {
    let text = |step: &StepRecord| -> Result<Option<String>> {
        let bytes = step.proposal.map(|blob| store.blob(blob)).transpose()?;
        Ok(bytes.flatten().and_then(|bytes| String::from_utf8(bytes).ok()))
    };
    let (Some(before), Some(after), Some(failure)) = (text(failed)?, text(mended)?, failed.failure.clone())
    else {
        return Ok(None);
    };
    let key = StepRecord::key_of(history.run.key, failed.number).to_string();
    // What answers nobody knows which problem cannot be kept from those who are asked about it.
    let Some(known) = tasks.get(&history.run.task) else {
        return Ok(None);
    };
    // Sketches fail in all languages alike.
    let dsl = (failed.role != Designer::NAME).then(|| history.run.dsl.clone());
    Ok(Some(Article {
        card: Card {
            key: Digest::of_parts([Kind::Fix.name(), &key]),
            kind: Kind::Fix,
            name: format!("{} in {}", failure.kind.name(), history.run.name),
            dsl,
            backend: None,
            arch: None,
            problem: Some(known.problem.clone()),
            skeleton: None,
        },
        body: Body::Fix(FixBody {
            before,
            failure,
            after,
            why: mended.why.clone(),
        }),
        embedding: None,
    }))
}
