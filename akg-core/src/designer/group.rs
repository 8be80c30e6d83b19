//! What one kernel computes, and whether the emitters can write it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::RangeInclusive;

use super::attention::Attention;
use super::axes::{Axes, AxisId, Conflict, distinct};
use super::emit::matmul::UNIT;
use super::prim::{Cell, Prim, PrimId, Prims};
use super::window::Outside;
use crate::expr::Expr;

/// Neighbouring columns of a product that may be combined where they are computed: powers of two that tiles hold several of.
const COLUMNS: RangeInclusive<i64> = 8..=128;
/// Rows of a product that may be combined where they are computed, all of them in one tile: so many that it has elements along
/// them.
const ROWS: RangeInclusive<i64> = UNIT..=128;

/// Where a primitive of a kernel gets an operand from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Use<A> {
    /// Computed in the same kernel.
    Node(PrimId),
    /// Read from the tensor that holds `source`, whose dimensions are these axes in row-major order.
    Load { source: PrimId, axes: Vec<A> },
    /// A literal.
    Number(f64),
    /// An integer that follows from the extents.
    Integer(Expr),
    /// The coordinate along these axes, outermost first.
    Coordinate(Vec<A>),
}

impl<A> Use<A> {
    /// The axes of the tensor read.
    fn axes(&self) -> &[A] {
        match self {
            Use::Load { axes, .. } => axes,
            _ => &[],
        }
    }
}

/// The primitives of one kernel with the axes of everything they touch.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    pub(super) nodes: Vec<PrimId>,
    pub(super) axes: Axes,
    pub(super) dims: HashMap<PrimId, Vec<Vec<AxisId>>>,
    pub(super) uses: BTreeMap<(PrimId, usize), Use<AxisId>>,
    /// The dimensions of each tensor read, for later reads of the same tensor to share.
    loads: HashMap<PrimId, Vec<Vec<AxisId>>>,
    /// The dimensions of each window, and what it reads.
    windows: HashMap<PrimId, (Vec<Vec<AxisId>>, Use<AxisId>)>,
    /// For each reduction or scan, the axes that it combines.
    pub(super) reductions: Vec<Vec<AxisId>>,
    /// For each reduction of a product's result, the axes that it combines, of which a tile holds all.
    pub(super) inner: Vec<Vec<AxisId>>,
    /// The axes of the dimension in which each extreme element has its place, in the dimension's order.
    pub(super) places: HashMap<PrimId, Vec<AxisId>>,
    /// The product, if there is one; of an attention, the one with the values.
    pub(super) contract: Option<PrimId>,
    /// The product of queries and keys, if it is an attention.
    pub(super) scores: Option<PrimId>,
    /// The recurrence, if it is one.
    pub(super) recurrence: Option<PrimId>,
    /// The gather, if it is one.
    pub(super) gather: Option<PrimId>,
    /// The scatter, if it is one.
    pub(super) scatter: Option<PrimId>,
}

impl Group {
    /// The dimensions of `id` as the group sees it, and where it comes from.
    ///
    /// With `share`, reads of one tensor see the same axes; without, each read is free to arrange them its own way.
    fn operand(
        &mut self,
        prims: &Prims,
        id: PrimId,
        share: bool,
    ) -> Result<(Vec<Vec<AxisId>>, Use<AxisId>), Conflict> {
        let node = prims.node(id);
        if let Some(dims) = self.dims.get(&id) {
            return Ok((dims.iter().map(|d| self.axes.resolve(d)).collect(), Use::Node(id)));
        }
        match &node.prim {
            Prim::Number(v) => Ok((Vec::new(), Use::Number(*v))),
            Prim::Integer(value) => Ok((Vec::new(), Use::Integer(value.clone()))),
            Prim::Coordinate(dim) => {
                let dims: Vec<_> = node.shape.iter().map(|d| self.axes.fresh(d)).collect();
                let along = dims.get(*dim).cloned().unwrap_or_default();
                Ok((dims, Use::Coordinate(along)))
            }
            Prim::Permute(a, perm) => {
                let (dims, source) = self.operand(prims, *a, share)?;
                Ok((
                    perm.iter().filter_map(|p| dims.get(*p).cloned()).collect(),
                    source,
                ))
            }
            Prim::Reshape(a) => {
                let tensor = prims.reshaped(id).filter(|_| !share);
                let before = tensor.map(|tensor| (tensor, self.clone()));
                let (dims, source) = self.operand(prims, *a, share)?;
                let regrouped = self.axes.regroup(&dims.concat(), &node.shape);
                match (regrouped, before, &source) {
                    (Ok(dims), ..) => Ok((dims, source)),
                    // A tensor has its elements in order whatever extents it is declared with.
                    (Err(_), Some((tensor, before)), Use::Load { .. }) => {
                        *self = before;
                        let dims: Vec<_> = node.shape.iter().map(|d| self.axes.fresh(d)).collect();
                        let axes = dims.concat();
                        Ok((dims, Use::Load { source: tensor, axes }))
                    }
                    (Err(conflict), ..) => Err(conflict),
                }
            }
            Prim::Expand(a) => {
                let (dims, source) = self.operand(prims, *a, share)?;
                let missing = node.shape.len().saturating_sub(dims.len());
                let mut out = Vec::with_capacity(node.shape.len());
                for (i, extent) in node.shape.iter().enumerate() {
                    match i.checked_sub(missing).and_then(|j| dims.get(j)) {
                        Some(list) if !list.is_empty() => out.push(list.clone()),
                        _ => out.push(self.axes.fresh(extent)),
                    }
                }
                Ok((out, source))
            }
            Prim::Window(window, a) => {
                if let Some((dims, source)) = self.windows.get(&id).filter(|_| share) {
                    let dims = dims.iter().map(|d| self.axes.resolve(d)).collect();
                    return Ok((dims, source.clone()));
                }
                // Windows see tensors, not what the kernel computes, and each sees its own coordinates.
                let (mut dims, source) = match prims.reshaped(*a) {
                    // A tensor has its elements in order whatever extents it is declared with.
                    Some(source) if !self.dims.contains_key(&source) => {
                        let dims: Vec<_> = prims.shape(*a).iter().map(|d| self.axes.fresh(d)).collect();
                        let axes = dims.concat();
                        (dims, Use::Load { source, axes })
                    }
                    _ => self.operand(prims, *a, false)?,
                };
                let dimension = dims.get(window.dim).ok_or(Conflict)?;
                let (Use::Load { .. }, &[dimension]) = (&source, dimension.as_slice()) else {
                    return Err(Conflict);
                };
                let seen = self.axes.window(dimension, window, window.counts(&node.shape))?;
                dims.splice(window.dim..=window.dim, seen);
                // What another window sees is not to be read without that one.
                if share {
                    self.windows.insert(id, (dims.clone(), source.clone()));
                }
                Ok((dims, source))
            }
            _ => {
                let dims = match self.loads.get(&id).filter(|_| share) {
                    Some(dims) => dims.iter().map(|d| self.axes.resolve(d)).collect(),
                    None => node.shape.iter().map(|d| self.axes.fresh(d)).collect::<Vec<_>>(),
                };
                self.loads.insert(id, dims.clone());
                let axes = dims.concat();
                Ok((dims, Use::Load { source: id, axes }))
            }
        }
    }

    /// The group with a computed primitive, and what it waits for, added; `None` if no kernel can be written for that.
    pub(super) fn with(&self, prims: &Prims, id: PrimId, waiting: &HashSet<PrimId>) -> Option<Self> {
        [true, false].into_iter().find_map(|share| {
            let mut trial = self.clone();
            trial.add(prims, id, waiting, share).ok()?;
            trial.check(prims).ok()?;
            Some(trial)
        })
    }

    /// The kernel of an attention, with what it waits for; `None` if no kernel can be written for that.
    pub(super) fn of_attention(
        prims: &Prims,
        attention: &Attention,
        waiting: &HashSet<PrimId>,
    ) -> Option<Self> {
        [true, false].into_iter().find_map(|share| {
            let mut trial = Self {
                scores: Some(attention.scores),
                ..Self::default()
            };
            for id in &attention.members {
                trial.add(prims, *id, waiting, share).ok()?;
            }
            trial.check(prims).ok()?;
            Some(trial)
        })
    }

    fn add(
        &mut self,
        prims: &Prims,
        id: PrimId,
        waiting: &HashSet<PrimId>,
        share: bool,
    ) -> Result<(), Conflict> {
        for root in prims.operands(id).into_iter().map(|o| prims.root(o)) {
            if waiting.contains(&root) && !self.dims.contains_key(&root) {
                self.add(prims, root, waiting, share)?;
            }
        }
        let node = prims.node(id);
        let mut operands = Vec::new();
        for (i, operand) in prims.operands(id).into_iter().enumerate() {
            let (dims, source) = self.operand(prims, operand, share)?;
            self.uses.insert((id, i), source);
            operands.push(dims);
        }
        let dims = match &node.prim {
            Prim::Map(..) => self.broadcast(&operands, node.shape.len())?,
            Prim::Reduce(_, _, reduced) => self.reduce(&operands, reduced)?,
            Prim::ArgReduce(_, _, axis) => {
                let along = operands.first().and_then(|dims| dims.get(*axis));
                self.places.insert(id, along.ok_or(Conflict)?.clone());
                self.reduce(&operands, &[*axis])?
            }
            Prim::Scan(scan, _) => {
                self.reduce(&operands, &[scan.dim])?;
                operands.pop().ok_or(Conflict)?
            }
            Prim::Contract(..) => self.contract(id, &operands)?,
            Prim::Gather(..) => self.gather(id, &operands)?,
            Prim::Scatter { dim, .. } => self.scatter(id, *dim, &node.shape, &operands)?,
            Prim::Recur { cell, .. } => self.recur(id, *cell, &operands)?,
            Prim::Carried(_) => operands.pop().ok_or(Conflict)?,
            _ => return Err(Conflict),
        };
        self.dims.insert(id, dims);
        self.nodes.push(id);
        Ok(())
    }

    /// Aligns dimensions from the last one and makes those of extent above 1 the same axes.
    fn broadcast(
        &mut self,
        operands: &[Vec<Vec<AxisId>>],
        rank: usize,
    ) -> Result<Vec<Vec<AxisId>>, Conflict> {
        let mut out: Vec<Vec<AxisId>> = vec![Vec::new(); rank];
        for dims in operands {
            let offset = rank.checked_sub(dims.len()).ok_or(Conflict)?;
            for (slot, dim) in out.iter_mut().skip(offset).zip(dims) {
                if slot.is_empty() {
                    slot.clone_from(dim);
                } else if !dim.is_empty() {
                    self.axes.unify(slot, dim)?;
                }
            }
        }
        Ok(out)
    }

    fn reduce(
        &mut self,
        operands: &[Vec<Vec<AxisId>>],
        axes: &[usize],
    ) -> Result<Vec<Vec<AxisId>>, Conflict> {
        let dims = operands.first().ok_or(Conflict)?;
        let (gone, kept): (Vec<_>, Vec<_>) = dims.iter().enumerate().partition(|(i, _)| axes.contains(i));
        let gone: Vec<_> = gone.into_iter().flat_map(|(_, d)| d.clone()).collect();
        let kept: Vec<_> = kept.into_iter().map(|(_, d)| d.clone()).collect();
        if self.contract.is_some() && self.scores.is_none() {
            self.inner.push(gone);
            return Ok(kept);
        }
        // What nothing is left of can be walked together with anything as large.
        if let Some(first) = self.reductions.first().filter(|_| kept.concat().is_empty()) {
            let first = first.clone();
            self.axes.unify(&first, &gone)?;
        }
        self.reductions.push(gone);
        Ok(kept)
    }

    fn contract(&mut self, id: PrimId, operands: &[Vec<Vec<AxisId>>]) -> Result<Vec<Vec<AxisId>>, Conflict> {
        let [a, b] = operands else { return Err(Conflict) };
        let ([batch_a @ .., m, ka], [batch_b @ .., kb, n]) = (a.as_slice(), b.as_slice()) else {
            return Err(Conflict);
        };
        self.axes.unify(ka, kb)?;
        for (x, y) in batch_a.iter().zip(batch_b) {
            self.axes.unify(x, y)?;
        }
        self.reductions.push(ka.clone());
        self.contract = Some(id);
        Ok(batch_a.iter().chain([m, n]).cloned().collect())
    }

    fn gather(&mut self, id: PrimId, operands: &[Vec<Vec<AxisId>>]) -> Result<Vec<Vec<AxisId>>, Conflict> {
        let [table, numbers] = operands else {
            return Err(Conflict);
        };
        let ([_, row], [number]) = (table.as_slice(), numbers.as_slice()) else {
            return Err(Conflict);
        };
        // Numbers count the rows of a table as it lies in memory.
        match self.uses.get(&(id, 0)) {
            Some(Use::Load { axes, .. }) if self.axes.resolve(axes) == self.axes.resolve(&table.concat()) => {
            }
            _ => return Err(Conflict),
        }
        self.gather = Some(id);
        Ok(vec![number.clone(), row.clone()])
    }

    fn scatter(
        &mut self,
        id: PrimId,
        dim: usize,
        shape: &[Expr],
        operands: &[Vec<Vec<AxisId>>],
    ) -> Result<Vec<Vec<AxisId>>, Conflict> {
        let [numbers, rows] = operands else {
            return Err(Conflict);
        };
        let ([number], Some(named)) = (numbers.as_slice(), rows.get(dim)) else {
            return Err(Conflict);
        };
        self.axes.unify(number, named)?;
        if self.axes.resolve(number).len() > 1 {
            return Err(Conflict);
        }
        self.scatter = Some(id);
        let mut dims = rows.clone();
        let extent = shape.get(dim).ok_or(Conflict)?;
        *dims.get_mut(dim).ok_or(Conflict)? = self.axes.fresh(extent);
        Ok(dims)
    }

    fn recur(
        &mut self,
        id: PrimId,
        cell: Cell,
        operands: &[Vec<Vec<AxisId>>],
    ) -> Result<Vec<Vec<AxisId>>, Conflict> {
        let [shares, weights, hidden, others @ ..] = operands else {
            return Err(Conflict);
        };
        if cell == Cell::Linear {
            let ([steps, own], [of_terms, terms], [first]) =
                (shares.as_slice(), weights.as_slice(), hidden.as_slice())
            else {
                return Err(Conflict);
            };
            for (a, b) in [(steps, of_terms), (own, terms), (own, first)] {
                self.axes.unify(a, b)?;
            }
            self.recurrence = Some(id);
            return Ok(vec![steps.clone(), own.clone()]);
        }
        let ([steps, batch, gates, own], [of_gates, rows, columns], [of_batch, read]) =
            (shares.as_slice(), weights.as_slice(), hidden.as_slice())
        else {
            return Err(Conflict);
        };
        let mut pairs = vec![(gates, of_gates), (own, rows), (batch, of_batch), (read, columns)];
        for (i, other) in others.iter().enumerate() {
            let [first, second] = other.as_slice() else {
                return Err(Conflict);
            };
            let is_state = cell == Cell::Lstm && i == 0;
            pairs.extend([(if is_state { batch } else { gates }, first), (own, second)]);
        }
        for (a, b) in pairs {
            self.axes.unify(a, b)?;
        }
        self.recurrence = Some(id);
        Ok([steps, batch, own].map(Clone::clone).to_vec())
    }

    /// The resolved axes of a node.
    pub(super) fn axes_of(&self, id: PrimId) -> Vec<AxisId> {
        self.axes
            .resolve(&self.dims.get(&id).map(|d| d.concat()).unwrap_or_default())
    }

    /// Whether it reads the tensor that holds `root`.
    pub(super) fn reads(&self, root: PrimId) -> bool {
        // Windows see some tensors in other extents than the rest of the kernel.
        let is_source = |used: &Use<AxisId>| matches!(used, Use::Load { source, .. } if *source == root);
        self.loads.contains_key(&root) || self.uses.values().any(is_source)
    }

    /// The axes that reductions combine.
    pub(super) fn reduced(&self) -> BTreeSet<AxisId> {
        self.reductions
            .iter()
            .flat_map(|r| self.axes.resolve(r))
            .collect()
    }

    /// The axes over which programs are independent.
    pub(super) fn kept(&self) -> BTreeSet<AxisId> {
        let mut others = self.reduced();
        others.extend(self.inner.iter().flat_map(|axes| self.axes.resolve(axes)));
        let all = self.nodes.iter().flat_map(|id| self.axes_of(*id));
        all.filter(|a| !others.contains(a)).collect()
    }

    /// The two axes of a product's columns of which the second is combined within tiles; `None` if there is no such one.
    pub(super) fn columns(&self) -> Option<[AxisId; 2]> {
        let columns = self.dims.get(&self.contract?)?.last()?;
        let [outer, inner] = self.axes.resolve(columns)[..] else {
            return None;
        };
        let combines = |axes: &Vec<AxisId>| self.axes.resolve(axes) == [inner];
        (!self.inner.is_empty() && self.inner.iter().all(combines)).then_some([outer, inner])
    }

    /// The rows of a product if they are combined, all of them, within tiles.
    pub(super) fn rows(&self) -> Option<AxisId> {
        let [.., rows, _] = self.dims.get(&self.contract?)?.as_slice() else {
            return None;
        };
        let [rows] = self.axes.resolve(rows)[..] else {
            return None;
        };
        let combines = |axes: &Vec<AxisId>| self.axes.resolve(axes) == [rows];
        (!self.inner.is_empty() && self.inner.iter().all(combines)).then_some(rows)
    }

    fn check(&self, prims: &Prims) -> Result<(), Conflict> {
        let lists = self.uses.values().filter_map(|u| match u {
            Use::Load { axes, .. } => Some(self.axes.resolve(axes)),
            _ => None,
        });
        if !lists
            .chain(self.nodes.iter().map(|id| self.axes_of(*id)))
            .all(|l| distinct(&l))
        {
            return Err(Conflict);
        }
        // A recurrence is alone with what it carries.
        let goes_along = |id: &PrimId| match prims.node(*id).prim {
            Prim::Carried(a) => self.recurrence == Some(a),
            _ => self.recurrence == Some(*id),
        };
        let along = self.nodes.iter().filter(|id| goes_along(id)).count();
        let is_carried = |id: &PrimId| matches!(prims.node(*id).prim, Prim::Carried(_));
        if along < self.nodes.len() && (along > 0 || self.nodes.iter().any(is_carried)) {
            return Err(Conflict);
        }
        // A gather or scatter is alone, and reads whole tensors.
        if let Some(alone) = self.gather.or(self.scatter) {
            let is_load = |i| matches!(self.uses.get(&(alone, i)), Some(Use::Load { .. }));
            if self.nodes.len() > 1 || self.axes.has_windows() || !is_load(0) || !is_load(1) {
                return Err(Conflict);
            }
        }
        if !self.combines_alike() {
            return Err(Conflict);
        }
        let reduced = self.reduced();
        // Zeros beyond a tensor are elements like others, but combinations take what stands outside as none.
        let combines_zeros = |dimension: AxisId| {
            self.axes.windowed(dimension).is_some_and(|w| {
                let is_reduced = w.axes.iter().any(|(a, _)| reduced.contains(a));
                let extent_of = |a| self.axes.extent(a).clone();
                w.outside == Outside::Zeros
                    && is_reduced
                    && !w.stays_inside(self.axes.extent(dimension), extent_of)
            })
        };
        let mut loaded = self.uses.values().flat_map(Use::axes);
        if loaded.any(|a| combines_zeros(*a)) {
            return Err(Conflict);
        }
        let directions = self.nodes.iter().filter_map(|id| match &prims.node(*id).prim {
            Prim::Scan(scan, _) => Some(scan.reverse),
            _ => None,
        });
        if directions.collect::<BTreeSet<_>>().len() > 1 {
            return Err(Conflict);
        }
        match self.contract {
            Some(contract) if !self.is_product(prims, contract) => Err(Conflict),
            _ => Ok(()),
        }
    }

    /// Whether all combinations are along the same axes; those of an attention, after the scores, along the keys.
    fn combines_alike(&self) -> bool {
        let set = |axes: &Vec<AxisId>| self.axes.resolve(axes).into_iter().collect::<BTreeSet<_>>();
        let scores = usize::from(self.scores.is_some());
        let along_heads: BTreeSet<AxisId> = self.reductions.iter().take(scores).flat_map(set).collect();
        let along = &self.reduced() - &along_heads;
        self.reductions.iter().skip(scores).all(|axes| set(axes) == along)
    }

    /// Whether what follows a product is element-wise on its result or combines groups of columns or all rows, and nothing
    /// precedes it but the scores of an attention and work on them.
    fn is_product(&self, prims: &Prims, contract: PrimId) -> bool {
        let length = |axis: AxisId| self.axes.extent(axis).as_const();
        let columns = self.columns().and_then(|[_, inner]| length(inner));
        let fits = |columns: i64| COLUMNS.contains(&columns) && columns.count_ones() == 1;
        let in_columns = columns.is_some_and(fits) && !self.axes.has_windows();
        // What is met outside is no neutral element for what combines the rows.
        let rows = self.rows().filter(|rows| !self.axes.leaves(*rows));
        let in_rows = rows.and_then(length).is_some_and(|rows| ROWS.contains(&rows));
        if !(self.inner.is_empty() || in_columns || in_rows) {
            return false;
        }
        let within = |id: &PrimId, whole: PrimId| {
            let whole: BTreeSet<_> = self.axes_of(whole).into_iter().collect();
            self.axes_of(*id).iter().all(|a| whole.contains(a))
        };
        let follows = |id: &PrimId| {
            let is_work = matches!(prims.node(*id).prim, Prim::Map(..) | Prim::Reduce(..));
            *id == contract || is_work && within(id, contract)
        };
        let at = self
            .nodes
            .iter()
            .position(|id| *id == contract)
            .unwrap_or_default();
        let (before, after) = self.nodes.split_at(at);
        let precedes = |id: &PrimId| self.scores.is_some_and(|scores| within(id, scores));
        before.iter().all(precedes) && after.iter().all(follows)
    }
}
