//! Modules of PyTorch: each imported, designed for a device, interpreted, and compared with PyTorch.
//!
//! ```text
//! cargo run --release --example check_modules -- --kernelbench DIRECTORY --out found [--device FILE] [--only level3/]
//! cargo run --release --example check_modules -- --modules DIRECTORY --out found [--device FILE] [--only PART_OF_A_PATH]
//! ```
//!
//! `--kernelbench` takes a checkout of KernelBench and makes its problems small first. `--modules` takes every module in a directory
//! as it is; `examples/pytorch_samples` makes one of PyTorch's own test database. Neither a compiler nor the device has to be there:
//! `examples/devices` describes some. Every finished module is a line of `found/modules.tsv`: started again, the program goes on
//! where it was. What is wrong with a module is beside it, with its text. `--shard 2/8` checks every eighth module, from the second.
//! `--only-design true` imports and designs modules and says how many seconds each took, for networks that are too large to
//! interpret.

mod kernelbench;

use std::collections::HashSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

use akg::conformance::random::{Case, Finding, check};
use akg::cpu::CpuBackend;
use akg::designer::design;
use akg::python::{
    Config, Environment, ImportOptions, ImportedModule, Job, Precision, Python, PythonOptions, Seeds, Source,
};
use akg::reference::{Options, evaluate};
use akg::{Backend as _, Error, Result, Target, Task, Tensor};
use futures::executor::block_on;
use kernelbench::{BATCHES, Problem};

/// The operations and elements of a module that is taken as it is.
const LARGEST: f64 = 2e8;

/// The distance of PyTorch's double precision from the reference's that is put up with, of the largest element, and the largest element of
/// outputs that are sums of nothing but rounding errors, such as the mean of what has none: they may be 1e-13 apart, some hundred
/// roundings of numbers around one.
const TOLERANCE: f64 = 1e-6;
const NOTHING: f64 = 1e-7;

/// The modules to check.
enum Modules {
    KernelBench(PathBuf),
    Directory(PathBuf),
}

/// The arguments of the program.
struct Arguments {
    modules: Modules,
    out: PathBuf,
    device: Option<PathBuf>,
    only: String,
    only_design: bool,
    /// The number of the shard, from 1, and how many there are.
    shard: (usize, usize),
}

impl Arguments {
    fn read() -> Result<Self> {
        let usage = || {
            Error::invalid(
                "usage: check_modules (--kernelbench DIRECTORY | --modules DIRECTORY) --out DIRECTORY [--device FILE] \
                 [--only PART_OF_A_PATH] [--only-design true] [--shard NUMBER/COUNT]",
            )
        };
        let mut modules = None;
        let mut out = None;
        let mut device = None;
        let mut only = String::new();
        let mut only_design = false;
        let mut shard = (1, 1);
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(usage)?;
            match name.as_str() {
                "--kernelbench" => modules = Some(Modules::KernelBench(value.into())),
                "--modules" => modules = Some(Modules::Directory(value.into())),
                "--out" => out = Some(value.into()),
                "--device" => device = Some(value.into()),
                "--only" => only = value,
                "--only-design" => only_design = value.parse().map_err(|_| usage())?,
                "--shard" => shard = shard_of(&value).ok_or_else(usage)?,
                _ => return Err(usage()),
            }
        }
        Ok(Self {
            modules: modules.ok_or_else(usage)?,
            out: out.ok_or_else(usage)?,
            device,
            only,
            only_design,
            shard,
        })
    }

    fn target(&self) -> Result<Target> {
        let Some(path) = &self.device else {
            let devices = block_on(CpuBackend::builder().build().devices())?;
            let host = devices.into_iter().next();
            return host.ok_or_else(|| Error::unexpected("this machine has no CPU"));
        };
        let text = fs::read_to_string(path).map_err(|e| Error::io("cannot read the device", e))?;
        serde_json::from_str(&text).map_err(|e| Error::invalid("not a device").caused_by(e))
    }
}

/// How far the reference is from PyTorch in double precision, of each output's largest element. `None` if chance is
/// part of the graph, which PyTorch draws from elsewhere.
fn distance(python: &mut Python, module: &ImportedModule, inputs: &[Tensor]) -> Result<Option<f64>> {
    let graph = &module.graph;
    if module.inputs.iter().any(|input| input.source == Source::Seed {}) {
        return Ok(None);
    }
    let job = Job { graph, inputs };
    let mut theirs = python.evaluate(&[job], Precision::Float64)?;
    let theirs = theirs
        .pop()
        .unwrap_or_else(|| Err(Error::unexpected("no answer")))?;
    let ours = evaluate(graph, inputs, &Options::default())?;
    let mut distance: f64 = 0.0;
    for (ours, theirs) in ours.iter().zip(theirs) {
        let (a, b) = (ours.to_f64(), theirs.to_f64()?);
        let largest = b.iter().fold(NOTHING, |most: f64, v| most.max(v.abs()));
        let exact = !theirs.dtype().is_float();
        for (a, b) in a.iter().zip(b) {
            let equal = *a == b || a.is_nan() && b.is_nan();
            let apart = if equal { 0.0 } else { (a - b).abs() / largest };
            let apart = if apart.is_nan() || exact && !equal {
                f64::INFINITY
            } else {
                apart
            };
            distance = distance.max(apart);
        }
    }
    Ok(Some(distance))
}

/// The modules of a directory and those below it, in order.
fn modules(directory: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot list {}", directory.display()), e);
    let mut entries = Vec::new();
    for entry in fs::read_dir(directory).map_err(cannot)? {
        entries.push(entry.map_err(cannot)?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() {
            modules(&path, found)?;
        } else if path.extension().is_some_and(|e| e == "py") {
            found.push(path);
        }
    }
    Ok(())
}

fn shard_of(text: &str) -> Option<(usize, usize)> {
    let (number, count) = text.split_once('/')?;
    let (number, count) = (number.parse().ok()?, count.parse().ok()?);
    (1..=count).contains(&number).then_some((number, count))
}

/// A module to check: a problem that is made small, or a file as it is.
enum Candidate {
    Problem(Problem),
    File { name: String, path: PathBuf },
}

impl Candidate {
    fn all(arguments: &Arguments) -> Result<Vec<Self>> {
        let all: Vec<Self> = match &arguments.modules {
            Modules::KernelBench(root) => Problem::all(root)?.into_iter().map(Self::Problem).collect(),
            Modules::Directory(directory) => {
                let mut files = Vec::new();
                modules(directory, &mut files)?;
                let candidate = |path: PathBuf| {
                    let inside = path.strip_prefix(directory).unwrap_or(&path).with_extension("");
                    let name = inside.to_string_lossy().into_owned();
                    Self::File { name, path }
                };
                files.into_iter().map(candidate).collect()
            }
        };
        let (number, count) = arguments.shard;
        let wanted = all
            .into_iter()
            .filter(|each| each.name().contains(&arguments.only));
        Ok(wanted.skip(number - 1).step_by(count).collect())
    }

    fn name(&self) -> &str {
        match self {
            Self::Problem(problem) => &problem.name,
            Self::File { name, .. } => name,
        }
    }

    /// Imports the module, from `scratch` if it is made small.
    fn import(&self, python: &mut Python, scratch: &Path) -> Result<Imported> {
        match self {
            Self::File { path, .. } => {
                let module = python.import(path, &ImportOptions::default(), &mut |_| {})?;
                Imported::new(python, module)
            }
            Self::Problem(problem) => {
                let mut imported = None;
                for batch in BATCHES {
                    let form = kernelbench::import(python, problem, scratch, batch)?;
                    let each = Imported::new(python, form.module)?;
                    let is_right = each.is_right();
                    imported = Some(each);
                    if is_right {
                        break;
                    }
                }
                imported.ok_or_else(|| Error::unexpected("nothing was tried"))
            }
        }
    }

    /// The file that was imported.
    fn file<'a>(&'a self, scratch: &'a Path) -> &'a Path {
        match self {
            Self::Problem(_) => scratch,
            Self::File { path, .. } => path,
        }
    }
}

/// A module with inputs, and how far the reference is from PyTorch on them.
struct Imported {
    module: ImportedModule,
    inputs: Vec<Tensor>,
    distance: Option<f64>,
}

impl Imported {
    fn new(python: &mut Python, module: ImportedModule) -> Result<Self> {
        let size = kernelbench::size(&module.graph)?;
        if size > LARGEST {
            return Err(Error::unsupported(format!(
                "{size:.1e} operations and elements, which is too much to interpret"
            )));
        }
        let inputs = python.materialize(&module, Seeds::default())?;
        let distance = distance(python, &module, &inputs)?;
        Ok(Self {
            module,
            inputs,
            distance,
        })
    }

    /// Conversions to half types round in double precision, too, and what follows keeps their errors.
    fn is_right(&self) -> bool {
        let roundings = self.module.graph.values().iter().filter_map(|value| {
            let dtype = value.ty.dtype;
            dtype.is_half().then(|| dtype.unit_roundoff().unwrap_or(0.0))
        });
        let tolerance = roundings.fold(TOLERANCE, |most, rounding| most.max(8.0 * rounding));
        self.distance.is_none_or(|distance| distance <= tolerance)
    }
}

/// The result of a check in one line, and at length if something is wrong.
fn outcome(
    python: &mut Python,
    candidate: &Candidate,
    scratch: &Path,
    target: &Target,
) -> Result<(String, Option<String>)> {
    let imported = candidate.import(python, scratch)?;
    let size = kernelbench::size(&imported.module.graph)?;
    let is_right = imported.is_right();
    let apart = imported
        .distance
        .map_or("chance".to_owned(), |far| format!("{far:.1e}"));
    let case = Case {
        seed: 0,
        task: Task::new(candidate.name().to_owned(), imported.module.graph),
        inputs: imported.inputs,
    };
    let line = |what: &str| format!("{what}\t{size:.1e}\t{apart}");
    if !is_right {
        return Ok((line("the reference is not PyTorch's"), Some(case.to_string())));
    }
    Ok(match check(&case, target)? {
        Finding::Verified => (line("verified"), None),
        Finding::Unsupported(why) => (line("unsupported"), Some(why)),
        Finding::Wrong(what) => (line("wrong"), Some(what)),
    })
}

/// Imports and designs a module that is taken as it is: the numbers of operators and of kernels, and the seconds that each step took.
fn designed(python: &mut Python, path: &Path, target: &Target) -> Result<String> {
    let start = Instant::now();
    let module = python.import(path, &ImportOptions::default(), &mut |_| {})?;
    let import = start.elapsed().as_secs_f64();
    let operators = module.graph.nodes().len();
    let start = Instant::now();
    let design = design(&Task::new(module.graph.name().to_owned(), module.graph), target)?;
    let seconds = start.elapsed().as_secs_f64();
    let kernels = design.kernels.len();
    Ok(format!(
        "designed\t{operators}\t{kernels}\t{import:.1}\t{seconds:.1}"
    ))
}

/// Keeps the text of a module, and what is wrong with it.
fn keep(name: &Path, module: &Path, evidence: &str) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot write {}", name.display()), e);
    fs::create_dir_all(name.parent().unwrap_or(name)).map_err(cannot)?;
    fs::write(format!("{}.txt", name.display()), evidence).map_err(cannot)?;
    fs::copy(module, format!("{}.py", name.display())).map_err(cannot)?;
    Ok(())
}

fn main() -> Result<()> {
    akg::worker::init();
    let arguments = Arguments::read()?;
    let target = arguments.target()?;
    let mut python = Python::new(Environment::find(&Config::default())?, PythonOptions::default());
    fs::create_dir_all(&arguments.out).map_err(|e| Error::io("cannot make the directory", e))?;
    let list = arguments.out.join("modules.tsv");
    let before = fs::read_to_string(&list).unwrap_or_default();
    let done: HashSet<&str> = before
        .lines()
        .filter_map(|line| line.split('\t').next())
        .collect();
    let open = OpenOptions::new().create(true).append(true).open(&list);
    let mut file = open.map_err(|e| Error::io("cannot write the list of modules", e))?;
    // One file for all: a worker may read what was there when it started.
    let scratch = arguments.out.join(format!("small-{}.py", arguments.shard.0));
    for candidate in Candidate::all(&arguments)? {
        let name = candidate.name();
        if done.contains(name) {
            continue;
        }
        let outcome = match &candidate {
            Candidate::File { path, .. } if arguments.only_design => {
                designed(&mut python, path, &target).map(|line| (line, None))
            }
            _ => outcome(&mut python, &candidate, &scratch, &target),
        };
        let (line, evidence) = match outcome {
            Ok(outcome) => outcome,
            Err(error) => (
                error.to_string().replace(['\n', '\t'], " "),
                Some(format!("{error:?}")),
            ),
        };
        if let Some(evidence) = evidence {
            keep(&arguments.out.join(name), candidate.file(&scratch), &evidence)?;
        }
        println!("{name}\t{line}");
        let written = writeln!(file, "{name}\t{line}");
        written.map_err(|e| Error::io("cannot write the list of modules", e))?;
    }
    Ok(())
}
