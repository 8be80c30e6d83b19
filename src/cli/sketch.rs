//! `akg sketch`: the tile program that the rules design.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use akg::error::ErrorKind;
use akg::{Error, Result, Target, blocking, designer};
use clap::Args;

use super::progress::Progress;
use super::task::{load, python};
use super::{PythonArgs, TaskArgs};

#[derive(Debug, Args)]
pub(super) struct SketchArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    python: PythonArgs,
    /// The device's backend.
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// Design for the device that this JSON file describes, instead of the first one that the backend finds.
    #[arg(long, value_name = "FILE")]
    device: Option<PathBuf>,
}

impl SketchArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let progress = Progress::new(false);
        let config = self.python.config();
        let loaded = load(&self.task, None, || python(&config, &progress), &progress)?;
        let target = match &self.device {
            Some(path) => described(path)?,
            None => self.found()?,
        };
        let design = designer::design(&loaded.task, &target)?;
        progress.done();
        print!("{}", design.sketch);
        Ok(ExitCode::SUCCESS)
    }

    /// The first device of the backend.
    fn found(&self) -> Result<Target> {
        let devices = blocking::devices(&*akg::registry().backend(&self.backend)?)?;
        devices.into_iter().next().ok_or_else(|| {
            let message = format!(
                "backend `{}` finds no device; describe one with --device",
                self.backend
            );
            Error::new(ErrorKind::NotFound, message)
        })
    }
}

fn described(path: &Path) -> Result<Target> {
    let at = |e: &dyn std::fmt::Display| Error::invalid(format!("the device in {}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| at(&e))?;
    serde_json::from_str(&text).map_err(|e| at(&e))
}
