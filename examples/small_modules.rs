//! KernelBench's problems made small: each imported, designed for a device, interpreted, and compared with PyTorch.
//!
//! ```text
//! cargo run --release --example small_modules -- --root KernelBench --out small [--device FILE] [--only level3/]
//! ```
//!
//! The integers that a module's own lines give names to (`height = 224`), and if need be those in its classes, are halved until
//! its products and tensors are small enough to interpret. Neither a compiler nor the device has to be there:
//! `examples/devices` describes some. Every finished problem is a line of `small/problems.tsv`: started again, the program goes
//! on where it was. What is wrong with a problem is beside it, with the small module.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use akg::conformance::random::{Case, Finding, check};
use akg::cpu::CpuBackend;
use akg::expr::Bindings;
use akg::python::{
    Config, Environment, ImportOptions, ImportedModule, Job, Precision, Python, PythonOptions, Seeds, Source,
};
use akg::reference::{Options, evaluate};
use akg::timing::product_flops;
use akg::{Backend as _, DType, Error, Graph, Result, Target, Task, Tensor};
use futures::executor::block_on;

/// The operations of products and the elements of tensors that are interpreted in a few seconds, and those that are
/// put up with where a module cannot be smaller.
const WANTED: f64 = 3e7;
const MOST: f64 = 1e10;

/// What integers are halved down to, one after the other, where a module does not work with less.
const LEAST: [u64; 5] = [8, 16, 32, 64, 128];
const HALVINGS: u32 = 10;

/// The least extent of batches: its own, or more where a module means nothing with it, as where norms divide by the spread of
/// two numbers.
const BATCHES: [u64; 2] = [1, 4];

/// How far PyTorch's double precision may be from the reference's, of the largest element, and the largest element of
/// outputs that are sums of nothing but rounding errors, such as the mean of what has none: they may be 1e-13 apart, some hundred
/// roundings of numbers around one.
const TOLERANCE: f64 = 1e-6;
const NOTHING: f64 = 1e-7;

struct Wish {
    root: PathBuf,
    out: PathBuf,
    device: Option<PathBuf>,
    only: String,
}

impl Wish {
    fn read() -> Result<Self> {
        let usage =
            "usage: small_modules --root KERNELBENCH --out DIRECTORY [--device FILE] [--only PART_OF_A_PATH]";
        let mut wish = Self {
            root: PathBuf::new(),
            out: PathBuf::new(),
            device: None,
            only: String::new(),
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| Error::invalid(usage))?;
            match name.as_str() {
                "--root" => wish.root = value.into(),
                "--out" => wish.out = value.into(),
                "--device" => wish.device = Some(value.into()),
                "--only" => wish.only = value,
                _ => return Err(Error::invalid(usage)),
            }
        }
        if wish.root.as_os_str().is_empty() || wish.out.as_os_str().is_empty() {
            return Err(Error::invalid(usage));
        }
        Ok(wish)
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

/// A problem's text.
struct Problem {
    name: String,
    text: String,
}

impl Problem {
    /// All problems of the benchmark whose path contains `only`.
    fn all(root: &Path, only: &str) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        for level in 1..=3 {
            let directory = root.join(format!("KernelBench/level{level}"));
            let cannot = |e| Error::io(format!("cannot list {}", directory.display()), e);
            let mut files = Vec::new();
            for entry in fs::read_dir(&directory).map_err(cannot)? {
                files.push(entry.map_err(cannot)?.path());
            }
            files.retain(|path| path.extension().is_some_and(|e| e == "py"));
            files.sort_by_key(|path| number(path));
            for path in files {
                let stem = path.file_stem().unwrap_or_default().to_string_lossy();
                let name = format!("level{level}/{stem}");
                if name.contains(only) {
                    let text =
                        fs::read_to_string(&path).map_err(|e| Error::io("cannot read a problem", e))?;
                    found.push(Self { name, text });
                }
            }
        }
        Ok(found)
    }

    /// The text in which the integers that its own lines give names to are halved, and those in its classes too if `inside`;
    /// but not to less than `least`. What is called a batch has `batch` at least.
    fn smaller(&self, halvings: u32, least: u64, inside: bool, batch: u64) -> String {
        let halved = |text: &str| with_integers(text, |n| (n >> halvings).max(n.min(least)));
        let mut of_class = false;
        let mut smaller = String::new();
        for line in self.text.lines() {
            if is_of_module(line) {
                of_class = line.starts_with("class ");
            }
            smaller += &match line.split_once('=') {
                _ if inside && of_class => halved(line),
                Some((name, value)) if is_of_module(line) && name.contains("batch") => {
                    format!("{name}={}", with_integers(&halved(value), |n| n.max(batch)))
                }
                Some((name, value)) if is_of_module(line) => format!("{name}={}", halved(value)),
                _ => line.to_owned(),
            };
            smaller.push('\n');
        }
        smaller
    }
}

/// Whether a line belongs to the module itself, not to a class or function.
fn is_of_module(line: &str) -> bool {
    line.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// An expression with something else in the place of its integers.
fn with_integers(expression: &str, change: impl Fn(u64) -> u64) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let mut changed = String::new();
    let mut rest = expression;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, others) = rest.split_at(end);
        match word.parse::<u64>() {
            Ok(integer) => changed += &change(integer).to_string(),
            Err(_) => changed += word,
        }
        let next = others.find(is_word).unwrap_or(others.len());
        let (between, others) = others.split_at(next);
        changed += between;
        rest = others;
    }
    changed
}

fn number(path: &Path) -> u64 {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let digits = stem.split('_').next().unwrap_or_default();
    digits.parse().unwrap_or(u64::MAX)
}

/// The operations of a graph's products, and the elements of its tensors.
fn size(graph: &Graph) -> Result<f64> {
    let none = Bindings::new();
    let mut size = 0.0;
    for node in graph.nodes() {
        size += product_flops(graph, node, &none)?;
    }
    for value in graph.values() {
        size += value.ty.concrete_shape(&none)?.iter().product::<usize>() as f64;
    }
    Ok(size)
}

/// A module's text that `path` holds, what it was imported as, and its size.
struct Form {
    text: String,
    module: ImportedModule,
    size: f64,
}

impl Form {
    fn import(python: &mut Python, text: String, path: &Path) -> Result<Self> {
        write(&text, path)?;
        let module = python.import(path, &ImportOptions::default(), &mut |_| {})?;
        let size = size(&module.graph)?;
        Ok(Self { text, module, size })
    }

    /// The integers of the module's own lines halved one after the other, each as often as the module works with it.
    fn smaller(mut self, python: &mut Python, path: &Path) -> Result<Self> {
        for number in 0..self.text.lines().count() {
            for _ in 0..HALVINGS {
                let lines = self.text.lines().enumerate();
                let halved = lines.map(|(i, line)| match line.split_once('=') {
                    Some((name, value)) if i == number && is_of_module(line) => {
                        format!("{name}={}\n", with_integers(value, |n| (n / 2).max(n.min(1))))
                    }
                    _ => format!("{line}\n"),
                });
                let text: String = halved.collect();
                if text == self.text {
                    break;
                }
                match Self::import(python, text, path) {
                    Ok(form) if form.size < self.size => self = form,
                    _ => break,
                }
            }
        }
        write(&self.text, path)?;
        Ok(self)
    }
}

fn write(text: &str, path: &Path) -> Result<()> {
    fs::write(path, text).map_err(|e| Error::io("cannot write a module", e))
}

/// The largest form of a problem that is small enough, or the smallest there is.
fn import(python: &mut Python, problem: &Problem, path: &Path, batch: u64) -> Result<Form> {
    let mut smallest: Option<Form> = None;
    let mut refused = None;
    for (inside, least) in [false, true]
        .into_iter()
        .flat_map(|inside| LEAST.map(|least| (inside, least)))
    {
        if inside && smallest.as_ref().is_some_and(|form| form.size <= MOST) {
            break;
        }
        for halvings in 0..=HALVINGS {
            match Form::import(python, problem.smaller(halvings, least, inside, batch), path) {
                Err(error) => refused = Some(error),
                Ok(form) if form.size <= WANTED => return Ok(form),
                Ok(form) if smallest.as_ref().is_none_or(|least| form.size < least.size) => {
                    smallest = Some(form);
                }
                Ok(_) => {}
            }
        }
    }
    let nothing = || Error::unexpected("nothing was tried");
    let mut form = smallest.ok_or_else(|| refused.unwrap_or_else(nothing))?;
    if form.size > MOST {
        form = form.smaller(python, path)?;
    }
    if form.size > MOST {
        return Err(Error::unsupported(format!(
            "{:.1e} operations at least",
            form.size
        )));
    }
    write(&form.text, path)?;
    Ok(form)
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
        let exact = !matches!(theirs.dtype(), DType::F64);
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

/// What is said of a problem in one line, and at length if something is wrong.
fn outcome(
    python: &mut Python,
    problem: &Problem,
    path: &Path,
    target: &Target,
) -> Result<(String, Option<String>)> {
    let mut tried = None;
    for batch in BATCHES {
        let form = import(python, problem, path, batch)?;
        let inputs = python.materialize(&form.module, Seeds::default())?;
        let far = distance(python, &form.module, &inputs)?;
        tried = Some((form, inputs, far));
        if far.is_none_or(|far| far <= TOLERANCE) {
            break;
        }
    }
    let (Form { module, size, .. }, inputs, far) =
        tried.ok_or_else(|| Error::unexpected("nothing was tried"))?;
    let case = Case {
        seed: 0,
        task: Task::new(problem.name.clone(), module.graph),
        inputs,
    };
    let apart = far.map_or("chance".to_owned(), |far| format!("{far:.1e}"));
    let line = |what: &str| format!("{what}\t{size:.1e}\t{apart}");
    if far.is_some_and(|far| far > TOLERANCE) {
        return Ok((line("the reference is not PyTorch's"), Some(case.to_string())));
    }
    Ok(match check(&case, target)? {
        Finding::Verified => (line("verified"), None),
        Finding::Unsupported(why) => (line("unsupported"), Some(why)),
        Finding::Wrong(what) => (line("wrong"), Some(what)),
    })
}

/// Keeps a small module, and what is wrong with it.
fn keep(name: &Path, module: &Path, evidence: &str) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot write {}", name.display()), e);
    fs::create_dir_all(name.parent().unwrap_or(name)).map_err(cannot)?;
    fs::write(name.with_extension("txt"), evidence).map_err(cannot)?;
    fs::copy(module, name.with_extension("py")).map_err(cannot)?;
    Ok(())
}

fn main() -> Result<()> {
    akg::worker::init();
    let wish = Wish::read()?;
    let target = wish.target()?;
    let mut python = Python::new(Environment::find(&Config::default())?, PythonOptions::default());
    fs::create_dir_all(&wish.out).map_err(|e| Error::io("cannot make the directory", e))?;
    let list = wish.out.join("problems.tsv");
    let before = fs::read_to_string(&list).unwrap_or_default();
    let is_done = |name: &str| before.lines().any(|line| line.split('\t').next() == Some(name));
    let open = OpenOptions::new().create(true).append(true).open(&list);
    let mut file = open.map_err(|e| Error::io("cannot write the list of problems", e))?;
    // One file for all: a worker may read what was there when it started.
    let path = wish.out.join("small.py");
    for problem in Problem::all(&wish.root, &wish.only)? {
        if is_done(&problem.name) {
            continue;
        }
        let (line, evidence) = match outcome(&mut python, &problem, &path, &target) {
            Ok(outcome) => outcome,
            Err(error) => (
                error.to_string().replace(['\n', '\t'], " "),
                Some(format!("{error:?}")),
            ),
        };
        if let Some(evidence) = evidence {
            keep(&wish.out.join(&problem.name), &path, &evidence)?;
        }
        println!("{}\t{line}", problem.name);
        let written = writeln!(file, "{}\t{line}", problem.name);
        written.map_err(|e| Error::io("cannot write the list of problems", e))?;
    }
    Ok(())
}
