//! Import of PyTorch modules, and its cache.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use akg_core::bundle::ModuleCall;
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::file::{MAX_TEXT, read_bytes};
use akg_core::graph::{Layout, Operator};
use akg_core::{DType, Graph};
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::environment::Environment;
use crate::sources;

/// How to import.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// How many times to halve the leading dimension of the inputs, for modules whose tensors do not fit: of all inputs
    /// that share the first one's, or if the module then fails, of the first input only.
    pub halvings: u32,
    /// Whether to import again although the result is in the cache.
    pub refresh: bool,
    /// Dimensions of the arguments of `forward` that stay open.
    pub open: Vec<OpenDim>,
    /// Also computes gradients. Cotangents of all outputs that can be differentiated follow the arguments,
    /// and gradients of floating arguments and of parameters follow the outputs.
    pub backward: bool,
}

/// A dimension of an argument of `forward` whose size stays open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenDim {
    /// The position among the flattened arguments.
    pub argument: usize,
    /// The dimension.
    pub dim: usize,
    /// The symbol that the size is a multiple of.
    pub symbol: String,
    /// The factor of the symbol in the size.
    pub multiple: i64,
    /// The least value of the symbol.
    pub low: i64,
    /// The greatest, if there is one.
    pub high: Option<i64>,
}

/// The values of a symbol for which a module works as imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenRange {
    /// The symbol.
    pub symbol: String,
    /// The least value.
    pub low: i64,
    /// The greatest, if there is one.
    pub high: Option<i64>,
}

/// A module as a graph.
#[derive(Debug, Clone)]
pub struct ImportedModule {
    /// The file.
    pub path: PathBuf,
    /// The computation. Its inputs are the arguments of `forward`, the parameters (weights) and buffers (weights, or
    /// state where `forward` changes them), and a seed if dropout is active.
    pub graph: Graph,
    /// How the content of each graph input is made, in the order of the graph's inputs.
    pub inputs: Vec<ImportedInput>,
    /// The values of the symbols of open dimensions.
    pub ranges: Vec<OpenRange>,
    /// What `forward` takes and returns.
    pub call: ModuleCall,
    /// Where each operator is first called in the user's files, as `file:line: source`, by its full name.
    pub places: BTreeMap<String, String>,
    /// The operators that akg does not know and that were replaced by others, by their full names. What replaces them is
    /// akg's own decomposition, or PyTorch's.
    pub decomposed: Vec<String>,
    /// The cotangents that follow the arguments of `forward`, if the graph computes gradients.
    pub cotangents: Option<Vec<Cotangent>>,
    /// How the inputs were made smaller, if they were.
    pub shrink: Option<Shrink>,
    /// The version of PyTorch that exported the module.
    pub torch: String,
    /// How the module was built for export: `meta`, `fake`, `real-model` or `real`.
    pub mode: String,
    /// What the export took, in seconds, when it was made.
    pub seconds: f64,
    /// Whether the result came from the cache.
    pub cached: bool,
}

/// Where the content of one graph input comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedInput {
    /// The graph input's name.
    pub name: String,
    /// What it is in the module.
    pub source: Source,
    /// How its content is made.
    pub generator: Generator,
    /// The tensor that the module takes, if the graph input is its storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
}

/// What a graph input is in the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// A parameter, buffer or tensor attribute, by its dotted path below the module.
    Attribute(String),
    /// A tensor among the flattened arguments of `forward`, by position.
    Argument(usize),
    /// Nothing: the integer from which the graph's chance follows, where PyTorch draws from a generator of its own.
    Seed {},
}

/// How the content of an input is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Generator {
    /// `torch.rand`: uniform in [0, 1).
    Uniform01,
    /// `torch.randn`: standard normal.
    Normal,
    /// `torch.randint`: uniform integers.
    Randint {
        /// The least.
        low: i64,
        /// One more than the greatest.
        high: i64,
    },
    /// By the module's own code: [`Python::materialize`](crate::Python::materialize) runs it.
    Captured,
}

/// A tensor by which the gradients of an output are multiplied. It has the output's type, at its example size if that is open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cotangent {
    /// The element type.
    pub dtype: DType,
    /// The extents.
    pub shape: Vec<usize>,
}

/// How the inputs of a module were made smaller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shrink {
    /// How many times the leading dimension was halved.
    pub halvings: u32,
    /// The leading dimension that was halved, at its full size.
    pub leading: u64,
    /// Whether only the first input was made smaller, not every input with that leading dimension.
    pub only_first: bool,
}

/// The worker's answer, and what the cache keeps. The graph is in JSON form, in a string.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Imported {
    graph: String,
    inputs: Vec<ImportedInput>,
    ranges: Vec<OpenRange>,
    call: ModuleCall,
    /// Where operators are first called in the user's files.
    places: BTreeMap<String, String>,
    /// Operators that were replaced by others.
    decomposed: Vec<String>,
    /// Operators that akg does not know and that have no decomposition.
    unknown: Vec<String>,
    cotangents: Option<Vec<Cotangent>>,
    /// The files that the module imports from beside it.
    beside: Vec<PathBuf>,
    /// A hash of their content, which the cache keeps.
    #[serde(default)]
    beside_hash: Option<String>,
    torch: String,
    mode: String,
    shrink: Option<Shrink>,
    seconds: f64,
}

impl Imported {
    /// An error about operators that akg does not know, with what was tried.
    fn with_unknown(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Unsupported || self.unknown.is_empty() {
            return error;
        }
        error.with(
            "without a decomposition",
            format!(
                "{} (neither PyTorch nor akg has a usable one)",
                self.unknown.join(", ")
            ),
        )
    }

    pub(crate) fn into_module(self, path: &Path, cached: bool) -> Result<ImportedModule> {
        let graph = Graph::from_json(&self.graph).map_err(|e| located(self.with_unknown(e), &self.places))?;
        let graph = graph.with_growing_joins();
        let mut by_name: BTreeMap<_, _> = self.inputs.into_iter().map(|i| (i.name.clone(), i)).collect();
        let ordered = graph.inputs().iter().map(|input| {
            let name = graph.value_name(input.value);
            let mut imported = by_name.remove(name).ok_or_else(|| {
                Error::unexpected(format!(
                    "the import does not say where the input `{name}` comes from"
                ))
            })?;
            imported.layout.clone_from(&input.layout);
            Ok(imported)
        });
        Ok(ImportedModule {
            path: path.to_owned(),
            inputs: ordered.collect::<Result<_>>()?,
            graph,
            ranges: self.ranges,
            call: self.call,
            places: self.places,
            decomposed: self.decomposed,
            cotangents: self.cotangents,
            shrink: self.shrink,
            torch: self.torch,
            mode: self.mode,
            seconds: self.seconds,
            cached,
        })
    }
}

/// Operators of graphs that are decomposed at import all the same: no designer has a rule for a scatter, and `as_strided` of a
/// module reads the storage of its argument, which a graph has for inputs alone.
const DECOMPOSED: [&str; 3] = ["as_strided.default", "scatter.src", "scatter.value"];

/// The names of the operators that an imported graph may have. The import decomposes others where it can.
pub(crate) fn operators() -> Vec<String> {
    let mut all = Operator::all();
    all.retain(|op| !DECOMPOSED.contains(&op.name()));
    all.into_iter().map(Operator::qualified_name).collect()
}

/// The place of one import in the cache: it depends on the source, on PyTorch's version, on how akg exports, on the operators
/// that it knows, and on the options.
#[derive(Debug)]
pub(crate) struct Entry(PathBuf);

impl Entry {
    pub(crate) fn new(environment: &Environment, path: &Path, options: &ImportOptions) -> Result<Self> {
        let source = read_bytes(path, MAX_TEXT)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update(blake3::hash(&source).as_bytes());
        hasher.update(sources::hash().as_bytes());
        for operator in operators() {
            hasher.update(operator.as_bytes());
            hasher.update(b"\0");
        }
        hasher.update(&options.halvings.to_le_bytes());
        hasher.update(&[u8::from(options.backward)]);
        let open = serde_json::to_vec(&options.open)
            .map_err(|e| Error::unexpected("writing dimensions").caused_by(e))?;
        hasher.update(blake3::hash(&open).as_bytes());
        hasher.update(graph_name(path).as_bytes());
        hasher.update(b"\0");
        hasher.update(environment.torch_version().as_bytes());
        let name = format!("{}.json", hasher.finalize().to_hex());
        Ok(Self(environment.cache.join("imports").join(name)))
    }

    /// What is there; an unreadable entry is as good as none, and one that was made of other files beside the module.
    pub(crate) fn read(&self) -> Option<Imported> {
        let imported: Imported = serde_json::from_slice(&fs::read(&self.0).ok()?).ok()?;
        (imported.beside_hash == hash_of(&imported.beside)).then_some(imported)
    }

    /// Keeps an import. A cache that cannot be written costs time later and is no reason to fail now.
    pub(crate) fn write(&self, imported: &mut Imported) {
        imported.beside_hash = hash_of(&imported.beside);
        let _ = serde_json::to_vec(imported).map(|bytes| cache::write(&self.0, &bytes));
    }
}

/// A hash of the content of files; `None` if there are none, or one cannot be read.
fn hash_of(files: &[PathBuf]) -> Option<String> {
    let mut hasher = blake3::Hasher::new();
    for file in files {
        hasher.update(blake3::hash(&fs::read(file).ok()?).as_bytes());
    }
    (!files.is_empty()).then(|| hasher.finalize().to_hex().to_string())
}

/// An error with the user's lines that call the operators which it names.
fn located(error: Error, places: &BTreeMap<String, String>) -> Error {
    if error.kind() != ErrorKind::Unsupported {
        return error;
    }
    let text = error.to_string();
    let named = places.iter().filter(|(operator, _)| names(&text, operator));
    named.fold(error, |error, (operator, place)| {
        error.with("at", format!("{operator}: {place}"))
    })
}

/// Whether a text has a name that is not part of a longer one.
fn names(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

impl ImportedModule {
    /// An error about operators of the module with the lines of the user's files that call them.
    pub fn located(&self, error: Error) -> Error {
        located(error, &self.places)
    }
}

/// The graph's name: the file's, without its extension.
pub(crate) fn graph_name(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}
