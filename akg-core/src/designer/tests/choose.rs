//! The cost model decides which fusions stay.

use super::{F, check_on, design, many_threads};
use crate::graph::{Graph, ValueId};
use crate::target::Target;
use crate::task::Task;

/// A device with the proportions of a large GPU, which launches a kernel in so many seconds.
fn gpu(launch_seconds: f64) -> Target {
    let mut target = many_threads();
    target.cores = 128;
    target.bandwidth = 4e12;
    target.peak.values_mut().for_each(|rate| *rate *= 6e13);
    target.launch_seconds = launch_seconds;
    target
}

/// Layers that normalise groups of channels and average what comes of it.
fn averaged_norms(shape: [i64; 3], layers: usize) -> Graph {
    let mut g = Graph::new("layers");
    for layer in 0..layers {
        let x = g.input(&format!("x{layer}"), F, shape);
        let (w, b) = (
            g.weight(&format!("w{layer}"), F, [shape[1]]),
            g.weight(&format!("b{layer}"), F, [shape[1]]),
        );
        let norm = |g: &mut Graph| -> crate::Result<ValueId> {
            let y = g.group_norm(x, 2, Some(w), Some(b), 1e-5)?;
            g.mean(y, &[1, 2], false)
        };
        let y = norm(&mut g).unwrap();
        g.output(y);
    }
    g
}

/// The elements of the largest tensor that kernels hand to each other.
fn largest_buffer(g: &Graph, target: &Target) -> usize {
    let design = design(&Task::new("layers".to_owned(), g.clone()), target).unwrap();
    let program = design.sketch.elaborate(&design.knobs, &[].into()).unwrap();
    let inner = program
        .tensors
        .iter()
        .filter(|t| t.role == crate::source::TensorRole::Scratch);
    let elements = inner.map(|t| t.shape.iter().map(|e| e.as_const().unwrap() as usize).product());
    elements.max().unwrap_or(0)
}

/// A norm whose statistics have a kernel of their own is part of the average that follows, and is never stored.
#[test]
fn statistics_are_apart_where_that_saves_memory_traffic() {
    let g = averaged_norms([64, 16, 65_536], 1);
    assert!(largest_buffer(&g, &gpu(3e-6)) < 64 * 65_536);
    // Another launch costs more than that.
    assert_eq!(largest_buffer(&g, &gpu(1.0)), 64 * 16 * 65_536);
}

#[test]
fn what_is_alike_is_cut_alike() {
    let g = averaged_norms([64, 16, 65_536], 3);
    assert!(largest_buffer(&g, &gpu(3e-6)) < 64 * 65_536);
}

#[test]
fn results_are_the_same() {
    // Small, on a device that launches at once: kernels are cut wherever that saves anything.
    check_on(&[gpu(0.0), gpu(1.0)], averaged_norms([3, 4, 600], 2), 1e-5);
}
