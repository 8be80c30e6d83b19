//! `akg bench evaluate` as a user meets it, with an evaluator that needs no GPU in the place of KernelBench's.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail the test")]

mod common;

use std::fs;
use std::process::Output;

use akg::python::{Config, Environment};
use common::{Place, expect};
use serde_json::Value;

const ALL_PASS: i32 = 0;
const SOME_FAIL: i32 = 1;
const TROUBLE: i32 = 2;

const DEVICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/devices/nvidia-h200.json");

/// Says of kernels that they are right unless the problem forbids it, and refuses as KernelBench's does.
const EVALUATOR: &str = r#"
from openai import OpenAI
from pydantic import BaseModel

class Result(BaseModel):
    correctness: bool = False
    runtime: float = -1.0
    ref_runtime: float = -1.0

def eval_kernel_against_ref(original_model_src, custom_model_src, measure_performance, **options):
    assert options["backend"] == "triton" and options["num_correct_trials"] == 5
    namespace = {}
    exec(original_model_src, namespace)
    if namespace.get("REFERENCE_FAILS"):
        return Result(compiled=True, metadata={"runtime_error": ValueError("expected Long")})
    if namespace.get("WRONG") and "@triton.jit" in custom_model_src:
        return Result(compiled=True, metadata={"correctness_issue": "Output mismatch", "max_difference": ["0.5", "0.25"]})
    assert "class ModelNew(nn.Module):" in custom_model_src or custom_model_src.endswith("ModelNew = Model\n")
    times = {"runtime": 2.0, "ref_runtime": 3.0} if measure_performance else {}
    return Result(compiled=True, correctness=True, metadata={"correctness_trials": "(5 / 5)"}, **times)
"#;

const CHECKER: &str = r##"
import re

def validate_kernel_static(code, backend, precision):
    code = "\n".join(line.split("#")[0] for line in code.split("\n"))
    return (not re.search(r"\bpass\b", code), ["pass"] if re.search(r"\bpass\b", code) else [], [])
"##;

fn problem(more: &str) -> String {
    format!(
        "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    \"\"\"In one pass.\"\"\"\n\n    \
         def forward(self, x):\n        return torch.relu(x)\n\n\ndef get_inputs():\n    return [torch.rand(64, 32)]\n\n\n\
         def get_init_inputs():\n    return []\n\n\n{more}\n"
    )
}

/// A place with problems, unless there is no Python.
fn place(problems: &[(&str, &str)]) -> Option<Place> {
    Environment::find(&Config::default()).ok()?;
    let place = Place::with(&[
        ("root/src/kernelbench/__init__.py", ""),
        ("root/src/kernelbench/eval.py", EVALUATOR),
        ("root/src/kernelbench/timing.py", ""),
        ("root/src/kernelbench/kernel_static_checker.py", CHECKER),
    ]);
    for (name, more) in problems {
        place.file(&format!("root/KernelBench/level1/{name}.py"), &problem(more));
    }
    Some(place)
}

fn evaluate(place: &Place, args: &[&str]) -> Output {
    let mut command = place.akg();
    command.args(["bench", "evaluate", "--device", DEVICE, "--root"]);
    command
        .arg(place.path("root"))
        .arg("--out")
        .arg(place.path("out"));
    command.args(args).output().unwrap()
}

fn result(place: &Place, file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(place.path("out").join(file)).unwrap()).unwrap()
}

#[test]
fn the_evaluator_decides_and_the_reference_is_its_control() {
    let problems = [
        ("1_Right", ""),
        ("2_Wrong", "WRONG = True"),
        ("3_Hopeless", "REFERENCE_FAILS = True"),
        ("4_Refused", "text = 'a pass'"),
    ];
    let Some(place) = place(&problems) else { return };
    let exported = evaluate(&place, &["--export-only", "--jobs", "2"]);
    expect(
        &exported,
        SOME_FAIL,
        &["exported: 3 of 4", "static-error: 1-4 Refused: pass"],
    );
    assert!(!place.path("out/1-1/evaluation.json").exists());

    expect(&evaluate(&place, &[]), TROUBLE, &["--resume"]);
    // The files are kept: nothing is designed again.
    let file = place.path("out/1-1/modelnew.py");
    let marked = fs::read_to_string(&file).unwrap() + "# kept\n";
    fs::write(&file, &marked).unwrap();
    let words = [
        "pass: 1 of 4, 0 of them with verified kernels",
        "wrong: 1-2 Wrong: Output mismatch, by at most 0.5, 0.25",
        "reference-fails: 1-3 Hopeless: expected Long",
    ];
    expect(&evaluate(&place, &["--resume", "--jobs", "3"]), SOME_FAIL, &words);
    assert_eq!(fs::read_to_string(&file).unwrap(), marked);
    let wrong = result(&place, "1-2/evaluation.json");
    assert_eq!(wrong["control"]["correct"], true);
    assert_eq!(wrong["kernels"], "designed");
    let all = result(&place, "evaluations.json");
    let order: Vec<_> = all["evaluations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| &e["problem"])
        .collect();
    assert_eq!(order, ["1-1", "1-2", "1-3", "1-4"]);
    assert_eq!(all["passed"], 1);
}

#[test]
fn times_come_on_request_and_later_too() {
    let Some(place) = place(&[("7_Right", "")]) else {
        return;
    };
    expect(&evaluate(&place, &[]), ALL_PASS, &["pass: 1 of 1"]);
    assert!(
        result(&place, "1-7/evaluation.json")
            .get("milliseconds")
            .is_none()
    );
    expect(
        &evaluate(&place, &["--resume", "--timing"]),
        ALL_PASS,
        &["2.000", "3.000", "1.50x"],
    );
    assert_eq!(
        result(&place, "1-7/evaluation.json")["reference_milliseconds"],
        3.0
    );
}

#[test]
fn without_an_evaluator_there_is_trouble_and_no_verdict() {
    let Some(place) = place(&[("1_Right", "")]) else {
        return;
    };
    fs::remove_dir_all(place.path("root/src")).unwrap();
    expect(&evaluate(&place, &[]), SOME_FAIL, &["trouble: 1-1 Right"]);
}
