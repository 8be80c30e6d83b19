//! `akg run` with models behind a server.

use std::process::Command;

use akg::sqlite::SqliteStore;
use akg::store::{Answer, ExchangeRecord, RunRecord, StepRecord, StoreExt as _};
use serde_json::Value;

use crate::Way;
use crate::common::{Place, expect};
use crate::install::{KEY, Server};
use crate::scripts::{INPUT, OUTPUT, model};

const PASS: i32 = 0;

const TASK: &str = r#"{"akg_graph": 1, "name": "tiny",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [64, 40]}],
  "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

/// The program, which asks the server; only of some roles somebody is there.
fn asking(place: &Place, server: &Server) -> Command {
    let mut command = place.akg();
    command
        .env("AKG_LLM_BASE_URL", format!("http://{}/v1", server.address))
        .env("AKG_LLM_API_KEY", KEY)
        .env("AKG_LLM_MODEL", "nobody");
    command
}

/// The rules' kernel first, then one pass; in the next one the analyst is refused, because the tokens are spent.
pub(crate) fn hybrid(way: Way, server: &Server) {
    let place = Place::new();
    let run = |passes: &str| -> Value {
        let mut command = asking(&place, server);
        command
            .args([
                "run",
                "--json",
                "--no-baseline",
                "--tune",
                "0s",
                "--agent",
                "hybrid",
                // What is spent on one pass is known before the next is asked for.
                "--lookahead",
                "0",
            ])
            .args(["--passes", passes])
            .arg(place.file("tiny.json", TASK))
            .env("AKG_LLM_ANALYST_MODEL", model(way, "program", "analyst"))
            .env("AKG_LLM_DESIGNER_MODEL", model(way, "program", "designer"))
            .env("AKG_LLM_STREAM", way.streams.to_string())
            .env("AKG_LLM_PRICE_INPUT", "1")
            .env("AKG_LLM_BUDGET_TOKENS", (2 * (INPUT + OUTPUT)).to_string());
        let output = command.output().unwrap();
        expect(&output, PASS, &["\"pass\""]);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let report = run("3");
    let count = |report: &Value, what: &str| report[what].as_array().unwrap().len();
    assert_eq!((count(&report, "passes"), count(&report, "attempts")), (1, 2));
    let models = &report["models"];
    assert_eq!(models["usage"]["input"], 2 * INPUT, "{models}");
    assert_eq!(models["usage"]["output"], 2 * OUTPUT, "{models}");
    assert!(
        models["money"].as_f64().is_some_and(|money| money > 0.0),
        "{models}"
    );

    let store = SqliteStore::open(&place.path("store.sqlite")).unwrap();
    let runs: Vec<RunRecord> = store.all(None).unwrap();
    let stopped = runs[0].stopped.as_deref().unwrap();
    assert!(stopped.contains("budget"), "{stopped}");
    let steps: Vec<StepRecord> = store.all(Some(runs[0].key)).unwrap();
    let roles: Vec<&str> = steps.iter().map(|step| step.role.as_str()).collect();
    let first = ["designer", "coder", "strategy", "analyst", "designer", "coder"];
    assert_eq!(roles, [&first[..], &["strategy"]].concat());
    let exchanges: Vec<ExchangeRecord> = store.all(Some(runs[0].key)).unwrap();
    let answered = |e: &ExchangeRecord| (e.role.clone(), matches!(e.answer, Answer::Reply(_)));
    let [analyst, designer, last] = &exchanges.iter().map(answered).collect::<Vec<_>>()[..] else {
        panic!("{exchanges:#?}");
    };
    assert_eq!(
        (analyst, designer),
        (&("analyst".to_owned(), true), &("designer".to_owned(), true))
    );
    // Whom the strategy would ask next depends on what was faster.
    assert!(!last.1, "{}", last.0);

    // The same once more, as far as there were answers: nobody is asked.
    let again = run("1");
    assert_eq!(again["passes"], report["passes"]);
    assert_eq!(again["models"]["calls"], 0);
}

/// The shelf is embedded once, and what is looked up is compared with it.
pub(crate) fn knowing(way: Way, server: &Server) {
    let place = Place::new();
    let embedder = model(way, "knowing", "embedder");
    let akg = |args: &[&str]| {
        let mut command = asking(&place, server);
        command
            .args(args)
            .env("AKG_LLM_DESIGNER_MODEL", model(way, "knowing", "designer"))
            .env("AKG_LLM_EMBEDDER_MODEL", &embedder);
        command.output().unwrap()
    };
    let embedded = |number: usize| format!("embedded by {embedder}: {number}\n");
    let pages = akg::knowledge::pages::pages().unwrap().len();
    expect(&akg(&["knowledge", "build"]), PASS, &[&embedded(pages)]);
    expect(&akg(&["knowledge", "build"]), PASS, &[&embedded(0)]);
    let why = "it means the like by 1.00";
    expect(
        &akg(&["knowledge", "search", "nobody", "says", "this"]),
        PASS,
        &[why],
    );

    let task = place.file("tiny.json", TASK);
    let run = [
        "run",
        "--json",
        "--no-baseline",
        "--tune",
        "0s",
        "--agent",
        "llm",
        "--passes",
        "0",
    ];
    let output = akg(&[&run[..], &[task.to_str().unwrap()]].concat());
    expect(&output, PASS, &["\"pass\""]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    // The designer was asked once, and the embedder what the task is like.
    assert_eq!(report["models"]["calls"], 2, "{report}");
    let trace = akg(&["trace", "tiny"]);
    expect(&trace, PASS, &["shown: guide", why]);
}
