//! Cutting a graph of primitives into kernels.
//!
//! Computed primitives are visited in order. Each joins the kernel of its latest producer if the result is still a
//! kernel that the emitters can write: element-wise work and reductions over one common set of axes, or one product
//! followed by element-wise work on its result. Otherwise it starts a kernel of its own. Since a primitive only ever
//! joins its latest producer, kernels never depend on each other in a circle. Element-wise work on inputs alone has no
//! producer: it waits, and is computed again in every kernel that reads it. So does element-wise work on what a product
//! must store in any case, and a conversion to f64 with products of what it gives: they cost less to repeat than to
//! store. A reduction that cannot join its producer joins the latest kernel that reduces what it reads, or one that leaves
//! a single element as it does.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::axes::{Axes, AxisId, Conflict, distinct};
use super::decompose::Decomposed;
use super::prim::{MapOp, Prim, PrimId, Prims};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::sketch::ir::BinaryOp;

/// Where a primitive of a kernel gets an operand from.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Use<A> {
    /// Computed in the same kernel.
    Node(PrimId),
    /// Read from the tensor that holds `source`, whose dimensions are these axes in row-major order.
    Load { source: PrimId, axes: Vec<A> },
    /// A literal.
    Number(f64),
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
    pub(super) uses: HashMap<(PrimId, usize), Use<AxisId>>,
    /// The dimensions of each tensor read, for later reads of the same tensor to share.
    loads: HashMap<PrimId, Vec<Vec<AxisId>>>,
    /// The dimensions of each window, and what it reads.
    windows: HashMap<PrimId, (Vec<Vec<AxisId>>, Use<AxisId>)>,
    /// For each reduction or scan, the axes that it combines.
    pub(super) reductions: Vec<Vec<AxisId>>,
    /// The product, if there is one.
    pub(super) contract: Option<PrimId>,
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
                let (dims, source) = self.operand(prims, *a, share)?;
                Ok((self.axes.regroup(&dims.concat(), &node.shape)?, source))
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
                let slot = dims.get_mut(window.dim).ok_or(Conflict)?;
                let (Use::Load { .. }, [dimension]) = (&source, slot.as_slice()) else {
                    return Err(Conflict);
                };
                let extent = node.shape.get(window.dim).ok_or(Conflict)?;
                let start = window.start.clone();
                *slot = self.axes.window(*dimension, start, window.step, extent)?;
                self.windows.insert(id, (dims.clone(), source.clone()));
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
    fn with(&self, prims: &Prims, id: PrimId, waiting: &HashSet<PrimId>) -> Option<Self> {
        [true, false].into_iter().find_map(|share| {
            let mut trial = self.clone();
            trial.add(prims, id, waiting, share).ok()?;
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
            Prim::ArgReduce(_, _, axis) => self.reduce(&operands, &[*axis])?,
            Prim::Scan(scan, _) => {
                self.reduce(&operands, &[scan.dim])?;
                operands.pop().ok_or(Conflict)?
            }
            Prim::Contract(..) => self.contract(id, &operands)?,
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

    /// The resolved axes of a node.
    pub(super) fn axes_of(&self, id: PrimId) -> Vec<AxisId> {
        self.axes
            .resolve(&self.dims.get(&id).map(|d| d.concat()).unwrap_or_default())
    }

    /// The axes that reductions combine.
    pub(super) fn reduced(&self) -> BTreeSet<AxisId> {
        self.reductions
            .iter()
            .flat_map(|r| self.axes.resolve(r))
            .collect()
    }

    /// The axes over which programs are independent.
    fn kept(&self) -> BTreeSet<AxisId> {
        let reduced = self.reduced();
        let all = self.nodes.iter().flat_map(|id| self.axes_of(*id));
        all.filter(|a| !reduced.contains(a)).collect()
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
        let reduced = self.reduced();
        let alike = |r: &Vec<AxisId>| self.axes.resolve(r).into_iter().collect::<BTreeSet<_>>() == reduced;
        if !self.reductions.iter().all(alike) {
            return Err(Conflict);
        }
        // Zeros beyond a tensor are elements like others, but combinations take what stands outside as none.
        let combines_zeros = |dimension: AxisId| {
            self.axes.windowed(dimension).is_some_and(|w| {
                let is_reduced = w.axis.is_some_and(|a| reduced.contains(&a));
                let extent_of = |a| self.axes.extent(a).clone();
                is_reduced && !w.stays_inside(self.axes.extent(dimension), extent_of)
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
        let Some(contract) = self.contract else {
            return Ok(());
        };
        // What follows a product is element-wise on its result, and what precedes it is not fused.
        let product: BTreeSet<_> = self.axes_of(contract).into_iter().collect();
        let follows = |id: &PrimId| {
            *id == contract
                || matches!(prims.node(*id).prim, Prim::Map(..))
                    && self.axes_of(*id).iter().all(|a| product.contains(a))
        };
        if self.nodes.first() == Some(&contract) && self.nodes.iter().all(follows) {
            Ok(())
        } else {
            Err(Conflict)
        }
    }
}

/// Cuts the primitives that the outputs need into kernels.
pub(super) fn cut(decomposed: &Decomposed, fuse: bool) -> Result<Vec<Group>> {
    let prims = &decomposed.prims;
    let needed = needed(decomposed);
    let consumers = consumers(prims, &needed);
    let outputs: HashSet<PrimId> = decomposed.outputs.iter().map(|o| prims.root(*o)).collect();
    let mut cut = Cut {
        prims,
        consumers,
        outputs,
        groups: Vec::new(),
        home: HashMap::new(),
        waiting: HashSet::new(),
    };
    for id in (0..prims.nodes.len()).map(PrimId) {
        if needed.contains(&id) && prims.is_computed(id) {
            cut.place(id, fuse)?;
        }
    }
    Ok(cut.groups)
}

/// A cut in the making.
struct Cut<'a> {
    prims: &'a Prims,
    consumers: HashMap<PrimId, Vec<PrimId>>,
    outputs: HashSet<PrimId>,
    groups: Vec<Group>,
    /// The group that computes each placed primitive.
    home: HashMap<PrimId, usize>,
    /// Element-wise work on inputs alone, and conversions to f64: computed wherever they are read.
    waiting: HashSet<PrimId>,
}

impl Cut<'_> {
    fn place(&mut self, id: PrimId, fuse: bool) -> Result<()> {
        let prims = self.prims;
        let latest = self.latest(id);
        let is_map = matches!(prims.node(id).prim, Prim::Map(..));
        let may_wait = fuse && is_map && !self.outputs.contains(&id);
        if may_wait && latest.is_none_or(|at| self.widens(id) || self.is_read_back(at, id)) {
            self.waiting.insert(id);
            return Ok(());
        }
        let is_contract = matches!(prims.node(id).prim, Prim::Contract(..));
        for operand in prims.operands(id) {
            // Products and windows read from memory.
            let producer = prims.root(operand);
            if (is_contract || prims.is_windowed(operand)) && self.waiting.remove(&producer) {
                self.start(producer)?;
            }
        }
        let mut siblings = self.siblings(id);
        siblings.retain(|at| latest.is_none_or(|l| *at > l));
        let homes = latest
            .into_iter()
            .chain(siblings)
            .filter(|_| fuse && !is_contract);
        for at in homes {
            let Some(group) = self.groups.get(at) else {
                continue;
            };
            let trial = group.with(prims, id, &self.waiting);
            if let Some(trial) = trial.filter(|trial| self.is_legal(group, trial, id)) {
                self.groups[at] = trial;
                self.home.insert(id, at);
                return Ok(());
            }
        }
        self.start(id)
    }

    /// The latest group that something depends on.
    fn latest(&self, id: PrimId) -> Option<usize> {
        let homes = self
            .read(id)
            .into_iter()
            .filter_map(|id| self.home.get(&id).copied());
        homes.max()
    }

    /// The primitives that something reads, itself or through what waits.
    fn read(&self, id: PrimId) -> HashSet<PrimId> {
        self.upstream(id, |id| self.waiting.contains(&id))
    }

    /// The primitives that something reads, and what those read that are to be looked `through`.
    fn upstream(&self, id: PrimId, through: impl Fn(PrimId) -> bool) -> HashSet<PrimId> {
        let (mut reached, mut stack) = (HashSet::new(), vec![id]);
        while let Some(reader) = stack.pop() {
            for root in self
                .prims
                .operands(reader)
                .into_iter()
                .map(|o| self.prims.root(o))
            {
                if reached.insert(root) && through(root) {
                    stack.push(root);
                }
            }
        }
        reached
    }

    /// Whether element-wise work converts to f64, or multiplies what waits to be converted.
    fn widens(&self, id: PrimId) -> bool {
        let prims = self.prims;
        let waits = |a: &PrimId| self.waiting.contains(&prims.root(*a));
        prims.dtype(id) == DType::F64
            && match &prims.node(id).prim {
                Prim::Map(MapOp::Cast, _) => true,
                Prim::Map(MapOp::Binary(BinaryOp::Mul), args) => args.iter().all(waits),
                _ => false,
            }
    }

    /// Whether readers of element-wise work on a product had better compute it again, because what it is made of is stored
    /// in any case.
    fn is_read_back(&self, at: usize, id: PrimId) -> bool {
        let prims = self.prims;
        let Some(group) = self.groups.get(at).filter(|g| g.contract.is_some()) else {
            return false;
        };
        let readers = |id: PrimId| self.consumers.get(&id).into_iter().flatten().copied();
        let reads_memory = |reader: PrimId, id: PrimId| {
            let mut operands = prims.operands(reader).into_iter();
            matches!(prims.node(reader).prim, Prim::Contract(..))
                || operands.any(|o| prims.root(o) == id && prims.is_windowed(o))
        };
        let is_stored = |made: PrimId| {
            let mut others = readers(made).filter(|reader| *reader != id);
            others.any(|reader| reads_memory(reader, made) || self.is_beyond(group, reader))
        };
        let read = self.read(id).into_iter();
        let mut made = read.filter(|root| group.dims.contains_key(root));
        !readers(id).any(|reader| reads_memory(reader, id)) && made.any(is_stored)
    }

    /// Whether something depends on a combination of elements of the group's results.
    fn is_beyond(&self, group: &Group, id: PrimId) -> bool {
        let is_own = |id: &PrimId| group.dims.contains_key(id) || !self.prims.is_computed(*id);
        let combines = |id: &PrimId| !is_own(id) && !matches!(self.prims.node(*id).prim, Prim::Map(..));
        combines(&id) || self.upstream(id, |id| !is_own(&id)).iter().any(combines)
    }

    /// The groups that may take up a reduction: the latest that reduces something that the reduction reads, and those that
    /// leave a single element if the reduction does.
    fn siblings(&self, id: PrimId) -> Vec<usize> {
        if !matches!(self.prims.node(id).prim, Prim::Reduce(..)) {
            return Vec::new();
        }
        let read = self.read(id);
        let reads_same = |g: &&Group| read.iter().any(|r| g.loads.contains_key(r));
        // What goes in order is not split over programs.
        let in_parts = |id: &PrimId| matches!(self.prims.node(*id).prim, Prim::Map(..) | Prim::Reduce(..));
        let leaves_one =
            |g: &&Group| self.prims.rank(id) == 0 && g.kept().is_empty() && g.nodes.iter().all(in_parts);
        let groups = self.groups.iter().enumerate().rev();
        let reducing = groups.filter(|(_, g)| !g.reductions.is_empty());
        let reading = reducing.clone().find(|(_, g)| reads_same(g));
        let others = reducing.filter(|(_, g)| leaves_one(g));
        reading.into_iter().chain(others).map(|(at, _)| at).collect()
    }

    /// Starts a group. What waits becomes a group of its own if it cannot be part of this one.
    fn start(&mut self, id: PrimId) -> Result<()> {
        let mut group = Group::default().with(self.prims, id, &self.waiting);
        if group.is_none() {
            for operand in self.prims.operands(id) {
                let producer = self.prims.root(operand);
                if self.waiting.remove(&producer) {
                    self.start(producer)?;
                }
            }
            group = Group::default().with(self.prims, id, &self.waiting);
        }
        let group = group.ok_or_else(|| {
            Error::unsupported(format!(
                "no design rule yet for how `{}` arranges its operands",
                self.prims.node(id).origin
            ))
        })?;
        self.home.insert(id, self.groups.len());
        self.groups.push(group);
        Ok(())
    }

    /// Whether no program repeats a combination of elements that another one makes, and everything that must be stored
    /// still has all the axes of the kernel's programs: a value with fewer can be used there but not stored.
    fn is_legal(&self, before: &Group, trial: &Group, id: PrimId) -> bool {
        let kept = trial.kept();
        let complete = |n: &PrimId| {
            let axes = trial.axes_of(*n);
            kept.iter().all(|a| axes.contains(a))
        };
        let recomputed = |n: &PrimId| self.waiting.contains(n);
        let combines =
            |n: &&PrimId| matches!(self.prims.node(**n).prim, Prim::Reduce(..) | Prim::ArgReduce(..));
        complete(&id)
            && before.nodes.iter().filter(combines).all(complete)
            && before
                .nodes
                .iter()
                .all(|n| complete(n) || self.stays(trial, *n) || recomputed(n))
    }

    /// Whether no other group needs what `group` computes; what waits may still be computed by others, too.
    fn stays(&self, group: &Group, id: PrimId) -> bool {
        let read_here =
            |c: &PrimId| group.dims.contains_key(c) && (!self.waiting.contains(c) || self.stays(group, *c));
        let readers = self.consumers.get(&id);
        !self.outputs.contains(&id) && readers.is_none_or(|c| c.iter().all(read_here))
    }
}

/// Every primitive that an output depends on.
fn needed(decomposed: &Decomposed) -> HashSet<PrimId> {
    let mut needed = HashSet::new();
    let mut stack = decomposed.outputs.clone();
    while let Some(id) = stack.pop() {
        if needed.insert(id) {
            stack.extend(decomposed.prims.operands(id));
        }
    }
    needed
}

/// The computed primitives that read each computed primitive, through views.
fn consumers(prims: &Prims, needed: &HashSet<PrimId>) -> HashMap<PrimId, Vec<PrimId>> {
    let mut out: HashMap<PrimId, Vec<PrimId>> = HashMap::new();
    for id in needed.iter().copied().filter(|id| prims.is_computed(*id)) {
        for operand in prims.operands(id) {
            out.entry(prims.root(operand)).or_default().push(id);
        }
    }
    out
}
