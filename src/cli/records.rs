//! `akg records`: what tuning found, shown and moved between stores.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use akg::file::read_text;
use akg::store::{StoreExt as _, TuningRecord};
use akg::{Error, Result, tuner};
use clap::{Args, Subcommand};

use super::store::StoreArgs;

#[derive(Debug, Args)]
pub(super) struct RecordsArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Writes all tuning records as JSON lines; their form is in docs/tuning.md.
    Export {
        /// The file, or `-` for standard output.
        #[arg(value_name = "FILE")]
        to: PathBuf,
    },
    /// Adds tuning records from JSON lines; of two for the same configuration, the later stays.
    Import {
        /// The file, or `-` for standard input.
        #[arg(value_name = "FILE")]
        from: PathBuf,
    },
    /// Lists the configurations that tuning chose.
    List,
}

impl RecordsArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let store = self.store.open()?;
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        match self.action {
            Action::Export { to } if is_standard(&to) => {
                tuner::export(&store, &mut io::stdout().lock())?;
            }
            Action::Export { to } => {
                let file =
                    File::create(&to).map_err(|e| Error::io(format!("cannot write {}", to.display()), e))?;
                let count = tuner::export(&store, &mut BufWriter::new(file))?;
                println!("{count} record{} in {}", plural(count), to.display());
            }
            Action::Import { from } => {
                let count = if is_standard(&from) {
                    tuner::import(&store, &mut io::stdin().lock())?
                } else {
                    let text = read_text(&from)?;
                    tuner::import(&store, &mut text.as_bytes()).map_err(|e| e.with("file", from.display()))?
                };
                println!("{count} new record{}", plural(count));
            }
            Action::List => list(&store.all(None)?),
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// One line for each chosen configuration.
fn list(records: &[TuningRecord]) {
    for record in records.iter().filter(|r| r.chosen) {
        let knobs: Vec<_> = record.knobs.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        let shape: Vec<_> = record.shape.iter().map(|s| format!("{s:?}")).collect();
        let gain = record.relative.map_or(1.0, |r| 1.0 / r);
        let of_kernel = |r: &&TuningRecord| {
            (r.kernel, &r.shape, r.device, &r.toolchain)
                == (record.kernel, &record.shape, record.device, &record.toolchain)
        };
        let tried = records.iter().filter(of_kernel).count();
        println!(
            "{} {} [{}] {} {gain:.2}x, {tried} tried, {}, {}",
            record.name,
            shape.join(" "),
            knobs.join(", "),
            record.accuracy,
            record.dsl,
            record.device_name,
        );
    }
}
