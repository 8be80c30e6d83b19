//! Parallel loops over the elements of a result.
//!
//! The bodies are trait objects: there is one loop for each element type, not one for each operator.

use rayon::prelude::*;

use super::strided::Item;

/// Elements that are worth a task of their own.
pub(super) const BLOCK: usize = 1 << 14;

/// Calls `f(index, line)` on each stretch of `len` elements; short ones share a task.
pub(super) fn lines<E: Item>(out: &mut [E], len: usize, f: &(dyn Fn(usize, &mut [E]) + Sync)) {
    grouped(out, len.max(1), BLOCK.div_ceil(len.max(1)), f);
}

/// Calls `f(index, part)` on each stretch of `len` elements, each a task of its own.
pub(super) fn tasks<E: Item>(out: &mut [E], len: usize, f: &(dyn Fn(usize, &mut [E]) + Sync)) {
    grouped(out, len.max(1), 1, f);
}

/// Calls `f(position, block)` on blocks of any length that make up `out`.
pub(super) fn blocks<E: Item>(out: &mut [E], f: &(dyn Fn(usize, &mut [E]) + Sync)) {
    grouped(out, BLOCK, 1, &|index, block| f(index * BLOCK, block));
}

fn grouped<E: Item>(out: &mut [E], len: usize, group: usize, f: &(dyn Fn(usize, &mut [E]) + Sync)) {
    let run = |(task, part): (usize, &mut [E])| {
        for (i, line) in part.chunks_mut(len).enumerate() {
            f(task * group + i, line);
        }
    };
    if out.len() <= len * group {
        return run((0, out));
    }
    out.par_chunks_mut(len * group).enumerate().for_each(run);
}
