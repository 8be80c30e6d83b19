//! Long walks that are split over programs.

use super::{F, check_on, design, many_threads};
use crate::Result;
use crate::graph::{Graph, ValueId};
use crate::target::Target;
use crate::task::Task;

/// A device with 32 cores.
fn many_cores() -> Target {
    let mut target = many_threads();
    target.cores = 32;
    target
}

/// What is computed of the inside of images, whose dimensions no kernel sees as one, is split over programs `by` this.
#[track_caller]
fn splits(by: &str, shape: [i64; 5], build: impl FnOnce(&mut Graph, ValueId) -> Result<ValueId>) {
    let mut g = Graph::new("inside");
    let mut x = g.input("x", F, shape);
    for (dim, extent) in shape.iter().enumerate().skip(2) {
        x = g.slice(x, dim as i64, 1, *extent, 1).unwrap();
    }
    let y = build(&mut g, x).unwrap();
    g.output(y);
    let task = Task::new("inside".to_owned(), g.clone());
    let text = design(&task, &many_cores()).unwrap().sketch.to_string();
    assert!(text.contains(by), "{text}");
    check_on(&[many_cores()], g, 1e-5);
}

#[test]
fn sums_over_several_dimensions() {
    let sum = |g: &mut Graph, x| g.sum(x, &[0, 2, 3, 4], false);
    splits("over (r1 in 2, part in 8)", [2, 4, 25, 42, 34], sum);
    splits("over (r1 in 2, r3 in 3)", [2, 4, 4, 83, 130], sum);
}

#[test]
fn shares_of_sums_over_several_dimensions() {
    splits("over (r1 in 2, part in 8)", [2, 4, 25, 42, 34], |g, x| {
        let sum = g.sum(x, &[0, 2, 3, 4], true)?;
        g.div(x, sum)
    });
    // Rows that fill a tile alone.
    splits("over (p0 in 2, r2 in 3, r4 in 5)", [1, 2, 4, 6, 4099], |g, x| {
        let sum = g.sum(x, &[2, 3, 4], true)?;
        g.div(x, sum)
    });
}

/// Rows of two are combined after the loop, whatever combines them.
#[test]
fn lanes_of_short_rows_wait_for_the_end() {
    for sum in [false, true] {
        let mut g = Graph::new("pairs");
        let x = g.input("x", F, [40, 6, 63, 2]);
        let y = g.permute(x, &[0, 2, 1, 3]).unwrap();
        let y = if sum {
            g.sum(y, &[2, 3], false)
        } else {
            g.amax(y, &[2, 3], false)
        };
        let y = y.unwrap();
        let y2 = g.mul(y, y).unwrap();
        g.output(y2);
        let task = Task::new("pairs".to_owned(), g.clone());
        let text = design(&task, &many_cores()).unwrap().sketch.to_string();
        let (_, after) = text.split_once("  }\n").unwrap();
        assert!(after.contains("= reduce_"), "{text}");
        check_on(&[many_cores()], g, 1e-5);
    }
}
