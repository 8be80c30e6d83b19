//! Operators that have no counterpart in PyTorch, or no results to compare.

use akg_core::DType;
use akg_core::graph::Operator;
use serde_json::{Value as Json, json};

use crate::draw::{Draw, Values};

/// Draws a call of an operator that is not compared; `false` if `op` is none of them.
pub(crate) fn draw(op: &'static Operator, d: &mut Draw) -> bool {
    let shape = [d.size(1..=5), d.size(1..=5)];
    let mut real = |shape: &[usize]| d.input(DType::F32, shape, Values::Unit);
    let args = match op.name() {
        "linear_recurrence.default" => {
            json!({"decay": real(&shape), "input": real(&shape), "hx": real(&shape[1..])})
        }
        "rand.default" | "randn.default" => json!({"size": shape, "dtype": "f32"}),
        "rand_like.default" | "randn_like.default" => json!({"self": real(&shape)}),
        "seeded_rand.default" | "seeded_randn.default" => {
            json!({"size": shape, "seed": d.input(DType::I64, &[], Values::Below(100)), "dtype": "f32"})
        }
        "seeded_dropout.default" => {
            let x = real(&shape);
            json!({"input": x, "seed": d.input(DType::I64, &[], Values::Below(100)), "p": 0.5})
        }
        "_assert_tensor_metadata.default" => {
            let x = real(&shape);
            d.node(op.name(), json!({"a": x}), 0);
            // A graph has an output.
            d.finish("relu.default", json!({"self": x}).as_object().unwrap().clone(), 1);
            return true;
        }
        _ => return false,
    };
    let Json::Object(args) = args else { return false };
    d.finish(op.name(), args, op.schema().results.unwrap_or(1));
    true
}
