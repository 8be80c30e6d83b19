//! Type inference against PyTorch: every call in `data/inference.json`, which `make_inference_golden.py` writes, must
//! give the types that PyTorch gives, or be refused where PyTorch refuses it.

use std::collections::BTreeSet;

use akg_core::graph::ops::{Parameter, ParameterKind};
use akg_core::graph::{Arg, Operator, TensorType, ValueId};
use akg_core::{Expr, Graph};
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

fn input(graph: &mut Graph, json: &Json) -> ValueId {
    let ty = parse_type(json.as_str().unwrap());
    graph.input("x", ty.dtype, &ty.shape)
}

fn argument(graph: &mut Graph, parameter: &Parameter, json: &Json) -> Arg {
    match (parameter.kind, json) {
        (_, Json::Null) => Arg::None,
        (ParameterKind::Tensor, json) => Arg::Value(input(graph, json)),
        (ParameterKind::Tensors, Json::Array(list)) => Arg::Values(
            list.iter()
                .map(|json| (!json.is_null()).then(|| input(graph, json)))
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

fn infer((op, args, _): &Case) -> akg_core::Result<Vec<String>> {
    let mut graph = Graph::new("case");
    let parameters = &Operator::find(op).unwrap().schema().parameters;
    let mut given = Vec::new();
    for (name, json) in args {
        let parameter = parameters.iter().find(|p| p.name == *name).unwrap();
        given.push((name.as_str(), argument(&mut graph, parameter, json)));
    }
    let results = graph.call(op, given)?;
    Ok(results
        .into_iter()
        .map(|v| graph.ty(v).to_string().replace(", ", ","))
        .collect())
}

#[test]
fn agrees_with_pytorch() {
    let mut wrong = Vec::new();
    for case in cases() {
        let expected: Option<Vec<String>> = serde_json::from_value(case.2.clone()).ok();
        let found = infer(&case);
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
        .map(Operator::name)
        .filter(|op| !covered.contains(op))
        .collect();
    assert!(missing.is_empty(), "operators without a case: {missing:?}");
}

#[test]
fn errors_name_operator_and_operand_types() {
    let mut graph = Graph::new("case");
    let a = graph.input("a", akg_core::DType::F32, [2, 3]);
    let b = graph.input("b", akg_core::DType::F32, [4, 5]);
    let message = graph.mm(a, b).unwrap_err().to_string();
    for part in ["mm.default", "a: f32[2, 3]", "b: f32[4, 5]"] {
        assert!(message.contains(part), "{message}");
    }
}
