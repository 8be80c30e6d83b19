//! Random graphs of one operator: operands with awkward shapes, layouts and values.

use std::ops::RangeInclusive;

use akg_core::graph::Operator;
use akg_core::{DType, Tensor};
use half::{bf16, f16};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Map, Value as Json, json};

/// Which values an operand gets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Values {
    /// Anything, infinities and NaN included.
    Wild,
    /// Within a few units of 0, so that sums and products stay well conditioned.
    Tame,
    /// Strictly between 0 and 1.
    Unit,
    /// Integers from 0 up to this.
    Below(usize),
}

/// A graph under construction, and the randomness it is made from.
pub(crate) struct Draw {
    rng: ChaCha8Rng,
    inputs: Vec<Json>,
    pub(crate) tensors: Vec<Tensor>,
    nodes: Vec<Json>,
    outputs: Vec<Json>,
}

impl Draw {
    /// A graph that depends on `name` and `case` only.
    pub(crate) fn new(name: &str, case: u64) -> Self {
        let seed = name
            .bytes()
            .fold(case, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        Self {
            rng: ChaCha8Rng::seed_from_u64(seed),
            inputs: Vec::new(),
            tensors: Vec::new(),
            nodes: Vec::new(),
            outputs: Vec::new(),
        }
    }

    pub(crate) fn int(&mut self, range: RangeInclusive<i64>) -> i64 {
        self.rng.random_range(range)
    }

    pub(crate) fn size(&mut self, range: RangeInclusive<usize>) -> usize {
        self.rng.random_range(range)
    }

    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.rng.random_range(0..100) < percent
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.rng.random_range(0..from.len())].clone()
    }

    /// Extents: mostly small, often 1, now and then 0.
    pub(crate) fn shape(&mut self, rank: RangeInclusive<usize>) -> Vec<usize> {
        let rank = self.size(rank);
        (0..rank).map(|_| self.extent()).collect()
    }

    fn extent(&mut self) -> usize {
        match self.int(0..=99) {
            0..=3 => 0,
            4..=20 => 1,
            _ => self.size(2..=5),
        }
    }

    /// `count` shapes that broadcast together.
    pub(crate) fn broadcastable(&mut self, count: usize) -> Vec<Vec<usize>> {
        let whole = self.shape(0..=4);
        let mut shapes = vec![whole.clone(); count];
        for shape in &mut shapes {
            if self.chance(40) {
                let dropped = self.size(0..=shape.len());
                shape.drain(..dropped);
                for extent in shape.iter_mut() {
                    if self.chance(25) {
                        *extent = 1;
                    }
                }
            }
        }
        shapes
    }

    /// A position of `rank` axes, counted from either end.
    pub(crate) fn axis(&mut self, rank: usize) -> i64 {
        let rank = rank.max(1) as i64;
        self.int(-rank..=rank - 1)
    }

    /// Different axes, in any order.
    pub(crate) fn axes(&mut self, rank: usize) -> Vec<i64> {
        let mut axes: Vec<i64> = (0..rank as i64).filter(|_| self.chance(50)).collect();
        if axes.len() > 1 && self.chance(50) {
            axes.reverse();
        }
        axes
    }

    /// A value of this type: an input, or a strided view of one.
    pub(crate) fn operand(&mut self, dtype: DType, shape: &[usize], values: Values) -> String {
        let rank = shape.len();
        match self.int(0..=9) {
            0 | 1 if rank >= 2 => {
                let (a, b) = (self.size(0..=rank - 1), self.size(0..=rank - 1));
                let mut stored = shape.to_vec();
                stored.swap(a, b);
                let input = self.input(dtype, &stored, values);
                self.node("transpose.int", json!({"self": input, "dim0": a, "dim1": b}), 1)
                    .remove(0)
            }
            2 if rank >= 1 => {
                let axis = self.size(0..=rank - 1);
                let mut stored = shape.to_vec();
                stored[axis] = 2 * stored[axis] + 1;
                let input = self.input(dtype, &stored, values);
                let end = 1 + 2 * shape[axis];
                let args = json!({"self": input, "dim": axis, "start": 1, "end": end, "step": 2});
                self.node("slice.Tensor", args, 1).remove(0)
            }
            _ => self.input(dtype, shape, values),
        }
    }

    /// An input of the graph.
    pub(crate) fn input(&mut self, dtype: DType, shape: &[usize], values: Values) -> String {
        let name = format!("x{}", self.inputs.len());
        let count: usize = shape.iter().product();
        let elements: Vec<f64> = (0..count).map(|_| self.element(dtype, values)).collect();
        self.tensors.push(tensor(dtype, shape, &elements));
        self.inputs
            .push(json!({"name": name, "dtype": dtype.name(), "shape": shape}));
        name
    }

    fn element(&mut self, dtype: DType, values: Values) -> f64 {
        const CORNERS: [f64; 12] = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            2.5,
            -2.5,
            1e-30,
            88.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
        ];
        let uniform: f64 = self.rng.random_range(0.001..0.999);
        match (values, dtype) {
            (Values::Below(limit), _) => self.int(0..=limit.max(1) as i64 - 1) as f64,
            (_, DType::Bool) => f64::from(u8::from(self.chance(50))),
            (_, DType::U8) => self.int(0..=6) as f64,
            (_, t) if !t.is_float() => self.int(-4..=5) as f64,
            (Values::Unit, _) => uniform,
            (Values::Wild, _) if self.chance(25) => self.pick(&CORNERS),
            _ => 6.0 * uniform - 3.0,
        }
    }

    /// Calls an operator; returns the names of its `results` values.
    pub(crate) fn node(&mut self, op: &str, args: Json, results: usize) -> Vec<String> {
        let at = self.nodes.len();
        let names: Vec<_> = (0..results).map(|i| format!("n{at}_{i}")).collect();
        let op = Operator::find(op).unwrap().qualified_name();
        self.nodes.push(json!({"op": op, "args": args, "outputs": names}));
        names
    }

    /// Calls the operator that is tested; its results are the graph's outputs.
    pub(crate) fn finish(&mut self, op: &str, args: Map<String, Json>, results: usize) {
        let names = self.node(op, args.into(), results);
        self.outputs = names.iter().map(|name| json!({"value": name})).collect();
    }

    /// The graph in JSON form.
    pub(crate) fn json(&self, name: &str) -> String {
        let (inputs, nodes, outputs) = (&self.inputs, &self.nodes, &self.outputs);
        json!({"akg_graph": 1, "name": name, "inputs": inputs, "nodes": nodes, "outputs": outputs})
            .to_string()
    }
}

/// A tensor with these elements, converted to `dtype`.
fn tensor(dtype: DType, shape: &[usize], elements: &[f64]) -> Tensor {
    fn bytes<const N: usize>(elements: &[f64], convert: impl Fn(f64) -> [u8; N]) -> Vec<u8> {
        elements.iter().flat_map(|v| convert(*v)).collect()
    }
    let bytes = match dtype {
        DType::Bool | DType::U8 => bytes(elements, |v| (v as u8).to_ne_bytes()),
        DType::I8 => bytes(elements, |v| (v as i8).to_ne_bytes()),
        DType::I16 => bytes(elements, |v| (v as i16).to_ne_bytes()),
        DType::I32 => bytes(elements, |v| (v as i32).to_ne_bytes()),
        DType::I64 => bytes(elements, |v| (v as i64).to_ne_bytes()),
        DType::F16 => bytes(elements, |v| f16::from_f64(v).to_ne_bytes()),
        DType::BF16 => bytes(elements, |v| bf16::from_f64(v).to_ne_bytes()),
        DType::F32 => bytes(elements, |v| (v as f32).to_ne_bytes()),
        _ => bytes(elements, f64::to_ne_bytes),
    };
    Tensor::from_bytes(dtype, shape, &bytes).unwrap()
}
