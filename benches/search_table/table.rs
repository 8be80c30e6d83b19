//! Tables of candidates, a file for each task: a line for the run, one for each structure, one for each candidate.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use akg::verdict::FailureKind;
use akg::{Error, Result, Target};
use serde::{Deserialize, Serialize};

use super::space::Structure;

/// A line that is no candidate.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Head {
    /// What the candidates were measured with.
    Run {
        task: String,
        device: Box<Target>,
        toolchain: String,
        date: String,
        command: String,
    },
    /// A structure; candidates name it by its place among these lines.
    Structure(Structure),
}

/// A candidate: its structure, the places of its knobs' values, the elements of its largest stored tile and its bytes on chip,
/// and what came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Row(
    pub(super) usize,
    pub(super) Vec<usize>,
    pub(super) u64,
    pub(super) u64,
    pub(super) Came,
);

/// What came of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Came {
    /// Its median time and how far that may be off, in microseconds.
    Passed(f64, f64),
    /// Why it failed.
    Failed(FailureKind),
}

/// A table that is read, and written to.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) path: PathBuf,
    pub(super) structures: Vec<Structure>,
    pub(super) rows: HashMap<(usize, Vec<usize>), Row>,
}

impl Table {
    /// What is in a file so far: nothing if there is none.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let mut table = Self {
            path: path.to_owned(),
            structures: Vec::new(),
            rows: HashMap::new(),
        };
        let text = if path.exists() {
            fs::read_to_string(path).map_err(|e| table.trouble("read", e))?
        } else {
            String::new()
        };
        for line in text.lines() {
            // The last line may have been cut off.
            if let Ok(row) = serde_json::from_str::<Row>(line) {
                table.rows.insert((row.0, row.1.clone()), row);
            } else if let Ok(Head::Structure(structure)) = serde_json::from_str(line) {
                table.structures.push(structure);
            }
        }
        Ok(table)
    }

    /// Writes what stands before the candidates.
    pub(super) fn begin(
        &mut self,
        task: &str,
        structures: Vec<Structure>,
        device: &Target,
        toolchain: String,
    ) -> Result<()> {
        let run = Head::Run {
            task: task.to_owned(),
            device: Box::new(device.clone()),
            toolchain,
            date: jiff::Timestamp::now().to_string(),
            command: std::env::args().skip(1).collect::<Vec<_>>().join(" "),
        };
        let mut lines = vec![json(&run)?];
        for structure in &structures {
            lines.push(json(&Head::Structure(structure.clone()))?);
        }
        self.structures = structures;
        self.append(&lines)
    }

    /// Writes candidates.
    pub(super) fn write(&mut self, rows: Vec<Row>) -> Result<()> {
        let lines: Vec<String> = rows.iter().map(json).collect::<Result<_>>()?;
        self.rows
            .extend(rows.into_iter().map(|row| ((row.0, row.1.clone()), row)));
        self.append(&lines)
    }

    fn append(&self, lines: &[String]) -> Result<()> {
        let write = || -> std::io::Result<()> {
            let mut file: File = OpenOptions::new().append(true).create(true).open(&self.path)?;
            file.write_all((lines.join("\n") + "\n").as_bytes())
        };
        write().map_err(|e| self.trouble("write", e))
    }

    fn trouble(&self, what: &str, error: std::io::Error) -> Error {
        Error::io(format!("cannot {what} {}", self.path.display()), error)
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::unexpected("cannot write JSON").caused_by(e))
}
