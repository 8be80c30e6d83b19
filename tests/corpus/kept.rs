//! Verdicts of earlier runs, so that an interrupted run goes on.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::{Mutex, PoisonError};

use akg::Result;
use libtest_mimic::Failed;
use serde::{Deserialize, Serialize};

use crate::entry::Entry;
use crate::trial::Outcome;

/// A line of the file.
#[derive(Serialize, Deserialize)]
struct Line {
    name: String,
    wanted: Vec<String>,
    #[serde(flatten)]
    outcome: Outcome,
}

/// The file of `AKG_CORPUS_RESULTS`, with one JSON object in each line.
pub(crate) struct Kept {
    known: BTreeMap<String, Outcome>,
    file: Option<Mutex<File>>,
}

impl Kept {
    pub(crate) fn from_environment() -> Self {
        let Some(path) = std::env::var_os("AKG_CORPUS_RESULTS") else {
            return Self {
                known: BTreeMap::new(),
                file: None,
            };
        };
        let mut known = BTreeMap::new();
        if let Ok(file) = File::open(&path) {
            // The last line may have been cut.
            for line in BufReader::new(file).lines() {
                if let Ok(line) = serde_json::from_str::<Line>(&line.unwrap()) {
                    known.insert(line.name, line.outcome);
                }
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(&path).unwrap();
        Self {
            known,
            file: Some(Mutex::new(file)),
        }
    }

    /// Judges an entry unless its verdict is known, and compares the verdict with the right one.
    pub(crate) fn judged(&self, entry: &Entry, judge: fn(&Entry) -> Result<Outcome>) -> Result<(), Failed> {
        let outcome = match self.known.get(&entry.name) {
            Some(outcome) => outcome.clone(),
            None => {
                let outcome = judge(entry)?;
                self.keep(entry, &outcome);
                outcome
            }
        };
        let said = &outcome.said;
        match outcome.rejection {
            None if entry.reasons.is_empty() => {}
            None => return Err("accepted".into()),
            Some(kind) if entry.reasons.contains(&kind) => {}
            Some(kind) => return Err(format!("{kind}: {said}").into()),
        }
        if let Some(words) = entry.says.iter().find(|words| !said.contains(*words)) {
            return Err(format!("it does not say `{words}`: {said}").into());
        }
        match entry.is_silent_on.iter().find(|words| said.contains(*words)) {
            Some(words) => Err(format!("it says `{words}`: {said}").into()),
            None => Ok(()),
        }
    }

    fn keep(&self, entry: &Entry, outcome: &Outcome) {
        if let Some(file) = &self.file {
            let line = Line {
                name: entry.name.clone(),
                wanted: entry.reasons.clone(),
                outcome: outcome.clone(),
            };
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(file, "{}", serde_json::to_string(&line).unwrap()).unwrap();
        }
    }
}
