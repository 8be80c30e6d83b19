//! Operands of 16 bits are multiplied as they are.

use super::classes::in_class;
use super::{check_task, design, many_threads};
use crate::DType;
use crate::graph::{Graph, ValueId};
use crate::target::Target;
use crate::task::{Accuracy, Task};

const TYPES: [DType; 2] = [DType::F16, DType::BF16];

/// A linear layer of an input and a weight of these types, which meet in `meet`, with a result in f32.
fn linear([rows, columns, depth]: [i64; 3], types: [DType; 2], meet: DType) -> Graph {
    let mut g = Graph::new("linear");
    let x = g.input("x", types[0], [rows, depth]);
    let w = g.weight("w", types[1], [columns, depth]);
    let mut as_meet = |v: ValueId, dtype| match dtype {
        _ if dtype == meet => v,
        _ => g.to_dtype(v, meet).unwrap(),
    };
    let (x, w) = (as_meet(x, types[0]), as_meet(w, types[1]));
    let y = g.linear(x, w, None).unwrap();
    let y = g.relu(y).unwrap();
    let y = if meet == DType::F32 {
        y
    } else {
        g.to_dtype(y, DType::F32).unwrap()
    };
    g.output(y);
    g
}

/// The task of such a layer where input and weight are of one type.
fn task(extents: [i64; 3], dtype: DType, accuracy: Accuracy) -> Task {
    in_class(linear(extents, [dtype; 2], dtype), accuracy)
}

fn sketch(task: &Task) -> String {
    design(task, &many_threads()).unwrap().sketch.to_string()
}

#[test]
fn one_kernel_multiplies_what_was_loaded() {
    for (dtype, accuracy) in TYPES.iter().flat_map(|d| Accuracy::ALL.map(|a| (*d, a))) {
        let text = sketch(&task([1024, 2048, 4096], dtype, accuracy));
        assert_eq!(text.matches("kernel ").count(), 1, "{text}");
        assert!(!text.contains("buffer "), "{text}");
        assert!(
            text.contains(" = load x[") && text.contains(" = trans(load w["),
            "{text}"
        );
        let dot = match accuracy {
            Accuracy::Fp32 => format!("sum0 = sum0 + (dot(x1, x2) {dtype})"),
            Accuracy::Tf32 | Accuracy::Half => format!("acc0 = dot(x1, x2, acc0) {dtype}"),
        };
        assert!(text.contains(&dot), "{text}");
    }
}

#[test]
fn rows_that_copy_engines_refuse_are_copied() {
    for dtype in TYPES {
        let text = sketch(&task([1024, 2048, 1001], dtype, Accuracy::Tf32));
        for operand in ["A0_HIGH", "B0_HIGH"] {
            assert!(text.contains(&format!("buffer {operand}: {dtype}[")), "{text}");
        }
        assert!(
            text.contains(", 1008] align 16") && !text.contains("SCALE"),
            "{text}"
        );
    }
}

#[test]
fn operands_of_other_types_become_factors() {
    for types in [
        [DType::F16, DType::F32],
        [DType::F32, DType::BF16],
        [DType::F16, DType::BF16],
    ] {
        for accuracy in Accuracy::ALL {
            let graph = linear([1024, 2048, 4096], types, DType::F32);
            let text = sketch(&in_class(graph, accuracy));
            assert!(text.contains("_HIGH: ") && !text.contains("dot(x"), "{text}");
        }
    }
}

#[test]
fn products_are_exact_in_every_class() {
    let mut one_core = many_threads();
    one_core.cores = 1;
    let targets = [Target::new("cpu", "x86_64"), many_threads(), one_core];
    let extents = [
        [20, 24, 40],
        [20, 24, 45],
        [33, 8, 1088],
        [8, 40, 1101],
        [9, 1040, 72],
        [9, 1040, 77],
    ];
    for (dtype, accuracy) in TYPES.iter().flat_map(|d| Accuracy::ALL.map(|a| (*d, a))) {
        for extents in extents {
            check_task(&targets, &task(extents, dtype, accuracy), 1e-5);
        }
    }
}
