//! Everything before the kernels: extents, parameters, definitions, knobs, requirements, tensors.

use std::collections::BTreeMap;
use std::ops::Range;

use super::scalar::{self, Value};
use super::{Elab, Fault, fault, knob_value};
use crate::diagnostic::{Diagnostic, Diagnostics, closest};
use crate::dtype::DType;
use crate::expr::{Bindings, Expr, Symbol};
use crate::sketch::ir::{Condition, TensorId};
use crate::sketch::syntax::*;
use crate::source::{KnobValue, Knobs, PlanTensor, TensorRole};
use crate::task::Accuracy;

/// What a name of the sketch stands for in every kernel.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entity {
    /// An extent, parameter, definition or integer knob.
    Int(Expr),
    /// A floating parameter.
    Float(f64),
    /// A type knob.
    DType(DType),
    /// A hint.
    Hint(i64),
    /// A tensor.
    Tensor(TensorId),
}

/// The names that kernels see.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) names: BTreeMap<String, Entity>,
    pub(super) tensors: Vec<PlanTensor>,
    /// Extents without a value.
    pub(super) dims: Vec<Symbol>,
    pub(super) accuracy: Option<Accuracy>,
}

impl Header {
    pub(super) fn new(tree: &SketchTree, knobs: &Knobs, bindings: &Bindings) -> Result<Self, Diagnostics> {
        let mut builder = Builder {
            header: Header {
                names: BTreeMap::new(),
                tensors: Vec::new(),
                dims: Vec::new(),
                accuracy: None,
            },
            knobs,
            bindings,
            broken: Vec::new(),
            diagnostics: Diagnostics::new(),
        };
        builder.build(tree);
        if builder.diagnostics.has_errors() {
            Err(builder.diagnostics)
        } else {
            Ok(builder.header)
        }
    }

    pub(super) fn tensor(&self, id: TensorId) -> Option<&PlanTensor> {
        self.tensors.get(id.0)
    }
}

struct Builder<'a> {
    header: Header,
    knobs: &'a Knobs,
    bindings: &'a Bindings,
    /// Names whose declaration was rejected, so that their uses are not reported as well.
    broken: Vec<String>,
    diagnostics: Diagnostics,
}

impl Builder<'_> {
    fn build(&mut self, tree: &SketchTree) {
        let declared = |name: &str| {
            tree.items.iter().any(|item| match &item.node {
                Item::Param { name: n, .. } | Item::Let { name: n, .. } | Item::Knob { name: n, .. } => {
                    n.node == name
                }
                _ => false,
            })
        };
        for extent in tree.inputs.iter().chain(&tree.outputs).flat_map(|t| &t.shape) {
            if let Expression::Name(name) = &*extent.node
                && !declared(name)
                && !self.header.names.contains_key(name)
            {
                self.extent(name);
            }
        }
        for name in self.knobs.keys() {
            let is_knob =
                |i: &Spanned<Item>| matches!(&i.node, Item::Knob { name: n, .. } if n.node == *name);
            if !tree.items.iter().any(is_knob) {
                let message =
                    format!("a value is given for the knob `{name}`, but the sketch has no such knob");
                self.diagnostics.push(Diagnostic::error(message, 0..0));
            }
        }
        for item in &tree.items {
            let result = self.item(&item.node);
            self.report(result);
        }
        for (tensors, role) in [
            (&tree.inputs, TensorRole::Input),
            (&tree.outputs, TensorRole::Output),
        ] {
            for tensor in tensors {
                let result = self.tensor(tensor, role, None).and_then(|()| self.update(tensor));
                self.report(result);
            }
        }
        for item in &tree.items {
            if let Item::Buffer { tensor, align } = &item.node {
                let result = self.tensor(tensor, TensorRole::Scratch, align.as_ref());
                self.report(result);
            }
        }
    }

    fn report(&mut self, result: Elab<()>) {
        if let Err(Fault::New(diagnostic)) = result {
            self.diagnostics.push(diagnostic);
        }
    }

    fn extent(&mut self, name: &str) {
        let value = match self.bindings.get(name) {
            Some(value) => Expr::constant(*value),
            None => {
                self.header.dims.push(name.into());
                Expr::symbol(name)
            }
        };
        self.header.names.insert(name.to_owned(), Entity::Int(value));
    }

    fn declare(&mut self, name: &Name, entity: Elab<Entity>) -> Elab<()> {
        let taken = self.header.names.contains_key(&name.node) || self.broken.contains(&name.node);
        if taken || name.node.parse::<DType>().is_ok() {
            let message = format!(
                "`{}` already has a meaning in this sketch; choose another name",
                name.node
            );
            return fault(message, name.span.clone());
        }
        match entity {
            Ok(entity) => {
                self.header.names.insert(name.node.clone(), entity);
                Ok(())
            }
            Err(error) => {
                self.broken.push(name.node.clone());
                Err(error)
            }
        }
    }

    fn item(&mut self, item: &Item) -> Elab<()> {
        match item {
            Item::Param { name, dtype, value } => {
                let entity = self.param(name, *dtype, value.as_ref());
                self.declare(name, entity)
            }
            Item::Let { name, value } => {
                let entity = self.integer(value).map(Entity::Int);
                self.declare(name, entity)
            }
            Item::Knob { name, values, hint } => {
                let entity = self.knob(name, values, *hint);
                self.declare(name, entity)
            }
            Item::Require(condition) => self.require(condition),
            Item::Accuracy(class) => match self.header.accuracy.replace(class.node) {
                Some(_) => fault(
                    "a sketch has one accuracy class; remove this one",
                    class.span.clone(),
                ),
                None => Ok(()),
            },
            Item::Buffer { .. } | Item::Comment(_) => Ok(()),
        }
    }

    fn param(&self, name: &Name, dtype: Option<DType>, value: Option<&Ex>) -> Elab<Entity> {
        let floating = dtype.is_some_and(DType::is_float);
        if !floating && let Some(bound) = self.bindings.get(name.node.as_str()) {
            return Ok(Entity::Int(Expr::constant(*bound)));
        }
        let Some(value) = value else {
            let message = format!(
                "the parameter `{0}` has no value; bind it or write `param {0} = …`",
                name.node
            );
            return fault(message, name.span.clone());
        };
        if !floating {
            return self.integer(value).map(Entity::Int);
        }
        match self.eval(value)? {
            Value::Float(number) => Ok(Entity::Float(number)),
            Value::Int(expr) => match expr.as_const() {
                Some(number) => Ok(Entity::Float(number as f64)),
                None => fault(format!("`{expr}` has no value here; bind it"), value.span.clone()),
            },
            _ => fault("the value of a parameter is a number", value.span.clone()),
        }
    }

    fn knob(&self, name: &Name, values: &[Ex], hint: bool) -> Elab<Entity> {
        let legal: Vec<_> = values.iter().filter_map(|v| knob_value(&v.node)).collect();
        let types = legal.iter().filter(|v| matches!(v, KnobValue::DType(_))).count();
        if legal.len() < values.len() || legal.is_empty() || (types != 0 && (types < legal.len() || hint)) {
            let message =
                "the values of a knob are all integers or all element types, those of a hint are integers";
            return fault(message, name.span.clone());
        }
        let given = self.knobs.get(&name.node).or(legal.first());
        let Some(value) = given.filter(|v| legal.contains(v)) else {
            let shown: Vec<_> = values.iter().map(|v| v.node.to_string()).collect();
            let given = match given {
                Some(KnobValue::Int(value)) => value.to_string(),
                Some(KnobValue::DType(dtype)) => dtype.to_string(),
                None => String::new(),
            };
            let message = format!(
                "`{given}` is no legal value of `{}`: {{{}}}",
                name.node,
                shown.join(", ")
            );
            return fault(message, name.span.clone());
        };
        Ok(match value {
            KnobValue::Int(value) if hint => Entity::Hint(*value),
            KnobValue::Int(value) => Entity::Int(Expr::constant(*value)),
            KnobValue::DType(dtype) => Entity::DType(*dtype),
        })
    }

    fn require(&self, condition: &Ex) -> Elab<()> {
        let Value::Condition(value) = self.eval(condition)? else {
            return fault(
                "a requirement compares integers, as in `BM*BN <= 4096`",
                condition.span.clone(),
            );
        };
        match scalar::truth(&value) {
            Some(true) => Ok(()),
            Some(false) => {
                let message = format!("these knob values break the requirement `{condition}`");
                let error = Diagnostic::error(message, condition.span.clone());
                Err(match value {
                    Condition::Compare(_, a, b) => {
                        error.note(format!("the left side is {a}, the right side is {b}"))
                    }
                    _ => error,
                }
                .into())
            }
            None => {
                let message = format!("`{condition}` depends on an extent that has no value; bind it");
                fault(message, condition.span.clone())
            }
        }
    }

    fn tensor(&mut self, tensor: &TensorSyntax, role: TensorRole, align: Option<&Ex>) -> Elab<()> {
        let planned = self.plan_tensor(tensor, role, align);
        let id = TensorId(self.header.tensors.len());
        let entity = planned.map(|t| {
            self.header.tensors.push(t);
            Entity::Tensor(id)
        });
        self.declare(&tensor.name, entity)
    }

    /// Takes down the input that the output declared last updates, if there is one.
    fn update(&mut self, output: &TensorSyntax) -> Elab<()> {
        let Some(name) = &output.updates else {
            return Ok(());
        };
        let refuse = |why: String| {
            let message = format!("`{}` cannot update `{}`: {why}", output.name.node, name.node);
            fault(message, name.span.clone())
        };
        let (tensors, last) = match self.header.tensors.split_last_mut() {
            Some((last, tensors)) => (tensors, last),
            None => return Ok(()),
        };
        let Some(Entity::Tensor(TensorId(at))) = self.header.names.get(&name.node) else {
            return refuse("that is no input of this sketch".into());
        };
        match tensors.get(*at).filter(|t| t.role == TensorRole::Input) {
            None => refuse("that is no input of this sketch".into()),
            Some(input) if input.dtype != last.dtype || input.shape != last.shape => {
                refuse("their types or extents differ".into())
            }
            Some(_) if tensors.iter().any(|t| t.updates == Some(*at)) => refuse("another output does".into()),
            Some(_) => {
                last.updates = Some(*at);
                Ok(())
            }
        }
    }

    fn plan_tensor(&self, tensor: &TensorSyntax, role: TensorRole, align: Option<&Ex>) -> Elab<PlanTensor> {
        let Some(dtype) = self.dtype(&tensor.dtype.node) else {
            return Err(unknown_type(&tensor.dtype, &self.header.names).into());
        };
        let shape = tensor.shape.iter().map(|extent| {
            let expr = self.integer(extent)?;
            match expr.as_const() {
                Some(value) if value < 0 => fault(format!("an extent of {value}"), extent.span.clone()),
                _ => Ok(expr),
            }
        });
        let shape = shape.collect::<Elab<Vec<_>>>()?;
        let align = match align {
            None => dtype.size(),
            Some(align) => {
                let value = self
                    .integer(align)?
                    .as_const()
                    .and_then(|v| usize::try_from(v).ok());
                match value.filter(|v| v.is_power_of_two() && *v >= dtype.size()) {
                    Some(value) => value,
                    None => {
                        let message = format!(
                            "an alignment is a power of two of at least {} bytes",
                            dtype.size()
                        );
                        return fault(message, align.span.clone());
                    }
                }
            }
        };
        Ok(PlanTensor {
            name: tensor.name.node.clone(),
            dtype,
            shape,
            role,
            align,
            holds: None,
            updates: None,
        })
    }

    fn dtype(&self, name: &str) -> Option<DType> {
        match self.header.names.get(name) {
            Some(Entity::DType(dtype)) => Some(*dtype),
            _ => name.parse().ok(),
        }
    }

    fn integer(&self, ex: &Ex) -> Elab<Expr> {
        match self.eval(ex)? {
            Value::Int(expr) => Ok(expr),
            _ => fault(format!("`{ex}` is not an integer"), ex.span.clone()),
        }
    }

    fn eval(&self, ex: &Ex) -> Elab<Value> {
        let span = &ex.span;
        match &*ex.node {
            Expression::Int(value) => Ok(Value::Int(Expr::constant(*value))),
            Expression::Float(value) => Ok(Value::Float(*value)),
            Expression::Name(name) => self.lookup(name, span),
            Expression::Unary(sign, a) => scalar::unary(*sign, self.eval(a)?, span),
            Expression::Binary(sign, a, b) => scalar::binary(sign, &self.eval(a)?, &self.eval(b)?, span),
            Expression::Call(name, arguments) => {
                if name.node == "sizeof" {
                    return sizeof(arguments, span, |n| self.dtype(n));
                }
                let values = arguments.iter().map(|a| self.eval(a)).collect::<Elab<Vec<_>>>()?;
                scalar::call(&name.node, &values, span).unwrap_or_else(|| {
                    let known =
                        "ceildiv, min, max, pow2ceil, roundup, sizeof, and sqrt, exp, log, … of numbers";
                    let message = format!("`{}` is no function of constants; there are {known}", name.node);
                    fault(message, name.span.clone())
                })
            }
            _ => fault(
                "tiles exist only in kernels; this must be a constant",
                span.clone(),
            ),
        }
    }

    fn lookup(&self, name: &str, span: &Range<usize>) -> Elab<Value> {
        match self.header.names.get(name) {
            Some(Entity::Int(expr)) => Ok(Value::Int(expr.clone())),
            Some(Entity::Float(value)) => Ok(Value::Float(*value)),
            Some(Entity::Hint(_)) => Err(hint_misused(name, span).into()),
            Some(Entity::DType(_) | Entity::Tensor(_)) => {
                fault(format!("`{name}` is not a number"), span.clone())
            }
            None if self.broken.iter().any(|n| n == name) => Err(Fault::Reported),
            None => {
                let error = Diagnostic::error(format!("`{name}` has no meaning here"), span.clone());
                let candidates = self.header.names.keys().map(String::as_str);
                Err(match closest(name, candidates) {
                    Some(known) => error.note(format!("did you mean `{known}`?")),
                    None => error
                        .note("extents come from the shapes of inputs and outputs; other names need `let` or `param`"),
                }
                .into())
            }
        }
    }
}

/// `sizeof(CT)`: bytes of one element.
pub(super) fn sizeof(
    arguments: &[Ex],
    span: &Range<usize>,
    dtype: impl Fn(&str) -> Option<DType>,
) -> Elab<Value> {
    let size = match arguments {
        [ex] => match &*ex.node {
            Expression::Name(name) => dtype(name).map(DType::size),
            _ => None,
        },
        _ => None,
    };
    match size {
        Some(size) => Ok(Value::Int(size.into())),
        None => fault(
            "`sizeof` takes an element type, as in `sizeof(f16)`",
            span.clone(),
        ),
    }
}

pub(super) fn hint_misused(name: &str, span: &Range<usize>) -> Diagnostic {
    let message = format!("`{name}` is a hint, and hints cannot change what is computed");
    let error = Diagnostic::error(message, span.clone());
    error.note("only `pipeline(…)` and `grouped … by …` may use hints; declare a knob instead")
}

pub(super) fn unknown_type(name: &Name, names: &BTreeMap<String, Entity>) -> Diagnostic {
    let error = Diagnostic::error(format!("`{}` is no element type", name.node), name.span.clone());
    let knobs = names.iter().filter(|(_, e)| matches!(e, Entity::DType(_)));
    let known: Vec<_> = DType::ALL
        .iter()
        .map(|d| d.name())
        .chain(knobs.map(|(n, _)| n.as_str()))
        .collect();
    match closest(&name.node, known.iter().copied()) {
        Some(dtype) => error.note(format!("did you mean `{dtype}`?")),
        None => error.note(format!("there are {}", known.join(", "))),
    }
}
