//! `akg export`: a bundle as a PyTorch module or as C files, a task as the stub of a hand-written kernel.

use std::path::PathBuf;
use std::process::ExitCode;

use akg::Result;
use akg::source::{Knobs, Launch, LaunchPlan, PlanTensor, Source, SourceForm};
use clap::Args;

use super::bundle;
use super::progress::Progress;
use super::task::{load, memory_budget, python};
use super::{ContractArgs, PythonArgs, TargetArgs, TaskArgs};

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// A bundle, for the forms `modelnew` and `c`.
    #[arg(conflicts_with = "task")]
    bundle: Option<PathBuf>,
    /// A KernelBench-form `.py`, a graph `.json`, or `builtin:NAME`, for the form `stub`.
    #[arg(long, required_unless_present = "bundle")]
    task: Option<String>,
    /// The form: `modelnew` is a Python file with a class `ModelNew`, `c` a C header and a C++ source that compile into any
    /// program, `stub` the entry signature and launch header that `akg verify` accepts.
    #[arg(long, default_value = "stub")]
    form: String,
    /// The file for `modelnew` (standard output by default), or the directory for `c` (the current one by default).
    #[arg(long, value_name = "PATH")]
    out: Option<PathBuf>,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    python: PythonArgs,
}

impl ExportArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        if let Some(bundle) = &self.bundle {
            bundle::export(bundle, &self.form, self.out.as_deref())?;
            return Ok(ExitCode::SUCCESS);
        }
        let progress = Progress::new(false);
        let args = TaskArgs {
            task: self.task.unwrap_or_default(),
            contract: ContractArgs {
                accuracy: akg::Accuracy::Fp32,
                ..ContractArgs::default()
            },
        };
        let config = self.python.config();
        let loaded = load(&args, memory_budget(), || python(&config, &progress), &progress)?;
        let graph = &loaded.task.graph;
        let tensors = PlanTensor::of(graph);
        let launch = Launch {
            kernel: "kernel".to_owned(),
            grid: vec![1.into()],
            tensors: (0..tensors.len()).collect(),
            cooperative: false,
            doc: loaded.task.name.clone(),
        };
        let plan = LaunchPlan {
            dims: graph.symbols().into_iter().collect(),
            tensors,
            launches: vec![launch],
        };
        let source = Source {
            dsl: self.target.dsl.clone(),
            text: String::new(),
            form: SourceForm::Lowered { plan },
            knobs: Knobs::new(),
        };
        let text = akg::registry()
            .dsl(&self.target.dsl)?
            .export(&source, &self.form)?;
        progress.done();
        super::print::verbatim(&text);
        Ok(ExitCode::SUCCESS)
    }
}
