//! Building graphs in Rust: inputs, constants, outputs and the generic call. The methods for single operators are in
//! the files of their families.

use std::collections::HashSet;

use super::ops::Call;
use super::{
    Arg, Constant, Graph, Input, InputKind, Layout, Node, Operator, Output, TensorType, Value, ValueId,
};
use crate::dtype::DType;
use crate::error::{Error, Result, ResultExt};
use crate::expr::Expr;
use crate::tensor::Tensor;

mod layers;
mod pointwise;
mod reduce;
mod shape;

pub use layers::Conv;

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// An input that differs at every call. Extents are integers, symbols (`"N"`) or expressions; a name that is taken
    /// gets a number.
    pub fn input<D: Into<Expr>>(
        &mut self,
        name: &str,
        dtype: DType,
        shape: impl IntoIterator<Item = D>,
    ) -> ValueId {
        self.add_input(name, TensorType::new(dtype, shape), InputKind::Activation, None)
    }

    /// An input that is a parameter: the same at every call until the caller changes it.
    pub fn weight<D: Into<Expr>>(
        &mut self,
        name: &str,
        dtype: DType,
        shape: impl IntoIterator<Item = D>,
    ) -> ValueId {
        self.add_input(name, TensorType::new(dtype, shape), InputKind::Weight, None)
    }

    /// An input that is a buffer, whose new content [`update`](Self::update) returns.
    pub fn state<D: Into<Expr>>(
        &mut self,
        name: &str,
        dtype: DType,
        shape: impl IntoIterator<Item = D>,
    ) -> ValueId {
        self.add_input(name, TensorType::new(dtype, shape), InputKind::State, None)
    }

    pub(crate) fn add_input(
        &mut self,
        name: &str,
        ty: TensorType,
        kind: InputKind,
        layout: Option<Layout>,
    ) -> ValueId {
        let value = self.define(name, ty);
        self.inputs.push(Input { value, kind, layout });
        value
    }

    /// A value known now.
    pub fn constant(&mut self, name: &str, tensor: Tensor) -> ValueId {
        let ty = TensorType::new(tensor.dtype(), tensor.shape().iter().copied());
        let value = self.define(name, ty);
        self.constants.push(Constant { value, tensor });
        value
    }

    /// Returns `value` to the caller.
    pub fn output(&mut self, value: ValueId) {
        self.outputs.push(Output { value, updates: None });
    }

    /// Returns `new` as the content that `state` has after the call. An error if `state` is not a state input of the
    /// same type.
    pub fn update(&mut self, state: ValueId, new: ValueId) -> Result<()> {
        let output = Output {
            value: new,
            updates: Some(state),
        };
        self.check_output(&output)?;
        if self.outputs.iter().any(|o| o.updates == Some(state)) {
            return Err(self.updated_twice(state));
        }
        self.outputs.push(output);
        Ok(())
    }

    /// Renames `value`; an error if it belongs to another graph or the name is taken.
    pub fn rename(&mut self, value: ValueId, name: &str) -> Result<()> {
        if self.find(name).is_some_and(|other| other != value) {
            return Err(Error::invalid(format!(
                "the name `{name}` is taken in graph `{}`",
                self.name
            )));
        }
        let slot = self.values.get_mut(value.index()).ok_or_else(foreign_value)?;
        self.names.remove(&slot.name);
        name.clone_into(&mut slot.name);
        self.names.insert(name.to_owned(), value);
        Ok(())
    }

    /// Calls any operator by its ATen name (`aten.softmax.int`), with arguments by the names of its schema; parameters
    /// that are not given take the schema's defaults. Returns one value for each result.
    ///
    /// An error says what is wrong with the arguments or how the operands' types do not fit.
    pub fn call<'a>(
        &mut self,
        op: &str,
        args: impl IntoIterator<Item = (&'a str, Arg)>,
    ) -> Result<Vec<ValueId>> {
        let op = Operator::require(op)?;
        let args = op.arrange(args).context("graph", || self.name.clone())?;
        self.push(op, args, &[])
    }

    /// [`call`](Self::call) of an operator with one result.
    fn call1<'a>(&mut self, op: &str, args: impl IntoIterator<Item = (&'a str, Arg)>) -> Result<ValueId> {
        let results = self.call(op, args)?;
        let single: [ValueId; 1] = results
            .try_into()
            .map_err(|_| Error::unexpected(format!("`{op}` does not have one result")))?;
        let [value] = single;
        Ok(value)
    }

    /// Appends a node. Its results take `names`, or names after the operator where there are none.
    pub(crate) fn push(
        &mut self,
        op: &'static Operator,
        args: Vec<Arg>,
        names: &[&str],
    ) -> Result<Vec<ValueId>> {
        if args.iter().flat_map(Arg::values).any(|v| self.value(v).is_none()) {
            return Err(foreign_value().with("operator", op.name()));
        }
        let types = self.infer(op, &args)?;
        for ty in &types {
            ty.check_size().map_err(|e| e.with("operator", op.name()))?;
        }
        let base = op.base_name().trim_start_matches('_');
        let named = types.into_iter().enumerate();
        let outputs: Vec<_> = named
            .map(|(at, ty)| self.define(names.get(at).unwrap_or(&base), ty))
            .collect();
        self.nodes.push(Node {
            op,
            args,
            outputs: outputs.clone(),
        });
        Ok(outputs)
    }

    pub(super) fn infer(&self, op: &'static Operator, args: &[Arg]) -> Result<Vec<TensorType>> {
        op.infer(&Call::new(op, args, &self.values))
    }

    /// Adds a value under a name that is made unique.
    fn define(&mut self, name: &str, ty: TensorType) -> ValueId {
        let mut unique = name.to_owned();
        while self.names.contains_key(&unique) {
            let suffix = self.suffixes.entry(name.to_owned()).or_default();
            *suffix += 1;
            unique = format!("{name}_{suffix}");
        }
        let id = ValueId(self.values.len() as u32);
        self.names.insert(unique.clone(), id);
        self.values.push(Value { name: unique, ty });
        id
    }

    /// Checks what the builder could not: that there is an output, that outputs and extents make sense.
    pub fn validate(&self) -> Result<()> {
        if self.outputs.is_empty() {
            return Err(Error::invalid(format!("graph `{}` has no output", self.name)));
        }
        self.check_layouts().context("graph", || self.name.clone())?;
        let mut updated = HashSet::new();
        for output in &self.outputs {
            self.check_output(output).context("graph", || self.name.clone())?;
            if let Some(state) = output.updates.filter(|state| !updated.insert(*state)) {
                return Err(self.updated_twice(state)).context("graph", || self.name.clone());
            }
        }
        for value in &self.values {
            value.ty.check_size().context("value", || value.name.clone())?;
            if value.ty.shape.iter().any(|d| d.as_const().is_some_and(|v| v < 0)) {
                return Err(Error::invalid(format!(
                    "`{}: {}` has a negative extent",
                    value.name, value.ty
                )));
            }
        }
        Ok(())
    }

    fn check_output(&self, output: &Output) -> Result<()> {
        let new = self.value(output.value).ok_or_else(foreign_value)?;
        let Some(state) = output.updates else {
            return Ok(());
        };
        let old = self.value(state).ok_or_else(foreign_value)?;
        if !self
            .inputs
            .iter()
            .any(|i| i.value == state && i.kind == InputKind::State)
        {
            return Err(Error::invalid(format!(
                "`{}` is updated but is not a state input",
                old.name
            )));
        }
        if old.ty != new.ty {
            return Err(Error::invalid(format!(
                "the state `{}: {}` cannot be updated by `{}: {}`",
                old.name, old.ty, new.name, new.ty
            )));
        }
        Ok(())
    }

    fn updated_twice(&self, state: ValueId) -> Error {
        let name = self.value(state).map_or("", |value| value.name.as_str());
        Error::invalid(format!("the state `{name}` is updated twice"))
    }
}

fn foreign_value() -> Error {
    Error::invalid("a value is used in a graph that it does not belong to")
}
