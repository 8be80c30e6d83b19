//! The lifter that asks a model, with models that say what they were told to say and an original in Rust: what is wrong with a graph or a
//! sketch goes back, and what is right becomes a lift.

#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

mod golden;

use std::sync::{Arc, Mutex};

use akg_core::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest, Content, Message, Stop};
use akg_core::expr::Bindings;
use akg_core::lift::{Interface, Language, Lift, LiftContext, ModelLifter, Original};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{Accuracy, Agent as _, Error, ErrorKind, Result, Target, Tensor};
use async_trait::async_trait;
use futures::executor::block_on;
use golden::Golden;

const KERNEL: &str = "__global__ void row_sums(const float *x, float *y, int n) {
  int row = blockIdx.x * 64 + threadIdx.x;
  if (row >= n) return;
  float sum = 0;
  for (int i = 0; i < 40; ++i) sum += x[row * 40 + i];
  y[row] = sum;
}
";

const INTERFACE: &str = r#"{
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["N", 40]}],
  "outputs": [{"name": "y", "dtype": "f32", "shape": ["N"]}],
  "dims": {"N": 70},
  "calls": [{"function": "row_sums", "grid": ["ceildiv(N, 64)"], "block": [64], "arguments": ["x", "y", "N"]}]}"#;

const GRAPH: &str = r#"{"akg_graph": 1, "name": "row_sums",
 "inputs": [{"name": "x", "dtype": "f32", "shape": ["N", 40]}],
 "nodes": [{"op": "aten.sum.dim_IntList", "args": {"self": "x", "dim": [1]}, "outputs": ["y"]}],
 "outputs": [{"value": "y"}]}"#;

const SKETCH: &str = "sketch row_sums(x: f32[N, 40]) -> y: f32[N]
knob R in {4, 8}

kernel main over (r in ceildiv(N, R)) {
  t = load x[r*R :+ R, 0 :+ 40] else 0
  store y[r*R :+ R] = reduce_sum(t, 1)
}
";

/// The kernel in Rust: sums one after the other, or a failure.
#[derive(Debug)]
struct RowSums {
    crashes: bool,
}

#[async_trait]
impl Original for RowSums {
    async fn run(&self, inputs: &[Tensor], dims: &Bindings) -> Result<Result<Vec<Tensor>, Failure>> {
        if self.crashes {
            return Ok(Err(Failure::new(FailureKind::Crashed, "signal 11")));
        }
        let n = usize::try_from(dims["N"]).unwrap();
        let x = inputs[0].to_f64()?;
        let sums: Vec<f32> = x
            .chunks(40)
            .map(|row| row.iter().fold(0.0, |sum, v| sum + *v as f32))
            .collect();
        Ok(Ok(vec![Tensor::from_slice([n], &sums)?]))
    }
}

#[derive(Debug)]
struct Scripted {
    replies: Mutex<std::vec::IntoIter<ChatReply>>,
    asked: Arc<Mutex<Vec<ChatRequest>>>,
}

#[async_trait]
impl ChatModel for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn capability(&self) -> ChatCapability {
        ChatCapability::default()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
        self.asked.lock().unwrap().push(request.clone());
        let reply = self.replies.lock().unwrap().next();
        reply.ok_or_else(|| Error::unexpected("the script is over"))
    }
}

fn context(crashes: bool) -> LiftContext {
    let mut target = Target::new("cuda", "sm_90a");
    "Some GPU".clone_into(&mut target.name);
    target.tile_bytes = 227 << 10;
    LiftContext {
        name: "row_sums".to_owned(),
        language: Language::Cuda,
        text: KERNEL.to_owned(),
        interface: Interface::from_json(INTERFACE).unwrap(),
        accuracy: Accuracy::Fp32,
        target,
        original: Arc::new(RowSums { crashes }),
    }
}

/// What comes of a kernel with a model that replies so, and what it was asked.
fn step(context: &LiftContext, replies: Vec<ChatReply>) -> (Result<Lift>, Vec<ChatRequest>) {
    let asked = Arc::default();
    let model = Scripted {
        replies: Mutex::new(replies.into_iter()),
        asked: Arc::clone(&asked),
    };
    let lift = block_on(ModelLifter::new(model).unwrap().step(context));
    let asked = asked.lock().unwrap().clone();
    (lift, asked)
}

fn reply(graph: &str, sketch: &str) -> ChatReply {
    ChatReply::text(format!(
        "Sums of rows.\n\n```json\n{graph}\n```\n\n```sketch\n{sketch}```\n"
    ))
}

/// The text of the last message of a request.
fn last(request: &ChatRequest) -> String {
    let Some(Message::User { content }) = request.messages.last() else {
        panic!("the last message is the model's own: {request:?}");
    };
    match content.as_slice() {
        [Content::Text { text }] => text.clone(),
        other => panic!("{other:?}"),
    }
}

/// That a reply is objected to with all of `words`, and that the right one after it is taken.
#[track_caller]
fn objects(wrong: ChatReply, words: &[&str]) {
    let (lift, asked) = step(&context(false), vec![wrong, reply(GRAPH, SKETCH)]);
    assert_eq!(lift.unwrap().task.graph.nodes().len(), 1);
    assert_eq!(asked.len(), 2);
    let objection = last(&asked[1]);
    for word in words {
        assert!(objection.contains(word), "{word} is missing in:\n{objection}");
    }
}

#[test]
fn a_right_reply_is_a_task_with_a_design() {
    let (lift, asked) = step(&context(false), vec![reply(GRAPH, SKETCH)]);
    let lift = lift.unwrap();
    assert_eq!(lift.task.name, "row_sums");
    assert_eq!(lift.task.contract.hints, Bindings::from([("N".into(), 70)]));
    assert_eq!(lift.design.kernels.len(), 1);
    assert_eq!(asked.len(), 1);
}

#[test]
fn what_is_missing_or_malformed_goes_back() {
    objects(
        ChatReply::text("It sums rows."),
        &["no fenced code block with a graph"],
    );
    objects(
        ChatReply::text(format!("```json\n{GRAPH}\n```")),
        &["no fenced code block with a sketch"],
    );
    objects(
        reply(&GRAPH.replace("sum.dim_IntList", "row_sum"), SKETCH),
        &["row_sum"],
    );
    objects(
        reply(&GRAPH.replace("[\"N\", 40]", "[\"N\", 41]"), SKETCH),
        &["f32[N, 41]", "f32[N, 40]"],
    );
    objects(
        reply(GRAPH, &SKETCH.replace("reduce_sum", "sum")),
        &["sum", "^^^"],
    );
    let cut_off = ChatReply {
        stop: Stop::Length,
        ..reply(GRAPH, SKETCH)
    };
    objects(cut_off, &["cut off"]);
}

#[test]
fn a_graph_of_something_else_goes_back_with_the_original_s_values() {
    objects(
        reply(&GRAPH.replace("sum.dim_IntList", "mean.dim"), SKETCH),
        &["not what the original computes", "with N = 70", "got", "expected"],
    );
    objects(
        reply(&GRAPH.replace("sum.dim_IntList", "amax.default"), SKETCH),
        &["not what the original"],
    );
}

#[test]
fn a_sketch_of_something_else_goes_back() {
    objects(
        reply(
            GRAPH,
            &SKETCH.replace("reduce_sum(t, 1)", "reduce_sum(t, 1) / 40.0"),
        ),
        &["interpreted", "other results than the graph"],
    );
}

#[test]
fn an_original_that_crashes_is_no_fault_of_the_model() {
    let (lift, asked) = step(&context(true), vec![reply(GRAPH, SKETCH); 10]);
    let error = lift.unwrap_err();
    assert_eq!((error.kind(), asked.len()), (ErrorKind::InvalidInput, 1));
    let text = error.to_string();
    assert!(
        text.contains("crashed: signal 11") && text.contains("N = 70"),
        "{text}"
    );
}

#[test]
fn a_model_that_knows_no_more_is_given_up() {
    let wrong = reply(&GRAPH.replace("sum.dim_IntList", "mean.dim"), SKETCH);
    let (lift, asked) = step(&context(false), vec![wrong; 10]);
    let error = lift.unwrap_err();
    assert_eq!((error.kind(), asked.len()), (ErrorKind::Unsupported, 4));
    assert!(error.to_string().contains("repeats itself"), "{error}");
    let refusal = ChatReply {
        stop: Stop::Refused,
        ..ChatReply::text("I will not read this.")
    };
    let (lift, asked) = step(&context(false), vec![refusal]);
    assert!(lift.unwrap_err().to_string().contains("I will not read this."));
    assert_eq!(asked.len(), 1);
}

#[test]
fn interfaces_say_what_is_wrong_with_them() {
    for (from, to, word) in [
        ("\"dims\": {\"N\": 70},", "", "`N`"),
        ("\"y\", \"N\"]", "\"z\", \"N\"]", "`z`"),
        ("\"name\": \"y\"", "\"name\": \"x\"", "two tensors"),
        ("\"dtype\": \"f32\"", "\"dtype\": \"f33\"", "f33"),
    ] {
        let text = INTERFACE.replace(from, to);
        assert_ne!(text, INTERFACE);
        let error = Interface::from_json(&text).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

/// `AKG_BLESS=1 cargo test -p akg-core --test model_lifter` accepts other texts.
#[test]
fn prompts_are_as_reviewed() {
    let wrong = ChatReply::text("It sums rows.");
    let (_, asked) = step(&context(false), vec![wrong.clone(), wrong]);
    let [Message::System { text: system }, ..] = asked[0].messages.as_slice() else {
        panic!("no system message");
    };
    let language = akg_core::sketch::LANGUAGE;
    let mut golden = Golden::default();
    for (name, text) in [
        // The language is a file of its own.
        ("system.md", system.replace(language.trim_end(), "(the language)")),
        ("kernel.md", last(&asked[0])),
        ("objection.md", last(&asked[1])),
        ("objection_again.md", last(&asked[2])),
    ] {
        golden.check(&format!("lifter/{name}"), &text);
    }
    golden.assert();
}
