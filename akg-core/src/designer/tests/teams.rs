//! Long rows that teams of programs hold.

use super::{F, check_on, design, many_threads};
use crate::Result;
use crate::expr::Bindings;
use crate::graph::{Graph, ValueId};
use crate::sketch::{Sketch, cost, validate};
use crate::source::{PlanTensor, TensorRole};
use crate::target::{Residency, Target};
use crate::task::Task;

/// A device with two cores, each of which has four programs that hold 8192 numbers, and a small cache.
fn two_cores() -> Target {
    let mut target = many_threads();
    target.cores = 2;
    target.caches = vec![32 << 10, 64 << 10];
    target.residency = Some(Residency {
        programs: 32,
        threads_of_program: 1024,
        registers: 65536,
        tile_bytes: 233_472,
        reserved_bytes: 1024,
    });
    target
}

fn graph(build: impl FnOnce(&mut Graph) -> Result<ValueId>) -> Graph {
    let mut g = Graph::new("rows");
    let y = build(&mut g).unwrap();
    g.output(y);
    g
}

fn sketch(g: &Graph) -> Sketch {
    let task = Task::new("rows".to_owned(), g.clone());
    design(&task, &two_cores()).unwrap().sketch
}

fn text(g: &Graph) -> String {
    sketch(g).to_string()
}

/// The design has one kernel, whose teams meet `barriers` times for each row, and computes what the graph means.
#[track_caller]
fn holds(barriers: usize, build: impl FnOnce(&mut Graph) -> Result<ValueId>) {
    let g = graph(build);
    let text = text(&g);
    assert_eq!(text.matches("cooperative along").count(), 1, "{text}");
    assert_eq!(text.matches("kernel ").count(), 1, "{text}");
    assert_eq!(text.matches("barrier").count(), barriers, "{text}");
    assert_eq!(text.matches("load x").count(), 1, "a row is read once\n{text}");
    let none = Bindings::new();
    let sketch = sketch(&g);
    let program = sketch.elaborate(&sketch.default_knobs(), &none).unwrap();
    let findings = validate(&program, None);
    assert!(findings.is_empty(), "{}", findings.render(&text));
    let size = |t: &PlanTensor| {
        4.0 * t
            .shape
            .iter()
            .map(|e| e.as_const().unwrap() as f64)
            .product::<f64>()
    };
    let rows: f64 = program
        .tensors
        .iter()
        .filter(|t| t.role != TensorRole::Scratch)
        .map(size)
        .sum();
    let moved = cost(&program, &none, &two_cores()).unwrap().kernels[0].memory_bytes;
    assert!(
        (0.99..1.05).contains(&(moved / rows)),
        "{moved} for {rows}\n{text}"
    );
    check_on(&[two_cores()], g, 1e-5);
}

#[test]
fn norms_of_long_rows() {
    holds(1, |g| {
        let x = g.input("x", F, [8, 4, 16384]);
        let (w, b) = (g.input("w", F, [4]), g.input("b", F, [4]));
        g.group_norm(x, 2, Some(w), Some(b), 1e-5)
    });
    // Rows that start anywhere.
    holds(1, |g| {
        let x = g.input("x", F, [8, 24_573]);
        let absolute = g.abs(x)?;
        let mean = g.mean(absolute, &[1], true)?;
        g.div(x, mean)
    });
}

#[test]
fn statistics_that_are_results_are_stored_once() {
    let mut g = Graph::new("rows");
    let x = g.input("x", F, [2, 16, 3, 8192]);
    let mean = g.mean(x, &[0, 2, 3], true).unwrap();
    let y = g.sub(x, mean).unwrap();
    g.output(y);
    g.output(mean);
    let text = text(&g);
    assert_eq!(text.matches("cooperative along").count(), 1, "{text}");
    assert_eq!(text.matches("kernel ").count(), 1, "{text}");
    assert!(text.contains("pipeline(STAGES)"), "{text}");
    check_on(&[two_cores()], g, 1e-5);
}

#[test]
fn softmax_of_long_rows() {
    holds(1, |g| {
        let x = g.input("x", F, [8, 24_573]);
        g.softmax(x, 1)
    });
    holds(2, |g| {
        let x = g.input("x", F, [9, 24_576]);
        let max = g.max_dim(x, 1, true)?.0;
        let less = g.sub(x, max)?;
        let squares = g.mul(less, less)?;
        let sum = g.sum(squares, &[1], true)?;
        g.div(less, sum)
    });
}

#[test]
fn rows_are_asked_for_ahead() {
    for length in [24_576, 24_573] {
        let text = text(&graph(|g| {
            let x = g.input("x", F, [9, length]);
            g.softmax(x, 1)
        }));
        assert!(text.contains("pipeline(STAGES)"), "{text}");
    }
}

#[test]
fn a_held_exponential_is_multiplied_once() {
    let text = text(&graph(|g| {
        let x = g.input("x", F, [9, 24_576]);
        g.softmax(x, 1)
    }));
    let (_, after) = text.split_once("barrier").unwrap();
    assert_eq!(after.matches("t5").count(), 1, "{text}");
}

#[test]
fn other_rows_are_not_held() {
    let softmax = |rows: i64, length: i64| {
        graph(|g| {
            let x = g.input("x", F, [rows, length]);
            g.softmax(x, 1)
        })
    };
    for (why, g) in [
        ("short rows", softmax(64, 4096)),
        ("few rows", softmax(7, 24_576)),
        ("rows that no team can hold", softmax(64, 131_072)),
        (
            "results that are no rows",
            graph(|g| {
                let x = g.input("x", F, [64, 24_576]);
                g.sum(x, &[1], false)
            }),
        ),
        (
            "two tensors",
            graph(|g| {
                let (x, z) = (g.input("x", F, [64, 24_576]), g.input("z", F, [64, 24_576]));
                let sum = g.add(x, z)?;
                g.softmax(sum, 1)
            }),
        ),
    ] {
        assert!(!text(&g).contains("cooperative"), "{why}\n{}", text(&g));
    }
}
