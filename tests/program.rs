//! The `akg` program as a user meets it: what it prints, how it exits, and what it does with bad input.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers may fail the test"
)]

mod common;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Output;

use common::{Place, expect, has_compiler};
use serde_json::Value;

const PASS: i32 = 0;
const FAIL: i32 = 1;
const TROUBLE: i32 = 2;

/// A graph that takes milliseconds.
const TINY: &str = r#"{"akg_graph": 1, "name": "tiny",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [6, 40]}],
  "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["r"]},
            {"op": "aten.softmax.int", "args": {"self": "r", "dim": -1}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
        panic!("{e}: {}", String::from_utf8_lossy(&output.stdout));
    })
}

#[test]
fn a_graph_becomes_a_verified_kernel() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let task = place.file("tiny.json", TINY);
    let out = place.path("out");
    let run = place
        .akg()
        .args(["run", "--json", "--no-baseline", "--out"])
        .arg(&out)
        .arg(&task)
        .output()
        .unwrap();
    expect(&run, PASS, &[]);
    let report = json(&run);
    assert_eq!(report["schema"], 2);
    assert_eq!(report["status"], "pass");
    assert_eq!(
        report["kernels"][0]["operators"],
        serde_json::json!(["relu", "softmax"])
    );
    assert!(report["error"]["rms"].as_f64().unwrap() < 1e-6);
    let compared = report["bytes_compared"].as_u64().unwrap();
    assert!(compared >= 4 * 6 * 40 * 4, "{compared}");

    let show = place
        .akg()
        .arg("show")
        .arg("--sources")
        .arg(&out)
        .output()
        .unwrap();
    expect(
        &show,
        PASS,
        &[
            "pass in class fp32",
            "kernel k0: relu + softmax",
            "sketch tiny",
            "extern \"C\"",
        ],
    );
    let check = place
        .akg()
        .arg("check")
        .arg(out.join("kernel.sketch"))
        .output()
        .unwrap();
    expect(&check, PASS, &["ok"]);
    let again = place
        .akg()
        .args(["run", "--no-baseline"])
        .arg(out.join("task.json"))
        .output()
        .unwrap();
    expect(&again, PASS, &["verdict: pass"]);
}

#[test]
fn one_kernel_serves_all_sizes_of_an_open_extent() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let task = place.file("tiny.json", TINY);
    let open = place.file("open.json", &TINY.replace("[6, 40]", "[6, \"N\"]"));
    let akg = |arguments: &[&str], task: &Path| {
        let mut command = place.akg();
        command.args(["run", "--json", "--no-baseline", "--tune", "0s"]);
        command.args(arguments).arg(task).output().unwrap()
    };
    let cases = [
        (&["--symbolic", "x.1=N"][..], &task, 40),
        (&["--hint", "N=100:2..120"], &open, 100),
    ];
    for (arguments, task, hint) in cases {
        let run = akg(arguments, task);
        expect(&run, PASS, &[]);
        let report = json(&run);
        assert_eq!(report["task"]["inputs"][0], "x: f32[6, N]");
        assert_eq!(report["task"]["hints"]["N"], hint);
        let checks = report["checks"].as_array().unwrap().iter();
        let sizes: BTreeSet<i64> = checks.filter_map(|c| c["dims"]["N"].as_i64()).collect();
        assert!(sizes.len() > 3, "{sizes:?}");
        assert!(
            hint != 100 || sizes.iter().all(|n| (2..=120).contains(n)),
            "{sizes:?}"
        );
    }

    for (arguments, task, words) in [
        (&[][..], &open, "--hint N=64"),
        (&["--hint", "N=0"], &open, "is no hint"),
        (&["--hint", "M=3", "--hint", "N=3"], &open, "no extent `M`"),
        (&["--symbolic", "x=N"], &task, "names no dimension"),
        (&["--symbolic", "x.2=N"], &task, "no dimension 2"),
        (&["--symbolic", "z.0=N"], &task, "it has x"),
        (
            &["--symbolic", "x.0=N", "--symbolic", "x.1=N"],
            &task,
            "for 6 and for 40",
        ),
        (&["--symbolic", "x.0=N", "--hint", "N=7"], &task, "not 7"),
    ] {
        let run = akg(arguments, task);
        assert_eq!(run.status.code(), Some(TROUBLE), "{arguments:?}");
        let said = [&run.stdout[..], &run.stderr].concat();
        assert!(
            String::from_utf8_lossy(&said).contains(words),
            "{arguments:?}: {run:?}"
        );
    }
}

#[test]
fn dropout_is_verified_by_the_seed() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let graph = |node: &str| {
        format!(
            r#"{{"akg_graph": 1, "name": "drop",
  "inputs": [{{"name": "x", "dtype": "f32", "shape": [30, 50]}}, {{"name": "seed", "dtype": "i64", "shape": []}}],
  "nodes": [{node}, {{"op": "aten.softmax.int", "args": {{"self": "d", "dim": 1}}, "outputs": ["y"]}}],
  "outputs": [{{"value": "y"}}]}}"#
        )
    };
    let seeded = graph(
        r#"{"op": "akg.seeded_dropout.default", "args": {"input": "x", "seed": "seed", "p": 0.2}, "outputs": ["d"]}"#,
    );
    let run = |name, graph: &str| {
        let task = place.file(name, graph);
        let akg = place
            .akg()
            .args(["run", "--json", "--no-baseline"])
            .arg(task)
            .output();
        akg.unwrap()
    };
    let report = json(&run("seeded.json", &seeded));
    assert_eq!(report["status"], "pass");
    assert_eq!(
        report["kernels"][0]["operators"],
        serde_json::json!(["seeded_dropout", "softmax"])
    );
    let random = graph(
        r#"{"op": "aten.dropout.default", "args": {"input": "x", "p": 0.2, "train": true}, "outputs": ["d"]}"#,
    );
    let words = "no design rule yet for aten.dropout.default";
    expect(&run("random.json", &random), TROUBLE, &[words]);
}

#[test]
fn hand_written_candidates_meet_the_same_judge() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let task = place.file("tiny.json", TINY);
    let stub = place
        .akg()
        .args(["export", "--form", "stub", "--task"])
        .arg(&task)
        .output()
        .unwrap();
    let stub = expect(&stub, PASS, &["akg-launch", "x", "y"]);
    let header: Vec<&str> = stub.lines().take_while(|l| l.starts_with("//")).collect();
    let header = header.join(
        "
",
    );
    let write = |name: &str, body: &str| {
        let text = format!(
            "{header}\n#include <cstdint>\n#include <cmath>\n#include <cstdlib>\n#include <vector>\n#include <cstring>\n\
             extern \"C\" void kernel(void *const *tensors, const int64_t *, int64_t, int64_t) {{\n\
             const float *x = (const float *)tensors[0]; float *y = (float *)tensors[1];\n{body}\n}}\n"
        );
        place.file(name, &text)
    };
    let softmax = "for (int i = 0; i < 6; i++) { double s = 0, m = 0; \
                   for (int j = 0; j < 40; j++) m = x[i*40+j] > m ? x[i*40+j] : m; \
                   for (int j = 0; j < 40; j++) s += std::exp((x[i*40+j] > 0 ? x[i*40+j] : 0) - m); \
                   for (int j = 0; j < 40; j++) y[i*40+j] = std::exp((x[i*40+j] > 0 ? x[i*40+j] : 0) - m) / s; }";
    let cases = [
        ("right.cpp", softmax.to_owned(), "pass", PASS),
        (
            "wrong.cpp",
            softmax.replace("/ s", "/ s * 1.001"),
            "wrong-values",
            FAIL,
        ),
        ("short.cpp", softmax.replace("i < 6", "i < 5"), "unwritten", FAIL),
        (
            "crash.cpp",
            "*(volatile int *)nullptr = 1;".to_owned(),
            "crashed",
            FAIL,
        ),
        ("exit.cpp", "std::exit(0);".to_owned(), "crashed", FAIL),
        (
            "endless.cpp",
            "for (volatile int i = 0;; i = 1 - i) {}".to_owned(),
            "timed-out",
            FAIL,
        ),
        (
            "hungry.cpp",
            "for (;;) { char *p = new char[1 << 26]; p[0] = 1; *(char *volatile *)&p; }".to_owned(),
            "out-of-memory",
            FAIL,
        ),
        ("broken.cpp", "this is no C++".to_owned(), "compile-failed", FAIL),
        (
            "writes_input.cpp",
            format!("((float *)x)[0] = 7; {softmax}"),
            "input-changed",
            FAIL,
        ),
    ];
    for (name, body, status, code) in cases {
        let source = write(name, &body);
        let verify = place
            .akg()
            .args(["verify", "--json", "--no-baseline", "--timeout", "5s", "--task"])
            .arg(&task)
            .arg(&source)
            .output()
            .unwrap();
        expect(&verify, code, &[]);
        let report = json(&verify);
        assert_eq!(report["status"], status, "{name}: {report:#}");
        assert!(
            code == PASS || !report["message"].as_str().unwrap().is_empty(),
            "{name}"
        );
    }
}

#[test]
fn bad_tasks_are_explained() {
    let place = Place::new();
    let say = |arg: &Path| {
        place
            .akg()
            .args(["run", "--no-baseline"])
            .arg(arg)
            .output()
            .unwrap()
    };
    expect(
        &say(Path::new("builtin:nothing")),
        TROUBLE,
        &["no built-in task `nothing`", "softmax"],
    );
    expect(
        &say(Path::new("kernel.txt")),
        TROUBLE,
        &["KernelBench-form .py", "builtin:NAME"],
    );
    expect(&say(Path::new("missing.json")), TROUBLE, &["missing.json"]);
    let cut = place.file("cut.json", &TINY[..200]);
    expect(&say(&cut), TROUBLE, &["cut.json"]);
    let unknown = place.file("unknown.json", &TINY.replace("softmax.int", "sofmax.int"));
    expect(&say(&unknown), TROUBLE, &["aten.sofmax.int"]);
    let shape = place.file("shape.json", &TINY.replace("\"dim\": -1", "\"dim\": 5"));
    expect(&say(&shape), TROUBLE, &["softmax", "f32[6, 40]"]);
    let output = place
        .akg()
        .args(["run", "--json", "builtin:nothing"])
        .output()
        .unwrap();
    expect(&output, TROUBLE, &[]);
    assert_eq!(json(&output)["status"], "not-found");
}

#[test]
fn bad_sketches_are_shown_where_they_are_wrong() {
    let place = Place::new();
    let text = "sketch s(x: f32[8, 8]) -> y: f32[8, 8]\nkernel k over (i in 8) {\n  t = load x[i, 0 :+ 8]\n  \
                store y[i, 0 :+ 8] = t + u\n}\n";
    let sketch = place.file("bad.sketch", text);
    let check = place.akg().arg("check").arg(&sketch).output().unwrap();
    expect(&check, FAIL, &["error", "4:", "u", "^"]);
}

#[test]
fn missing_tools_and_full_disks_cost_nothing() {
    let place = Place::new();
    let task = place.file("tiny.json", TINY);
    let empty = place.path("empty");
    std::fs::create_dir(&empty).unwrap();
    let run = place
        .akg()
        .args(["run", "--json", "--no-baseline"])
        .arg(&task)
        .env("PATH", &empty)
        .env_remove("CXX")
        .output()
        .unwrap();
    expect(&run, TROUBLE, &["C++ compiler"]);
    assert_eq!(json(&run)["status"], "tool-missing");

    for (sanitizers, says) in [
        ("--sanitize", "no sanitizer for `memory`"),
        ("--sanitize=races,memory", "no sanitizer for `races`"),
        ("--sanitize=leaks", "unknown sanitizer `leaks`"),
    ] {
        let run = place.akg().args(["run", sanitizers]).arg(&task).output().unwrap();
        expect(&run, TROUBLE, &[says]);
    }

    for (devices, says) in [("0,7", "none with number 7"), ("none", "names no numbers")] {
        let run = place
            .akg()
            .args(["run", "--devices", devices])
            .arg(&task)
            .output()
            .unwrap();
        expect(&run, TROUBLE, &[says]);
    }

    if cfg!(target_os = "linux") {
        let out = place.path("full");
        std::fs::create_dir(&out).unwrap();
        std::os::unix::fs::symlink("/dev/full", out.join("report.json")).unwrap();
        let run = place
            .akg()
            .args(["run", "--no-baseline", "--out"])
            .arg(&out)
            .arg(&task)
            .output()
            .unwrap();
        expect(&run, TROUBLE, &["cannot write", "report.json", "No space left"]);
    }
}

#[test]
fn bad_modules_are_explained() {
    if let Err(e) = akg::python::Environment::find(&akg::python::Config::default()) {
        eprintln!("skipped: bad_modules_are_explained: {e}");
        return;
    }
    let place = Place::new();
    let good = "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        \
                return torch.relu(x)\n\n\ndef get_inputs():\n    return [torch.rand(4, 5)]\n\n\ndef get_init_inputs():\n    \
                return []\n";
    let cases = [
        (
            "syntax.py",
            good.replace("class Model(", "class Model(("),
            vec!["syntax.py", "5"],
        ),
        (
            "nothing.py",
            good.replace("class Model", "class Mode"),
            vec!["Model"],
        ),
        (
            "branch.py",
            good.replace("return torch.relu(x)", "return x if x.sum() > 0 else -x"),
            vec!["depend", "branch.py"],
        ),
    ];
    for (name, text, words) in cases {
        let module = place.file(name, &text);
        let run = place
            .akg()
            .args(["run", "--no-baseline"])
            .arg(&module)
            .output()
            .unwrap();
        expect(&run, TROUBLE, &words);
    }
    let module = place.file("good.py", good);
    for (memory, words) in [
        (
            "0.05kB",
            &["halved 3 times", "may take: 50", "with fewer halvings: 240"][..],
        ),
        ("1.5XB", &["`1.5XB` is not a size"]),
        ("1.5.2GB", &["`1.5.2GB` is not a size"]),
    ] {
        let run = place
            .akg()
            .args(["run", "--memory", memory])
            .arg(&module)
            .output()
            .unwrap();
        expect(&run, TROUBLE, words);
    }
    let run = place
        .akg()
        .args(["run", "--tune", "0"])
        .arg(&module)
        .output()
        .unwrap();
    expect(&run, PASS, &["verdict: pass", "PyTorch eager"]);
    // In another class than fp32, PyTorch takes part at the precision of the class, too.
    let product = good.replace("torch.relu(x)", "torch.relu(x @ x.T)");
    let module = place.file("product.py", &product);
    let run = place
        .akg()
        .args(["run", "--json", "--accuracy", "half"])
        .args(["--tune", "0", "--contest-seconds", "1"])
        .arg(&module)
        .output()
        .unwrap();
    expect(&run, PASS, &[]);
    let report = json(&run);
    let baselines = report["baselines"].as_array().unwrap();
    assert_eq!(baselines.len(), 4, "{baselines:#?}");
    for baseline in baselines {
        let is_half = baseline["name"].as_str().unwrap().ends_with(" (half)");
        assert_eq!(baseline["precision"], if is_half { "half" } else { "fp32" });
        let error = baseline["error"]["rms"].as_f64().unwrap();
        assert_eq!(error > 1e-6, is_half, "{baseline:#}");
    }
    let rivals = report["speed"]["sides"].as_array().unwrap().len() - 1;
    assert_eq!(rivals, baselines.len());
}

#[test]
fn what_was_found_is_remembered_and_moved() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    // One product has knobs to tune.
    let graph = r#"{"akg_graph": 1, "name": "product",
      "inputs": [{"name": "a", "dtype": "f32", "shape": [96, 64]}, {"name": "b", "dtype": "f32", "shape": [64, 80]}],
      "nodes": [{"op": "aten.mm.default", "args": {"self": "a", "mat2": "b"}, "outputs": ["y"]}],
      "outputs": [{"value": "y"}]}"#;
    let task = place.file("product.json", graph);
    let run = |extra: &[&str]| {
        let run = place
            .akg()
            .args(["run", "--json", "--no-baseline"])
            .args(extra)
            .arg(&task)
            .output()
            .unwrap();
        expect(&run, PASS, &[]);
        json(&run)
    };
    let first = run(&["--tune", "1s"]);
    assert_eq!(first["recalled"], false);
    // Without tuning, so that a machine in use by others changes nothing.
    let second = run(&["--tune", "0"]);
    assert_eq!(second["recalled"], true);
    assert_eq!(second["knobs"], first["knobs"]);
    assert_eq!(second["checks"], first["checks"]);
    assert_eq!(second["tuning"]["origin"], "record");
    assert_eq!(second["tuning"]["trials"], serde_json::json!([]));
    // Stricter or other judges decide for themselves.
    assert_eq!(run(&["--tune", "0", "--secret", "7"])["recalled"], false);
    assert_eq!(run(&["--tune", "0", "--no-store"])["recalled"], false);

    let file = place.path("records.jsonl");
    let records = |args: &[&str]| place.akg().arg("records").args(args).output().unwrap();
    let name = file.to_str().unwrap();
    expect(&records(&["export", name]), PASS, &["records.jsonl"]);
    expect(&records(&["list"]), PASS, &["product", "[96, 64]", "fp32"]);
    let other = place.path("other.sqlite");
    let other = other.to_str().unwrap();
    expect(
        &records(&["import", "--store", other, name]),
        PASS,
        &["new record"],
    );
    expect(
        &records(&["import", "--store", other, name]),
        PASS,
        &["0 new records"],
    );
    let exported = records(&["export", "--store", other, "-"]);
    assert_eq!(
        String::from_utf8_lossy(&exported.stdout),
        std::fs::read_to_string(&file).unwrap()
    );

    let text = place.file("text.sqlite", "not a database, not at all");
    let bad = place
        .akg()
        .args(["run", "--store"])
        .arg(&text)
        .arg(&task)
        .output()
        .unwrap();
    expect(&bad, TROUBLE, &["no store of akg", "text.sqlite"]);
}
