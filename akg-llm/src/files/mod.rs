//! Requests and replies as files, for whoever is no server: a batch system, or a person.

#[cfg(feature = "openai")]
pub(crate) mod batch;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use akg_core::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest};
use akg_core::{Digest, Error, Result};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::config::ModelConfig;
use crate::runtime;

const REQUEST: &str = ".request.json";
const REPLY: &str = ".reply.json";

/// How often to look for a reply.
const LOOK: Duration = Duration::from_millis(200);

/// A model that is a folder. Each request becomes a file `ID.request.json`, and its reply is awaited as `ID.reply.json`: the
/// JSON of a [`ChatReply`], for which `{"text": "…"}` is enough.
///
/// The ID follows from the model's name, the request and how often the same was asked before; so a run that is started again
/// finds the replies that it had, and waits for the others.
#[derive(Debug)]
pub struct Files {
    name: String,
    capability: ChatCapability,
    folder: PathBuf,
    /// The IDs that wait or were answered.
    taken: Mutex<BTreeSet<String>>,
}

/// What a request file holds.
#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    model: String,
    request: ChatRequest,
}

impl Files {
    /// Takes the folder, which is made if there is none, the model's name (`files` if there is none) and capabilities of
    /// `config`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](akg_core::ErrorKind::InvalidInput) if no folder is named; if it cannot be made.
    pub fn new(config: &ModelConfig) -> Result<Self> {
        let folder = config.folder.clone().ok_or_else(|| {
            Error::invalid("no folder for requests and replies is named; set `AKG_LLM_FOLDER`")
        })?;
        std::fs::create_dir_all(&folder).map_err(|e| {
            Error::io("cannot make the folder for requests and replies", e).with("folder", folder.display())
        })?;
        let mut capability = config.capability();
        capability.streaming = false;
        Ok(Self {
            name: config.model.clone().unwrap_or_else(|| "files".to_owned()),
            capability,
            folder,
            taken: Mutex::default(),
        })
    }

    /// An ID for a request, which is free again if the claim is dropped before it is answered.
    fn claim(&self, request: &[u8]) -> Claim<'_> {
        let digest = Digest::of(request).to_string();
        let digest = digest.get(..16).unwrap_or(&digest);
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut number = 1;
        let id = loop {
            let id = format!("{digest}-{number}");
            if taken.insert(id.clone()) {
                break id;
            }
            number += 1;
        };
        Claim {
            model: self,
            id,
            answered: false,
        }
    }

    fn path(&self, id: &str, ending: &str) -> PathBuf {
        self.folder.join(format!("{id}{ending}"))
    }
}

struct Claim<'a> {
    model: &'a Files,
    id: String,
    answered: bool,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let mut taken = self.model.taken.lock().unwrap_or_else(PoisonError::into_inner);
            taken.remove(&self.id);
        }
    }
}

#[async_trait]
impl ChatModel for Files {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self) -> ChatCapability {
        self.capability
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
        self.capability.admit(&self.name, request)?;
        let asked = serde_json::to_vec_pretty(&Asked {
            model: self.name.clone(),
            request: request.clone(),
        })
        .map_err(|e| Error::unexpected("a request cannot be written as JSON").caused_by(e))?;
        let mut claim = self.claim(&asked);
        write(&self.path(&claim.id, REQUEST), &asked)?;
        let path = self.path(&claim.id, REPLY);
        let mut before = None;
        loop {
            match std::fs::read(&path) {
                Ok(bytes) => match parse(&bytes) {
                    Ok(reply) => {
                        claim.answered = true;
                        return Ok(reply);
                    }
                    // It may be half written; what stays the same is not.
                    Err(error) if before.as_ref() == Some(&bytes) => {
                        return Err(error.with("file", path.display()));
                    }
                    Err(_) => before = Some(bytes),
                },
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(Error::io("cannot read a reply", e).with("file", path.display())),
            }
            runtime::sleep(LOOK).await?;
        }
    }
}

fn parse(bytes: &[u8]) -> Result<ChatReply> {
    let reply: ChatReply = serde_json::from_slice(bytes).map_err(|e| {
        Error::invalid("a reply is not the JSON that it should be, such as {\"text\": \"…\"}; write it again")
            .caused_by(e)
    })?;
    if reply.says_nothing() {
        return Err(Error::invalid(
            "a reply has neither `text` nor `calls`; write it again",
        ));
    }
    Ok(reply)
}

/// Writes a file that is whole from the moment it is there.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |e| Error::io("cannot write a file", e).with("file", path.display());
    let unfinished = path.with_extension(format!("{}.part", std::process::id()));
    let mut file = std::fs::File::create(&unfinished).map_err(failed)?;
    file.write_all(bytes).map_err(failed)?;
    std::fs::rename(&unfinished, path).map_err(failed)
}

/// The IDs of the requests in `folder`, in order.
#[cfg(feature = "openai")]
fn requests(folder: &Path) -> Result<Vec<String>> {
    let failed =
        |e| Error::io("cannot read the folder of requests and replies", e).with("folder", folder.display());
    let mut ids = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        ids.extend(
            name.to_str()
                .and_then(|n| n.strip_suffix(REQUEST))
                .map(str::to_owned),
        );
    }
    ids.sort();
    if ids.is_empty() {
        let message = "there are no requests in the folder; is it the right one?";
        return Err(Error::new(akg_core::ErrorKind::NotFound, message).with("folder", folder.display()));
    }
    Ok(ids)
}
