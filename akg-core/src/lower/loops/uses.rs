//! Where tile values are used for the last time, counting the uses of what is computed from them in place.

use crate::sketch::ir::{Kernel, Op, Stmt, Val, region_operands};

use super::added::{self, Added};

/// How a tile value is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// The number of uses in the text.
    pub(super) count: usize,
    /// Position of the last statement that may need it. Statements are numbered in textual order, and a loop or branch
    /// takes one more number at the end of each of its blocks.
    pub(super) last: usize,
    /// Whether a use is in a loop that the definition is outside of.
    pub(super) repeated: bool,
    /// Whether a product has it as an operand.
    pub(super) multiplied: bool,
}

/// Whether the value is an expression that can be evaluated anew for each element where it is used.
pub(super) fn is_elementwise(op: &Op) -> bool {
    !matches!(
        op,
        Op::Reduce(..) | Op::ArgReduce(..) | Op::Scan { .. } | Op::Dot { .. }
    )
}

/// The uses of each value, and the additions of products, which are not evaluated element by element.
pub(super) fn uses(kernel: &Kernel) -> (Vec<Use>, Added) {
    let mut walk = Walk {
        at: 0,
        loops: Vec::new(),
        depth: vec![0; kernel.values.len()],
        uses: vec![Use::default(); kernel.values.len()],
        pending: Vec::new(),
        inline: Vec::new(),
    };
    walk.block(&kernel.body);
    let added = added::find(kernel, &walk.uses);
    walk.inline.retain(|(value, _)| !added.contains_key(value));
    // A value read in place lives as long as what reads it. Definitions precede uses, so one backward pass does.
    for (value, operands) in walk.inline.iter().rev() {
        let user = walk.uses[value.0 as usize];
        for operand in operands {
            let used = &mut walk.uses[operand.0 as usize];
            used.last = used.last.max(user.last);
        }
    }
    (walk.uses, added)
}

struct Walk {
    at: usize,
    /// The enclosing loops, as indices into `pending`.
    loops: Vec<usize>,
    /// The number of loops around each definition.
    depth: Vec<usize>,
    uses: Vec<Use>,
    /// For each loop met, the values from outside that it uses.
    pending: Vec<Vec<Val>>,
    inline: Vec<(Val, Vec<Val>)>,
}

impl Walk {
    fn define(&mut self, value: Val) {
        self.depth[value.0 as usize] = self.loops.len();
    }

    fn read(&mut self, value: Val) {
        let depth = self.depth[value.0 as usize];
        let used = &mut self.uses[value.0 as usize];
        used.count += 1;
        used.last = used.last.max(self.at);
        if let Some(outermost) = self.loops.get(depth) {
            used.repeated = true;
            self.pending[*outermost].push(value);
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        for stmt in stmts {
            self.at += 1;
            match stmt {
                Stmt::Define { value, op, .. } => {
                    let operands = op.operands();
                    for operand in &operands {
                        self.read(*operand);
                    }
                    if let Op::Dot { a, b, .. } = op {
                        for operand in [a, b] {
                            self.uses[operand.0 as usize].multiplied = true;
                        }
                    }
                    self.define(*value);
                    if is_elementwise(op) {
                        self.inline.push((*value, operands));
                    }
                }
                Stmt::Store { region, value, .. } => {
                    region_operands(region).chain([*value]).for_each(|v| self.read(v));
                }
                Stmt::For(l) => {
                    l.carried.iter().for_each(|c| self.read(c.initial));
                    let id = self.pending.len();
                    self.pending.push(Vec::new());
                    self.loops.push(id);
                    l.carried.iter().for_each(|c| self.define(c.inner));
                    self.block(&l.body);
                    self.at += 1;
                    l.carried.iter().for_each(|c| self.read(c.next));
                    self.loops.pop();
                    l.carried.iter().for_each(|c| self.define(c.result));
                    for value in std::mem::take(&mut self.pending[id]) {
                        let used = &mut self.uses[value.0 as usize];
                        used.last = used.last.max(self.at);
                    }
                }
                Stmt::If(b) => {
                    self.block(&b.then);
                    self.at += 1;
                    b.merges.iter().for_each(|m| self.read(m.then));
                    self.block(&b.otherwise);
                    self.at += 1;
                    b.merges.iter().for_each(|m| self.read(m.otherwise));
                    b.merges.iter().for_each(|m| self.define(m.result));
                }
                Stmt::Barrier => {}
            }
        }
    }
}
