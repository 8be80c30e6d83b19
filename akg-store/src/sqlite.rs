//! The store.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use akg_core::digest::Digest;
use akg_core::error::{Error, Result, ResultExt as _};
use akg_core::store::{Entry, Store};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::schema::{prepare, trouble};
use crate::vectors;

/// How long a call waits for other processes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A store in a file.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl SqliteStore {
    /// Opens the store at `path`; makes the file, and the directories above it, if they are missing.
    ///
    /// # Errors
    /// If the file cannot be written, is no store, or was written by a newer akg.
    pub fn open(path: &Path) -> Result<Self> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)
                .map_err(|e| Error::io(format!("cannot create {}", directory.display()), e))?;
        }
        let connection = connect(path).context("store", || path.display())?;
        Ok(Self {
            path: path.to_owned(),
            connection: Mutex::new(connection),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does something with the connection.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        // SQLite undoes what a panicking thread had begun.
        let connection: MutexGuard<'_, Connection> =
            self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        work(&connection)
            .map_err(trouble)
            .context("store", || self.path.display())
    }
}

fn connect(path: &Path) -> Result<Connection> {
    let mut connection = Connection::open(path).map_err(trouble)?;
    connection.busy_timeout(PATIENCE).map_err(trouble)?;
    vectors::register(&connection).map_err(trouble)?;
    prepare(&mut connection)?;
    // Readers do not wait for writers. What is committed survives the process; a loss of power can take the last
    // transactions, but not damage the file.
    connection
        .pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))
        .and_then(|()| connection.pragma_update(None, "synchronous", "NORMAL"))
        .map_err(trouble)?;
    Ok(connection)
}

/// The key, the group and the value of a row.
type Columns = (String, String, String);

fn columns(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
}

fn entry((key, group, value): Columns) -> Result<Entry> {
    let (key, group) = (key.parse()?, group.parse()?);
    Ok(Entry { key, group, value })
}

impl Store for SqliteStore {
    fn put_blob(&self, bytes: &[u8]) -> Result<Digest> {
        let digest = Digest::of(bytes);
        // What is there already is only written if it is damaged.
        let statement = "INSERT INTO blob (digest, bytes) VALUES (?1, ?2)
            ON CONFLICT (digest) DO UPDATE SET bytes = excluded.bytes WHERE bytes IS NOT excluded.bytes";
        self.with(|c| c.prepare(statement)?.execute(params![digest.to_string(), bytes]))?;
        Ok(digest)
    }

    fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>> {
        let statement = "SELECT bytes FROM blob WHERE digest = ?1";
        let bytes: Option<Vec<u8>> = self.with(|c| {
            let mut statement = c.prepare(statement)?;
            statement
                .query_row([digest.to_string()], |row| row.get(0))
                .optional()
        })?;
        if let Some(bytes) = &bytes
            && Digest::of(bytes) != digest
        {
            return Err(
                Error::invalid("a blob of the store is damaged: its bytes do not have its hash")
                    .with("blob", digest)
                    .with("store", self.path.display()),
            );
        }
        Ok(bytes)
    }

    fn put(&self, kind: &str, entry: &Entry) -> Result<()> {
        let statement = "INSERT INTO entry (kind, key, belongs, value) VALUES (?1, ?2, ?3, ?4)
            ON CONFLICT (kind, key) DO UPDATE SET belongs = excluded.belongs, value = excluded.value";
        let (key, group) = (entry.key.to_string(), entry.group.to_string());
        self.with(|c| {
            c.prepare(statement)?
                .execute(params![kind, key, group, entry.value])
        })?;
        Ok(())
    }

    fn get(&self, kind: &str, key: Digest) -> Result<Option<Entry>> {
        let statement = "SELECT key, belongs, value FROM entry WHERE kind = ?1 AND key = ?2";
        let found = self.with(|c| {
            let mut statement = c.prepare(statement)?;
            statement.query_row([kind, &key.to_string()], columns).optional()
        })?;
        found.map(entry).transpose()
    }

    fn list(&self, kind: &str, group: Option<Digest>) -> Result<Vec<Entry>> {
        let statement = "SELECT key, belongs, value FROM entry
            WHERE kind = ?1 AND (?2 IS NULL OR belongs = ?2) ORDER BY number";
        let rows: Vec<Columns> = self.with(|c| {
            let mut statement = c.prepare(statement)?;
            let rows = statement.query_map(params![kind, group.map(|g| g.to_string())], columns)?;
            rows.collect()
        })?;
        rows.into_iter().map(entry).collect()
    }
}
