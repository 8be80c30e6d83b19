//! The reference interpreter against PyTorch: golden files made by `make_reference_golden.py`.

use std::collections::BTreeSet;
use std::path::Path;

use akg_core::graph::Operator;
use akg_core::reference::{Options, Outcome, Precision, evaluate};
use akg_core::{DType, Graph, Tensor};
use serde_json::Value;

/// A tensor as the golden files have it.
struct Golden {
    dtype: DType,
    shape: Vec<usize>,
    data: Vec<f64>,
    ints: Vec<i64>,
}

impl Golden {
    fn read(value: &Value) -> Self {
        let data = value["data"].as_array().unwrap();
        let number = |v: &Value| match v {
            Value::Bool(b) => f64::from(u8::from(*b)),
            Value::String(s) => s.parse().unwrap(),
            v => v.as_f64().unwrap(),
        };
        Self {
            dtype: value["dtype"].as_str().unwrap().parse().unwrap(),
            shape: value["shape"].as_array().unwrap().iter().map(|d| d.as_u64().unwrap() as usize).collect(),
            data: data.iter().map(number).collect(),
            ints: data.iter().map(|v| v.as_i64().unwrap_or_default()).collect(),
        }
    }

    fn tensor(&self) -> Tensor {
        macro_rules! floats {
            ($f:expr) => {
                Tensor::from_slice(self.shape.clone(), &self.data.iter().map(|v| $f(*v)).collect::<Vec<_>>())
            };
        }
        macro_rules! ints {
            ($ty:ty) => {
                Tensor::from_slice(self.shape.clone(), &self.ints.iter().map(|v| *v as $ty).collect::<Vec<_>>())
            };
        }
        match self.dtype {
            DType::Bool => {
                Tensor::from_bools(self.shape.clone(), &self.data.iter().map(|v| *v != 0.0).collect::<Vec<_>>())
            }
            DType::U8 => ints!(u8),
            DType::I8 => ints!(i8),
            DType::I16 => ints!(i16),
            DType::I32 => ints!(i32),
            DType::I64 => ints!(i64),
            DType::F16 => floats!(half::f16::from_f64),
            DType::BF16 => floats!(half::bf16::from_f64),
            DType::F32 => floats!(|v| v as f32),
            DType::F64 => floats!(|v| v),
            other => panic!("no golden file has {other} tensors"),
        }
        .unwrap()
    }
}

/// What of `outcome` differs from `golden`, allowing floating elements `relative` of themselves and of the largest.
fn difference(outcome: &Outcome, golden: &Golden, relative: f64) -> Option<String> {
    if outcome.dtype != golden.dtype || outcome.shape != golden.shape {
        let (dtype, shape) = (outcome.dtype, &outcome.shape);
        return Some(format!("{dtype}{shape:?} instead of {}{:?}", golden.dtype, golden.shape));
    }
    let finite = golden.data.iter().filter(|v| v.is_finite()).map(|v| v.abs());
    // Rounding a value of ordinary size to zero is no error; rounding a tiny one of a tiny tensor is.
    let largest = finite.filter(|v| *v < 1e6).fold(0.0, f64::max).min(1.0);
    let same = |have: f64, want: f64| {
        have == want
            || (have.is_nan() && want.is_nan())
            || (golden.dtype.is_float() && (have - want).abs() <= relative * (want.abs() + largest))
    };
    let have = outcome.to_f64();
    let wrong = have.iter().zip(&golden.data).position(|(have, want)| !same(*have, *want))?;
    Some(format!("element {wrong} is {} instead of {}", have[wrong], golden.data[wrong]))
}

fn cases(family: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/reference").join(format!("{family}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

const FAMILIES: [&str; 19] = [
    "attention", "binary", "conv", "conversion", "create", "index", "join", "loss", "matmul", "norm", "pool",
    "rearrange", "reduce", "rnn", "scan", "selection", "softmax", "unary", "views",
];

fn check(precision: Precision, relative: f64, applies: impl Fn(&[Golden], &[Golden]) -> bool) {
    let options = Options { precision, ..Options::default() };
    let mut failures = Vec::new();
    for family in FAMILIES {
        for case in cases(family) {
            let graph = Graph::from_json(&case["graph"].to_string()).unwrap_or_else(|e| panic!("{e:?}\n{case}"));
            let golden = |key: &str| case[key].as_array().unwrap().iter().map(Golden::read).collect::<Vec<_>>();
            let (inputs, wanted) = (golden("inputs"), golden("outputs"));
            if !applies(&inputs, &wanted) {
                continue;
            }
            let inputs: Vec<Tensor> = inputs.iter().map(Golden::tensor).collect();
            let wrong = match evaluate(&graph, &inputs, &options) {
                Err(error) => Some(error.to_string()),
                Ok(outcomes) => {
                    assert_eq!(outcomes.len(), wanted.len());
                    outcomes.iter().zip(&wanted).find_map(|(have, want)| difference(have, want, relative))
                }
            };
            if let Some(wrong) = wrong {
                failures.push(format!("{wrong}: {}", case["graph"]["nodes"]));
            }
        }
    }
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn f64_agrees_with_pytorch() {
    check(Precision::F64, 2e-14, |_, _| true);
}

#[test]
fn f32_is_close_to_f64() {
    // Values outside the range where f32 has its relative accuracy are f64's business.
    let ordinary = |v: &f64| !v.is_finite() || *v == 0.0 || (1e-30..1e9).contains(&v.abs());
    let exact = |v: &f64| v.is_nan() || f64::from(*v as f32) == *v;
    check(Precision::F32Pairwise, 1e-5, |inputs, outputs| {
        inputs.iter().all(|g| g.data.iter().all(exact))
            && inputs.iter().chain(outputs).all(|g| g.data.iter().all(ordinary))
    });
}

#[test]
fn every_operator_has_a_case() {
    let mut open: BTreeSet<&str> = Operator::all().into_iter().map(Operator::name).collect();
    for family in FAMILIES {
        for case in cases(family) {
            open.remove(case["graph"]["nodes"][0]["op"].as_str().unwrap().trim_start_matches("aten."));
        }
    }
    // Random results, and a check without a result.
    let without = ["_assert_tensor_metadata", "rand", "rand_like", "randn", "randn_like"];
    let open: Vec<_> = open.into_iter().filter(|name| !without.contains(&name.trim_end_matches(".default"))).collect();
    assert_eq!(open, [""; 0]);
}
