//! `akg migrate`: a kernel in another language, or for another device.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use akg::designer::{DesignContext, SketchDesigner};
use akg::file::read_text;
use akg::lift::Language;
use akg::{Accuracy, Backend, Dsl, Error, Graph, Result, Session, Sketch, Target, Task, blocking};
use clap::{Args, ValueEnum};

use super::agent::AgentArgs;
use super::build::build;
use super::bundle;
use super::device;
use super::lift::{Lifted, Lifting};
use super::progress::Progress;
use super::report::{Report, TaskReport, describe};
use super::run::{CONTRACT, conclude, finish, prepare, session, tuning};
use super::store::MemoryArgs;
use super::symbols::Hint;
use super::task::{Loaded, load, python};
use super::{ContractArgs, JudgeArgs, PythonArgs, ReportArgs, TaskArgs, parse_duration};

#[derive(Debug, Args)]
pub(super) struct MigrateArgs {
    /// What to migrate: a `.sketch`, a bundle, the directory of `akg run --out`; or a kernel that somebody wrote in C++, CUDA C++, Triton or
    /// PyTorch.
    source: PathBuf,
    /// The language of the source, where its name does not say.
    #[arg(long, value_enum)]
    from: Option<Origin>,
    /// The kernel language to migrate to.
    #[arg(long, value_name = "DSL")]
    to: String,
    /// The backend of the device to migrate to; by default the first that the language is written for.
    #[arg(long)]
    backend: Option<String>,
    /// Migrate to the device that this JSON file describes, which need not be here: what is made is built, and neither executed nor
    /// judged. The repository has some in `examples/devices`.
    #[arg(long, value_name = "FILE")]
    device: Option<PathBuf>,
    /// What a foreign kernel takes and gives, and how it is called; by default the `.json` beside it. See docs/migrate.md.
    #[arg(long, value_name = "FILE")]
    interface: Option<PathBuf>,
    /// The task that a `.sketch` computes: a KernelBench-form `.py`, a graph `.json`, or `builtin:NAME`.
    #[arg(long)]
    task: Option<String>,
    /// Accuracy class: fp32, tf32 or half. A bundle and a run have their own.
    #[arg(long)]
    accuracy: Option<Accuracy>,
    /// The value for which an open extent of a task is tuned, as in N=64, or with the values that it may have, as in
    /// N=64:1..4096.
    #[arg(long, value_name = "NAME=VALUE")]
    hint: Vec<Hint>,
    /// Wall time in which other knob values are tried after the first kernel that passed; 0 leaves that out.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    tune: Duration,
    #[command(flatten)]
    agent: AgentArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    judge: JudgeArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    #[command(flatten)]
    report: ReportArgs,
    /// Write the best kernel with everything that is needed to run it to this file; see docs/bundle.md.
    #[arg(long, value_name = "FILE")]
    bundle: Option<PathBuf>,
}

/// What a source is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Origin {
    /// A sketch, a bundle or a run of akg's.
    Akg,
    Cpp,
    Cuda,
    Triton,
    Pytorch,
}

impl Origin {
    /// The foreign language, unless it is akg's own.
    fn foreign(self) -> Option<Language> {
        match self {
            Origin::Akg => None,
            Origin::Cpp => Some(Language::Cpp),
            Origin::Cuda => Some(Language::Cuda),
            Origin::Triton => Some(Language::Triton),
            Origin::Pytorch => Some(Language::PyTorch),
        }
    }

    /// By the file's name, and for Python by what is in it.
    fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
        Ok(match extension {
            "cu" | "cuh" => Origin::Cuda,
            "cpp" | "cc" | "cxx" | "c" => Origin::Cpp,
            "py" if read_text(path)?.contains("triton.jit") => Origin::Triton,
            "py" => Origin::Pytorch,
            _ => Origin::Akg,
        })
    }
}

/// A task that no module has.
pub(super) fn of(task: Task) -> Loaded {
    Loaded {
        task,
        module: None,
        python: None,
    }
}

/// Where a kernel goes.
struct Destination {
    dsl: Arc<dyn Dsl>,
    backend: Arc<dyn Backend>,
    target: Target,
}

impl MigrateArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let progress = Progress::new(self.report.json);
        let destination = self.destination()?;
        if self.device.is_some() {
            let (loaded, sketch, _) = self.source(&destination.target, &progress)?;
            progress.step("building");
            let context = DesignContext::new(loaded.task.clone(), destination.target.clone());
            let design = SketchDesigner::new(sketch).design(&context)?;
            let built = build(
                &design,
                &loaded.task,
                &*destination.dsl,
                &destination.target,
                self.report.out.as_deref(),
            );
            progress.done();
            return built;
        }
        let empty = TaskReport {
            source: self.source.display().to_string(),
            accuracy: self.accuracy.unwrap_or_default(),
            ..Default::default()
        };
        let mut report = Report::new(empty, &self.to, destination.backend.name());
        let result = self.road(destination, &mut report, &progress);
        finish(result, &report, &self.report, &progress)
    }

    fn destination(&self) -> Result<Destination> {
        let registry = akg::registry();
        let dsl = registry.dsl(&self.to)?;
        let first = || dsl.capability().backends.first().cloned();
        let name = self.backend.clone().or_else(first).unwrap_or_default();
        let target = device::target(&name, self.device.as_deref())?;
        let backend = registry.backend(&name)?;
        Ok(Destination { dsl, backend, target })
    }

    /// Judges, tunes and times on the device.
    fn road(&self, destination: Destination, report: &mut Report, progress: &Progress) -> Result<()> {
        self.judge.demand_isolation()?;
        self.judge.demand_sanitizers(&*destination.backend)?;
        let out = prepare(self.report.out.as_deref())?;
        let store = self.memory.open()?.store;
        let (loaded, sketch, models) = self.source(&destination.target, progress)?;
        report.models = models.map(|models| models.account().spent());
        report.task = describe(&loaded.task, &self.source.display().to_string());
        let config = self.python.config();
        let kind = (destination.dsl, destination.backend);
        let session: Session = session(kind, &self.judge, &config, &loaded, progress, |_| {})
            .with_designer(SketchDesigner::new(sketch))
            .with_tuning(tuning(self.tune))
            .with_store(store)
            .with_retry(self.memory.retry);
        let outcome = blocking::run(&session, &loaded.task)?;
        if let Some(path) = &self.bundle {
            bundle::save(path, &session, &loaded, &outcome)?;
        }
        conclude(report, &loaded, &outcome, out.as_deref())
    }

    /// The source as a task and a sketch of it.
    fn source(&self, target: &Target, progress: &Progress) -> Result<Lifted> {
        let from = match self.from {
            Some(from) => from,
            None => Origin::of(&self.source)?,
        };
        if let Some(language) = from.foreign() {
            let lifting = Lifting {
                path: &self.source,
                language,
                interface: self.interface.as_deref(),
                accuracy: self.accuracy.unwrap_or_default(),
                agent: &self.agent,
                python: self.python.config(),
                limits: self.judge.limits(),
                target,
                progress,
            };
            return lifting.lift();
        }
        let (loaded, text) = self.own(progress)?;
        let sketch = Sketch::parse(&text).map_err(|found| {
            Error::invalid(format!(
                "the sketch cannot be read\n{}",
                found.render(&text).trim_end()
            ))
        })?;
        Ok((loaded, sketch, None))
    }

    /// What akg made: a task and the text of its sketch.
    fn own(&self, progress: &Progress) -> Result<(Loaded, String)> {
        let path = &self.source;
        if path.is_dir() {
            let at = |name: &str| path.join(name);
            let graph =
                Graph::from_json(&read_text(at("task.json"))?).map_err(|e| e.with("run", path.display()))?;
            let mut task = Task::new(graph.name().to_owned(), graph);
            task.contract = serde_json::from_str(&read_text(at(CONTRACT))?)
                .map_err(|e| Error::invalid("the contract of the run is damaged").caused_by(e))?;
            return Ok((of(task), read_text(at("kernel.sketch"))?));
        }
        if bundle::is_bundle(path) {
            let bundle = akg::Bundle::read(path)?;
            if bundle.sketch().is_empty() {
                return Err(Error::unsupported(
                    "the bundle has no sketch: its kernel was written by hand",
                ));
            }
            return Ok((of(bundle.task()), bundle.sketch().to_owned()));
        }
        let Some(task) = &self.task else {
            return Err(Error::invalid("say which task the sketch computes, with --task"));
        };
        let args = TaskArgs {
            task: task.clone(),
            contract: ContractArgs {
                accuracy: self.accuracy.unwrap_or_default(),
                hint: self.hint.clone(),
                ..ContractArgs::default()
            },
        };
        let config = self.python.config();
        let loaded = load(&args, None, || python(&config, progress), progress)?;
        Ok((loaded, read_text(path)?))
    }
}
