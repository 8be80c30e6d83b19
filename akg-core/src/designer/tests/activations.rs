//! Activations that a design computes another way than their definition says: against f64, element by element.

use super::{F, design, many_threads};
use crate::expr::Bindings;
use crate::graph::{Graph, ValueId};
use crate::sketch::interpret;
use crate::task::Task;
use crate::{Result, Tensor};

/// Every magnitude from the least subnormal to the largest number, densely where exponentials bend, and what is no number.
fn sweep() -> Vec<f32> {
    let mut points: Vec<f32> = (-120_000..=40_000).map(|i| i as f32 / 1024.0).collect();
    points.extend((0..0x7f80_0000u32).step_by(50_021).map(f32::from_bits));
    points.extend(
        (0..0x7f80_0000u32)
            .step_by(50_021)
            .map(|bits| -f32::from_bits(bits)),
    );
    points.extend([f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    points
}

/// Checks the design of `build` against `exact`, which may err by `roundings` of the result.
#[track_caller]
fn check(roundings: f64, build: impl FnOnce(&mut Graph, ValueId) -> Result<ValueId>, exact: fn(f64) -> f64) {
    let points = sweep();
    let mut g = Graph::new("activation");
    let x = g.input("x", F, [points.len() as i64]);
    let y = build(&mut g, x).unwrap();
    g.output(y);
    let design = design(&Task::new("activation", g), &many_threads()).unwrap();
    let none = Bindings::new();
    let program = design.sketch.elaborate(&design.knobs, &none).unwrap();
    let input = Tensor::from_slice(vec![points.len()], &points).unwrap();
    let got = interpret(&program, &[input], &none).unwrap();
    for (x, got) in points.iter().zip(got[0].to_f64().unwrap()) {
        let want = exact(f64::from(*x));
        // What is multiplied by `x` may have been subnormal.
        let least = f64::from(f32::from_bits(1)) * f64::from(x.abs().clamp(1.0, 128.0));
        let allowed = roundings * (f64::from(f32::EPSILON) / 2.0 * want.abs()).max(least);
        assert!(
            (got - want).abs() <= allowed || got == want || got.is_nan() && want.is_nan(),
            "{got} instead of {want} at {x:e}\n{}",
            design.sketch
        );
    }
}

fn mish(x: f64) -> f64 {
    x * x.exp().ln_1p().tanh()
}

#[test]
fn mish_takes_one_exponential() {
    check(6.0, |g, x| g.mish(x), mish);
}

#[test]
fn softplus_takes_logarithms_from_1_to_2() {
    let exact = |x: f64| x.max(0.0) + (-x.abs()).exp().ln_1p();
    check(4.0, |g, x| g.softplus(x), exact);
}

#[test]
fn the_tangent_of_a_softplus_is_recognised() {
    let gate = |g: &mut Graph, x| {
        let soft = g.softplus(x)?;
        g.tanh(soft)
    };
    check(5.0, gate, |x| x.exp().ln_1p().tanh());
    let mut g = Graph::new("gate");
    let x = g.input("x", F, [64]);
    let y = gate(&mut g, x).unwrap();
    g.output(y);
    let design = design(&Task::new("gate", g), &many_threads()).unwrap();
    let text = design.sketch.to_string();
    assert!(!text.contains("tanh(") && !text.contains("log1p("), "{text}");
}

#[test]
fn divisions_by_powers_of_two_are_exact_products() {
    check(0.0, |g, x| g.div(x, -8.0), |x| f64::from((x / -8.0) as f32));
}
