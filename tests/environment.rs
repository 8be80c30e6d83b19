//! `akg env` as a learner meets it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers may fail the test"
)]

mod common;

use std::io::Write as _;
use std::process::Stdio;

use common::{Place, expect, has_compiler};
use serde_json::{Value, json};

const TASK: &str = r#"{"akg_graph": 1, "name": "rectify",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [64, 40]}],
  "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

fn sketch(expression: &str) -> String {
    format!(
        "sketch s(x: f32[64, 40]) -> y: f32[64, 40]\nkernel main over (m in 64) {{\n  t = load x[m, 0 :+ 40]\n  \
         store y[m, 0 :+ 40] = {expression}\n}}\n"
    )
}

/// What the environment says to these lines, by its lines.
fn converse(place: &Place, args: &[&str], lines: &[Vec<u8>]) -> Vec<Value> {
    let task = place.file("rectify.json", TASK);
    let mut child = place
        .akg()
        .args(["env", "--contest-seconds", "500ms"])
        .args(args)
        .arg(task)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let all: Vec<u8> = lines
        .iter()
        .flat_map(|line| [line.as_slice(), b"\n"].concat())
        .collect();
    // Who hears that it is over may go before everything is said.
    let _ = input.write_all(&all);
    drop(input);
    let output = child.wait_with_output().unwrap();
    expect(&output, 0, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn events(said: &[Value]) -> Vec<&str> {
    said.iter()
        .map(|message| message["event"].as_str().unwrap())
        .collect()
}

#[test]
fn candidates_are_judged_and_bad_lines_cost_nothing() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let right = json!({"id": 7, "sketch": sketch("max(t, 0.0)")});
    let said = converse(
        &place,
        &["--attempts", "4"],
        &[
            b"not JSON".to_vec(),
            b"\xff\xfe".to_vec(),
            vec![b'x'; 5 << 20],
            b"{\"sketch\": \"a\", \"source\": \"b\"}".to_vec(),
            b"".to_vec(),
            bytes(&right),
            bytes(&json!({"id": "w", "sketch": sketch("t")})),
            bytes(&json!({"source": "int main() {}"})),
            bytes(&json!({"from": 99, "sketch": sketch("max(t, 0.0)")})),
            bytes(&json!({"id": 7, "from": "w", "sketch": sketch("max(t, 0.0)")})),
            bytes(&right),
        ],
    );
    let wanted = [
        "ready", "task", "error", "error", "error", "error", "verdict", "verdict", "verdict", "error",
        "verdict", "end",
    ];
    assert_eq!(events(&said), wanted, "{said:#?}");
    assert_eq!(said[0]["protocol"], 1);
    assert_eq!(said[1]["inputs"], json!(["x: f32[64, 40]"]));
    assert!(said[1].get("sketch").is_none());
    let verdicts: Vec<&Value> = said
        .iter()
        .filter(|message| message["event"] == "verdict")
        .collect();
    let of = |key: &str| -> Vec<Value> { verdicts.iter().map(|verdict| verdict[key].clone()).collect() };
    assert_eq!(of("verdict"), ["pass", "rejected", "rejected", "pass"]);
    assert_eq!(of("id"), [json!(7), json!("w"), Value::Null, json!(7)]);
    assert_eq!(of("attempts_left"), [3, 2, 1, 0]);
    // The element and its values are named.
    assert!(
        verdicts[1]["evidence"].as_str().unwrap().contains('y'),
        "{said:#?}"
    );
    let rewards: Vec<f64> = of("reward")
        .iter()
        .map(|reward| reward.as_f64().unwrap())
        .collect();
    assert_eq!(rewards[1..3], [0.0, 0.0]);
    assert!(rewards[0] > 0.0);
    assert_eq!(verdicts[0]["speedup"].as_f64().unwrap(), rewards[0]);
    // What was judged and timed is not judged and timed again.
    assert_eq!(verdicts[3]["seconds"], verdicts[0]["seconds"]);
    let told = learners_run(&place);
    assert!(told.contains("ended: all attempts were made"), "{told}");
    for number in 0..4 {
        assert!(told.contains(&format!("● {number} learner")), "{told}");
    }
    // The last one goes on from the second, and is shown below it.
    assert!(told.find("● 3") < told.find("● 2"), "{told}");
    assert_eq!(told.matches("rejected").count(), 2, "{told}");
}

/// What `akg trace` tells of the only run of a learner.
fn learners_run(place: &Place) -> String {
    let trace = |args: &[&str]| {
        let output = place.akg().arg("trace").args(args).output().unwrap();
        expect(&output, 0, &[]);
        String::from_utf8(output.stdout).unwrap()
    };
    let runs = trace(&[]);
    let mut learners = runs.lines().filter(|line| line.contains("by learner"));
    let key = learners.next().and_then(|line| line.split(' ').next()).unwrap();
    assert!(learners.next().is_none(), "{runs}");
    trace(&[key])
}

#[test]
fn a_learner_chooses_how_far_to_go() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let next = json!({"next": true});
    let said = converse(
        &place,
        &["--start", "builtin:gelu"],
        &[bytes(&next), bytes(&json!({"stop": true}))],
    );
    assert_eq!(events(&said), ["ready", "task", "task", "end"], "{said:#?}");
    assert_eq!(said[2]["name"], "rectify");
    assert!(
        said[2]["sketch"].as_str().unwrap().starts_with("sketch rectify"),
        "{said:#?}"
    );
    assert_eq!(said[3]["reason"], "the learner stopped");
    let late = converse(&place, &["--budget", "0s"], &[]);
    assert_eq!(events(&late), ["ready", "end"]);
    assert_eq!(late[1]["reason"], "the time is up");
}

#[test]
fn what_a_learner_tried_before_it_left_is_known() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let right = json!({"sketch": sketch("max(t, 0.0)")});
    let said = converse(&place, &[], &[bytes(&right)]);
    assert_eq!(events(&said), ["ready", "task", "verdict"], "{said:#?}");
    let told = learners_run(&place);
    assert!(told.contains("ended: the learner left"), "{told}");
}
