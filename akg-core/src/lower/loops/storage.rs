//! Which values are in storage, and keeping them right when storage changes.

use std::collections::BTreeSet;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::sketch::ir::{Op, TensorId, Val};

use super::effect::Effect;
use super::element::row_major;
use super::ir::{Local, LocalId, Matrix, Pack, Place, Stmt};
use super::mapper::{Mapper, Resource, State};
use super::nest::Nest;
use super::node::{NodeId, NodeKind};

impl Mapper<'_> {
    /// Storage for a value.
    pub(super) fn local(&mut self, name: &str, dtype: DType, extents: &[usize]) -> LocalId {
        let storage = if matches!(dtype, DType::F16 | DType::BF16) {
            DType::F32
        } else {
            dtype
        };
        let id = LocalId(self.locals.len());
        let name = if name.is_empty() { "tile" } else { name };
        self.locals.push(Local {
            name: self.names.fresh(name).to_string(),
            dtype: storage,
            len: (!extents.is_empty()).then(|| extents.iter().product()),
        });
        self.out.push(Stmt::Declare(id));
        id
    }

    pub(super) fn local_for(&mut self, v: Val) -> LocalId {
        let info = &self.kernel.values[v.0 as usize];
        self.local(&info.name, info.ty.dtype, &info.ty.extents)
    }

    /// Sees to it that the value is in a local. One that an outer block defines is not remembered to be there, since
    /// this block may not be executed.
    pub(super) fn settle(&mut self, v: Val) -> Result<LocalId> {
        match self.value(v).state {
            State::Stored(local) => Ok(local),
            State::Reduction => self.flush_reductions(v),
            State::Inline | State::Pending | State::Passing => {
                let own = self.value(v).block == self.block;
                if let Some(Op::Reshape(u)) = self.value(v).op
                    && let State::Stored(local) = self.value(*u).state
                {
                    if own {
                        self.set_state(v, State::Stored(local));
                    }
                    return Ok(local);
                }
                if let (State::Pending, true, Some(r)) = (self.value(v).state, own, self.reduction_over(v)) {
                    // Its loops pass over the value anyway.
                    self.flush_reductions(r)?;
                    if let State::Stored(local) = self.value(v).state {
                        return Ok(local);
                    }
                }
                let local = self.local_for(v);
                let state = self.value(v).state;
                self.set_state(v, State::Inline);
                self.write(local, v)?;
                self.set_state(v, if own { State::Stored(local) } else { state });
                Ok(local)
            }
        }
    }

    /// Whether `v` is a stored matrix with rows and columns exchanged, of which vectors are read: its elements would be
    /// gathered one by one wherever they are used.
    pub(super) fn is_turned(&self, v: Val, source: Val, perm: &[usize]) -> bool {
        let ty = self.kernel.ty(v);
        let lanes = self.machine.vector_bytes / DType::F32.size();
        let is_large = perm == [1, 0] && ty.extents.iter().all(|extent| *extent >= lanes);
        let is_stored = |v: Val| matches!(self.value(v).state, State::Stored(_));
        let is_at_hand = match (self.value(source).state, self.value(source).op) {
            (State::Inline, Some(Op::Cast(sums))) => is_stored(*sums),
            _ => is_stored(source),
        };
        is_large && is_at_hand && ty.dtype == DType::F32 && !self.uses[v.0 as usize].multiplied
    }

    /// Stores `source` with rows and columns exchanged, as `v`.
    pub(super) fn turn(&mut self, v: Val, source: Val) -> Result<()> {
        let from = self.settle(source)?;
        let [rows, columns] = self.kernel.ty(v).extents[..] else {
            return Err(Error::unexpected("what is turned is not a matrix"));
        };
        let to = self.local_for(v);
        let matrix = Matrix {
            place: Place::Local(from),
            offset: 0.into(),
            extents: [rows, columns],
            strides: [1.into(), rows.into()],
            valid: [rows, columns].map(|extent| [0.into(), extent.into()]),
        };
        self.out.push(Stmt::Pack(Pack::all(matrix, to, columns)));
        self.set_state(v, State::Stored(to));
        Ok(())
    }

    /// A waiting reduction whose loops pass over the whole of `v`.
    fn reduction_over(&self, v: Val) -> Option<Val> {
        self.reductions.iter().copied().find(|r| match self.value(*r).op {
            Some(Op::Reduce(_, operand, _)) => {
                self.value(*r).state == State::Reduction && self.passes(*operand, v)
            }
            _ => false,
        })
    }

    /// Whether an element of `tile` is computed in place from the same element of `v`.
    fn passes(&self, tile: Val, v: Val) -> bool {
        tile == v
            || match self.value(tile).op {
                Some(op @ (Op::Unary(..) | Op::Binary(..) | Op::Select(..) | Op::Cast(_))) => {
                    self.value(tile).state == State::Inline
                        && op.operands().into_iter().any(|o| {
                            self.kernel.ty(o).extents == self.kernel.ty(v).extents && self.passes(o, v)
                        })
                }
                _ => false,
            }
    }

    /// Writes all elements of a value to a local of its size.
    pub(super) fn write(&mut self, local: LocalId, v: Val) -> Result<()> {
        let mut source = v;
        while let (State::Inline, Some(Op::Reshape(u))) = (self.value(source).state, self.value(source).op) {
            source = *u;
        }
        if self.value(source).state == State::Pending {
            if self.is_live(source) {
                self.settle(source)?;
            } else {
                self.set_state(source, State::Inline);
            }
        }
        let outer = self.open(source);
        let index = self.frame.index.clone();
        let value = self.element(source, &index)?;
        let offset = row_major(&self.kernel.ty(source).extents, &index);
        let reads_elsewhere = self.reads_local(value, local, &offset);
        let target = if reads_elsewhere { self.local_for(v) } else { local };
        self.close(
            outer,
            vec![Effect::Set {
                local: target,
                offset,
                value,
            }],
            Nest::parallel,
        );
        if reads_elsewhere {
            let outer = self.open(source);
            let index = self.frame.index.clone();
            let offset = row_major(&self.kernel.ty(source).extents, &index);
            let dtype = self.kernel.ty(source).dtype;
            let value = self.nodes.add(dtype, NodeKind::Local(target, offset.clone()));
            self.close(outer, vec![Effect::Set { local, offset, value }], Nest::parallel);
        }
        Ok(())
    }

    /// Whether computing `value` reads an element of `local` other than the one at `offset`.
    fn reads_local(&self, value: NodeId, local: LocalId, offset: &Expr) -> bool {
        let mut stack = vec![value];
        let mut seen = BTreeSet::new();
        while let Some(id) = stack.pop() {
            if !seen.insert(id) {
                continue;
            }
            let kind = &self.nodes.get(id).kind;
            if matches!(kind, NodeKind::Local(l, at) if *l == local && at != offset) {
                return true;
            }
            stack.extend(kind.operands());
            let symbols = kind.indices().into_iter().flat_map(|e| e.symbols());
            stack.extend(symbols.filter_map(|s| self.dynamic.get(&s).copied()));
        }
        false
    }

    /// Stores every live value that reads what is about to change.
    pub(super) fn invalidate(&mut self, resource: Resource) -> Result<()> {
        for v in self.all_values() {
            let stored = matches!(self.value(v).state, State::Stored(_));
            if !stored && self.is_live(v) && self.value(v).reads.contains(&resource) {
                self.settle(v)?;
            }
        }
        Ok(())
    }

    pub(super) fn invalidate_tensors(&mut self, tensors: &BTreeSet<TensorId>) -> Result<()> {
        tensors
            .iter()
            .try_for_each(|t| self.invalidate(Resource::Tensor(*t)))
    }

    /// Stores what must not be stored for the first time inside a block that may not be executed.
    pub(super) fn settle_waiting(&mut self) -> Result<()> {
        for v in self.all_values() {
            if matches!(self.value(v).state, State::Pending | State::Reduction)
                && self.is_live(v)
                && self.value(v).op.is_some()
            {
                self.settle(v)?;
            }
        }
        self.reductions.clear();
        Ok(())
    }

    /// Storage of a value that is about to be overwritten, if nothing else needs its contents.
    pub(super) fn reusable(&self, v: Val) -> Option<LocalId> {
        let State::Stored(local) = self.value(v).state else {
            return None;
        };
        let needed = self
            .all_values()
            .any(|u| self.value(u).state == State::Stored(local) && self.is_live(u));
        (!needed).then_some(local)
    }

    /// The storage that the value should end up in, if its contents are not needed any more.
    pub(super) fn destination(&self, v: Val) -> Option<LocalId> {
        let local = *self.next.get(&v)?;
        let needed = self
            .all_values()
            .any(|u| self.value(u).state == State::Stored(local) && self.is_live(u));
        (!needed).then_some(local)
    }
}
