//! Imports every problem of a KernelBench checkout and says what happened to each.
//!
//! ```text
//! cargo run -p akg-python --example import_kernelbench -- ROOT [LEVEL…]
//! ```
//!
//! `ROOT` holds the directories `level1`, `level2` and `level3`; by default all three are imported.

use std::path::{Path, PathBuf};
use std::time::Instant;

use akg_core::error::{Error, Result};
use akg_python::{Config, Environment, ImportOptions, Python, PythonOptions};

/// What happened to the problems of one level.
#[derive(Default)]
struct Summary {
    imported: usize,
    cached: usize,
    failed: usize,
    nodes: usize,
    seconds: f64,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let root = PathBuf::from(
        arguments
            .next()
            .ok_or_else(|| Error::invalid("usage: import_kernelbench ROOT [LEVEL…]"))?,
    );
    let mut levels: Vec<String> = arguments.collect();
    if levels.is_empty() {
        levels = ["1", "2", "3"].map(Into::into).into();
    }
    let environment = Environment::find(&Config::default())?;
    println!("{}\n", environment.describe());
    let mut python = Python::new(environment, PythonOptions::default());
    let mut table = Vec::new();
    for level in levels {
        let mut summary = Summary::default();
        for path in problems(&root.join(format!("level{level}")))? {
            import(&mut python, &path, &level, &mut summary);
        }
        table.push((level, summary));
    }
    println!("\nlevel  imported  of those cached  failed  nodes  seconds");
    for (level, s) in &table {
        let Summary {
            imported,
            cached,
            failed,
            nodes,
            seconds,
        } = s;
        println!("{level:>5}  {imported:>8}  {cached:>15}  {failed:>6}  {nodes:>5}  {seconds:>7.1}");
    }
    Ok(())
}

/// The problems in a directory, by number.
fn problems(directory: &Path) -> Result<Vec<PathBuf>> {
    let cannot = |e| Error::io(format!("cannot list {}", directory.display()), e);
    let entries = std::fs::read_dir(directory).map_err(cannot)?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == "py"));
    paths.sort_by_key(|p| {
        let name = p.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let number = name.split('_').next().and_then(|n| n.parse::<u32>().ok());
        (number, name)
    });
    Ok(paths)
}

fn import(python: &mut Python, path: &Path, level: &str, summary: &mut Summary) {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let start = Instant::now();
    let imported = python.import(path, &ImportOptions::default(), &mut |_| {});
    let seconds = start.elapsed().as_secs_f64();
    summary.seconds += seconds;
    match imported {
        Ok(module) => {
            let nodes = module.graph.nodes().len();
            summary.imported += 1;
            summary.cached += usize::from(module.cached);
            summary.nodes += nodes;
            println!(
                "L{level} {name}: ok, {nodes} nodes, {seconds:.2} s, {}",
                module.mode
            );
        }
        Err(error) => {
            summary.failed += 1;
            println!("L{level} {name}: {error}");
        }
    }
}
