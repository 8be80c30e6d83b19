//! What aimock says: to each model of each run and way a script of its own, answer after answer.

use serde_json::{Value, json};

use crate::kernel::{edit, kernel, slip};
use crate::{WAYS, Way};

/// Tokens that each reply takes.
pub(crate) const INPUT: u64 = 1000;
pub(crate) const OUTPUT: u64 = 100;

/// What the runs that are cut short have to say, by the run's name.
pub(crate) const SHORT: [&str; 4] = ["away", "tokens", "money", "time"];

/// The name of the model of a role in a run.
pub(crate) fn model(way: Way, run: &str, role: &str) -> String {
    format!("{}-{run}-{role}", way.name)
}

/// A reply that takes its tokens.
fn say(text: &str) -> Value {
    let usage = json!({"prompt_tokens": INPUT, "completion_tokens": OUTPUT});
    json!({"response": {"content": text, "usage": usage}, "chunkSize": 40})
}

/// A call of a tool that nobody offered.
fn call() -> Value {
    let usage = json!({"prompt_tokens": INPUT, "completion_tokens": OUTPUT});
    let calls = json!([{"name": "compile", "arguments": "{\"text\": \"rows\"}"}]);
    json!({"response": {"toolCalls": calls, "usage": usage}})
}

fn status(status: u16) -> Value {
    json!({"response": {"error": {"message": "no", "type": "error"}, "status": status}})
}

fn limited() -> Value {
    let mut limited = status(429);
    limited["response"]["retryAfter"] = json!(1);
    limited
}

/// A reply that the server damages.
fn damaged(with: &str, value: Value) -> Value {
    let mut reply = say("a reply that takes some pieces until its end");
    reply[with] = value;
    reply["chunkSize"] = json!(4);
    reply
}

/// The lines of the right kernel that are wrong at first.
const LOOP: [&str; 2] = [
    "    for (int64_t i = 0; i < 101; ++i) {",
    "    for (int64_t i = 1; i < 101; ++i) {",
];
const SUM: [&str; 2] = ["      sum += v > 0 ? v : 0;", "      sum += v;"];

/// A kernel with two slips.
fn wrong() -> Value {
    say(&kernel(&slip(LOOP[0], LOOP[1]).replace(SUM[0], SUM[1])).text)
}

fn mend([right, wrong]: [&str; 2]) -> Value {
    say(&edit(wrong, right).text)
}

/// What a designer's model proposes for the program's task.
fn sketch() -> Value {
    say(
        "One row at a time.\n\n```sketch\nsketch rows_of_a_model(x: f32[64, 40]) -> y: f32[64, 40]\nkernel main over (m in 64) {\n  \
         t = load x[m, 0 :+ 40]\n  store y[m, 0 :+ 40] = max(t, 0.0)\n}\n```\n",
    )
}

fn advice() -> Value {
    let advice =
        json!({"what": "Take one row at a time.", "why": "It is short.", "gain": 1.5, "place": "sketch"});
    say(&advice.to_string())
}

/// The answers to the coder's and to the fixer's model in the run with all troubles. Only what streams breaks off or hangs.
pub(crate) fn troubled(way: Way) -> [Vec<Value>; 2] {
    let malformed = damaged("chaos", json!({"malformedRate": 1}));
    let coder = vec![limited(), status(500), malformed, wrong()];
    let mut fixer = vec![
        damaged("chaos", json!({"disconnectRate": 1})),
        mend(LOOP),
        status(529),
        call(),
    ];
    if way.streams {
        fixer.push(damaged("truncateAfterChunks", json!(4)));
        fixer.push(damaged("latency", json!(30000)));
    }
    fixer.push(mend(SUM));
    [coder, fixer]
}

/// Everything that aimock says.
pub(crate) fn fixtures() -> Value {
    let (mut all, mut vectors) = (Vec::new(), Vec::new());
    let mut script = |model: String, answers: Vec<Value>| {
        for (number, mut answer) in answers.into_iter().enumerate() {
            answer["match"] = json!({"model": model, "sequenceIndex": number});
            all.push(answer);
        }
    };
    for way in WAYS {
        let [coder, fixer] = troubled(way);
        script(model(way, "troubled", "coder"), coder);
        script(model(way, "troubled", "fixer"), fixer);
        for run in SHORT {
            script(model(way, run, "coder"), vec![wrong()]);
            let answers = match run {
                "away" => vec![status(500); 8],
                _ => vec![mend(LOOP), mend(SUM)],
            };
            script(model(way, run, "fixer"), answers);
        }
        script(model(way, "program", "analyst"), vec![limited(), advice()]);
        script(model(way, "program", "designer"), vec![status(500), sketch()]);
        script(model(way, "knowing", "designer"), vec![sketch()]);
        let embedder = model(way, "knowing", "embedder");
        script(embedder.clone(), vec![limited(), status(500)]);
        vectors.push(json!({"match": {"model": embedder}, "response": {"embedding": [0.6, 0.8, 0.0]}}));
    }
    all.extend(vectors);
    json!({"fixtures": all})
}
