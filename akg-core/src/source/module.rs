//! Python modules with host code of their own as sources.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Artifact, Launch, LaunchPlan, PlanTensor, Source, SourceForm};
use crate::error::{Error, Result};
use crate::graph::{Graph, Layout};

/// How a module with a class `ModelNew` stands for a task's graph.
///
/// The class is constructed with what the module's `get_init_inputs()` gives, or with nothing if there is no such function.
/// Inputs that are named like one of its parameters, buffers or tensors, with `_` for `.`, are put in their places before
/// each call. The others are the arguments of `forward`, in their order. What it returns are the outputs, in their order;
/// those that are the new content of an input are read from its place.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModuleInterface {
    /// The graph's inputs, constants and outputs.
    pub tensors: Vec<PlanTensor>,
    /// The names of the inputs that the module is given: constants are its own business.
    pub inputs: Vec<String>,
    /// The names of the inputs whose new content the last outputs are.
    pub states: Vec<String>,
    /// The tensors that the module is given for inputs that are their storage, by the inputs' names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub layouts: BTreeMap<String, Layout>,
}

impl ModuleInterface {
    /// The name of the class.
    pub const CLASS: &str = "ModelNew";

    /// The format of artifacts that are a module's text. Their plan has a single launch; without it, the module runs and
    /// what its kernels write gets other values.
    pub const FORMAT: &str = "python-module";

    /// The key in [`Artifact::metadata`] of the interface.
    const KEY: &str = "module";

    /// The interface of a graph.
    pub fn of(graph: &Graph) -> Self {
        let name = |value| graph.value_name(value).to_owned();
        Self {
            tensors: PlanTensor::of(graph),
            inputs: graph.inputs().iter().map(|input| name(input.value)).collect(),
            states: graph
                .outputs()
                .iter()
                .filter_map(|o| o.updates.map(name))
                .collect(),
            layouts: graph
                .inputs()
                .iter()
                .filter_map(|input| Some((name(input.value), input.layout.clone()?)))
                .collect(),
        }
    }

    /// The interface of an artifact.
    ///
    /// # Errors
    /// An artifact without one.
    pub fn from_artifact(artifact: &Artifact) -> Result<Self> {
        let text = artifact.metadata.get(Self::KEY).ok_or_else(|| {
            Error::invalid(format!(
                "an artifact in the format `{}` has the entry `{}`",
                Self::FORMAT,
                Self::KEY
            ))
        })?;
        serde_json::from_str(text)
            .map_err(|e| Error::invalid("the interface of a module cannot be read").caused_by(e))
    }

    /// The artifact of a module with this interface.
    ///
    /// # Errors
    /// An interface that cannot be written.
    pub fn artifact(&self, text: &str) -> Result<Artifact> {
        let interface = serde_json::to_string(self)
            .map_err(|e| Error::unexpected("the interface of a module cannot be written").caused_by(e))?;
        let launch = Launch {
            kernel: Self::CLASS.to_owned(),
            grid: Vec::new(),
            tensors: (0..self.tensors.len()).collect(),
            cooperative: false,
            doc: "the kernels of the module".to_owned(),
        };
        Ok(Artifact {
            format: Self::FORMAT.to_owned(),
            bytes: text.as_bytes().to_vec(),
            plan: LaunchPlan {
                dims: Vec::new(),
                tensors: self.tensors.clone(),
                launches: vec![launch],
            },
            metadata: [(Self::KEY.to_owned(), interface)].into(),
        })
    }
}

impl Source {
    /// The source that a text is if it is a Python module with a class `ModelNew`.
    pub fn module(dsl: &str, text: &str) -> Option<Self> {
        let class = format!("class {}", ModuleInterface::CLASS);
        let rest = text.lines().find_map(|line| line.strip_prefix(&class))?;
        rest.trim_start().starts_with(['(', ':']).then(|| Self {
            dsl: dsl.to_owned(),
            text: text.to_owned(),
            form: SourceForm::Module {
                interface: ModuleInterface::default(),
            },
            knobs: super::Knobs::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_is_told_by_its_class() {
        for text in [
            "class ModelNew(nn.Module):\n    pass\n",
            "import torch\n\nclass ModelNew:\n    pass\n",
        ] {
            assert!(Source::module("triton", text).is_some(), "{text}");
        }
        for text in [
            "# class ModelNew(nn.Module):\n",
            "class Model(nn.Module):\n",
            "class ModelNewer(nn.Module):\n",
            "class ModelNew {\n",
        ] {
            assert!(Source::module("triton", text).is_none(), "{text}");
        }
    }
}
