//! The `akg` program with hostile files: each gets an error that says which limit it went beyond, and nothing hangs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers may fail the test"
)]

mod common;

use std::io::Write as _;
use std::process::{Output, Stdio};

use common::{Place, expect};
use serde_json::json;

const FAIL: i32 = 1;
const TROUBLE: i32 = 2;

/// A graph that returns its input, whose first extent is given.
fn graph(extent: &str) -> String {
    json!({"akg_graph": 1, "name": "g", "nodes": [], "outputs": [{"value": "x"}],
        "inputs": [{"name": "x", "dtype": "f32", "shape": [extent]}]})
    .to_string()
}

fn sketch(header: &str, grid: &str) -> String {
    format!(
        "sketch s(x: f32[N, M]) -> y: f32[N, M]\n{header}\nkernel k over (m in {grid}) {{\n  store y[m, 0 :+ 4] = load x[m, 0 :+ 4] else 0\n}}\n"
    )
}

fn nested(open: &str, close: &str, times: usize) -> String {
    format!("{}N{}", open.repeat(times), close.repeat(times))
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn hostile_texts_are_errors_that_name_the_limit() {
    let doubling = |op: &str| {
        let lets = (1..200).map(|i| format!("let a{i} = {op}(a{0}, a{0} + M)\n", i - 1));
        format!("let a0 = N\n{}", lets.collect::<String>())
    };
    let outputs: Vec<_> = (0..100_000).map(|_| json!({"value": "x"})).collect();
    let many = json!({"akg_graph": 1, "name": "g", "nodes": [], "outputs": outputs,
        "inputs": [{"name": "x", "dtype": "f32", "shape": ["N"]}]});
    let cases = [
        ("a.json", graph(&nested("(", ")", 20_000)), TROUBLE, "256 levels"),
        ("b.json", graph(&nested("-", "", 20_000)), TROUBLE, "256 levels"),
        (
            "c.json",
            graph("(A + B + C + D + E) * ".repeat(60).trim_end_matches(" * ")),
            TROUBLE,
            "1024 terms",
        ),
        (
            "d.json",
            graph(&nested("min(M, ", " * 2)", 200)),
            TROUBLE,
            "64 levels",
        ),
        ("e.json", graph("9223372036854775807 * N * 3"), TROUBLE, "64-bit"),
        ("f.json", many.to_string(), TROUBLE, "at most 4096"),
        (
            "g.json",
            format!("{{\"x\": {}", "[".repeat(200_000)),
            TROUBLE,
            "EOF while parsing",
        ),
        ("a.sketch", sketch(&doubling("max"), "a199"), FAIL, "1024 terms"),
        (
            "b.sketch",
            sketch("", &nested("(", ")", 20_000)),
            FAIL,
            "96 levels",
        ),
        (
            "c.sketch",
            sketch("", "(N + M) * ".repeat(60).trim_end_matches(" * ")),
            FAIL,
            "1024 terms",
        ),
        (
            "d.sketch",
            sketch("let a = 9223372036854775807 * 2", "N"),
            FAIL,
            "64-bit",
        ),
        ("e.sketch", sketch("", "9223372036854775807"), FAIL, "2^60"),
        (
            "a.cpp",
            format!(
                "// akg-launch: {}\n",
                json!({"tensors": [], "launches": [
            {"kernel": "k", "grid": ["(A + B + C + D + E) * ".repeat(60) + "1"], "tensors": []}]})
            ),
            TROUBLE,
            "1024 terms",
        ),
    ];
    let place = Place::new();
    for (name, text, status, limit) in cases {
        let file = place.file(name, &text);
        let output = place.akg().arg("check").arg(&file).output().unwrap();
        expect(&output, status, &[]);
        let said = error(&output);
        assert!(said.contains(limit), "{name}: {said}");
        assert!(said.len() < 20_000, "{name} says {} bytes", said.len());
    }
}

#[test]
fn endless_files_are_refused() {
    let place = Place::new();
    let pipe = place.path("pipe.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    let link = |name: &str, to: &str| {
        let path = place.path(name);
        std::os::unix::fs::symlink(to, &path).unwrap();
        path
    };
    let mut files = vec![
        link("zero.json", "/dev/zero"),
        link("zero.sketch", "/dev/zero"),
        link("zero.cpp", "/dev/zero"),
    ];
    if made.is_ok_and(|status| status.success()) {
        files.push(pipe);
    }
    for file in files {
        for command in ["check", "show", "verify"] {
            let mut akg = place.akg();
            akg.arg(command).arg(&file);
            if command == "verify" {
                akg.args(["--task", "builtin:softmax"]);
            }
            let output = akg.output().unwrap();
            expect(&output, TROUBLE, &[]);
            assert!(
                error(&output).contains("no regular file"),
                "{command}: {}",
                error(&output)
            );
        }
    }
}

#[test]
fn names_do_not_reach_the_terminal_as_commands() {
    let place = Place::new();
    let name = "\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}";
    let text = json!({"akg_graph": 1, "name": name, "nodes": [], "outputs": [{"value": name}],
        "inputs": [{"name": name, "dtype": "f32", "shape": [4]}]});
    let file = place.file("g.json", &text.to_string());
    let broken = place.file("h.json", &text.to_string().replace("f32", "f33\\u001b[2J"));
    for file in [file, broken] {
        let output = place.akg().arg("check").arg(&file).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("\\u001b"), "{said}");
        let controls = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!said.contains(controls), "{said:?}");
    }
}

#[test]
fn a_deadline_ends_a_command() {
    let place = Place::new();
    // Waits for a line that never comes.
    let mut child = place
        .akg()
        .args(["env", "builtin:softmax", "--deadline", "1s"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"\n").unwrap();
    let output = child.wait_with_output().unwrap();
    expect(&output, TROUBLE, &[]);
    assert!(error(&output).contains("--deadline"), "{}", error(&output));
    drop(stdin);
}
