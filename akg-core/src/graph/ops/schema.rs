//! ATen's schema syntax.

use super::Arg;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;

/// The kinds of parameter that ATen's schemas have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParameterKind {
    /// `Tensor`.
    Tensor,
    /// `Tensor[]` and `Tensor?[]`.
    Tensors,
    /// `Scalar`: an integer, floating or boolean number.
    Scalar,
    /// `int` and `SymInt`.
    Int,
    /// `int[]`, `int[2]`, `SymInt[]`, …
    Ints,
    /// `float`.
    Float,
    /// `float[]`.
    Floats,
    /// `bool`.
    Bool,
    /// `str`.
    Str,
    /// `ScalarType`.
    DType,
    /// `Layout`, `Device`, `MemoryFormat`, `Generator`: accepted and ignored.
    Ignored,
}

/// One parameter of a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// ATen's name for it.
    pub name: String,
    /// What it accepts.
    pub kind: ParameterKind,
    /// The length of a list that is written `int[2]`, for which a lone integer stands for every entry.
    pub length: Option<usize>,
    /// Whether it may be [`Arg::None`].
    pub optional: bool,
    /// The value when it is not given; `None` if it must be.
    pub default: Option<Arg>,
}

/// A parsed schema.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// `aten` unless the schema has another.
    pub namespace: String,
    /// Name and overload: `softmax.int`.
    pub name: String,
    /// The parameters in order, keyword-only ones included.
    pub parameters: Vec<Parameter>,
    /// The number of results; `None` for a list of tensors.
    pub results: Option<usize>,
}

impl Schema {
    /// Parses `name.overload(Tensor self, int dim=0, *, bool flag=False) -> (Tensor, Tensor)`.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |what: &str| Error::unexpected(format!("{what} in the operator schema `{text}`"));
        let (head, results) = text.split_once(" -> ").ok_or_else(|| bad("no result"))?;
        let (name, parameters) = head.split_once('(').ok_or_else(|| bad("no parameter list"))?;
        let (namespace, name) = name.split_once("::").unwrap_or(("aten", name));
        let parameters = parameters
            .strip_suffix(')')
            .ok_or_else(|| bad("unclosed parameter list"))?;
        let parameters = split_top_level(parameters)
            .filter(|p| *p != "*")
            .map(|p| Parameter::parse(p).ok_or_else(|| bad(&format!("bad parameter `{p}`"))))
            .collect::<Result<_>>()?;
        let results = match results.trim() {
            "()" => Some(0),
            "Tensor[]" => None,
            list => Some(list.split(',').count()),
        };
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            parameters,
            results,
        })
    }
}

/// Splits at the commas outside brackets.
fn split_top_level(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        depth += match c {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        c == ',' && depth == 0
    })
    .map(str::trim)
    .filter(|p| !p.is_empty())
}

impl Parameter {
    fn parse(text: &str) -> Option<Self> {
        let (ty, rest) = text.split_once(' ')?;
        let (name, default) = match rest.split_once('=') {
            Some((name, default)) => (name, Some(default)),
            None => (rest, None),
        };
        let (base, optional) = match ty.strip_suffix('?') {
            Some(base) => (base, true),
            None => (ty, false),
        };
        let kind = match base.split_once('[') {
            Some(("Tensor" | "Tensor?", _)) => ParameterKind::Tensors,
            Some(("int" | "SymInt", _)) => ParameterKind::Ints,
            Some(("float", _)) => ParameterKind::Floats,
            Some(_) => return None,
            None => match base {
                "Tensor" => ParameterKind::Tensor,
                "Scalar" => ParameterKind::Scalar,
                "int" | "SymInt" => ParameterKind::Int,
                "float" => ParameterKind::Float,
                "bool" => ParameterKind::Bool,
                "str" => ParameterKind::Str,
                "ScalarType" => ParameterKind::DType,
                "Layout" | "Device" | "MemoryFormat" | "Generator" => ParameterKind::Ignored,
                _ => return None,
            },
        };
        let length = base
            .split_once('[')
            .and_then(|(_, n)| n.strip_suffix(']')?.parse().ok());
        let default = match default {
            Some(text) => Some(parse_default(kind, length, text)?),
            None if kind == ParameterKind::Ignored => Some(Arg::None),
            None => None,
        };
        Some(Self {
            name: name.to_owned(),
            kind,
            length,
            optional: optional || kind == ParameterKind::Ignored,
            default,
        })
    }
}

fn parse_default(kind: ParameterKind, length: Option<usize>, text: &str) -> Option<Arg> {
    if text == "None" || kind == ParameterKind::Ignored {
        return Some(Arg::None);
    }
    let int = |s: &str| s.trim().parse::<i64>().ok();
    match kind {
        ParameterKind::Bool => Some(Arg::Bool(text == "True")),
        ParameterKind::Str => Some(Arg::Str(text.trim_matches(['\'', '"']).to_owned())),
        ParameterKind::DType => text.parse::<DType>().ok().map(Arg::DType),
        ParameterKind::Ints => match text.strip_prefix('[') {
            Some(list) => {
                let list = list
                    .strip_suffix(']')?
                    .split(',')
                    .filter(|s| !s.trim().is_empty());
                Some(Arg::Ints(
                    list.map(|s| int(s).map(Expr::constant)).collect::<Option<_>>()?,
                ))
            }
            None => int(text).map(|v| Arg::Ints(vec![Expr::constant(v); length.unwrap_or(1)])),
        },
        ParameterKind::Int => int(text).map(|v| Arg::Int(Expr::constant(v))),
        ParameterKind::Scalar | ParameterKind::Float => match int(text) {
            Some(v) if kind == ParameterKind::Scalar => Some(Arg::Int(Expr::constant(v))),
            _ => text.parse().ok().map(Arg::Float),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_aten_writes() {
        let s = Schema::parse(
            "conv2d.default(Tensor input, Tensor weight, Tensor? bias=None, SymInt[2] stride=1, SymInt[2] padding=[0,0], \
             *, float eps=1e-05) -> (Tensor, Tensor)",
        )
        .unwrap();
        assert_eq!(
            (s.namespace.as_str(), s.name.as_str()),
            ("aten", "conv2d.default")
        );
        assert_eq!(s.results, Some(2));
        let names: Vec<_> = s.parameters.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["input", "weight", "bias", "stride", "padding", "eps"]);
        assert_eq!(s.parameters[3].default, Some(Arg::Ints(vec![1.into(), 1.into()])));
        assert_eq!(s.parameters[4].default, Some(Arg::Ints(vec![0.into(), 0.into()])));
        assert_eq!(s.parameters[5].default, Some(Arg::Float(1e-5)));
        assert!(s.parameters[2].optional && !s.parameters[1].optional);
    }
}
