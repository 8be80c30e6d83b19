//! Mutants of earlier runs, so that an interrupted campaign goes on.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use akg::digest::Digest;
use akg::verdict::JUDGE_VERSION;
use akg::{Error, Result};
use serde::{Deserialize, Serialize};

use crate::campaign::{Mutant, Order};
use crate::subjects::Subject;

/// A line of the file: a kernel whose original passed, with all its mutants.
#[derive(Serialize, Deserialize)]
struct Line {
    kernel: String,
    /// The digest of what the mutants and their fates depend on.
    key: Digest,
    mutants: Vec<Mutant>,
}

/// The file of `AKG_MUTATION_RESULTS`, with one JSON object in each line.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    known: HashMap<Digest, Vec<Mutant>>,
    file: Option<Mutex<File>>,
}

impl Kept {
    pub(crate) fn from_environment() -> Result<Self> {
        match std::env::var_os("AKG_MUTATION_RESULTS") {
            None => Ok(Self::default()),
            Some(path) => {
                let path = Path::new(&path);
                Self::open(path)
                    .map_err(|e| Error::io(format!("cannot keep results in {}", path.display()), e))
            }
        }
    }

    fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let mut known = HashMap::new();
        for line in BufReader::new(File::open(path)?).lines() {
            // The last line may have been cut.
            if let Ok(line) = serde_json::from_str::<Line>(&line?) {
                known.insert(line.key, line.mutants);
            }
        }
        let file = Some(Mutex::new(file));
        Ok(Self { known, file })
    }

    /// The mutants that an earlier run made by the same order, unless the kernel or the judge has changed.
    pub(crate) fn find(&self, subject: &Subject, order: &Order) -> Option<Vec<Mutant>> {
        self.known.get(&key(subject, order)).cloned()
    }

    pub(crate) fn keep(&self, subject: &Subject, order: &Order, mutants: &[Mutant]) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut mutants = mutants.to_vec();
        // Nobody reads the texts of the others again.
        let others = mutants.iter_mut().filter(|mutant| !mutant.has_passed());
        others.for_each(|mutant| mutant.fault.text.clear());
        let line = Line {
            kernel: subject.name.clone(),
            key: key(subject, order),
            mutants,
        };
        let text = serde_json::to_string(&line)
            .map_err(|e| Error::unexpected(format!("mutants cannot be written as JSON: {e}")))?;
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{text}").map_err(|e| Error::io("cannot write results", e))
    }
}

fn key(subject: &Subject, order: &Order) -> Digest {
    let Order { index, quota, seed } = order;
    let head = format!("{JUDGE_VERSION} {index} {quota} {seed}\n");
    Digest::of((head + &subject.source.text).as_bytes())
}
