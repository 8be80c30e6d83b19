//! `akg build` and `akg sketch` for devices that need not be here.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail the test")]

mod common;

use std::path::PathBuf;

use common::{Place, expect, has_compiler};

const PASS: i32 = 0;
const TROUBLE: i32 = 2;

/// A product with a tail.
const LAYER: &str = r#"{"akg_graph": 1, "name": "layer",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [200, 300]}, {"name": "w", "dtype": "f32", "shape": [300, 400]}],
  "nodes": [{"op": "aten.mm.default", "args": {"self": "x", "mat2": "w"}, "outputs": ["p"]},
            {"op": "aten.relu.default", "args": {"self": "p"}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

fn h200() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/devices/nvidia-h200.json")
}

#[test]
fn a_described_device_gets_a_sketch_of_its_own() {
    let place = Place::new();
    let task = place.file("layer.json", LAYER);
    let sketch = |device: bool| {
        let mut akg = place.akg();
        akg.arg("sketch").arg(&task);
        if device {
            akg.arg("--device").arg(h200());
        }
        expect(&akg.output().unwrap(), PASS, &["sketch layer"])
    };
    let (here, there) = (sketch(false), sketch(true));
    assert!(!here.contains("f16"), "{here}");
    assert!(there.contains("f16"), "{there}");
}

#[test]
fn costs_are_those_of_a_described_device() {
    let place = Place::new();
    let task = place.file("layer.json", LAYER);
    let cost = |device: bool| {
        let mut akg = place.akg();
        akg.arg("sketch").arg(&task).arg("--cost");
        if device {
            akg.arg("--device").arg(h200());
        }
        let text = expect(&akg.output().unwrap(), PASS, &["k0: ", " programs", "total: "]);
        let total = text.lines().last().and_then(|line| line.strip_prefix("total: "));
        let total = total.and_then(|text| text.strip_suffix(" us"));
        total.unwrap().parse::<f64>().unwrap()
    };
    assert!(cost(true) < cost(false));
}

#[test]
fn machine_code_is_built_without_the_device() {
    let place = Place::new();
    let task = place.file("layer.json", LAYER);
    let out = place.path("out");
    let mut akg = place.akg();
    akg.args(["build", "--dsl", "triton", "--device"]).arg(h200());
    let built = akg.arg("--out").arg(&out).arg(&task).output().unwrap();
    let text = String::from_utf8_lossy(&built.stderr);
    if built.status.code() == Some(TROUBLE) && text.contains("akg doctor") {
        eprintln!("skipped: there is no Triton: {text}");
        return;
    }
    expect(&built, PASS, &["layer_k0", "registers"]);
    for file in ["kernel.sketch", "kernel.triton", "artifact.json"] {
        assert!(out.join(file).metadata().unwrap().len() > 0, "{file}");
    }
}

#[test]
fn this_machine_is_a_device_too() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let task = place.file("layer.json", LAYER);
    let built = place.akg().arg("build").arg(&task).output().unwrap();
    expect(&built, PASS, &["compiler"]);
}

#[test]
fn a_device_that_is_described_badly_is_named() {
    let place = Place::new();
    let task = place.file("layer.json", LAYER);
    let device = place.file("device.json", "{\"backend\": 3}");
    let built = place
        .akg()
        .arg("build")
        .arg("--device")
        .arg(&device)
        .arg(&task)
        .output();
    expect(&built.unwrap(), TROUBLE, &["device.json", "expected a string"]);
    let missing = place
        .akg()
        .args(["build", "--device", "nowhere.json"])
        .arg(&task)
        .output();
    expect(&missing.unwrap(), TROUBLE, &["nowhere.json"]);
}
