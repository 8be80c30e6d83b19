//! Strategies of search against tables of what candidates take.
//!
//! `cargo bench --bench search_table -- make --jobs N` makes the tables: each candidate of some small tasks, in every structure
//! that the rules design for this device and others and crossover makes of them, at every value of the knobs, is built,
//! compared with the reference and timed on one thread of the CPU. What is in a table already is not measured again, so a run
//! may end anywhere. Failures are kept.
//!
//! `cargo bench --bench search_table -- compare` lets strategies search the tables of `benches/data/search` with the same number
//! of evaluations, and prints and draws how near to the best candidate they come: see docs/search.md.

mod agent;
mod build;
mod compare;
mod figure;
mod make;
mod measure;
mod space;
mod table;
mod tasks;

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    command: Option<Command>,
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measures candidates.
    Make(make::Make),
    /// Compares strategies.
    Compare(compare::Compare),
}

fn main() -> ExitCode {
    akg::worker::init();
    // Cargo puts its own option last.
    let arguments = std::env::args().filter(|argument| argument != "--bench");
    let done = match Options::parse_from(arguments).command {
        Some(Command::Make(make)) => make.run(),
        Some(Command::Compare(compare)) => compare.run(),
        None => compare::Compare::default().run(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// What `work` makes of each item, by so many threads, in the order of the items.
fn parallel<T: Sync, R: Send>(jobs: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = work(item);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
