//! Reshapes of rounded-up tiles.

use super::TileValue;

/// Whether the row-major order of the machine's extents has the elements of `from` at the places of `to`.
///
/// That is so if, in every group of axes that becomes a group of axes, only the outermost is rounded up.
pub(super) fn keeps_order(from: &TileValue, to: &TileValue) -> bool {
    let (mut i, mut j) = (from.extents.len(), to.extents.len());
    while i > 0 || j > 0 {
        let (first, last) = (group(from, &mut i), group(to, &mut j));
        let (mut source, mut target) = (first, last);
        while source.elements != target.elements {
            let smaller = source.elements < target.elements;
            let (value, at, group_so_far) = if smaller {
                (from, &mut i, &mut source)
            } else {
                (to, &mut j, &mut target)
            };
            if *at == 0 || group_so_far.rounded {
                return false;
            }
            let next = group(value, at);
            group_so_far.elements *= next.elements;
            group_so_far.lanes *= next.lanes;
            group_so_far.rounded = next.rounded;
        }
        if source.lanes != target.lanes {
            return false;
        }
    }
    true
}

/// Neighbouring axes.
struct Group {
    elements: usize,
    lanes: usize,
    /// Whether the outermost of them is rounded up.
    rounded: bool,
}

/// The axis before `at`, or an empty group at the front.
fn group(value: &TileValue, at: &mut usize) -> Group {
    let Some(axis) = at.checked_sub(1) else {
        return Group {
            elements: 1,
            lanes: 1,
            rounded: false,
        };
    };
    *at = axis;
    Group {
        elements: value.ty.extents[axis],
        lanes: value.extents[axis],
        rounded: value.padded(axis),
    }
}
