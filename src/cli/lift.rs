//! Kernels that somebody wrote elsewhere: what they compute, as a task and a sketch.

use std::path::Path;
use std::sync::Arc;

use akg::agent::Agent as _;
use akg::backend::Limits;
use akg::designer::{DesignContext, ModelDesigner, RuleDesigner};
use akg::file::read_text;
use akg::lift::{CompiledOriginal, Interface, Language, LiftContext, ModelLifter, Original, disagreement};
use akg::llm::Models;
use akg::python::{Config, FunctionOriginal, ModuleOriginal};
use akg::{Accuracy, Error, Result, Sketch, Target};
use futures::executor::block_on;

use super::agent::AgentArgs;
use super::device;
use super::migrate::of;
use super::progress::Progress;
use super::task::{Loaded, load, python};
use super::{ContractArgs, TaskArgs};

/// How a foreign kernel is lifted.
pub(super) struct Lifting<'a> {
    pub(super) path: &'a Path,
    pub(super) language: Language,
    /// The file of its interface, unless that is the `.json` beside it.
    pub(super) interface: Option<&'a Path>,
    pub(super) accuracy: Accuracy,
    pub(super) agent: &'a AgentArgs,
    pub(super) python: Config,
    /// Limits on executions of the original.
    pub(super) limits: Limits,
    /// What the sketch is for.
    pub(super) target: &'a Target,
    pub(super) progress: &'a Progress,
}

/// A task and a sketch of it, and the models that were asked.
pub(super) type Lifted = (Loaded, Sketch, Option<Models>);

impl Lifting<'_> {
    /// Lifts the kernel. A module of PyTorch in KernelBench's form has no interface: the rules import it.
    pub(super) fn lift(&self) -> Result<Lifted> {
        let beside = self.path.with_extension("json");
        match self.interface {
            None if self.language == Language::PyTorch && !beside.exists() => self.module(),
            interface => self.kernel(interface.unwrap_or(&beside)),
        }
    }

    /// The rules import the module, which is held against its graph; they or a model design the sketch.
    fn module(&self) -> Result<Lifted> {
        let args = TaskArgs {
            task: self.path.display().to_string(),
            contract: ContractArgs {
                accuracy: self.accuracy,
                ..ContractArgs::default()
            },
        };
        let models = self.agent.models()?;
        let loaded = load(&args, None, || python(&self.python, self.progress), self.progress)?;
        if let (Some(module), Some(python)) = (&loaded.module, &loaded.python) {
            self.progress.step("comparing the graph with the module");
            let original = ModuleOriginal::new(Arc::clone(python), module)?;
            if let Some(wrong) = block_on(disagreement(&original, &loaded.task))? {
                return Err(Error::unexpected(wrong));
            }
        }
        self.progress.step("designing");
        let context = DesignContext::new(loaded.task.clone(), self.target.clone());
        let design = match &models {
            Some(models) => block_on(ModelDesigner::new(models.role("designer")?)?.step(&context))?,
            None => block_on(RuleDesigner.step(&context))?,
        };
        Ok((loaded, design.sketch, models))
    }

    /// A model finds out what the kernel computes.
    fn kernel(&self, interface: &Path) -> Result<Lifted> {
        let text = read_text(self.path)?;
        let described = read_text(interface).map_err(|e| {
            Error::invalid(
                "the kernel needs an interface: a JSON file that says what it takes and gives, and how it is called; see docs/migrate.md",
            )
            .with("file", interface.display())
            .caused_by(e)
        })?;
        let interface = Interface::from_json(&described).map_err(|e| e.with("file", interface.display()))?;
        let models = Models::from_env()?;
        self.progress.step("preparing the original");
        let context = LiftContext {
            name: self
                .path
                .file_stem()
                .map_or_else(|| "kernel".into(), |s| s.to_string_lossy().into_owned()),
            language: self.language,
            original: self.original(&text, &interface)?,
            text,
            interface,
            accuracy: self.accuracy,
            target: self.target.clone(),
        };
        self.progress.step("asking what the kernel computes");
        let lift = block_on(ModelLifter::new(models.role("lifter")?)?.step(&context))?;
        Ok((of(lift.task), lift.design.sketch, Some(models)))
    }

    /// The kernel, to be executed on this machine's processor.
    fn original(&self, text: &str, interface: &Interface) -> Result<Arc<dyn Original>> {
        match self.language {
            Language::Triton | Language::PyTorch => {
                let python = python(&self.python, self.progress)?;
                Ok(Arc::new(FunctionOriginal::new(python, self.path, interface)?))
            }
            language => {
                let source = akg::cpp::original(language, text, interface)?;
                let registry = akg::registry();
                let (dsl, backend) = (registry.dsl("cpp")?, registry.backend("cpu")?);
                let host = device::target("cpu", None)?;
                let original = CompiledOriginal::build(&source, &*dsl, backend, &host, self.limits.clone())?;
                Ok(Arc::new(original))
            }
        }
    }
}
