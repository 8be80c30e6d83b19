//! Cutting a graph of primitives into kernels.
//!
//! Computed primitives are visited in order. Each joins the kernel of its latest producer if the result is still a
//! kernel that the emitters can write: element-wise work and reductions over one common set of axes, or one product
//! followed by element-wise work on its result. Otherwise it starts a kernel of its own. Since a primitive only ever
//! joins its latest producer, kernels never depend on each other in a circle. Element-wise work on inputs alone has no
//! producer: it waits, and is computed again in every kernel that reads it. So does element-wise work on what a product
//! must store in any case, and a conversion to f64 with products of what it gives: they cost less to repeat than to
//! store. A reduction that cannot join its producer joins the latest kernel that reduces what it reads, or one that leaves
//! a single element as it does. Element-wise work on single elements, such as counters of batches, shares kernels.
//!
//! Whoever knows better has primitives begin kernels of their own ([`Apart`]).
//!
//! An [attention] becomes one kernel where its device and its tiles allow, with its masks and what follows it.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::attention::{self, Attention};
use super::axes::AxisId;
use super::decompose::Decomposed;
use super::device::Device;
use super::group::{Group, Use};
use super::prim::{MapOp, Prim, PrimId, Prims};
use crate::dtype::DType;
use crate::sketch::ir::BinaryOp;

/// A primitive whose operands no kernel can read in the way that it arranges them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unarranged(pub(super) PrimId);

type Result<T> = std::result::Result<T, Unarranged>;

/// What kernels are made apart from each other for.
#[derive(Debug, Clone)]
pub(super) struct Apart<'a> {
    pub(super) device: Device<'a>,
    /// Products that nothing joins.
    pub(super) products: HashSet<PrimId>,
    /// Scores that are stored.
    pub(super) scores: HashSet<PrimId>,
    /// Primitives that begin a kernel, whatever they could join.
    pub(super) begin: HashSet<PrimId>,
}

impl<'a> Apart<'a> {
    /// No more than the device asks for.
    pub(super) fn new(device: Device<'a>) -> Self {
        Self {
            device,
            products: HashSet::new(),
            scores: HashSet::new(),
            begin: HashSet::new(),
        }
    }
}

/// Which primitives may join what computes their operands.
#[derive(Debug, Clone, Copy)]
pub(super) enum Fusion<'a> {
    /// All but these.
    Beside(&'a Apart<'a>),
    /// None.
    Off,
}

impl Fusion<'_> {
    /// Whether a primitive may be part of the kernels around it.
    fn joins(self, id: PrimId) -> bool {
        match self {
            Fusion::Beside(apart) => !apart.begin.contains(&id),
            Fusion::Off => false,
        }
    }

    /// Whether something may join a group.
    fn allows(self, group: &Group) -> bool {
        match self {
            Fusion::Beside(apart) => group
                .contract
                .is_none_or(|product| !apart.products.contains(&product)),
            Fusion::Off => false,
        }
    }
}

/// Cuts the primitives that the outputs need into kernels.
pub(super) fn cut(decomposed: &Decomposed, fusion: Fusion<'_>) -> Result<Vec<Group>> {
    let prims = &decomposed.prims;
    let (consumers, outputs) = readers(decomposed);
    let attentions = match fusion {
        Fusion::Beside(apart) => attentions(decomposed, apart),
        Fusion::Off => BTreeMap::new(),
    };
    let inner = attentions.values().flat_map(|attention| &attention.members);
    let inner = inner.copied().filter(|id| !attentions.contains_key(id));
    let needed: Vec<PrimId> = (0..prims.nodes.len())
        .map(PrimId)
        .filter(|id| prims.is_computed(*id) && (consumers.contains_key(id) || outputs.contains(id)))
        .collect();
    let mut cut = Cut {
        prims,
        inner: inner.collect(),
        attentions,
        consumers,
        outputs,
        groups: Vec::new(),
        home: HashMap::new(),
        waiting: HashSet::new(),
    };
    for id in needed {
        cut.place(id, fusion)?;
    }
    Ok(cut.groups)
}

/// Every attention that becomes one kernel, by its product with the values.
pub(super) fn attentions(decomposed: &Decomposed, apart: &Apart<'_>) -> BTreeMap<PrimId, Attention> {
    let (prims, (consumers, outputs)) = (&decomposed.prims, readers(decomposed));
    attention::find(decomposed, &consumers, &outputs, |attention, product| {
        !apart.scores.contains(&attention.scores)
            && attention.fits(prims, apart.device, product)
            && Group::of_attention(prims, attention, &HashSet::new()).is_some()
    })
}

/// Who reads each computed primitive that is needed, and those that are outputs.
fn readers(decomposed: &Decomposed) -> (HashMap<PrimId, Vec<PrimId>>, HashSet<PrimId>) {
    let prims = &decomposed.prims;
    let outputs = decomposed.outputs.iter().map(|o| prims.root(*o)).collect();
    (consumers(prims, &needed(decomposed)), outputs)
}

/// A cut in the making.
struct Cut<'a> {
    prims: &'a Prims,
    /// Every attention that becomes one kernel, by its last product.
    attentions: BTreeMap<PrimId, Attention>,
    /// What those compute before.
    inner: HashSet<PrimId>,
    consumers: HashMap<PrimId, Vec<PrimId>>,
    outputs: HashSet<PrimId>,
    groups: Vec<Group>,
    /// The group that computes each placed primitive.
    home: HashMap<PrimId, usize>,
    /// Element-wise work on inputs alone, and conversions to f64: computed wherever they are read.
    waiting: HashSet<PrimId>,
}

impl Cut<'_> {
    fn place(&mut self, id: PrimId, fusion: Fusion<'_>) -> Result<()> {
        let prims = self.prims;
        if self.inner.contains(&id) {
            return Ok(());
        }
        if let Some(attention) = self.attentions.get(&id).cloned() {
            return self.start_attention(&attention);
        }
        let latest = self.latest(id);
        if matches!(prims.node(id).prim, Prim::Carried(_)) {
            return self.join(id);
        }
        let is_map = matches!(prims.node(id).prim, Prim::Map(..));
        let may_wait = fusion.joins(id) && is_map && !self.outputs.contains(&id);
        if may_wait && latest.is_none_or(|at| self.widens(id) || self.is_read_back(at, id)) {
            self.waiting.insert(id);
            return Ok(());
        }
        let reads_memory = prims.reads_memory(id);
        self.provide(id)?;
        // What was just started is a producer, too.
        let latest = self.latest(id);
        let mut siblings = self.siblings(id);
        siblings.retain(|at| latest.is_none_or(|l| *at > l));
        let may_join = fusion.joins(id) && !reads_memory;
        let homes = latest.into_iter().chain(siblings).filter(|_| may_join);
        for at in homes {
            let Some(group) = self.groups.get(at).filter(|group| fusion.allows(group)) else {
                continue;
            };
            let trial = group.with(prims, id, &self.waiting);
            let is_legal = |trial: &Group| self.is_legal(group, trial, id) && self.fits(trial, fusion);
            if let Some(trial) = trial.filter(is_legal) {
                self.groups[at] = trial;
                self.home.insert(id, at);
                return Ok(());
            }
        }
        self.start(id)
    }

    /// Starts groups for what waits and is to be read from memory: by products, recurrences and windows.
    fn provide(&mut self, id: PrimId) -> Result<()> {
        let prims = self.prims;
        let reads_memory = prims.reads_memory(id);
        for operand in prims.operands(id) {
            let producer = prims.root(operand);
            if (reads_memory || prims.is_windowed(operand)) && self.waiting.remove(&producer) {
                self.start(producer)?;
            }
        }
        Ok(())
    }

    /// Starts the group of an attention. What waits becomes a group of its own if it cannot be part of this one.
    fn start_attention(&mut self, attention: &Attention) -> Result<()> {
        for id in &attention.members {
            self.provide(*id)?;
        }
        let mut group = Group::of_attention(self.prims, attention, &self.waiting);
        if group.is_none() {
            for id in &attention.members {
                for operand in self.prims.operands(*id) {
                    let producer = self.prims.root(operand);
                    if self.waiting.remove(&producer) {
                        self.start(producer)?;
                    }
                }
            }
            group = Group::of_attention(self.prims, attention, &self.waiting);
        }
        let group = group.ok_or(Unarranged(attention.scores))?;
        let homes = attention.members.iter().map(|id| (*id, self.groups.len()));
        self.home.extend(homes);
        self.groups.push(group);
        Ok(())
    }

    /// Adds what a recurrence carries to its group.
    fn join(&mut self, id: PrimId) -> Result<()> {
        let home = self.latest(id).ok_or(Unarranged(id))?;
        let group = self.groups.get_mut(home).ok_or(Unarranged(id))?;
        *group = group.with(self.prims, id, &self.waiting).ok_or(Unarranged(id))?;
        self.home.insert(id, home);
        Ok(())
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
            prims.reads_memory(reader) || operands.any(|o| prims.root(o) == id && prims.is_windowed(o))
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

    /// The groups that something may join whose result they do not read. For a reduction: the latest that reduces something
    /// that it reads, and those that leave a single element if it does. For element-wise work on single elements: those that
    /// do nothing else.
    fn siblings(&self, id: PrimId) -> Vec<usize> {
        let is_single =
            |id: PrimId| matches!(self.prims.node(id).prim, Prim::Map(..)) && self.prims.rank(id) == 0;
        if is_single(id) {
            let alike = |g: &Group| g.nodes.iter().all(|node| is_single(*node));
            return self.groups.iter().rposition(alike).into_iter().collect();
        }
        if !matches!(self.prims.node(id).prim, Prim::Reduce(..)) {
            return Vec::new();
        }
        let read = self.read(id);
        let reads_same = |g: &&Group| read.iter().any(|r| g.reads(*r));
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
        let group = group.ok_or(Unarranged(id))?;
        self.home.insert(id, self.groups.len());
        self.groups.push(group);
        Ok(())
    }

    /// Whether no program repeats a combination of elements that another one makes, and everything that must be stored
    /// still has all the axes of the kernel's programs, and all of those that it combines along or none: a value with fewer
    /// can be used there but not stored.
    fn is_legal(&self, before: &Group, trial: &Group, id: PrimId) -> bool {
        let (kept, reduced) = (trial.kept(), trial.reduced());
        let complete = |n: &PrimId| {
            let axes = trial.axes_of(*n);
            kept.iter().all(|a| axes.contains(a))
        };
        let is_part = |n: &PrimId| {
            let axes = trial.axes_of(*n);
            let count = reduced.iter().filter(|a| axes.contains(a)).count();
            0 < count && count < reduced.len()
        };
        let recomputed = |n: &PrimId| self.waiting.contains(n);
        let combines =
            |n: &&PrimId| matches!(self.prims.node(**n).prim, Prim::Reduce(..) | Prim::ArgReduce(..));
        // The rows of weights that an attention combines are those of its one tile of values.
        let repeats =
            |group: &Group| group.scores.is_none() && !group.nodes.iter().filter(combines).all(complete);
        complete(&id)
            && !is_part(&id)
            && !repeats(before)
            && before
                .nodes
                .iter()
                .all(|n| complete(n) && !is_part(n) || self.stays(trial, *n) || recomputed(n))
    }

    /// Whether what a product's kernel combines is tiled together on the device: all rows, or groups of columns, which are one
    /// dimension again there, and in the right operand, which nothing else in the kernel reads.
    fn fits(&self, group: &Group, fusion: Fusion<'_>) -> bool {
        let (Fusion::Beside(apart), Some(product)) = (fusion, group.contract) else {
            return group.inner.is_empty();
        };
        if group.rows().is_some() {
            return !apart.device.shares_tiles() && self.prims.dtype(product) == DType::F32;
        }
        let of_right = |used: &&Use<AxisId>| match (used, group.uses.get(&(product, 1))) {
            (Use::Load { source, .. }, Some(Use::Load { source: right, .. })) => source == right,
            _ => false,
        };
        let is_split = apart.device.shares_tiles() && apart.device.factors(None).is_some();
        let is_alone = group.uses.values().filter(of_right).count() == 1;
        group.inner.is_empty() || is_split && self.prims.dtype(product) == DType::F32 && is_alone
    }

    /// Whether no other group needs what `group` computes; what waits may still be computed by others, too.
    fn stays(&self, group: &Group, id: PrimId) -> bool {
        let (mut seen, mut next) = (HashSet::from([id]), vec![id]);
        while let Some(id) = next.pop() {
            if self.outputs.contains(&id) {
                return false;
            }
            for reader in self.consumers.get(&id).into_iter().flatten() {
                if !group.dims.contains_key(reader) {
                    return false;
                }
                if self.waiting.contains(reader) && seen.insert(*reader) {
                    next.push(*reader);
                }
            }
        }
        true
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
