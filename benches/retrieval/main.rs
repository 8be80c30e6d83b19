//! How useful what is retrieved is: for tasks that no stored kernel answers, whether the most useful of all stored kernels is
//! among the first three that are found.
//!
//! `cargo bench --bench retrieval` stores the rules' kernel of 225 tasks in 25 families, each with the knobs that the cost model
//! likes best for its size, and asks for 50 tasks of other sizes: two of each family, and once more for 50 where the choice matters,
//! because no more than a third of the family's kernels are about as fast as its fastest. Extents are open in all sketches, so that each
//! stored kernel of a family can be lowered again on each held-out task of it: its use is its time there. By default
//! the time is the cost model's, for the device of `--device`; with `--measure` it is measured, for this machine's CPU in C++, and judged,
//! which takes an hour of a machine that does nothing else. A kernel is as useful as the best if it is within 2 % of it.

mod families;
mod times;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

use akg::designer::{Design, design};
use akg::expr::Bindings;
use akg::knowledge::{
    Article, Body, Card, KernelBody, Kind, Knowledge as _, KnowledgeExt as _, MemoryKnowledge, Problem, Query,
};
use akg::tuner::kernel_of;
use akg::{Digest, Error, Result, Target, Task};
use clap::Parser;

use self::families::{FAMILIES, Sizes};
use self::times::{Model, Stopwatch, Times};

/// Stored tasks of each family.
const STORED: usize = 9;

/// Tasks of a family that are looked at for those where the choice matters.
const LOOKED_AT: usize = 60;

/// The part of a family's kernels that is as useful as the best, at most, where the choice matters.
const CHOICE: f64 = 1.0 / 3.0;

/// Kernels whose times differ less are as useful.
const AS_USEFUL: f64 = 1.02;

/// What is found of all that is stored.
const FOUND: usize = 3;

/// Configurations among which the stored knobs are chosen.
const POINTS: usize = 64;

#[derive(Debug, Parser)]
struct Options {
    /// Measure on this machine's CPU instead of asking the cost model.
    #[arg(long)]
    measure: bool,
    /// The device that the cost model estimates for, as JSON; by default this machine's CPU.
    #[arg(long, value_name = "FILE", conflicts_with = "measure")]
    device: Option<PathBuf>,
    /// Tasks that are held out, of as many families as there are.
    #[arg(long, default_value_t = 50)]
    held_out: usize,
    /// What makes sizes.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How much what is found shall differ; the library's choice by default.
    #[arg(long)]
    diversity: Option<f64>,
    /// Only a part of the tasks, such as `0/8`, to share the measuring between processes with cores of their own.
    #[arg(long, default_value = "0/1", value_parser = part)]
    part: (usize, usize),
    /// Cargo says so.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A part and how many there are.
fn part(text: &str) -> Result<(usize, usize), String> {
    let numbers = text
        .split_once('/')
        .map(|(part, parts)| (part.parse(), parts.parse()));
    match numbers {
        Some((Ok(part), Ok(parts))) if part < parts => Ok((part, parts)),
        _ => Err("give a number below another, such as `0/8`".to_owned()),
    }
}

/// A kernel on the shelf.
struct Stored {
    key: Digest,
    design: Design,
}

fn main() -> ExitCode {
    akg::worker::init();
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:?}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<()> {
    let target = match &options.device {
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|e| Error::io(format!("cannot read the device {}", path.display()), e))?;
            serde_json::from_str(&text).map_err(|e| Error::invalid("this is no device").caused_by(e))?
        }
        None => times::this_machine()?,
    };
    let times: Box<dyn Times> = if options.measure {
        Box::new(Stopwatch::new(&target)?)
    } else {
        Box::new(Model)
    };
    let sizes = if options.measure {
        Sizes {
            most_elements: 1 << 22,
            most_products: 1 << 30,
        }
    } else {
        Sizes {
            most_elements: 1 << 26,
            most_products: 1 << 34,
        }
    };
    let shelf = MemoryKnowledge::new();
    let mut families = Vec::new();
    for (family, number) in FAMILIES.iter().zip(0..) {
        let mut tasks = family.tasks(sizes, options.seed.wrapping_mul(1000).wrapping_add(number))?;
        let kernels = tasks
            .by_ref()
            .take(STORED)
            .map(|task| store(&shelf, &task, &target));
        let kernels: Vec<Stored> = kernels.collect::<Result<_>>()?;
        families.push((kernels, tasks.take(LOOKED_AT).collect::<Vec<Task>>()));
    }
    let count: usize = families.iter().map(|(kernels, _)| kernels.len()).sum();
    println!(
        "{count} kernels stored, times: {}, device: {}",
        times.name(),
        target.name
    );
    let matters = |task: &Task, kernels: &[Stored]| {
        Uses::of(task, kernels, &Model, &target).is_ok_and(|uses| uses.matter())
    };
    for (what, choice) in [
        ("tasks as they come", false),
        ("tasks where the choice matters", true),
    ] {
        println!("\n{what}");
        let chosen = families.iter().map(|(kernels, tasks)| {
            let tasks = tasks.iter().filter(|task| !choice || matters(task, kernels));
            (kernels, tasks.collect::<Vec<_>>())
        });
        let chosen: Vec<_> = chosen.collect();
        // The first of each family, then the second of each, and so on.
        let turn = |turn: usize| {
            chosen
                .iter()
                .filter_map(move |(kernels, tasks)| Some((*kernels, *tasks.get(turn)?)))
        };
        let mut tally = Tally {
            stored: count,
            ..Tally::default()
        };
        let (part, parts) = options.part;
        let held_out = (0..LOOKED_AT).flat_map(turn).take(options.held_out);
        for (kernels, task) in held_out.skip(part).step_by(parts) {
            let uses = Uses::of(task, kernels, &*times, &target)?;
            tally.add(task, &uses, &shelf, (options, &target))?;
        }
        tally.print();
    }
    Ok(())
}

/// Shelves the rules' kernel of a task with the knobs that the cost model likes best.
fn store(shelf: &MemoryKnowledge, task: &Task, target: &Target) -> Result<Stored> {
    let mut design = design(task, target)?;
    let points: Vec<_> = design.points(&Bindings::new()).take(POINTS).collect();
    let time = |knobs: &_| times::model(&design, knobs, task, target);
    let timed = points
        .into_iter()
        .filter_map(|knobs| Some((time(&knobs)?, knobs)));
    if let Some((_, knobs)) = timed.min_by(|a, b| a.0.total_cmp(&b.0)) {
        design.knobs = knobs;
    }
    let problem = Problem::of(task)?;
    let key = problem.task;
    shelf.shelve(&Article {
        card: Card {
            key,
            kind: Kind::Kernel,
            name: task.name.clone(),
            dsl: None,
            backend: Some(target.backend.clone()),
            arch: None,
            problem: Some(problem),
            skeleton: Some(kernel_of(&design.sketch)),
        },
        body: Body::Kernel(KernelBody {
            graph: task.graph.to_string(),
            sketch: design.sketch.to_string(),
            knobs: design.knobs.clone(),
            dsl: "cpp".to_owned(),
            device: target.name.clone(),
            accuracy: task.contract.accuracy,
            seconds: None,
            speedup: None,
            tried: 0,
        }),
        embedding: None,
    })?;
    Ok(Stored { key, design })
}

/// What the kernels of a family take on a task.
struct Uses {
    seconds: BTreeMap<Digest, f64>,
    best: f64,
}

impl Uses {
    fn of(task: &Task, kernels: &[Stored], times: &dyn Times, target: &Target) -> Result<Self> {
        let mut seconds = BTreeMap::new();
        for kernel in kernels {
            if let Some(time) = times.seconds(&kernel.design, task, target)? {
                seconds.insert(kernel.key, time);
            }
        }
        let best = seconds.values().copied().fold(f64::INFINITY, f64::min);
        Ok(Self { seconds, best })
    }

    /// How many are as useful as the best.
    fn good(&self) -> usize {
        self.seconds
            .values()
            .filter(|time| **time <= self.best * AS_USEFUL)
            .count()
    }

    /// Whether the choice of a kernel matters.
    fn matter(&self) -> bool {
        self.good() > 0 && self.good() as f64 <= CHOICE * self.seconds.len() as f64
    }
}

/// What came of it.
#[derive(Default)]
struct Tally {
    stored: usize,
    tasks: usize,
    families: BTreeSet<String>,
    /// Held-out tasks whose most useful kernel was found first, and among the first three.
    first: usize,
    found: usize,
    /// The same for three kernels at random, of the family and of all, as a chance.
    of_family: f64,
    of_all: f64,
    /// Logarithms of the time of the best that was found over that of the best that is stored.
    losses: Vec<f64>,
    /// Logarithms of the time of the worst of the family over that of the best: what there is to lose.
    spreads: Vec<f64>,
}

impl Tally {
    fn add(
        &mut self,
        task: &Task,
        uses: &Uses,
        shelf: &MemoryKnowledge,
        (options, target): (&Options, &Target),
    ) -> Result<()> {
        let (best, good) = (uses.best, uses.good());
        let worst = uses.seconds.values().copied().fold(0.0, f64::max);
        let mut query = Query::of(task, target)?.about(&[Kind::Kernel]).at_most(FOUND);
        query.diversity = options.diversity.unwrap_or(query.diversity);
        let found: Vec<f64> = shelf
            .search(&query)?
            .iter()
            .map(|found| {
                uses.seconds
                    .get(&found.article.card.key)
                    .copied()
                    .unwrap_or(f64::INFINITY)
            })
            .collect();
        let reached = found.iter().copied().fold(f64::INFINITY, f64::min);
        self.tasks += 1;
        self.families.insert(task.name.clone());
        self.first += usize::from(found.first().is_some_and(|time| *time <= best * AS_USEFUL));
        self.found += usize::from(reached <= best * AS_USEFUL);
        self.of_family += chance(good, uses.seconds.len());
        self.of_all += chance(good, self.stored);
        // Where nothing of use was found, it is as if the worst were taken.
        self.losses.push((reached.min(worst) / best).ln());
        self.spreads.push((worst / best).ln());
        let extents: Vec<String> = task
            .contract
            .hints
            .iter()
            .map(|(name, n)| format!("{name} = {n}"))
            .collect();
        println!(
            "{}, {}: best {:.1} µs, found {:.1} µs, worst {:.1} µs; {good} of {} as useful",
            task.name,
            extents.join(", "),
            best * 1e6,
            reached * 1e6,
            worst * 1e6,
            uses.seconds.len(),
        );
        Ok(())
    }

    fn print(&self) {
        let part = |count: f64| 100.0 * count / self.tasks.max(1) as f64;
        let mean = |logs: &[f64]| (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
        println!(
            "{} tasks of {} families: the most useful kernel is found first for {:.0} %, among the first {FOUND} for {:.0} % ({} of {}); \
             {FOUND} at random of the same family have it for {:.0} %, of all for {:.0} %",
            self.tasks,
            self.families.len(),
            part(self.first as f64),
            part(self.found as f64),
            self.found,
            self.tasks,
            part(self.of_family),
            part(self.of_all),
        );
        println!(
            "the best that is found takes {:.3} times as long as the best that is stored, the worst {:.3} times (geometric means)",
            mean(&self.losses),
            mean(&self.spreads),
        );
    }
}

/// The chance that three of `all` have one of `good`.
fn chance(good: usize, all: usize) -> f64 {
    let others = all.saturating_sub(good);
    let missed = (0..FOUND).map(|i| others.saturating_sub(i) as f64 / all.saturating_sub(i).max(1) as f64);
    1.0 - missed.product::<f64>()
}
