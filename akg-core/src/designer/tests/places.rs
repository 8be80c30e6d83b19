//! Elements at places that the design knows, such as those of resampled images.

use super::{F, check, design};
use crate::Result;
use crate::dtype::DType;
use crate::graph::{Arg, Graph, ValueId};
use crate::target::Target;
use crate::task::Task;
use crate::tensor::Tensor;

/// The elements of `table` at these places along dimensions from `dim` on, a tensor of places for each.
fn named(g: &mut Graph, table: ValueId, dim: usize, places: &[Tensor]) -> Result<ValueId> {
    let mut indices = vec![None; dim];
    for (number, places) in places.iter().enumerate() {
        indices.push(Some(g.constant(&format!("places{number}"), places.clone())));
    }
    let args: [(&str, Arg); 2] = [("self", table.into()), ("indices", indices.into())];
    g.call("index.Tensor", args).map(|y| y[0])
}

fn places(places: &[i64]) -> Tensor {
    Tensor::from_slice([places.len()], places).unwrap()
}

/// The places that an interpolation by a factor reads: `ahead` elements after the one below.
fn interpolated(extent: i64, factor: f64, ahead: i64) -> Vec<i64> {
    let count = (extent as f64 * factor) as i64;
    let below = |at: i64| ((at as f64 + 0.5) / factor - 0.5).floor() as i64 + ahead;
    (0..count).map(|at| below(at).clamp(0, extent - 1)).collect()
}

/// Counts the kernels of a design.
fn kernels(build: impl FnOnce(&mut Graph) -> Result<ValueId>) -> usize {
    let mut g = Graph::new("places");
    let y = build(&mut g).unwrap();
    g.output(y);
    let target = Target::new("cpu", "x86_64");
    let text = design(&Task::new("places", g), &target)
        .unwrap()
        .sketch
        .to_string();
    text.lines().filter(|line| line.starts_with("kernel ")).count()
}

#[test]
fn every_pattern_of_places_is_read_as_it_is() {
    let patterns: [&[i64]; 12] = [
        &[0, 0, 1, 1, 2, 2, 3, 3],
        &[0, 0, 0, 1, 1, 1],
        &[0, 2, 4, 6],
        &[6, 5, 4, 3, 2, 1, 0],
        &[0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3],
        &[2, 1, 0, 1, 2, 3, 4, 5, 6],
        &[6, 6, 6],
        &[0, 0, 1, 2, 3, 4, 5, 6, 6],
        &[-1, -2, -3],
        &[4],
        // Not of any pattern.
        &[3, 0, 6, 1, 1, 5],
        &[0, 1, 3, 6, 2],
    ];
    for pattern in patterns {
        for dim in [0, 1] {
            check("places", |g| {
                let shape = if dim == 0 { [7, 5] } else { [5, 7] };
                let table = g.input("table", F, shape);
                let table = g.relu(table)?;
                named(g, table, dim, &[places(pattern)])
            });
        }
    }
    for (extent, factor) in [
        (5, 2.0),
        (4, 3.0),
        (3, 4.0),
        (12, 0.5),
        (9, 1.0 / 3.0),
        (1, 4.0),
        (2, 8.0),
        (5, 1.4),
    ] {
        for ahead in -1..=2 {
            check("interpolated", |g| {
                let table = g.input("table", F, [3, extent]);
                let at = places(&interpolated(extent, factor, ahead));
                let y = named(g, table, 1, &[at])?;
                g.mul(y, 2.0)
            });
        }
    }
}

#[test]
fn indices_along_dimensions_of_their_own_name_elements_together() {
    for (rows, columns) in [(2.0, 2.0), (4.0, 1.0), (1.0, 3.0)] {
        check("image", |g| {
            let table = g.input("table", F, [2, 3, 5, 4]);
            let (rows, columns) = (interpolated(5, rows, 0), interpolated(4, columns, 1));
            let rows = Tensor::from_slice([rows.len(), 1], &rows).unwrap();
            named(g, table, 2, &[rows, places(&columns)])
        });
    }
    // Along one dimension together, and in another order.
    check("diagonal", |g| {
        let table = g.input("table", F, [4, 5, 6]);
        named(g, table, 1, &[places(&[0, 1, 2]), places(&[1, 2, 3])])
    });
    check("turned", |g| {
        let table = g.input("table", F, [4, 5]);
        let columns = Tensor::from_slice([3, 1], &[0i64, 1, 2]).unwrap();
        named(g, table, 0, &[places(&[0, 1]), columns])
    });
}

#[test]
fn an_interpolation_is_part_of_the_kernel_that_reads_it() {
    let interpolate = |g: &mut Graph| -> Result<ValueId> {
        let table = g.input("table", DType::F32, [2, 3, 8, 8]);
        let mut sum = None;
        for (down, right) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let rows = interpolated(8, 4.0, down);
            let rows = Tensor::from_slice([rows.len(), 1], &rows).unwrap();
            let columns = places(&interpolated(8, 4.0, right));
            let tap = named(g, table, 2, &[rows, columns])?;
            let tap = g.mul(tap, 0.25)?;
            sum = Some(match sum {
                None => tap,
                Some(sum) => g.add(sum, tap)?,
            });
        }
        g.relu(sum.unwrap())
    };
    assert_eq!(kernels(interpolate), 1);
    check("interpolation", interpolate);
}
