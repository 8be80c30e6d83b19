//! What the text of a PyTorch module needs to know of a bundle, whatever runs its kernels.

use serde_json::{Value, json};

use super::{Manifest, ModuleInput, Port};
use crate::error::{Error, Result};
use crate::expr::{Expr, Symbol};
use crate::graph::InputKind;

/// Python's keywords, and the names that text made of a bundle's extents calls.
pub const PYTHON_RESERVED: &[&str] = &[
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "max", "min", "nonlocal", "not", "or", "pass", "raise", "return", "self", "try", "while",
    "with", "yield",
];

/// A text as a Python string.
pub fn python_string(text: &str) -> String {
    // JSON's escapes mean the same in Python.
    json!(text).to_string()
}

/// Where a dim's value comes from in a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DimSource {
    /// The dim.
    pub name: Symbol,
    /// Its position in the plan.
    pub position: usize,
    /// The input, by its position in the manifest, of which it is an extent.
    pub input: usize,
    /// The axis of that extent.
    pub axis: usize,
    /// The least value that the contract holds for.
    pub lo: i64,
    /// The greatest.
    pub hi: i64,
}

/// Where the values of a bundle's dims come from, in the order of its plan.
///
/// # Errors
/// [`Unsupported`](crate::ErrorKind::Unsupported) for a dim that is no input's extent.
pub fn dim_sources(manifest: &Manifest) -> Result<Vec<DimSource>> {
    let source = |(position, name): (usize, &Symbol)| {
        let place = manifest.inputs.iter().enumerate().find_map(|(input, port)| {
            let axis = port
                .shape
                .iter()
                .position(|extent| extent.as_symbol() == Some(name))?;
            Some((input, axis))
        });
        let (input, axis) = place.ok_or_else(|| {
            Error::unsupported(format!(
                "no input of the bundle has the dim `{name}` as an extent"
            ))
        })?;
        let range = manifest.contract.ranges.get(name);
        Ok(DimSource {
            name: name.clone(),
            position,
            input,
            axis,
            lo: range.map_or(1, |r| r.lo),
            hi: range.map_or(i64::MAX, |r| r.hi),
        })
    };
    manifest.plan.dims.iter().enumerate().map(source).collect()
}

/// Where a module finds each input: a position among the arguments of `forward`, the path of an attribute, or null for a
/// seed to draw.
pub fn places(manifest: &Manifest) -> Vec<Value> {
    if !manifest.module.is_empty() {
        let place = |input: &ModuleInput| match input {
            ModuleInput::Attribute(path) => json!(path),
            ModuleInput::Argument(position) => json!(position),
            ModuleInput::Seed {} => Value::Null,
        };
        return manifest.module.iter().map(place).collect();
    }
    let mut arguments = 0..;
    let place = |port: &Port| match port.kind {
        Some(InputKind::Weight | InputKind::State) => json!(port.name),
        _ => json!(arguments.next()),
    };
    manifest.inputs.iter().map(place).collect()
}

/// A constructor that makes the weights in the graph's order, for a task without a module. `dtype` gives the text of an
/// element type. Empty if there are none.
///
/// # Errors
/// [`Unsupported`](crate::ErrorKind::Unsupported) for weights of symbolic extents.
pub fn constructor(inputs: &[Port], dtype: &dyn Fn(&Port) -> String) -> Result<String> {
    let mut lines = Vec::new();
    for port in inputs {
        let parameter = match port.kind {
            Some(InputKind::Weight) if port.dtype.is_float() => true,
            Some(InputKind::Weight | InputKind::State) => false,
            _ => continue,
        };
        let name = python_string(&port.name);
        if port.shape.iter().any(|extent| extent.as_const().is_none()) {
            return Err(Error::unsupported(format!(
                "the weight {name} has symbolic extents, which a PyTorch module cannot construct"
            )));
        }
        let shape = tuple(port.shape.iter().map(Expr::to_string));
        let dtype = dtype(port);
        lines.push(match (parameter, port.dtype.is_float()) {
            (true, _) => {
                format!("self.register_parameter({name}, nn.Parameter(torch.randn({shape}).to({dtype})))")
            }
            (_, true) => format!("self.register_buffer({name}, torch.randn({shape}).to({dtype}))"),
            _ => format!("self.register_buffer({name}, torch.zeros({shape}, dtype={dtype}))"),
        });
    }
    if lines.is_empty() {
        return Ok(String::new());
    }
    Ok(format!(
        "    def __init__(self):\n        super().__init__()\n        {}\n\n",
        lines.join("\n        ")
    ))
}

/// A Python tuple.
pub fn tuple(items: impl Iterator<Item = String>) -> String {
    match items.collect::<Vec<_>>().as_slice() {
        [one] => format!("({one},)"),
        items => format!("({})", items.join(", ")),
    }
}
