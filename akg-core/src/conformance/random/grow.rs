//! Growing a graph call by call.

use std::collections::BTreeMap;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{Bindings, Expr};
use crate::graph::{Arg, Graph, Node, TensorType, ValueId};
use crate::tensor::Tensor;

use super::steady::{Held, evaluated, floats, whole};
use super::{elements, folds, layers, layout, products, windows};

/// Elements of a value at most, and the same where rows are long.
const ELEMENTS: i64 = 3000;
const LONG: i64 = 20_000;

/// Multiplications of one call at most.
pub(super) const WORK: i64 = 400_000;

/// Extents: 1, primes, powers of two, their neighbours, multiples.
const EXTENTS: [i64; 24] = [
    1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 24, 31, 32, 33, 48, 64, 65, 100, 128, 130,
];
const SMALL: [i64; 10] = [1, 2, 2, 3, 4, 5, 6, 7, 8, 9];
const LONG_ROWS: [i64; 6] = [1025, 2048, 4096, 4500, 8192, 9001];

/// A way to grow: one call or a few that belong together. An error is a way that is not open now.
type Family = fn(&mut Grower) -> Result<()>;

/// The families and how often each is tried.
const FAMILIES: [(u32, Family); 24] = [
    (16, elements::unary),
    (14, elements::binary),
    (5, elements::scalar),
    (5, elements::choice),
    (4, elements::predicate),
    (4, elements::conversion),
    (4, elements::fused),
    (10, folds::reduction),
    (3, folds::index_of_extremum),
    (5, folds::spread),
    (4, folds::softmax),
    (4, folds::scan),
    (8, layers::norm),
    (3, layers::statistics),
    (4, layers::loss),
    (3, layers::dropout),
    (2, layers::recurrent),
    (14, products::product),
    (3, products::attention),
    (8, windows::convolution),
    (5, windows::pool),
    (16, layout::view),
    (8, layout::arrangement),
    (5, layout::indexed),
];

/// A graph on its way, with the elements of all its values.
#[derive(Debug)]
pub(super) struct Grower {
    rng: ChaCha8Rng,
    pub(super) graph: Graph,
    held: BTreeMap<ValueId, Held>,
    /// The element type of most floats.
    float: DType,
    has_long_rows: bool,
}

/// A finished graph and its inputs.
pub(super) struct Grown {
    pub(super) graph: Graph,
    pub(super) inputs: Vec<Tensor>,
}

/// The error of a way that is not open.
pub(super) fn closed<T>() -> Result<T> {
    Err(Error::invalid("no value fits"))
}

pub(super) fn grow(seed: u64) -> Result<Grown> {
    let mut grower = Grower::new(seed);
    let calls = 1 + grower.below(9) as usize;
    for _ in 0..12 * calls {
        if grower.graph.nodes().len() >= calls {
            break;
        }
        grower.try_one();
    }
    grower.finish()
}

/// Whether every call of a graph is one that a graph could have grown by.
pub(super) fn is_steady(seed: u64, graph: &Graph, inputs: &[Tensor]) -> Result<bool> {
    let mut grower = Grower::new(seed);
    let given = graph.inputs().iter().map(|i| i.value).zip(inputs.iter().cloned());
    let constants = graph.constants().iter().map(|c| (c.value, c.tensor.clone()));
    grower.held = given
        .chain(constants)
        .map(|(value, tensor)| (value, Held::given(tensor)))
        .collect();
    grower.has_long_rows = true;
    grower.graph = graph.clone();
    grower.settle(0)
}

impl Grower {
    fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let float = match rng.random_range(0..20) {
            0 => DType::F16,
            1 => DType::BF16,
            _ => DType::F32,
        };
        let has_long_rows = rng.random_range(0..10) == 0;
        Self {
            rng,
            graph: Graph::new(format!("random_{seed}")),
            held: BTreeMap::new(),
            float,
            has_long_rows,
        }
    }

    /// Grows one way, or stays as it is.
    fn try_one(&mut self) {
        let (graph, nodes) = (self.graph.clone(), self.graph.nodes().len());
        let total: u32 = FAMILIES.iter().map(|(weight, _)| weight).sum();
        let mut at = self.rng.random_range(0..total);
        let family = FAMILIES.iter().find(|(weight, _)| {
            let is_it = at < *weight;
            at = at.saturating_sub(*weight);
            is_it
        });
        let grown = family.map_or_else(closed, |(_, grow)| grow(self));
        if !grown.and_then(|()| self.settle(nodes)).unwrap_or(false) {
            self.graph = graph;
            self.held.retain(|value, _| self.graph.value(*value).is_some());
        }
    }

    /// Evaluates the nodes from `first` on; false if one of them is ill-conditioned where it is evaluated.
    fn settle(&mut self, first: usize) -> Result<bool> {
        for at in first..self.graph.nodes().len() {
            let Some(node) = self.graph.nodes().get(at).cloned() else {
                return Ok(false);
            };
            match self.evaluate(&node)? {
                Some(results) => self.held.extend(node.outputs.iter().copied().zip(results)),
                None => return Ok(false),
            }
        }
        Ok(self.graph.nodes().len() > first)
    }

    /// What a node's results hold; `None` if they are too many, or say little about the operands.
    fn evaluate(&mut self, node: &Node) -> Result<Option<Vec<Held>>> {
        let most = if self.has_long_rows { LONG } else { ELEMENTS };
        for result in &node.outputs {
            if self.elements(*result).is_none_or(|n| n == 0 || n > most) {
                return Ok(None);
            }
        }
        evaluated(&self.graph, node, &self.held, &mut self.rng)
    }

    /// Returns what nothing reads, and some of the rest, to the caller.
    fn finish(mut self) -> Result<Grown> {
        if self.graph.nodes().is_empty() {
            let x = self.new_float()?;
            self.graph.relu(x)?;
            self.settle(0)?;
        }
        let read: Vec<ValueId> = self
            .graph
            .nodes()
            .iter()
            .flat_map(|n| n.inputs().collect::<Vec<_>>())
            .collect();
        let computed: Vec<ValueId> = self
            .graph
            .nodes()
            .iter()
            .flat_map(|n| n.outputs.clone())
            .collect();
        let already: Vec<ValueId> = self.graph.outputs().iter().map(|o| o.value).collect();
        for value in computed {
            if !already.contains(&value) && (!read.contains(&value) || self.chance(0.1)) {
                self.graph.output(value);
            }
        }
        let given = self.graph.inputs().iter().filter_map(|i| self.held.get(&i.value));
        let inputs = given.map(|h| h.tensor.clone()).collect();
        let graph = self.graph.prune();
        graph.validate()?;
        Ok(Grown { graph, inputs })
    }

    /// A number below `n`.
    pub(super) fn below(&mut self, n: i64) -> i64 {
        self.rng.random_range(0..n.max(1))
    }

    pub(super) fn chance(&mut self, p: f64) -> bool {
        self.rng.random_bool(p)
    }

    /// One of `choices`, of which there must be some.
    pub(super) fn pick<T: Clone>(&mut self, choices: &[T]) -> Result<T> {
        let at = self.below(choices.len() as i64) as usize;
        choices.get(at).cloned().map_or_else(closed, Ok)
    }

    pub(super) fn shape(&self, value: ValueId) -> Vec<i64> {
        self.graph
            .ty(value)
            .shape
            .iter()
            .filter_map(Expr::as_const)
            .collect()
    }

    pub(super) fn dtype(&self, value: ValueId) -> DType {
        self.graph.ty(value).dtype
    }

    pub(super) fn rank(&self, value: ValueId) -> i64 {
        self.graph.ty(value).rank() as i64
    }

    /// A dimension of `value`; from the end as often as from the front.
    pub(super) fn dim(&mut self, value: ValueId) -> Result<i64> {
        let rank = self.rank(value);
        if rank == 0 {
            return closed();
        }
        let dim = self.below(rank);
        Ok(if self.chance(0.5) { dim } else { dim - rank })
    }

    /// Some dimensions of `value`, at least one, in order.
    pub(super) fn dims(&mut self, value: ValueId) -> Result<Vec<i64>> {
        let one = self.dim(value)?;
        let rank = self.rank(value);
        let dims: Vec<i64> = (0..rank)
            .filter(|d| *d == one || *d == one + rank || self.rng.random_range(0..3) == 0)
            .collect();
        Ok(dims)
    }

    fn elements(&self, value: ValueId) -> Option<i64> {
        let shape = self.graph.ty(value).concrete_shape(&Bindings::new()).ok()?;
        shape.iter().try_fold(1i64, |n, d| n.checked_mul(*d as i64))
    }

    /// The largest element of a value.
    pub(super) fn largest(&self, value: ValueId) -> f64 {
        let values = self.held.get(&value).and_then(|h| h.tensor.to_f64().ok());
        values
            .unwrap_or_default()
            .into_iter()
            .fold(f64::NEG_INFINITY, f64::max)
    }

    /// Any extent.
    pub(super) fn extent(&mut self) -> i64 {
        let at = self.below(EXTENTS.len() as i64) as usize;
        EXTENTS.get(at).copied().unwrap_or(1)
    }

    /// A small extent.
    pub(super) fn small(&mut self) -> i64 {
        let at = self.below(SMALL.len() as i64) as usize;
        SMALL.get(at).copied().unwrap_or(1)
    }

    /// A shape of bounded size.
    pub(super) fn new_shape(&mut self, rank: i64) -> Result<Vec<i64>> {
        if self.has_long_rows && rank > 0 && self.chance(0.5) {
            let row = self.pick(&LONG_ROWS)?;
            let others = vec![1; rank as usize - 1];
            let mut shape = others.clone();
            shape.push(row);
            if self.chance(0.2) {
                shape = [vec![row], others].concat();
            } else if let Some(rows) = shape.first_mut().filter(|first| **first == 1) {
                *rows += self.rng.random_range(0..2);
            }
            return Ok(shape);
        }
        let mut shape = Vec::new();
        let mut room = ELEMENTS;
        for i in 0..rank {
            let extent = if rank - i > 2 { self.small() } else { self.extent() }.min(room);
            room /= extent;
            shape.push(extent);
        }
        Ok(shape)
    }

    /// A new input of floats, of the graph's type mostly.
    pub(super) fn new_float(&mut self) -> Result<ValueId> {
        let rank = self.pick(&[0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5])?;
        let shape = self.new_shape(rank)?;
        self.float_input(&shape)
    }

    pub(super) fn float_input(&mut self, shape: &[i64]) -> Result<ValueId> {
        let float = match self.below(30) {
            0 => self.pick(&[DType::F16, DType::BF16, DType::F32])?,
            _ => self.float,
        };
        self.input("x", float, shape)
    }

    /// A new input. Floats lie in −2..2, integers in −8..8.
    pub(super) fn input(&mut self, name: &str, dtype: DType, shape: &[i64]) -> Result<ValueId> {
        let value = self.graph.input(name, dtype, shape.iter().copied());
        self.hold(value, -2.0, 2.0)
    }

    /// A new parameter, or sometimes a constant, whose elements become smaller with the number of those that are added up.
    pub(super) fn weight(&mut self, dtype: DType, shape: &[i64], fan_in: i64) -> Result<ValueId> {
        let bound = 2.0 / (fan_in.max(1) as f64).sqrt();
        if self.chance(0.06) {
            let tensor = self.fresh(&TensorType::new(dtype, shape.iter().copied()), -bound, bound)?;
            let value = self.graph.constant("c", tensor.clone());
            self.held.insert(value, Held::given(tensor));
            return Ok(value);
        }
        let value = self.graph.weight("w", dtype, shape.iter().copied());
        self.hold(value, -bound, bound)
    }

    /// New floats that may be divided by.
    pub(super) fn positive_input(&mut self, dtype: DType, shape: &[i64]) -> Result<ValueId> {
        let value = self.graph.input("p", dtype, shape.iter().copied());
        self.hold(value, 0.25, 2.0)
    }

    /// A buffer of positive numbers that the computation may update.
    pub(super) fn state(&mut self, name: &str, shape: &[i64]) -> Result<ValueId> {
        let value = self.graph.state(name, DType::F32, shape.iter().copied());
        self.hold(value, 0.5, 2.0)
    }

    /// New integers in `0..end`, or in `-end..end`.
    pub(super) fn indices(&mut self, shape: &[i64], end: i64, is_signed: bool) -> Result<ValueId> {
        let dtype = if self.chance(0.8) { DType::I64 } else { DType::I32 };
        let value = self.graph.input("i", dtype, shape.iter().copied());
        self.hold(value, if is_signed { -end as f64 } else { 0.0 }, end as f64)
    }

    fn hold(&mut self, value: ValueId, lo: f64, hi: f64) -> Result<ValueId> {
        let ty = self.graph.ty(value).clone();
        let tensor = self.fresh(&ty, lo, hi)?;
        self.held.insert(value, Held::given(tensor));
        Ok(value)
    }

    /// Elements in `lo..hi`; four times as far for integers in no range of their own.
    fn fresh(&mut self, ty: &TensorType, lo: f64, hi: f64) -> Result<Tensor> {
        let shape = ty.concrete_shape(&Bindings::new())?;
        let count = shape.iter().product();
        let mut float = || self.rng.random_range(lo..hi);
        let values: Vec<f64> = (0..count).map(|_| float()).collect();
        match ty.dtype {
            DType::Bool => Tensor::from_bools(shape, &values.iter().map(|v| *v > 0.0).collect::<Vec<_>>()),
            dtype if dtype.is_float() => floats(dtype, shape, &values),
            dtype => {
                let integers: Vec<i64> = values.iter().map(|v| v.floor() as i64).collect();
                whole(dtype, shape, &integers)
            }
        }
    }

    /// A value whose type fits: one of the latest more often than one of the first.
    pub(super) fn value(&mut self, fits: impl Fn(&Self, ValueId) -> bool) -> Result<ValueId> {
        let all: Vec<ValueId> = self.held.keys().copied().filter(|v| fits(self, *v)).collect();
        if self.chance(0.6)
            && let Some(latest) = all.last()
        {
            return Ok(*latest);
        }
        self.pick(&all)
    }

    /// Floats of some rank; new ones if there are none, or now and then.
    pub(super) fn float(&mut self, least: i64, most: i64) -> Result<ValueId> {
        let old = self.value(|g, v| g.dtype(v).is_float() && (least..=most).contains(&g.rank(v)));
        if let Ok(value) = old
            && !self.chance(0.1)
        {
            return Ok(value);
        }
        let rank = least + self.below(most.min(5) - least + 1);
        let shape = self.new_shape(rank)?;
        self.float_input(&shape)
    }

    /// A shape that broadcasts against `shape` without growing it.
    pub(super) fn narrower(&mut self, shape: &[i64]) -> Vec<i64> {
        let skip = if self.chance(0.4) {
            self.below(shape.len() as i64 + 1)
        } else {
            0
        };
        let rest: Vec<i64> = shape.iter().skip(skip as usize).copied().collect();
        let is_whole = self.chance(0.5);
        rest.iter()
            .map(|d| {
                if is_whole || self.rng.random_range(0..3) > 0 {
                    *d
                } else {
                    1
                }
            })
            .collect()
    }

    /// Another operand for `x`: a value that broadcasts with it, or a new one of the same element type.
    pub(super) fn partner(&mut self, x: ValueId) -> Result<ValueId> {
        let (shape, dtype) = (self.shape(x), self.dtype(x));
        let old = self.value(|g, v| {
            let other = g.shape(v);
            let pairs = shape.iter().rev().zip(other.iter().rev());
            g.dtype(v).is_float() == dtype.is_float()
                && pairs.into_iter().all(|(a, b)| a == b || *a == 1 || *b == 1)
        });
        if let Ok(value) = old
            && self.chance(0.6)
        {
            return Ok(value);
        }
        let shape = self.narrower(&shape);
        self.input("y", dtype, &shape)
    }

    /// Calls an operator.
    pub(super) fn call<const N: usize>(&mut self, op: &str, args: [(&str, Arg); N]) -> Result<Vec<ValueId>> {
        self.graph.call(op, args)
    }

    /// Calls an operator of one result.
    pub(super) fn call1<const N: usize>(&mut self, op: &str, args: [(&str, Arg); N]) -> Result<ValueId> {
        let results = self.call(op, args)?;
        results.first().copied().map_or_else(closed, Ok)
    }
}
