//! Which tiles are alive together.

use crate::sketch::ir::{Kernel, Stmt, Val, region_operands};

/// The statements between a value's definition and its last use, both included. Statements are numbered in the order
/// written; a loop or branch has a number where it begins and one where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    /// Where the value is defined.
    pub from: usize,
    /// Where it is used last; `from` if never. A value from outside a loop stays alive until the loop ends.
    pub to: usize,
}

/// Lifetimes of a kernel's tiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Liveness {
    /// By value; `None` for values that exist only in the combine block of a fold.
    pub intervals: Vec<Option<Interval>>,
    /// The most bytes of tiles that are alive at one statement.
    pub peak_bytes: usize,
}

/// The lifetimes of the tiles of `kernel`.
pub fn liveness(kernel: &Kernel) -> Liveness {
    let mut walk = Walk {
        intervals: vec![None; kernel.values.len()],
        open_loops: Vec::new(),
        uses: Vec::new(),
        at: 0,
    };
    walk.block(&kernel.body);
    let mut delta = vec![0isize; walk.at + 2];
    for (interval, info) in walk.intervals.iter().zip(&kernel.values) {
        if let Some(Interval { from, to }) = interval {
            let bytes = info.ty.extents.iter().product::<usize>() * info.ty.dtype.size();
            delta[*from] += bytes as isize;
            delta[*to + 1] -= bytes as isize;
        }
    }
    let mut alive = 0;
    let mut peak = 0;
    for change in delta {
        alive += change;
        peak = peak.max(alive);
    }
    Liveness {
        intervals: walk.intervals,
        peak_bytes: peak as usize,
    }
}

struct Walk {
    intervals: Vec<Option<Interval>>,
    /// Where each enclosing loop begins.
    open_loops: Vec<usize>,
    /// For each enclosing loop, the values from outside that it uses.
    uses: Vec<Vec<Val>>,
    at: usize,
}

impl Walk {
    fn define(&mut self, value: Val) {
        if let Some(slot) = self.intervals.get_mut(value.0 as usize) {
            *slot = Some(Interval {
                from: self.at,
                to: self.at,
            });
        }
    }

    fn reach(&mut self, value: Val) {
        let at = self.at;
        let Some(Some(interval)) = self.intervals.get_mut(value.0 as usize) else {
            return;
        };
        interval.to = at;
        for (begin, uses) in self.open_loops.iter().zip(&mut self.uses) {
            if interval.from < *begin {
                uses.push(value);
            }
        }
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.at += 1;
            match stmt {
                Stmt::Define { value, op, .. } => {
                    op.operands().into_iter().for_each(|v| self.reach(v));
                    self.define(*value);
                }
                Stmt::Store { region, value, .. } => {
                    region_operands(region).for_each(|v| self.reach(v));
                    self.reach(*value);
                }
                Stmt::For(l) => {
                    for carried in &l.carried {
                        self.reach(carried.initial);
                        self.define(carried.inner);
                    }
                    self.open_loops.push(self.at);
                    self.uses.push(Vec::new());
                    self.block(&l.body);
                    self.at += 1;
                    l.carried.iter().for_each(|c| self.reach(c.next));
                    self.open_loops.pop();
                    for value in self.uses.pop().unwrap_or_default() {
                        self.reach(value);
                    }
                    l.carried.iter().for_each(|c| self.define(c.result));
                }
                Stmt::If(branch) => {
                    self.block(&branch.then);
                    self.block(&branch.otherwise);
                    self.at += 1;
                    for merge in &branch.merges {
                        self.reach(merge.then);
                        self.reach(merge.otherwise);
                    }
                    branch.merges.iter().for_each(|m| self.define(m.result));
                }
                Stmt::Barrier => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lower::analysis::tests::{matmul, value_named};

    #[test]
    fn a_matmul_holds_its_accumulator_and_operands() {
        let program = matmul(128, 128, 128, 32);
        let kernel = &program.kernels[0];
        let found = liveness(kernel);
        let tile = 32 * 32 * 4;
        // At the dot: the accumulator before and after, both operands and the transposed one are no longer all alive.
        assert_eq!(found.peak_bytes, 4 * tile);
        let life = |name| found.intervals[value_named(kernel, name).0 as usize].unwrap();
        assert!(life("a").to > life("c").from);
        assert!(life("c").to < life("a").to);
    }

    #[test]
    fn a_value_from_outside_lives_to_the_end_of_the_loop() {
        let mut program = matmul(128, 128, 128, 32);
        let kernel = &mut program.kernels[0];
        let c = value_named(kernel, "c");
        let Some(Stmt::For(l)) = kernel.body.iter_mut().find(|s| matches!(s, Stmt::For(_))) else {
            panic!("matmul has a loop");
        };
        let at = l
            .body
            .iter()
            .position(|s| matches!(s, Stmt::Define { value, .. } if *value == c))
            .unwrap();
        let load = l.body.remove(at);
        kernel.body.insert(0, load);
        let intervals = liveness(kernel).intervals;
        let next = value_named(kernel, "next");
        assert!(intervals[c.0 as usize].unwrap().to > intervals[next.0 as usize].unwrap().from);
    }
}
