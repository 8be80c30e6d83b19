//! The operator table: one [`Operator`] for each ATen overload that akg accepts, and those of akg's own.
//!
//! An operator is its ATen schema, written as ATen writes it, and a function that infers the result types. Each
//! [`Family`] has a file of its own; [`Operator::find`] looks names up in all of them. What an operator computes is in
//! the file of the same family under [`reference`](crate::reference).

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;

use super::{Arg, TensorType, Value, ValueId};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;

mod attention;
mod conv;
mod create;
mod dropout;
mod extents;
mod family;
mod index;
mod join;
mod loss;
mod matmul;
mod norm;
mod pointwise;
mod pool;
mod promotion;
mod rearrange;
mod reduce;
mod rnn;
mod scan;
mod schema;
mod view;

pub(crate) use extents::element_count;
pub use family::Family;
pub(crate) use matmul::Einsum;
pub use schema::{Parameter, ParameterKind, Schema};

/// One overload of an operator, of ATen or of akg's own.
pub struct Operator {
    /// The parsed schema.
    schema: Schema,
    /// Whose table it is in.
    family: Family,
    /// Infers the result types.
    infer: fn(&Call<'_>) -> Inferred,
}

/// What a family's inference functions return: the type of each result.
type Inferred = Result<Vec<TensorType>>;

/// The types of a single result.
fn one(dtype: DType, shape: impl Into<Vec<Expr>>) -> Inferred {
    let shape = shape.into();
    Ok(vec![TensorType { dtype, shape }])
}

/// A row of a family's table.
struct Row {
    /// The schema as ATen writes it, e.g. `softmax.int(Tensor self, int dim, ScalarType? dtype=None) -> Tensor`,
    /// without aliasing annotations; the overload `default` is written out, and a namespace that is not ATen's.
    schema: &'static str,
    /// Infers the result types.
    infer: fn(&Call<'_>) -> Inferred,
}

impl Row {
    const fn new(schema: &'static str, infer: fn(&Call<'_>) -> Inferred) -> Self {
        Self { schema, infer }
    }
}

static TABLE: LazyLock<HashMap<String, Operator>> = LazyLock::new(|| {
    let rows = Family::ALL
        .iter()
        .flat_map(|family| family.rows().iter().map(move |row| (*family, row)));
    rows.filter_map(|(family, row)| {
        let schema = Schema::parse(row.schema).ok()?;
        Some((
            schema.name.clone(),
            Operator {
                schema,
                family,
                infer: row.infer,
            },
        ))
    })
    .collect()
});

impl Operator {
    /// The operator called `name`, with or without its namespace (`aten.softmax.int`).
    pub fn find(name: &str) -> Option<&'static Operator> {
        TABLE.get(name).or_else(|| {
            let (namespace, name) = name.split_once('.')?;
            TABLE.get(name).filter(|op| op.schema.namespace == namespace)
        })
    }

    /// Every operator, in the order of their names.
    pub fn all() -> Vec<&'static Operator> {
        let mut all: Vec<_> = TABLE.values().collect();
        all.sort_by(|a, b| a.schema.name.cmp(&b.schema.name));
        all
    }

    /// Name and overload without the namespace: `softmax.int`, `relu.default`.
    pub fn name(&self) -> &str {
        &self.schema.name
    }

    /// Namespace, name and overload: `aten.softmax.int`.
    pub fn qualified_name(&self) -> String {
        format!("{}.{}", self.schema.namespace, self.schema.name)
    }

    /// The name without the overload: `softmax`, `relu`.
    pub fn base_name(&self) -> &str {
        self.name().split_once('.').map_or(self.name(), |(base, _)| base)
    }

    /// The overload: `int`, `default`.
    pub fn overload(&self) -> &str {
        self.name().split_once('.').map_or("", |(_, overload)| overload)
    }

    /// The kind of operator.
    pub fn family(&self) -> Family {
        self.family
    }

    /// Parameters and results.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The types of the results of `call`; an error names the operator and the operand types.
    pub fn infer(&self, call: &Call<'_>) -> Result<Vec<TensorType>> {
        (self.infer)(call).map_err(|e| {
            e.with("operator", self.name())
                .with("operands", call.describe_operands())
        })
    }
}

impl fmt::Debug for Operator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A call of an operator with its arguments, as type inference and evaluation see it. Arguments are asked for by the
/// names of the schema.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    op: &'static Operator,
    args: &'a [Arg],
    values: &'a [Value],
}

impl<'a> Call<'a> {
    /// A call with one argument for each parameter of the schema; `values` are the graph's.
    pub fn new(op: &'static Operator, args: &'a [Arg], values: &'a [Value]) -> Self {
        Self { op, args, values }
    }

    /// The operator.
    pub fn op(&self) -> &'static Operator {
        self.op
    }

    /// The argument of parameter `name`.
    pub fn arg(&self, name: &str) -> Result<&'a Arg> {
        let at = self.op.schema.parameters.iter().position(|p| p.name == name);
        at.and_then(|i| self.args.get(i))
            .ok_or_else(|| Error::unexpected(format!("`{}` has no parameter `{name}`", self.op.name())))
    }

    /// The argument of parameter `name`, if the operator has that parameter.
    pub fn opt_arg(&self, name: &str) -> Option<&'a Arg> {
        self.arg(name).ok()
    }

    /// Every value among the arguments, in the schema's order.
    pub fn operands(&self) -> impl Iterator<Item = ValueId> + use<'a> {
        self.args.iter().flat_map(Arg::values)
    }

    fn wrong(&self, name: &str, wanted: &str) -> Error {
        let got = self
            .arg(name)
            .map_or_else(|e| e.to_string(), |a| format!("{a:?}"));
        Error::invalid(format!(
            "argument `{name}` of `{}` must be {wanted}, not {got}",
            self.op.name()
        ))
    }

    /// The value given for a tensor parameter.
    pub fn value(&self, name: &str) -> Result<ValueId> {
        self.opt_value(name)?.ok_or_else(|| self.wrong(name, "a tensor"))
    }

    /// The value given for an optional tensor parameter.
    pub fn opt_value(&self, name: &str) -> Result<Option<ValueId>> {
        match self.arg(name)? {
            Arg::Value(v) => Ok(Some(*v)),
            Arg::None => Ok(None),
            _ => Err(self.wrong(name, "a tensor")),
        }
    }

    /// The values given for a tensor-list parameter.
    pub fn values(&self, name: &str) -> Result<&'a [Option<ValueId>]> {
        match self.arg(name)? {
            Arg::Values(vs) => Ok(vs),
            _ => Err(self.wrong(name, "a list of tensors")),
        }
    }

    /// The type of a value of the graph.
    pub fn ty(&self, value: ValueId) -> Result<&'a TensorType> {
        let value = self.values.get(value.index());
        value
            .map(|v| &v.ty)
            .ok_or_else(|| Error::unexpected("a node reads a value that the graph does not have"))
    }

    /// The type of a tensor argument.
    pub fn tensor(&self, name: &str) -> Result<&'a TensorType> {
        self.ty(self.value(name)?)
    }

    /// The type that arguments, tensors or numbers, promote to.
    pub fn promoted(&self, names: &[&str]) -> Result<DType> {
        promotion::result_type(self, names)
    }

    /// The type of an optional tensor argument.
    pub fn opt_tensor(&self, name: &str) -> Result<Option<&'a TensorType>> {
        self.opt_value(name)?.map(|v| self.ty(v)).transpose()
    }

    /// The types of a tensor-list argument whose entries must all be present.
    pub fn tensors(&self, name: &str) -> Result<Vec<&'a TensorType>> {
        let types = self.values(name)?.iter();
        types
            .map(|v| self.ty(v.ok_or_else(|| self.wrong(name, "a list without missing tensors"))?))
            .collect()
    }

    /// A constant integer argument.
    pub fn int(&self, name: &str) -> Result<i64> {
        self.opt_int(name)?.ok_or_else(|| self.wrong(name, "an integer"))
    }

    /// A constant integer argument that may be missing.
    pub fn opt_int(&self, name: &str) -> Result<Option<i64>> {
        match self.arg(name)? {
            Arg::None => Ok(None),
            Arg::Int(e) => e
                .as_const()
                .map(Some)
                .ok_or_else(|| self.wrong(name, "a constant integer")),
            _ => Err(self.wrong(name, "an integer")),
        }
    }

    /// An integer argument that may be symbolic.
    pub fn size(&self, name: &str) -> Result<&'a Expr> {
        self.opt_size(name)?.ok_or_else(|| self.wrong(name, "an integer"))
    }

    /// An integer argument that may be symbolic, and may be missing.
    pub fn opt_size(&self, name: &str) -> Result<Option<&'a Expr>> {
        match self.arg(name)? {
            Arg::None => Ok(None),
            Arg::Int(e) => Ok(Some(e)),
            _ => Err(self.wrong(name, "an integer")),
        }
    }

    /// A list of constant integers; missing lists are empty.
    pub fn ints(&self, name: &str) -> Result<Vec<i64>> {
        let sizes = self.sizes(name)?.iter();
        sizes
            .map(|e| e.as_const().ok_or_else(|| self.wrong(name, "constant integers")))
            .collect()
    }

    /// A list of `count` constant integers, of which none is smaller than `least`; a lone entry stands for all.
    pub fn per_dimension(&self, name: &str, count: usize, least: i64) -> Result<Vec<i64>> {
        let mut list = self.ints(name)?;
        if let [lone] = list.as_slice() {
            list = vec![*lone; count];
        }
        if list.len() == count && list.iter().all(|v| *v >= least) {
            return Ok(list);
        }
        Err(Error::invalid(format!(
            "{name} is {list:?}, expected one entry or {count}, each at least {least}"
        )))
    }

    /// A list of integers that may be symbolic; missing lists are empty.
    pub fn sizes(&self, name: &str) -> Result<&'a [Expr]> {
        match self.arg(name)? {
            Arg::Ints(list) => Ok(list),
            Arg::None => Ok(&[]),
            _ => Err(self.wrong(name, "a list of integers")),
        }
    }

    /// Whether an optional argument was given.
    pub fn has(&self, name: &str) -> Result<bool> {
        Ok(!matches!(self.arg(name)?, Arg::None))
    }

    /// A number: integer, floating or boolean.
    pub fn number(&self, name: &str) -> Result<f64> {
        self.opt_number(name)?.ok_or_else(|| self.wrong(name, "a number"))
    }

    /// A number that may be missing.
    pub fn opt_number(&self, name: &str) -> Result<Option<f64>> {
        match self.arg(name)? {
            Arg::None => Ok(None),
            Arg::Float(v) => Ok(Some(*v)),
            Arg::Bool(b) => Ok(Some(f64::from(u8::from(*b)))),
            Arg::Int(_) => Ok(self.opt_int(name)?.map(|v| v as f64)),
            _ => Err(self.wrong(name, "a number")),
        }
    }

    /// A boolean.
    pub fn bool(&self, name: &str) -> Result<bool> {
        match self.arg(name)? {
            Arg::Bool(b) => Ok(*b),
            _ => Err(self.wrong(name, "a boolean")),
        }
    }

    /// A string.
    pub fn str(&self, name: &str) -> Result<&'a str> {
        match self.arg(name)? {
            Arg::Str(s) => Ok(s),
            _ => Err(self.wrong(name, "a string")),
        }
    }

    /// An element type that may be missing.
    pub fn opt_dtype(&self, name: &str) -> Result<Option<DType>> {
        match self.arg(name)? {
            Arg::None => Ok(None),
            Arg::DType(d) => Ok(Some(*d)),
            _ => Err(self.wrong(name, "an element type")),
        }
    }

    fn describe_operands(&self) -> String {
        let mut out = Vec::new();
        for (parameter, arg) in self.op.schema.parameters.iter().zip(self.args) {
            for id in arg.values() {
                if let Some(value) = self.values.get(id.index()) {
                    out.push(format!("{}={}: {}", parameter.name, value.name, value.ty));
                }
            }
        }
        out.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_in_the_table() {
        for family in Family::ALL {
            for row in family.rows() {
                let schema = Schema::parse(row.schema).unwrap();
                let found = Operator::find(&schema.name).unwrap();
                assert_eq!((found.schema(), found.family()), (&schema, *family));
            }
        }
    }
}
