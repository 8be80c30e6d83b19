//! Functions of f32 against double precision, over a sweep of all bit patterns: the errors that the prelude states.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use akg_core::expr::Bindings;
use akg_core::sketch::interpret;
use akg_core::{Sketch, Tensor};
use akg_dsl_cpp::lower_program;

/// Functions with their largest error in units in the last place.
const BOUNDS: [(&str, f64); 9] = [
    ("exp", 1.1),
    ("exp2", 1.2),
    ("expm1", 1.6),
    ("log", 1.0),
    ("log2", 1.2),
    ("log1p", 1.7),
    ("tanh", 1.8),
    ("erf", 1.4),
    ("sigmoid", 1.5),
];

/// The distance of two values of the sweep as bit patterns: a prime, so that all last digits occur.
const STEP: usize = 8191;

/// The distance of floats near `value`.
fn unit(value: f64) -> f64 {
    let exponent = value.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor();
    (exponent - 23.0).exp2()
}

fn sketch(function: &str, dtype: &str) -> Sketch {
    let text = format!(
        "sketch sweep(x: {dtype}[N]) -> y: {dtype}[N]\nkernel main over (p in ceildiv(N, 1024)) {{\n  store y[p*1024 :+ 1024] = {function}(load x[p*1024 :+ 1024] else 0)\n}}\n"
    );
    Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)))
}

#[test]
fn errors_are_as_stated() {
    if support::compiler_missing() {
        return;
    }
    let values: Vec<f32> = (0..=u32::MAX).step_by(STEP).map(f32::from_bits).collect();
    let exact: Vec<f64> = values.iter().copied().map(f64::from).collect();
    let shape = vec![values.len()];
    let dims = Bindings::from([("N".into(), values.len() as i64)]);
    let inputs = [Tensor::from_slice(shape.clone(), &values).unwrap()];
    let exact_inputs = [Tensor::from_slice(shape, &exact).unwrap()];
    for (function, bound) in BOUNDS {
        let in_double = sketch(function, "f64")
            .elaborate(&Default::default(), &dims)
            .unwrap();
        let want = interpret(&in_double, &exact_inputs, &dims).unwrap()[0]
            .to_f64()
            .unwrap();
        let program = sketch(function, "f32")
            .elaborate(&Default::default(), &dims)
            .unwrap();
        for target in support::hosts() {
            let text = lower_program(&program, &target, &Default::default())
                .unwrap()
                .text;
            let stated = format!("// At most {bound:?} units in the last place");
            assert!(
                text.contains(&stated),
                "{function} states another error than {bound}"
            );
            let got = support::run_on(&target, &program, &inputs, &dims)[0]
                .to_f64()
                .unwrap();
            for ((x, got), want) in values.iter().zip(&got).zip(&want) {
                let rounded = f64::from(*want as f32);
                let right = *got == rounded || got.is_nan() && want.is_nan();
                // Beside the largest float, its neighbour would be 2^128.
                let got = if got.is_infinite() {
                    got.signum() * 2f64.powi(128)
                } else {
                    *got
                };
                assert!(
                    right || (got - want).abs() <= bound * unit(*want),
                    "{function}({x:e}) is {got:e} instead of {want:e}"
                );
            }
        }
    }
}
