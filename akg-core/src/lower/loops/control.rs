//! Loops, branches, and the values that go through them.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::sketch::ir::{self, Branch, Condition, Loop, Val};

use super::boxes::Around;
use super::ir::{LocalId, LoopKind, Stmt};
use super::mapper::{Mapper, Resource, State, UNKNOWN_EXTENT, stored_tensors};

impl<'a> Mapper<'a> {
    pub(super) fn for_loop(&mut self, l: &'a Loop) -> Result<()> {
        if self.goes_inside(l)? {
            return Ok(());
        }
        let mut stored = BTreeSet::new();
        if ir::has_barrier(&l.body) {
            stored.clone_from(&self.written);
        } else {
            stored_tensors(&l.body, &mut stored);
        }
        self.invalidate_tensors(&stored)?;
        let mut storage: Vec<LocalId> = Vec::new();
        for c in &l.carried {
            let local = match self.reusable(c.initial).filter(|local| !storage.contains(local)) {
                Some(local) => {
                    self.invalidate(Resource::Local(local))?;
                    local
                }
                None => {
                    let local = self.local_for(c.result);
                    self.write(local, c.initial)?;
                    local
                }
            };
            storage.push(local);
        }
        self.settle_waiting()?;
        let mut axes = Vec::new();
        for axis in &l.axes {
            let (lo, hi) = (self.index(&axis.lo), self.index(&axis.hi));
            let least = self.bounds(&lo).map_or(-UNKNOWN_EXTENT, |b| b.0);
            let most = match (lo.as_const(), hi.as_const()) {
                (Some(lo), Some(hi)) if hi > lo => lo + (hi - 1 - lo) / axis.step * axis.step,
                _ => self.bounds(&hi).map_or(UNKNOWN_EXTENT, |b| b.1 - 1),
            };
            axes.push((
                self.declare(&axis.symbol, (least, most.max(least))),
                lo,
                hi,
                axis.step,
            ));
        }
        let around = axes.iter().map(|(symbol, lo, hi, step)| Around {
            symbol: symbol.clone(),
            values: lo
                .as_const()
                .filter(|_| *step == 1)
                .and_then(|lo| Some((lo, self.bounds(hi)?.1 - 1))),
        });
        let around: Vec<Around> = around.collect();
        let boxes = self.boxes(l, &around)?;
        let outer = self.enter();
        let outer_next = std::mem::take(&mut self.next);
        let outer_before = std::mem::take(&mut self.before);
        let outer_loop = self.loop_block.replace(self.block);
        for (c, local) in l.carried.iter().zip(&storage) {
            let block = self.block;
            let inner = self.value_mut(c.inner);
            inner.state = State::Stored(*local);
            inner.block = block;
            self.next.insert(c.next, *local);
        }
        let index = axes.last().map(|(symbol, _, _, step)| (symbol.clone(), *step));
        let targets: Vec<_> = l.carried.iter().map(|c| c.next).zip(storage.clone()).collect();
        self.advancing(index, |mapper| {
            mapper.statements(&l.body)?;
            mapper.at += 1;
            mapper.assign(targets)
        })?;
        self.next = outer_next;
        self.loop_block = outer_loop;
        let mut body = self.leave(outer);
        let before = std::mem::replace(&mut self.before, outer_before);
        let mut run = None;
        for (inner, (symbol, lo, hi, step)) in (1..).zip(axes.into_iter().rev()) {
            let count = hi.as_const().filter(|_| lo.is(0) && step == 1);
            let count = count.and_then(|count| usize::try_from(count).ok());
            let folded = count.and_then(|count| self.folded(&symbol, count, &body, run));
            let own = match folded {
                Some((folded, longest)) => {
                    run = Some(longest);
                    folded
                }
                None => vec![Stmt::For {
                    symbol,
                    lo,
                    hi,
                    step,
                    kind: LoopKind::Sketch { unroll: l.unroll },
                    body,
                }],
            };
            let copied = boxes.iter().filter(|(loops, _)| *loops == inner);
            body = copied.flat_map(|(_, copy)| copy.clone()).chain(own).collect();
        }
        self.out.extend(before);
        self.out.append(&mut body);
        for (c, local) in l.carried.iter().zip(storage) {
            self.define_stored(c.result, local);
        }
        Ok(())
    }

    pub(super) fn branch(&mut self, b: &'a Branch) -> Result<()> {
        let mut stored = BTreeSet::new();
        stored_tensors(&b.then, &mut stored);
        stored_tensors(&b.otherwise, &mut stored);
        self.invalidate_tensors(&stored)?;
        self.settle_waiting()?;
        let results: Vec<LocalId> = b.merges.iter().map(|m| self.local_for(m.result)).collect();
        let outer_next = std::mem::take(&mut self.next);
        let mut blocks = Vec::new();
        for (stmts, is_then) in [(&b.then, true), (&b.otherwise, false)] {
            let outer = self.enter();
            self.statements(stmts)?;
            self.at += 1;
            let of = |m: &ir::Merge| if is_then { m.then } else { m.otherwise };
            self.assign(b.merges.iter().map(of).zip(results.clone()).collect())?;
            blocks.push(self.leave(outer));
        }
        self.next = outer_next;
        let otherwise = blocks.pop().unwrap_or_default();
        let then = blocks.pop().unwrap_or_default();
        let condition = self.condition(&b.condition);
        self.out.push(Stmt::If {
            condition,
            then,
            otherwise,
        });
        for (m, local) in b.merges.iter().zip(results) {
            self.define_stored(m.result, local);
        }
        Ok(())
    }

    fn condition(&self, condition: &Condition) -> Condition {
        let both = |a: &Condition, b: &Condition| (Box::new(self.condition(a)), Box::new(self.condition(b)));
        match condition {
            Condition::Compare(op, a, b) => Condition::Compare(*op, self.index(a), self.index(b)),
            Condition::And(a, b) => {
                let (a, b) = both(a, b);
                Condition::And(a, b)
            }
            Condition::Or(a, b) => {
                let (a, b) = both(a, b);
                Condition::Or(a, b)
            }
            Condition::Not(a) => Condition::Not(Box::new(self.condition(a))),
        }
    }

    pub(super) fn define_stored(&mut self, v: Val, local: LocalId) {
        let block = self.block;
        let value = self.value_mut(v);
        value.state = State::Stored(local);
        value.block = block;
    }

    fn enter(&mut self) -> (Vec<Stmt>, usize) {
        self.blocks += 1;
        let outer = (
            std::mem::take(&mut self.out),
            std::mem::replace(&mut self.block, self.blocks),
        );
        debug_assert!(self.reductions.is_empty());
        outer
    }

    fn leave(&mut self, outer: (Vec<Stmt>, usize)) -> Vec<Stmt> {
        self.reductions.clear();
        self.block = outer.1;
        std::mem::replace(&mut self.out, outer.0)
    }

    /// Writes values to storage as if all at once.
    fn assign(&mut self, mut targets: Vec<(Val, LocalId)>) -> Result<()> {
        targets.retain(|(v, local)| self.value(*v).state != State::Stored(*local));
        for (v, _) in &targets {
            if self.value(*v).state == State::Reduction {
                self.settle(*v)?;
            }
        }
        while !targets.is_empty() {
            let read_by_others = |mapper: &Self, i: usize, targets: &[(Val, LocalId)]| {
                let overwritten = Resource::Local(targets[i].1);
                targets
                    .iter()
                    .enumerate()
                    .any(|(j, (v, _))| j != i && mapper.reads(*v).contains(&overwritten))
            };
            let free = (0..targets.len()).find(|i| !read_by_others(self, *i, &targets));
            let (v, local) = targets.remove(free.unwrap_or(0));
            if free.is_none() {
                for (other, _) in targets.clone() {
                    if self.reads(other).contains(&Resource::Local(local)) {
                        let copy = self.local_for(other);
                        self.write(copy, other)?;
                        self.define_stored(other, copy);
                    }
                }
            }
            self.write(local, v)?;
        }
        Ok(())
    }
}
