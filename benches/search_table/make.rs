//! Makes tables.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use akg::cpp::{CppConfig, CppDsl};
use akg::cpu::CpuBackend;
use akg::verdict::FailureKind;
use akg::{Dsl as _, Error, Result, Sketch, Target, Task, blocking};
use clap::Args;

use super::build::{Lowered, Shelf, Sources, lower};
use super::measure::{Kernels, Reference, describe, measure};
use super::parallel;
use super::space::{Structure, program, structures};
use super::table::{Came, Row, Table};
use super::tasks::{Spec, TASKS};

/// Candidates that are measured in turns.
const CHUNK: usize = 24;

#[derive(Debug, Args)]
pub(super) struct Make {
    /// Folder for the tables.
    #[arg(long, default_value = "benches/data/search")]
    out: PathBuf,
    /// Folder for what was built.
    #[arg(long, default_value = "target/search_table")]
    artifacts: PathBuf,
    /// Names of tasks, all if none.
    #[arg(long, value_delimiter = ',')]
    tasks: Vec<String>,
    /// Compilers at the same time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Candidates timed at the same time, each on a thread.
    #[arg(long, default_value_t = 1)]
    timers: usize,
    /// Candidates of a task at most.
    #[arg(long, default_value_t = 4000)]
    most: usize,
    /// Seconds after which nothing more is begun.
    #[arg(long, default_value_t = f64::INFINITY)]
    budget: f64,
    /// Prints what there is to do, and does nothing.
    #[arg(long)]
    plan: bool,
}

/// A candidate: its structure, the places of its knobs' values, and its kernels if it is right.
type Point = (usize, Vec<usize>, Option<Lowered>);

impl Make {
    pub(super) fn run(&self) -> Result<()> {
        let began = Instant::now();
        let target = blocking::devices(&CpuBackend::builder().build())?;
        let target = target.into_iter().next();
        let target = target.ok_or_else(|| Error::unexpected("this machine has no processor"))?;
        let mut config = CppConfig::default();
        config.time_limit = Duration::from_secs(30);
        let dsl = CppDsl::new(config);
        let limit = Duration::try_from_secs_f64(self.budget).unwrap_or(Duration::MAX / 4);
        let shelf = Shelf {
            folder: &self.artifacts,
            dsl: &dsl,
            target: &target,
        };
        std::fs::create_dir_all(&self.out)
            .map_err(|e| Error::io(format!("cannot make {}", self.out.display()), e))?;
        let wanted = |spec: &&Spec| self.tasks.is_empty() || self.tasks.iter().any(|name| name == spec.name);
        let specs: Vec<&Spec> = TASKS.iter().filter(wanted).collect();
        let begun = parallel(self.jobs, &specs, |spec| self.begin(spec, &target));
        println!("structures after {:.0?}", began.elapsed());
        for (spec, begun) in specs.into_iter().zip(begun) {
            let (task, table, structures) = begun?;
            self.task(&task, table, structures, &shelf, began + limit)?;
            println!("{}: done after {:.0?}", spec.name, began.elapsed());
        }
        Ok(())
    }

    /// A task, what is known of it, and its structures.
    fn begin(&self, spec: &Spec, target: &Target) -> Result<(Task, Table, Vec<Structure>)> {
        let task = spec.task()?;
        let table = Table::read(&self.out.join(format!("{}.jsonl", spec.name)))?;
        let structures = if table.structures.is_empty() {
            structures(&task, target, self.most)?
        } else {
            table.structures.clone()
        };
        Ok((task, table, structures))
    }

    fn task(
        &self,
        task: &Task,
        mut table: Table,
        structures: Vec<Structure>,
        shelf: &Shelf<'_>,
        until: Instant,
    ) -> Result<()> {
        let points = points(&structures, &table, self.jobs, shelf.target)?;
        let mut sources = Sources::new();
        let mut open: Vec<Point> = Vec::new();
        for (structure, digits, lowered) in points {
            let lowered = lowered.map(|(lowered, own)| {
                sources.extend(own);
                lowered
            });
            open.push((structure, digits, lowered));
        }
        let right = open.iter().filter(|point| point.2.is_some()).count();
        println!(
            "{}: {} structures, {} candidates to do, {right} of them right, {} kernels",
            task.name,
            structures.len(),
            open.len(),
            sources.len()
        );
        if self.plan {
            return Ok(());
        }
        shelf.build(&sources, self.jobs, until)?;
        println!("{}: built", task.name);
        if table.structures.is_empty() {
            let toolchain = describe(shelf.target, &shelf.dsl.toolchain(shelf.target)?);
            table.begin(&task.name, structures, shelf.target, toolchain)?;
        }
        let built = sources
            .keys()
            .copied()
            .filter(|kernel| shelf.object(*kernel).exists());
        let kernels = Kernels::load(shelf, built)?;
        let reference = Reference::new(task)?;
        let table = Mutex::new(table);
        let chunks: Vec<&[Point]> = open.chunks(CHUNK).collect();
        let done = parallel(self.timers, &chunks, |chunk| {
            if Instant::now() >= until {
                return Ok(());
            }
            let rows = rows(chunk, shelf, &kernels, &reference)?;
            table.lock().unwrap_or_else(|e| e.into_inner()).write(rows)
        });
        done.into_iter().collect()
    }
}

/// The candidates of structures that a table lacks, with their sources.
#[expect(clippy::type_complexity, reason = "a list of what two steps give")]
fn points(
    structures: &[Structure],
    table: &Table,
    jobs: usize,
    target: &Target,
) -> Result<
    Vec<(
        usize,
        Vec<usize>,
        Option<(Lowered, Vec<(akg::Digest, akg::source::Source)>)>,
    )>,
> {
    let mut open = Vec::new();
    for (at, structure) in structures.iter().enumerate() {
        let sketch = Sketch::parse(&structure.sketch).map_err(Error::from)?;
        let digits = (0..structure.count()).map(|point| structure.digits(point));
        let missing = digits.filter(|digits| !table.rows.contains_key(&(at, digits.clone())));
        open.extend(missing.map(|digits| (at, digits, sketch.clone())));
    }
    let lowered = parallel(jobs, &open, |(at, digits, sketch)| {
        let knobs = structures[*at].values(digits);
        // What the DSL does not write is as useless as what is wrong.
        let program = program(sketch, &knobs, target);
        (
            *at,
            digits.clone(),
            program.and_then(|program| lower(&program, target).ok()),
        )
    });
    Ok(lowered)
}

/// What came of candidates whose kernels are built, or refused.
fn rows(chunk: &[Point], shelf: &Shelf<'_>, kernels: &Kernels, reference: &Reference) -> Result<Vec<Row>> {
    let is_built = |lowered: &Lowered| lowered.launches.iter().all(|launch| kernels.has(launch.kernel));
    let ready: Vec<&Lowered> = chunk
        .iter()
        .filter_map(|point| point.2.as_ref())
        .filter(|lowered| is_built(lowered))
        .collect();
    let mut came = measure(&ready, kernels, reference)?.into_iter();
    let mut rows = Vec::new();
    for (structure, digits, lowered) in chunk {
        let came = match lowered {
            None => Some(Came::Failed(FailureKind::Rejected)),
            Some(lowered) if is_built(lowered) => came.next(),
            Some(lowered) => {
                let refused = lowered
                    .launches
                    .iter()
                    .any(|launch| shelf.is_refused(launch.kernel));
                // What was not built for want of time comes later.
                refused.then_some(Came::Failed(FailureKind::CompileFailed))
            }
        };
        let features = lowered.as_ref().map(|lowered| &lowered.features);
        let tile = features.map_or(0, |features| features.tile_elements);
        let bytes = features.map_or(0, |features| features.on_chip_bytes);
        rows.extend(came.map(|came| Row(*structure, digits.clone(), tile, bytes, came)));
    }
    Ok(rows)
}
