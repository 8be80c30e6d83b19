//! What akg remembers: candidates, verdicts, measurements and what tuning found.
//!
//! A [`Store`] keeps blobs under their hash and small JSON values under keys. [`Record`]s are the types that are kept, and
//! [`StoreExt`] reads and writes them. Whatever a [`Session`](crate::Session) finds out is written the moment it is known,
//! each value by itself: a process that dies at any instant loses at most the step it was in.
//!
//! | record | one for each |
//! |---|---|
//! | [`TaskRecord`] | graph and contract |
//! | [`BuildRecord`] | source, toolchain and target: the artifact, or why there is none |
//! | [`CandidateRecord`] | source, task, toolchain and target |
//! | [`VerdictRecord`] | candidate and judge |
//! | [`RefutationRecord`] | candidate that failed where no judge was asked, or after one had passed it |
//! | [`ProfileRecord`] | candidate: where its time goes |
//! | [`Measurement`] | contest or duel, with all samples |
//! | [`TuningRecord`] | configuration of a kernel, on a device and for a shape |
//! | [`RunRecord`] | run of a session on a task |
//! | [`StepRecord`] | proposal of an agent in a run |
//! | [`LookupRecord`] | question of an agent in a run: what was found on the shelf |
//! | [`ExchangeRecord`] | exchange with a language model in a run |

mod memory;
mod records;
mod replay;
mod trace;

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;

pub use memory::MemoryStore;
pub use records::{
    BuildRecord, CandidateRecord, Made, Measurement, ProfileRecord, RefutationRecord, TaskRecord,
    TuningRecord, VerdictRecord,
};
pub use replay::Replay;
pub use trace::{Answer, ExchangeRecord, LookupRecord, Retrieved, RunRecord, StepRecord};

use crate::digest::Digest;
use crate::error::{Error, Result};

/// A value and where it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What it is found by.
    pub key: Digest,
    /// What it belongs to.
    pub group: Digest,
    /// The value, in JSON.
    pub value: String,
}

/// Keeps blobs and values.
///
/// Shared by threads, and where it outlives the process, by processes. Each writing call is complete or not there at all,
/// and what it wrote is there for every later reader, also when the process is killed.
pub trait Store: Send + Sync + fmt::Debug {
    /// Keeps `bytes` and gives their hash.
    fn put_blob(&self, bytes: &[u8]) -> Result<Digest>;

    /// The bytes with this hash; `None` if they were never put.
    ///
    /// # Errors
    /// If what is kept no longer has the hash.
    fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>>;

    /// Keeps a value of a kind. It replaces one of the same kind and key, in that one's place.
    fn put(&self, kind: &str, entry: &Entry) -> Result<()>;

    /// The value of a kind with this key.
    fn get(&self, kind: &str, key: Digest) -> Result<Option<Entry>>;

    /// The values of a kind, of one group or of all, in the order in which their keys were first put.
    fn list(&self, kind: &str, group: Option<Digest>) -> Result<Vec<Entry>>;
}

/// A type of values that a [`Store`] keeps.
pub trait Record: Serialize + DeserializeOwned {
    /// The name of the kind.
    const KIND: &'static str;

    /// What it is found by.
    fn key(&self) -> Digest;

    /// What it belongs to.
    fn group(&self) -> Digest;
}

/// Conveniences for [`Store`].
pub trait StoreExt: Store {
    /// Keeps a record.
    fn save<R: Record>(&self, record: &R) -> Result<()> {
        let value = serde_json::to_string(record).map_err(|e| {
            Error::unexpected(format!("cannot write a {} record as JSON", R::KIND)).caused_by(e)
        })?;
        let (key, group) = (record.key(), record.group());
        self.put(R::KIND, &Entry { key, group, value })
    }

    /// The record with this key.
    fn load<R: Record>(&self, key: Digest) -> Result<Option<R>> {
        self.get(R::KIND, key)?.map(|entry| read(&entry)).transpose()
    }

    /// The records of one group or of all, oldest first.
    fn all<R: Record>(&self, group: Option<Digest>) -> Result<Vec<R>> {
        self.list(R::KIND, group)?.iter().map(read).collect()
    }

    /// Keeps a value's JSON as a blob.
    fn put_value(&self, value: &impl Serialize) -> Result<Digest> {
        let json = serde_json::to_vec(value)
            .map_err(|e| Error::unexpected("cannot write a value as JSON").caused_by(e))?;
        self.put_blob(&json)
    }

    /// The value whose JSON is this blob.
    fn value<T: DeserializeOwned>(&self, digest: Digest) -> Result<Option<T>> {
        let read = |bytes: Vec<u8>| {
            serde_json::from_slice(&bytes).map_err(|e| {
                Error::invalid("a blob of the store is not what it was kept as")
                    .with("blob", digest)
                    .caused_by(e)
            })
        };
        self.blob(digest)?.map(read).transpose()
    }
}

impl<S: Store + ?Sized> StoreExt for S {}

fn read<R: Record>(entry: &Entry) -> Result<R> {
    serde_json::from_str(&entry.value).map_err(|e| {
        Error::invalid("a record of the store cannot be read; it was damaged, or another akg wrote it")
            .with("kind", R::KIND)
            .with("key", entry.key)
            .caused_by(e)
    })
}

/// Seconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_secs())
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        impl<S: Store + ?Sized> Store for $pointer<S> {
            fn put_blob(&self, bytes: &[u8]) -> Result<Digest> {
                (**self).put_blob(bytes)
            }

            fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>> {
                (**self).blob(digest)
            }

            fn put(&self, kind: &str, entry: &Entry) -> Result<()> {
                (**self).put(kind, entry)
            }

            fn get(&self, kind: &str, key: Digest) -> Result<Option<Entry>> {
                (**self).get(kind, key)
            }

            fn list(&self, kind: &str, group: Option<Digest>) -> Result<Vec<Entry>> {
                (**self).list(kind, group)
            }
        }
    )*};
}
forward!(Arc, Box);
