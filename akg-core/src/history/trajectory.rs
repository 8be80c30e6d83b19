//! Conversations that led to verified kernels, for training.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{History, passed, reply};
use crate::chat::{Content, Message, ToolCall};
use crate::store::{ExchangeRecord, StepRecord};

/// What a candidate is worth: nothing if it failed, else how much faster it is than what it was compared with, and 1 where it
/// was not.
pub fn reward(passed: bool, speedup: Option<f64>) -> f64 {
    if passed { speedup.unwrap_or(1.0) } else { 0.0 }
}

/// A conversation of a step that led to a verified kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trajectory {
    /// The run's key.
    pub run: String,
    /// The task's name.
    pub task: String,
    /// The DSL.
    pub dsl: String,
    /// The device's name.
    pub device: String,
    /// The number of the step.
    pub step: usize,
    /// The steps that it began with.
    pub parents: Vec<usize>,
    /// The role that spoke with the model.
    pub role: String,
    /// The model's name.
    pub model: String,
    /// The conversation with the last reply, in the form of OpenAI's chat completions.
    pub messages: Vec<Value>,
    /// What came of the step itself: `pass`, a kind of failure, or `none` if it made no candidate.
    pub verdict: String,
    /// The [reward] of the step itself.
    pub reward: f64,
    /// The largest reward of what began with the step, and of the step.
    pub best_reward: f64,
}

/// The conversations of all steps of a run that led to a verified kernel, by step.
pub fn trajectories(history: &History) -> Vec<Trajectory> {
    let verified = history.steps.iter().filter(|step| passed(step));
    let led: BTreeSet<usize> = verified.flat_map(|step| ancestors(history, step)).collect();
    let steps = led.iter().filter_map(|number| history.step(*number));
    steps.flat_map(|step| of_step(history, step)).collect()
}

/// The step, and all steps whose proposals it began with, directly or not.
fn ancestors(history: &History, step: &StepRecord) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    let mut open = vec![step];
    while let Some(step) = open.pop() {
        if found.insert(step.number) {
            open.extend(step.parents.iter().filter_map(|parent| history.step(*parent)));
        }
    }
    found
}

fn of_step<'a>(history: &'a History, step: &'a StepRecord) -> impl Iterator<Item = Trajectory> + 'a {
    let own = |step: &StepRecord| reward(passed(step), step.speedup);
    let descends = move |later: &&StepRecord| ancestors(history, later).contains(&step.number);
    let best = history.steps.iter().filter(descends).map(own).fold(0.0, f64::max);
    let exchanges: Vec<&ExchangeRecord> = history.exchanges_of(step).collect();
    let last = move |exchange: &&ExchangeRecord| {
        let messages = conversation(exchange);
        let goes_on = |later: &&ExchangeRecord| {
            later.number > exchange.number && later.request.messages.starts_with(&messages)
        };
        !messages.is_empty() && !exchanges.iter().any(goes_on)
    };
    history
        .exchanges_of(step)
        .filter(last)
        .map(move |exchange| Trajectory {
            run: history.run.key.to_string(),
            task: history.run.name.clone(),
            dsl: history.run.dsl.clone(),
            device: history.run.device.clone(),
            step: step.number,
            parents: step.parents.clone(),
            role: exchange.role.clone(),
            model: exchange.model.clone(),
            messages: conversation(exchange).iter().map(wire).collect(),
            verdict: match &step.failure {
                Some(failure) => failure.kind.name().to_owned(),
                None if step.candidate.is_some() => "pass".to_owned(),
                None => "none".to_owned(),
            },
            reward: own(step),
            best_reward: best,
        })
}

/// What was said, with the reply; nothing if there was none.
fn conversation(exchange: &ExchangeRecord) -> Vec<Message> {
    let Some(reply) = reply(exchange) else {
        return Vec::new();
    };
    let mut messages = exchange.request.messages.clone();
    messages.push(reply.message());
    messages
}

/// A message as chat completions write it.
fn wire(message: &Message) -> Value {
    match message {
        Message::System { text } => json!({"role": "system", "content": text}),
        Message::User { content } => match content.as_slice() {
            [Content::Text { text }] => json!({"role": "user", "content": text}),
            parts => json!({"role": "user", "content": parts.iter().map(part).collect::<Vec<_>>()}),
        },
        Message::Assistant { text, calls } if calls.is_empty() => {
            json!({"role": "assistant", "content": text})
        }
        Message::Assistant { text, calls } => {
            let calls: Vec<Value> = calls.iter().map(call).collect();
            json!({"role": "assistant", "content": text, "tool_calls": calls})
        }
        Message::Tool { call, text } => json!({"role": "tool", "tool_call_id": call, "content": text}),
    }
}

fn part(content: &Content) -> Value {
    match content {
        Content::Text { text } => json!({"type": "text", "text": text}),
        Content::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{}", STANDARD.encode(data));
            json!({"type": "image_url", "image_url": {"url": url}})
        }
    }
}

fn call(call: &ToolCall) -> Value {
    let function = json!({"name": call.name, "arguments": call.arguments});
    json!({"id": call.id, "type": "function", "function": function})
}
