//! The JSON form of a graph.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use super::limits::limit;
use super::ops::{Parameter, ParameterKind};
use super::{
    Arg, Graph, InputKind, Layout, MAX_EXTENT_PARTS, MAX_INPUTS, MAX_LIST, MAX_NODES, MAX_OUTPUTS, Node,
    Operator, Output, TensorType, ValueId,
};
use crate::dtype::DType;
use crate::error::{Error, Result, ResultExt};
use crate::expr::Expr;
use crate::tensor::Tensor;

/// The version of the form that this library reads and writes.
const VERSION: u32 = 1;

#[derive(Deserialize)]
struct Header {
    akg_graph: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    akg_graph: u32,
    name: String,
    inputs: Vec<InputEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    constants: Vec<ConstantEntry>,
    nodes: Vec<NodeEntry>,
    outputs: Vec<OutputEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct InputEntry {
    name: String,
    dtype: DType,
    shape: Vec<Expr>,
    #[serde(default)]
    kind: InputKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    layout: Option<Layout>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantEntry {
    name: String,
    dtype: DType,
    shape: Vec<usize>,
    data: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeEntry {
    op: String,
    #[serde(default)]
    args: Map<String, Json>,
    outputs: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    types: Option<Vec<TensorType>>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct OutputEntry {
    value: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    updates: Option<String>,
}

impl Graph {
    /// Reads the JSON form, version 1:
    ///
    /// ```json
    /// {"akg_graph": 1, "name": "gemm",
    ///  "inputs": [{"name": "x", "dtype": "f32", "shape": [16, "N"], "kind": "activation"}],
    ///  "constants": [{"name": "c", "dtype": "f32", "shape": [2], "data": "AAAAAAAAgD8="}],
    ///  "nodes": [{"op": "aten.linear.default", "args": {"input": "x", "weight": "w", "bias": null},
    ///             "outputs": ["y"], "types": [{"dtype": "f32", "shape": [16, 4]}]}],
    ///  "outputs": [{"value": "y"}, {"value": "mean_new", "updates": "running_mean"}]}
    /// ```
    ///
    /// Arguments go by the names of ATen's schema; those left out take its defaults. The schema says how a value is read:
    /// tensors are names, sizes integers or expressions (`"2*N"`), numbers may be `"inf"`, `"-inf"` or `"nan"`, element
    /// types akg's names. An input may have a `"layout": {"shape": [8, 4], "strides": [1, 8]}`, of which it is the storage
    /// ([`Layout`]). Constants are base64 of their little-endian, row-major bytes. `types` are optional; where
    /// present they must be what inference finds.
    ///
    /// An error names the node that is wrong; operators that akg lacks are reported all at once
    /// ([`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported)).
    pub fn from_json(text: &str) -> Result<Graph> {
        let malformed =
            |e: serde_json::Error| Error::invalid("this is not a graph in JSON form").caused_by(e);
        let header: Header = serde_json::from_str(text).map_err(malformed)?;
        if header.akg_graph != VERSION {
            return Err(Error::unsupported(format!(
                "the graph has version {}, but this akg reads version {VERSION}",
                header.akg_graph
            )));
        }
        let document: Document = serde_json::from_str(text).map_err(malformed)?;
        let name = document.name.clone();
        Self::from_document(document).context("graph", || name)
    }

    /// Writes the form that [`from_json`](Self::from_json) reads, with types.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(&self.document()?)
            .map_err(|e| Error::unexpected("writing a graph as JSON").caused_by(e))
    }

    fn from_document(document: Document) -> Result<Graph> {
        limit("nodes", document.nodes.len(), MAX_NODES)?;
        let given = document.inputs.len() + document.constants.len();
        limit("inputs and constants", given, MAX_INPUTS)?;
        limit("outputs", document.outputs.len(), MAX_OUTPUTS)?;
        let names = document.inputs.iter().map(|input| &input.name);
        let names = names.chain(document.constants.iter().map(|constant| &constant.name));
        let names = names.chain(document.nodes.iter().flat_map(|node| &node.outputs));
        Graph::check_names(names.map(String::as_str).chain([document.name.as_str()]))?;
        report_missing_operators(&document.nodes)?;
        let mut graph = Graph::new(document.name);
        for input in document.inputs {
            graph.require_free(&input.name)?;
            let ty = TensorType::new(input.dtype, input.shape);
            ty.check_size().context("input", || input.name.clone())?;
            graph.add_input(&input.name, ty, input.kind, input.layout);
        }
        for constant in document.constants {
            graph.require_free(&constant.name)?;
            let bytes = BASE64.decode(&constant.data).map_err(|e| {
                Error::invalid(format!(
                    "the data of the constant `{}` is not base64",
                    constant.name
                ))
                .caused_by(e)
            })?;
            let bytes = swap_on_big_endian(bytes, constant.dtype.size());
            let tensor = Tensor::from_bytes(constant.dtype, constant.shape, &bytes)
                .context("constant", || constant.name.clone())?;
            graph.constant(&constant.name, tensor);
        }
        let mut parts: usize = graph.values.iter().map(|value| value.ty.parts()).sum();
        for (at, node) in document.nodes.iter().enumerate() {
            let name = node
                .outputs
                .first()
                .cloned()
                .unwrap_or_else(|| format!("{} (node {at})", node.op));
            let before = graph.values.len();
            graph.read_node(node).context("node", || name)?;
            let new = graph.values.iter().skip(before);
            parts += new.map(|value| value.ty.parts()).sum::<usize>();
            limit("terms in its extents", parts, MAX_EXTENT_PARTS)?;
        }
        for output in document.outputs {
            let value = graph.named(&output.value)?;
            let updates = output.updates.map(|name| graph.named(&name)).transpose()?;
            graph.outputs.push(Output { value, updates });
        }
        graph.validate()?;
        Ok(graph)
    }

    fn require_free(&self, name: &str) -> Result<()> {
        match self.find(name) {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!("the name `{name}` is defined twice"))),
        }
    }

    fn named(&self, name: &str) -> Result<ValueId> {
        self.find(name)
            .ok_or_else(|| Error::invalid(format!("`{name}` is used but not defined before")))
    }

    fn read_node(&mut self, node: &NodeEntry) -> Result<()> {
        let op = Operator::require(&node.op)?;
        let mut args = Vec::with_capacity(node.args.len());
        for (name, json) in &node.args {
            let parameter = op.schema().parameters.iter().find(|p| p.name == *name);
            let arg = match parameter {
                Some(parameter) => self
                    .read_arg(parameter, json)
                    .context("argument", || name.clone())?,
                None => Arg::None,
            };
            args.push((name.as_str(), arg));
        }
        let args = op.arrange(args)?;
        for (at, name) in node.outputs.iter().enumerate() {
            self.require_free(name)?;
            if node.outputs.iter().take(at).any(|other| other == name) {
                return Err(Error::invalid(format!("the name `{name}` is defined twice")));
            }
        }
        let names: Vec<&str> = node.outputs.iter().map(String::as_str).collect();
        let results = self.push(op, args, &names)?;
        if results.len() != names.len() {
            return Err(Error::invalid(format!(
                "`{}` has {} results here, but {} outputs are named",
                node.op,
                results.len(),
                names.len()
            )));
        }
        let Some(declared) = &node.types else {
            return Ok(());
        };
        let inferred: Vec<_> = results.iter().map(|v| self.ty(*v).clone()).collect();
        if *declared == inferred {
            return Ok(());
        }
        let list = |types: &[TensorType]| {
            types
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ")
        };
        Err(Error::invalid(format!(
            "the declared types [{}] of `{}` are not the inferred types [{}]",
            list(declared),
            node.op,
            list(&inferred)
        )))
    }

    fn read_arg(&self, parameter: &Parameter, json: &Json) -> Result<Arg> {
        let wrong = || {
            Error::invalid(format!(
                "expected {}, found {}",
                parameter.describe(),
                excerpt(json)
            ))
        };
        if let Json::Array(list) = json {
            limit("entries in one list", list.len(), MAX_LIST)?;
        }
        let value = |json: &Json| self.named(json.as_str().ok_or_else(wrong)?);
        Ok(match (parameter.kind, json) {
            (ParameterKind::Ignored, _) | (_, Json::Null) => Arg::None,
            (ParameterKind::Tensor, json) => Arg::Value(value(json)?),
            (ParameterKind::Tensors, Json::Array(list)) => {
                let entry = |json: &Json| {
                    if json.is_null() {
                        Ok(None)
                    } else {
                        value(json).map(Some)
                    }
                };
                Arg::Values(list.iter().map(entry).collect::<Result<_>>()?)
            }
            (ParameterKind::Scalar, Json::Bool(v)) => Arg::Bool(*v),
            (ParameterKind::Scalar, json) => match (float(json), size(json)) {
                (_, Ok(size)) if !matches!(json, Json::String(s) if non_finite(s).is_some()) => {
                    Arg::Int(size)
                }
                (Some(v), _) => Arg::Float(v),
                _ => return Err(wrong()),
            },
            (ParameterKind::Float, json) => Arg::Float(float(json).ok_or_else(wrong)?),
            (ParameterKind::Floats, Json::Array(list)) => {
                Arg::Floats(list.iter().map(float).collect::<Option<_>>().ok_or_else(wrong)?)
            }
            (ParameterKind::Int, json) => Arg::Int(size(json)?),
            (ParameterKind::Ints, Json::Array(list)) => {
                Arg::Ints(list.iter().map(size).collect::<Result<_>>()?)
            }
            (ParameterKind::Ints, json) => Arg::Int(size(json)?),
            (ParameterKind::Bool, Json::Bool(v)) => Arg::Bool(*v),
            (ParameterKind::Str, Json::String(s)) => Arg::Str(s.clone()),
            (ParameterKind::DType, Json::String(s)) => Arg::DType(s.parse()?),
            _ => return Err(wrong()),
        })
    }

    fn document(&self) -> Result<Document> {
        let name = |v: ValueId| self.value_name(v).to_owned();
        let inputs = self.inputs.iter().map(|input| InputEntry {
            name: name(input.value),
            dtype: self.ty(input.value).dtype,
            shape: self.ty(input.value).shape.clone(),
            kind: input.kind,
            layout: input.layout.clone(),
        });
        let constants = self.constants.iter().map(|constant| ConstantEntry {
            name: name(constant.value),
            dtype: constant.tensor.dtype(),
            shape: constant.tensor.shape().to_vec(),
            data: BASE64.encode(swap_on_big_endian(
                constant.tensor.bytes().to_vec(),
                constant.tensor.dtype().size(),
            )),
        });
        let outputs = self.outputs.iter().map(|output| OutputEntry {
            value: name(output.value),
            updates: output.updates.map(name),
        });
        self.validate()?;
        Ok(Document {
            akg_graph: VERSION,
            name: self.name.clone(),
            inputs: inputs.collect(),
            constants: constants.collect(),
            nodes: self.nodes.iter().map(|n| self.write_node(n)).collect(),
            outputs: outputs.collect(),
        })
    }

    fn write_node(&self, node: &Node) -> NodeEntry {
        let parameters = node.op.schema().parameters.iter();
        let given = parameters
            .zip(&node.args)
            .filter(|(p, arg)| p.default.as_ref() != Some(*arg));
        NodeEntry {
            op: node.op.qualified_name(),
            args: given
                .map(|(p, arg)| (p.name.clone(), self.write_arg(arg)))
                .collect(),
            outputs: node
                .outputs
                .iter()
                .map(|v| self.value_name(*v).to_owned())
                .collect(),
            types: Some(node.outputs.iter().map(|v| self.ty(*v).clone()).collect()),
        }
    }

    fn write_arg(&self, arg: &Arg) -> Json {
        let size = |e: &Expr| e.as_const().map_or_else(|| Json::from(e.to_string()), Json::from);
        let float = |v: f64| {
            let word = if v.is_nan() {
                "nan"
            } else if v > 0.0 {
                "inf"
            } else {
                "-inf"
            };
            serde_json::Number::from_f64(v).map_or_else(|| Json::from(word), Json::Number)
        };
        let value = |v: ValueId| Json::from(self.value_name(v));
        match arg {
            Arg::None => Json::Null,
            Arg::Value(v) => value(*v),
            Arg::Values(list) => list.iter().map(|v| v.map_or(Json::Null, value)).collect(),
            Arg::Bool(v) => Json::from(*v),
            Arg::Int(e) => size(e),
            Arg::Ints(list) => list.iter().map(size).collect(),
            Arg::Float(v) => float(*v),
            Arg::Floats(list) => list.iter().copied().map(float).collect(),
            Arg::Str(s) => Json::from(s.as_str()),
            Arg::DType(d) => Json::from(d.name()),
        }
    }
}

fn report_missing_operators(nodes: &[NodeEntry]) -> Result<()> {
    let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
    for node in nodes.iter().filter(|n| Operator::find(&n.op).is_none()) {
        *missing.entry(&node.op).or_default() += 1;
    }
    if missing.is_empty() {
        return Ok(());
    }
    const NAMED: usize = 100;
    let list = missing.iter().take(NAMED).map(|(op, count)| {
        let plural = if *count == 1 { "call" } else { "calls" };
        format!("{op} ({count} {plural})")
    });
    let more = match missing.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(Error::unsupported(format!(
        "missing operators: {}{more}",
        list.collect::<Vec<_>>().join(", ")
    )))
}

fn non_finite(text: &str) -> Option<f64> {
    match text {
        "inf" => Some(f64::INFINITY),
        "-inf" => Some(f64::NEG_INFINITY),
        "nan" => Some(f64::NAN),
        _ => None,
    }
}

fn float(json: &Json) -> Option<f64> {
    match json {
        Json::String(s) => non_finite(s),
        other => other.as_f64(),
    }
}

fn size(json: &Json) -> Result<Expr> {
    let bad = || {
        let found = excerpt(json);
        Error::invalid(format!("expected an integer or an expression, found {found}"))
    };
    match json {
        Json::String(text) => Expr::parse(text),
        other => other.as_i64().map(Expr::constant).ok_or_else(bad),
    }
}

/// The beginning of a value's text, for messages.
fn excerpt(json: &Json) -> String {
    const LENGTH: usize = 80;
    let text = json.to_string();
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// Between the little-endian bytes of the file and the native ones of a tensor.
fn swap_on_big_endian(mut bytes: Vec<u8>, element: usize) -> Vec<u8> {
    if cfg!(target_endian = "big") {
        bytes.chunks_mut(element).for_each(<[u8]>::reverse);
    }
    bytes
}
