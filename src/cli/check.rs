//! `akg check`: diagnostics for a sketch, a graph or a kernel source.

use std::path::PathBuf;
use std::process::ExitCode;

use akg::diagnostic::{Diagnostics, Severity};
use akg::expr::Bindings;
use akg::file::read_text;
use akg::sketch::validate;
use akg::{Graph, Result, Sketch};
use clap::Args;

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// A `.sketch`, a graph `.json`, or a source in the form that `akg export --form stub` prints.
    file: PathBuf,
    /// The kernel language of a source.
    #[arg(long, default_value = "cpp")]
    dsl: String,
}

impl CheckArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let text = read_text(&self.file)?;
        let extension = self
            .file
            .extension()
            .map(|e| e.to_string_lossy().into_owned())
            .unwrap_or_default();
        let found = match extension.as_str() {
            "sketch" => check_sketch(&text),
            "json" => {
                let graph = Graph::from_json(&text).and_then(|g| g.validate().map(|()| g));
                let graph = graph.map_err(|e| e.with("file", self.file.display()))?;
                println!("{graph}");
                Diagnostics::default()
            }
            _ => {
                let dsl = akg::registry().dsl(&self.dsl)?;
                let source = dsl
                    .parse(&text)
                    .map_err(|e| e.with("file", self.file.display()))?;
                dsl.check(&source).into_iter().collect()
            }
        };
        eprint!("{}", found.render(&text));
        let errors = found.iter().filter(|d| d.severity == Severity::Error).count();
        if errors == 0 {
            println!("{}: ok", self.file.display());
            return Ok(ExitCode::SUCCESS);
        }
        println!(
            "{}: {errors} error{}",
            self.file.display(),
            if errors == 1 { "" } else { "s" }
        );
        Ok(ExitCode::from(1))
    }
}

/// Parses, elaborates with the default knobs, and validates.
fn check_sketch(text: &str) -> Diagnostics {
    let program = Sketch::parse(text).and_then(|s| s.elaborate(&s.default_knobs(), &Bindings::new()));
    match program {
        Ok(program) => validate(&program, None).into_iter().collect(),
        Err(diagnostics) => diagnostics,
    }
}
