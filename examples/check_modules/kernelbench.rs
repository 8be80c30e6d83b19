//! KernelBench's problems, made small enough to interpret.
//!
//! The integers that a module's own lines give names to (`height = 224`), and if need be those in its classes, are halved until
//! its products and tensors are small enough.

use std::fs;
use std::path::Path;

use akg::expr::Bindings;
use akg::python::{ImportOptions, ImportedModule, Python};
use akg::timing::product_flops;
use akg::{Error, Graph, Result};

/// The operations of products and the elements of tensors that are interpreted in a few seconds, and those that are
/// put up with where a module cannot be smaller.
const WANTED: f64 = 3e7;
const MOST: f64 = 1e10;

/// The least that integers are halved to: one after the other, where a module does not work with less.
const LEAST: [u64; 5] = [8, 16, 32, 64, 128];
const HALVINGS: u32 = 10;

/// The least extent of batches: its own, or more where a module means nothing with it, as where norms divide by the spread of
/// two numbers.
pub(crate) const BATCHES: [u64; 2] = [1, 4];

/// A problem's text.
pub(crate) struct Problem {
    pub(crate) name: String,
    text: String,
}

impl Problem {
    /// All problems of the benchmark.
    pub(crate) fn all(root: &Path) -> Result<Vec<Self>> {
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
                let text = fs::read_to_string(&path).map_err(|e| Error::io("cannot read a problem", e))?;
                found.push(Self { name, text });
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

/// Tells whether a line belongs to the module itself, not to a class or function.
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
pub(crate) fn size(graph: &Graph) -> Result<f64> {
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
pub(crate) struct Form {
    text: String,
    pub(crate) module: ImportedModule,
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

pub(crate) fn write(text: &str, path: &Path) -> Result<()> {
    fs::write(path, text).map_err(|e| Error::io("cannot write a module", e))
}

/// The largest form of a problem that is small enough, or the smallest there is.
pub(crate) fn import(python: &mut Python, problem: &Problem, path: &Path, batch: u64) -> Result<Form> {
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
