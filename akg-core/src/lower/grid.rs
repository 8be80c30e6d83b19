//! Program numbers and program indices.
//!
//! A launch numbers its programs from 0; a kernel's body speaks of one index for each grid axis. The arithmetic between
//! them is here, once, for the interpreter and every lowering.

use crate::expr::Expr;
use crate::sketch::ir::{GridAxis, Kernel, Order};

/// The number of programs of `kernel`.
pub fn program_count(kernel: &Kernel) -> Expr {
    product(&kernel.grid)
}

/// The value of each program index of `kernel`, outermost first, in the program numbered `program`, which must be less
/// than [`program_count`].
pub fn program_indices(kernel: &Kernel, program: &Expr) -> Vec<Expr> {
    match (&kernel.order, kernel.grid.as_slice()) {
        (Order::Grouped { axis, size }, [leading @ .., outer, inner]) => {
            let plane = &outer.extent * &inner.extent;
            let (mut indices, in_plane) = split_leading(leading, program, &plane);
            let grouped_is_outer = *axis == leading.len();
            let (grouped, other) = if grouped_is_outer {
                (outer, inner)
            } else {
                (inner, outer)
            };
            let full_block = Expr::from(*size) * &other.extent;
            let first = in_plane.floor_div(&full_block) * *size;
            let in_block = in_plane.modulo(&full_block);
            let width = Expr::from(*size).minimum(&(&grouped.extent - &first));
            let grouped_index = first + in_block.modulo(&width);
            let other_index = in_block.floor_div(&width);
            if grouped_is_outer {
                indices.extend([grouped_index, other_index]);
            } else {
                indices.extend([other_index, grouped_index]);
            }
            indices
        }
        (_, grid) => split_leading(grid, program, &Expr::constant(1)).0,
    }
}

/// Row-major indices of `axes` when each of their points holds `inner` programs, and the number of the program within
/// its point.
fn split_leading(axes: &[GridAxis], program: &Expr, inner: &Expr) -> (Vec<Expr>, Expr) {
    let mut rest = program.clone();
    let mut indices = Vec::with_capacity(axes.len());
    for (i, _) in axes.iter().enumerate() {
        let stride = product(axes.get(i + 1..).unwrap_or_default()) * inner;
        indices.push(rest.floor_div(&stride));
        rest = rest.modulo(&stride);
    }
    (indices, rest)
}

/// The teams of a cooperative kernel: the programs that meet at its barriers.
#[derive(Debug, Clone, PartialEq)]
pub struct Teams {
    /// How many there are.
    pub count: Expr,
    /// The number of a program's team, from 0, in terms of the program's indices.
    pub number: Expr,
    /// The programs of each.
    pub programs: Expr,
}

/// The teams of `kernel`; `None` if its programs do not meet.
pub fn teams(kernel: &Kernel) -> Option<Teams> {
    let team = kernel.cooperative.as_ref()?;
    let mut teams = Teams {
        count: 1.into(),
        number: 0.into(),
        programs: 1.into(),
    };
    for (at, axis) in kernel.grid.iter().enumerate() {
        if team.along.contains(&at) {
            teams.programs = teams.programs * &axis.extent;
        } else {
            teams.number = teams.number * &axis.extent + Expr::symbol(axis.symbol.clone());
            teams.count = teams.count * &axis.extent;
        }
    }
    Some(teams)
}

fn product(axes: &[GridAxis]) -> Expr {
    axes.iter()
        .fold(Expr::constant(1), |n, axis| n * axis.extent.clone())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use std::collections::BTreeMap;

    use super::*;
    use crate::expr::Bindings;

    fn kernel(extents: &[Expr], order: Order) -> Kernel {
        let axis = |(i, extent): (usize, &Expr)| GridAxis {
            symbol: format!("g{i}").into(),
            extent: extent.clone(),
        };
        Kernel {
            name: "k".into(),
            grid: extents.iter().enumerate().map(axis).collect(),
            order,
            cooperative: None,
            views: BTreeMap::new(),
            values: Vec::new(),
            body: Vec::new(),
            doc: String::new(),
        }
    }

    fn decode(kernel: &Kernel, dims: &Bindings) -> Vec<Vec<i64>> {
        let indices = program_indices(kernel, &Expr::symbol("pid"));
        let programs = program_count(kernel).eval(dims).unwrap();
        let at = |pid| {
            let mut values = dims.clone();
            values.insert("pid".into(), pid);
            indices.iter().map(|e| e.eval(&values).unwrap()).collect()
        };
        (0..programs).map(at).collect()
    }

    #[test]
    fn row_major_counts_like_an_odometer() {
        let kernel = kernel(&[2.into(), "N".into()], Order::RowMajor);
        let dims = Bindings::from([("N".into(), 3)]);
        let expected = [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]];
        assert_eq!(decode(&kernel, &dims), expected);
    }

    #[test]
    fn a_ragged_last_group_is_narrower() {
        let kernel = kernel(&[3.into(), 2.into()], Order::Grouped { axis: 0, size: 2 });
        let expected = [[0, 0], [1, 0], [0, 1], [1, 1], [2, 0], [2, 1]];
        assert_eq!(decode(&kernel, &Bindings::new()), expected);
    }

    proptest! {
        #[test]
        fn every_program_has_its_own_indices(
            extents in prop::collection::vec(1i64..6, 2..4),
            group in prop::option::of((0usize..2, 1i64..5)),
            symbolic: bool,
        ) {
            let order = match group {
                Some((back, size)) => Order::Grouped { axis: extents.len() - 1 - back, size },
                None => Order::RowMajor,
            };
            let names: Vec<Expr> = (0..extents.len()).map(|i| Expr::symbol(format!("E{i}"))).collect();
            let dims: Bindings = names
                .iter()
                .zip(&extents)
                .map(|(n, v)| (n.as_symbol().unwrap().clone(), *v))
                .collect();
            let shape: Vec<Expr> = if symbolic { names } else { extents.iter().map(|v| Expr::from(*v)).collect() };
            let all = decode(&kernel(&shape, order.clone()), &dims);
            let distinct: BTreeSet<_> = all.iter().cloned().collect();
            prop_assert_eq!(distinct.len() as i64, extents.iter().product::<i64>());
            for indices in &all {
                prop_assert!(indices.iter().zip(&extents).all(|(i, n)| (0..*n).contains(i)));
            }
            if let Order::Grouped { axis, size } = order {
                // Neighbours in number stay in one block until its other axis is exhausted.
                let lead = extents.len() - 2;
                let other = if axis == lead { lead + 1 } else { lead };
                for pair in all.windows(2).filter(|p| p[0][..lead] == p[1][..lead]) {
                    let (a, b) = (pair[0][axis] / size, pair[1][axis] / size);
                    prop_assert!(a == b || (b == a + 1 && pair[0][other] == extents[other] - 1));
                }
            }
        }
    }
}
