//! `akg env`: judges what a learner sends, as JSON lines.

use std::io::{self, BufRead as _, Read as _};
use std::process::ExitCode;
use std::time::Duration;

use akg::environment::{Environment, Message};
use akg::{Error, Result, Task};
use clap::Args;

use super::progress::Progress;
use super::store::MemoryArgs;
use super::task::{load, memory_budget, python};
use super::{ContractArgs, JudgeArgs, PythonArgs, SizeArgs, TargetArgs, TaskArgs, parse_duration};

/// Bytes of a line at most.
const MOST_BYTES: u64 = 4 << 20;

#[derive(Debug, Args)]
pub(super) struct EnvArgs {
    /// The tasks: KernelBench-form `.py` files, graphs as `.json`, or `builtin:NAME`.
    #[arg(required = true)]
    tasks: Vec<String>,
    /// Accuracy class: fp32, tf32 or half.
    #[arg(long, default_value = "fp32")]
    accuracy: akg::Accuracy,
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    judge: JudgeArgs,
    /// Attempts at each task.
    #[arg(long, default_value_t = 16)]
    attempts: usize,
    /// Wall time after which no candidate is judged any more; by default there is no end.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    budget: Option<Duration>,
    /// Show the sketch of the rules with each task.
    #[arg(long)]
    start: bool,
    #[command(flatten)]
    memory: MemoryArgs,
}

impl EnvArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        self.judge.demand_isolation()?;
        let (dsl, backend) = self.target.find()?;
        self.judge.demand_sanitizers(&*backend)?;
        let mut environment = Environment::new(dsl, backend, self.load()?)
            .with_verifier(self.judge.verifier())
            .with_store(self.memory.open()?.store)
            .with_timing(self.contest())
            .with_attempts(self.attempts)
            .with_start(self.start);
        if let Some(budget) = self.budget {
            environment = environment.with_budget(budget);
        }
        say(&akg::blocking::begin(&mut environment)?)?;
        let mut input = io::stdin().lock();
        while !environment.is_over() {
            let messages = match line(&mut input)? {
                Some(Ok(text)) if text.trim().is_empty() => continue,
                Some(Ok(text)) => akg::blocking::answer(&mut environment, &text),
                Some(Err(error)) => vec![Message::error(None, &error)],
                None => {
                    environment.leave()?;
                    break;
                }
            };
            say(&messages)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// How candidates are timed beside the kernel of the rules: in two seconds, unless told otherwise.
    fn contest(&self) -> akg::timing::ContestPolicy {
        let judge = JudgeArgs {
            no_baseline: true,
            ..self.judge.clone()
        };
        judge.contest()
    }

    fn load(&self) -> Result<Vec<Task>> {
        let progress = Progress::new(true);
        let config = self.python.config();
        let memory = self.size.memory.or_else(memory_budget);
        let load = |task: &String| {
            let args = TaskArgs {
                task: task.clone(),
                contract: ContractArgs {
                    accuracy: self.accuracy,
                    ..ContractArgs::default()
                },
            };
            load(&args, memory, || python(&config, &progress), &progress).map(|loaded| loaded.task)
        };
        self.tasks.iter().map(load).collect()
    }
}

/// Prints messages, one a line.
fn say(messages: &[Message]) -> Result<()> {
    for message in messages {
        let line = serde_json::to_string(message)
            .map_err(|e| Error::unexpected("cannot write a message as JSON").caused_by(e))?;
        println!("{line}");
    }
    Ok(())
}

/// The next line; the inner error says that it is too long or no text, and it is skipped to its end.
fn line(input: &mut impl io::BufRead) -> Result<Option<Result<String>>> {
    let trouble = |e| Error::io("cannot read the learner's line", e);
    let mut bytes = Vec::new();
    if input
        .take(MOST_BYTES)
        .read_until(b'\n', &mut bytes)
        .map_err(trouble)?
        == 0
    {
        return Ok(None);
    }
    let is_whole = bytes.ends_with(b"\n") || (bytes.len() as u64) < MOST_BYTES;
    if !is_whole {
        skip(input).map_err(trouble)?;
        return Ok(Some(Err(Error::invalid(format!(
            "a line has more than {MOST_BYTES} bytes"
        )))));
    }
    let text = String::from_utf8(bytes).map_err(|e| Error::invalid("a line is no UTF-8").caused_by(e));
    Ok(Some(text))
}

/// Reads to the end of the line without keeping it.
fn skip(input: &mut impl io::BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let (used, is_end) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        input.consume(used);
        if is_end {
            return Ok(());
        }
    }
}
