//! `akg task`: from somebody's code or words to a task.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use akg::error::ErrorKind;
use akg::file::read_text;
use akg::llm::Models;
use akg::python::{ImportOptions, Seeds, SharedPython, lock};
use akg::task_builder::{BuildContext, ModelTaskBuilder, ModuleTrial, RuleTaskBuilder, TaskBuilder};
use akg::trace::Trace;
use akg::{Agent, Error, Result, Role as _, blocking};
use clap::Args;

use super::PythonArgs;
use super::progress::Progress;
use super::run::write;
use super::task::python;

#[derive(Debug, Args)]
pub(super) struct BuildTaskArgs {
    /// A file with PyTorch code, or with a description in words. Code that is a task already needs no model.
    request: PathBuf,
    /// Write the module to this file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    #[command(flatten)]
    python: PythonArgs,
}

impl BuildTaskArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let progress = Progress::new(false);
        let path = &self.request;
        let request = read_text(path)?;
        let context = BuildContext {
            request,
            trial: Arc::new(Trial {
                python: python(&self.python.config(), &progress)?,
                beside: self.out.clone(),
            }),
            trace: Trace::default(),
        };
        progress.step("running the request");
        let module = match blocking::step(&RuleTaskBuilder, &context) {
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                progress.step("asking a model");
                let model = Models::from_env()?.role(TaskBuilder::NAME)?;
                let builder: Arc<dyn Agent<TaskBuilder>> = Arc::new(ModelTaskBuilder::new(model)?);
                blocking::step(&builder, &context)?
            }
            other => other?,
        };
        write(&self.out, &module)?;
        progress.done();
        println!("{}: a task; `akg run {0}` makes its kernels", self.out.display());
        Ok(ExitCode::SUCCESS)
    }
}

/// Runs modules in akg's Python.
#[derive(Debug)]
struct Trial {
    python: SharedPython,
    /// Where the module is to be.
    beside: PathBuf,
}

impl ModuleTrial for Trial {
    /// Traces the module, and makes its weights and inputs.
    fn run(&self, module: &str) -> Result<Result<(), String>> {
        let file = self.beside.with_extension("trial.py");
        write(&file, module)?;
        let ran = self.import(&file);
        std::fs::remove_file(&file).map_err(|e| Error::io(format!("cannot remove {}", file.display()), e))?;
        match ran {
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
                Ok(Err(error.to_string()))
            }
            other => other.map(Ok),
        }
    }
}

impl Trial {
    fn import(&self, file: &Path) -> Result<()> {
        let mut python = lock(&self.python);
        let imported = python.import(file, &ImportOptions::default(), &mut |_| {})?;
        let seeds = Seeds {
            weights: 0,
            inputs: 0,
        };
        python.materialize(&imported, seeds).map(|_| ())
    }
}
