//! The ends of rows and of tiles at a border, which are no whole vectors: every element is computed, and counted once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use akg_core::expr::Bindings;
use akg_core::{Sketch, Tensor};
use proptest::prelude::*;

fn sketch(rows: usize, columns: usize) -> Sketch {
    let text = format!(
        "sketch ends(x: f32[{rows}, {columns}]) -> (y: f32[{rows}, {columns}], z: f32[{rows}, {columns}], sum: f32[{rows}], product: f32[{rows}], highest: f32[{rows}])
kernel main over (r in {rows}) {{
  v = load x[r, 0 :+ {columns}]
  e = exp(v)
  store y[r, 0 :+ {columns}] = tanh(v)
  store sum[r] = f32(reduce_sum(f64(e), 0))
  store product[r] = f32(reduce_prod(f64(e), 0))
  store highest[r] = reduce_max(e, 0)
}}
kernel tiles over (r in {rows}, c in ceildiv({columns}, 32)) {{
  store z[r, c*32 :+ 32] = exp(load x[r, c*32 :+ 32] else 0.0)
}}
"
    );
    Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn rows_of_any_length(columns in 1usize..80, seed in any::<u32>()) {
        if support::compiler_missing() {
            return Ok(());
        }
        let rows = 3;
        let values: Vec<f32> = (0..rows * columns).map(|i| 2.0 * support::noise(seed, i) - 1.0).collect();
        let of = |f: &dyn Fn(&[f64]) -> Vec<f64>| -> Vec<f64> {
            let exact: Vec<f64> = values.iter().map(|v| f64::from(*v)).collect();
            exact.chunks(columns).flat_map(f).collect()
        };
        let expected = [
            of(&|row| row.iter().map(|v| v.tanh()).collect()),
            of(&|row| row.iter().map(|v| v.exp()).collect()),
            of(&|row| vec![row.iter().map(|v| v.exp()).sum()]),
            of(&|row| vec![row.iter().map(|v| v.exp()).product()]),
            of(&|row| vec![row.iter().map(|v| v.exp()).fold(0.0, f64::max)]),
        ];
        let sketch = sketch(rows, columns);
        let dims = Bindings::new();
        let program = sketch.elaborate(&sketch.default_knobs(), &dims).unwrap();
        let inputs = [Tensor::from_slice(vec![rows, columns], &values).unwrap()];
        for target in support::hosts() {
            let got = support::run_on(&target, &program, &inputs, &dims);
            for (got, expected) in got.iter().zip(&expected) {
                for (got, expected) in got.to_f64().unwrap().iter().zip(expected) {
                    // A product takes the errors of all its factors.
                    let bound = 2e-7 * (expected.abs() + 1e-3) * (columns as f64).max(4.0);
                    prop_assert!((got - expected).abs() <= bound, "{got}, not {expected}: {columns} columns");
                }
            }
        }
    }
}
