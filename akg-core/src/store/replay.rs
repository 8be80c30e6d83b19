//! A run once more, from what it was answered.

use std::sync::Arc;

use super::{
    BuildRecord, Entry, ExchangeRecord, LookupRecord, Measurement, MemoryStore, ProfileRecord, Record as _,
    Store, VerdictRecord,
};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};

/// What a run is answered: by compilers, judges, clocks, shelves and models. Whatever else it writes down follows from that.
const ANSWERS: [&str; 6] = [
    BuildRecord::KIND,
    VerdictRecord::KIND,
    Measurement::KIND,
    ProfileRecord::KIND,
    LookupRecord::KIND,
    ExchangeRecord::KIND,
];

/// A store with the answers that an earlier run got, and without anything that it decided or learned. The same run with this
/// store decides the same once more, builds and executes nothing, and asks nobody; an answer that was not recorded is an error.
///
/// A store as it is does more: a run that is started again begins with what tuning found and what failed in the end.
///
/// What ended because its time was spent, or because a model could not be asked, goes on in a replay, until it lacks an answer.
#[derive(Debug)]
pub struct Replay {
    recorded: Arc<dyn Store>,
    decided: MemoryStore,
}

impl Replay {
    /// A replay of what is in this store, to which nothing is written.
    pub fn new(recorded: Arc<dyn Store>) -> Self {
        Self {
            recorded,
            decided: MemoryStore::new(),
        }
    }

    /// Who knows of a kind.
    fn of(&self, kind: &str) -> &dyn Store {
        if ANSWERS.contains(&kind) {
            &self.recorded
        } else {
            &self.decided
        }
    }
}

impl Store for Replay {
    fn put_blob(&self, bytes: &[u8]) -> Result<Digest> {
        self.decided.put_blob(bytes)
    }

    fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>> {
        match self.decided.blob(digest)? {
            Some(bytes) => Ok(Some(bytes)),
            None => self.recorded.blob(digest),
        }
    }

    fn put(&self, kind: &str, entry: &Entry) -> Result<()> {
        if ANSWERS.contains(&kind) {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!(
                    "this answer ({kind}) was not recorded; record the run again, or undo what changed it"
                ),
            )
            .with("key", entry.key));
        }
        self.decided.put(kind, entry)
    }

    fn get(&self, kind: &str, key: Digest) -> Result<Option<Entry>> {
        self.of(kind).get(kind, key)
    }

    fn list(&self, kind: &str, group: Option<Digest>) -> Result<Vec<Entry>> {
        self.of(kind).list(kind, group)
    }
}
