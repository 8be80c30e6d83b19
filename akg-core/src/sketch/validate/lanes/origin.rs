//! Where outside lanes come from, and where reshapes take them.

use super::super::prove::nonnegative;
use super::super::walk::Site;
use crate::expr::Expr;

/// A region's dimension that may leave its tensor, on an axis of a tile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::sketch::validate) struct Origin {
    /// First coordinate.
    pub(super) start: Expr,
    /// Smallest and largest coordinate.
    pub(super) ends: (Expr, Expr),
    pub(super) step: i64,
    pub(super) extent: Expr,
    /// Whether coordinates may be negative.
    pub(super) low: bool,
    /// Lanes of the tile's axis for one coordinate: more than 1 after a reshape that merged axes, 0 after one that
    /// split them, when lanes can no longer be told.
    pub(super) lanes: usize,
}

/// Whether the region stays inside the tensor wherever `site` is reached.
pub(super) fn inside(origin: &Origin, site: &Site) -> bool {
    nonnegative(&origin.ends.0, site) && nonnegative(&(&origin.extent - &origin.ends.1 - 1), site)
}

/// The axes of `from` and of `to` that hold the same elements, for axes that are not of extent 1.
fn groups(from: &[usize], to: &[usize]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let real = |extents: &[usize]| {
        (0..extents.len())
            .filter(|i| extents.get(*i) != Some(&1))
            .collect::<Vec<_>>()
    };
    let mut left = real(from).into_iter();
    let mut right = real(to).into_iter();
    let size = |extents: &[usize], axis: usize| extents.get(axis).copied().unwrap_or(1);
    let mut out = Vec::new();
    while let (Some(a), Some(b)) = (left.next(), right.next()) {
        let (mut x, mut y) = (size(from, a), size(to, b));
        let mut group = (vec![a], vec![b]);
        while x != y {
            let more = if x < y { left.next() } else { right.next() };
            let Some(axis) = more else { return out };
            if x < y {
                x *= size(from, axis);
                group.0.push(axis);
            } else {
                y *= size(to, axis);
                group.1.push(axis);
            }
        }
        out.push(group);
    }
    out
}

/// Where the lanes of `origin` on `axis` go in a reshape.
pub(super) fn reshaped(from: &[usize], to: &[usize], axis: usize, origin: &Origin) -> Vec<(usize, Origin)> {
    let Some((sources, targets)) = groups(from, to).into_iter().find(|(s, _)| s.contains(&axis)) else {
        return Vec::new();
    };
    let inner = |axes: &[usize], extents: &[usize], axis: usize| -> usize {
        let after = axes.iter().skip_while(|a| **a != axis).skip(1);
        after.filter_map(|a| extents.get(*a)).product()
    };
    let lanes = origin.lanes * inner(&sources, from, axis);
    let with = |lanes| Origin {
        lanes,
        ..origin.clone()
    };
    if let [target] = targets.as_slice() {
        return vec![(*target, with(lanes))];
    }
    // Splitting tells lanes apart again if it undoes the merge.
    match targets
        .iter()
        .find(|t| inner(&targets, to, **t) == lanes && lanes > 0)
    {
        Some(target) => vec![(*target, with(1))],
        None => targets.iter().map(|t| (*t, with(0))).collect(),
    }
}

/// The axis that `axis` of a reshape's result was, if it was not merged or split.
pub(super) fn unmoved(from: &[usize], to: &[usize], axis: usize) -> Option<usize> {
    let group = groups(from, to).into_iter().find(|(_, t)| t.contains(&axis))?;
    match group.0.as_slice() {
        [source] if group.1.len() == 1 => Some(*source),
        _ => None,
    }
}
