//! Contiguous ranges that a kernel sees as one dimension.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Axis, KernelPlan, TensorKey};

/// Merges pairs of axes that are neighbours wherever they occur, so that a contiguous range is one dimension.
pub(super) fn coalesce(kernel: &mut KernelPlan) {
    while let Some((dims, pairs)) = mergeable(kernel) {
        for (p, q) in &pairs {
            let merged = &kernel.extents[*p] * &kernel.extents[*q];
            kernel.extents[*p] = merged;
            kernel.lists().for_each(|l| l.retain(|a| a != q));
            kernel.reduced.remove(q);
        }
        let mut by_tensor: BTreeMap<TensorKey, BTreeSet<usize>> = BTreeMap::new();
        for (key, at) in dims {
            by_tensor.entry(key).or_default().insert(at);
        }
        for (key, positions) in by_tensor {
            if let Some(extents) = kernel.shapes.get_mut(&key) {
                for at in positions.into_iter().rev() {
                    let inner = extents.remove(at + 1);
                    extents[at] = &extents[at] * &inner;
                }
            }
        }
    }
}

/// Dimensions of tensors that end where the next one of theirs goes on.
type Dims = BTreeSet<(TensorKey, usize)>;
/// Axes with those that go on.
type Pairs = BTreeSet<(Axis, Axis)>;

/// Everything tied to a dimension and the next: the axis pairs that they name, and the dimensions that those pairs name
/// elsewhere.
fn tied(kernel: &KernelPlan, dimension: (TensorKey, usize)) -> (Dims, Pairs) {
    let (mut dims, mut pairs) = (Dims::from([dimension]), Pairs::new());
    loop {
        let before = (dims.len(), pairs.len());
        for access in kernel.accesses() {
            for (at, pair) in access.axes.windows(2).enumerate() {
                let &[p, q] = pair else { continue };
                let dim = (access.tensor.clone(), at);
                if dims.contains(&dim) || pairs.contains(&(p, q)) {
                    dims.insert(dim);
                    pairs.insert((p, q));
                }
            }
        }
        if (dims.len(), pairs.len()) == before {
            return (dims, pairs);
        }
    }
}

/// Dimensions that can merge with the next ones.
fn mergeable(kernel: &mut KernelPlan) -> Option<(Dims, Pairs)> {
    if kernel.recurrence.is_some() {
        return None;
    }
    let shapes = kernel.shapes.iter();
    let candidates: Vec<(TensorKey, usize)> = shapes
        .flat_map(|(key, extents)| (1..extents.len()).map(move |i| (key.clone(), i - 1)))
        .collect();
    candidates.into_iter().find_map(|dimension| {
        let (dims, pairs) = tied(kernel, dimension);
        // No axis may take part in two pairs, and a pair must be adjacent wherever either occurs.
        let mut axes = BTreeSet::new();
        let lone = pairs.iter().all(|(p, q)| axes.insert(*p) && axes.insert(*q));
        let may_merge = lone && !pairs.is_empty() && pairs.iter().all(|(p, q)| are_one(kernel, *p, *q));
        may_merge.then_some((dims, pairs))
    })
}

/// Whether nothing tells two axes apart.
fn are_one(kernel: &mut KernelPlan, p: Axis, q: Axis) -> bool {
    kernel.reduced.contains(&p) == kernel.reduced.contains(&q)
        && !kernel.is_seen(p)
        && !kernel.is_seen(q)
        && kernel.lists().all(|list| {
            let at = list.iter().position(|a| *a == p);
            let next = list.iter().position(|a| *a == q);
            match (at, next) {
                (None, None) => true,
                (Some(i), Some(j)) => i + 1 == j,
                _ => false,
            }
        })
}
