//! Kernels as PyTorch modules.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use akg_core::bundle::module::{PYTHON_RESERVED, constructor, dim_sources, places, python_string, tuple};
use akg_core::bundle::structure::{LEAVES, Structure};
use akg_core::bundle::{Bundle, Manifest, Port};
use akg_core::dtype::DType;
use akg_core::error::{Error, Result};
use akg_core::expr::Expr;
use akg_core::graph::Graph;
use akg_core::source::{LaunchPlan, PlanTensor, TensorRole, comment_lines};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::NAME;
use crate::layout::statement;
use crate::names::Names;
use crate::python::{PythonText, parameters};

const TEMPLATE: &str = include_str!("modelnew.py");

/// The value of a dim in a call.
const DIM: &str = "

def akg_dim(name, tensor, axis, low, high):
    value = tensor.shape[axis] if axis < tensor.dim() else -1
    if not low <= value <= high:
        raise ValueError(f\"the dim `{name}` is {value}, and the contract holds from {low} to {high}\")
    return value
";

/// The storage of a tensor with the strides that a kernel is for.
const STORAGE: &str = "

def akg_storage(name, tensor, shape, strides):
    steps = zip(tensor.shape, tensor.stride(), strides)
    if list(tensor.shape) != shape or any(extent > 1 and have != want for extent, have, want in steps):
        given = f\"{list(tensor.shape)} with strides {list(tensor.stride())}\"
        raise ValueError(f\"`{name}` must have the shape {shape} with strides {strides}, not {given}\")
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides))
    return tensor.as_strided((span,), (1,), tensor.storage_offset())
";

/// A complex parameter or buffer as kernels read it, and other tensors as they are.
const REAL: &str = "

def akg_real(tensor):
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor
";

const CEILDIV: &str = "

def ceildiv(a, b):
    return -(-a // b)
";

const DESCRIPTOR: &str = "

# What the copy engine is told of a dense tensor that a kernel sees in these extents.
def akg_descriptor(tensor, shape, block_shape):
    strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    return TensorDescriptor(tensor, shape, strides, block_shape)
";

/// The graph's constants on a device, by number.
const CONSTANT: &str = "

@functools.cache
def akg_constant(number, device):
    text, dtype, shape = CONSTANTS[number]
    data = torch.frombuffer(bytearray(base64.b64decode(text)) or bytearray(1), dtype=torch.uint8)
    tensor = data.view(dtype).reshape(shape) if text else torch.empty(shape, dtype=dtype)
    return tensor.to(device)
";

/// What a Python file with a class `ModelNew` is made of; it computes what the kernels do, on GPU tensors, and needs PyTorch
/// and Triton, which compiles the kernels.
///
/// For a task from a PyTorch module, the file holds the module's text, and in the place of `Model` stands `ModelNew`, which
/// has another `forward`: the same parameters, constructed in the same order. Otherwise weights become parameters in the
/// graph's order. What `forward` returns has the structure that the module gives it, and arguments and buffers that the module
/// changes are changed. Arguments of `forward` that are no tensors must have the values that they had when the task was made;
/// masks and integers may come as floating-point numbers.
#[derive(Debug, Clone, Copy)]
pub struct ModelNew<'a> {
    /// The kernels' plan, and what goes in and comes out.
    pub manifest: &'a Manifest,
    /// The computation.
    pub graph: &'a Graph,
    /// The text of the kernels.
    pub kernels: &'a str,
    /// The text of the PyTorch module that the task came from, if it came from one.
    pub module: Option<&'a str>,
    /// Why the kernels are believed to be right, in one line.
    pub evidence: &'a str,
}

/// The text of a [`ModelNew`] that computes what the bundle does.
///
/// # Errors
/// As for [`ModelNew::text`].
pub fn modelnew(bundle: &Bundle) -> Result<String> {
    let hash = bundle.content_hash()?;
    let module = ModelNew {
        manifest: bundle.manifest(),
        graph: bundle.graph(),
        kernels: &bundle.candidate().source.text,
        module: bundle.module(),
        evidence: &format!("The evidence that it is right is in the bundle {hash}."),
    };
    module.text()
}

impl ModelNew<'_> {
    /// The file's text.
    ///
    /// # Errors
    /// [`Unsupported`](akg_core::ErrorKind::Unsupported) for kernels in other languages, for weights of symbolic extents, for
    /// a module's text without a class `Model`, and for arguments and results that are objects of unknown structure.
    pub fn text(&self) -> Result<String> {
        let manifest = self.manifest;
        if manifest.dsl != NAME {
            return Err(Error::unsupported(format!(
                "only Triton kernels become PyTorch modules with Triton kernels, not those of `{}`",
                manifest.dsl
            )));
        }
        let mut module = PythonText::new(self.module.unwrap_or_default());
        let mut kernels = PythonText::new(self.kernels);
        let mut imports = module.take_imports();
        imports.extend(kernels.take_imports());
        imports.extend(["import torch".to_owned(), "import torch.nn as nn".to_owned()]);
        let mut helpers = String::new();
        if self.kernels.contains("\"descriptors\"") {
            imports.extend([
                "import math".to_owned(),
                "from triton.tools.tensor_descriptor import TensorDescriptor".to_owned(),
            ]);
            helpers += DESCRIPTOR;
        }
        if kernels.find(kernels.all(), 0, "LAUNCH").is_none() {
            helpers += "\n\nLAUNCH = {}\n";
        }
        if !self.graph.constants().is_empty() {
            imports.extend(["import base64".to_owned(), "import functools".to_owned()]);
            helpers += &self.constants();
            helpers += CONSTANT;
        }
        let class = self.class(&mut module)?;
        for (name, text) in [
            ("akg_dim(", DIM),
            ("ceildiv(", CEILDIV),
            ("akg_storage(", STORAGE),
            ("akg_real(", REAL),
        ] {
            if class.contains(name) {
                helpers += text;
            }
        }
        if class.contains("akg_leaves(") {
            helpers += &format!("\n\n{LEAVES}");
        }
        if class.contains("importlib.import_module(") {
            imports.push("import importlib".to_owned());
        }
        // By the names of the modules.
        imports.sort_by_key(|line| line.split_whitespace().nth(1).map(str::to_owned));
        imports.dedup();
        let aligns = manifest.inputs.iter().map(|port| port.align);
        let plan = manifest.plan.with_role(TensorRole::Input).map(|(_, t)| t.align);
        let fill = [
            ("@NAME@", comment(&manifest.name)),
            ("@AKG@", comment(&manifest.akg)),
            ("@ACCURACY@", manifest.contract.accuracy.to_string()),
            ("@EVIDENCE@", self.evidence.to_owned()),
            ("@IMPORTS@", imports.join("\n")),
            ("@ALIGN@", aligns.chain(plan).max().unwrap_or(1).to_string()),
            ("@HELPERS@", helpers),
            ("@KERNELS@", kernels.text()),
            ("@MODULE@", class.trim_end().to_owned()),
        ];
        let mut filled = TEMPLATE.to_owned();
        for (hole, value) in fill {
            filled = filled.replacen(hole, &value, 1);
        }
        Ok(filled)
    }

    /// The class, and what stands beside it in the module's text.
    fn class(&self, module: &mut PythonText) -> Result<String> {
        let mut forward = Forward::new(self.manifest);
        if self.module.is_none() {
            let init = constructor(&self.manifest.inputs, &|port| torch_type(port.dtype))?;
            forward.name_arguments();
            let text = forward.text(None, "    ")?;
            return Ok(format!("class ModelNew(nn.Module):\n{init}{text}"));
        }
        module.drop_docstrings();
        let heads = ["class Model(", "class Model:"];
        let class = heads.iter().find_map(|head| module.find(module.all(), 0, head));
        let class = class.ok_or_else(|| {
            Error::unsupported("the PyTorch module's text has no `class Model`, whose place `ModelNew` takes")
        })?;
        let (block, indent) = module.block(class);
        let spaces = " ".repeat(indent);
        if let Some(old) = module.find(block.clone(), indent, "def forward(") {
            let head = module.line(old).to_owned();
            let head = forward.take_parameters(&head).then_some(head);
            let text = forward.text(head.as_deref(), &spaces)?;
            let (place, _) = module.block(old);
            module.replace(place, text.trim_end());
        } else {
            let text = forward.text(None, &spaces)?;
            module.replace(block.end..block.end, &format!("\n{text}"));
        }
        let (block, _) = module.block(class);
        let text = module.part(block.clone());
        let text = text
            .replacen("class Model", "class ModelNew", 1)
            .replace("super(Model, self)", "super()");
        module.replace(block, &text);
        Ok(module.text())
    }

    /// The values of the graph's constants.
    fn constants(&self) -> String {
        let constants = self.graph.constants().iter().map(|c| {
            format!(
                "    (\"{}\", {}, {}),\n",
                STANDARD.encode(c.tensor.bytes()),
                torch_type(c.tensor.dtype()),
                tuple(c.tensor.shape().iter().map(ToString::to_string))
            )
        });
        format!("\n\nCONSTANTS = [\n{}]\n", constants.collect::<String>())
    }
}

/// Text for a comment, in one line.
fn comment(text: &str) -> String {
    comment_lines(text).collect::<Vec<_>>().join(" ")
}

/// PyTorch's name of an element type.
fn torch_type(dtype: DType) -> String {
    let name = match dtype {
        DType::Bool => "bool",
        DType::U8 => "uint8",
        DType::I8 => "int8",
        DType::I16 => "int16",
        DType::I32 => "int32",
        DType::I64 => "int64",
        DType::F16 => "float16",
        DType::BF16 => "bfloat16",
        DType::F64 => "float64",
        _ => "float32",
    };
    format!("torch.{name}")
}

/// Writes `forward`.
struct Forward<'a> {
    manifest: &'a Manifest,
    /// The plan, whose dims have names that Python allows.
    plan: LaunchPlan,
    /// Where each input is.
    places: Vec<Value>,
    /// The parameters of `forward` after `self`; none if its arguments are told apart by their positions.
    parameters: Vec<String>,
    /// The parameters that are tensors, by their positions among the flattened arguments.
    named: BTreeMap<usize, String>,
    lines: Vec<String>,
}

impl<'a> Forward<'a> {
    fn new(manifest: &'a Manifest) -> Self {
        let mut names = Names::new();
        Self {
            manifest,
            plan: manifest.plan.rename_dims(|dim| names.fresh(dim).into()),
            places: places(manifest),
            parameters: Vec::new(),
            named: BTreeMap::new(),
            lines: Vec::new(),
        }
    }

    /// Names the parameters as the tensors.
    fn name_arguments(&mut self) {
        let mut names = self.names();
        let arguments = self.manifest.inputs.iter().zip(&self.places);
        let arguments = arguments.filter(|(_, place)| place.is_u64());
        self.parameters = arguments.map(|(port, _)| names.fresh(&port.name)).collect();
        self.named = (0..).zip(self.parameters.iter().cloned()).collect();
    }

    /// The parameters with what each is given, if that is known.
    fn arguments(&self) -> Option<&'a [(String, Structure)]> {
        self.manifest.call.as_ref()?.arguments.as_deref()
    }

    /// Takes the parameters that the call is known to have, and gives a head for them: what is no tensor has the value that
    /// it must have anyway.
    fn known_head(&mut self) -> Option<String> {
        let arguments = self.arguments()?;
        let parameter = |(name, structure): &(String, Structure)| match structure {
            Structure::Literal(literal) if !name.starts_with('*') => format!("{name}={literal}"),
            _ => name.clone(),
        };
        let list: Vec<String> = arguments.iter().map(parameter).collect();
        self.parameters = arguments.iter().map(|(name, _)| name.clone()).collect();
        self.name_tensors(arguments);
        let list = list.iter().map(|parameter| format!(", {parameter}"));
        Some(format!("def forward(self{}):", list.collect::<String>()))
    }

    fn name_tensors(&mut self, arguments: &[(String, Structure)]) {
        let tensors = arguments.iter().filter_map(|(name, structure)| match structure {
            Structure::Tensor(position) => Some((*position, name.clone())),
            _ => None,
        });
        self.named = tensors.collect();
    }

    /// Takes apart the arguments that are no tensors themselves.
    fn take_leaves(&mut self) -> Result<()> {
        let arguments = self.arguments().unwrap_or_default();
        let parts = arguments
            .iter()
            .filter(|(_, s)| !matches!(s, Structure::Tensor(_)));
        let parts: Vec<_> = parts.collect();
        if !parts.is_empty() {
            self.line("leaves = {}");
        }
        for (name, structure) in parts {
            let name = name.trim_start_matches('*');
            self.line(format!(
                "akg_leaves(\"{name}\", {name}, {}, leaves)",
                structure.pattern()?
            ));
        }
        Ok(())
    }

    /// Takes the parameters of a function's head, if each argument has one.
    fn take_parameters(&mut self, head: &str) -> bool {
        let mut names = parameters(head).unwrap_or_default();
        names.drain(..names.len().min(1));
        let last = self.places.iter().filter_map(Value::as_u64).max();
        let enough = match self.arguments() {
            Some(arguments) => arguments.iter().map(|(name, _)| name).eq(&names),
            None => last.is_some_and(|last| (last as usize) < names.len()),
        };
        if enough {
            self.named = (0..).zip(names.iter().cloned()).collect();
            if let Some(arguments) = self.arguments() {
                self.name_tensors(arguments);
            }
            self.parameters = names;
        }
        enough
    }

    /// Names that variables cannot have.
    fn names(&self) -> Names {
        let mut names = Names::new();
        for name in ["self", "arguments", "leaves", "device", "torch", "nn"] {
            names.fresh(name);
        }
        for dim in &self.plan.dims {
            names.fresh(dim);
        }
        names
    }

    fn line(&mut self, text: impl Into<String>) {
        self.lines.push(text.into());
    }

    /// Returns true if an attribute of the module has the shape of complex numbers as pairs of real ones.
    fn may_be_complex(&self, path: &str) -> bool {
        let mut inputs = self.manifest.inputs.iter().zip(&self.places);
        let port = inputs.find_map(|(port, place)| (place.as_str() == Some(path)).then_some(port));
        let is_pair = |port: &Port| port.shape.last().is_some_and(|extent| extent.is(2));
        port.is_some_and(|port| port.dtype.is_float() && is_pair(port))
    }

    /// The text that finds an input.
    fn find(&self, place: &Value) -> String {
        match place {
            Value::String(path) if self.may_be_complex(path) => format!("akg_real({})", attribute(path)),
            Value::String(path) => attribute(path),
            position => {
                let at = position.as_u64().and_then(|at| usize::try_from(at).ok());
                let name = at.and_then(|at| self.named.get(&at));
                name.cloned().unwrap_or_else(|| format!("leaves[{position}]"))
            }
        }
    }

    /// The method, with the head that it had or one of its own.
    fn text(mut self, head: Option<&str>, spaces: &str) -> Result<String> {
        let manifest = self.manifest;
        let plan = &self.plan.clone();
        let known = if self.parameters.is_empty() {
            self.known_head()
        } else {
            None
        };
        let own = match (known, self.parameters.as_slice()) {
            (Some(head), _) => head,
            (None, []) => "def forward(self, *arguments):".to_owned(),
            (None, names) => format!("def forward(self, {}):", names.join(", ")),
        };
        if self.arguments().is_some() {
            self.take_leaves()?;
        } else if self.parameters.is_empty() && self.places.iter().any(Value::is_u64) {
            self.line("leaves = torch.utils._pytree.tree_leaves(arguments)");
        }
        let all: Vec<(usize, &PlanTensor)> = plan.with_role(TensorRole::Input).collect();
        let (inputs, constants) = all.split_at(manifest.inputs.len().min(all.len()));
        let places = self.places.clone();
        let found: Vec<String> = places.iter().map(|place| self.find(place)).collect();
        let mut names = self.names();
        for parameter in &self.parameters {
            names.fresh(parameter.trim_start_matches('*'));
        }
        let mut variables: Vec<String> = plan.tensors.iter().map(|_| String::new()).collect();
        // An argument keeps its name, unless it is written to at the end.
        let kept = |name: &String, port: &Port| {
            let is_updated = manifest
                .outputs
                .iter()
                .any(|o| o.updates.as_ref() == Some(&port.name));
            self.parameters.contains(name) && !is_updated
        };
        for (((at, _), found), port) in inputs.iter().zip(&found).zip(&manifest.inputs) {
            if let (Some(variable), true) = (variables.get_mut(*at), kept(found, port)) {
                variable.clone_from(found);
            }
        }
        for (variable, tensor) in variables.iter_mut().zip(&plan.tensors) {
            if variable.is_empty() {
                *variable = names.fresh(&tensor.name);
            }
        }
        let name = |tensor: usize| variables.get(tensor).map_or("", String::as_str);
        for (dim, variable) in dim_sources(manifest)?.iter().zip(&plan.dims) {
            let input = found.get(dim.input).map_or("", String::as_str);
            let (dim_name, axis) = (python_string(&dim.name), dim.axis);
            self.line(format!(
                "{variable} = akg_dim({dim_name}, {input}, {axis}, {}, {})",
                dim.lo, dim.hi
            ));
        }
        let (seeds, passed): (Vec<_>, Vec<_>) = inputs.iter().zip(&places).partition(|(_, p)| p.is_null());
        let ports = manifest.inputs.iter().zip(&found).zip(&places);
        let ports = ports.filter(|(_, place)| !place.is_null()).map(|(port, _)| port);
        for (((at, tensor), _), (port, found)) in passed.iter().zip(ports) {
            let (dtype, shape, port_name) =
                (torch_type(tensor.dtype), shape(tensor), python_string(&port.name));
            let given = match &port.layout {
                None => found.clone(),
                Some(layout) => {
                    let (shape, strides) = (&layout.shape, &layout.strides);
                    format!("akg_storage({port_name}, {found}, {shape:?}, {strides:?})")
                }
            };
            self.line(format!(
                "{} = akg_input({port_name}, {given}, {dtype}, {shape})",
                name(*at)
            ));
        }
        // A call runs where its arguments are.
        let given = passed.iter().find(|(_, place)| place.is_u64());
        let first = given.or(passed.first()).map(|((at, _), _)| *at);
        self.line(first.map_or_else(
            || "device = torch.device(\"cuda\")".to_owned(),
            |at| format!("device = {}.device", name(at)),
        ));
        for ((at, tensor), _) in seeds {
            let dtype = torch_type(tensor.dtype);
            self.line(format!(
                "{} = torch.randint(2**63 - 1, (), dtype={dtype}, device=device)",
                name(*at)
            ));
        }
        for (number, (at, _)) in constants.iter().enumerate() {
            self.line(format!("{} = akg_constant({number}, device)", name(*at)));
        }
        // An output that updates an input stands in its place.
        for (output, input) in plan.updates() {
            if let Some(variable) = variables.get(input).cloned()
                && let Some(own) = variables.get_mut(output)
            {
                *own = variable;
            }
        }
        let name = |tensor: usize| variables.get(tensor).map_or("", String::as_str);
        // Each is made when a kernel first needs it, so that the device has work while the later ones are made.
        let mut unmade: BTreeMap<usize, &PlanTensor> = plan
            .with_role(TensorRole::Output)
            .chain(plan.with_role(TensorRole::Scratch))
            .filter(|(_, tensor)| tensor.updates.is_none())
            .collect();
        for launch in &plan.launches {
            for at in &launch.tensors {
                if let Some(tensor) = unmade.remove(at) {
                    self.line(empty(name(*at), tensor));
                }
            }
            let arguments = launch.tensors.iter().map(|t| name(*t).to_owned());
            let arguments: Vec<String> = arguments.chain(plan.dims.iter().map(|d| d.to_string())).collect();
            let cooperative = if launch.cooperative {
                ", launch_cooperative_grid=True"
            } else {
                ""
            };
            self.line(format!(
                "akg_launch({}, {}, {}{cooperative})",
                launch.kernel,
                programs(&launch.grid),
                arguments.join(", ")
            ));
        }
        // What no kernel writes has no elements.
        for (at, tensor) in plan.with_role(TensorRole::Output) {
            if unmade.contains_key(&at) {
                self.line(empty(name(at), tensor));
            }
        }
        let outputs: Vec<(String, bool)> = plan
            .with_role(TensorRole::Output)
            .map(|(at, tensor)| (name(at).to_owned(), tensor.updates.is_some()))
            .collect();
        self.results(&manifest.outputs, outputs)?;
        let head = head.map_or(own, str::to_owned);
        let mut text = format!("{spaces}{head}\n");
        for line in &self.lines {
            for part in statement(1, line).lines() {
                let _ = writeln!(text, "{spaces}{part}");
            }
        }
        Ok(text)
    }

    /// Writes new contents where they belong and returns the rest. Names come with whether they stand in the place of an input.
    fn results(&mut self, outputs: &[Port], names: Vec<(String, bool)>) -> Result<()> {
        let mut results = Vec::new();
        for ((name, in_place), port) in names.into_iter().zip(outputs) {
            let mut inputs = self.manifest.inputs.iter().zip(&self.places);
            let updated = port.updates.as_ref();
            match updated.and_then(|updated| inputs.find(|(input, _)| input.name == *updated)) {
                Some((_, place)) => {
                    let found = self.find(place);
                    // A tensor may take part in gradients, which this has no part in.
                    let copy = format!("{found}.detach().copy_({name})");
                    if in_place {
                        self.line(format!("if {found}.data_ptr() != {name}.data_ptr():"));
                        self.line(format!("    {copy}"));
                    } else {
                        self.line(copy);
                    }
                }
                None => results.push(name),
            }
        }
        let returned = match (&self.manifest.call, results.as_slice()) {
            (Some(call), _) => call.results.expression(
                &|output| results.get(output).cloned().unwrap_or_default(),
                &|argument| self.find(&argument.into()),
            )?,
            (None, [one]) => one.clone(),
            (None, _) => tuple(results.into_iter()),
        };
        self.line(format!("return {returned}"));
        Ok(())
    }
}

/// The text for an attribute of the module, from its path.
fn attribute(path: &str) -> String {
    let step = |found: String, step: &str| {
        let (name, entries) = step.split_at(step.find('[').unwrap_or(step.len()));
        let is_word = name.chars().all(|c| c.is_alphanumeric() || c == '_')
            && name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if is_word && !PYTHON_RESERVED.contains(&name) {
            format!("{found}.{name}{entries}")
        } else {
            format!("getattr({found}, {}){entries}", python_string(name))
        }
    };
    path.split('.').fold("self".to_owned(), step)
}

/// The number of programs, from the extents of the grid.
fn programs(grid: &[Expr]) -> String {
    let constant = grid
        .iter()
        .map(Expr::as_const)
        .try_fold(1i64, |n, extent| n.checked_mul(extent?.max(0)));
    match constant {
        Some(number) => number.to_string(),
        None => {
            let extents: Vec<_> = grid.iter().map(|extent| format!("max({extent}, 0)")).collect();
            extents.join(" * ")
        }
    }
}

/// Makes a tensor without contents.
fn empty(name: &str, tensor: &PlanTensor) -> String {
    let (shape, dtype) = (shape(tensor), torch_type(tensor.dtype));
    format!("{name} = torch.empty({shape}, dtype={dtype}, device=device)")
}

fn shape(tensor: &PlanTensor) -> String {
    tuple(tensor.shape.iter().map(Expr::to_string))
}
