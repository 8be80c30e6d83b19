//! From groups to what the emitters write: tensors with declared extents, and kernels over plain axis numbers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::iter::successors;

use super::axes::{AxisId, Conflict, Windowed};
use super::coalesce::coalesce;
use super::decompose::Decomposed;
use super::group::{Group, Use};
use super::prim::{MapOp, Prim, PrimId, PrimNode, Prims};
use super::window::Outside;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::ValueId;
use crate::sketch::ir::{BinaryOp, CompareOp};

/// Values of a last digit that tiles do not have side by side: memory is read in longer pieces.
const FEW: i64 = 4;

/// A tensor of the sketch.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum TensorKey {
    /// An input or constant of the graph.
    Input(ValueId),
    /// A result that another kernel reads.
    Buffer(PrimId),
    /// The graph's output of that position.
    Output(usize),
}

/// Axes by number within a kernel.
pub(super) type Axis = usize;

/// A read or write of a whole tensor.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Access {
    pub(super) tensor: TensorKey,
    /// The axis of each dimension in which the kernel sees it.
    pub(super) axes: Vec<Axis>,
}

/// Where an operand comes from, with axes by number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Operand {
    Node(PrimId),
    Load(Access),
    Number(f64),
    Integer(Expr),
    Coordinate(Vec<Axis>),
}

/// One kernel. Its maps are in order, so that a graph has one design.
#[derive(Debug, Clone, Default)]
pub(super) struct KernelPlan {
    /// The primitives in order.
    pub(super) nodes: Vec<PrimId>,
    /// The extent of each axis.
    pub(super) extents: Vec<Expr>,
    /// The axes of each primitive, in its own order.
    pub(super) axes: BTreeMap<PrimId, Vec<Axis>>,
    pub(super) operands: BTreeMap<(PrimId, usize), Operand>,
    /// What is written: the primitive and where to.
    pub(super) stores: Vec<(PrimId, Access)>,
    pub(super) reduced: BTreeSet<Axis>,
    /// The axes along which an extreme element has its place, in the order in which places count.
    pub(super) places: BTreeMap<PrimId, Vec<Axis>>,
    /// The extents in which it sees each tensor.
    pub(super) shapes: BTreeMap<TensorKey, Vec<Expr>>,
    /// Dimensions of tensors that are read through windows.
    pub(super) windows: BTreeMap<Axis, Windowed<Axis>>,
    pub(super) contract: Option<PrimId>,
    /// The columns of a product that are combined within tiles.
    pub(super) columns: Option<Columns>,
    /// The rows of a product, if they are combined within tiles.
    pub(super) rows: Option<Axis>,
    /// The product of queries and keys, if it is an attention.
    pub(super) scores: Option<PrimId>,
    pub(super) recurrence: Option<PrimId>,
    pub(super) gather: Option<PrimId>,
    pub(super) scatter: Option<PrimId>,
}

/// Columns of a product in groups of neighbours.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Columns {
    /// What the product itself is over: both as one.
    pub(super) all: Axis,
    pub(super) groups: Axis,
    /// The columns of a group.
    pub(super) own: Axis,
    /// How many they are.
    pub(super) count: i64,
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

/// Resolves stores, and in which extents kernels see tensors: each in as few dimensions as it can. A tensor is declared with
/// those in which it is written, or of an input in which it is read first.
pub(super) fn plan(decomposed: &Decomposed, groups: &[Group]) -> Result<Plan> {
    let mut groups = groups.to_vec();
    let stores = stores(decomposed, &mut groups)?;
    let values = values(decomposed);
    let mut plan = Plan::default();
    for (group, stores) in groups.iter_mut().zip(&stores) {
        let shapes = shapes(decomposed, group, stores)?;
        let mut kernel = number(decomposed, group, stores);
        kernel.shapes = shapes;
        kernel.join_columns();
        coalesce(&mut kernel);
        // Who writes it comes before those who read it.
        for (tensor, shape) in &kernel.shapes {
            let declared = || {
                let dtype = dtype(decomposed, &values, tensor);
                (dtype, declared(decomposed, tensor, shape))
            };
            plan.tensors.entry(tensor.clone()).or_insert_with(declared);
        }
        plan.kernels.push(kernel);
    }
    Ok(plan)
}

/// The extents that a tensor is declared with which a kernel sees in these: the same, unless they leave open what the symbols in
/// them are.
fn declared(decomposed: &Decomposed, tensor: &TensorKey, shape: &[Expr]) -> Vec<Expr> {
    let is_plain = |extent: &Expr| extent.as_const().is_some() || extent.as_symbol().is_some();
    let is_buffer = matches!(tensor, TensorKey::Buffer(_));
    match held(decomposed, tensor) {
        Some(own) if !is_buffer && !shape.iter().all(is_plain) => {
            own.shape.iter().filter(|extent| !extent.is(1)).cloned().collect()
        }
        _ => shape.to_vec(),
    }
}

/// The element type of a tensor. PyTorch's operators on half types compute in `f32`, so a buffer with a step of one is wider than
/// its result, unless they round the step, too.
fn dtype(decomposed: &Decomposed, values: &HashSet<PrimId>, tensor: &TensorKey) -> DType {
    let is_step = matches!(tensor, TensorKey::Buffer(id) if !values.contains(id));
    match held(decomposed, tensor).map_or(DType::F32, |node| node.dtype) {
        half if half.is_half() && is_step => DType::F32,
        dtype => dtype,
    }
}

/// The primitives that hold values of the graph, or elements of which values are views, and steps that are rounded like them.
fn values(decomposed: &Decomposed) -> HashSet<PrimId> {
    let values = decomposed
        .values
        .values()
        .chain(&decomposed.prims.rounded)
        .copied();
    let viewed = |id: &PrimId| decomposed.prims.viewed(*id);
    values.flat_map(|id| successors(Some(id), viewed)).collect()
}

/// What a tensor holds.
fn held<'d>(decomposed: &'d Decomposed, tensor: &TensorKey) -> Option<&'d PrimNode> {
    let prims = &decomposed.prims;
    match tensor {
        TensorKey::Input(value) => prims.nodes.iter().find(|n| n.prim == Prim::Input(*value)),
        TensorKey::Buffer(id) => Some(prims.node(*id)),
        TensorKey::Output(i) => decomposed.outputs.get(*i).map(|o| prims.node(*o)),
    }
}

/// What kernels read. Work that every reader repeats is not.
fn loaded(groups: &[Group]) -> HashSet<PrimId> {
    let uses = groups.iter().flat_map(|g| g.uses.values());
    let sources = uses.filter_map(|used| match used {
        Use::Load { source, .. } => Some(*source),
        _ => None,
    });
    sources.collect()
}

/// What a group writes, where to, and the axes of the tensor's dimensions.
type Store = (PrimId, TensorKey, Vec<AxisId>);

/// What every group writes.
fn stores(decomposed: &Decomposed, groups: &mut [Group]) -> Result<Vec<Vec<Store>>> {
    let prims = &decomposed.prims;
    let loaded = loaded(groups);
    // What was repeated until a reader needed it in memory is also part of earlier kernels.
    let nodes = groups
        .iter()
        .enumerate()
        .flat_map(|(g, group)| group.nodes.iter().map(move |id| (*id, g)));
    let homes: HashMap<PrimId, usize> = nodes.collect();
    let mut stores: Vec<Vec<Store>> = vec![Vec::new(); groups.len()];
    for (g, (group, stores)) in groups.iter_mut().zip(&mut stores).enumerate() {
        let members: HashSet<PrimId> = group.nodes.iter().copied().collect();
        for id in group.nodes.clone() {
            // What is written in place is read there.
            if loaded.contains(&id) && homes.get(&id) == Some(&g) && group.scatter.is_none() {
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
    Ok(stores)
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

/// The tensor that holds something.
fn key_of(decomposed: &Decomposed, source: PrimId) -> TensorKey {
    match &decomposed.prims.node(source).prim {
        Prim::Input(value) => TensorKey::Input(*value),
        Prim::Scatter { output, .. } => TensorKey::Output(*output),
        _ => TensorKey::Buffer(source),
    }
}

/// Splits the axes of a group until all its accesses of a tensor see the same extents.
fn shapes(
    decomposed: &Decomposed,
    group: &mut Group,
    stores: &[Store],
) -> Result<BTreeMap<TensorKey, Vec<Expr>>> {
    let mut accesses: Vec<(TensorKey, Vec<AxisId>)> = Vec::new();
    accesses.extend(stores.iter().map(|(_, key, axes)| (key.clone(), axes.clone())));
    accesses.extend(group.uses.values().filter_map(|used| match used {
        Use::Load { source, axes } => Some((key_of(decomposed, *source), axes.clone())),
        _ => None,
    }));
    let extents = |group: &Group, axes: &[AxisId]| -> Vec<Expr> {
        let axes = group.axes.resolve(axes).into_iter();
        axes.map(|a| group.axes.extent(a).clone()).collect()
    };
    let mut shapes: BTreeMap<TensorKey, Vec<Expr>> = BTreeMap::new();
    let mut is_settled = false;
    while !is_settled {
        is_settled = true;
        for (key, axes) in &accesses {
            let before = extents(group, axes);
            if let Some(known) = shapes.get(key) {
                let template: Vec<AxisId> = known.iter().flat_map(|e| group.axes.fresh(e)).collect();
                let aligned = group.axes.align(axes, &template);
                aligned.map_err(|Conflict| clash([known, &before]))?;
            }
            let now = extents(group, axes);
            // An axis that is split here is split in the group's other tensors, too.
            is_settled &= before == now && shapes.get(key) == Some(&now);
            shapes.insert(key.clone(), now);
        }
    }
    Ok(shapes)
}

/// The error of two accesses in one kernel that see a tensor in shapes without a common factorisation.
fn clash(shapes: [&Vec<Expr>; 2]) -> Error {
    let [a, b] = shapes.map(|extents| {
        let extents: Vec<String> = extents.iter().map(ToString::to_string).collect();
        extents.join(", ")
    });
    Error::unsupported(format!(
        "no design rule yet for a kernel that sees one tensor as [{a}] and as [{b}]"
    ))
}

/// Numbers a group's axes.
fn number(decomposed: &Decomposed, group: &Group, stores: &[Store]) -> KernelPlan {
    let mut numbers: HashMap<AxisId, Axis> = HashMap::new();
    let mut extents = Vec::new();
    let mut windows = BTreeMap::new();
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
                let dimension = number(axis);
                windows.insert(dimension, window.with(&mut number));
            }
        }
        out
    };
    let mut kernel = KernelPlan {
        nodes: group.nodes.clone(),
        contract: group.contract,
        scores: group.scores,
        recurrence: group.recurrence,
        gather: group.gather,
        scatter: group.scatter,
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
                Use::Integer(value) => Operand::Integer(value.clone()),
                Use::Coordinate(axes) => Operand::Coordinate(list(axes)),
                Use::Load { source, axes } => Operand::Load(Access {
                    tensor: key_of(decomposed, *source),
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
    let places = group.places.iter();
    kernel.places = places.map(|(id, axes)| (*id, list(axes))).collect();
    kernel.windows = windows;
    kernel.rows = group.rows().and_then(|rows| numbers.get(&rows).copied());
    kernel.columns = group.columns().and_then(|columns| {
        let [groups, own] = columns.map(|axis| numbers.get(&axis).copied());
        let (groups, own) = groups.zip(own)?;
        extents.push(&extents[groups] * &extents[own]);
        Some(Columns {
            all: extents.len() - 1,
            groups,
            own,
            count: extents[own].as_const()?,
        })
    });
    kernel.extents = extents;
    kernel
}

impl KernelPlan {
    /// Makes columns that are combined within tiles one dimension of the product and of its right operand.
    fn join_columns(&mut self) {
        let (Some(columns), Some(product)) = (self.columns, self.contract) else {
            return;
        };
        let join = |axes: &mut Vec<Axis>| {
            let at = axes
                .windows(2)
                .position(|pair| pair == [columns.groups, columns.own])?;
            axes.splice(at..at + 2, [columns.all]);
            Some(at)
        };
        self.axes.get_mut(&product).and_then(join);
        let Some(Operand::Load(right)) = self.operands.get_mut(&(product, 1)) else {
            return;
        };
        let shape = self.shapes.get_mut(&right.tensor);
        if let Some((at, extents)) = join(&mut right.axes).zip(shape) {
            let inner = extents.remove(at + 1);
            extents[at] = &extents[at] * &inner;
        }
    }

    /// Every list of axes in the kernel.
    pub(super) fn lists(&mut self) -> impl Iterator<Item = &mut Vec<Axis>> {
        let operands = self.operands.values_mut().filter_map(|o| match o {
            Operand::Load(access) => Some(&mut access.axes),
            Operand::Coordinate(axes) => Some(axes),
            Operand::Node(_) | Operand::Number(_) | Operand::Integer(_) => None,
        });
        self.axes
            .values_mut()
            .chain(operands)
            .chain(self.stores.iter_mut().map(|(_, a)| &mut a.axes))
            .chain(self.places.values_mut())
    }

    /// Operand number `i` of a primitive, if the same kernel computes it.
    pub(super) fn node(&self, id: PrimId, i: usize) -> Option<PrimId> {
        match self.operands.get(&(id, i)) {
            Some(Operand::Node(node)) => Some(*node),
            _ => None,
        }
    }

    /// Operand number `i` of a primitive, if it is read from memory.
    pub(super) fn load(&self, id: PrimId, i: usize) -> Option<&Access> {
        match self.operands.get(&(id, i)) {
            Some(Operand::Load(access)) => Some(access),
            _ => None,
        }
    }

    /// The tensor that operand number `i` of a primitive is read from.
    pub(super) fn loaded(&self, id: PrimId, i: usize) -> Result<&Access> {
        let access = self.load(id, i);
        access.ok_or_else(|| Error::unexpected("a kernel reads what no tensor holds"))
    }

    /// The axes along which an access is walked: those of windows in place of the dimensions they see.
    pub(super) fn walked(&self, access: &Access) -> Vec<Axis> {
        let seen = |a: &Axis| match self.windows.get(a) {
            Some(window) => window.axes.iter().map(|(a, _)| *a).collect(),
            None => vec![*a],
        };
        access.axes.iter().flat_map(seen).collect()
    }

    /// Axes that are walked coordinate by coordinate, since tiles have elements along another axis of the same dimension.
    pub(super) fn taps(&self) -> BTreeSet<Axis> {
        let others = self.windows.values().flat_map(|window| {
            let tiled = self.tiled(window);
            let axes = window.axes.iter().map(|(a, _)| *a);
            axes.filter(move |a| Some(*a) != tiled)
        });
        others.collect()
    }

    /// The axis of a window along which tiles have elements: of the digits of a coordinate the last, unless it has
    /// [`FEW`] values that are combined, else one along which results differ.
    fn tiled(&self, window: &Windowed<Axis>) -> Option<Axis> {
        let mut axes = window.axes.clone();
        axes.sort_by_key(|(_, step)| step.abs());
        let extent = |a: Axis| self.extents.get(a).and_then(Expr::as_const);
        let are_digits = axes.windows(2).all(|pair| match pair {
            [(inner, step), (_, next)] => extent(*inner).map(|count| count * step) == Some(*next),
            _ => false,
        });
        let is_few = |a: Axis| self.reduced.contains(&a) && extent(a).is_some_and(|count| count <= FEW);
        let takes_last = are_digits && axes.first().is_some_and(|(a, _)| !is_few(*a));
        let mut differing = axes
            .iter()
            .filter(|(a, _)| takes_last || !self.reduced.contains(a));
        differing.next().or(axes.first()).map(|(a, _)| *a)
    }

    /// Whether combinations must pass over what a dimension's window sees outside of the tensor.
    pub(super) fn sees_nothing(&self, dimension: Axis) -> bool {
        let window = self.windows.get(&dimension);
        window.is_some_and(|w| w.outside == Outside::Nothing) && !self.stays_inside(dimension)
    }

    /// Whether the window through which a dimension is seen, if there is one, shows nothing outside of the tensor.
    pub(super) fn stays_inside(&self, dimension: Axis) -> bool {
        let extent = |a: Axis| self.extents[a].clone();
        let window = self.windows.get(&dimension);
        window.is_none_or(|w| w.stays_inside(&extent(dimension), extent))
    }

    /// Whether a window needs the axis to stay what it is.
    pub(super) fn is_seen(&self, axis: Axis) -> bool {
        let sees = |w: &Windowed<Axis>| w.axes.iter().any(|(a, _)| *a == axis);
        self.windows.contains_key(&axis) || self.windows.values().any(sees)
    }

    /// `(op, diagonal)` if a condition is `column op row + diagonal`.
    pub(super) fn triangle(
        &self,
        prims: &Prims,
        condition: PrimId,
        [rows, columns]: [Axis; 2],
    ) -> Option<(CompareOp, i64)> {
        let Prim::Map(MapOp::Compare(op), _) = prims.node(condition).prim else {
            return None;
        };
        let operand = |id: PrimId, i: usize| self.operands.get(&(id, i));
        let along = |o: Option<&Operand>, axis| o == Some(&Operand::Coordinate(vec![axis]));
        let diagonal = match operand(condition, 1) {
            Some(Operand::Node(edge)) if along(operand(*edge, 0), rows) => {
                match (&prims.node(*edge).prim, operand(*edge, 1)) {
                    (Prim::Map(MapOp::Binary(BinaryOp::Add), _), Some(Operand::Number(diagonal))) => {
                        *diagonal as i64
                    }
                    _ => return None,
                }
            }
            edge if along(edge, rows) => 0,
            _ => return None,
        };
        along(operand(condition, 0), columns).then_some((op, diagonal))
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
