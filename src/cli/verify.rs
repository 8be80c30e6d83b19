//! `akg verify`: a hand-written source meets the same judge as akg's own, and a bundle meets it again.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use akg::file::read_text;
use akg::source::SourceForm;
use akg::sqlite::SqliteStore;
use akg::{Error, Result, blocking};
use clap::Args;

use super::baseline::baselines;
use super::bundle;
use super::progress::Progress;
use super::report::{AttemptReport, Report, TaskReport};
use super::run::{finish, prepare, session, write};
use super::task::{load, memory_budget, python};
use super::{ContractArgs, JudgeArgs, PythonArgs, ReportArgs, SizeArgs, TargetArgs, TaskArgs};

#[derive(Debug, Args)]
pub(super) struct VerifyArgs {
    /// The source, in the form that `akg export --form stub` prints; or a bundle.
    source: PathBuf,
    /// The task that a source claims to compute: a KernelBench-form `.py`, a graph `.json`, or `builtin:NAME`. A bundle
    /// has its own.
    #[arg(long)]
    task: Option<String>,
    #[command(flatten)]
    contract: ContractArgs,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    judge: JudgeArgs,
    /// Keep what is found out about a source in this store, and take from there what is known. By default everything is
    /// done anew, as always for a bundle.
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    #[command(flatten)]
    report: ReportArgs,
}

impl VerifyArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let progress = Progress::new(self.report.json);
        let task = TaskReport {
            source: self.task.clone().unwrap_or_default(),
            accuracy: self.contract.accuracy,
            ..Default::default()
        };
        let mut report = Report::new(task, &self.target.dsl, &self.target.backend);
        let result = if !bundle::is_bundle(&self.source) {
            self.judge(&mut report, &progress)
        } else if self.store.is_some() {
            Err(Error::invalid(
                "a bundle is always judged anew; leave out --store",
            ))
        } else if let Some(option) = self.contract.beyond_a_bundle() {
            Err(Error::invalid(format!(
                "a bundle is judged by its own contract; leave out {option}"
            )))
        } else {
            bundle::verify(&self.source, &self.judge, &mut report, &progress)
        };
        finish(result, &report, &self.report, &progress)
    }

    fn judge(&self, report: &mut Report, progress: &Progress) -> Result<()> {
        let Some(task) = &self.task else {
            return Err(Error::invalid(
                "say which task the source claims to compute, with --task",
            ));
        };
        let text = read_text(&self.source)?;
        let source = akg::registry()
            .dsl(&self.target.dsl)?
            .parse(&text)
            .map_err(|e| e.with("file", self.source.display()))?;
        self.judge.demand_isolation()?;
        let kind = self.target.find()?;
        self.judge.demand_sanitizers(&*kind.1)?;
        let out = prepare(self.report.out.as_deref())?;
        let args = TaskArgs {
            task: task.clone(),
            contract: self.contract.clone(),
        };
        let config = self.python.config();
        let memory = self.size.memory.or_else(memory_budget);
        let loaded = load(&args, memory, || python(&config, progress), progress)?;
        report.task = loaded.describe(task);
        if let SourceForm::Lowered { plan } = &source.form {
            report.kernels = plan
                .launches
                .iter()
                .map(|l| akg::designer::KernelSummary {
                    name: l.kernel.clone(),
                    rule: String::new(),
                    operators: vec![l.doc.clone()],
                })
                .collect();
        }
        let mut session = session(kind, &self.judge, &config, &loaded, progress, |_| {});
        if let Some(store) = &self.store {
            session = session.with_store(Arc::new(SqliteStore::open(store)?));
        }
        progress.step("building");
        let (attempt, target) = blocking::judge(&session, source, &loaded.task)?;
        report.device = Some(target.name.clone());
        report.attempts = vec![AttemptReport::of(&attempt)];
        if let Some(out) = &out {
            write(&out.join("task.json"), &loaded.task.graph.to_json()?)?;
            write(&out.join(format!("kernel.{}", self.target.dsl)), &text)?;
        }
        report.add_attempt(&attempt);
        report.baselines = baselines(&attempt);
        Ok(())
    }
}
