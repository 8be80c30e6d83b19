//! `akg profile`: what it says of kernels whose work is known.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers may fail the test"
)]

mod common;

use std::path::{Path, PathBuf};
use std::process::Output;

use common::{Place, expect, has_compiler};
use serde_json::Value;

const PASS: i32 = 0;
const TROUBLE: i32 = 2;

/// A product of 2 · 64 · 96 · 128 operations, and a softmax.
const LAYER: &str = r#"{"akg_graph": 1, "name": "layer",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [64, 96]}, {"name": "w", "dtype": "f32", "shape": [96, 128]}],
  "nodes": [{"op": "aten.mm.default", "args": {"self": "x", "mat2": "w"}, "outputs": ["p"]},
            {"op": "aten.softmax.int", "args": {"self": "p", "dim": -1}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

fn h200() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples/devices/nvidia-h200.json")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
        panic!("{e}: {}", String::from_utf8_lossy(&output.stdout));
    })
}

/// The sum of a number over all launches.
fn sum(profile: &Value, number: &str) -> f64 {
    let launches = profile["launches"].as_array().unwrap();
    launches
        .iter()
        .map(|l| l.pointer(number).unwrap().as_f64().unwrap())
        .sum()
}

/// What holds for every profile of the layer.
fn check(profile: &Value) {
    assert_eq!(profile["name"], "layer");
    assert!(profile["seconds"].as_f64().unwrap() > 0.0);
    assert!((sum(profile, "/share") - 1.0).abs() < 1e-9);
    let ops = sum(profile, "/work/tensor_flops") + sum(profile, "/work/other_ops");
    let product = 2.0 * 64.0 * 96.0 * 128.0;
    // Schemes for precision multiply up to four times, and prepare the operands.
    assert!(ops >= product && ops < 8.0 * product, "{ops}");
    let bytes = 4.0 * (64.0 * 96.0 + 96.0 * 128.0 + 64.0 * 128.0);
    assert!(sum(profile, "/work/bytes") >= bytes);
    for launch in profile["launches"].as_array().unwrap() {
        assert!(launch["resources"]["programs"].as_u64().unwrap() > 0);
        assert!(!launch["finding"]["evidence"].as_str().unwrap().is_empty());
    }
}

/// The width of a picture.
fn width(path: &Path) -> u32 {
    let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
    png::Decoder::new(file).read_info().unwrap().info().width
}

#[test]
fn a_kernel_on_this_machine_is_profiled() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let task = place.file("layer.json", LAYER);
    let (out, bundle) = (place.path("out"), place.path("layer.akg"));
    let akg = |words: &[&str], path: &Path| place.akg().args(words).arg(path).output().unwrap();
    let profiled = place
        .akg()
        .args(["profile", "--json", "--out"])
        .arg(&out)
        .arg(&task)
        .output()
        .unwrap();
    expect(&profiled, PASS, &[]);
    let profile = json(&profiled);
    check(&profile);
    assert_eq!(
        (&profile["measured"], &profile["target"]["backend"]),
        (&true.into(), &"cpu".into())
    );
    assert_eq!(width(&out.join("roofline.png")), 1090);
    assert_eq!(width(&out.join("timeline.png")), 1200);
    assert_eq!(json_file(&out.join("profile.json")), profile);
    let text = std::fs::read_to_string(out.join("profile.txt")).unwrap();
    assert!(text.contains("bottleneck: "), "{text}");

    // The same kernel in a bundle has the same launches with the same work.
    let made = place
        .akg()
        .args([
            "run",
            "--no-baseline",
            "--tune",
            "0",
            "--contest-seconds",
            "1",
            "--bundle",
        ])
        .arg(&bundle)
        .arg(&task)
        .output()
        .unwrap();
    expect(&made, PASS, &[]);
    let again = akg(&["profile", "--json"], &bundle);
    expect(&again, PASS, &[]);
    let again = json(&again);
    check(&again);
    assert_eq!(sum(&again, "/work/bytes"), sum(&profile, "/work/bytes"));
}

fn json_file(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_device_elsewhere_is_estimated() {
    let place = Place::new();
    let task = place.file("layer.json", LAYER);
    let mut akg = place.akg();
    akg.args(["profile", "--json", "--dsl", "triton", "--device"])
        .arg(h200());
    let profiled = akg.arg(&task).output().unwrap();
    let text = String::from_utf8_lossy(&profiled.stderr);
    if profiled.status.code() == Some(TROUBLE) && text.contains("akg doctor") {
        eprintln!("skipped: there is no Triton: {text}");
        return;
    }
    expect(&profiled, PASS, &[]);
    let profile = json(&profiled);
    check(&profile);
    assert_eq!(profile["measured"], false);
    for launch in profile["launches"].as_array().unwrap() {
        let number = |what: &str| launch.pointer(what).unwrap().as_u64().unwrap();
        let (threads, registers) = (number("/resources/threads"), number("/resources/registers"));
        assert!((1..=255).contains(&registers) && threads.is_multiple_of(32));
        // What is in flight has its registers.
        assert!(number("/occupancy/blocks") * threads * registers <= 65536);
    }
}

#[test]
fn what_is_no_task_is_refused() {
    let place = Place::new();
    let profiled = place.akg().args(["profile", "nothing.txt"]).output().unwrap();
    expect(&profiled, TROUBLE, &["is no task"]);
}
