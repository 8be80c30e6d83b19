//! What e-nodes are: operator calls whose operands are classes of equal values.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use egg::{Id, Language};

use crate::expr::Expr;
use crate::graph::{Arg, Operator, TensorType, ValueId};

/// A call, one result of a call that has several, or a value that is given.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) form: Form,
    /// All that distinguishes terms beside their operands.
    key: Arc<str>,
    operands: Vec<Id>,
    /// The types of the results.
    pub(super) types: Arc<[TensorType]>,
}

#[derive(Debug, Clone)]
pub(super) enum Form {
    /// An input or a constant of the graph.
    Given(ValueId),
    /// A call; a value among the arguments is the number of an operand.
    Call { op: &'static Operator, args: Arc<[Arg]> },
    /// The result with this number of its only operand, a call with several.
    Part(usize),
}

impl Term {
    pub(super) fn given(value: ValueId, ty: TensorType) -> Self {
        Self {
            form: Form::Given(value),
            key: format!("given {}", value.index()).into(),
            operands: Vec::new(),
            types: Arc::from([ty]),
        }
    }

    /// A call whose arguments name classes as values. `unique` sets it apart from other calls with the same arguments.
    pub(super) fn call(
        op: &'static Operator,
        args: &[Arg],
        types: Vec<TensorType>,
        unique: Option<usize>,
    ) -> Self {
        let operands: Vec<Id> = args.iter().flat_map(Arg::values).map(class).collect();
        let mut count = 0;
        let mut number = || {
            count += 1;
            ValueId(count - 1)
        };
        let args: Arc<[Arg]> = args
            .iter()
            .map(|arg| match arg {
                Arg::Value(_) => Arg::Value(number()),
                Arg::Values(list) => Arg::Values(list.iter().map(|v| v.map(|_| number())).collect()),
                other => other.clone(),
            })
            .collect();
        Self {
            key: format!("{} {args:?} {unique:?}", op.name()).into(),
            form: Form::Call { op, args },
            operands,
            types: types.into(),
        }
    }

    pub(super) fn part(call: Id, at: usize, ty: TensorType) -> Self {
        Self {
            form: Form::Part(at),
            key: format!("part {at}").into(),
            operands: vec![call],
            types: Arc::from([ty]),
        }
    }

    /// The operator's name; `part 0` and so on for one of several results.
    pub(super) fn name(&self) -> &str {
        match &self.form {
            Form::Call { op, .. } => op.name(),
            _ => &self.key,
        }
    }

    /// The type of the only result.
    pub(super) fn ty(&self) -> Option<&TensorType> {
        match &*self.types {
            [ty] => Some(ty),
            _ => None,
        }
    }

    pub(super) fn args(&self) -> &[Arg] {
        match &self.form {
            Form::Call { args, .. } => args,
            _ => &[],
        }
    }

    /// The arguments with the classes of the operands as values.
    pub(super) fn full_args(&self) -> Vec<Arg> {
        let of = |number: &ValueId| self.operands.get(number.index()).map(|id| value(*id));
        let full = |arg: &Arg| match arg {
            Arg::Value(v) => of(v).map_or(Arg::None, Arg::Value),
            Arg::Values(list) => Arg::Values(list.iter().map(|v| v.as_ref().and_then(of)).collect()),
            other => other.clone(),
        };
        self.args().iter().map(full).collect()
    }

    pub(super) fn arg(&self, name: &str) -> Option<&Arg> {
        let Form::Call { op, args } = &self.form else {
            return None;
        };
        let at = op.schema().parameters.iter().position(|p| p.name == name)?;
        args.get(at)
    }

    /// The class of a tensor argument.
    pub(super) fn operand(&self, name: &str) -> Option<Id> {
        match self.arg(name)? {
            Arg::Value(number) => self.operands.get(number.index()).copied(),
            _ => None,
        }
    }

    pub(super) fn int(&self, name: &str) -> Option<i64> {
        match self.arg(name)? {
            Arg::Int(e) => e.as_const(),
            _ => None,
        }
    }

    /// A list of constant integers; a lone integer is a list of one.
    pub(super) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        match self.arg(name)? {
            Arg::Ints(list) => list.iter().map(Expr::as_const).collect(),
            Arg::Int(e) => Some(vec![e.as_const()?]),
            Arg::None => Some(Vec::new()),
            _ => None,
        }
    }

    /// `count` constant integers, for which a lone one stands.
    pub(super) fn per_axis(&self, name: &str, count: usize) -> Option<Vec<i64>> {
        let list = self.ints(name)?;
        match list.as_slice() {
            [lone] => Some(vec![*lone; count]),
            _ => (list.len() == count).then_some(list),
        }
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        match self.arg(name)? {
            Arg::Float(v) => Some(*v),
            Arg::Int(e) => Some(e.as_const()? as f64),
            Arg::Bool(b) => Some(f64::from(u8::from(*b))),
            _ => None,
        }
    }

    /// Whether a convolution is a transposed one.
    pub(super) fn is_transposed(&self) -> bool {
        self.name().starts_with("conv_transpose") || self.flag("transposed")
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        matches!(self.arg(name), Some(Arg::Bool(true)))
    }
}

/// The name under which a class stands among arguments.
pub(super) fn value(id: Id) -> ValueId {
    ValueId(usize::from(id) as u32)
}

/// The class that [`value`] names.
pub(super) fn class(value: ValueId) -> Id {
    Id::from(value.index())
}

impl PartialEq for Term {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Term {}

impl PartialOrd for Term {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Term {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key
            .cmp(&other.key)
            .then_with(|| self.operands.cmp(&other.operands))
    }
}

impl Hash for Term {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key.hash(state);
        self.operands.hash(state);
    }
}

impl Language for Term {
    type Discriminant = Arc<str>;

    fn discriminant(&self) -> Arc<str> {
        self.key.clone()
    }

    fn matches(&self, other: &Self) -> bool {
        self.key == other.key && self.operands.len() == other.operands.len()
    }

    fn children(&self) -> &[Id] {
        &self.operands
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.operands
    }
}
