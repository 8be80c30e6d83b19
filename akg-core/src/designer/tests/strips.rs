//! Products whose result takes longer to write than to multiply are made in strips of tiles.

use super::classes::in_class;
use super::{F, check_task, design, many_threads};
use crate::graph::{Graph, ValueId};
use crate::target::Target;
use crate::task::{Accuracy, Task};

/// A device that a few tiles fill.
fn one_core() -> Target {
    let mut target = many_threads();
    target.cores = 1;
    target
}

/// The sketch of a product of inputs with these shapes, and what `rest` does to it.
fn sketch(
    [a, b]: [&[i64]; 2],
    target: &Target,
    rest: impl FnOnce(&mut Graph, ValueId) -> ValueId,
) -> (Task, String) {
    let mut g = Graph::new("product");
    let (a, b) = (g.input("a", F, a.to_vec()), g.input("b", F, b.to_vec()));
    let y = g.matmul(a, b).unwrap();
    let y = rest(&mut g, y);
    g.output(y);
    let task = in_class(g, Accuracy::Fp32);
    let text = design(&task, target).unwrap().sketch.to_string();
    (task, text)
}

fn is_in_strips(text: &str) -> bool {
    text.contains("in 0..PART pipeline(STAGES)")
}

#[test]
fn strips_overhang_on_both_sides() {
    // Of the last strip, one tile lies beyond the rows.
    let shapes: [[&[i64]; 2]; 2] = [[&[906, 20], &[20, 430]], [&[2, 500, 17], &[17, 400]]];
    for shapes in shapes {
        let (task, text) = sketch(shapes, &one_core(), |_, y| y);
        assert!(is_in_strips(&text), "{text}");
        check_task(&[one_core()], &task, 1e-5);
    }
}

#[test]
fn matrices_of_a_batch_have_strips_of_their_own() {
    let (task, text) = sketch([&[2, 450, 17], &[2, 17, 450]], &one_core(), |_, y| y);
    assert!(is_in_strips(&text), "{text}");
    check_task(&[one_core()], &task, 1e-5);
}

#[test]
fn what_depends_on_columns_alone_is_loaded_before_the_rows() {
    let (task, text) = sketch([&[906, 20], &[20, 430]], &one_core(), |g, y| {
        let (columns, rows) = (g.input("columns", F, [430]), g.input("rows", F, [906, 1]));
        let y = g.add(y, columns).unwrap();
        let y = g.mul(y, rows).unwrap();
        g.relu(y).unwrap()
    });
    let (before, inside) = text.split_once("pipeline(STAGES)").unwrap();
    let is_loaded = |part: &str, name: &str| part.contains(&format!("load {name}["));
    for name in ["B0_SCALE", "B0_HIGH", "B0_LOW", "columns"] {
        assert!(
            is_loaded(before, name) && !is_loaded(inside, name),
            "{name}\n{text}"
        );
    }
    for name in ["A0_SCALE", "A0_HIGH", "A0_LOW", "rows"] {
        assert!(is_loaded(inside, name), "{name}\n{text}");
    }
    check_task(&[one_core()], &task, 1e-5);
}

#[test]
fn results_that_are_few_or_not_alone_are_made_tile_by_tile() {
    let same = |_: &mut Graph, y| y;
    let of = |shapes, target: &Target| sketch(shapes, target, same).1;
    assert!(is_in_strips(&of([&[1024, 64], &[64, 1024]], &one_core())));
    let others = [
        ("few tiles", of([&[1024, 64], &[64, 1024]], &many_threads())),
        ("steps", of([&[1024, 65], &[65, 1024]], &one_core())),
        ("few rows", of([&[300, 64], &[64, 8192]], &one_core())),
        ("few columns", of([&[16384, 64], &[64, 40]], &one_core())),
    ];
    for (why, text) in others {
        assert!(!is_in_strips(&text), "{why}\n{text}");
    }
    let (_, text) = sketch([&[1024, 64], &[64, 1024]], &one_core(), |g, y| {
        let x = g.input("x", F, [1024, 1024]);
        g.add(y, x).unwrap()
    });
    assert!(!is_in_strips(&text), "reads as much\n{text}");
}
