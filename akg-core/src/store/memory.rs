//! A store that ends with the process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Entry, Store};
use crate::digest::Digest;
use crate::error::Result;

/// Keeps everything in memory.
#[derive(Debug, Default)]
pub struct MemoryStore {
    contents: Mutex<Contents>,
}

#[derive(Debug, Default)]
struct Contents {
    blobs: HashMap<Digest, Vec<u8>>,
    /// By kind, in the order of their keys' first appearance.
    entries: HashMap<String, Vec<Entry>>,
    places: HashMap<(String, Digest), usize>,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        // No operation leaves the maps half changed.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn put_blob(&self, bytes: &[u8]) -> Result<Digest> {
        let digest = Digest::of(bytes);
        let mut contents = self.contents();
        contents.blobs.entry(digest).or_insert_with(|| bytes.to_vec());
        Ok(digest)
    }

    fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>> {
        Ok(self.contents().blobs.get(&digest).cloned())
    }

    fn put(&self, kind: &str, entry: &Entry) -> Result<()> {
        let mut contents = self.contents();
        let Contents { entries, places, .. } = &mut *contents;
        let entries = entries.entry(kind.to_owned()).or_default();
        let place = *places
            .entry((kind.to_owned(), entry.key))
            .or_insert(entries.len());
        match entries.get_mut(place) {
            Some(old) => old.clone_from(entry),
            None => entries.push(entry.clone()),
        }
        Ok(())
    }

    fn get(&self, kind: &str, key: Digest) -> Result<Option<Entry>> {
        let contents = self.contents();
        let place = contents.places.get(&(kind.to_owned(), key));
        Ok(place.and_then(|p| contents.entries.get(kind)?.get(*p)).cloned())
    }

    fn list(&self, kind: &str, group: Option<Digest>) -> Result<Vec<Entry>> {
        let contents = self.contents();
        let entries = contents.entries.get(kind).map(Vec::as_slice).unwrap_or_default();
        let wanted = |e: &&Entry| group.is_none_or(|g| e.group == g);
        Ok(entries.iter().filter(wanted).cloned().collect())
    }
}
