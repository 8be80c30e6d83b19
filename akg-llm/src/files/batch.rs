//! Batches of OpenAI: JSON lines of requests, and of what came of them. Other servers take the same.

use std::path::Path;

use akg_core::file::read_text;
use akg_core::{Error, ErrorKind, Result};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Asked, REPLY, REQUEST, requests, write};
use crate::openai::wire::{self, Dialect};

/// Writes the requests in `folder` that have no reply yet to `batch`, a line each, and says how many there are.
///
/// # Errors
/// [`ErrorKind::NotFound`] if there are no requests at all; if a file cannot be read or written.
pub fn export_batch(folder: &Path, batch: &Path) -> Result<usize> {
    let (mut lines, mut count) = (String::new(), 0);
    for id in requests(folder)? {
        if folder.join(format!("{id}{REPLY}")).exists() {
            continue;
        }
        let path = folder.join(format!("{id}{REQUEST}"));
        let text = std::fs::read(&path)
            .map_err(|e| Error::io("cannot read a request", e).with("file", path.display()))?;
        let asked: Asked = serde_json::from_slice(&text).map_err(|e| {
            Error::invalid("a request file is damaged; run again what wrote it")
                .with("file", path.display())
                .caused_by(e)
        })?;
        let line = json!({
            "custom_id": id,
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": wire::body(&asked.model, &asked.request, None, Dialect::OpenAi, false),
        });
        lines.push_str(&line.to_string());
        lines.push('\n');
        count += 1;
    }
    write(batch, lines.as_bytes())?;
    Ok(count)
}

/// What the results of a batch held.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Imported {
    /// How many replies there are now that were not there before.
    pub replies: usize,
    /// The IDs of requests that failed, with the reason. They have no reply; the next batch asks them again.
    pub failed: Vec<(String, String)>,
}

/// A line of the results.
#[derive(Debug, Deserialize)]
struct Line {
    custom_id: String,
    #[serde(default)]
    response: Option<Response>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Debug, Deserialize)]
struct Response {
    status_code: u16,
    #[serde(default)]
    body: Value,
}

/// Writes the replies in `results`, the output or error file of a batch, to `folder`. Replies that are there already stay.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if a line is no result, or is one of a request that is not in the folder; what was written
/// before stays. If a file cannot be read or written.
pub fn import_batch(folder: &Path, results: &Path) -> Result<Imported> {
    let ids = requests(folder)?;
    let text = read_text(results)?;
    let mut imported = Imported::default();
    for (at, line) in text
        .lines()
        .enumerate()
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let wrong = |message: &str| {
            Error::new(ErrorKind::InvalidInput, message)
                .with("file", results.display())
                .with("line", at + 1)
        };
        let line: Line =
            serde_json::from_str(line).map_err(|e| wrong("a line is no result of a batch").caused_by(e))?;
        if ids.binary_search(&line.custom_id).is_err() {
            return Err(wrong(
                "a result belongs to none of the requests in the folder; is it the right one?",
            )
            .with("id", line.custom_id));
        }
        let path = folder.join(format!("{}{REPLY}", line.custom_id));
        if path.exists() {
            continue;
        }
        match outcome(line.response, line.error) {
            Ok(reply) => {
                let json = serde_json::to_vec_pretty(&reply)
                    .map_err(|e| Error::unexpected("a reply cannot be written as JSON").caused_by(e))?;
                write(&path, &json)?;
                imported.replies += 1;
            }
            Err(why) => imported.failed.push((line.custom_id, why)),
        }
    }
    Ok(imported)
}

fn outcome(
    response: Option<Response>,
    error: Option<Value>,
) -> std::result::Result<akg_core::chat::ChatReply, String> {
    match response {
        Some(Response {
            status_code: 200,
            body,
        }) => wire::reply(body),
        Some(Response { status_code, body }) => Err(format!("status {status_code}: {body}")),
        None => Err(error.unwrap_or_default().to_string()),
    }
}
