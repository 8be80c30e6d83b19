//! Which primitives are an attention: two products with a softmax between them, or element-wise work of each head's own,
//! whose scores nothing else reads.
//!
//! It is told from the primitives, so that it does not matter whether a graph has an operator for it or spells it out.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::decompose::Decomposed;
use super::device::{Device, Factors};
use super::emit::attention::Heads;
use super::prim::{MapOp, Prim, PrimId, Prims};
use crate::dtype::DType;
use crate::expr::Expr;
use crate::sketch::ir::{ReduceOp, UnaryOp};

/// What one kernel computes of an attention.
#[derive(Debug, Clone)]
pub(super) struct Attention {
    /// The product of queries and keys.
    pub(super) scores: PrimId,
    /// All primitives from the scores to the product with the values, which is the last.
    pub(super) members: Vec<PrimId>,
    /// The operand of that product which is the values: 0 or 1.
    values: usize,
}

/// Rows of a tile that few programs have.
const FEW: i64 = 64;
/// Keys that a program goes through about as fast as further kernels are launched.
const SOON: i64 = 4096;

impl Attention {
    /// Whether a kernel for it is wanted: its tiles fit on the device's cores, and there are programs for those.
    pub(super) fn fits(&self, prims: &Prims, device: Device<'_>, product: PrimId) -> bool {
        let (Prim::Contract(query, key), Prim::Contract(a, b)) =
            (&prims.node(self.scores).prim, &prims.node(product).prim)
        else {
            return false;
        };
        let value = if self.values == 0 { *a } else { *b };
        let given = [*query, *key, value].map(|operand| prims.dtype(prims.root(operand)));
        let Some(factors) = factors(device, given) else {
            return false;
        };
        let last = |id: PrimId| prims.rank(id).checked_sub(1);
        let extent = |id: PrimId, dim: Option<usize>| prims.extent(id, dim?).as_const();
        let own = match self.values {
            0 => last(value).and_then(|dim| dim.checked_sub(1)),
            _ => last(value),
        };
        let (Some(depth), Some(width), Some(keys)) = (
            extent(*query, last(*query)),
            extent(value, own),
            extent(*a, last(*a)),
        ) else {
            return false;
        };
        let heads = Heads {
            depth,
            width,
            // Masks are only known where they are read.
            read: 0,
            factors,
        };
        let rows = prims.shape(product).iter().fold(Expr::constant(1), |n, e| &n * e);
        let programs = rows.as_const().map(|elements| elements / width.max(1) / FEW);
        let is_busy = keys <= SOON || programs.is_none_or(|programs| 4 * programs >= device.cores());
        is_busy && heads.lengths(device).is_some()
    }
}

/// What is multiplied in the place of queries, keys and values of these types, and of the weights.
pub(super) fn factors(device: Device<'_>, given: [DType; 3]) -> Option<Factors> {
    let [first, ..] = given;
    let is_short = first.is_float() && first.size() == 2 && given.iter().all(|dtype| *dtype == first);
    let factors = device.factors(is_short.then_some(first));
    // The class allows for the rounding of inputs to bf16, not of weights.
    match factors.filter(|_| device.shares_tiles())? {
        Factors::Bf16 => Some(Factors::F16),
        factors => Some(factors),
    }
}

/// Every attention of a graph that `fits`, by its product with the values.
pub(super) fn find(
    decomposed: &Decomposed,
    consumers: &HashMap<PrimId, Vec<PrimId>>,
    outputs: &HashSet<PrimId>,
    fits: impl Fn(&Attention, PrimId) -> bool,
) -> BTreeMap<PrimId, Attention> {
    let prims = &decomposed.prims;
    let mut found = BTreeMap::new();
    // Products that nothing needs have no consumers.
    let is_needed = |id: &PrimId| consumers.contains_key(id) || outputs.contains(id);
    for product in (0..prims.nodes.len()).map(PrimId).filter(is_needed) {
        let Prim::Contract(a, b) = prims.node(product).prim else {
            continue;
        };
        // What the weights are made of goes before the values.
        let attention = [a, b]
            .into_iter()
            .enumerate()
            .filter_map(|(i, weights)| of_weights(prims, weights, product, 1 - i))
            .find(|attention| {
                let is_private = |id: &PrimId| {
                    let mut readers = consumers.get(id).into_iter().flatten();
                    *id == product || !outputs.contains(id) && readers.all(|r| attention.members.contains(r))
                };
                // What is multiplied first may be the result of another one.
                let is_free = |id: &PrimId| found.values().all(|a: &Attention| !a.members.contains(id));
                let mut members = attention.members.iter();
                members.all(|id| is_private(id) && is_free(id)) && fits(attention, product)
            });
        found.extend(attention.map(|attention| (product, attention)));
    }
    found
}

/// The attention of which an operand of `product` is the weights, and its operand number `values` the values.
fn of_weights(prims: &Prims, weights: PrimId, product: PrimId, values: usize) -> Option<Attention> {
    if prims.is_windowed(weights) {
        return None;
    }
    let weights = prims.root(weights);
    let (made, mut products) = upstream(prims, weights);
    // Masks may come from products of their own, which are earlier as a rule.
    while let Some(scores) = products.pop_last() {
        let mut members = BTreeSet::from([scores]);
        for id in &made {
            let reads = |o: &PrimId| members.contains(&prims.root(*o));
            if prims.operands(*id).iter().any(reads) {
                members.insert(*id);
            }
        }
        let is_known = is_softmax(prims, &members) || is_of_heads(prims, &members, [scores, product]);
        if members.contains(&weights) && is_known && prims.dtype(scores) == prims.dtype(product) {
            members.insert(product);
            return Some(Attention {
                scores,
                members: members.into_iter().collect(),
                values,
            });
        }
    }
    None
}

/// What a value is made of by element-wise work and combinations, and the products that this begins with.
fn upstream(prims: &Prims, id: PrimId) -> (BTreeSet<PrimId>, BTreeSet<PrimId>) {
    let (mut made, mut products, mut stack) = (BTreeSet::new(), BTreeSet::new(), vec![id]);
    while let Some(id) = stack.pop() {
        match prims.node(id).prim {
            Prim::Contract(..) => {
                products.insert(id);
            }
            Prim::Map(..) | Prim::Reduce(..) if made.insert(id) => {
                stack.extend(prims.operands(id).into_iter().map(|o| prims.root(o)));
            }
            _ => {}
        }
    }
    (made, products)
}

/// How many members are primitives of a kind; none if they are not ones that an attention has.
fn count(prims: &Prims, members: &BTreeSet<PrimId>, fits: impl Fn(&Prim) -> bool) -> Option<usize> {
    let is_known = |id: &PrimId| {
        let node = prims.node(*id);
        let windowed = prims
            .operands(*id)
            .into_iter()
            .any(|o| prims.is_windowed(o) && members.contains(&prims.root(o)));
        let kind = matches!(
            node.prim,
            Prim::Contract(..) | Prim::Map(..) | Prim::Reduce(ReduceOp::Max | ReduceOp::Sum, ..)
        );
        kind && !windowed && node.dtype != DType::F64
    };
    let fitting = members.iter().filter(|id| fits(&prims.node(**id).prim)).count();
    members.iter().all(is_known).then_some(fitting)
}

/// Whether what follows scores is element-wise but for maxima and sums, and has an exponential.
fn is_softmax(prims: &Prims, members: &BTreeSet<PrimId>) -> bool {
    let count = |fits: fn(&Prim) -> bool| count(prims, members, fits).unwrap_or_default();
    count(|prim| matches!(prim, Prim::Reduce(ReduceOp::Max, ..))) > 0
        && count(|prim| matches!(prim, Prim::Reduce(ReduceOp::Sum, ..))) > 0
        && count(|prim| matches!(prim, Prim::Map(MapOp::Unary(UnaryOp::Exp), _))) == 1
}

/// Whether what follows scores is element-wise, and nothing that is multiplied is shared by all heads, as the weights of
/// layers are.
fn is_of_heads(prims: &Prims, members: &BTreeSet<PrimId>, products: [PrimId; 2]) -> bool {
    let combines = |prim: &Prim| matches!(prim, Prim::Reduce(..));
    let operands = products.into_iter().flat_map(|product| prims.operands(product));
    let is_own = |id: PrimId| prims.rank(prims.root(id)) > 2;
    count(prims, members, combines) == Some(0) && operands.into_iter().all(is_own)
}
