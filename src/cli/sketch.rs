//! `akg sketch`: the tile program that the rules design.

use std::process::ExitCode;

use akg::{Result, designer};
use clap::Args;

use super::TaskArgs;
use super::progress::Progress;
use super::task::load;

#[derive(Debug, Args)]
pub(super) struct SketchArgs {
    #[command(flatten)]
    task: TaskArgs,
}

impl SketchArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let progress = Progress::new(false);
        let loaded = load(&self.task, None, &progress)?;
        let design = designer::design(&loaded.task.graph)?;
        progress.done();
        print!("{}", design.sketch);
        Ok(ExitCode::SUCCESS)
    }
}
