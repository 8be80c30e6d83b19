//! Integers: the values that they may have.

use std::collections::BTreeMap;

use super::distribution::Distribution;
use super::normal::hash;
use crate::dtype::DType;
use crate::expr::{Bindings, Expr};
use crate::graph::{Arg, Family, Graph, InputKind, Node, ValueId};
use crate::task::Generator;

/// The use that a graph makes of an integer input.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct IntegerUse {
    /// The extents of what it selects from, where its elements are indices.
    pub(super) extents: Vec<Expr>,
    /// True if an operator takes its elements for places that are not counted from the end.
    pub(super) counts_from_front: bool,
    /// Whether indices are computed from it.
    pub(super) makes_indices: bool,
    /// Whether it says where to write: equal elements would contradict each other.
    pub(super) writes: bool,
    /// Whether something is divided by it.
    pub(super) divides: bool,
    /// Whether it is divided, which the smallest number of a type cannot be by -1.
    pub(super) is_divided: bool,
    /// Whether it becomes a floating number.
    pub(super) becomes_float: bool,
}

impl IntegerUse {
    /// The use of one input.
    pub(super) fn of(graph: &Graph, input: ValueId) -> Self {
        let mut found = Self::default();
        let is_exact = |value: ValueId| graph.value(value).is_some_and(|v| !v.ty.dtype.is_float());
        if !is_exact(input) {
            return found;
        }
        // What follows from the input, and whether its elements are the input's.
        let mut known: BTreeMap<ValueId, bool> = BTreeMap::from([(input, true)]);
        for node in graph.nodes() {
            if node.inputs().all(|value| !known.contains_key(&value)) {
                continue;
            }
            found.add(graph, node, &known);
            let family = node.op.family();
            let moves = matches!(family, Family::View | Family::Rearrange | Family::Join)
                || matches!(node.op.base_name(), "to" | "_to_copy");
            let is_same = moves && node.inputs().all(|v| known.get(&v) == Some(&true));
            for output in &node.outputs {
                let ty = graph.value(*output).map(|v| v.ty.dtype);
                match ty {
                    // The result of a comparison or a search says little about the elements.
                    Some(DType::Bool) => {}
                    Some(_) if node.op.base_name().starts_with("arg") => {}
                    Some(dtype) if dtype.is_float() => {
                        let selects =
                            matches!(family, Family::Index | Family::Loss) || node.op.base_name() == "where";
                        found.becomes_float |= !selects;
                    }
                    _ => {
                        known.insert(*output, is_same);
                    }
                }
            }
        }
        found
    }

    fn add(&mut self, graph: &Graph, node: &Node, known: &BTreeMap<ValueId, bool>) {
        let of = |name: &str| {
            let parameters = node.op.schema().parameters.iter().zip(&node.args);
            parameters
                .into_iter()
                .find(|(p, _)| p.name == name)
                .map(|(_, arg)| arg)
        };
        let value = |name: &str| match of(name) {
            Some(Arg::Value(value)) => Some(*value),
            _ => None,
        };
        let direct = |value: Option<ValueId>| value.and_then(|v| known.get(&v).copied());
        let extent = |value: Option<ValueId>, dim: i64| {
            let shape = &graph.value(value?)?.ty.shape;
            let axis = if dim < 0 { dim + shape.len() as i64 } else { dim };
            shape.get(usize::try_from(axis).ok()?).cloned()
        };
        let dim = || match of("dim") {
            Some(Arg::Int(dim)) => dim.as_const(),
            _ => None,
        };
        let known_extents = self.extents.len();
        // The index, and the extent of what it selects from.
        let mut select = |is_direct: Option<bool>, extent: Option<Expr>| match (is_direct, extent) {
            (None, _) => {}
            (Some(true), Some(extent)) => self.extents.push(extent),
            (Some(_), _) => self.makes_indices = true,
        };
        match node.op.base_name() {
            "embedding" => select(direct(value("indices")), extent(value("weight"), 0)),
            // The last of equal places stays, so that any place may be written.
            "index_select" | "gather" | "index_copy" => {
                let extent = dim().and_then(|dim| extent(value("self"), dim));
                select(direct(value("index")), extent);
            }
            "index" => {
                if let Some(Arg::Values(indices)) = of("indices") {
                    for (axis, index) in indices.iter().enumerate() {
                        select(direct(*index), extent(value("self"), axis as i64));
                    }
                }
            }
            "cross_entropy_loss" | "nll_loss" => {
                let rank = value("self")
                    .and_then(|v| graph.value(v))
                    .map_or(1, |v| v.ty.rank());
                select(
                    direct(value("target")),
                    extent(value("self"), i64::from(rank > 1)),
                );
            }
            "scatter" => self.writes |= direct(value("index")).is_some(),
            "remainder" | "fmod" | "floor_divide" | "div" => {
                self.divides |= direct(value("other")).is_some();
                self.is_divided |= direct(value("self")).is_some();
            }
            "pow" => self.divides |= direct(value("exponent")).is_some(),
            _ => {}
        }
        let counts_from_end = matches!(node.op.base_name(), "index" | "index_copy");
        self.counts_from_front |= self.extents.len() > known_extents && !counts_from_end;
    }

    /// Whether any element of its range may stand for any other.
    pub(super) fn is_free(&self) -> bool {
        !self.writes && !self.makes_indices
    }

    /// The end of the indices that the graph allows.
    pub(super) fn limit(&self, dims: &Bindings) -> Option<i64> {
        let extents = self.extents.iter().filter_map(|extent| extent.eval(dims).ok());
        extents.min().map(|extent| extent.max(1))
    }
}

/// The values of an integer input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Domain {
    /// Any between two, both included.
    Range { lo: i64, hi: i64 },
    /// Any of a type between two, both included.
    Type {
        dtype: DType,
        lo: i64,
        hi: i64,
        /// Whether numbers stay small.
        is_small: bool,
    },
    /// Counts of events, small and large.
    Count { most: i64 },
}

/// Counts after few and after very many events.
const COUNTS: [i64; 10] = [
    0,
    1,
    2,
    255,
    256,
    65_535,
    65_536,
    2_147_483_647,
    2_147_483_648,
    1 << 40,
];

/// The smallest and the largest value of an integer type.
pub(super) fn bounds(dtype: DType) -> (i64, i64) {
    match dtype {
        DType::Bool => (0, 1),
        DType::U8 => (0, 255),
        DType::I8 => (-128, 127),
        DType::I16 => (-32_768, 32_767),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

impl Domain {
    pub(super) fn new(
        dtype: DType,
        kind: InputKind,
        generator: Generator,
        uses: &IntegerUse,
        distribution: Distribution,
        dims: &Bindings,
    ) -> Self {
        let (lowest, highest) = bounds(dtype);
        // Nothing is divided by zero.
        let least = if uses.divides { 1 } else { lowest.max(-8) };
        let small = Domain::Range { lo: least, hi: 7 };
        match generator {
            Generator::Integers { lo, hi } if hi > lo => return Domain::Range { lo, hi: hi - 1 },
            _ => {}
        }
        if uses.writes || uses.makes_indices {
            return small;
        }
        if let Some(limit) = uses.limit(dims) {
            let hi = (limit - 1).min(highest);
            let lo = if uses.divides {
                1.min(hi)
            } else if uses.counts_from_front || !distribution.has_wide_integers() {
                0
            } else {
                lowest.max(-hi - 1)
            };
            return Domain::Range { lo, hi };
        }
        if uses.divides {
            return small;
        }
        if kind == InputKind::State {
            let most = if uses.becomes_float { 1 << 24 } else { highest };
            return Domain::Count { most };
        }
        let (lo, hi) = if uses.becomes_float && distribution != Distribution::Apart {
            // What single precision holds; beyond, floats are rounded.
            (lowest.max(-(1 << 24)), highest.min(1 << 24))
        } else {
            // The smallest number has no positive counterpart.
            (lowest + i64::from(uses.is_divided && lowest < 0), highest)
        };
        Domain::Type {
            dtype,
            lo,
            hi,
            is_small: !distribution.has_wide_integers(),
        }
    }

    /// The value that a random word stands for.
    pub(super) fn value(&self, word: u64) -> i64 {
        match *self {
            Domain::Range { lo, hi } => {
                let count = (hi as i128 - lo as i128 + 1).max(1) as u128;
                let offset = (u128::from(word) * count) >> 64;
                (lo as i128 + offset as i128) as i64
            }
            Domain::Count { most } => {
                let count = COUNTS.get((word >> 32) as usize % COUNTS.len());
                count.copied().unwrap_or(0).min(most)
            }
            Domain::Type {
                dtype,
                lo,
                hi,
                is_small,
            } => {
                let small = ((word >> 60) as i64 - 8).max(lo);
                let other = hash(word);
                let value = match (word & 3, is_small) {
                    (_, true) | (0, _) => small,
                    (1, _) => *[
                        lo,
                        hi,
                        lo.saturating_add(1),
                        hi - 1,
                        127,
                        128,
                        255,
                        256,
                        32_767,
                        65_535,
                        65_536,
                        -1,
                    ]
                    .get((word >> 8) as usize % 12)
                    .unwrap_or(&0),
                    (2, _) => other as i64,
                    // Of every number of bits.
                    _ => (other as i64) >> (word >> 8 & 63),
                };
                wrap(dtype, value).max(lo).min(hi)
            }
        }
    }

    /// The nearest value that the input may have.
    pub(super) fn nearest(&self, value: i64) -> i64 {
        match *self {
            Domain::Range { lo, hi } | Domain::Type { lo, hi, .. } => value.min(hi).max(lo),
            Domain::Count { most } => value.min(most).max(0),
        }
    }

    /// The value at a place of a row of `length` in ascending order.
    pub(super) fn ascending(&self, place: usize, length: usize) -> i64 {
        match *self {
            Domain::Range { lo, hi } => {
                let span = hi as i128 - lo as i128;
                let step = span * place as i128 / (length.max(2) - 1) as i128;
                (lo as i128 + step) as i64
            }
            _ => self.nearest(place as i64 - length as i64 / 2),
        }
    }
}

/// A number as its type holds it.
fn wrap(dtype: DType, value: i64) -> i64 {
    match dtype {
        DType::U8 => i64::from(value as u8),
        DType::I8 => i64::from(value as i8),
        DType::I16 => i64::from(value as i16),
        DType::I32 => i64::from(value as i32),
        _ => value,
    }
}
