//! Verdicts of earlier runs, so that an interrupted run goes on.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::{Mutex, PoisonError};

use akg::Result;
use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::entry::Entry;

/// The verdict on an entry: the reason for which it was rejected with its evidence, or none.
type Rejection = Option<(String, String)>;

/// The file of `AKG_CORPUS_RESULTS`, with one JSON object in each line.
pub(crate) struct Kept {
    known: BTreeMap<String, Rejection>,
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
                if let Ok(line) = serde_json::from_str::<Value>(&line.unwrap())
                    && let Ok((name, rejection)) =
                        serde_json::from_value(json!([line["name"], line["rejection"]]))
                {
                    let _: Option<Rejection> = known.insert(name, rejection);
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
    pub(crate) fn judged(&self, entry: &Entry, judge: fn(&Entry) -> Result<Rejection>) -> Result<(), Failed> {
        let rejection = match self.known.get(&entry.name) {
            Some(rejection) => rejection.clone(),
            None => {
                let rejection = judge(entry)?;
                self.keep(entry, &rejection);
                rejection
            }
        };
        match rejection {
            None if entry.reasons.is_empty() => Ok(()),
            None => Err("accepted".into()),
            Some((kind, _)) if entry.reasons.contains(&kind) => Ok(()),
            Some((kind, evidence)) => Err(format!("{kind}: {evidence}").into()),
        }
    }

    fn keep(&self, entry: &Entry, rejection: &Rejection) {
        if let Some(file) = &self.file {
            let line = json!({"name": entry.name, "wanted": entry.reasons, "rejection": rejection});
            let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
            writeln!(file, "{line}").unwrap();
        }
    }
}
