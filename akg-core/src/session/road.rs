//! One task on one device: what candidates of a session are made of, built by and judged by, and where that is kept.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::plan::{present, shape};
use super::{Attempt, Event, Session};
use crate::coder::CodeContext;
use crate::designer::{Design, DesignContext};
use crate::digest::{Digest, Fields, Fingerprint};
use crate::error::{ErrorKind, Result};
use crate::fixer::{FixContext, Wish};
use crate::graph::Graph;
use crate::source::{Artifact, Knobs, LaunchPlan, ModuleInterface, Source, SourceForm};
use crate::store::{
    BuildRecord, CandidateRecord, Made, RefutationRecord, StoreExt as _, TaskRecord, VerdictRecord, now,
};
use crate::target::Target;
use crate::task::Task;
use crate::trace::Trace;
use crate::verdict::{Failure, JUDGE_VERSION, Verdict};
use crate::verifier::Candidate;

/// One task on one device.
pub(super) struct Road<'a> {
    pub(super) session: &'a Session,
    pub(super) task: &'a Task,
    pub(super) target: &'a Target,
    /// The graph after the rewrites that were proven.
    pub(super) graph: Graph,
    /// What the DSL builds with.
    pub(super) toolchain: String,
    /// Where steps and exchanges are written.
    pub(super) trace: Trace,
    /// Whether something is timed now.
    pub(super) is_timing: AtomicBool,
    task_print: Digest,
    target_print: Digest,
    /// Who judges.
    judge: Digest,
    /// The task as candidates are judged by it, once the first of them is to be built.
    pub(super) prepared: OnceLock<Task>,
}

/// Who judges, and by which rules.
struct Judging(Digest);

impl Fingerprint for Judging {
    fn feed(&self, to: &mut Fields) {
        to.record(
            "judging",
            1,
            &[("version", &JUDGE_VERSION), ("verifier", &self.0)],
        );
    }
}

/// A source and where it is kept.
#[derive(Debug, Clone)]
pub(super) struct Written {
    pub(super) source: Source,
    /// The hash of the text and the launch plan, whatever the knobs.
    pub(super) hash: Digest,
    /// The blob of its JSON.
    blob: Digest,
    /// The key of the candidate.
    pub(super) key: Digest,
    /// Whether the DSL lowered it from a design, so that it has knobs.
    pub(super) lowered: bool,
}

impl<'a> Road<'a> {
    pub(super) fn new(session: &'a Session, task: &'a Task, target: &'a Target) -> Result<Self> {
        let task_print = task.fingerprint()?;
        if session.store.load::<TaskRecord>(task_print)?.is_none() {
            session.store.save(&TaskRecord {
                key: task_print,
                name: task.name.clone(),
                graph: session.store.put_blob(task.graph.to_json()?.as_bytes())?,
                contract: task.contract.clone(),
                at: now(),
            })?;
        }
        Ok(Self {
            session,
            task,
            target,
            graph: task.graph.clone(),
            toolchain: session.dsl.toolchain(target)?,
            trace: Trace::default(),
            is_timing: AtomicBool::new(false),
            task_print,
            target_print: target.fingerprint(),
            judge: Digest::of_fields(&Judging(session.verifier.identity())),
            prepared: OnceLock::new(),
        })
    }

    /// The same road for what is designed from another form of the task's graph.
    pub(super) fn with_graph(mut self, graph: Graph) -> Self {
        self.graph = graph;
        self
    }

    /// The same road, whose steps are written down.
    pub(super) fn with_trace(mut self, trace: Trace) -> Self {
        self.trace = trace;
        self
    }

    /// The same road, on which candidates are judged by what was prepared already.
    pub(super) fn with_prepared(mut self, prepared: Option<Task>) -> Self {
        self.prepared = prepared.map(OnceLock::from).unwrap_or_default();
        self
    }

    /// What a designer is shown first.
    pub(super) fn design_context(&self) -> DesignContext {
        let task = self.task.with_graph(self.graph.clone());
        DesignContext {
            trace: self.trace.clone(),
            ..DesignContext::new(task, self.target.clone())
        }
    }

    /// What the fixer makes of a source, if it knows anything.
    pub(super) async fn ask_fixer(
        &self,
        trace: Trace,
        source: Source,
        wish: Wish,
        earlier: Vec<Failure>,
    ) -> Result<Option<Source>> {
        let context = FixContext {
            task: self.task.clone(),
            dsl: self.session.dsl.clone(),
            target: self.target.clone(),
            source,
            wish,
            earlier,
            trace,
        };
        match self.session.fixer.step(&context).await {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
            other => other,
        }
    }

    /// Writes the source for a configuration; the inner error says that it is not one of the task.
    pub(super) async fn write(
        &self,
        design: &Design,
        knobs: &Knobs,
    ) -> Result<(Written, Result<(), Failure>)> {
        let context = CodeContext {
            task: self.task.clone(),
            sketch: design.sketch.clone(),
            knobs: knobs.clone(),
            dsl: self.session.dsl.clone(),
            target: self.target.clone(),
            trace: self.trace.clone(),
        };
        let source = self.session.coder.step(&context).await?;
        // What somebody wrote has no knobs; what is lowered has none if its design has none.
        let lower = || self.session.dsl.lower(&design.sketch, knobs, self.target);
        if source.knobs.is_empty() && !lower().is_ok_and(|lowered| lowered.text == source.text) {
            return self.admit(source);
        }
        let text = design.sketch.to_string();
        let sketch = self.session.store.put_blob(text.as_bytes())?;
        let (written, presented) =
            self.present(source, Some(sketch), |plan| present(plan, self.task, design))?;
        let lowered = true;
        Ok((Written { lowered, ..written }, presented))
    }

    /// Takes a source that somebody wrote; the inner error says that it is not one of the task.
    pub(super) fn admit(&self, source: Source) -> Result<(Written, Result<(), Failure>)> {
        self.present(source, None, |plan| shape(plan, self.task))
    }

    fn present(
        &self,
        mut source: Source,
        sketch: Option<Digest>,
        present: impl FnOnce(&mut LaunchPlan) -> Result<(), Failure>,
    ) -> Result<(Written, Result<(), Failure>)> {
        let presented = match &mut source.form {
            SourceForm::Lowered { plan } => present(plan),
            SourceForm::Module { .. } => Ok(()),
        };
        Ok((self.keep_of(source, sketch)?, presented))
    }

    /// Keeps a source as a candidate.
    pub(super) fn keep(&self, source: Source) -> Result<Written> {
        self.keep_of(source, None)
    }

    /// Keeps a source as a candidate, with the blob of the sketch that it was lowered from.
    fn keep_of(&self, mut source: Source, sketch: Option<Digest>) -> Result<Written> {
        if let SourceForm::Module { interface } = &mut source.form {
            *interface = ModuleInterface::of(&self.task.graph);
        }
        let store = &self.session.store;
        let blob = store.put_value(&source)?;
        let hash = source.fingerprint();
        let key = Digest::of_parts([
            self.task_print.to_string().as_str(),
            hash.to_string().as_str(),
            self.session.dsl.name(),
            &self.toolchain,
            self.target_print.to_string().as_str(),
        ]);
        if store.load::<CandidateRecord>(key)?.is_none() {
            store.save(&CandidateRecord {
                key,
                task: self.task_print,
                name: self.task.name.clone(),
                source: blob,
                sketch,
                dsl: self.session.dsl.name().to_owned(),
                knobs: source.knobs.clone(),
                target: self.target_print,
                backend: self.target.backend.clone(),
                device: self.target.name.clone(),
                toolchain: self.toolchain.clone(),
                at: now(),
            })?;
        }
        Ok(Written {
            source,
            hash,
            blob,
            key,
            lowered: false,
        })
    }

    /// Builds a source, unless the store has what was built of it.
    pub(super) fn build(&self, written: &Written) -> Result<Result<Artifact, Failure>> {
        let store = &self.session.store;
        let key = Digest::of_parts([
            written.hash.to_string().as_str(),
            self.session.dsl.name(),
            &self.toolchain,
            self.target_print.to_string().as_str(),
        ]);
        match store.load::<BuildRecord>(key)?.map(|record| record.made) {
            Some(Made::Nothing(failure)) => return Ok(Err(failure)),
            Some(Made::Artifact(blob)) => {
                // One that is lost or damaged is built again, which heals the store.
                if let Ok(Some(artifact)) = store.value(blob) {
                    return Ok(Ok(artifact));
                }
            }
            None => {}
        }
        let built = self.session.dsl.build(&written.source, self.target)?;
        let made = match &built {
            Ok(artifact) => Made::Artifact(store.put_value(artifact)?),
            Err(failure) => Made::Nothing(failure.clone()),
        };
        store.save(&BuildRecord {
            key,
            source: written.blob,
            toolchain: self.toolchain.clone(),
            made,
            at: now(),
        })?;
        Ok(built)
    }

    /// The verdict that the store has about a candidate, or its failure since then; and the seconds that the verdict took. Those of
    /// other versions of the judge are not among them: such candidates are judged again.
    pub(super) fn recalled(&self, candidate: Digest) -> Result<Option<(Verdict, f64)>> {
        let key = VerdictRecord::key_of(candidate, self.judge);
        let store = &self.session.store;
        let judged = store.load::<VerdictRecord>(key)?;
        let judged = judged.map(|record| (record.verdict, record.seconds));
        Ok(match store.load::<RefutationRecord>(key)? {
            Some(RefutationRecord { failure, .. }) => {
                let unjudged = || (Verdict::new(self.task.contract.accuracy), 0.0);
                let (verdict, seconds) = judged.unwrap_or_else(unjudged);
                let failure = Some(failure);
                Some((Verdict { failure, ..verdict }, seconds))
            }
            None => judged,
        })
    }

    /// Keeps a verdict.
    fn settle(&self, candidate: Digest, verdict: &Verdict, seconds: f64) -> Result<()> {
        self.session.store.save(&VerdictRecord {
            candidate,
            judge: self.judge,
            verdict: verdict.clone(),
            seconds,
            at: now(),
        })
    }

    /// Keeps the failure of a candidate that was not judged, or that had passed until then.
    pub(super) fn fail(&self, candidate: Digest, failure: &Failure) -> Result<()> {
        self.session.store.save(&RefutationRecord {
            candidate,
            judge: self.judge,
            failure: failure.clone(),
            at: now(),
        })
    }

    /// An attempt that failed before it was built.
    pub(super) fn rejected(&self, written: Written, failure: Failure) -> Result<Attempt> {
        let recalled = self.recalled(written.key)?.is_some();
        if !recalled {
            self.fail(written.key, &failure)?;
        }
        let verdict = Verdict::failed(self.task.contract.accuracy, failure);
        Ok(self.attempt(written, verdict, 0.0, recalled))
    }

    /// Builds and judges a candidate, unless the store has the verdict.
    pub(super) async fn judge(&self, written: Written) -> Result<Attempt> {
        if let Some((verdict, seconds)) = self.recalled(written.key)? {
            return Ok(self.attempt(written, verdict, seconds, true));
        }
        let session = self.session;
        let began = Instant::now();
        let task = self.prepared()?;
        let (written, verdict) = match self.build(&written)? {
            Err(failure) => (written, Verdict::failed(self.task.contract.accuracy, failure)),
            Ok(artifact) => {
                session.observer.event(Event::Built(began.elapsed()));
                let candidate = Candidate {
                    source: written.source,
                    artifact,
                };
                let verdict = session
                    .verifier
                    .verify(&candidate, task, self.target, &*session.backend)
                    .await?;
                let source = candidate.source;
                (Written { source, ..written }, verdict)
            }
        };
        let seconds = began.elapsed().as_secs_f64();
        if verdict
            .failure
            .as_ref()
            .is_none_or(|failure| failure.kind.blames_candidate())
        {
            self.settle(written.key, &verdict, seconds)?;
        }
        Ok(self.attempt(written, verdict, seconds, false))
    }

    /// The task to judge by.
    fn prepared(&self) -> Result<&Task> {
        if let Some(task) = self.prepared.get() {
            return Ok(task);
        }
        let task = self.session.verifier.prepare(self.task)?;
        Ok(self.prepared.get_or_init(|| task))
    }

    fn attempt(&self, written: Written, verdict: Verdict, verdict_seconds: f64, recalled: bool) -> Attempt {
        self.session.observer.event(Event::Judged(&verdict));
        Attempt {
            key: written.key,
            source: written.source,
            verdict,
            verdict_seconds,
            recalled,
            timing: None,
            timed_at: None,
            rivals: serde_json::Value::Null,
        }
    }
}
