//! Everything that a sketch can say, against the interpreter on the same inputs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

#[path = "../support/mod.rs"]
mod support;

mod control;
mod elements;
mod tiles;

use akg_core::expr::Bindings;
use akg_core::sketch::interpret;
use akg_core::{DType, Sketch, Tensor};

/// Reproducible elements: small numbers with all signs, then corner values.
fn input(dtype: DType, shape: &[usize], seed: u64) -> Tensor {
    let count: usize = shape.iter().product();
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let values: Vec<f64> = (0..count)
        .map(|_| {
            let v = (next() >> 11) as f64 / (1u64 << 53) as f64;
            match dtype {
                DType::Bool => (v * 2.0).floor(),
                DType::U8 => (v * 12.0).floor(),
                d if d.is_float() => (v - 0.5) * 6.0,
                _ => (v * 24.0).floor() - 12.0,
            }
        })
        .collect();
    tensor(dtype, shape, &values)
}

fn tensor(dtype: DType, shape: &[usize], values: &[f64]) -> Tensor {
    use half::{bf16, f16};
    macro_rules! from {
        ($convert:expr) => {
            Tensor::from_slice(
                shape.to_vec(),
                &values.iter().map($convert).collect::<Vec<_>>(),
            )
        };
    }
    match dtype {
        DType::Bool => Tensor::from_bools(
            shape.to_vec(),
            &values.iter().map(|v| *v != 0.0).collect::<Vec<_>>(),
        ),
        DType::U8 => from!(|v| *v as u8),
        DType::I8 => from!(|v| *v as i8),
        DType::I16 => from!(|v| *v as i16),
        DType::I32 => from!(|v| *v as i32),
        DType::I64 => from!(|v| *v as i64),
        DType::F16 => from!(|v| f16::from_f64(*v)),
        DType::BF16 => from!(|v| bf16::from_f64(*v)),
        DType::F32 => from!(|v| *v as f32),
        _ => from!(|v| *v),
    }
    .unwrap()
}

/// Runs the sketch both ways. Elements may differ by `units` in the last place, or by that part of the largest one if
/// `sums` says that they are sums with cancellation.
fn compare(text: &str, dims: &[(&str, i64)], inputs: &[Tensor], units: f64, sums: bool) {
    let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{}", d.render(text)));
    let dims: Bindings = dims.iter().map(|(name, v)| ((*name).into(), *v)).collect();
    let program = sketch
        .elaborate(&sketch.default_knobs(), &dims)
        .unwrap_or_else(|d| panic!("{}", d.render(text)));
    let want = interpret(&program, inputs, &dims).unwrap();
    let got = support::run(&program, inputs, &dims);
    let outputs: Vec<_> = program
        .with_role(akg_core::source::TensorRole::Output)
        .map(|(_, t)| t)
        .collect();
    for ((info, got), want) in outputs.iter().zip(&got).zip(&want) {
        let (got, want) = (got.to_f64().unwrap(), want.to_f64().unwrap());
        let roundoff = info.dtype.unit_roundoff().unwrap_or(0.0);
        let largest = want
            .iter()
            .filter(|v| v.is_finite())
            .fold(0f64, |m, v| m.max(v.abs()));
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            let tiny = match info.dtype {
                DType::F16 => 6e-8,
                DType::BF16 => 1e-40,
                DType::F32 => 1.5e-45,
                _ => 5e-324,
            };
            let scale = if sums { largest } else { want.abs() };
            let bound = 2.0 * units * roundoff * scale + tiny * units;
            let same = got == want || got.is_nan() && want.is_nan();
            assert!(
                same || (got - want).abs() <= bound,
                "{}[{i}] is {got:e} instead of {want:e}\n{text}",
                info.name
            );
        }
    }
}

const FLOATS: [DType; 4] = [DType::F32, DType::F64, DType::F16, DType::BF16];
const INTS: [DType; 5] = [DType::U8, DType::I8, DType::I16, DType::I32, DType::I64];
