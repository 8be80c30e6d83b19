//! `akg show`: what an earlier run found, or what a bundle holds.

use std::path::PathBuf;
use std::process::ExitCode;

use akg::Result;
use akg::file::read_text;
use clap::Args;

use super::bundle;
use super::report::Report;
use super::run::REPORT;

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The directory given to `--out`, a report.json, or a bundle.
    run: PathBuf,
    /// Also print the sketch and the best source.
    #[arg(long)]
    sources: bool,
}

impl ShowArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        if bundle::is_bundle(&self.run) {
            bundle::show(&self.run, self.sources)?;
            return Ok(ExitCode::SUCCESS);
        }
        let directory = if self.run.is_dir() {
            self.run.clone()
        } else {
            self.run.with_file_name("")
        };
        let file = if self.run.is_dir() {
            self.run.join(REPORT)
        } else {
            self.run.clone()
        };
        let report = Report::read(&file)?;
        report.print();
        for (i, attempt) in report.attempts.iter().enumerate() {
            let knobs: Vec<_> = attempt.knobs.iter().map(|(k, v)| format!("{k} = {v}")).collect();
            println!("  candidate {i}: {} [{}]", attempt.status, knobs.join(", "));
        }
        if self.sources {
            for name in ["kernel.sketch".to_owned(), format!("kernel.{}", report.dsl)] {
                if let Ok(text) = read_text(directory.join(&name)) {
                    println!("\n--- {name}\n{text}");
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
