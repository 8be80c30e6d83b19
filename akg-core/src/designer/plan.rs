//! From groups to what the emitters write: tensors with declared extents, and kernels over plain axis numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::axes::{AxisId, Conflict, Windowed};
use super::decompose::Decomposed;
use super::group::{Group, Use};
use super::prim::{Prim, PrimId};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::ValueId;

/// A tensor of the sketch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TensorKey {
    /// An input or constant of the graph.
    Input(ValueId),
    /// A result that another kernel reads.
    Buffer(PrimId),
    /// A product's result as the kernel of that number reads it, with dimensions split that the product has in one piece.
    View(PrimId, usize),
    /// The graph's output of that position.
    Output(usize),
}

/// Axes by number within a kernel.
pub(super) type Axis = usize;

/// A read or write of a whole tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Access {
    pub(super) tensor: TensorKey,
    /// The axis of each declared dimension.
    pub(super) axes: Vec<Axis>,
}

/// Where an operand comes from, with axes by number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    Node(PrimId),
    Load(Access),
    Number(f64),
    Coordinate(Vec<Axis>),
}

/// One kernel.
#[derive(Debug, Clone, Default)]
pub(super) struct KernelPlan {
    /// The primitives in order.
    pub(super) nodes: Vec<PrimId>,
    /// The extent of each axis.
    pub(super) extents: Vec<Expr>,
    /// The axes of each primitive, in its own order.
    pub(super) axes: HashMap<PrimId, Vec<Axis>>,
    pub(super) operands: HashMap<(PrimId, usize), Operand>,
    /// What is written: the primitive and where to.
    pub(super) stores: Vec<(PrimId, Access)>,
    pub(super) reduced: BTreeSet<Axis>,
    /// Dimensions of tensors that are read through windows.
    pub(super) windows: HashMap<Axis, Windowed<Axis>>,
    pub(super) contract: Option<PrimId>,
}

/// A whole design before it is written as text.
#[derive(Debug, Clone, Default)]
pub(super) struct Plan {
    pub(super) kernels: Vec<KernelPlan>,
    /// Element type and declared extents of every tensor.
    pub(super) tensors: BTreeMap<TensorKey, (DType, Vec<Expr>)>,
}

impl Plan {
    /// The element type of a tensor.
    pub(super) fn dtype(&self, tensor: &TensorKey) -> DType {
        self.tensors.get(tensor).map_or(DType::F32, |(dtype, _)| *dtype)
    }
}

/// Resolves stores and the declared extents of every tensor. With `views`, readers of a product do not decide on the
/// dimensions that it is tiled along.
pub(super) fn plan(decomposed: &Decomposed, mut groups: Vec<Group>, views: bool) -> Result<Plan> {
    let prims = &decomposed.prims;
    // Work that every reader repeats is never loaded.
    let loaded: HashSet<PrimId> = groups
        .iter()
        .flat_map(|g| g.uses.values())
        .filter_map(|u| {
            if let Use::Load { source, .. } = u {
                Some(*source)
            } else {
                None
            }
        })
        .collect();
    let mut stores: Vec<Vec<(PrimId, TensorKey, Vec<AxisId>)>> = vec![Vec::new(); groups.len()];
    for (group, stores) in groups.iter_mut().zip(&mut stores) {
        let members: HashSet<PrimId> = group.nodes.iter().copied().collect();
        for id in group.nodes.clone() {
            if loaded.contains(&id) {
                stores.push((id, TensorKey::Buffer(id), group.axes_of(id)));
            }
        }
        for (i, output) in decomposed.outputs.iter().enumerate() {
            let root = prims.root(*output);
            if members.contains(&root) {
                let dims = view_axes(group, decomposed, *output)
                    .map_err(|Conflict| arrangement(decomposed, *output))?;
                stores.push((root, TensorKey::Output(i), dims));
            }
        }
    }
    let with_product = groups.iter().filter(|g| views && g.contract.is_some());
    let products: HashSet<PrimId> = with_product.flat_map(|g| g.nodes.clone()).collect();
    let extents = declare(decomposed, &mut groups, &stores, &products)?;
    let mut plan = Plan {
        kernels: Vec::new(),
        tensors: extents,
    };
    for (g, (group, stores)) in groups.iter().zip(&stores).enumerate() {
        let key_of = |source, axes: &[AxisId]| key_of(decomposed, &products, (g, group), source, axes);
        plan.kernels.push(number(decomposed, group, stores, key_of));
    }
    coalesce(&mut plan);
    Ok(plan)
}

fn arrangement(decomposed: &Decomposed, id: PrimId) -> Error {
    let origin = decomposed.prims.node(id).origin;
    Error::unsupported(format!(
        "no design rule yet for how the output of `{origin}` is arranged"
    ))
}

/// The axes of a view of a member of the group, in the view's row-major order.
fn view_axes(group: &mut Group, decomposed: &Decomposed, id: PrimId) -> Result<Vec<AxisId>, Conflict> {
    fn dims(group: &mut Group, d: &Decomposed, id: PrimId) -> Result<Vec<Vec<AxisId>>, Conflict> {
        let node = d.prims.node(id);
        match &node.prim {
            Prim::Permute(a, perm) => {
                let inner = dims(group, d, *a)?;
                Ok(perm.iter().filter_map(|p| inner.get(*p).cloned()).collect())
            }
            Prim::Reshape(a) => {
                let inner = dims(group, d, *a)?;
                group.axes.regroup(&inner.concat(), &node.shape)
            }
            // Outputs that repeat elements or leave some out were copied before.
            Prim::Expand(_) | Prim::Window(..) => Err(Conflict),
            _ => group.dims.get(&id).cloned().ok_or(Conflict),
        }
    }
    let dims = dims(group, decomposed, id)?;
    Ok(group.axes.resolve(&dims.concat()))
}

/// The tensor that group number `g` reads.
fn key_of(
    decomposed: &Decomposed,
    products: &HashSet<PrimId>,
    (g, group): (usize, &Group),
    source: PrimId,
    axes: &[AxisId],
) -> TensorKey {
    let is_windowed = |a: &AxisId| group.axes.windowed(*a).is_some();
    match &decomposed.prims.node(source).prim {
        Prim::Input(value) => TensorKey::Input(*value),
        _ if products.contains(&source) && !axes.iter().any(is_windowed) => TensorKey::View(source, g),
        _ => TensorKey::Buffer(source),
    }
}

/// Every access of every group as (group, tensor, axes).
fn accesses(
    decomposed: &Decomposed,
    groups: &[Group],
    stores: &[Vec<(PrimId, TensorKey, Vec<AxisId>)>],
    products: &HashSet<PrimId>,
) -> Vec<(usize, TensorKey, Vec<AxisId>)> {
    let mut out = Vec::new();
    for (g, (group, stores)) in groups.iter().zip(stores).enumerate() {
        out.extend(stores.iter().map(|(_, key, axes)| (g, key.clone(), axes.clone())));
        for source in group.uses.values() {
            if let Use::Load { source, axes } = source {
                let key = key_of(decomposed, products, (g, group), *source, axes);
                out.push((g, key, axes.clone()));
            }
        }
    }
    out
}

/// Splits axes until all accesses of a tensor see the same extents, which become its declaration; those of a view also
/// until its dimensions make up the tensor's.
fn declare(
    decomposed: &Decomposed,
    groups: &mut [Group],
    stores: &[Vec<(PrimId, TensorKey, Vec<AxisId>)>],
    products: &HashSet<PrimId>,
) -> Result<BTreeMap<TensorKey, (DType, Vec<Expr>)>> {
    let accesses = accesses(decomposed, groups, stores, products);
    let mut declared: BTreeMap<TensorKey, Vec<Expr>> = BTreeMap::new();
    loop {
        let mut changed = false;
        for (g, key, axes) in &accesses {
            let Some(group) = groups.get_mut(*g) else { continue };
            let extents = |group: &Group| -> Vec<Expr> {
                group
                    .axes
                    .resolve(axes)
                    .into_iter()
                    .map(|a| group.axes.extent(a).clone())
                    .collect()
            };
            let before = extents(group);
            let viewed = match key {
                TensorKey::View(source, _) => declared.get(&TensorKey::Buffer(*source)),
                _ => None,
            };
            for known in viewed.into_iter().chain(declared.get(key)) {
                let template: Vec<AxisId> = known.iter().flat_map(|e| group.axes.fresh(e)).collect();
                group.axes.align(axes, &template).map_err(|Conflict| {
                    Error::unsupported("two kernels see one tensor in shapes without a common factorisation")
                })?;
            }
            let now = extents(group);
            // An axis that is split here is split in the group's other tensors, too.
            changed |= before != now;
            changed |= declared.insert(key.clone(), now.clone()) != Some(now);
        }
        if !changed {
            break;
        }
    }
    let dtype = |key: &TensorKey| match key {
        TensorKey::Input(value) => decomposed
            .prims
            .nodes
            .iter()
            .find(|n| n.prim == Prim::Input(*value))
            .map(|n| n.dtype),
        TensorKey::Buffer(id) | TensorKey::View(id, _) => Some(decomposed.prims.dtype(*id)),
        TensorKey::Output(i) => decomposed.outputs.get(*i).map(|o| decomposed.prims.dtype(*o)),
    };
    let typed = declared
        .into_iter()
        .filter_map(|(key, extents)| Some((key.clone(), (dtype(&key)?, extents))));
    Ok(typed.collect())
}

/// Numbers a group's axes.
fn number(
    decomposed: &Decomposed,
    group: &Group,
    stores: &[(PrimId, TensorKey, Vec<AxisId>)],
    key_of: impl Fn(PrimId, &[AxisId]) -> TensorKey,
) -> KernelPlan {
    let mut numbers: HashMap<AxisId, Axis> = HashMap::new();
    let mut extents = Vec::new();
    let mut windows = HashMap::new();
    let mut number = |a| {
        *numbers.entry(a).or_insert_with(|| {
            extents.push(group.axes.extent(a).clone());
            extents.len() - 1
        })
    };
    let mut list = |axes: &[AxisId]| -> Vec<Axis> {
        let mut out = Vec::new();
        for axis in group.axes.resolve(axes) {
            out.push(number(axis));
            if let Some(window) = group.axes.windowed(axis) {
                let Windowed {
                    axis: seen,
                    start,
                    step,
                } = window;
                let axis_number = number(axis);
                let seen = seen.map(&mut number);
                windows.insert(
                    axis_number,
                    Windowed {
                        axis: seen,
                        start,
                        step,
                    },
                );
            }
        }
        out
    };
    let mut kernel = KernelPlan {
        nodes: group.nodes.clone(),
        contract: group.contract,
        ..KernelPlan::default()
    };
    for id in &group.nodes {
        kernel.axes.insert(*id, list(&group.axes_of(*id)));
        for i in 0..decomposed.prims.operands(*id).len() {
            let Some(source) = group.uses.get(&(*id, i)) else {
                continue;
            };
            let operand = match source {
                Use::Node(n) => Operand::Node(*n),
                Use::Number(v) => Operand::Number(*v),
                Use::Coordinate(axes) => Operand::Coordinate(list(axes)),
                Use::Load { source, axes } => Operand::Load(Access {
                    tensor: key_of(*source, axes),
                    axes: list(axes),
                }),
            };
            kernel.operands.insert((*id, i), operand);
        }
    }
    kernel.stores = stores
        .iter()
        .map(|(id, key, axes)| {
            (
                *id,
                Access {
                    tensor: key.clone(),
                    axes: list(axes),
                },
            )
        })
        .collect();
    kernel.reduced = group.reduced().into_iter().flat_map(|a| list(&[a])).collect();
    kernel.windows = windows;
    kernel.extents = extents;
    kernel
}

impl KernelPlan {
    /// Every list of axes in the kernel.
    fn lists(&mut self) -> impl Iterator<Item = &mut Vec<Axis>> {
        let operands = self.operands.values_mut().filter_map(|o| match o {
            Operand::Load(access) => Some(&mut access.axes),
            Operand::Coordinate(axes) => Some(axes),
            Operand::Node(_) | Operand::Number(_) => None,
        });
        self.axes
            .values_mut()
            .chain(operands)
            .chain(self.stores.iter_mut().map(|(_, a)| &mut a.axes))
    }

    /// Operand number `i` of a primitive, if the same kernel computes it.
    pub(super) fn node(&self, id: PrimId, i: usize) -> Option<PrimId> {
        match self.operands.get(&(id, i)) {
            Some(Operand::Node(node)) => Some(*node),
            _ => None,
        }
    }

    /// The axes along which an access is walked: those of windows in place of the dimensions they see.
    pub(super) fn walked(&self, access: &Access) -> Vec<Axis> {
        let seen = |a: &Axis| self.windows.get(a).map_or(Some(*a), |w| w.axis);
        access.axes.iter().filter_map(seen).collect()
    }

    /// Whether a window needs the axis to stay what it is.
    fn is_seen(&self, axis: Axis) -> bool {
        self.windows.contains_key(&axis) || self.windows.values().any(|w| w.axis == Some(axis))
    }

    /// Every access of a tensor.
    pub(super) fn accesses(&self) -> impl Iterator<Item = &Access> {
        let loads = self.operands.values().filter_map(|o| match o {
            Operand::Load(access) => Some(access),
            _ => None,
        });
        loads.chain(self.stores.iter().map(|(_, a)| a))
    }
}

/// Merges pairs of axes that are neighbours wherever they occur, in all kernels, so that a contiguous range stays one
/// dimension.
fn coalesce(plan: &mut Plan) {
    while let Some((key, at)) = mergeable(plan) {
        // The pair named by one tensor's dimensions `at` and `at + 1`, and every pair tied to it by a shared tensor.
        let mut dims: BTreeSet<(TensorKey, usize)> = BTreeSet::from([(key, at)]);
        let mut pairs: BTreeSet<(usize, Axis, Axis)> = BTreeSet::new();
        close(plan, &mut dims, &mut pairs);
        for (k, p, q) in &pairs {
            if let Some(kernel) = plan.kernels.get_mut(*k) {
                let merged = &kernel.extents[*p] * &kernel.extents[*q];
                kernel.extents[*p] = merged;
                kernel.lists().for_each(|l| l.retain(|a| a != q));
                kernel.reduced.remove(q);
            }
        }
        let mut by_tensor: BTreeMap<TensorKey, BTreeSet<usize>> = BTreeMap::new();
        for (key, at) in dims {
            by_tensor.entry(key).or_default().insert(at);
        }
        for (key, positions) in by_tensor {
            if let Some((_, extents)) = plan.tensors.get_mut(&key) {
                for at in positions.into_iter().rev() {
                    let inner = extents.remove(at + 1);
                    extents[at] = &extents[at] * &inner;
                }
            }
        }
    }
}

/// Everything tied to the dimensions in `dims`: the axis pairs they name and the dimensions those pairs name elsewhere.
fn close(plan: &Plan, dims: &mut BTreeSet<(TensorKey, usize)>, pairs: &mut BTreeSet<(usize, Axis, Axis)>) {
    loop {
        let before = (dims.len(), pairs.len());
        for (k, kernel) in plan.kernels.iter().enumerate() {
            for access in kernel.accesses() {
                for (at, pair) in access.axes.windows(2).enumerate() {
                    let &[p, q] = pair else { continue };
                    let dim = (access.tensor.clone(), at);
                    if dims.contains(&dim) || pairs.contains(&(k, p, q)) {
                        dims.insert(dim);
                        pairs.insert((k, p, q));
                    }
                }
            }
        }
        if (dims.len(), pairs.len()) == before {
            return;
        }
    }
}

/// A dimension whose axis can merge with the next one's.
fn mergeable(plan: &mut Plan) -> Option<(TensorKey, usize)> {
    let candidates: Vec<(TensorKey, usize)> = plan
        .tensors
        .iter()
        .flat_map(|(key, (_, extents))| (1..extents.len()).map(move |i| (key.clone(), i - 1)))
        .collect();
    candidates.into_iter().find(|(key, at)| {
        let mut dims = BTreeSet::from([(key.clone(), *at)]);
        let mut pairs = BTreeSet::new();
        close(plan, &mut dims, &mut pairs);
        // No axis may take part in two pairs, and a pair must be adjacent wherever either occurs.
        let lone = pairs.iter().all(|(k, p, q)| {
            pairs
                .iter()
                .filter(|(k2, p2, q2)| k == k2 && [p2, q2].iter().any(|x| *x == p || *x == q))
                .count()
                == 1
        });
        lone && !pairs.is_empty()
            && pairs.iter().all(|(k, p, q)| {
                plan.kernels.get_mut(*k).is_some_and(|kernel| {
                    kernel.reduced.contains(p) == kernel.reduced.contains(q)
                        && !kernel.is_seen(*p)
                        && !kernel.is_seen(*q)
                        && kernel.lists().all(|list| {
                            let at = list.iter().position(|a| a == p);
                            let next = list.iter().position(|a| a == q);
                            match (at, next) {
                                (None, None) => true,
                                (Some(i), Some(j)) => i + 1 == j,
                                _ => false,
                            }
                        })
                })
            })
    })
}
