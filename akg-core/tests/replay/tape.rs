//! All that a run left in its store, as lines of JSON.
#![allow(dead_code, reason = "the benchmark only reads")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use akg_core::store::{Entry, MemoryStore, Store};
use akg_core::{Digest, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A blob, or a record of a kind.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Blob(String),
    Record {
        kind: String,
        key: Digest,
        group: Digest,
        value: Value,
    },
}

/// A store that can be written to a file as a whole.
#[derive(Debug, Default)]
pub(crate) struct Tape {
    store: MemoryStore,
    blobs: Mutex<BTreeSet<Digest>>,
    kinds: Mutex<BTreeSet<String>>,
}

impl Tape {
    pub(crate) fn read(path: &Path) -> Self {
        let tape = Self::default();
        for line in std::fs::read_to_string(path).unwrap().lines() {
            match serde_json::from_str(line).unwrap() {
                Line::Blob(text) => {
                    tape.put_blob(text.as_bytes()).unwrap();
                }
                Line::Record {
                    kind,
                    key,
                    group,
                    value,
                } => {
                    let value = value.to_string();
                    tape.put(&kind, &Entry { key, group, value }).unwrap();
                }
            }
        }
        tape
    }

    pub(crate) fn write(&self, path: &Path) {
        let blob = |digest: &Digest| {
            let bytes = self.store.blob(*digest).unwrap().unwrap();
            Line::Blob(String::from_utf8(bytes).unwrap())
        };
        let mut lines: Vec<Line> = self.blobs.lock().unwrap().iter().map(blob).collect();
        for kind in self.kinds.lock().unwrap().iter() {
            let entries = self.store.list(kind, None).unwrap();
            lines.extend(entries.into_iter().map(|entry| Line::Record {
                kind: kind.clone(),
                key: entry.key,
                group: entry.group,
                value: serde_json::from_str(&entry.value).unwrap(),
            }));
        }
        let line = |line: &Line| serde_json::to_string(line).unwrap() + "\n";
        std::fs::write(path, lines.iter().map(line).collect::<String>()).unwrap();
    }
}

impl Store for Tape {
    fn put_blob(&self, bytes: &[u8]) -> Result<Digest> {
        let digest = self.store.put_blob(bytes)?;
        self.blobs.lock().unwrap().insert(digest);
        Ok(digest)
    }

    fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>> {
        self.store.blob(digest)
    }

    fn put(&self, kind: &str, entry: &Entry) -> Result<()> {
        self.kinds.lock().unwrap().insert(kind.to_owned());
        self.store.put(kind, entry)
    }

    fn get(&self, kind: &str, key: Digest) -> Result<Option<Entry>> {
        self.store.get(kind, key)
    }

    fn list(&self, kind: &str, group: Option<Digest>) -> Result<Vec<Entry>> {
        self.store.list(kind, group)
    }
}
