//! The last tiles of a product are shared out where they would leave most of a device idle.

use super::classes::in_class;
use super::{F, check_task, design, many_threads};
use crate::graph::Graph;
use crate::target::Target;
use crate::task::{Accuracy, Task};

/// A device of so many cores on which time goes by with products alone.
fn cores(cores: u32) -> Target {
    let mut target = many_threads();
    (target.cores, target.bandwidth, target.launch_seconds) = (cores, 1e30, 0.0);
    target
}

/// A product of these extents with a bias, and its sketch.
fn product([rows, depth, columns]: [i64; 3], accuracy: Accuracy, target: &Target) -> (Task, String) {
    let mut g = Graph::new("product");
    let (a, b) = (g.input("a", F, [rows, depth]), g.input("b", F, [depth, columns]));
    let bias = g.input("bias", F, [columns]);
    let y = g.matmul(a, b).unwrap();
    let y = g.add(y, bias).unwrap();
    let y = g.relu(y).unwrap();
    g.output(y);
    let task = in_class(g, accuracy);
    let text = design(&task, target).unwrap().sketch.to_string();
    (task, text)
}

#[test]
fn a_wave_and_some_tiles() {
    // Six of nine tiles one by one, and the steps of the other three in seven shares that end anywhere. Their sums have levels.
    let (task, text) = product([257, 1030, 257], Accuracy::Fp32, &cores(7));
    assert!(text.contains("kernel k0_whole over (p0 in 2, "), "{text}");
    assert!(text.contains("kernel k0_shared over (q0 in 7)"), "{text}");
    check_task(&[cores(7)], &task, 1e-5);
}

#[test]
fn shares_of_single_factors() {
    let (task, text) = product([257, 300, 400], Accuracy::Tf32, &cores(5));
    assert!(text.contains("kernel k0_shared over (q0 in 5)"), "{text}");
    check_task(&[cores(5)], &task, 1e-2);
}

#[test]
fn whole_waves_and_short_sums_are_not_shared() {
    for (extents, cores_of_device) in [([257, 1000, 257], 9), ([257, 1000, 257], 3), ([257, 64, 257], 7)] {
        let (_, text) = product(extents, Accuracy::Fp32, &cores(cores_of_device));
        assert!(!text.contains("_shared"), "{text}");
    }
}
