//! Where results are remembered.

use std::path::PathBuf;
use std::sync::Arc;

use akg::knowledge::embed::embed;
use akg::knowledge::mine::learn;
use akg::knowledge::pages::pages;
use akg::knowledge::{Embedder, Knowledge, MemoryKnowledge};
use akg::python::Config;
use akg::sqlite::SqliteStore;
use akg::store::MemoryStore;
use akg::{Result, Store};
use clap::Args;
use futures::executor::block_on;

/// Which store is used.
#[derive(Debug, Clone, Args)]
pub(super) struct StoreArgs {
    /// The file in which results are remembered between runs. By default `AKG_STORE`, or `store.sqlite` in akg's cache
    /// directory.
    #[arg(long, value_name = "FILE", global = true)]
    store: Option<PathBuf>,
}

impl StoreArgs {
    /// The store in the file, which is made if it is missing.
    pub(super) fn open(&self) -> Result<SqliteStore> {
        let named = std::env::var_os("AKG_STORE").filter(|v| !v.is_empty());
        let path = match self.store.clone().or_else(|| named.map(PathBuf::from)) {
            Some(path) => path,
            None => Config::default().cache_directory()?.join("store.sqlite"),
        };
        SqliteStore::open(&path)
    }
}

/// What is remembered.
#[derive(Debug, Clone, Args)]
pub(super) struct MemoryArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Remember nothing, and use nothing that was remembered.
    #[arg(long, conflicts_with = "store")]
    no_store: bool,
    /// Measure again what the store has but others disturbed: contests without a claim, and tuning.
    #[arg(long)]
    pub(super) retry: bool,
}

impl MemoryArgs {
    /// The store in the file, or one that ends with this run.
    pub(super) fn open(&self) -> Result<Memory> {
        if self.no_store {
            return Ok(Memory {
                store: Arc::new(MemoryStore::new()),
                shelf: Arc::new(MemoryKnowledge::new()),
            });
        }
        let store = Arc::new(self.store.open()?);
        Ok(Memory {
            shelf: store.clone(),
            store,
        })
    }
}

/// A store, and the shelf that belongs to it.
#[derive(Debug)]
pub(super) struct Memory {
    pub(super) store: Arc<dyn Store>,
    shelf: Arc<dyn Knowledge>,
}

impl Memory {
    /// The shelf, with the library's pages and with what the store has learned so far; with embeddings, if somebody embeds.
    pub(super) fn knowledge(&self, embedder: Option<&dyn Embedder>) -> Result<Arc<dyn Knowledge>> {
        for page in pages()? {
            // Who has a page of that name keeps it.
            if self.shelf.article(page.card.key)?.is_none() {
                self.shelf.shelve(&page)?;
            }
        }
        learn(&self.store, &self.shelf)?;
        if let Some(embedder) = embedder {
            block_on(embed(embedder, &self.shelf))?;
        }
        Ok(Arc::clone(&self.shelf))
    }
}
