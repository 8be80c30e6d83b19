//! What `akg trace`, `akg chat-log` and `akg knowledge` show of runs that are in a store.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test's helpers may fail the test"
)]

mod common;

use std::process::Output;

use akg::chat::{ChatReply, ChatRequest, Message, Usage};
use akg::error::ErrorKind;
use akg::sqlite::SqliteStore;
use akg::store::{
    Answer, ExchangeRecord, Retrieved, RunRecord, StepRecord, Store, StoreExt as _, TaskRecord,
};
use akg::verdict::{Failure, FailureKind};
use akg::{Digest, builtin};
use common::{Place, expect, has_compiler};
use serde_json::Value;

const PASS: i32 = 0;
const TROUBLE: i32 = 2;

/// 2026-01-02T03:04:05Z.
const AT: u64 = 1_767_323_045;

/// A run of softmax in which a model's first sketch fails, its second passes, and is made faster.
fn run_in(place: &Place) -> Digest {
    let store = SqliteStore::open(&place.path("store.sqlite")).unwrap();
    let task = builtin::task("softmax").unwrap();
    let record = TaskRecord {
        key: task.fingerprint().unwrap(),
        name: task.name.clone(),
        graph: store.put_blob(task.graph.to_json().unwrap().as_bytes()).unwrap(),
        contract: task.contract.clone(),
        at: AT,
    };
    store.save(&record).unwrap();
    let key = Digest::of(b"a run");
    let mut run = RunRecord {
        key,
        task: record.key,
        name: task.name,
        dsl: "cpp".to_owned(),
        device: "a CPU".to_owned(),
        agents: "rules and clever".to_owned(),
        stopped: None,
        best: None,
        at: AT,
    };
    store.save(&run).unwrap();
    let asked = |number: usize, messages: Vec<Message>, answer: Answer| {
        let exchange = ExchangeRecord {
            run: key,
            number,
            member: None,
            role: "designer".to_owned(),
            model: "clever".to_owned(),
            request: ChatRequest::new(messages),
            answer,
            seconds: 2.5,
            at: AT,
        };
        store.save(&exchange).unwrap();
        ExchangeRecord::key_of(key, number)
    };
    let reply = |text: &str| {
        let usage = Usage {
            input: 1000,
            cached: 200,
            output: 50,
        };
        Answer::Reply(ChatReply {
            usage: Some(usage),
            ..ChatReply::text(text)
        })
    };
    let opening = vec![Message::system("You design."), Message::user("Design a softmax.")];
    let mut later = opening.clone();
    later.extend([
        Message::Assistant {
            text: "First idea".to_owned(),
            calls: Vec::new(),
        },
        Message::user("It leaves the <tensor> & more."),
    ]);
    let exchanges = [
        asked(0, opening, reply("First idea")),
        asked(1, later.clone(), reply("Second idea")),
        asked(
            2,
            later,
            Answer::Error {
                kind: ErrorKind::Unavailable,
                message: "no connection".to_owned(),
            },
        ),
    ];
    let step = |number: usize, parents: &[usize], agent: &str, why: &str, proposal: &str| StepRecord {
        run: key,
        number,
        parents: parents.to_vec(),
        role: "designer".to_owned(),
        agent: agent.to_owned(),
        why: why.to_owned(),
        proposal: Some(store.put_blob(proposal.as_bytes()).unwrap()),
        candidate: Some(Digest::of(proposal.as_bytes())),
        failure: None,
        seconds: None,
        speedup: None,
        exchanges: Vec::new(),
        retrieved: Vec::new(),
        at: AT,
    };
    let evidence = "y[0, 3]: 0.5, not 0.25\nwith x = <1, 2>";
    let steps = [
        StepRecord {
            seconds: Some(2e-5),
            speedup: Some(1.0),
            ..step(0, &[], "rules", "", "sketch by the rules")
        },
        StepRecord {
            failure: Some(Failure::new(FailureKind::WrongValues, evidence)),
            exchanges: exchanges[..1].to_vec(),
            retrieved: vec![Retrieved {
                kind: "guide".to_owned(),
                name: "fast C++ kernels".to_owned(),
                why: "for cpp, cpu".to_owned(),
            }],
            ..step(
                1,
                &[0],
                "clever",
                "one pass instead of two",
                "sketch that is wrong",
            )
        },
        StepRecord {
            seconds: Some(1e-5),
            speedup: Some(2.0),
            exchanges: exchanges[1..].to_vec(),
            ..step(2, &[1], "clever", "the maximum is kept", "sketch that is right")
        },
        StepRecord {
            seconds: Some(1.6e-5),
            speedup: Some(1.25),
            ..step(3, &[0, 2], "rules", "crossed", "sketch of both")
        },
    ];
    for step in steps {
        store.save(&step).unwrap();
    }
    run.stopped = Some("the budget is spent".to_owned());
    run.best = Some(2);
    store.save(&run).unwrap();
    key
}

fn akg(place: &Place, args: &[&str]) -> Output {
    place.akg().args(args).output().unwrap()
}

#[test]
fn a_run_is_a_tree_of_its_steps() {
    let place = Place::new();
    expect(&akg(&place, &["trace"]), PASS, &["no runs yet"]);
    let key = run_in(&place).to_string();
    let list = expect(&akg(&place, &["trace"]), PASS, &[]);
    assert_eq!(
        list,
        format!(
            "{}  2026-01-02T03:04:05Z  softmax, cpp on a CPU, by rules and clever: 4 steps, 3 passed, the best is step 2: \
             pass, 10.0 µs, 2.00x\n",
            &key[..12]
        )
    );
    let wanted = format!(
        "run {}: softmax, cpp on a CPU
by rules and clever, 2026-01-02T03:04:05Z
ended: the budget is spent
4 steps, 3 passed, the best is step 2: pass, 10.0 µs, 2.00x
models: 3 exchanges, 2000 tokens read, 100 written

● 0 designer (rules): pass, 20.0 µs, 1.00x
├─● 1 designer (clever): wrong-values
│ │ one pass instead of two
│ │ y[0, 3]: 0.5, not 0.25
│ │ shown: guide fast C++ kernels, for cpp, cpu
│ │ 1 exchange with a model
│ ● 2 designer (clever): pass, 10.0 µs, 2.00x, the best
│   the maximum is kept
│   2 exchanges with a model
● 3 designer (rules): pass, 16.0 µs, 1.25x
  crossed
  with step 2
",
        &key[..12]
    );
    // By the name of the task, or the beginning of the key.
    for name in ["softmax", &key[..3], &key] {
        assert_eq!(expect(&akg(&place, &["trace", name]), PASS, &[]), wanted);
    }
    expect(
        &akg(&place, &["trace", "gelu"]),
        TROUBLE,
        &["no such run", "gelu"],
    );
    let words = [
        "sketch that is wrong",
        "with x = <1, 2>",
        "for cpp, cpu",
        "--exchange 0",
    ];
    expect(&akg(&place, &["trace", "softmax", "--step", "1"]), PASS, &words);
    expect(
        &akg(&place, &["trace", "softmax", "--step", "9"]),
        TROUBLE,
        &["no such step"],
    );
}

#[test]
fn a_page_needs_nothing_but_itself() {
    let place = Place::new();
    run_in(&place);
    let page = place.path("run.html");
    let written = akg(&place, &["trace", "softmax", "--html", page.to_str().unwrap()]);
    expect(&written, PASS, &["4 steps", "run.html"]);
    let text = std::fs::read_to_string(&page).unwrap();
    for word in ["<script", "http:", "https:", "<link", "@import", "url(", " src="] {
        assert!(!text.contains(word), "{word}");
    }
    for word in [
        "sketch that is wrong",
        "one pass instead of two",
        "with x = &lt;1, 2&gt;",
        "leaves the &lt;tensor&gt; &amp; more",
        "the budget is spent",
        "Second idea",
        "<polyline",
    ] {
        assert!(text.contains(word), "{word}");
    }
    // Every element that is opened is closed.
    for element in [
        "details", "summary", "pre", "p", "div", "ul", "li", "svg", "body", "html",
    ] {
        let count = |tag: &str| text.matches(tag).count();
        let opened = count(&format!("<{element}>")) + count(&format!("<{element} "));
        assert_eq!(opened, count(&format!("</{element}>")), "{element}");
    }
}

#[test]
fn a_conversation_is_told_once_with_what_it_took() {
    let place = Place::new();
    run_in(&place);
    let log = expect(&akg(&place, &["chat-log", "softmax"]), PASS, &[]);
    for once in [
        "Design a softmax.",
        "First idea",
        "It leaves the <tensor>",
        "Second idea",
        "You design.",
    ] {
        assert_eq!(log.matches(once).count(), 1, "{once}:\n{log}");
    }
    let words = [
        "unavailable: no connection",
        "2000 tokens read (400 from a cache), 100 written",
        "together: 2100 tokens",
    ];
    expect(
        &akg(&place, &["chat-log", "softmax", "--role", "designer"]),
        PASS,
        &words,
    );
    let whole = expect(
        &akg(&place, &["chat-log", "softmax", "--exchange", "1"]),
        PASS,
        &[],
    );
    assert!(
        whole.contains("You design.") && whole.contains("Second idea"),
        "{whole}"
    );
    let priced = place
        .akg()
        .args(["chat-log", "softmax", "--role", "nobody"])
        .env("AKG_LLM_PRICE_INPUT", "10")
        .env("AKG_LLM_PRICE_OUTPUT", "100")
        .output()
        .unwrap();
    // 2000 tokens at 10 and 100 at 100 for a million.
    expect(&priced, PASS, &["0.0300 in money"]);
}

#[test]
fn trajectories_are_the_conversations_that_led_to_a_kernel() {
    let place = Place::new();
    run_in(&place);
    let lines = akg(&place, &["trace", "--trajectories", "-"]);
    let lines: Vec<Value> = expect(&lines, PASS, &[])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let told: Vec<_> = lines
        .iter()
        .map(|line| {
            let messages = line["messages"].as_array().unwrap();
            let last = &messages.last().unwrap()["content"];
            (
                line["step"].as_u64().unwrap(),
                messages.len(),
                last.as_str().unwrap(),
                line["verdict"].as_str().unwrap(),
            )
        })
        .collect();
    // The failed step is told, because what mended it passed; the exchange without an answer is not.
    assert_eq!(
        told,
        [
            (1, 3, "First idea", "wrong-values"),
            (2, 5, "Second idea", "pass")
        ]
    );
    let rewards: Vec<_> = lines
        .iter()
        .map(|line| (line["reward"].as_f64(), line["best_reward"].as_f64()))
        .collect();
    assert_eq!(rewards, [(Some(0.0), Some(2.0)), (Some(2.0), Some(2.0))]);
}

#[test]
fn failures_and_what_mended_them_are_learned() {
    let place = Place::new();
    run_in(&place);
    expect(&akg(&place, &["knowledge", "list"]), PASS, &["nothing yet"]);
    expect(
        &akg(&place, &["knowledge", "build"]),
        PASS,
        &["kernels: 0, fixes: 1, pages: 8"],
    );
    let words = ["wrong-values in softmax", "its words fit by 1.00"];
    let found = akg(&place, &["knowledge", "search", "not", "0.25", "--kind", "fix"]);
    expect(&found, PASS, &words);
    let shown = akg(&place, &["knowledge", "show", "wrong-values in softmax"]);
    expect(
        &shown,
        PASS,
        &[
            "sketch that is wrong",
            "sketch that is right",
            "the maximum is kept",
        ],
    );
    // Who is asked about softmax itself is not told the answer; who is asked about something else is.
    let search = |task: &str| {
        let found = akg(
            &place,
            &["knowledge", "search", "wrong", "--kind", "fix", "--task", task],
        );
        expect(&found, PASS, &[])
    };
    assert!(!search("builtin:softmax").contains("wrong-values in softmax"));
    assert!(search("builtin:gelu").contains("wrong-values in softmax"));

    let page = "---\nkind: guide\nname: our house rules\ndsl: cpp\n---\n# Ours\n\nNo templates.\n";
    place.file("pages/ours.md", page);
    let folder = place.path("pages");
    let folder = folder.to_str().unwrap();
    expect(
        &akg(&place, &["knowledge", "build", "--pages", folder]),
        PASS,
        &["pages: 9"],
    );
    let guides = expect(
        &akg(&place, &["knowledge", "list", "--kind", "guide", "--dsl", "cpp"]),
        PASS,
        &[],
    );
    assert!(
        guides.contains("our house rules") && !guides.contains("Triton"),
        "{guides}"
    );
    place.file("pages/bad.md", "# no front matter\n");
    let bad = akg(&place, &["knowledge", "build", "--pages", folder]);
    expect(&bad, TROUBLE, &["front matter", "bad.md"]);
}

/// Two products with a sum of rows between, which the rules can cut in several ways.
const CHAIN: &str = r#"{"akg_graph": 1, "name": "chain",
    "inputs": [{"name": "x", "dtype": "f32", "shape": [48, 64]}, {"name": "w", "dtype": "f32", "shape": [64, 32]},
               {"name": "v", "dtype": "f32", "shape": [32, 16]}],
    "nodes": [{"op": "aten.mm.default", "args": {"self": "x", "mat2": "w"}, "outputs": ["h"]},
              {"op": "aten.softmax.int", "args": {"self": "h", "dim": -1}, "outputs": ["s"]},
              {"op": "aten.mm.default", "args": {"self": "s", "mat2": "v"}, "outputs": ["y"]}],
    "outputs": [{"value": "y"}]}"#;

#[test]
fn a_search_by_the_rules_alone_says_what_it_goes_on_from() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let task = place.file("chain.json", CHAIN);
    let run = |search: &str| {
        let mut run = place.akg();
        run.args(["run", "--json", "--no-baseline", "--tune", "0s", "--passes", "3"])
            .args(["--contest-seconds", "500ms", "--search", search]);
        run.arg(&task).output().unwrap()
    };
    let output = run("best-of-n");
    expect(&output, PASS, &["\"pass\""]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let passes = report["passes"].as_array().unwrap();
    assert_eq!(passes.len(), 3, "{passes:?}");
    let words = ["strategy (best-of-n)", "From nothing: ", "one from nothing"];
    let tree = expect(&akg(&place, &["trace", "chain"]), PASS, &words);
    assert_eq!(tree.matches("strategy (").count(), 3, "{tree}");
    expect(&run("luck"), TROUBLE, &["luck", "adaptive", "climb"]);
}

#[test]
fn verified_kernels_are_learned() {
    if !has_compiler() {
        return;
    }
    let place = Place::new();
    let graph = |columns: usize| {
        format!(
            r#"{{"akg_graph": 1, "name": "rows{columns}", "inputs": [{{"name": "x", "dtype": "f32", "shape": [64, {columns}]}}],
            "nodes": [{{"op": "aten.softmax.int", "args": {{"self": "x", "dim": -1}}, "outputs": ["y"]}}],
            "outputs": [{{"value": "y"}}]}}"#
        )
    };
    let [small, large] = [40, 80].map(|n| place.file(&format!("rows{n}.json"), &graph(n)));
    let mut run = place.akg();
    let run = run.args([
        "run",
        "--no-baseline",
        "--tune",
        "0s",
        "--contest-seconds",
        "500ms",
    ]);
    expect(&run.arg(&small).output().unwrap(), PASS, &["verdict: pass"]);
    // Twice the same is learned once.
    for _ in 0..2 {
        expect(
            &akg(&place, &["knowledge", "build"]),
            PASS,
            &["kernels: 1, fixes: 0"],
        );
    }
    let shown = akg(&place, &["knowledge", "show", "rows40"]);
    expect(
        &shown,
        PASS,
        &[
            "Verified in class fp32 as cpp",
            "µs",
            "sketch rows40",
            "softmax.int(self=x",
        ],
    );
    let search = |task: &std::path::Path, more: &[&str]| {
        let mut search = place.akg();
        let search = search
            .args(["knowledge", "search", "--kind", "kernel", "--task"])
            .arg(task)
            .args(more);
        expect(&search.output().unwrap(), PASS, &[])
    };
    assert!(search(&large, &[]).contains("the same computation at sizes 2.0 octaves away"));
    assert!(search(&large, &["--strict"]).contains("nothing was found"));
    assert!(search(&small, &[]).contains("nothing was found"));
}
