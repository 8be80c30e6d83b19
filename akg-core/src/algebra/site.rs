//! The e-graph of a graph, and what rules see of it.

use std::collections::BTreeSet;

use egg::{Id, Language as _};

use super::facts::{Classes, Facts, Leaf, Leaves, Range};
use super::term::{self, Form, Term, class};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::ops::Call;
use crate::graph::{Arg, Graph, InputKind, Node, Operator, TensorType, Value, ValueId};
use crate::tensor::Tensor;

/// Operators whose results are chance.
const RANDOM: &[&str] = &[
    "dropout.default",
    "native_dropout.default",
    "rand.default",
    "rand_like.default",
    "randn.default",
    "randn_like.default",
];

/// Constants with more elements are not looked into.
const MOST_ELEMENTS: usize = 1 << 20;

/// The classes of a graph's values.
pub(super) struct Space {
    pub(super) classes: Classes,
    /// The class of each value of the graph that is needed, by its number.
    pub(super) values: Vec<Option<Id>>,
    /// Calls that were the same as an earlier one.
    pub(super) repeated: usize,
    /// The graph's own terms.
    pub(super) own: Vec<Term>,
}

impl Space {
    /// The classes of the values of `graph` that its outputs need; equal calls share a class.
    pub(super) fn new(graph: &Graph) -> Result<Self> {
        let mut leaves = Leaves {
            facts: vec![Leaf::unknown(); graph.values().len()],
        };
        for input in graph.inputs() {
            if let Some(leaf) = leaves.facts.get_mut(input.value.index()) {
                leaf.weight = input.kind == InputKind::Weight;
            }
        }
        for constant in graph.constants() {
            if let Some(leaf) = leaves.facts.get_mut(constant.value.index()) {
                *leaf = Leaf::of(&constant.tensor)?;
            }
        }
        let mut space = Self {
            classes: Classes::new(leaves),
            values: vec![None; graph.values().len()],
            repeated: 0,
            own: Vec::new(),
        };
        for value in graph.given() {
            let id = space.add(Term::given(value, graph.ty(value).clone()));
            space.define(value, id)?;
        }
        let live = live(graph);
        for (number, node) in graph
            .nodes()
            .iter()
            .enumerate()
            .filter(|(at, _)| live.contains(at))
        {
            let args: Vec<Arg> = node
                .args
                .iter()
                .map(|a| a.map_values(&|v| space.name(v)))
                .collect();
            let types = node.outputs.iter().map(|v| graph.ty(*v).clone()).collect();
            let unique = draws(node).then_some(number);
            let call = Term::call(node.op, &args, types, unique);
            space.repeated += usize::from(space.classes.lookup(call.clone()).is_some());
            let id = space.add(call);
            if let [only] = node.outputs.as_slice() {
                space.define(*only, id)?;
                continue;
            }
            for (at, value) in node.outputs.iter().enumerate() {
                let part = space.add(Term::part(id, at, graph.ty(*value).clone()));
                space.define(*value, part)?;
            }
        }
        Ok(space)
    }

    fn add(&mut self, term: Term) -> Id {
        self.own.push(term.clone());
        self.classes.add(term)
    }

    fn define(&mut self, value: ValueId, id: Id) -> Result<()> {
        let place = self.values.get_mut(value.index());
        *place.ok_or_else(|| Error::unexpected("a node defines a value that the graph does not have"))? =
            Some(id);
        Ok(())
    }

    /// The name among arguments of the class of a value.
    fn name(&self, value: ValueId) -> ValueId {
        let id = self.values.get(value.index()).copied().flatten();
        id.map_or(value, term::value)
    }

    /// A term with the representatives of its operands.
    pub(super) fn canonical(&self, term: &Term) -> Term {
        term.clone().map_children(|id| self.classes.find(id))
    }
}

/// Whether a call's results are chance, so that each call is a value of its own.
fn draws(node: &Node) -> bool {
    let rate = |name: &str| {
        let at = node.op.schema().parameters.iter().position(|p| p.name == name);
        let rate = at.and_then(|at| node.args.get(at));
        rate.is_some_and(|rate| matches!(rate, Arg::Float(p) if *p > 0.0))
    };
    RANDOM.contains(&node.op.name()) || rate("dropout_p") || rate("dropout")
}

/// The nodes that the outputs need, by their place.
pub(super) fn live(graph: &Graph) -> BTreeSet<usize> {
    let mut needed: BTreeSet<ValueId> = graph.outputs().iter().map(|o| o.value).collect();
    let mut live = BTreeSet::new();
    for (at, node) in graph.nodes().iter().enumerate().rev() {
        if node.outputs.iter().any(|v| needed.contains(v)) {
            needed.extend(node.inputs());
            live.insert(at);
        }
    }
    live
}

impl Leaf {
    fn unknown() -> Self {
        Self {
            weight: false,
            range: Range::ALL,
            uniform: None,
        }
    }

    fn of(tensor: &Tensor) -> Result<Self> {
        let mut leaf = Self {
            weight: true,
            ..Self::unknown()
        };
        if tensor.len() <= MOST_ELEMENTS && tensor.dtype() != DType::Bool {
            let elements = tensor.to_f64()?;
            let numbers = || elements.iter().copied().filter(|v| !v.is_nan());
            leaf.range = Range::new(
                numbers().fold(f64::INFINITY, f64::min),
                numbers().fold(f64::NEG_INFINITY, f64::max),
            );
            let is_uniform = |first: &f64| elements.iter().all(|v| v == first);
            leaf.uniform = elements.first().copied().filter(is_uniform);
        }
        Ok(leaf)
    }
}

/// Where a rule is tried: reads what is known, adds terms.
pub(super) struct Site<'a> {
    pub(super) classes: &'a mut Classes,
}

impl Site<'_> {
    pub(super) fn facts(&self, id: Id) -> &Facts {
        &self.classes[id].data
    }

    pub(super) fn ty(&self, id: Id) -> Option<TensorType> {
        self.facts(id).ty().cloned()
    }

    pub(super) fn shape(&self, id: Id) -> Option<Vec<Expr>> {
        self.facts(id).ty().map(|ty| ty.shape.clone())
    }

    pub(super) fn rank(&self, id: Id) -> Option<usize> {
        self.facts(id).ty().map(TensorType::rank)
    }

    /// Whether elements are of a type in which sums may be arranged anew: narrower ones round at each operator.
    pub(super) fn is_wide(&self, id: Id) -> bool {
        let dtype = self.facts(id).ty().map(|ty| ty.dtype);
        matches!(dtype, Some(DType::F32 | DType::F64))
    }

    pub(super) fn is_float(&self, id: Id) -> bool {
        self.facts(id).ty().is_some_and(|ty| ty.dtype.is_float())
    }

    pub(super) fn same(&self, a: Id, b: Id) -> bool {
        self.classes.find(a) == self.classes.find(b)
    }

    /// The terms of a class whose operator is one of `names`.
    pub(super) fn makers(&self, id: Id, names: &[&str]) -> Vec<Term> {
        let nodes = self.classes[id].nodes.iter();
        nodes.filter(|t| names.contains(&t.name())).cloned().collect()
    }

    /// A call with one result, its arguments by name; `None` if it does not fit.
    pub(super) fn call<'a>(
        &mut self,
        op: &str,
        args: impl IntoIterator<Item = (&'a str, Arg)>,
    ) -> Option<Id> {
        let op = Operator::find(op)?;
        let args = op.arrange(args).ok()?;
        self.add(op, &args)
    }

    /// The call that `term` is with other arguments for some parameters.
    pub(super) fn again<'a>(
        &mut self,
        term: &Term,
        changed: impl IntoIterator<Item = (&'a str, Arg)>,
    ) -> Option<Id> {
        let Form::Call { op, .. } = term.form else {
            return None;
        };
        let mut args = term.full_args();
        for (name, arg) in changed {
            let at = op.schema().parameters.iter().position(|p| p.name == name)?;
            *args.get_mut(at)? = arg;
        }
        self.add(op, &args)
    }

    fn add(&mut self, op: &'static Operator, args: &[Arg]) -> Option<Id> {
        let mut numbered = Vec::new();
        let mut number = |id: ValueId| {
            numbered.push(class(id));
            ValueId(numbered.len() as u32 - 1)
        };
        let local: Vec<Arg> = args
            .iter()
            .map(|arg| match arg {
                Arg::Value(v) => Arg::Value(number(*v)),
                Arg::Values(list) => Arg::Values(list.iter().map(|v| v.map(&mut number)).collect()),
                other => other.clone(),
            })
            .collect();
        let values: Option<Vec<Value>> = numbered
            .iter()
            .map(|id| {
                Some(Value {
                    name: String::new(),
                    ty: self.ty(*id)?,
                })
            })
            .collect();
        let types = op.infer(&Call::new(op, &local, &values?)).ok()?;
        let [_] = types.as_slice() else { return None };
        Some(self.classes.add(Term::call(op, args, types, None)))
    }

    /// The same elements under another shape; the value itself if it has that shape.
    pub(super) fn reshape(&mut self, x: Id, shape: &[Expr]) -> Option<Id> {
        if self.shape(x)? == shape {
            return Some(x);
        }
        let shape = Arg::Ints(shape.to_vec());
        self.call("reshape.default", [("self", arg(x)), ("shape", shape)])
    }

    pub(super) fn permute(&mut self, x: Id, order: &[usize]) -> Option<Id> {
        let dims: Vec<i64> = order.iter().map(|d| *d as i64).collect();
        self.call(
            "permute.default",
            [("self", arg(x)), ("dims", dims.as_slice().into())],
        )
    }

    pub(super) fn scale(&mut self, x: Id, by: f64) -> Option<Id> {
        self.call("mul.Scalar", [("self", arg(x)), ("other", by.into())])
    }

    pub(super) fn shift(&mut self, x: Id, by: f64) -> Option<Id> {
        self.call("add.Scalar", [("self", arg(x)), ("other", by.into())])
    }

    pub(super) fn mul(&mut self, a: Id, b: Id) -> Option<Id> {
        self.call("mul.Tensor", [("self", arg(a)), ("other", arg(b))])
    }

    pub(super) fn plus(&mut self, a: Id, b: Id) -> Option<Id> {
        self.call("add.Tensor", [("self", arg(a)), ("other", arg(b))])
    }

    /// The sum over axes, which stay with extent 1.
    pub(super) fn sum(&mut self, x: Id, axes: &[usize]) -> Option<Id> {
        let dims: Vec<i64> = axes.iter().map(|d| *d as i64).collect();
        let args = [
            ("self", arg(x)),
            ("dim", dims.as_slice().into()),
            ("keepdim", true.into()),
        ];
        self.call("sum.dim_IntList", args)
    }
}

/// A class as an argument.
pub(super) fn arg(id: Id) -> Arg {
    Arg::Value(term::value(id))
}
