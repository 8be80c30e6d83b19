//! `akg sketch`: the tile program that the rules design.

use std::process::ExitCode;

use akg::designer::{self, Design};
use akg::expr::Bindings;
use akg::sketch::{self, Cost};
use akg::source::sketch_knobs;
use akg::{Error, Result, Target};
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
    /// Print what each kernel is estimated to cost instead of the text: its programs, bytes, operations and time.
    #[arg(long)]
    cost: bool,
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
        if self.cost {
            println!("{}", estimate(&design, &task.contract.hints, &target)?);
        } else {
            print!("{}", design.sketch);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The cost of a design with the knob values that are tried first.
fn estimate(design: &Design, hints: &Bindings, target: &Target) -> Result<Cost> {
    let first = design.points(hints).next().ok_or_else(|| {
        Error::unsupported("no knob values of this sketch are legal at the extents for which it is tuned")
    })?;
    let program = design.sketch.elaborate(&sketch_knobs(&first), hints)?;
    sketch::cost(&program, hints, target)
}
