//! Type inference against PyTorch: every call in `data/inference.json`, which `make_inference_golden.py` writes, must
//! give the types that PyTorch gives, or be refused where PyTorch refuses it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use akg_core::graph::ops::{Parameter, ParameterKind};
use akg_core::graph::{Arg, Operator, TensorType, ValueId};
use akg_core::{DType, Expr, Graph};
use serde_json::Value as Json;

type Case = (String, serde_json::Map<String, Json>, Json);

fn cases() -> Vec<Case> {
    serde_json::from_str(include_str!("data/inference.json")).unwrap()
}

fn parse_type(text: &str) -> TensorType {
    let (dtype, dims) = text.strip_suffix(']').unwrap().split_once('[').unwrap();
    let dims = dims.split(',').filter(|d| !d.is_empty());
    TensorType::new(dtype.parse().unwrap(), dims.map(|d| d.parse::<i64>().unwrap()))
}

fn argument(parameter: &Parameter, json: &Json, input: &mut impl FnMut(&Json) -> ValueId) -> Arg {
    match (parameter.kind, json) {
        (_, Json::Null) => Arg::None,
        (ParameterKind::Tensor, json) => Arg::Value(input(json)),
        (ParameterKind::Tensors, Json::Array(list)) => Arg::Values(
            list.iter()
                .map(|json| (!json.is_null()).then(|| input(json)))
                .collect(),
        ),
        (ParameterKind::Ints, Json::Array(list)) => {
            Arg::Ints(list.iter().map(|v| Expr::constant(v.as_i64().unwrap())).collect())
        }
        (ParameterKind::DType, json) => Arg::DType(json.as_str().unwrap().parse().unwrap()),
        (_, Json::Bool(v)) => Arg::Bool(*v),
        (_, Json::String(s)) => Arg::Str(s.clone()),
        (_, Json::Number(v)) => v
            .as_i64()
            .map_or_else(|| Arg::Float(v.as_f64().unwrap()), Arg::from),
        (kind, json) => panic!("no argument of kind {kind:?} is written {json}"),
    }
}

/// The types of the results when the operands' types go through `map`.
fn infer((op, args, _): &Case, map: impl Fn(&TensorType) -> TensorType) -> akg_core::Result<Vec<TensorType>> {
    let mut graph = Graph::new("case");
    let mut input = |json: &Json| {
        let ty = map(&parse_type(json.as_str().unwrap()));
        graph.input("x", ty.dtype, &ty.shape)
    };
    let parameters = &Operator::find(op).unwrap().schema().parameters;
    let mut given = Vec::new();
    for (name, json) in args {
        let parameter = parameters.iter().find(|p| p.name == *name).unwrap();
        given.push((name.as_str(), argument(parameter, json, &mut input)));
    }
    let results = graph.call(op, given)?;
    Ok(results.into_iter().map(|v| graph.ty(v).clone()).collect())
}

fn print(types: impl IntoIterator<Item = TensorType>) -> Vec<String> {
    types
        .into_iter()
        .map(|ty| ty.to_string().replace(", ", ","))
        .collect()
}

#[test]
fn agrees_with_pytorch() {
    let mut wrong = Vec::new();
    for case in cases() {
        let expected: Option<Vec<String>> = serde_json::from_value(case.2.clone()).ok();
        let found = infer(&case, TensorType::clone).map(print);
        if found.as_ref().ok() != expected.as_ref() {
            wrong.push(format!("{case:?}\n    found {found:?}"));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cases differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_operator_has_a_case_that_works() {
    let cases = cases();
    let working = cases.iter().filter(|(_, _, results)| results.is_array());
    let covered: BTreeSet<&str> = working.map(|(op, ..)| op.as_str()).collect();
    let missing: Vec<_> = Operator::all()
        .into_iter()
        .filter(|op| op.schema().namespace == "aten")
        .map(Operator::name)
        .filter(|op| !covered.contains(op))
        .collect();
    assert!(missing.is_empty(), "operators without a case: {missing:?}");
}

#[test]
fn errors_name_operator_and_operand_types() {
    let mut graph = Graph::new("case");
    let a = graph.input("a", DType::F32, [2, 3]);
    let b = graph.input("b", DType::F32, [4, 5]);
    let message = graph.mm(a, b).unwrap_err().to_string();
    for part in ["mm.default", "a: f32[2, 3]", "b: f32[4, 5]"] {
        assert!(message.contains(part), "{message}");
    }
}

/// Replaces the extents of the operands by symbols, equal extents by the same one. Where inference then succeeds, the
/// symbols' values must give PyTorch's result.
#[test]
fn symbolic_inference_agrees_with_pytorch() {
    let symbolic = |ty: &TensorType| {
        let dims = ty.shape.iter().map(|d| match d.as_const() {
            Some(v) if v > 1 => Expr::symbol(format!("D{v}")),
            _ => d.clone(),
        });
        TensorType::new(ty.dtype, dims)
    };
    let bindings = (2..100).map(|v| (format!("D{v}").into(), v)).collect();
    let (mut tried, mut inferred) = (0, 0);
    for case in cases() {
        let Ok(expected) = serde_json::from_value::<Vec<String>>(case.2.clone()) else {
            continue;
        };
        tried += 1;
        let Ok(results) = infer(&case, symbolic) else {
            continue;
        };
        inferred += 1;
        let bound = results.iter().map(|ty| {
            let dims = ty.shape.iter().map(|d| d.bind(&bindings));
            TensorType::new(ty.dtype, dims)
        });
        assert_eq!(print(bound), expected, "{case:?}");
    }
    assert!(
        inferred * 4 > tried * 3,
        "only {inferred} of {tried} cases can be inferred with symbols"
    );
}

/// Puts extreme numbers in the place of each argument that is an integer or a list of them: whatever comes of it, it
/// must come as a result or an error.
#[test]
fn extreme_numbers_do_not_panic() {
    let mut refused = 0;
    for case in cases() {
        for extreme in [i64::MIN, i64::MIN + 1, -1, 0, 1 << 40, i64::MAX] {
            for name in case.1.keys() {
                let mut changed = case.clone();
                match &mut changed.1[name] {
                    Json::Number(n) if n.is_i64() => *n = extreme.into(),
                    Json::Array(list) => list
                        .iter_mut()
                        .filter(|v| v.is_i64())
                        .for_each(|v| *v = extreme.into()),
                    _ => continue,
                }
                refused += usize::from(infer(&changed, TensorType::clone).is_err());
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn replaced_slices_have_the_extents_of_the_others() {
    let shape = |middle: &str, last: i64| [Expr::constant(2), Expr::symbol(middle), last.into()];
    let mut graph = Graph::new("case");
    let cache = graph.input("cache", DType::F32, shape("C", 3));
    let index = graph.input("index", DType::I32, [Expr::symbol("N")]);
    let mut replace = |dtype, shape: [Expr; 3]| -> akg_core::Result<String> {
        let source = graph.input("source", dtype, shape);
        let result = graph.index_copy(cache, -2, index, source)?;
        Ok(graph.ty(result).to_string())
    };
    assert_eq!(replace(DType::F32, shape("N", 3)).unwrap(), "f32[2, C, 3]");
    for (dtype, shape, part) in [
        (
            DType::F32,
            shape("M", 3),
            "dimension 1 is M, which cannot be shown to be the number of indices, N",
        ),
        (
            DType::F32,
            shape("N", 4),
            "dimension 2 is 4, which is not that of self, 3",
        ),
        (DType::F16, shape("N", 3), "source is f16"),
    ] {
        let message = replace(dtype, shape).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
    }
}
