//! The DSL.

use std::fmt::Write as _;

use akg_core::diagnostic::Diagnostic;
use akg_core::dsl::{Dsl, DslCapability, Stage};
use akg_core::error::{Error, Result};
use akg_core::expr::Bindings;
use akg_core::search::Syntax;
use akg_core::sketch::{Knob, Sketch};
use akg_core::source::{Artifact, Knobs, LaunchPlan, Source, SourceForm};
use akg_core::target::Target;
use akg_core::verdict::Failure;

use crate::compiler::Compiler;
use crate::config::TritonConfig;
use crate::dialect::Dialect;
use crate::{NAME, lower, options, text};

/// Triton for GPUs: lowers sketches by the tile mapping and builds machine code with Triton's own compiler, which runs in
/// Python processes and needs no GPU.
#[derive(Debug)]
pub struct TritonDsl {
    compiler: Compiler,
    capability: DslCapability,
}

impl TritonDsl {
    /// With these settings.
    pub fn new(config: &TritonConfig) -> Self {
        let mut capability = DslCapability::default();
        capability.backends = vec!["cuda".into(), "hip".into()];
        capability.formats = vec!["cubin".into(), "hsaco".into()];
        capability.exports = vec!["source".into(), "stub".into()];
        capability.lowers = true;
        capability.syntax = Some(Syntax::Indented);
        Self {
            compiler: Compiler::new(config),
            capability,
        }
    }
}

impl Default for TritonDsl {
    fn default() -> Self {
        Self::new(&TritonConfig::default())
    }
}

impl Dsl for TritonDsl {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capability(&self) -> &DslCapability {
        &self.capability
    }

    fn knobs(&self, sketch: &Sketch, target: &Target) -> Result<Vec<Knob>> {
        // The first values may break a requirement of the sketch.
        let legal = sketch.legal_points(&Bindings::new()).next().unwrap_or_default();
        let (program, _) = lower::tile_program(sketch, &legal)?;
        Ok(options::knobs(&program.kernels, &Dialect::of(target)?))
    }

    fn lower(&self, sketch: &Sketch, knobs: &Knobs, target: &Target) -> Result<Source> {
        let (program, all) = lower::tile_program(sketch, knobs)?;
        let mut source = lower::print(program, target, &all)?;
        let quoted: String = sketch
            .to_string()
            .lines()
            .map(|l| format!("#   {l}").trim_end().to_owned() + "\n")
            .collect();
        source.text = format!("# Lowered from this sketch:\n#\n{quoted}#\n{}", source.text);
        Ok(source)
    }

    fn build(&self, source: &Source, target: &Target) -> Result<Result<Artifact, Failure>> {
        if let SourceForm::Module { interface } = &source.form {
            return interface.artifact(&source.text).map(Ok);
        }
        self.compiler.build(&source.text, plan(source)?, target)
    }

    fn toolchain(&self, _target: &Target) -> Result<String> {
        self.compiler.identity()
    }

    fn check(&self, source: &Source) -> Vec<Diagnostic> {
        // What a module may do is decided where it runs.
        let SourceForm::Lowered { plan } = &source.form else {
            return Vec::new();
        };
        self.compiler.check(&source.text, plan).unwrap_or_else(|e| {
            vec![Diagnostic::warning(
                format!("the syntax was not checked: {e}"),
                0..0,
            )]
        })
    }

    fn guide(&self, stage: Stage, target: &Target) -> String {
        let mut guide = include_str!("guide.md").to_owned();
        let _ = writeln!(
            guide,
            "\nThe device: {} ({}), {} processors, {} bytes of shared memory for a program.",
            target.name, target.arch, target.cores, target.tile_bytes
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
            dsl: NAME.to_owned(),
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
            "source" => Ok(format!("{}{}", text::HEADER.write(plan)?, source.text)),
            other => Err(Error::unsupported(format!(
                "Triton has no form `{other}`; forms are {}",
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
