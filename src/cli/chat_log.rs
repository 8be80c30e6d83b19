//! `akg chat-log`: what was said between the agents of a run and their models.

use std::collections::BTreeMap;
use std::process::ExitCode;

use akg::chat::{Content, Message, ToolCall, Usage};
use akg::history::{History, reply, short};
use akg::llm::Config;
use akg::store::{Answer, ExchangeRecord};
use akg::{Error, Result};
use clap::Args;
use serde::Serialize;

use super::store::StoreArgs;

#[derive(Debug, Args)]
pub(super) struct ChatLogArgs {
    /// The beginning of a run's key, or the name of a task, whose latest run is shown.
    run: String,
    /// Only what this role said and was told, as in `designer`.
    #[arg(long)]
    role: Option<String>,
    /// Only this exchange, with the whole conversation before it.
    #[arg(long, value_name = "NUMBER")]
    exchange: Option<usize>,
    #[command(flatten)]
    store: StoreArgs,
}

impl ChatLogArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let history = History::find(&self.store.open()?, &self.run)?;
        if let Some(number) = self.exchange {
            let exchange = history
                .exchanges
                .iter()
                .find(|e| e.number == number)
                .ok_or_else(|| {
                    Error::invalid("the run has no such exchange")
                        .with("exchange", number)
                        .with("exchanges", history.exchanges.len())
                })?;
            print(exchange, &lines(&exchange.request.messages, exchange));
            return Ok(ExitCode::SUCCESS);
        }
        let of_role = |e: &&ExchangeRecord| self.role.as_ref().is_none_or(|role| *role == e.role);
        for exchange in history.exchanges.iter().filter(of_role) {
            print(exchange, &said(&history, exchange));
        }
        bill(&history)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What somebody said.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    /// Who: `system`, a role, a model, a tool.
    pub(super) who: String,
    pub(super) text: String,
}

/// What was said in an exchange that was not said before.
pub(super) fn said(history: &History, exchange: &ExchangeRecord) -> Vec<Line> {
    lines(history.news(exchange), exchange)
}

/// Messages, and what was answered.
fn lines(messages: &[Message], exchange: &ExchangeRecord) -> Vec<Line> {
    let line = |who: &str, text: String| Line {
        who: who.to_owned(),
        text,
    };
    let mut lines: Vec<Line> = messages
        .iter()
        .map(|message| match message {
            Message::System { text } => line("system", text.clone()),
            Message::User { content } => line(&exchange.role, content.iter().map(shown).collect()),
            Message::Assistant { text, calls } => line(&exchange.model, spoken(text, calls)),
            Message::Tool { call, text } => line(&format!("result of {call}"), text.clone()),
        })
        .collect();
    lines.push(match &exchange.answer {
        Answer::Reply(reply) => line(&exchange.model, spoken(&reply.text, &reply.calls)),
        Answer::Error { kind, message } => line("error", format!("{}: {message}", kind.name())),
    });
    lines
}

fn shown(content: &Content) -> String {
    match content {
        Content::Text { text } => text.clone(),
        Content::Image { media_type, data } => format!("[{media_type}, {} bytes]", data.len()),
    }
}

fn spoken(text: &str, calls: &[ToolCall]) -> String {
    let calls = calls
        .iter()
        .map(|call| format!("\n[calls {} as {}: {}]", call.name, call.id, call.arguments));
    format!("{text}{}", calls.collect::<String>())
}

fn print(exchange: &ExchangeRecord, lines: &[Line]) {
    let usage = match reply(exchange).and_then(|reply| reply.usage) {
        Some(usage) => format!(", {} tokens read, {} written", usage.input, usage.output),
        None => String::new(),
    };
    println!(
        "=== exchange {}: {} asks {}, {:.1} s{usage}",
        exchange.number, exchange.role, exchange.model, exchange.seconds
    );
    for line in lines {
        println!("--- {}\n{}\n", line.who, line.text.trim_end());
    }
}

/// What each role took, and what that costs at the prices that the environment names.
fn bill(history: &History) -> Result<()> {
    let config = Config::from_env()?;
    let mut roles: BTreeMap<(&str, &str), (usize, Usage)> = BTreeMap::new();
    for exchange in &history.exchanges {
        let (calls, usage) = roles.entry((&exchange.role, &exchange.model)).or_default();
        *calls += 1;
        *usage = *usage + reply(exchange).and_then(|reply| reply.usage).unwrap_or_default();
    }
    println!("run {}: {}", short(history.run.key), history.run.name);
    let mut money = 0.0;
    for ((role, model), (calls, usage)) in roles {
        let cost = config.role(role).price().of(usage);
        money += cost;
        println!(
            "  {role} with {model}: {calls} exchanges, {} tokens read ({} from a cache), {} written{}",
            usage.input,
            usage.cached,
            usage.output,
            price(cost)
        );
    }
    let usage = history.usage();
    println!("  together: {} tokens{}", usage.total(), price(money));
    Ok(())
}

/// An amount of money; nothing where no price is known.
fn price(money: f64) -> String {
    if money > 0.0 {
        format!(", {money:.4} in money")
    } else {
        String::new()
    }
}
