//! What a graph does with its inputs: the constants that it compares them with, the axes that it reduces, the use that it
//! makes of integers.

use std::collections::HashMap;

use super::integers::IntegerUse;
use super::inverse::{Precision, Target, operands_of};
use super::rows::Layout;
use crate::dtype::DType;
use crate::graph::ops::Call;
use crate::graph::{Arg, Family, Graph, Node, ValueId};

/// Thresholds that are kept for one value: more of them say little, and long graphs have many.
const MAX_TARGETS: usize = 24;

/// What a graph does with one input.
#[derive(Debug, Clone, Default)]
pub(super) struct InputFacts {
    /// The values at which the graph changes what it does.
    pub(super) targets: Vec<Target>,
    /// The largest constant that something made of this input is compared with, where no value of an element decides.
    pub(super) reach: Option<f64>,
    /// The rows that the graph reduces.
    pub(super) reduced: Option<Layout>,
    /// Whether it is under a root, a logarithm or a division, as a variance is.
    pub(super) is_positive: bool,
    /// True if it is under a root or a logarithm, which negative numbers do not have.
    pub(super) is_rooted: bool,
    /// True if the graph looks for the largest or the smallest of its elements, or for their order.
    pub(super) is_ordered: bool,
    /// The number that changes nothing where it is added or multiplied: the value that layers begin with.
    pub(super) neutral: Option<f32>,
    /// The use of integers.
    pub(super) integers: IntegerUse,
}

/// Operators that look for the largest or the smallest element, or for an order.
const ORDERING: [&str; 24] = [
    "amax",
    "amin",
    "aminmax",
    "max",
    "min",
    "argmax",
    "argmin",
    "argsort",
    "cummax",
    "cummin",
    "kthvalue",
    "log_softmax",
    "_log_softmax",
    "logsumexp",
    "logcumsumexp",
    "max_pool1d",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "median",
    "softmax",
    "_softmax",
    "sort",
    "topk",
];

/// The number that changes nothing in the place of an operand.
fn neutral(node: &Node, value: ValueId) -> Option<f32> {
    let parameters = node.op.schema().parameters.iter().zip(&node.args);
    let mut names = parameters
        .filter(|(_, arg)| **arg == Arg::Value(value))
        .map(|(parameter, _)| parameter.name.as_str());
    match (names.next()?, node.op.base_name(), node.op.family()) {
        ("bias" | "running_mean", _, _) | (_, "add" | "sub", _) => Some(0.0),
        ("running_var", _, _) | ("weight", _, Family::Norm) | (_, "mul", _) => Some(1.0),
        _ => None,
    }
}

/// The facts of each input of a graph, in order.
pub(super) fn harvest(graph: &Graph) -> Vec<InputFacts> {
    let mut harvest = Harvest::new(graph);
    for node in graph.nodes().iter().rev() {
        harvest.thresholds(node);
        harvest.backwards(node);
    }
    let inputs = graph.inputs().iter().map(|input| {
        let fact = harvest.facts.get(input.value.index());
        let fact = fact.cloned().unwrap_or_default();
        InputFacts {
            integers: IntegerUse::of(graph, input.value),
            ..fact
        }
    });
    inputs.collect()
}

struct Harvest<'a> {
    graph: &'a Graph,
    /// Values of which every element is the same known number.
    numbers: HashMap<ValueId, f64>,
    /// By value, in the order of the graph's.
    facts: Vec<InputFacts>,
}

impl<'a> Harvest<'a> {
    fn new(graph: &'a Graph) -> Self {
        let mut numbers = HashMap::new();
        for constant in graph.constants() {
            if constant.tensor.len() == 1
                && let Ok(values) = constant.tensor.to_f64()
                && let Some(value) = values.first()
            {
                numbers.insert(constant.value, *value);
            }
        }
        let mut harvest = Self {
            graph,
            numbers,
            facts: vec![InputFacts::default(); graph.values().len()],
        };
        for node in graph.nodes() {
            if let ([output], Some(number)) = (node.outputs.as_slice(), harvest.constant(node)) {
                harvest.numbers.insert(*output, number);
            }
        }
        harvest
    }

    fn call(&self, node: &'a Node) -> Call<'a> {
        Call::new(node.op, &node.args, self.graph.values())
    }

    /// The number that every element of a node's result is, if that is known.
    fn constant(&self, node: &'a Node) -> Option<f64> {
        let call = self.call(node);
        match node.op.base_name() {
            "full" | "full_like" => call.number("fill_value").ok(),
            "scalar_tensor" => call.number("s").ok(),
            "zeros" | "zeros_like" => Some(0.0),
            "ones" | "ones_like" => Some(1.0),
            "to" | "_to_copy" => self.numbers.get(&call.value("self").ok()?).copied(),
            _ if node.op.family() == Family::View => self.numbers.get(&node.inputs().next()?).copied(),
            _ => None,
        }
    }

    /// The number that an argument stands for.
    fn number(&self, call: &Call<'_>, name: &str) -> Option<f64> {
        match call.opt_arg(name)? {
            Arg::Value(value) => self.numbers.get(value).copied(),
            Arg::Float(_) | Arg::Int(_) => call.opt_number(name).ok().flatten(),
            _ => None,
        }
    }

    fn fact(&mut self, value: ValueId) -> Option<&mut InputFacts> {
        self.facts.get_mut(value.index())
    }

    fn add(&mut self, value: ValueId, target: Target) {
        if let Some(fact) = self.fact(value)
            && fact.targets.len() < MAX_TARGETS
            && !fact.targets.contains(&target)
            && target.at.is_finite()
        {
            fact.targets.push(target);
        }
    }

    fn add_reach(&mut self, value: ValueId, reach: f64) {
        if let Some(fact) = self.fact(value) {
            fact.reach = Some(fact.reach.unwrap_or(1.0).max(reach.abs()));
        }
    }

    /// Notes the constants that an operator compares its operands with.
    fn thresholds(&mut self, node: &'a Node) {
        let call = self.call(node);
        let arg = |name| self.number(&call, name);
        let operand = |name| call.value(name).ok().filter(|v| !self.numbers.contains_key(v));
        let main = operand("self").or_else(|| operand("input"));
        let exact = |list: &[f64]| list.iter().map(|t| (*t, Precision::Exact)).collect::<Vec<_>>();
        let given = |list: &[Option<f64>]| exact(&list.iter().copied().flatten().collect::<Vec<_>>());
        let (of, found) = match node.op.base_name() {
            "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "maximum" | "minimum" => match (main, arg("other")) {
                (main, Some(other)) => (main, exact(&[other])),
                (_, None) => (operand("other"), given(&[arg("self")])),
            },
            "max" | "min" if call.opt_arg("other").is_some() => (main, given(&[arg("other")])),
            "clamp" | "clamp_min" | "clamp_max" => (main, given(&[arg("min"), arg("max")])),
            "hardtanh" => (main, given(&[arg("min_val"), arg("max_val")])),
            "relu" | "leaky_relu" | "elu" | "selu" | "celu" | "prelu" | "abs" | "sign" => {
                (main, exact(&[0.0]))
            }
            "relu6" => (main, exact(&[0.0, 6.0])),
            "hardswish" | "hardsigmoid" => (main, exact(&[-3.0, 3.0])),
            "softplus" => {
                let turn = arg("threshold").zip(arg("beta")).map(|(t, beta)| t / beta);
                (main, turn.map(|t| (t, Precision::Near)).into_iter().collect())
            }
            "sigmoid" | "log_sigmoid" | "tanh" | "silu" | "mish" | "gelu" | "erf" | "erfc" | "exp"
            | "expm1" => (main, vec![(0.0, Precision::Near)]),
            "floor" | "ceil" | "trunc" => (main, exact(&[-1.0, 0.0, 1.0, 2.0])),
            "round" => (main, exact(&[-1.5, -0.5, 0.5, 1.5, 2.5])),
            "to" | "_to_copy" if self.truncates(node) => {
                let mut found = exact(&[-1.0, 0.0, 1.0, 2.0]);
                // Numbers that shorter integers do not hold.
                let far: &[f64] = match node.outputs.first().and_then(|v| self.graph.value(*v)) {
                    Some(value) if value.ty.dtype == DType::I64 => &[-3e9, 3e9, 1e12],
                    Some(value) if value.ty.dtype == DType::I32 => &[-1e9, 70_000.0, 1e9],
                    _ => &[],
                };
                found.extend(far.iter().map(|at| (*at, Precision::AtOnly)));
                (main, found)
            }
            "remainder" | "fmod" | "floor_divide" => (main, multiples(arg("other"))),
            "div"
                if call
                    .opt_arg("rounding_mode")
                    .is_some_and(|mode| matches!(mode, Arg::Str(_))) =>
            {
                (main, multiples(arg("other")))
            }
            "smooth_l1_loss" | "huber_loss" => {
                let turn = arg("beta").or_else(|| arg("delta")).unwrap_or(1.0);
                node.inputs().for_each(|value| self.add_reach(value, turn));
                return;
            }
            _ => {
                // An epsilon decides in rows that are small.
                if node.op.family() == Family::Norm
                    || node.op.schema().parameters.iter().any(|p| p.name == "eps")
                {
                    node.inputs().for_each(|value| self.add_reach(value, 1.0));
                }
                return;
            }
        };
        for (at, precision) in found {
            if let Some(of) = of {
                self.add(of, Target::new(at, precision));
            }
        }
    }

    /// Whether a conversion makes integers of floats.
    fn truncates(&self, node: &Node) -> bool {
        let dtype = |value: ValueId| self.graph.value(value).map(|v| v.ty.dtype);
        let from = node.inputs().next().and_then(dtype);
        let to = node.outputs.first().copied().and_then(dtype);
        from.is_some_and(|d| d.is_float()) && to.is_some_and(|d| !d.is_float())
    }

    /// Moves what is known of a node's results to its operands.
    fn backwards(&mut self, node: &'a Node) {
        let mut of_outputs = InputFacts::default();
        for output in &node.outputs {
            let Some(fact) = self.facts.get(output.index()) else {
                continue;
            };
            of_outputs.targets.extend(fact.targets.iter().copied());
            of_outputs.reach = larger(of_outputs.reach, fact.reach);
            of_outputs.reduced = of_outputs.reduced.or(fact.reduced);
            of_outputs.is_positive |= fact.is_positive;
            of_outputs.is_rooted |= fact.is_rooted;
            of_outputs.is_ordered |= fact.is_ordered;
            of_outputs.neutral = of_outputs.neutral.or(fact.neutral);
        }
        let call = self.call(node);
        let floats: Vec<ValueId> = node.inputs().filter(|v| self.is_float(*v)).collect();
        for target in &of_outputs.targets {
            let numbers = |arg: &str| self.number(&call, arg);
            match operands_of(node, &call, &numbers, *target) {
                Some(found) => {
                    for (value, target) in found {
                        self.add(value, target);
                    }
                }
                None => floats.iter().for_each(|value| self.add_reach(*value, target.at)),
            }
        }
        if let Some(reach) = of_outputs.reach {
            floats.iter().for_each(|value| self.add_reach(*value, reach));
        }
        let reduced = self.reduced(node, &call);
        let is_root = matches!(node.op.base_name(), "sqrt" | "rsqrt" | "log" | "log2" | "log10");
        let is_inverse = matches!(node.op.base_name(), "reciprocal" | "pow");
        let is_affine = matches!(node.op.base_name(), "add" | "mul" | "to" | "_to_copy")
            || node.op.family() == Family::View;
        let orders = ORDERING.contains(&node.op.base_name());
        let moves = matches!(node.op.family(), Family::View | Family::Rearrange)
            || matches!(
                node.op.base_name(),
                "to" | "_to_copy" | "where" | "masked_fill" | "neg"
            );
        let names = node.op.schema().parameters.iter().zip(&node.args);
        let variances: Vec<ValueId> = names
            .filter(|(parameter, _)| matches!(parameter.name.as_str(), "running_var"))
            .flat_map(|(_, arg)| arg.values())
            .collect();
        let outputs = node
            .outputs
            .first()
            .and_then(|v| self.graph.value(*v))
            .map(|v| v.ty.shape.clone());
        for value in floats {
            let is_alike = self.graph.value(value).map(|v| &v.ty.shape) == outputs.as_ref();
            let passed = of_outputs.reduced.filter(|_| is_alike);
            let divides = node.op.base_name() == "div" && call.opt_arg("other") == Some(&Arg::Value(value));
            let is_variance = is_root || variances.contains(&value);
            let is_positive = is_variance || is_inverse || divides || is_affine && of_outputs.is_positive;
            let neutral = neutral(node, value).or(of_outputs.neutral.filter(|_| moves));
            if let Some(fact) = self.fact(value) {
                fact.is_ordered |= orders || moves && of_outputs.is_ordered;
                fact.neutral = fact.neutral.or(neutral);
                fact.is_rooted |= is_variance || is_affine && of_outputs.is_rooted;
                fact.reduced = fact.reduced.or(reduced).or(passed);
                fact.is_positive |= is_positive;
            }
        }
    }

    fn is_float(&self, value: ValueId) -> bool {
        self.graph.value(value).is_some_and(|v| v.ty.dtype.is_float())
    }

    /// The rows of the first operand that a node reduces.
    fn reduced(&self, node: &Node, call: &Call<'_>) -> Option<Layout> {
        let first = self.graph.value(node.inputs().next()?)?;
        let rank = first.ty.rank();
        let axis = |dim: i64| usize::try_from(if dim < 0 { dim + rank as i64 } else { dim }).ok();
        match (node.op.base_name(), node.op.family()) {
            ("layer_norm" | "rms_norm" | "native_layer_norm", _) => {
                let sizes = call.sizes("normalized_shape").ok()?.len();
                Some(Layout::Leading(rank.checked_sub(sizes)?))
            }
            ("group_norm" | "native_group_norm", _) => Some(Layout::Leading(1)),
            ("instance_norm", _) => Some(Layout::Leading(2)),
            (_, Family::Norm) => Some(Layout::Channel(1)),
            (_, Family::Reduce | Family::Scan) => match call.opt_arg("dim") {
                Some(Arg::Int(dim)) => Some(Layout::Along(axis(dim.as_const()?)?)),
                Some(Arg::Ints(dims)) => {
                    let dims: Option<Vec<usize>> = dims.iter().map(|d| axis(d.as_const()?)).collect();
                    layout(&dims?, rank)
                }
                _ => None,
            },
            _ => None,
        }
    }
}

/// The rows along several axes, where they are the last ones or all but one.
fn layout(dims: &[usize], rank: usize) -> Option<Layout> {
    let kept: Vec<usize> = (0..rank).filter(|axis| !dims.contains(axis)).collect();
    match (dims, kept.as_slice()) {
        ([axis], _) => Some(Layout::Along(*axis)),
        (_, kept) if kept.iter().enumerate().all(|(i, axis)| i == *axis) => Some(Layout::Leading(kept.len())),
        (_, [axis]) => Some(Layout::Channel(*axis)),
        _ => None,
    }
}

fn larger(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

/// Multiples of a divisor, where quotients change.
fn multiples(divisor: Option<f64>) -> Vec<(f64, Precision)> {
    let Some(divisor) = divisor.filter(|d| *d != 0.0) else {
        return Vec::new();
    };
    // Elsewhere the division itself rounds, beside a multiple even across it.
    let is_power = divisor.abs().log2().fract() == 0.0;
    let precision = if is_power {
        Precision::Exact
    } else {
        Precision::AtOnly
    };
    [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0]
        .map(|n| (n * divisor, precision))
        .to_vec()
}
