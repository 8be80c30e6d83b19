//! The language: how it lowers, builds, checks and reads back.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use akg::diagnostic::Diagnostic;
use akg::dsl::{DslCapability, Stage};
use akg::error::ErrorKind;
use akg::expr::Bindings;
use akg::lower::loops::{self, Machine};
use akg::source::{Artifact, Knobs, Launch, LaunchPlan, Source, SourceForm};
use akg::verdict::{Failure, FailureKind};
use akg::{Dsl, Error, Result, Sketch, Target};

use crate::printer::{self, RESERVED};

/// Begins a source's first line, which holds its launch plan as JSON.
const MARKER: &str = "// launch: ";

/// C99 without threads or intrinsics.
#[derive(Debug)]
pub(crate) struct C99 {
    capability: DslCapability,
}

impl Default for C99 {
    fn default() -> Self {
        let mut capability = DslCapability::default();
        capability.backends = vec!["cpu".to_owned()];
        capability.formats = vec!["elf-so".to_owned()];
        capability.exports = vec!["stub".to_owned()];
        capability.lowers = true;
        Self { capability }
    }
}

impl Dsl for C99 {
    fn name(&self) -> &str {
        "c99"
    }

    fn capability(&self) -> &DslCapability {
        &self.capability
    }

    fn lower(&self, sketch: &Sketch, knobs: &Knobs, target: &Target) -> Result<Source> {
        let mut all = sketch.default_knobs();
        all.extend(knobs.clone());
        let program = sketch.elaborate(&all, &Bindings::new())?;
        let kernels = loops::map(&program, Machine::new(target), RESERVED)?;
        let mut text = printer::PRELUDE.to_owned();
        let mut launches = Vec::new();
        for (kernel, mapped) in program.kernels.iter().zip(&kernels) {
            text.push_str(&printer::print(mapped)?);
            launches.push(Launch {
                kernel: mapped.name.clone(),
                grid: kernel.grid.iter().map(|axis| axis.extent.clone()).collect(),
                tensors: mapped.params.iter().map(|p| p.tensor.0).collect(),
                cooperative: kernel.cooperative.is_some(),
                doc: kernel.doc.clone(),
            });
        }
        let plan = LaunchPlan {
            dims: program.dims,
            tensors: program.tensors,
            launches,
        };
        Ok(Source {
            dsl: self.name().to_owned(),
            text,
            form: SourceForm::Lowered { plan },
            knobs: all,
        })
    }

    fn build(&self, source: &Source, _target: &Target) -> Result<Result<Artifact, Failure>> {
        let plan = plan(source)?.clone();
        let directory = tempfile::tempdir().map_err(|e| Error::io("cannot create a directory", e))?;
        let object = directory.path().join("kernel.so");
        let flags = [
            "-O2",
            "-march=native",
            "-shared",
            "-fPIC",
            "-o",
            "kernel.so",
            "-lm",
        ];
        if let Err(output) = compile(directory.path(), &source.text, &flags)? {
            return Ok(Err(Failure::new(FailureKind::CompileFailed, output)));
        }
        let bytes = std::fs::read(object).map_err(|e| Error::io("cannot read the shared object", e))?;
        Ok(Ok(Artifact {
            format: "elf-so".to_owned(),
            bytes,
            plan,
            metadata: BTreeMap::new(),
        }))
    }

    fn toolchain(&self, _target: &Target) -> Result<String> {
        // A compiler that is updated would be named with its version here.
        Ok("cc -O2 -march=native".to_owned())
    }

    fn check(&self, source: &Source) -> Vec<Diagnostic> {
        let directory = match tempfile::tempdir() {
            Ok(directory) => directory,
            Err(error) => return vec![Diagnostic::warning(format!("not checked: {error}"), 0..0)],
        };
        match compile(directory.path(), &source.text, &["-fsyntax-only"]) {
            Ok(Ok(())) => Vec::new(),
            Ok(Err(output)) => output
                .lines()
                .filter_map(|line| diagnostic(line, &source.text))
                .collect(),
            Err(error) => vec![Diagnostic::warning(format!("not checked: {error}"), 0..0)],
        }
    }

    fn guide(&self, _stage: Stage, target: &Target) -> String {
        format!(
            "Write C99 for {}. Each kernel is a function `void NAME(void *const *tensors, const int64_t *dims, int64_t \
             first, int64_t last)` that executes the programs first..last of its grid.",
            target.name
        )
    }

    fn parse(&self, text: &str) -> Result<Source> {
        let line = text.lines().next().and_then(|l| l.strip_prefix(MARKER));
        let json = line.ok_or_else(|| {
            Error::invalid(format!("a C99 source begins with `{MARKER}` and its launch plan"))
        })?;
        let plan = serde_json::from_str(json)
            .map_err(|e| Error::invalid("the launch plan is malformed").caused_by(e))?;
        Ok(Source {
            dsl: self.name().to_owned(),
            text: text.to_owned(),
            form: SourceForm::Lowered { plan },
            knobs: Knobs::new(),
        })
    }

    fn export(&self, source: &Source, form: &str) -> Result<String> {
        if form != "stub" {
            return Err(Error::unsupported(format!(
                "C99 has no form `{form}`, only `stub`"
            )));
        }
        let plan = plan(source)?;
        let json = serde_json::to_string(plan)
            .map_err(|e| Error::unexpected("cannot write the plan").caused_by(e))?;
        let mut text = format!("{MARKER}{json}\n#include <stdint.h>\n");
        for launch in &plan.launches {
            text.push_str(&format!("\n{}\n}}\n", printer::signature(&launch.kernel)));
        }
        Ok(text)
    }
}

fn plan(source: &Source) -> Result<&LaunchPlan> {
    match &source.form {
        SourceForm::Lowered { plan } => Ok(plan),
        _ => Err(Error::unsupported("C99 sources have a launch plan")),
    }
}

/// Runs the compiler in `directory`; the inner error is what it wrote.
fn compile(directory: &Path, text: &str, flags: &[&str]) -> Result<Result<(), String>> {
    let file = directory.join("kernel.c");
    std::fs::write(&file, text).map_err(|e| Error::io(format!("cannot write {}", file.display()), e))?;
    // Signed integers wrap and products are not fused with sums: that is what sketches mean.
    let output = Command::new("cc")
        .args(["-std=gnu99", "-fwrapv", "-ffp-contract=off", "kernel.c"])
        .args(flags)
        .env("LC_ALL", "C")
        .current_dir(directory)
        .output()
        .map_err(|e| {
            Error::new(
                ErrorKind::ToolMissing,
                "cannot run the C compiler `cc`; install one",
            )
            .caused_by(e)
        })?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(if output.status.success() {
        Ok(())
    } else {
        Err(said)
    })
}

/// Reads `kernel.c:LINE:COLUMN: error: MESSAGE`.
fn diagnostic(line: &str, text: &str) -> Option<Diagnostic> {
    let (place, message) = line.split_once(": error: ")?;
    let number: usize = place.split(':').nth(1)?.parse().ok()?;
    let start: usize = text
        .split_inclusive('\n')
        .take(number.checked_sub(1)?)
        .map(str::len)
        .sum();
    let length = text.get(start..)?.lines().next().map_or(0, str::len);
    Some(Diagnostic::error(message, start..start + length))
}
