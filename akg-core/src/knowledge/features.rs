//! What a computation looks like, whatever its values are called.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Bindings;
use crate::graph::ops::{Call, Parameter};
use crate::graph::{Arg, Family, Graph, Node, ValueId};
use crate::task::Task;
use crate::timing::product_flops;

/// Parameters of operators whose integers are extents or places.
const EXTENTS: [&str; 10] = [
    "size",
    "sizes",
    "shape",
    "normalized_shape",
    "output_size",
    "split_size",
    "split_sizes",
    "start",
    "end",
    "length",
];

/// Octaves by which extents differ after which they are like 1/e.
const OCTAVES: f64 = 4.0;

/// The largest extent that tiles have, in octaves, and what an octave beyond it counts for: larger extents are tiled alike.
const TILED: f64 = 10.0;
const BEYOND: f64 = 0.1;

/// How kernels for a graph are likely to be built. Names of values and the order of nodes that do not depend on each other
/// have no part in it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Features {
    /// The hash of the graph up to extents and other numbers: equal for one computation at several sizes.
    pub structure: Digest,
    /// The family of its weightiest operator: `conv` for a convolution with what follows it.
    pub family: Family,
    /// How often each operator is called.
    pub operators: BTreeMap<String, u32>,
    /// How often one operator reads what another made, as `mm.default > relu.default`.
    pub edges: BTreeMap<String, u32>,
    /// Element types of all values.
    pub dtypes: BTreeSet<DType>,
    /// Rows, columns and depth of the largest product, as binary logarithms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub product: Option<[f64; 3]>,
    /// Of the largest reduction, norm or scan: the extents before the reduced axes, theirs, and those after them, as binary
    /// logarithms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reduction: Option<[f64; 3]>,
    /// Elements of the largest value, as a binary logarithm.
    pub elements: f64,
    /// Extents of inputs, in an order that follows from what is done with them, and then of outputs, as binary logarithms.
    pub extents: Vec<Vec<f64>>,
}

impl Features {
    /// The features of a task at its hints.
    ///
    /// # Errors
    /// If an extent has no value.
    pub fn of(task: &Task) -> Result<Self> {
        let (graph, dims) = (&task.graph, &task.contract.hints);
        let mut operators = BTreeMap::new();
        let mut edges = BTreeMap::new();
        let mut producers: BTreeMap<ValueId, &Node> = BTreeMap::new();
        let (mut product, mut reduction) = (Largest::default(), Largest::default());
        for node in graph.nodes() {
            let name = node.op.name();
            *operators.entry(name.to_owned()).or_default() += 1;
            for maker in node.inputs().filter_map(|value| producers.get(&value)) {
                *edges.entry(format!("{} > {name}", maker.op.name())).or_default() += 1;
            }
            producers.extend(node.outputs.iter().map(|value| (*value, node)));
            product.offer(product_of(graph, node, dims)?);
            reduction.offer(reduction_of(graph, node, dims)?);
        }
        let values = graph.values().iter();
        let mut elements = 0.0f64;
        for value in values.clone() {
            elements = elements.max(octaves(&value.ty.concrete_shape(dims)?).iter().sum());
        }
        let (structure, ports) = shape_free(graph);
        let extents = ports
            .iter()
            .map(|value| Ok(octaves(&graph.ty(*value).concrete_shape(dims)?)));
        Ok(Self {
            structure,
            family: family(&operators, graph),
            operators,
            edges,
            dtypes: values.map(|value| value.ty.dtype).collect(),
            product: product.0,
            reduction: reduction.0,
            elements,
            extents: extents.collect::<Result<_>>()?,
        })
    }

    /// Whether both are the same problem: the same computation at the same sizes.
    pub fn is_same_problem(&self, other: &Self) -> bool {
        self.structure == other.structure && self.extents == other.extents
    }

    /// The octaves between the extents of one computation at two sizes; `None` for two computations.
    pub fn distance(&self, other: &Self) -> Option<f64> {
        let alike = self.structure == other.structure
            && self.extents.len() == other.extents.len()
            && self
                .extents
                .iter()
                .zip(&other.extents)
                .all(|(a, b)| a.len() == b.len());
        let pairs = self.extents.iter().flatten().zip(other.extents.iter().flatten());
        alike.then(|| pairs.map(|(a, b)| (a - b).abs()).sum())
    }

    /// How alike two computations are, from 0 to 1: 1 for the same.
    pub fn likeness(&self, other: &Self) -> f64 {
        let operators = overlap(&self.operators, &other.operators);
        let edges = match (self.edges.is_empty(), other.edges.is_empty()) {
            (true, true) => operators,
            _ => overlap(&self.edges, &other.edges),
        };
        let family = f64::from(u8::from(self.family == other.family));
        let both = self.dtypes.intersection(&other.dtypes).count() as f64;
        let either = self.dtypes.union(&other.dtypes).count().max(1) as f64;
        let structure = f64::from(u8::from(self.structure == other.structure));
        0.25 * operators
            + 0.2 * edges
            + 0.1 * family
            + 0.05 * both / either
            + 0.1 * structure
            + 0.3 * self.nearness(other)
    }

    /// How near the extents are, from 0 to 1.
    fn nearness(&self, other: &Self) -> f64 {
        if self.distance(other).is_some() {
            let pairs = || self.extents.iter().flatten().zip(other.extents.iter().flatten());
            let apart: f64 = pairs().map(|(a, b)| (weight(*a) - weight(*b)).abs()).sum();
            return near(apart / pairs().count().max(1) as f64);
        }
        let pair = |a: Option<[f64; 3]>, b: Option<[f64; 3]>| match (a, b) {
            (Some(a), Some(b)) => Some(near(
                a.iter()
                    .zip(b)
                    .map(|(a, b)| (weight(*a) - weight(b)).abs())
                    .sum::<f64>()
                    / 3.0,
            )),
            (None, None) => None,
            _ => Some(0.0),
        };
        let all = [
            pair(self.product, other.product),
            pair(self.reduction, other.reduction),
            Some(near((self.elements - other.elements).abs())),
        ];
        let known = || all.iter().flatten();
        known().sum::<f64>() / known().count().max(1) as f64
    }
}

/// An extent as it counts for how a kernel is built, in octaves.
fn weight(octaves: f64) -> f64 {
    octaves.min(TILED) + BEYOND * (octaves - TILED).max(0.0)
}

/// 1 for no octaves, less the more there are.
fn near(octaves: f64) -> f64 {
    (-octaves / OCTAVES).exp()
}

/// What two multisets have in common, as a part of what either has.
fn overlap(a: &BTreeMap<String, u32>, b: &BTreeMap<String, u32>) -> f64 {
    let of = |set: &BTreeMap<String, u32>, name| set.get(name).copied().unwrap_or(0);
    let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let sum = |pick: fn(u32, u32) -> u32| {
        names
            .iter()
            .map(|name| pick(of(a, *name), of(b, *name)))
            .sum::<u32>()
    };
    match sum(u32::max) {
        0 => 1.0,
        either => f64::from(sum(u32::min)) / f64::from(either),
    }
}

/// The largest of what is offered, with its size.
#[derive(Debug, Default)]
struct Largest(Option<[f64; 3]>);

impl Largest {
    fn offer(&mut self, extents: Option<[f64; 3]>) {
        // Of two of one size, the order of the nodes must not decide.
        let rank = |extents: [f64; 3]| (extents.iter().sum::<f64>(), extents);
        if let Some(extents) = extents
            && self.0.is_none_or(|largest| rank(largest) < rank(extents))
        {
            self.0 = Some(extents);
        }
    }
}

fn octaves(shape: &[usize]) -> Vec<f64> {
    shape
        .iter()
        .map(|extent| (*extent).max(1) as f64)
        .map(f64::log2)
        .collect()
}

/// The family of a graph: attention that is written out is attention, too.
fn family(operators: &BTreeMap<String, u32>, graph: &Graph) -> Family {
    let families = graph.nodes().iter().map(|node| node.op.family());
    let products = families.clone().filter(|family| *family == Family::Matmul);
    if products.count() > 1 && operators.keys().any(|name| name.contains("softmax")) {
        return Family::Attention;
    }
    // A graph without operators is a function of each element by itself: the identity.
    families.min().unwrap_or(Family::Pointwise)
}

/// Rows, columns and depth of a node's product.
fn product_of(graph: &Graph, node: &Node, dims: &Bindings) -> Result<Option<[f64; 3]>> {
    let flops = product_flops(graph, node, dims)?;
    let Some(result) = node.outputs.first().filter(|_| flops > 0.0) else {
        return Ok(None);
    };
    let shape = octaves(&graph.ty(*result).concrete_shape(dims)?);
    let elements: f64 = shape.iter().sum();
    // Channels of an image are what the rows of its windows are multiplied with.
    let columns = if node.op.family() == Family::Conv {
        shape.get(1)
    } else {
        shape.last()
    };
    let columns = columns.copied().unwrap_or(0.0);
    Ok(Some([
        elements - columns,
        columns,
        (flops / 2.0).log2() - elements,
    ]))
}

/// What a node's reduction leaves before and after the axes that it takes.
fn reduction_of(graph: &Graph, node: &Node, dims: &Bindings) -> Result<Option<[f64; 3]>> {
    if !matches!(
        node.op.family(),
        Family::Reduce | Family::Norm | Family::Scan | Family::Pool
    ) {
        return Ok(None);
    }
    let Some(operand) = node.inputs().next() else {
        return Ok(None);
    };
    let shape = octaves(&graph.ty(operand).concrete_shape(dims)?);
    let axes = axes(graph, node, shape.len());
    let first = axes.first().copied().unwrap_or(0);
    let last = axes.last().map_or(shape.len(), |last| last + 1);
    let sum = |range: std::ops::Range<usize>| shape.get(range).unwrap_or_default().iter().sum::<f64>();
    Ok(Some([sum(0..first), sum(first..last), sum(last..shape.len())]))
}

/// The axes that a node names, in order; all of them if it names none.
fn axes(graph: &Graph, node: &Node, rank: usize) -> Vec<usize> {
    let call = Call::new(node.op, &node.args, graph.values());
    let place = |dim: i64| usize::try_from(if dim < 0 { dim + rank as i64 } else { dim }).ok();
    let mut axes: Vec<usize> = match (call.opt_arg("dim"), call.opt_arg("normalized_shape")) {
        (Some(Arg::Int(dim)), _) => dim.as_const().and_then(place).into_iter().collect(),
        (Some(Arg::Ints(dims)), _) => dims.iter().filter_map(|d| place(d.as_const()?)).collect(),
        (_, Some(Arg::Ints(shape))) => (rank.saturating_sub(shape.len())..rank).collect(),
        _ => Vec::new(),
    };
    axes.sort_unstable();
    if axes.is_empty() {
        (0..rank).collect()
    } else {
        axes
    }
}

/// The hash of a graph without extents, and its ports in an order that does not follow from theirs.
///
/// Values are hashed from what makes them, then inputs by what is done with them, and then values again, so that inputs of
/// one type are told apart where they are used differently: two rounds of Weisfeiler and Leman's refinement (1968).
fn shape_free(graph: &Graph) -> (Digest, Vec<ValueId>) {
    let typed = |value: ValueId, what: &str| {
        let ty = graph.ty(value);
        Digest::of_parts([what, &ty.dtype.to_string(), &ty.rank().to_string()])
    };
    let mut given: BTreeMap<ValueId, Digest> = graph
        .given()
        .map(|value| (value, typed(value, "given")))
        .collect();
    for _ in 0..2 {
        let hashes = hash_values(graph, &given);
        let mut uses: BTreeMap<ValueId, Vec<String>> = BTreeMap::new();
        for node in graph.nodes() {
            let Some(made) = node.outputs.first().and_then(|value| hashes.get(value)) else {
                continue;
            };
            for (value, place) in node.inputs().zip(0..) {
                uses.entry(value).or_default().push(format!("{made} {place}"));
            }
        }
        for (value, hash) in &mut given {
            let mut uses = uses.remove(value).unwrap_or_default();
            uses.sort();
            *hash = Digest::of_parts(
                std::iter::once(hash.to_string().as_str()).chain(uses.iter().map(String::as_str)),
            );
        }
    }
    let hashes = hash_values(graph, &given);
    let outputs: Vec<String> = graph
        .outputs()
        .iter()
        .map(|output| format!("{:?} {}", hashes.get(&output.value), output.updates.is_some()))
        .collect();
    let mut ports: Vec<ValueId> = graph.given().collect();
    let shape = |value: ValueId| graph.ty(value).to_string();
    ports.sort_by_key(|value| (given.get(value).copied(), shape(*value)));
    ports.extend(graph.outputs().iter().map(|output| output.value));
    (Digest::of_parts(outputs.iter().map(String::as_str)), ports)
}

/// Hashes of all values, from those of what is given.
fn hash_values(graph: &Graph, given: &BTreeMap<ValueId, Digest>) -> BTreeMap<ValueId, Digest> {
    let mut hashes = given.clone();
    for node in graph.nodes() {
        let mut parts = vec![node.op.name().to_owned()];
        let rank = node.inputs().next().map_or(0, |value| graph.ty(value).rank());
        for (parameter, arg) in node.op.schema().parameters.iter().zip(&node.args) {
            parts.push(argument(parameter, arg, rank, &hashes));
        }
        let made = Digest::of_parts(parts.iter().map(String::as_str));
        for (value, place) in node.outputs.iter().zip(0..) {
            let place: i32 = place;
            hashes.insert(
                *value,
                Digest::of_parts([made.to_string().as_str(), &place.to_string()]),
            );
        }
    }
    hashes
}

/// An argument without extents and constants.
fn argument(parameter: &Parameter, arg: &Arg, rank: usize, hashes: &BTreeMap<ValueId, Digest>) -> String {
    let of = |value: &ValueId| hashes.get(value).map(ToString::to_string).unwrap_or_default();
    let is_extent = EXTENTS.contains(&parameter.name.as_str());
    let is_axis = parameter.name.starts_with("dim");
    let axis = |number: i64| {
        if is_axis && number < 0 {
            number + rank as i64
        } else {
            number
        }
    };
    let number = |expr: &crate::Expr| {
        expr.as_const()
            .map_or_else(|| "symbol".to_owned(), |n| axis(n).to_string())
    };
    match arg {
        Arg::Value(value) => of(value),
        Arg::Values(values) => values
            .iter()
            .map(|v| v.as_ref().map(of).unwrap_or_default())
            .collect::<Vec<_>>()
            .join(" "),
        Arg::Int(_) if is_extent => "extent".to_owned(),
        Arg::Ints(list) if is_extent => format!("{} extents", list.len()),
        Arg::Int(expr) => number(expr),
        Arg::Ints(list) => list.iter().map(number).collect::<Vec<_>>().join(" "),
        Arg::Float(_) | Arg::Floats(_) => "number".to_owned(),
        other => format!("{other:?}"),
    }
}
