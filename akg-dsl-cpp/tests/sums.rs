//! Sums of single precision: as exact as the prelude of a pairwise sum, whatever the length of the rows.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use akg_core::expr::Bindings;
use akg_core::{Sketch, Tensor};
use proptest::prelude::*;

/// Sums rows of `values` on all targets and compares with f64.
fn check(columns: usize, values: &[f32]) {
    let rows = values.len() / columns;
    let text = format!(
        "sketch sums(x: f32[{rows}, {columns}]) -> y: f32[{rows}]\nkernel main over (r in {rows}) {{\n  store y[r] = reduce_sum(load x[r, 0 :+ {columns}], 0)\n}}\n"
    );
    let sketch = Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)));
    let dims = Bindings::new();
    let program = sketch.elaborate(&sketch.default_knobs(), &dims).unwrap();
    let inputs = [Tensor::from_slice(vec![rows, columns], values).unwrap()];
    for target in support::hosts() {
        let got = support::run_on(&target, &program, &inputs, &dims)[0]
            .to_f64()
            .unwrap();
        for (row, got) in values.chunks(columns).zip(&got) {
            let exact: f64 = row.iter().map(|v| f64::from(*v)).sum();
            let size: f64 = row.iter().map(|v| f64::from(v.abs())).sum();
            // Two roundings on the way and one at the end.
            let bound = 3.0 * size * f64::from(f32::EPSILON) / 2.0;
            assert!(
                (got - exact).abs() <= bound,
                "{got}, not {exact}: {columns} columns"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn rows_of_any_length(
        columns in prop_oneof![1usize..600, (1usize..40).prop_map(|n| n * 64)],
        seed in any::<u32>(),
        spread in 0.0f32..100.0,
    ) {
        if support::compiler_missing() {
            return Ok(());
        }
        let values: Vec<f32> = (0..3 * columns).map(|i| 0.1 + spread * support::noise(seed, i)).collect();
        check(columns, &values);
    }
}
