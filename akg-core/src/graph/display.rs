//! The printed form of a graph.

use std::fmt;

use super::{Arg, Graph, InputKind, Node, ValueId};

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, &|v| format!("%{}", v.index()))
    }
}

impl Arg {
    fn write(&self, f: &mut fmt::Formatter<'_>, name: &dyn Fn(ValueId) -> String) -> fmt::Result {
        fn list<T>(f: &mut fmt::Formatter<'_>, items: &[T], show: impl Fn(&T) -> String) -> fmt::Result {
            let items: Vec<_> = items.iter().map(show).collect();
            write!(f, "[{}]", items.join(", "))
        }
        match self {
            Arg::None => f.write_str("none"),
            Arg::Value(v) => f.write_str(&name(*v)),
            Arg::Values(vs) => list(f, vs, |v| v.map_or("none".to_owned(), name)),
            Arg::Bool(v) => write!(f, "{v}"),
            Arg::Int(v) => write!(f, "{v}"),
            Arg::Ints(vs) => list(f, vs, ToString::to_string),
            Arg::Float(v) => write!(f, "{v:?}"),
            Arg::Floats(vs) => list(f, vs, |v| format!("{v:?}")),
            Arg::Str(s) => write!(f, "\"{s}\""),
            Arg::DType(d) => write!(f, "{d}"),
        }
    }
}

/// One line for each input, constant and node, then the outputs:
///
/// ```text
/// graph mlp
///   input x: f32[16, 64]
///   weight w: f32[4, 64]
///   linear: f32[16, 4] = linear.default(input=x, weight=w)
///   return linear
/// ```
///
/// Arguments that have the schema's default are left out.
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let typed = |v: ValueId| match self.value(v) {
            Some(value) => format!("{}: {}", value.name, value.ty),
            None => "?".to_owned(),
        };
        writeln!(f, "graph {}", self.name)?;
        for input in &self.inputs {
            let kind = match input.kind {
                InputKind::Activation => "input",
                InputKind::Weight => "weight",
                InputKind::State => "state",
            };
            write!(f, "  {kind} {}", typed(input.value))?;
            match &input.layout {
                Some(layout) => writeln!(f, ", the storage of {layout}")?,
                None => writeln!(f)?,
            }
        }
        for constant in &self.constants {
            writeln!(f, "  constant {}", typed(constant.value))?;
        }
        for node in &self.nodes {
            let outputs: Vec<_> = node.outputs.iter().map(|v| typed(*v)).collect();
            let equals = if outputs.is_empty() { "" } else { " = " };
            write!(f, "  {}{equals}", outputs.join(", "))?;
            self.write_call(f, node)?;
        }
        let outputs = self.outputs.iter().map(|o| match o.updates {
            Some(state) => format!("{} -> {}", self.short_name(o.value), self.short_name(state)),
            None => self.short_name(o.value),
        });
        writeln!(f, "  return {}", outputs.collect::<Vec<_>>().join(", "))
    }
}

impl Graph {
    fn short_name(&self, value: ValueId) -> String {
        self.value(value).map_or("?".to_owned(), |v| v.name.clone())
    }

    fn write_call(&self, f: &mut fmt::Formatter<'_>, node: &Node) -> fmt::Result {
        write!(f, "{}(", node.op.name())?;
        let parameters = node.op.schema().parameters.iter();
        let given = parameters
            .zip(&node.args)
            .filter(|(p, arg)| p.default.as_ref() != Some(*arg));
        for (at, (parameter, arg)) in given.enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            write!(f, "{comma}{}=", parameter.name)?;
            arg.write(f, &|v| self.short_name(v))?;
        }
        writeln!(f, ")")
    }
}
