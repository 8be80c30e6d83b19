//! `akg build`: a kernel for a device, which need not be here, from task to machine code.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use akg::designer::{self, Design};
use akg::{Dsl, Error, Result, Target, Task};
use clap::Args;

use super::device::DeviceArgs;
use super::progress::Progress;
use super::run::write;
use super::task::{load, python};
use super::{PythonArgs, TaskArgs};

/// Configurations that are tried until the compiler takes one.
const MOST_POINTS: usize = 3;

#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    device: DeviceArgs,
    /// The kernel language.
    #[arg(long, default_value = "cpp")]
    dsl: String,
    /// Directory for the sketch, the source and the artifact.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl BuildArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let target = self.device.target()?;
        let dsl = akg::registry().dsl(&self.dsl)?;
        let progress = Progress::new(false);
        let config = self.python.config();
        let loaded = load(&self.task, None, || python(&config, &progress), &progress)?;
        let design = designer::design(&loaded.task, &target)?;
        progress.step("building");
        let built = build(&design, &loaded.task, &*dsl, &target, self.out.as_deref());
        progress.done();
        built
    }
}

/// Builds a design for a device at the first knob values that the compiler takes, and writes what was made to a directory.
pub(super) fn build(
    design: &Design,
    task: &Task,
    dsl: &dyn Dsl,
    target: &Target,
    out: Option<&Path>,
) -> Result<ExitCode> {
    if let Some(out) = out {
        std::fs::create_dir_all(out).map_err(|e| Error::io(format!("cannot create {}", out.display()), e))?;
        write(&out.join("kernel.sketch"), &design.sketch.to_string())?;
    }
    let mut refused = Vec::new();
    let mut artifact = None;
    for knobs in design.points(&task.contract.hints).take(MOST_POINTS) {
        let source = dsl.lower(&design.sketch, &knobs, target)?;
        if let Some(out) = out {
            write(&out.join(format!("kernel.{}", dsl.name())), &source.text)?;
        }
        match dsl.build(&source, target)? {
            Ok(built) => {
                artifact = Some(built);
                break;
            }
            Err(failure) => refused.push(failure),
        }
    }
    for failure in &refused {
        eprintln!("{}: {}", failure.kind.name(), failure.evidence);
    }
    let Some(artifact) = artifact else {
        return Ok(ExitCode::from(1));
    };
    for (what, report) in &artifact.metadata {
        println!("{what}: {report}");
    }
    if let Some(out) = out {
        let text = serde_json::to_string(&artifact)
            .map_err(|e| Error::unexpected("cannot write an artifact").caused_by(e))?;
        write(&out.join("artifact.json"), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}
