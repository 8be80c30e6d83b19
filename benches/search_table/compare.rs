//! Strategies on tables.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use akg::digest::Digest;
use akg::search::{Adaptive, BestOfN, Evolution, Features, Measured, Outcome, Population, Random, Strategy};
use akg::timing::median;
use akg::verdict::FailureKind;
use akg::{Error, Result};
use clap::Args;
use rand::RngExt as _;

use super::agent::{Point, Simulated};
use super::space::Structure;
use super::table::{Came, Row, Table};
use super::{figure, parallel};

/// Numbers of evaluations at which strategies are compared.
const MARKS: [usize; 10] = [8, 16, 24, 32, 48, 64, 96, 128, 192, 256];
/// Moves at most. What does not parse and what is a duplicate is a move and no evaluation.
const MOVES: usize = 3 * MARKS[MARKS.len() - 1];
/// Moves under way at the same time.
const UNDER_WAY: usize = 4;

#[derive(Debug, Args)]
pub(super) struct Compare {
    /// Folder of the tables.
    #[arg(long, default_value = "benches/data/search")]
    tables: PathBuf,
    /// Runs of each strategy on each table.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Where to draw the figure.
    #[arg(long)]
    figure: Option<PathBuf>,
    /// Threads.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

impl Default for Compare {
    fn default() -> Self {
        Self {
            tables: "benches/data/search".into(),
            seeds: 20,
            figure: None,
            jobs: 2,
        }
    }
}

/// A strategy by its name in results.
type Entry = (&'static str, fn(u64, usize) -> Box<dyn Strategy>);

/// What is compared.
const STRATEGIES: [Entry; 5] = [
    ("random", |seed, most| Box::new(Random { seed, most })),
    ("best-of-N", |_, most| Box::new(BestOfN { most, width: most })),
    ("climb", |_, most| Box::new(BestOfN { most, width: 8 })),
    ("evolution", |seed, most| Box::new(Evolution::new(seed, most))),
    ("adaptive", |seed, most| Box::new(Adaptive::new(seed, most))),
];

/// A table as strategies search it.
struct Problem {
    name: String,
    structures: Vec<Structure>,
    rows: HashMap<Point, Row>,
    /// Microseconds of the candidate that is the fastest beyond doubt: the most that it may take is the least.
    best: f64,
}

/// How near to the best a strategy is at each mark: the time of what it would return over that of the fastest candidate.
type Trace = [f64; MARKS.len()];

impl Compare {
    pub(super) fn run(&self) -> Result<()> {
        let problems = self.problems()?;
        let mut report = String::new();
        let counted = problems.iter().map(|p| p.rows.len()).sum::<usize>();
        let _ = writeln!(
            report,
            "{} tasks, {counted} candidates, {} seeds",
            problems.len(),
            self.seeds
        );
        let mut curves = Vec::new();
        for (name, make) in STRATEGIES {
            let runs: Vec<(&Problem, u64)> = problems
                .iter()
                .flat_map(|problem| (0..self.seeds).map(move |seed| (problem, seed)))
                .collect();
            let traces: Vec<Trace> =
                parallel(self.jobs, &runs, |(problem, seed)| problem.search(make, *seed))
                    .into_iter()
                    .collect::<Result<_>>()?;
            let mut medians: Vec<Trace> = Vec::new();
            for of_problem in traces.chunks(self.seeds.max(1) as usize) {
                let at = |mark: usize| {
                    let values: Vec<f64> = of_problem.iter().map(|trace| trace[mark]).collect();
                    median(&values).unwrap_or(f64::INFINITY)
                };
                medians.push(std::array::from_fn(at));
            }
            curves.push((name, medians));
        }
        let _ = writeln!(
            report,
            "\nspeed of what is found over that of the best, median over seeds, geometric mean over tasks\n"
        );
        let marks: Vec<String> = MARKS.iter().map(|mark| format!("{mark:>6}")).collect();
        let _ = writeln!(report, "{:<12}{}", "evaluations", marks.concat());
        for (name, medians) in &curves {
            let cells: Vec<String> = mean(medians)
                .iter()
                .map(|speed| format!("{speed:>6.3}"))
                .collect();
            let _ = writeln!(report, "{name:<12}{}", cells.concat());
        }
        for mark in [3, 5, 9] {
            let names: Vec<String> = curves.iter().map(|(name, _)| format!("{name:>10}")).collect();
            let _ = writeln!(
                report,
                "\n{:<20}{} at {} evaluations",
                "task",
                names.concat(),
                MARKS[mark]
            );
            for (at, problem) in problems.iter().enumerate() {
                let cells: Vec<String> = curves
                    .iter()
                    .map(|(_, m)| format!("{:>10.3}", 1.0 / m[at][mark]))
                    .collect();
                let _ = writeln!(report, "{:<20}{}", problem.name, cells.concat());
            }
        }
        print!("{report}");
        if let Some(path) = &self.figure {
            let lines: Vec<(&str, Vec<f64>)> =
                curves.iter().map(|(name, m)| (*name, mean(m).to_vec())).collect();
            fs::write(path, figure::draw(&MARKS, &lines))
                .map_err(|e| Error::io(format!("cannot write {}", path.display()), e))?;
        }
        Ok(())
    }

    fn problems(&self) -> Result<Vec<Problem>> {
        let cannot = |e| Error::io(format!("cannot read {}", self.tables.display()), e);
        let mut paths: Vec<PathBuf> = fs::read_dir(&self.tables)
            .map_err(cannot)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
            .collect();
        paths.sort();
        paths.iter().map(|path| Problem::read(path)).collect()
    }
}

/// The geometric mean of speeds over tasks.
fn mean(medians: &[Trace]) -> Trace {
    std::array::from_fn(|mark| {
        let logs: f64 = medians.iter().map(|trace| trace[mark].ln()).sum();
        (-logs / medians.len().max(1) as f64).exp()
    })
}

impl Problem {
    fn read(path: &std::path::Path) -> Result<Self> {
        let table = Table::read(path)?;
        let passed = table.rows.values().filter_map(|row| match row.4 {
            Came::Passed(median, reach) => Some((median, median + reach)),
            Came::Failed(_) => None,
        });
        // Of thousands, the least median is one that was disturbed in the right way.
        let best = passed.min_by(|a, b| a.1.total_cmp(&b.1));
        let best = best.map_or(f64::INFINITY, |(median, _)| median);
        Ok(Self {
            name: path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            structures: table.structures,
            rows: table.rows,
            best,
        })
    }

    /// Searches the table. What candidates take is as uncertain as it was measured. Moves settle in another order than they
    /// begin in.
    fn search(&self, make: fn(u64, usize) -> Box<dyn Strategy>, seed: u64) -> Result<Trace> {
        let most = MARKS[MARKS.len() - 1];
        let strategy = make(seed, MOVES);
        let mut agent = Simulated::new(&self.structures, seed);
        let mut population = Population::default();
        let mut proposed: Vec<Option<Point>> = Vec::new();
        let mut trace = [f64::INFINITY; MARKS.len()];
        let mut evaluations = 0;
        let mut under_way: Vec<(usize, Point)> = Vec::new();
        while evaluations < most {
            let next = strategy.next(&population).continue_value();
            if let Some(next) = &next {
                let number = population.begin(next)?;
                let point = agent.propose(next, &proposed);
                proposed.push(point.clone());
                match point {
                    None => population.settle(number, None, Outcome::Failed(FailureKind::Rejected))?,
                    Some(point) => {
                        if population.identify(number, Digest::of_value(&point)?)?.is_none() {
                            under_way.push((number, point));
                        }
                    }
                }
            }
            if under_way.len() >= UNDER_WAY || next.is_none() {
                if under_way.is_empty() {
                    break;
                }
                let (number, point) = under_way.swap_remove(agent.random.random_range(0..under_way.len()));
                let (features, outcome) = self.evaluate(&point, &mut agent);
                population.settle(number, features, outcome)?;
                evaluations += 1;
                let found = population.best().and_then(|best| proposed[best.number].as_ref());
                let found = found.and_then(|point| match self.rows.get(point)?.4 {
                    Came::Passed(median, _) => Some(median / self.best),
                    Came::Failed(_) => None,
                });
                let marks = MARKS
                    .iter()
                    .position(|mark| evaluations <= *mark)
                    .unwrap_or(MARKS.len());
                for value in &mut trace[marks..] {
                    *value = found.unwrap_or(f64::INFINITY);
                }
            }
        }
        Ok(trace)
    }

    fn evaluate(&self, point: &Point, agent: &mut Simulated<'_>) -> (Option<Features>, Outcome) {
        let Some(row) = self.rows.get(point) else {
            return (None, Outcome::Failed(FailureKind::Rejected));
        };
        let structure = &self.structures[row.0];
        let features = Features {
            family: structure.family.clone(),
            tile_elements: row.2,
            on_chip_bytes: row.3,
            precision: structure.precision.clone(),
        };
        match row.4 {
            Came::Failed(kind) => (Some(features), Outcome::Failed(kind)),
            Came::Passed(median, reach) => {
                let off = agent.random.random_range(-1.0..=1.0) * reach;
                let measured = Measured {
                    seconds: (median + off) * 1e-6,
                    spread: reach * 1e-6,
                };
                (Some(features), Outcome::Passed(measured))
            }
        }
    }
}
