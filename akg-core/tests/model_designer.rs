//! The designer that asks a model, with models that say what they were told to say: mistakes go back to them with their place or their
//! values, and what is right becomes a design.

#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

mod golden;

use std::sync::{Arc, Mutex};

use akg_core::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest, Content, Message, Stop};
use akg_core::designer::{Design, DesignContext, FailedDesign, ModelDesigner};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{Agent as _, DType, Error, ErrorKind, Graph, Result, Sketch, Target, Task};
use async_trait::async_trait;
use futures::executor::block_on;
use golden::Golden;

const RIGHT: &str = "sketch relu_rows(x: f32[64, 128]) -> y: f32[64, 128]
knob R in {4, 8}

kernel main over (m in ceildiv(64, R)) {
  t = load x[m*R :+ R, 0 :+ 128]
  store y[m*R :+ R, 0 :+ 128] = max(t, 0.0)
}
";

/// What a model was asked, request by request.
type Asked = Arc<Mutex<Vec<ChatRequest>>>;

/// A model that gives these replies one after the other.
#[derive(Debug)]
struct Scripted {
    replies: Mutex<std::vec::IntoIter<ChatReply>>,
    asked: Asked,
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

fn relu() -> DesignContext {
    let mut graph = Graph::new("relu");
    let x = graph.input("x", DType::F32, [64, 128]);
    let y = graph.relu(x).unwrap();
    graph.output(y);
    let mut target = Target::new("cpu", "test");
    target.cores = 4;
    DesignContext::new(Task::new("relu", graph), target)
}

/// What comes of a context with a model that replies so, and what it was asked.
fn step(context: &DesignContext, replies: Vec<ChatReply>) -> (Result<Design>, Vec<ChatRequest>) {
    let asked = Asked::default();
    let model = Scripted {
        replies: Mutex::new(replies.into_iter()),
        asked: asked.clone(),
    };
    let design = block_on(ModelDesigner::new(model).unwrap().step(context));
    let asked = asked.lock().unwrap().clone();
    (design, asked)
}

fn fenced(sketch: &str) -> ChatReply {
    ChatReply::text(format!("Rows by fours.\n\n```sketch\n{sketch}```\n"))
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
fn objects(reply: ChatReply, words: &[&str]) {
    let (design, asked) = step(&relu(), vec![reply, fenced(RIGHT)]);
    assert_eq!(design.unwrap().sketch, Sketch::parse(RIGHT).unwrap());
    assert_eq!(asked.len(), 2);
    // The conversation goes on: what was asked, what was answered, what is wrong with it.
    assert_eq!(asked[1].messages[..2], asked[0].messages[..]);
    assert!(matches!(asked[1].messages[2], Message::Assistant { .. }));
    let objection = last(&asked[1]);
    for word in words {
        assert!(objection.contains(word), "{word} is missing in:\n{objection}");
    }
}

#[test]
fn a_right_sketch_is_a_design() {
    let (design, asked) = step(&relu(), vec![fenced(RIGHT)]);
    let design = design.unwrap();
    assert_eq!(design.sketch, Sketch::parse(RIGHT).unwrap());
    assert_eq!(design.knobs, design.sketch.default_knobs());
    assert_eq!(design.kernels.len(), 1);
    assert_eq!(asked.len(), 1);
}

#[test]
fn a_sketch_is_found_in_what_surrounds_it() {
    let other = "Use it so:\n```rust\nlet x = 1;\n```\n";
    let first = RIGHT.replace("max(t, 0.0)", "t");
    for text in [
        RIGHT.to_owned(),
        format!("{other}```\n{RIGHT}```\nThat is all."),
        // The last word counts.
        format!("First I thought of\n```\n{first}```\nbut then:\n```sketch\n{RIGHT}```\n{other}"),
        format!("```sketch\n# Rows.\n{RIGHT}"),
    ] {
        let (design, _) = step(&relu(), vec![ChatReply::text(text)]);
        assert_eq!(design.unwrap().sketch.tree().kernels.len(), 1);
    }
}

#[test]
fn mistakes_go_back_with_their_place() {
    objects(
        ChatReply::text("I would tile the rows."),
        &["no fenced code block"],
    );
    objects(ChatReply::default(), &["no fenced code block"]);
    let cut_off = ChatReply {
        stop: Stop::Length,
        ..ChatReply::text(format!("```\n{}", &RIGHT[..80]))
    };
    objects(cut_off, &["cut off"]);
    // A call that the language does not have, and a variable that nobody defined.
    objects(
        fenced(&RIGHT.replace("max(t", "relu(t")),
        &["relu", "^^^^", "6 |"],
    );
    objects(fenced(&RIGHT.replace("max(t", "max(u")), &["`u`", "^", "6 |"]);
    // One row too far, one column too few, rows that are written twice.
    objects(
        fenced(&RIGHT.replace("load x[m*R", "load x[m*R + 1")),
        &["error", "5 |"],
    );
    objects(fenced(&RIGHT.replace("0 :+ 128] = ", "0 :+ 64] = ")), &["error"]);
    objects(
        fenced(&RIGHT.replace("y[m*R :+ R", "y[0 :+ R")),
        &["error", "6 |"],
    );
    // Other tensors than the graph's.
    let wider = RIGHT
        .replace("-> y: f32", "-> y: f64")
        .replace("max(t, 0.0)", "f64(max(t, 0.0))");
    objects(fenced(&wider), &["`y`", "f32[64, 128]"]);
    let more = RIGHT.replace("x: f32[64, 128])", "x: f32[64, 128], z: f32[1])");
    objects(fenced(&more), &["2 Input tensors", "the graph has 1"]);
}

#[test]
fn wrong_values_go_back_with_the_element() {
    objects(
        fenced(&RIGHT.replace("max(t, 0.0)", "max(t, 0.01)")),
        &["interpreted", "`relu`", "got", "expected", "R = 4"],
    );
    objects(
        fenced(&RIGHT.replace("max(t, 0.0)", "max(t, 0.0) * 1.01")),
        &["fp32"],
    );
}

#[test]
fn what_never_ends_or_needs_all_memory_is_not_interpreted() {
    let endless = RIGHT.replace(
        "  store",
        "  for k in 0..1000000000000000 {\n    t = t * 1.0\n  }\n  store",
    );
    let (design, _) = step(&relu(), vec![fenced(&endless)]);
    design.unwrap();
    // The validator may object to such tiles; either way nobody makes one.
    let vast = RIGHT.replace(
        "max(t, 0.0)",
        "max(t, 0.0) + reduce_sum(reduce_sum(zeros f32[4194304, 4194304], 1), 0)",
    );
    let (_, asked) = step(&relu(), vec![fenced(&vast), fenced(RIGHT)]);
    assert!(asked.len() <= 2);
}

#[test]
fn who_repeats_a_mistake_is_told_so_and_given_up_at_last() {
    let wrong = fenced(&RIGHT.replace("max(t, 0.0)", "t"));
    let (design, asked) = step(&relu(), vec![wrong.clone(), wrong.clone(), fenced(RIGHT)]);
    design.unwrap();
    assert!(!last(&asked[1]).contains("before"));
    assert!(last(&asked[2]).contains("That is what you sent before"));
    let (design, asked) = step(&relu(), vec![wrong; 10]);
    let error = design.unwrap_err();
    assert_eq!((error.kind(), asked.len()), (ErrorKind::Unsupported, 4));
    assert!(error.to_string().contains("repeats itself"), "{error}");
}

#[test]
fn a_model_without_a_design_is_unsupported() {
    let refusal = ChatReply {
        stop: Stop::Refused,
        ..ChatReply::text("I cannot help with that.")
    };
    let (design, asked) = step(&relu(), vec![refusal]);
    let error = design.unwrap_err();
    assert_eq!((error.kind(), asked.len()), (ErrorKind::Unsupported, 1));
    assert!(error.to_string().contains("I cannot help with that."), "{error}");
    let never = (0..10).map(|n| ChatReply::text(format!("thought {n}")));
    let (design, asked) = step(&relu(), never.collect());
    let error = design.unwrap_err();
    assert_eq!((error.kind(), asked.len()), (ErrorKind::Unsupported, 6));
    assert!(error.to_string().contains("none of 6 replies"), "{error}");
    // The model's own trouble stays what it is.
    let (design, _) = step(&relu(), Vec::new());
    assert_eq!(design.unwrap_err().kind(), ErrorKind::Unexpected);
}

/// `AKG_BLESS=1 cargo test -p akg-core --test model_designer` accepts other texts.
#[test]
fn prompts_are_as_reviewed() {
    let mut graph = Graph::new("gemm_gelu");
    let x = graph.input("x", DType::F32, [256, 512]);
    let w = graph.weight("w", DType::F32, [512, 1024]);
    let y = graph.matmul(x, w).unwrap();
    let y = graph.gelu(y).unwrap();
    graph.output(y);
    let mut target = Target::new("cuda", "sm_90a");
    "Some GPU".clone_into(&mut target.name);
    (target.cores, target.threads, target.tile_bytes) = (132, 2048, 227 << 10);
    target.bandwidth = 4.8e12;
    target.peak = [(DType::F16, 1e15), (DType::F32, 6e13)].into();
    let mut context = DesignContext::new(Task::new("gemm_gelu", graph), target);
    let failed = Sketch::parse(RIGHT).unwrap();
    context.failed.push(FailedDesign {
        knobs: failed.default_knobs(),
        sketch: failed,
        failure: Failure::new(
            FailureKind::WrongValues,
            "output `gelu`: the error at [0, 3] is too large",
        ),
    });
    let wrong = ChatReply::text("```\nsketch relu_rows(x: f32[64, 128]) -> y: f32[64, 128]\n```");
    let (_, asked) = step(&context, vec![wrong.clone(), wrong]);
    let [Message::System { text: system }, ..] = asked[0].messages.as_slice() else {
        panic!("no system message");
    };
    let language = akg_core::sketch::LANGUAGE;
    let mut golden = Golden::default();
    for (name, text) in [
        // The language is a file of its own.
        ("system.md", system.replace(language.trim_end(), "(the language)")),
        ("task.md", last(&asked[0])),
        ("objection.md", last(&asked[1])),
        ("objection_again.md", last(&asked[2])),
    ] {
        golden.check(name, &text);
    }
    golden.assert();
}
