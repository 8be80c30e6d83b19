//! Exchanges on disk.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use akg_core::chat::{ChatCapability, ChatEvent, ChatReply, ChatRequest};
use akg_core::file::read_text;
use akg_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// A request and what came of it: a line of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exchange {
    /// The name of the model.
    pub model: String,
    /// What it is capable of.
    pub capability: ChatCapability,
    /// What it was asked.
    pub request: ChatRequest,
    /// What arrived while the reply streamed; nothing if it did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<ChatEvent>,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The reply.
    Reply(ChatReply),
    /// The error.
    Error {
        /// Its kind.
        kind: ErrorKind,
        /// What it says, in one line.
        message: String,
    },
}

impl Outcome {
    pub(crate) fn of(result: &Result<ChatReply>) -> Self {
        match result {
            Ok(reply) => Outcome::Reply(reply.clone()),
            Err(error) => Outcome::Error {
                kind: error.kind(),
                message: error.to_string(),
            },
        }
    }

    pub(crate) fn into_result(self) -> Result<ChatReply> {
        match self {
            Outcome::Reply(reply) => Ok(reply),
            Outcome::Error { kind, message } => Err(Error::new(kind, message)),
        }
    }
}

/// Writes exchanges to a file, a line of JSON each. Several models may share one.
#[derive(Debug)]
pub struct Recorder {
    path: PathBuf,
    file: Mutex<File>,
}

impl Recorder {
    /// Opens a recording, which is made if there is none, and goes on at its end. A last line that a killed process left
    /// unfinished is removed.
    ///
    /// # Errors
    /// If the file cannot be made, read or written.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |e| Error::io("cannot open the recording for writing", e).with("file", path.display());
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed)?;
        let mut text = Vec::new();
        file.read_to_end(&mut text).map_err(failed)?;
        let whole = text.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(failed)?;
            file.seek(SeekFrom::End(0)).map_err(failed)?;
        }
        Ok(Self {
            path: path.to_owned(),
            file: Mutex::new(file),
        })
    }

    /// Writes an exchange; it is in the file when this returns.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, exchange: &Exchange) -> Result<()> {
        let mut line = serde_json::to_vec(exchange)
            .map_err(|e| Error::unexpected("an exchange cannot be written as JSON").caused_by(e))?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(&line)
            .map_err(|e| Error::io("cannot write to the recording", e).with("file", self.path.display()))
    }
}

/// Reads a recording.
///
/// # Errors
/// If it cannot be read, or a line other than an unfinished last one is not an exchange.
pub fn read(path: &Path) -> Result<Vec<Exchange>> {
    let text = read_text(path)?;
    let whole = text.rfind('\n').map_or("", |end| text.split_at(end).0);
    let exchange = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|e| {
            Error::invalid(
                "a line of the recording is not an exchange; it was damaged, or another akg wrote it",
            )
            .with("file", path.display())
            .with("line", at + 1)
            .caused_by(e)
        })
    };
    whole.lines().enumerate().map(exchange).collect()
}
