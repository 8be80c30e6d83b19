//! The recorded run, and the models that spoke in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use akg_core::analyst::ModelAnalyst;
use akg_core::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest};
use akg_core::conductor::ModelConductor;
use akg_core::designer::ModelDesigner;
use akg_core::fixer::ModelFixer;
use akg_core::prompts::Prompts;
use akg_core::session::Outcome;
use akg_core::store::Store;
use akg_core::{Error, Result};
use async_trait::async_trait;
use futures::executor::block_on;

use crate::simulated::{PLENTY, Shared, policy, session, task};

/// Attempts to make what passed faster.
pub(crate) const PASSES: usize = 20;

/// A model of one role, which says what is written for it, or nothing at all.
#[derive(Debug)]
struct Scripted {
    says: Option<fn(usize) -> String>,
    asked: AtomicUsize,
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
        let says = self
            .says
            .ok_or_else(|| Error::unexpected(format!("this was not recorded: {request:#?}")))?;
        Ok(ChatReply::text(says(self.asked.fetch_add(1, Ordering::Relaxed))))
    }
}

/// A sketch of several kernels, which relu and then copy.
fn chain(kernels: usize, a: &str, b: &str) -> String {
    let mut text =
        format!("sketch relu(x: f32[4096]) -> y: f32[4096]\nknob A in {{{a}}}\nknob B in {{{b}}}\n");
    for at in 1..kernels {
        text += &format!("buffer h{at}: f32[4096]\n");
    }
    for at in 0..kernels {
        let knob = if at % 2 == 0 { "A" } else { "B" };
        let from = if at == 0 { "x".to_owned() } else { format!("h{at}") };
        let to = if at + 1 == kernels {
            "y".to_owned()
        } else {
            format!("h{}", at + 1)
        };
        text += &format!(
            "\nkernel k{at} over (p in ceildiv(4096, {knob})) {{\n  a = load {from}[p*{knob} :+ {knob}]\n  \
             b = max(a, 0.0)\n  store {to}[p*{knob} :+ {knob}] = b\n}}\n"
        );
    }
    text
}

fn design(number: usize) -> String {
    let sketch = match number {
        // Before the first candidate.
        0 => return "Two kernels would do.".to_owned(),
        1 => chain(2, "64, 128", "64, 128").replace("store y", "store h1"),
        2 => chain(2, "64, 128", "64, 128"),
        // What is to be faster: slower, wrong by the judge, twice as fast, not built, wrong in the duel, known.
        3 => chain(3, "64, 128", "64, 128"),
        4 => chain(2, "256, 128", "512, 128"),
        5 => chain(2, "128, 256", "64"),
        6 => chain(1, "64, 128", "64"),
        7 => chain(1, "64", "128"),
        8 => chain(1, "512", "64"),
        9 => chain(1, "64, 128", "64"),
        10 => "One kernel is enough.".to_owned(),
        _ => {
            let b = if number.is_multiple_of(2) {
                "128"
            } else {
                "64, 256"
            };
            chain(
                1 + number % 3 / 2,
                ["128, 256", "256", "256, 64, 128"][number / 2 % 3],
                b,
            )
        }
    };
    format!("Another idea.\n\n```sketch\n{sketch}```\n")
}

fn advise(number: usize) -> String {
    let place = if number % 3 == 2 { "source" } else { "sketch" };
    format!(r#"{{"what": "Idea {number}.", "why": "It is slow.", "gain": 1.5, "place": "{place}"}}"#)
}

fn fix(number: usize) -> String {
    // Wrong by the judge twice, then right.
    let text = match number % 4 {
        0 => "K = 1 A = 256 B = 512",
        1 => "no words",
        2 => "K = 2 A = 256 B = 512",
        _ => [
            "K = 1 A = 256 B = 256",
            "K = 1 A = 256 B = 128",
            "K = 1 A = 128 B = 128",
        ][number / 4 % 3],
    };
    format!("```words\n{text}\n```\n")
}

fn conduct(_: usize) -> String {
    r#"{"next": "fix", "why": "It comes nearer."}"#.to_owned()
}

pub(crate) fn here() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/replay")
}

/// The run with this store; models speak while the world is open.
pub(crate) fn run(world: &Shared, store: Arc<dyn Store>, passes: usize) -> Result<Outcome> {
    let open = world.with(|w| !w.closed);
    let model = |says: fn(usize) -> String| Scripted {
        says: open.then_some(says),
        asked: AtomicUsize::new(0),
    };
    let prompts = Prompts::from_folder(&here().join("prompts"))?;
    let session = session(world, &Arc::default(), PLENTY)
        .with_designer(ModelDesigner::new(model(design))?.with_prompts(prompts.clone()))
        .with_fixer(ModelFixer::new(model(fix))?.with_prompts(prompts.clone()))
        .with_analyst(ModelAnalyst::new(model(advise))?.with_prompts(prompts.clone()))
        .with_conductor(ModelConductor::new(model(conduct))?.with_prompts(prompts))
        .with_passes(passes)
        .with_budget(PLENTY)
        .with_tuning(Some(policy(PLENTY)))
        .with_store(store);
    block_on(session.run(&task(4096)))
}
