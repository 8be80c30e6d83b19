//! Drops carried and merged values that nothing reads: names that a block reuses for its own purposes.

use std::collections::BTreeSet;

use crate::sketch::ir::*;

/// Repeats until nothing more can go, because one dropped value may have been the only reader of another.
pub(super) fn prune(body: &mut [Stmt]) {
    loop {
        let mut uses = BTreeSet::new();
        collect(body, &mut uses);
        if !drop_unused(body, &uses) {
            return;
        }
    }
}

fn collect(body: &[Stmt], uses: &mut BTreeSet<Val>) {
    for statement in body {
        uses.extend(statement.reads());
        for block in statement.blocks() {
            collect(block, uses);
        }
    }
}

fn drop_unused(body: &mut [Stmt], uses: &BTreeSet<Val>) -> bool {
    let read = |v: &Val| uses.contains(v);
    let mut changed = false;
    for statement in body {
        match statement {
            Stmt::For(l) => {
                // A fold's carried values are matched with its combine, which names all of them.
                if l.combine.is_none() {
                    let before = l.carried.len();
                    l.carried.retain(|c| read(&c.inner) || read(&c.result));
                    changed |= l.carried.len() < before;
                }
                changed |= drop_unused(&mut l.body, uses);
            }
            Stmt::If(b) => {
                let before = b.merges.len();
                b.merges.retain(|m| read(&m.result));
                changed |= b.merges.len() < before;
                changed |= drop_unused(&mut b.then, uses) | drop_unused(&mut b.otherwise, uses);
            }
            Stmt::Define { .. } | Stmt::Store { .. } | Stmt::Barrier => {}
        }
    }
    changed
}
