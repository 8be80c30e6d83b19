//! `akg run --agent llm` with a model that answers by files: a thread that knows two sketches, of which the first is wrong.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers may fail the test"
)]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{Place, expect, has_compiler};
use serde_json::{Value, json};

const PASS: i32 = 0;
const TROUBLE: i32 = 2;

const TASK: &str = r#"{"akg_graph": 1, "name": "tiny",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [64, 40]}],
  "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

fn answer(expression: &str) -> Value {
    let text = format!(
        "One row at a time.\n\n```sketch\nsketch rows_of_a_model(x: f32[64, 40]) -> y: f32[64, 40]\n\
         kernel main over (m in 64) {{\n  t = load x[m, 0 :+ 40]\n  store y[m, 0 :+ 40] = {expression}\n}}\n```\n"
    );
    json!({"text": text, "usage": {"input": 1000, "output": 100}})
}

/// The requests in a folder that nobody answered.
fn open_requests(folder: &Path) -> Vec<(PathBuf, PathBuf)> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let reply = |path: &Path| {
        let name = path.file_name()?.to_str()?;
        Some(path.with_file_name(format!("{}.reply.json", name.strip_suffix(".request.json")?)))
    };
    let pairs = entries.filter_map(|path| Some((path.clone(), reply(&path)?)));
    pairs.filter(|(_, reply)| !reply.exists()).collect()
}

/// Answers what is asked in `folder` until `over`. Returns the texts of the requests.
fn serve(folder: &Path, answers: &[Value], over: &AtomicBool) -> Vec<String> {
    let mut asked = Vec::new();
    while !over.load(Ordering::Relaxed) {
        for (request, reply) in open_requests(folder) {
            let Some(answer) = answers.get(asked.len()) else {
                continue;
            };
            asked.push(std::fs::read_to_string(request).unwrap());
            let half = reply.with_extension("half");
            std::fs::write(&half, answer.to_string()).unwrap();
            std::fs::rename(&half, &reply).unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    asked
}

/// Runs the task with a model that gives these answers.
fn run(place: &Place, answers: &[Value]) -> (std::process::Output, Vec<String>) {
    run_as(place, "asked", &["--agent", "llm", "--passes", "0"], answers)
}

/// The same with other agents, and with requests in a folder of this name.
fn run_as(
    place: &Place,
    folder: &str,
    agents: &[&str],
    answers: &[Value],
) -> (std::process::Output, Vec<String>) {
    let folder = place.path(folder);
    let over = AtomicBool::new(false);
    let mut command = akg_run(place, &folder, agents);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&folder, answers, &over));
        let output = command.output().unwrap();
        over.store(true, Ordering::Relaxed);
        (output, server.join().unwrap())
    })
}

/// The program that runs the task and asks in a folder, which is made.
fn akg_run(place: &Place, folder: &Path, agents: &[&str]) -> Command {
    std::fs::create_dir_all(folder).unwrap();
    let mut command = place.akg();
    command
        .args(["run", "--json", "--no-baseline", "--tune", "0s"])
        .args(agents)
        .arg(place.file("tiny.json", TASK))
        .env("AKG_LLM_PROVIDER", "files")
        .env("AKG_LLM_FOLDER", folder);
    command
}

#[test]
fn what_a_model_designs_is_judged_like_anything_else() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let (output, asked) = run(&place, &[answer("max(t, 1.0)"), answer("max(t, 0.0)")]);
    expect(&output, PASS, &["\"pass\""]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["kernels"][0]["name"], "main");
    assert_eq!(report["models"]["calls"], 2);
    assert_eq!(report["models"]["usage"]["input"], 2000);
    // The first request has the graph and the language, the second what was wrong with the first answer.
    assert_eq!(asked.len(), 2);
    for word in ["graph tiny", "The sketch language", "relu.default"] {
        assert!(asked[0].contains(word), "{word}");
    }
    assert!(
        asked[1].contains("gives other results than the graph"),
        "{}",
        asked[1]
    );
}

/// The rules first, then one pass.
const HYBRID: [&str; 4] = ["--agent", "hybrid", "--passes", "1"];

/// What an analyst's model says.
fn recommendation() -> Value {
    let advice =
        json!({"gain": 1.5, "place": "sketch", "what": "Take one row at a time.", "why": "It is short."});
    json!({"text": advice.to_string()})
}

#[test]
fn a_run_that_was_killed_asks_only_what_was_not_answered() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let folder = place.path("first");
    let mut child = akg_run(&place, &folder, &HYBRID)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The analyst is answered; the process dies while the designer waits.
    let mut answered = false;
    loop {
        if let Some((_, reply)) = open_requests(&folder).pop() {
            if answered {
                break;
            }
            let half = reply.with_extension("half");
            std::fs::write(&half, recommendation().to_string()).unwrap();
            std::fs::rename(&half, &reply).unwrap();
            answered = true;
        }
        assert!(
            child.try_wait().unwrap().is_none(),
            "it ended before it was killed"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // Started again, where nobody knows of the first folder.
    let (output, asked) = run_as(&place, "second", &HYBRID, &[answer("max(t, 0.0)")]);
    expect(&output, PASS, &["\"pass\""]);
    assert_eq!(asked.len(), 1);
    assert!(asked[0].contains("Take one row at a time."), "{}", asked[0]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["passes"].as_array().unwrap().len(), 1);
}

#[test]
fn models_look_for_something_faster_than_the_rules_and_are_not_asked_again() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let advice =
        json!({"what": "Take one row at a time.", "why": "It is short.", "gain": 1.5, "place": "sketch"});
    let answers = [json!({"text": advice.to_string()}), answer("max(t, 0.0)")];
    let hybrid = ["--agent", "hybrid", "--passes", "1"];
    let (output, asked) = run_as(&place, "asked", &hybrid, &answers);
    expect(&output, PASS, &["\"pass\""]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // Whichever is faster here, and whoever uses the machine meanwhile, both were verified and compared.
    assert_eq!(report["attempts"].as_array().unwrap().len(), 2);
    let passes = report["passes"].as_array().unwrap();
    let advice = passes[0]["recommendation"].to_string();
    assert_eq!((passes.len(), recommendation()), (1, json!({"text": advice})));
    let ending = passes[0]["ending"].as_object().unwrap();
    assert!(
        ["faster", "not-faster", "disturbed"]
            .iter()
            .any(|known| ending.contains_key(*known)),
        "{ending:?}"
    );
    // The analyst saw the profile, the designer what was advised.
    assert!(asked[0].contains("bottleneck") && asked[1].contains("Take one row at a time."));
    // The same again, where nobody answers.
    let (output, asked) = run_as(&place, "again", &HYBRID, &[]);
    expect(&output, PASS, &["\"pass\""]);
    let again: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((asked.len(), &again["passes"]), (0, &report["passes"]));
}

#[test]
fn models_are_shown_what_is_known_unless_that_is_not_wanted() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let like = TASK.replace("[64, 40]", "[96, 40]").replace("tiny", "like");
    let mut rules = place.akg();
    rules
        .args([
            "run",
            "--no-baseline",
            "--tune",
            "0s",
            "--contest-seconds",
            "100ms",
        ])
        .arg(place.file("like.json", &like));
    expect(&rules.output().unwrap(), PASS, &[]);
    // The kernel of the like is shown, with a guide to the language.
    let llm = ["--agent", "llm", "--passes", "0"];
    let (output, asked) = run_as(&place, "asked", &llm, &[answer("max(t, 0.0)")]);
    expect(&output, PASS, &["\"pass\""]);
    for word in [
        "--- kernel: like (the same computation",
        "input x: f32[96, 40]",
        "--- guide: ",
    ] {
        assert!(asked[0].contains(word), "{word}: {}", asked[0]);
    }
    let page = place.path("page.html");
    let trace = |more: &[&str]| {
        let mut command = place.akg();
        command.args(["trace", "tiny"]).args(more);
        command.output().unwrap()
    };
    expect(&trace(&[]), PASS, &["shown: kernel like, the same computation"]);
    expect(&trace(&["--html", page.to_str().unwrap()]), PASS, &[]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("the same computation at sizes"), "{page}");
    // Now the kernel of the very task is known, too, but it is no answer to it: the same run asks nothing.
    let (output, asked) = run_as(&place, "again", &llm, &[]);
    expect(&output, PASS, &["\"pass\""]);
    assert!(asked.is_empty(), "{asked:?}");
    let ignorant = ["--agent", "llm", "--passes", "0", "--no-knowledge"];
    let (output, asked) = run_as(&place, "ignorant", &ignorant, &[answer("max(t, 0.0)")]);
    expect(&output, PASS, &["\"pass\""]);
    assert!(!asked[0].contains("What was found"), "{}", asked[0]);
}

const MODULE: &str = "import torch\nimport torch.nn as nn\n\n\nclass Model(nn.Module):\n    def forward(self, x):\n        \
                      return torch.relu(x).sum(1)\n\n\ndef get_inputs():\n    return [torch.rand(4, 5)]\n\n\n\
                      def get_init_inputs():\n    return []\n";

#[test]
fn a_description_becomes_a_task_that_runs() {
    if let Err(e) = akg::python::Environment::find(&akg::python::Config::default()) {
        eprintln!("skipped: a_description_becomes_a_task_that_runs: {e}");
        return;
    }
    let place = Place::new();
    let request = place.file("words.md", "The sums of the rows of relu(x).");
    let (folder, out) = (place.path("asked"), place.path("rows.py"));
    std::fs::create_dir_all(&folder).unwrap();
    let reply = |module: &str| json!({"text": format!("```python\n{module}```")});
    let answers = [reply(&MODULE.replace("relu(x)", "rectify(x)")), reply(MODULE)];
    let over = AtomicBool::new(false);
    let (output, asked) = std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(&folder, &answers, &over));
        let mut command = place.akg();
        command.arg("task").arg(&request).arg("--out").arg(&out);
        command
            .env("AKG_LLM_PROVIDER", "files")
            .env("AKG_LLM_FOLDER", &folder);
        let output = command.output().unwrap();
        over.store(true, Ordering::Relaxed);
        (output, server.join().unwrap())
    });
    expect(&output, PASS, &["a task"]);
    assert_eq!(std::fs::read_to_string(&out).unwrap(), MODULE);
    assert!(
        asked[0].contains("The sums of the rows") && asked[1].contains("rectify"),
        "{asked:?}"
    );
    // What is a task needs nobody.
    let mut command = place.akg();
    command
        .arg("task")
        .arg(&out)
        .arg("--out")
        .arg(place.path("again.py"));
    expect(&command.output().unwrap(), PASS, &["a task"]);
}

#[test]
fn a_model_without_a_design_is_an_error_that_says_why() {
    let place = Place::new();
    let refusal = json!({"text": "That is beyond me.", "stop": "refused"});
    let (output, asked) = run(&place, &[refusal]);
    expect(&output, TROUBLE, &["That is beyond me.", "unsupported"]);
    assert_eq!(asked.len(), 1);
}

#[test]
fn a_model_that_nobody_named_is_an_error_before_anything_is_done() {
    let place = Place::new();
    let task = place.file("tiny.json", TASK);
    let mut command = place.akg();
    command.args(["run", "--agent", "llm"]).arg(&task);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AKG_LLM_")) {
        command.env_remove(name);
    }
    expect(&command.output().unwrap(), TROUBLE, &["AKG_LLM_MODEL"]);
}
