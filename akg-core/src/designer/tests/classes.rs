//! Products keep to their accuracy class, whatever the size of their rows.

use proptest::prelude::{Just, ProptestConfig, prop_oneof, proptest};
use proptest::strategy::Strategy;

use super::{F, design, inputs, many_threads, results, runs, values};
use crate::Tensor;
use crate::designer::design_with_care;
use crate::expr::Bindings;
use crate::graph::{Conv, Graph};
use crate::reference::{Options, Rounding, evaluate};
use crate::target::Target;
use crate::task::{Accuracy, Task};

/// `a b`, of operands that lie in memory as they are or transposed.
fn product([rows, columns, depth]: [i64; 3], transposed: [bool; 2]) -> Graph {
    let mut g = Graph::new("product");
    let order = |[rows, columns]: [i64; 2], transposed: bool| {
        if transposed {
            [columns, rows]
        } else {
            [rows, columns]
        }
    };
    let a = g.input("a", F, order([rows, depth], transposed[0]));
    let b = g.weight("b", F, order([depth, columns], transposed[1]));
    let a = if transposed[0] {
        g.transpose(a, 0, 1).unwrap()
    } else {
        a
    };
    let b = if transposed[1] {
        g.transpose(b, 0, 1).unwrap()
    } else {
        b
    };
    let y = g.matmul(a, b).unwrap();
    g.output(y);
    g
}

pub(super) fn in_class(graph: Graph, accuracy: Accuracy) -> Task {
    let mut task = Task::new("product", graph);
    task.contract.accuracy = accuracy;
    task
}

/// A power of two for each row of an operand.
fn scales(count: i64, spread: i32, seed: i32) -> Vec<f64> {
    (0..count as i32)
        .map(|i| 2f64.powi((i * 37 + seed * 11) % (2 * spread + 1) - spread))
        .collect()
}

/// A matrix of [`values`] whose rows, or columns, are multiplied by `scales`.
fn matrix(scales: &[f64], depth: i64, transposed: bool, seed: u32) -> (Tensor, Tensor) {
    let (rows, depth) = (scales.len(), depth as usize);
    let plain = values(rows * depth, seed);
    let scaled: Vec<f32> = plain
        .iter()
        .enumerate()
        .map(|(i, v)| {
            let row = if transposed { i % rows } else { i / depth };
            (f64::from(*v) * scales[row]) as f32
        })
        .collect();
    let shape = if transposed { [depth, rows] } else { [rows, depth] };
    (
        Tensor::from_slice(shape, &plain).unwrap(),
        Tensor::from_slice(shape, &scaled).unwrap(),
    )
}

/// The root of the sum of all squared differences.
fn distance(got: &[f64], exact: &[f64]) -> f64 {
    let squares = got.iter().zip(exact).map(|(g, e)| (g - e).powi(2));
    squares.sum::<f64>().sqrt()
}

/// Extents of which one may have many tiles.
fn rows_and_columns() -> impl Strategy<Value = (i64, i64)> {
    prop_oneof![
        (8i64..60, 8i64..60),
        (1i64..20, 770i64..800),
        (770i64..800, 1i64..20),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn errors_are_those_of_the_class(
        (rows, columns) in rows_and_columns(),
        depth in prop_oneof![17i64..200, Just(128), Just(1088)],
        transposed: [bool; 2],
        spread in prop_oneof![Just(0), Just(40)],
        (accuracy, most) in prop_oneof![Just((Accuracy::Tf32, 5e-4)), Just((Accuracy::Half, 4e-3))],
    ) {
        let (left, right) = (scales(rows, spread, 1), scales(columns, spread, 2));
        let (a, scaled_a) = matrix(&left, depth, transposed[0], 1);
        // The right operand's rows are its columns.
        let (b, scaled_b) = matrix(&right, depth, !transposed[1], 2);
        let graph = product([rows, columns, depth], transposed);
        let exact = evaluate(&graph, &[a, b], &Options::default()).unwrap();
        let exact = exact[0].to_f64();
        let size: f64 = exact.iter().map(|e| e * e).sum();
        for (how, got) in results(&in_class(graph, accuracy), &many_threads(), &[scaled_a, scaled_b]) {
            let got = got[0].to_f64().unwrap();
            let scales = left.iter().flat_map(|l| right.iter().map(move |r| l * r));
            let errors = got.iter().zip(scales).zip(&exact).map(|((g, s), e)| (g / s - e).powi(2));
            let error = (errors.sum::<f64>() / size).sqrt();
            assert!(error <= most, "an error of {error} in {accuracy:?} {how}");
        }
    }
}

#[test]
fn a_product_of_two_results_is_as_exact_as_inputs_in_bf16() {
    let mut g = Graph::new("product");
    let operands = [("a", [40, 200]), ("b", [200, 40])].map(|(name, shape)| {
        let x = g.input(name, F, shape);
        g.sigmoid(x).unwrap()
    });
    let y = g.matmul(operands[0], operands[1]).unwrap();
    g.output(y);
    let inputs = [([40, 200], 1), ([200, 40], 2)]
        .map(|(shape, seed)| Tensor::from_slice(shape, &values(8000, seed)).unwrap());
    let exact = |round_inputs| {
        let options = Options {
            round_inputs,
            ..Options::default()
        };
        evaluate(&g, &inputs, &options).unwrap()[0].to_f64()
    };
    let (exact, rounded) = (exact(None), exact(Some(Rounding::BF16)));
    let most = 1.75 * distance(&rounded, &exact);
    for (how, got) in results(&in_class(g, Accuracy::Half), &many_threads(), &inputs) {
        let error = distance(&got[0].to_f64().unwrap(), &exact);
        assert!(error <= most, "an error of {error}, not {most}, {how}");
    }
}

/// The sketch of a product in a class.
fn sketch(extents: [i64; 3], accuracy: Accuracy) -> String {
    let task = in_class(product(extents, [false, true]), accuracy);
    design(&task, &many_threads()).unwrap().sketch.to_string()
}

#[test]
fn an_operand_that_one_tile_needs_is_not_copied() {
    for accuracy in Accuracy::ALL {
        let few_rows = sketch([100, 4096, 1024], accuracy);
        let copies = |operand| few_rows.contains(&format!("buffer {operand}0_HIGH"));
        assert!(copies('A') && !copies('B'), "{few_rows}");
        let few_columns = sketch([4096, 100, 1024], accuracy);
        let copies = |operand| few_columns.contains(&format!("buffer {operand}0_HIGH"));
        assert!(!copies('A') && copies('B'), "{few_columns}");
        let few = sketch([100, 100, 4096], accuracy);
        assert!(!few.contains("0_HIGH"), "{few}");
        let many = sketch([4096, 4096, 1024], accuracy);
        assert!(
            many.contains("buffer A0_HIGH") && many.contains("buffer B0_HIGH"),
            "{many}"
        );
    }
}

#[test]
fn very_long_sums_are_added_up_in_levels_in_every_class() {
    for accuracy in [Accuracy::Fp32, Accuracy::Tf32, Accuracy::Half] {
        let text = sketch([256, 4096, 16_384], accuracy);
        assert!(text.contains("step 1024 {"), "{accuracy}\n{text}");
    }
    for accuracy in [Accuracy::Tf32, Accuracy::Half] {
        let text = sketch([1024, 4096, 8192], accuracy);
        assert!(!text.contains("step 1024 {"), "{accuracy}\n{text}");
    }
}

#[test]
fn care_asks_for_factors_that_lose_less() {
    let (left, right) = ([1.0; 40], [1.0; 48]);
    let (a, b) = (matrix(&left, 200, false, 1).0, matrix(&right, 200, true, 2).0);
    let graph = product([40, 48, 200], [false, false]);
    let exact = evaluate(&graph, &[a.clone(), b.clone()], &Options::default()).unwrap();
    let exact = exact[0].to_f64();
    let size: f64 = exact.iter().map(|e| e * e).sum();
    for (accuracy, errors) in [
        (Accuracy::Half, &[1e-2, 1e-3, 1e-6, 1e-6][..]),
        (Accuracy::Tf32, &[1e-3, 1e-3, 1e-6, 1e-6][..]),
        (Accuracy::Fp32, &[1e-6, 1e-6][..]),
    ] {
        let task = in_class(graph.clone(), accuracy);
        for (care, most) in errors.iter().enumerate() {
            let is_last = care + 1 == errors.len();
            let design = design_with_care(&task, &many_threads(), care).unwrap();
            let text = design.sketch.to_string();
            assert_eq!(text.contains(" ieee"), is_last, "{text}");
            let inputs = [a.clone(), b.clone()];
            for (how, got) in runs(&task.name, &design.sketch, &inputs, &Bindings::new(), 2) {
                let got = got[0].to_f64().unwrap();
                let error = distance(&got, &exact) / size.sqrt();
                assert!(error <= *most, "an error of {error} in {accuracy:?} {how}");
                assert!(care > 1 || accuracy == Accuracy::Fp32 || error > 1e-5, "{how}");
            }
        }
    }
}

#[test]
fn care_asks_for_short_runs_where_products_are_in_f32_already() {
    let cpu = Target::new("cpu", "x86_64");
    let mut convolution = Graph::new("convolution");
    let x = convolution.input("x", F, [1, 64, 10, 20]);
    let w = convolution.weight("w", F, [32, 64, 3, 3]);
    let y = convolution.conv(x, w, None, &Conv::default()).unwrap();
    convolution.output(y);
    for (graph, target, care) in [
        (product([40, 48, 512], [false, false]), &cpu, 1),
        (convolution, &cpu, 1),
        (product([40, 48, 512], [false, false]), &many_threads(), 2),
    ] {
        let inputs = inputs(&graph, &Bindings::new());
        let exact = evaluate(&graph, &inputs, &Options::default()).unwrap()[0].to_f64();
        let task = in_class(graph, Accuracy::Fp32);
        let [long, short] = [care - 1, care].map(|care| {
            let sketch = design_with_care(&task, target, care).unwrap().sketch;
            let got = runs("product", &sketch, &inputs, &Bindings::new(), 1);
            let got = got[0].1[0].to_f64().unwrap();
            (sketch.to_string(), distance(&got, &exact))
        });
        assert!(
            short.0.contains("promote(8)") && !short.0.contains("promote(32)"),
            "{}",
            short.0
        );
        assert!(
            short.1 < 0.9 * long.1,
            "errors of {} and {}\n{}",
            short.1,
            long.1,
            long.0
        );
    }
}

#[test]
fn few_values_among_zeros_select_what_they_multiply() {
    const DEPTH: usize = 512;
    let of = |rows: usize, columns: usize, value: fn(usize, usize) -> f32| {
        let at = |i: usize| value(i / columns, i % columns);
        let values: Vec<f32> = (0..rows * columns).map(at).collect();
        Tensor::from_slice([rows, columns], &values).unwrap()
    };
    // As a softmax of four equal scores, of rows that are zero there and large elsewhere.
    let weights = of(128, DEPTH, |_, j| if j % 128 == 17 { 0.25 } else { 0.0 });
    let rows = of(DEPTH, 128, |j, c| {
        if j % 128 == 17 {
            0.0
        } else {
            64.0 + (j * 7 + c) as f32 % 13.0
        }
    });
    let mut g = Graph::new("product");
    let (a, b) = (
        g.input("a", F, [128, DEPTH as i64]),
        g.input("b", F, [DEPTH as i64, 128]),
    );
    let y = g.matmul(a, b).unwrap();
    g.output(y);
    for (how, got) in results(&in_class(g, Accuracy::Fp32), &many_threads(), &[weights, rows]) {
        assert!(how.contains("A0_CENTRE"), "{how}");
        let got = got[0].to_f64().unwrap();
        assert!(got.iter().all(|v| *v == 0.0), "{how}");
    }
}
