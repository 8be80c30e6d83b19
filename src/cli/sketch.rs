//! `akg sketch`: the tile program that the rules design.

use std::process::ExitCode;

use akg::{Result, designer};
use clap::Args;

use super::device::DeviceArgs;
use super::progress::Progress;
use super::task::{load, python};
use super::{AlgebraArgs, PythonArgs, TaskArgs};

#[derive(Debug, Args)]
pub(super) struct SketchArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    algebra: AlgebraArgs,
}

impl SketchArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let target = self.device.target()?;
        let progress = Progress::new(false);
        let config = self.python.config();
        let loaded = load(&self.task, None, || python(&config, &progress), &progress)?;
        let (task, rules) = self.algebra.apply(&loaded.task)?;
        let design = designer::design(&task, &target)?;
        progress.done();
        for rule in rules {
            println!("# algebra: {} ({})", rule.name, rule.count);
        }
        print!("{}", design.sketch);
        Ok(ExitCode::SUCCESS)
    }
}
