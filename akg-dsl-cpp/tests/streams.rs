//! Stores past the caches, against the interpreter.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use akg_core::expr::Bindings;
use akg_core::sketch::interpret;
use akg_core::{Sketch, Tensor};
use akg_dsl_cpp::lower_program;

fn numbers(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count).map(|i| (i * 7919 % 1009) as f32 - 500.0).collect();
    Tensor::from_slice(shape.to_vec(), &values).unwrap()
}

/// Runs the sketch on machines with a last cache of so few bytes that every tensor exceeds it.
fn check(text: &str, inputs: &[Tensor], streams: bool) {
    if support::compiler_missing() {
        return;
    }
    let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{}", d.render(text)));
    let dims = Bindings::new();
    let program = sketch.elaborate(&sketch.default_knobs(), &dims).unwrap();
    let want = interpret(&program, inputs, &dims).unwrap();
    for mut target in support::hosts() {
        target.caches = vec![64];
        let source = lower_program(&program, &target, &Default::default()).unwrap();
        assert_eq!(source.text.contains("akg_stream("), streams, "{}", source.text);
        let got = support::run_on(&target, &program, inputs, &dims);
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got.bytes(), want.bytes(), "{text}");
        }
    }
}

#[test]
fn rows_of_any_length_and_alignment() {
    for columns in [64, 100, 333, 1024, 1031, 5000] {
        let text = format!(
            "sketch rows(x: f32[5, {columns}]) -> (y: f32[5, {columns}], z: f64[5, {columns}])\nkernel main over (r in 5, c in ceildiv({columns}, 4096)) {{\n  t = load x[r, c*4096 :+ 4096] else 0\n  store y[r, c*4096 :+ 4096] = t + 1.0\n  store z[r, c*4096 :+ 4096] = f64(t) * 0.5\n}}\n"
        );
        check(&text, &[numbers(&[5, columns])], true);
    }
}

#[test]
fn parts_of_rows_that_leave_the_tensor_on_both_sides() {
    check(
        "sketch shifted(x: i32[3, 700]) -> y: i32[3, 700]\nkernel main over (c in 3) {\n  t = load x[0 :+ 3, c*300 - 100 :+ 300] else 0\n  store y[0 :+ 3, c*300 - 100 :+ 300] = t + i32(c)\n}\n",
        &[Tensor::from_slice(vec![3, 700], &(0..2100).collect::<Vec<i32>>()).unwrap()],
        true,
    );
}

#[test]
fn what_is_read_again_or_scattered_stays_in_the_caches() {
    check(
        "sketch again(x: f32[4096]) -> y: f32[4096]\nkernel main over (p in 4) {\n  store y[p*1024 :+ 1024] = 2.0 * load x[p*1024 :+ 1024]\n  t = load y[p*1024 :+ 1024]\n  store y[p*1024 :+ 1024] = t + 1.0\n}\n",
        &[numbers(&[4096])],
        false,
    );
    check(
        "sketch columns(x: f32[64, 128]) -> y: f32[128, 64]\nkernel main over (p in 1) {\n  store y[0 :+ 128, 0 :+ 64 by 1] = trans(load x[0 :+ 64, 0 :+ 128])\n}\n",
        &[numbers(&[64, 128])],
        true,
    );
    check(
        "sketch short(x: f32[640, 16]) -> y: f32[640, 16]\nkernel main over (p in 10) {\n  store y[p*64 :+ 64, 0 :+ 16] = 2.0 * load x[p*64 :+ 64, 0 :+ 16]\n}\n",
        &[numbers(&[640, 16])],
        false,
    );
}
