//! Contiguous ranges that kernels see as one dimension.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::{Axis, Plan, TensorKey};
use crate::expr::Expr;

/// Merges pairs of axes that are neighbours wherever they occur, in all kernels, so that a contiguous range stays one
/// dimension.
pub(super) fn coalesce(plan: &mut Plan) {
    while let Some((key, at)) = mergeable(plan) {
        // The pair named by one tensor's dimensions `at` and `at + 1`, and every pair tied to it by a shared tensor.
        let mut dims: BTreeSet<(TensorKey, usize)> = BTreeSet::from([(key, at)]);
        let mut pairs: BTreeSet<(usize, Axis, Axis)> = BTreeSet::new();
        close(plan, &mut dims, &mut pairs);
        for (k, p, q) in &pairs {
            if let Some(kernel) = plan.kernels.get_mut(*k) {
                let merged = &kernel.extents[*p] * &kernel.extents[*q];
                kernel.extents[*p] = merged;
                kernel.lists().for_each(|l| l.retain(|a| a != q));
                kernel.reduced.remove(q);
            }
        }
        let mut by_tensor: BTreeMap<TensorKey, BTreeSet<usize>> = BTreeMap::new();
        for (key, at) in dims {
            by_tensor.entry(key).or_default().insert(at);
        }
        for (key, positions) in by_tensor {
            if let Some((_, extents)) = plan.tensors.get_mut(&key) {
                for at in positions.into_iter().rev() {
                    let inner = extents.remove(at + 1);
                    extents[at] = &extents[at] * &inner;
                }
            }
        }
    }
}

/// Everything tied to the dimensions in `dims`: the axis pairs they name and the dimensions those pairs name elsewhere.
fn close(plan: &Plan, dims: &mut BTreeSet<(TensorKey, usize)>, pairs: &mut BTreeSet<(usize, Axis, Axis)>) {
    loop {
        let before = (dims.len(), pairs.len());
        for (k, kernel) in plan.kernels.iter().enumerate() {
            for access in kernel.accesses() {
                for (at, pair) in access.axes.windows(2).enumerate() {
                    let &[p, q] = pair else { continue };
                    let dim = (access.tensor.clone(), at);
                    if dims.contains(&dim) || pairs.contains(&(k, p, q)) {
                        dims.insert(dim);
                        pairs.insert((k, p, q));
                    }
                }
            }
        }
        // Where a view's dimensions merge, those do that they are parts of.
        let whole = dims.iter().filter_map(|(key, at)| boundary(plan, key, *at));
        dims.extend(whole.collect::<Vec<_>>());
        if (dims.len(), pairs.len()) == before {
            return;
        }
    }
}

/// The dimension of a buffer that ends where one of a view does.
fn boundary(plan: &Plan, key: &TensorKey, at: usize) -> Option<(TensorKey, usize)> {
    let TensorKey::View(source, _) = key else {
        return None;
    };
    let buffer = TensorKey::Buffer(*source);
    let extents = |key: &TensorKey| plan.tensors.get(key).map_or(&[][..], |(_, extents)| extents);
    let parts = extents(key).get(..=at).unwrap_or_default();
    let before = |extents: &[Expr]| extents.iter().fold(Expr::constant(1), |n, e| &n * e);
    let (upto, whole) = (before(parts), extents(&buffer));
    let count = (1..whole.len()).find(|count| before(&whole[..*count]) == upto)?;
    Some((buffer, count - 1))
}

/// A dimension whose axis can merge with the next one's.
fn mergeable(plan: &mut Plan) -> Option<(TensorKey, usize)> {
    let candidates: Vec<(TensorKey, usize)> = plan
        .tensors
        .iter()
        .flat_map(|(key, (_, extents))| (1..extents.len()).map(move |i| (key.clone(), i - 1)))
        .collect();
    candidates.into_iter().find(|(key, at)| {
        let mut dims = BTreeSet::from([(key.clone(), *at)]);
        let mut pairs = BTreeSet::new();
        close(plan, &mut dims, &mut pairs);
        // No axis may take part in two pairs, and a pair must be adjacent wherever either occurs.
        let lone = pairs.iter().all(|(k, p, q)| {
            pairs
                .iter()
                .filter(|(k2, p2, q2)| k == k2 && [p2, q2].iter().any(|x| *x == p || *x == q))
                .count()
                == 1
        });
        lone && !pairs.is_empty()
            && pairs.iter().all(|(k, p, q)| {
                plan.kernels.get_mut(*k).is_some_and(|kernel| {
                    kernel.recurrence.is_none()
                        && kernel.reduced.contains(p) == kernel.reduced.contains(q)
                        && !kernel.is_seen(*p)
                        && !kernel.is_seen(*q)
                        && kernel.lists().all(|list| {
                            let at = list.iter().position(|a| a == p);
                            let next = list.iter().position(|a| a == q);
                            match (at, next) {
                                (None, None) => true,
                                (Some(i), Some(j)) => i + 1 == j,
                                _ => false,
                            }
                        })
                })
            })
    })
}
