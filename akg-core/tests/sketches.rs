//! The example sketches, run by the interpreter, against PyTorch's results.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the helper functions of tests fail by panicking"
)]

use akg_core::conformance::{SketchCase, sketch_cases};
use akg_core::expr::Bindings;
use akg_core::sketch::ir::{Loop, Program, Stmt};
use akg_core::sketch::{Folds, Sketch, examples, interpret, interpret_folds, validate};
use akg_core::source::{KnobValue, Knobs};

fn elaborate(case: &SketchCase, dims: &Bindings) -> Program {
    let sketch =
        Sketch::parse(case.text).unwrap_or_else(|d| panic!("{}:\n{}", case.name, d.render(case.text)));
    sketch
        .elaborate(&case.knobs, dims)
        .unwrap_or_else(|d| panic!("{}:\n{}", case.name, d.render(case.text)))
}

#[test]
fn examples_parse_and_print() {
    for (name, text) in examples() {
        let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{name}:\n{}", d.render(text)));
        assert_eq!(sketch.tree().name.node, *name);
        assert!(!sketch.tree().doc.is_empty(), "{name} has no doc comment");
        assert_eq!(Sketch::parse(&sketch.to_string()).unwrap(), sketch, "{name}");
    }
}

#[test]
fn every_example_has_cases() {
    let cases = sketch_cases().unwrap();
    for (name, _) in examples() {
        assert!(cases.iter().any(|c| c.name == *name), "{name}");
    }
}

#[test]
fn results_are_those_of_pytorch() {
    for case in sketch_cases().unwrap() {
        let program = elaborate(&case, &case.dims);
        let outputs = interpret(&program, &case.inputs, &case.dims).unwrap();
        case.check(&outputs).unwrap();
    }
}

#[test]
fn any_legal_knob_point_gives_the_same() {
    for mut case in sketch_cases().unwrap() {
        let sketch = Sketch::parse(case.text).unwrap();
        let types = |knobs: &Knobs| -> Knobs {
            let chosen = sketch.default_knobs().into_iter().chain(knobs.clone());
            chosen.filter(|(_, v)| matches!(v, KnobValue::DType(_))).collect()
        };
        let fixed = types(&case.knobs);
        let points: Vec<Knobs> = sketch
            .legal_points(&case.dims)
            .filter(|point| types(point) == fixed)
            .collect();
        let last = points.len() - 1;
        for i in [last / 5, last / 3, last / 2, last] {
            case.knobs = points[i].clone();
            let outputs = interpret(&elaborate(&case, &case.dims), &case.inputs, &case.dims).unwrap();
            case.check(&outputs).unwrap();
        }
    }
}

#[test]
fn symbolic_extents_give_the_same_program() {
    for case in sketch_cases().unwrap() {
        let symbolic = elaborate(&case, &case.fixed_dims());
        assert_eq!(
            symbolic.dims.is_empty(),
            case.symbolic.is_empty(),
            "{}",
            case.name
        );
        let outputs = interpret(&symbolic, &case.inputs, &case.dims).unwrap();
        let fixed = interpret(&elaborate(&case, &case.dims), &case.inputs, &case.dims).unwrap();
        for (a, b) in outputs.iter().zip(&fixed) {
            assert_eq!(a.bytes(), b.bytes(), "{} {:?}", case.name, case.knobs);
        }
    }
}

#[test]
fn folds_may_be_split() {
    let mut split = Vec::new();
    for case in sketch_cases().unwrap() {
        let program = elaborate(&case, &case.dims);
        if program
            .kernels
            .iter()
            .any(|k| loops(&k.body).iter().any(|l| l.combine.is_some()))
        {
            let outputs = interpret_folds(&program, &case.inputs, &case.dims, Folds::Halves).unwrap();
            case.check(&outputs).unwrap();
            split.push(case.name);
        }
    }
    split.dedup();
    assert_eq!(split, ["argmax", "softmax_online"]);
}

fn loops(body: &[Stmt]) -> Vec<&Loop> {
    body.iter()
        .flat_map(|stmt| match stmt {
            Stmt::For(l) => std::iter::once(l).chain(loops(&l.body)).collect(),
            Stmt::If(b) => [loops(&b.then), loops(&b.otherwise)].concat(),
            _ => Vec::new(),
        })
        .collect()
}

#[test]
fn the_validator_has_no_objection() {
    let mut objections = String::new();
    for case in sketch_cases().unwrap() {
        for dims in [case.dims.clone(), case.fixed_dims()] {
            let findings = validate(&elaborate(&case, &dims), None);
            // Coverage by several stores or a scatter is beyond its proofs, which is worth a warning.
            let is_example = examples().iter().any(|(name, _)| *name == case.name);
            if findings.has_errors() || is_example && !findings.is_empty() {
                let (name, findings) = (case.name, findings.render(case.text));
                objections += &format!("{name} {:?} {dims:?}:\n{findings}\n", case.knobs);
            }
        }
    }
    assert_eq!(objections, "");
}

#[test]
fn a_wrong_result_is_noticed() {
    let cases = sketch_cases().unwrap();
    let case = cases.iter().find(|c| c.name == "gemm_split").unwrap();
    let outputs = interpret(&elaborate(case, &case.dims), &case.inputs, &case.dims).unwrap();
    let mut values = outputs[0].as_slice::<f32>().unwrap().to_vec();
    // A relative error of 1e-5 in the row of smallest magnitude.
    values[0] *= 1.0 + 1e-5;
    let wrong = akg_core::Tensor::from_slice(outputs[0].shape(), &values).unwrap();
    assert!(case.check(&[wrong]).is_err());
}
