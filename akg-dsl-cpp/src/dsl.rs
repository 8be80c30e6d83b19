//! The DSL.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Write as _;

use akg_core::diagnostic::Diagnostic;
use akg_core::dsl::{Dsl, DslCapability, Stage};
use akg_core::error::{Error, Result, ResultExt as _};
use akg_core::expr::Bindings;
use akg_core::lower::loops::{self, LoopKernel, Machine};
use akg_core::search::Syntax;
use akg_core::sketch::{Sketch, ir};
use akg_core::source::{Artifact, KnobValue, Knobs, Launch, LaunchPlan, Source, SourceForm};
use akg_core::target::Target;
use akg_core::verdict::{Failure, FailureKind};

use crate::compiler::{self, Mode};
use crate::config::CppConfig;
use crate::{names, prelude, printer, text};

/// C++ for CPUs: lowers sketches by the loop mapping and builds shared objects with the system's compiler.
#[derive(Debug)]
pub struct CppDsl {
    config: CppConfig,
    capability: DslCapability,
}

impl CppDsl {
    /// With these settings.
    pub fn new(config: CppConfig) -> Self {
        let mut capability = DslCapability::default();
        capability.backends = vec!["cpu".into()];
        capability.formats = vec!["elf-so".into()];
        capability.exports = vec!["source".into(), "stub".into()];
        capability.lowers = true;
        capability.syntax = Some(Syntax::Braces);
        Self { config, capability }
    }
}

impl Default for CppDsl {
    fn default() -> Self {
        Self::new(CppConfig::default())
    }
}

impl Dsl for CppDsl {
    fn name(&self) -> &'static str {
        "cpp"
    }

    fn capability(&self) -> &DslCapability {
        &self.capability
    }

    fn lower(&self, sketch: &Sketch, knobs: &Knobs, target: &Target) -> Result<Source> {
        let mut all = sketch.default_knobs();
        all.extend(knobs.clone());
        let program = sketch.elaborate(&all, &Bindings::new()).map_err(Error::from)?;
        let mut source = lower_program(&program, target, &all)?;
        let quoted: String = sketch
            .to_string()
            .lines()
            .map(|l| format!("//   {l}").trim_end().to_owned() + "\n")
            .collect();
        source.text = format!("// Lowered from this sketch:\n//\n{quoted}{}", source.text);
        Ok(source)
    }

    fn build(&self, source: &Source, target: &Target) -> Result<Result<Artifact, Failure>> {
        if let SourceForm::Module { interface } = &source.form {
            return interface.artifact(&source.text).map(Ok);
        }
        let plan = plan(source)?;
        let compiled = compiler::compile(
            &self.config,
            target,
            &source.text,
            kernels(plan).len(),
            Mode::Link,
        )?;
        let Some(bytes) = compiled.object else {
            let evidence = compiler::first_lines(&compiled.output, 40);
            return Ok(Err(Failure::new(FailureKind::CompileFailed, evidence)));
        };
        let mut metadata = BTreeMap::from([
            ("compiler".to_owned(), compiled.version),
            ("flags".to_owned(), compiled.flags.join(" ")),
            ("isolation".to_owned(), compiled.isolation.to_string()),
            (
                Artifact::FEATURES.to_owned(),
                compiler::target_features(target).join(" "),
            ),
        ]);
        if !compiled.output.trim().is_empty() {
            metadata.insert("warnings".to_owned(), compiled.output);
        }
        Ok(Ok(Artifact {
            format: "elf-so".to_owned(),
            bytes,
            plan: plan.clone(),
            metadata,
        }))
    }

    fn toolchain(&self, target: &Target) -> Result<String> {
        compiler::identity(&self.config, target)
    }

    fn check(&self, source: &Source) -> Vec<Diagnostic> {
        // What a module may do is decided where it runs.
        let SourceForm::Lowered { plan } = &source.form else {
            return Vec::new();
        };
        let defined = functions(&source.text);
        let missing = kernels(plan)
            .into_iter()
            .filter(|kernel| !defined.contains(kernel));
        let mut found: Vec<Diagnostic> = missing
            .map(|kernel| {
                Diagnostic::error(
                    format!(
                        "the launch plan starts kernel `{kernel}`, but the text has no function of that name: add `extern \"C\" \
                         void {kernel}(...)`"
                    ),
                    0..0,
                )
            })
            .collect();
        let target = Target::new("cpu", std::env::consts::ARCH);
        match compiler::compile(
            &self.config,
            &target,
            &source.text,
            kernels(plan).len(),
            Mode::Check,
        ) {
            Ok(compiled) if compiled.object.is_none() => {
                found.extend(compiler_errors(&compiled.output, &source.text));
            }
            Ok(_) => {}
            Err(e) => found.push(Diagnostic::warning(
                format!("the syntax was not checked: {e}"),
                0..0,
            )),
        }
        found
    }

    fn guide(&self, stage: Stage, target: &Target) -> String {
        let mut guide = include_str!("guide.md").to_owned();
        let features: Vec<_> = target.features.iter().map(String::as_str).collect();
        let _ = writeln!(
            guide,
            "\nThe machine: {} ({}), {} cores, vectors of {} bytes, features {}.",
            target.name,
            target.arch,
            target.cores,
            target.vector_bytes,
            if features.is_empty() {
                "unknown".to_owned()
            } else {
                features.join(" ")
            }
        );
        guide.push_str(match stage {
            Stage::Write => "\nWrite the whole text, launch plan first.\n",
            Stage::Fix => {
                "\nChange only what the failure asks for and keep the launch plan unless it is wrong.\n"
            }
            _ => {
                "\nKeep the results within the accuracy class; the launch plan may change with the kernels.\n"
            }
        });
        guide
    }

    fn parse(&self, text: &str) -> Result<Source> {
        if let Some(module) = Source::module(self.name(), text) {
            return Ok(module);
        }
        Ok(Source {
            dsl: self.name().to_owned(),
            text: text.to_owned(),
            form: SourceForm::Lowered {
                plan: text::HEADER.read(text)?,
            },
            knobs: Knobs::new(),
        })
    }

    fn export(&self, source: &Source, form: &str) -> Result<String> {
        if matches!(source.form, SourceForm::Module { .. }) && form == "source" {
            return Ok(source.text.clone());
        }
        let plan = plan(source)?;
        match form {
            "stub" => text::stub(plan),
            "source" => {
                let json = serde_json::to_string(plan)
                    .map_err(|e| Error::unexpected("cannot write the launch plan as JSON").caused_by(e))?;
                Ok(format!("{} {json}\n{}", text::HEADER.marker(), source.text))
            }
            other => Err(Error::unsupported(format!(
                "C++ has no form `{other}`; forms are {}",
                self.capability.exports.join(", ")
            ))),
        }
    }
}

fn plan(source: &Source) -> Result<&LaunchPlan> {
    match &source.form {
        SourceForm::Lowered { plan } => Ok(plan),
        _ => Err(Error::unsupported(
            "a Python module with host code of its own has no launch plan and no form but `source`",
        )),
    }
}

/// Prints a typed sketch as C++ for `target`. `knobs` are recorded as what it was elaborated with.
pub fn lower_program(program: &ir::Program, target: &Target, knobs: &Knobs) -> Result<Source> {
    let machine = Machine::new(target);
    let kernels = loops::map(program, machine, names::RESERVED).context("sketch", || program.name.clone())?;
    let mut used = BTreeSet::new();
    let mut functions = String::new();
    // Kernels that are the same but for names share a function.
    let mut known: HashMap<String, &str> = HashMap::new();
    let mut names = Vec::new();
    for kernel in &kernels {
        let (text, sections) = printer::print(kernel);
        let name = *known.entry(nameless(&text, kernel)).or_insert(&kernel.name);
        names.push(name);
        if name == kernel.name {
            used.extend(sections);
            functions.push('\n');
            functions.push_str(&text);
        }
    }
    let mut text = String::new();
    if !knobs.is_empty() {
        let values: Vec<String> = knobs
            .iter()
            .map(|(name, value)| match value {
                KnobValue::Int(v) => format!("{name} = {v}"),
                KnobValue::DType(d) => format!("{name} = {d}"),
            })
            .collect();
        let _ = writeln!(text, "//\n// Knobs: {}", values.join(", "));
    }
    text.push_str("#include <cstdint>\n\n");
    if used.contains("akg_dot") || used.contains("akg_scan") {
        let _ = writeln!(text, "#define AKG_VECTOR_BYTES {}", machine.vector_bytes);
    }
    text.push_str(&prelude::text(&used));
    text.push_str(&functions);
    Ok(Source {
        dsl: "cpp".to_owned(),
        text,
        form: SourceForm::Lowered {
            plan: launch_plan(program, &kernels, &names),
        },
        knobs: knobs.clone(),
    })
}

/// The function of a kernel without comments, in which its name and those of its parameters say what place they have.
fn nameless(text: &str, kernel: &LoopKernel) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let place = |word: &str| match kernel.params.iter().position(|param| param.name == word) {
        Some(at) => format!("${at}"),
        None if word == kernel.name => "$".to_owned(),
        None => word.to_owned(),
    };
    let mut out = String::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
        let mut rest = line;
        while !rest.is_empty() {
            let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
            out.push_str(&place(word));
            let (others, after) = after.split_at(after.find(is_word).unwrap_or(after.len()));
            out.push_str(others);
            rest = after;
        }
        out.push('\n');
    }
    out
}

fn launch_plan(program: &ir::Program, kernels: &[LoopKernel], names: &[&str]) -> LaunchPlan {
    let launch = |((kernel, mapped), name): ((&ir::Kernel, &LoopKernel), &&str)| Launch {
        kernel: (*name).to_owned(),
        grid: kernel.grid.iter().map(|axis| axis.extent.clone()).collect(),
        tensors: mapped.params.iter().map(|p| p.tensor.0).collect(),
        cooperative: kernel.cooperative.is_some(),
        doc: kernel.doc.clone(),
    };
    LaunchPlan {
        dims: program.dims.clone(),
        tensors: program.tensors.clone(),
        launches: program
            .kernels
            .iter()
            .zip(kernels)
            .zip(names)
            .map(launch)
            .collect(),
    }
}

/// The kernels that the launches of a plan are of.
fn kernels(plan: &LaunchPlan) -> BTreeSet<&str> {
    plan.launches.iter().map(|l| l.kernel.as_str()).collect()
}

/// The words of a text that a parenthesis follows, if it has functions with C linkage: its functions, and what they call.
fn functions(text: &str) -> HashSet<&str> {
    if !text.contains("extern \"C\"") {
        return HashSet::new();
    }
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut functions = HashSet::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_word) {
        let word = rest.get(start..).unwrap_or_default();
        let end = word.find(|c| !is_word(c)).unwrap_or(word.len());
        let (word, after) = word.split_at(end);
        if after.trim_start().starts_with('(') {
            functions.insert(word);
        }
        rest = after;
    }
    functions
}

/// `kernel.cpp:LINE:COLUMN: error: MESSAGE` lines as diagnostics.
fn compiler_errors(output: &str, text: &str) -> Vec<Diagnostic> {
    let mut found: Vec<Diagnostic> = output
        .lines()
        .filter_map(|line| {
            let (place, message) = line
                .split_once(": error: ")
                .or_else(|| line.split_once(": fatal error: "))?;
            let mut numbers = place.rsplit(':').map(|n| n.parse::<usize>().ok());
            let (column, line) = (numbers.next()??, numbers.next()??);
            let start: usize = text
                .split_inclusive('\n')
                .take(line.saturating_sub(1))
                .map(str::len)
                .sum();
            let rest = text.get(start..)?.lines().next()?;
            let at = (column.max(1) - 1).min(rest.len());
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            // The whole word, or one sign.
            let place = rest.get(at..)?;
            let word = place.find(|c| !is_word(c)).unwrap_or(place.len());
            let sign = place.chars().next().map_or(0, char::len_utf8);
            let at = start + at;
            Some(Diagnostic::error(message, at..at + word.max(sign)))
        })
        .take(20)
        .collect();
    if found.is_empty() {
        found.push(Diagnostic::error(
            format!(
                "the compiler rejects the text:\n{}",
                compiler::first_lines(output, 20)
            ),
            0..0,
        ));
    }
    found
}
