//! `akg migrate`: what akg made goes to another language or device, and foreign kernels are lifted from recorded replies.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail the test")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Place, expect, has_compiler};

const PASS: i32 = 0;
const TROUBLE: i32 = 2;

const TASK: &str = r#"{"akg_graph": 1, "name": "tiny",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [64, 40]}],
  "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

const SKETCH: &str = "sketch by_hand(x: f32[64, 40]) -> y: f32[64, 40]
knob R in {4, 8}

kernel main over (m in ceildiv(64, R)) {
  t = load x[m*R :+ R, 0 :+ 40]
  store y[m*R :+ R, 0 :+ 40] = max(t, 0.0)
}
";

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// `akg migrate` to C++, here and quickly.
fn to_cpp(place: &Place) -> Command {
    let mut akg = place.akg();
    akg.args(["migrate", "--to", "cpp", "--no-baseline", "--tune", "0s"]);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AKG_LLM_")) {
        akg.env_remove(name);
    }
    akg
}

/// `akg migrate` to Triton for a device that is not here.
fn to_triton(place: &Place) -> Command {
    let mut akg = place.akg();
    akg.args(["migrate", "--to", "triton", "--device"]);
    akg.arg(repository("examples/devices/nvidia-h200.json"));
    akg
}

/// Whether Triton is missing, which is said.
fn lacks_triton(output: &Output) -> bool {
    let text = String::from_utf8_lossy(&output.stderr);
    let lacks = output.status.code() == Some(TROUBLE) && text.contains("akg doctor");
    if lacks {
        eprintln!("skipped: there is no Triton: {text}");
    }
    lacks
}

#[test]
fn a_sketch_goes_from_one_language_to_the_other() {
    if !has_compiler() {
        return;
    }
    let place = Place::with(&[("tiny.json", TASK), ("by_hand.sketch", SKETCH)]);
    let (out, bundle) = (place.path("out"), place.path("tiny.akg"));
    let mut akg = to_cpp(&place);
    akg.arg(place.path("by_hand.sketch"))
        .arg("--task")
        .arg(place.path("tiny.json"));
    akg.arg("--out").arg(&out).arg("--bundle").arg(&bundle);
    expect(
        &akg.output().unwrap(),
        PASS,
        &["tiny: pass (cpp on", "kernel main"],
    );
    // What was migrated is itself a source: the directory, and the bundle.
    for source in [&out, &bundle] {
        let there = place.path("there");
        let output = to_triton(&place)
            .arg(source)
            .arg("--out")
            .arg(&there)
            .output()
            .unwrap();
        if lacks_triton(&output) {
            return;
        }
        expect(&output, PASS, &["by_hand_main", "registers"]);
        let text = std::fs::read_to_string(there.join("kernel.triton")).unwrap();
        assert!(text.contains("def by_hand_main("), "{text}");
    }
    expect(
        &to_cpp(&place).arg(&bundle).output().unwrap(),
        PASS,
        &["tiny: pass"],
    );
}

#[test]
fn a_foreign_kernel_is_lifted_from_recorded_replies() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let out = place.path("out");
    let mut akg = to_triton(&place);
    akg.arg(repository("tests/migrate/cuda/transpose.cu"))
        .arg("--out")
        .arg(&out);
    akg.env("AKG_LLM_MODEL", "scripted");
    akg.env("AKG_LLM_REPLAY", repository("tests/migrate/cuda.jsonl"));
    let output = akg.output().unwrap();
    if lacks_triton(&output) {
        return;
    }
    expect(&output, PASS, &["transpose_main", "registers"]);
    let sketch = std::fs::read_to_string(out.join("kernel.sketch")).unwrap();
    assert!(sketch.contains("trans(t)"), "{sketch}");
}

#[test]
fn what_is_missing_is_said() {
    let place = Place::with(&[
        ("tiny.json", TASK),
        ("by_hand.sketch", SKETCH),
        ("wide.sketch", &SKETCH.replace("64, 40]", "64, 41]")),
        ("alone.cu", "__global__ void f() {}"),
        ("f.cpp", "void f(const float *x, float *y) {}"),
        (
            "f.json",
            r#"{"inputs": [{"name": "x", "dtype": "f32", "shape": [4]}], "outputs": [{"name": "y", "dtype": "f32", "shape": [4]}],
                "calls": [{"function": "f", "arguments": ["x", "y"]}]}"#,
        ),
    ]);
    let migrate = |source: &str, task: Option<&str>| {
        let mut akg = to_cpp(&place);
        akg.arg(place.path(source));
        if let Some(task) = task {
            akg.arg("--task").arg(place.path(task));
        }
        akg.output().unwrap()
    };
    expect(&migrate("by_hand.sketch", None), TROUBLE, &["--task"]);
    expect(
        &migrate("wide.sketch", Some("tiny.json")),
        TROUBLE,
        &["the sketch is not one of the task"],
    );
    expect(&migrate("alone.cu", None), TROUBLE, &["interface", "alone.json"]);
    expect(&migrate("f.cpp", None), TROUBLE, &["AKG_LLM_MODEL"]);
}
