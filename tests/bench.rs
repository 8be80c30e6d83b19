//! `akg bench` as a user meets it. `tests/resume.rs` kills it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers may fail the test"
)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{Place, expect, has_compiler};
use serde_json::{Value, json};

const ALL_VERIFIED: i32 = 0;
const SOME_FAILED: i32 = 1;
const TROUBLE: i32 = 2;
const STOPPED: i32 = 3;

const SOFTMAX: &str = r#"{"akg_graph": 1, "name": "softmax",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [6, 40]}],
  "nodes": [{"op": "aten.softmax.int", "args": {"self": "x", "dim": -1}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

/// No rule designs this.
const POOL: &str = r#"{"akg_graph": 1, "name": "pool",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [2, 3, 8, 8]}, {"name": "i", "dtype": "i64", "shape": [2, 3, 3, 1]}],
  "nodes": [{"op": "aten.adaptive_avg_pool2d.default", "args": {"self": "x", "output_size": [3, 3]}, "outputs": ["pool"]},
    {"op": "aten.scatter.value", "args": {"self": "pool", "dim": -1, "index": "i", "value": 1.0}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

fn out(place: &Place) -> PathBuf {
    place.path("out")
}

fn bench(place: &Place, args: &[&str]) -> Output {
    let mut command = place.akg();
    command.args(["bench", "kernelbench", "--no-baseline", "--tune", "0"]);
    command.args(["--contest-seconds", "100ms", "--root"]);
    command.arg(place.path("root")).arg("--out").arg(out(place));
    command.args(args).output().unwrap()
}

fn result(place: &Place, file: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(out(place).join(file)).unwrap()).unwrap()
}

/// The names of all fields but those of maps that are named by their content.
fn fields(value: &Value, names: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                names.insert(name.clone());
                if !["knobs", "device", "families"].contains(&name.as_str()) {
                    fields(value, names);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| fields(value, names)),
        _ => {}
    }
}

#[test]
fn memory_bound_kernels_are_held_against_a_copy() {
    if !has_compiler() {
        return;
    }
    let relu = r#"{"akg_graph": 1, "name": "relu", "inputs": [{"name": "x", "dtype": "f32", "shape": [4194304]}],
      "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["y"]}], "outputs": [{"value": "y"}]}"#;
    let place = Place::with(&[
        ("root/level1/1_softmax.json", SOFTMAX),
        ("root/level1/2_relu.json", relu),
    ]);
    let run = bench(&place, &["--copy", "--memory", "32MB"]);
    expect(&run, ALL_VERIFIED, &["memory-bound: 1 kernels", "(1-2)"]);
    let results = result(&place, "results.json");
    let number = |value: &Value| value.as_f64().unwrap();
    let copy = &results["copy"];
    assert_eq!(copy["bytes"], 2 * 16_000_000);
    let bandwidth = number(&copy["bytes"]) / number(&copy["seconds"]);
    let relu = &results["problems"][1];
    let rate = number(&relu["bytes"]) / number(&relu["sides"][0]["warm"]["median"]);
    let share = &results["copy_share"];
    assert!(
        (number(&share["geomean"]) * bandwidth / rate - 1.0).abs() < 1e-9,
        "{results:#}"
    );
    assert_eq!(
        (&share["problems"], &share["lowest_problem"]),
        (&json!(1), &json!("1-2"))
    );
    assert_eq!(share["lowest"], share["geomean"]);
    // What was measured stays.
    expect(
        &bench(&place, &["--copy", "--memory", "32MB", "--resume"]),
        ALL_VERIFIED,
        &["memory-bound"],
    );
    assert_eq!(result(&place, "results.json")["copy"], *copy);
}

#[test]
fn failures_are_results_and_results_stay() {
    if !has_compiler() {
        return;
    }
    let place = Place::with(&[
        ("root/level1/2_softmax.json", SOFTMAX),
        ("root/level2/10_pool_.json", POOL),
    ]);
    expect(
        &bench(&place, &[]),
        SOME_FAILED,
        &["1-2", "softmax", "failed: 2-10 pool"],
    );

    let results = result(&place, "results.json");
    assert_eq!(results["schema"], 1);
    assert_eq!(results["chosen"], 2);
    let problems = results["problems"].as_array().unwrap();
    let [softmax, pool] = problems.as_slice() else {
        panic!("{results:#}");
    };
    assert_eq!(softmax["problem"], "1-2");
    assert_eq!(softmax["status"], "pass");
    assert_eq!(softmax["family"], "element-wise");
    assert_eq!(softmax["bytes"], 2 * 4 * 6 * 40);
    assert_eq!(softmax["speed_counts"], false);
    assert!(softmax["sides"][0]["error"]["rms"].as_f64().unwrap() < 1e-6);
    assert!(softmax["sides"][0]["warm"]["median"].as_f64().unwrap() > 0.0);
    assert_eq!(pool["status"], "unsupported");
    assert_eq!(pool["family"], "pooling");
    assert!(pool["message"].as_str().unwrap().contains("scatter.value"));
    assert_eq!(results["summary"]["all"]["verified"], 1);
    assert_eq!(results["summary"]["families"]["pooling"]["problems"], 1);
    assert_eq!(results["summary"]["failed"][0]["problem"], "2-10");
    let summary = fs::read_to_string(out(&place).join("summary.md")).unwrap();
    assert!(
        summary.contains("| 1-2 | softmax |") && summary.contains("failed: 2-10 pool"),
        "{summary}"
    );

    let documented = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/bench.md")).unwrap();
    let mut names = BTreeSet::new();
    fields(&results, &mut names);
    // Those of an interval and an error.
    for known in ["low", "high", "rms", "max", "level", "missing"] {
        names.remove(known);
    }
    for name in names {
        assert!(
            documented.contains(&format!("`{name}`")),
            "docs/bench.md does not explain `{name}`"
        );
    }

    let show = Command::new(env!("CARGO_BIN_EXE_akg"))
        .arg("show")
        .arg(out(&place).join("1-2"))
        .output();
    expect(&show.unwrap(), 0, &["softmax: pass"]);

    expect(&bench(&place, &[]), TROUBLE, &["is not empty", "--resume"]);
    expect(
        &bench(&place, &["--resume", "--seed", "5"]),
        TROUBLE,
        &["seed was 0 and is now 5"],
    );
    expect(
        &bench(&place, &["--resume"]),
        SOME_FAILED,
        &["1-2", "failed: 2-10 pool"],
    );
    assert_eq!(result(&place, "results.json")["problems"], results["problems"]);
    expect(
        &bench(&place, &["--resume", "--retry"]),
        SOME_FAILED,
        &["failed: 2-10 pool"],
    );
    let retried = result(&place, "2-10/record.json");
    assert_ne!(retried["date"], pool["date"]);
    assert_eq!(retried["status"], pool["status"]);
    expect(
        &bench(&place, &["--resume", "--levels", "1"]),
        ALL_VERIFIED,
        &["all: 1 of 1 verified"],
    );
}

#[test]
fn a_run_in_parts_says_that_it_is_one() {
    let place = Place::with(&[("root/level1/2_softmax.json", SOFTMAX)]);
    expect(
        &bench(&place, &["--stop-after", "0"]),
        STOPPED,
        &["stopped after 0 of 1 problems; go on with --resume"],
    );
    assert_eq!(result(&place, "results.json")["problems"], json!([]));
}

#[test]
fn what_cannot_be_run_is_said_before_anything_runs() {
    let place = Place::with(&[
        ("root/level1/2_softmax.json", SOFTMAX),
        ("root/level2/1_module.py", ""),
    ]);
    expect(
        &bench(&place, &["--levels", "1,4"]),
        TROUBLE,
        &["no level 4", "it has 1-2"],
    );
    expect(
        &bench(&place, &["--problems", "1,3-9"]),
        TROUBLE,
        &["problem 3-9", "1-2"],
    );
    expect(&bench(&place, &["--problems", "one"]), TROUBLE, &["1,2,19-32"]);
    let python = bench(&place, &["--python", "/bin/false"]);
    expect(&python, TROUBLE, &["/bin/false", "no working Python"]);
    let other = out(&place);
    fs::create_dir_all(&other).unwrap();
    fs::write(other.join("notes.txt"), "mine").unwrap();
    expect(
        &bench(&place, &["--resume", "--levels", "1"]),
        TROUBLE,
        &["holds no run"],
    );
}

#[test]
fn a_reader_that_has_gone_is_no_panic() {
    let place = Place::with(&[("root/level1/2_softmax.json", SOFTMAX)]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let sketch = Command::new(env!("CARGO_BIN_EXE_akg"))
        .arg("sketch")
        .arg(place.path("root/level1/2_softmax.json"))
        .stdout(writer)
        .output();
    expect(&sketch.unwrap(), 0, &[]);
}
