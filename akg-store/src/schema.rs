//! The tables, and which files are a store.

use akg_core::error::{Error, ErrorKind, Result};
use rusqlite::{Connection, TransactionBehavior};

/// The version of the tables.
const VERSION: i64 = 3;

/// Marks the file as a store of akg, in the field that SQLite has for that: `akgs`.
const APPLICATION: i64 = 0x616b_6773;

/// What version 1 had.
const MEMORY: &str = "
    CREATE TABLE blob (
        digest TEXT PRIMARY KEY,
        bytes BLOB NOT NULL
    );
    CREATE TABLE entry (
        number INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        belongs TEXT NOT NULL,
        value TEXT NOT NULL,
        UNIQUE (kind, key)
    );
    CREATE INDEX entry_of_group ON entry (kind, belongs);
";

/// What version 2 adds: articles, and their words by the number of the article.
const KNOWLEDGE: &str = "
    CREATE TABLE article (
        number INTEGER PRIMARY KEY,
        key TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        card TEXT NOT NULL,
        body TEXT NOT NULL
    );
    CREATE VIRTUAL TABLE article_words USING fts5 (name, text);
";

/// What version 3 adds: the embeddings of articles, by the number of the article.
const EMBEDDINGS: &str = "
    CREATE TABLE article_vector (
        number INTEGER PRIMARY KEY,
        embedder TEXT NOT NULL,
        vector BLOB NOT NULL
    );
    CREATE INDEX article_vector_of_embedder ON article_vector (embedder);
";

/// Makes the tables of a new file and those that an older one lacks, and refuses a file that is no store or one of a newer
/// version.
pub(crate) fn prepare(connection: &mut Connection) -> Result<()> {
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(trouble)?;
    let number = |name: &str| {
        transaction
            .pragma_query_value(None, name, |row| row.get::<_, i64>(0))
            .map_err(trouble)
    };
    let (application, version) = (number("application_id")?, number("user_version")?);
    let tables: i64 = transaction
        .query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0))
        .map_err(trouble)?;
    let set = |name, value: i64| transaction.pragma_update(None, name, value).map_err(trouble);
    let add = |tables: &[&str]| {
        transaction.execute_batch(&tables.concat()).map_err(trouble)?;
        set("user_version", VERSION)
    };
    match (application, version) {
        (APPLICATION, VERSION) => Ok(()),
        (APPLICATION, 1) => add(&[KNOWLEDGE, EMBEDDINGS]),
        (APPLICATION, 2) => add(&[EMBEDDINGS]),
        (APPLICATION, newer) if newer > VERSION => Err(Error::unsupported(format!(
            "the store has version {newer}; this akg reads versions up to {VERSION}: use a newer akg, or another store"
        ))),
        (0, 0) if tables == 0 => {
            set("application_id", APPLICATION)?;
            add(&[MEMORY, KNOWLEDGE, EMBEDDINGS])
        }
        _ => Err(Error::invalid("the file is a database, but no store of akg")),
    }?;
    transaction.commit().map_err(trouble)
}

/// An error of SQLite.
pub(crate) fn trouble(error: rusqlite::Error) -> Error {
    use rusqlite::ErrorCode as Code;
    let (kind, message) = match error.sqlite_error_code() {
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => (
            ErrorKind::Timeout,
            "the store is in use by another process for too long",
        ),
        Some(Code::DiskFull | Code::OutOfMemory) => {
            (ErrorKind::OutOfResources, "there is no room for the store")
        }
        Some(Code::NotADatabase) => (ErrorKind::InvalidInput, "the file is no store of akg"),
        Some(Code::DatabaseCorrupt) => (
            ErrorKind::InvalidInput,
            "the store is damaged; remove the file, or use another store",
        ),
        Some(Code::CannotOpen | Code::ReadOnly | Code::PermissionDenied | Code::SystemIoFailure) => {
            (ErrorKind::Io, "the store cannot be read or written")
        }
        _ => (ErrorKind::Unexpected, "the store does not work"),
    };
    Error::new(kind, message).caused_by(error)
}
