//! The models of a run, ready to use.

use std::sync::{Arc, Mutex, PoisonError};

use akg_core::chat::ChatModel;
use akg_core::knowledge::Embedder;
use akg_core::{Error, Result};

use crate::cassette::Recorder;
use crate::config::{Config, ModelConfig, Provider};
use crate::limit::Limit;
use crate::meter::{Account, Meter};
use crate::record::Record;
use crate::replay::{Cassette, Replay};
use crate::retry::Retry;
use crate::streamed::Streamed;
use crate::timeout::Timeout;

/// The models of a run, by role. They share an account and a recording; roles that are configured alike share a model, and
/// with it its limits.
#[derive(Debug)]
pub struct Models {
    config: Config,
    account: Arc<Account>,
    source: Source,
    made: Mutex<Vec<(ModelConfig, Arc<dyn ChatModel>)>>,
}

/// Where replies come from.
#[derive(Debug)]
enum Source {
    Providers(Option<Arc<Recorder>>),
    Recording(Arc<Cassette>),
}

impl Models {
    /// Opens the recording that is written or replayed, if there is one. Nobody is asked yet.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](akg_core::ErrorKind::InvalidInput) for a run that is to be recorded and replayed at once,
    /// and as [`Recorder::open`] and [`Cassette::open`].
    pub fn new(config: Config) -> Result<Self> {
        let source = match (&config.record, &config.replay) {
            (Some(_), Some(_)) => {
                return Err(Error::invalid(
                    "a run is either recorded or replayed; unset `AKG_LLM_RECORD` or `AKG_LLM_REPLAY`",
                ));
            }
            (None, Some(path)) => Source::Recording(Cassette::open(path)?),
            (Some(path), None) => Source::Providers(Some(Arc::new(Recorder::open(path)?))),
            (None, None) => Source::Providers(None),
        };
        Ok(Self {
            account: Arc::new(Account::new(config.budget)),
            made: Mutex::default(),
            config,
            source,
        })
    }

    /// The models that the environment asks for: see [`Config::from_env`].
    ///
    /// # Errors
    /// As [`Config::from_env`] and [`new`](Self::new).
    pub fn from_env() -> Result<Self> {
        Self::new(Config::from_env()?)
    }

    /// The model of a role.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](akg_core::ErrorKind::InvalidInput) if its configuration lacks something,
    /// [`ErrorKind::Unsupported`](akg_core::ErrorKind::Unsupported) if the provider is not built in.
    pub fn role(&self, name: &str) -> Result<Arc<dyn ChatModel>> {
        let config = self.config.role(name);
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, model)) = made.iter().find(|(other, _)| *other == config) {
            return Ok(Arc::clone(model));
        }
        let model = self.make(&config).map_err(|e| e.with("role", name))?;
        made.push((config, Arc::clone(&model)));
        Ok(model)
    }

    /// Who embeds texts; `None` if nobody is named, or if a recording is replayed, since then nobody is asked and recordings have no
    /// embeddings.
    ///
    /// # Errors
    /// As [`role`](Self::role).
    pub fn embedder(&self) -> Result<Option<Arc<dyn Embedder>>> {
        match (&self.source, self.config.embedder()) {
            (Source::Recording(_), _) | (_, None) => Ok(None),
            #[cfg(feature = "openai")]
            (Source::Providers(_), Some(config)) => {
                let embedder = crate::OpenAiEmbedder::new(&config, Arc::clone(&self.account));
                let embedder = embedder.map_err(|e| e.with("role", Config::EMBEDDER))?;
                Ok(Some(Arc::new(embedder)))
            }
            #[cfg(not(feature = "openai"))]
            (Source::Providers(_), Some(_)) => Err(Error::unsupported(
                "embedders are not built in; enable the feature `openai` of `akg-llm`",
            )),
        }
    }

    /// What the run has spent.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The recording that is replayed.
    pub fn cassette(&self) -> Option<&Cassette> {
        match &self.source {
            Source::Recording(cassette) => Some(cassette),
            Source::Providers(_) => None,
        }
    }

    /// The account is outermost, so that a replayed run has spent as much at each point as the recorded one.
    fn make(&self, config: &ModelConfig) -> Result<Arc<dyn ChatModel>> {
        let model: Arc<dyn ChatModel> = match &self.source {
            Source::Recording(cassette) => Arc::new(Replay::new(name(config)?, Arc::clone(cassette))),
            Source::Providers(recorder) => {
                let model = limited(config)?;
                match recorder {
                    Some(recorder) => Arc::new(Record::new(model, Arc::clone(recorder))),
                    None => model,
                }
            }
        };
        let account = Arc::clone(&self.account);
        Ok(Arc::new(Meter::new(model, config.price(), account)))
    }
}

/// What the provider of `config` calls its model.
fn name(config: &ModelConfig) -> Result<&str> {
    match (config.provider, config.model()) {
        (Some(Provider::Files), Err(_)) => Ok("files"),
        (_, name) => name,
    }
}

/// The provider, streaming if that is wanted, with its time limit for each try, the limits of tries, and retries.
fn limited(config: &ModelConfig) -> Result<Arc<dyn ChatModel>> {
    let mut model = provider(config)?;
    if config.stream == Some(true) {
        model = Arc::new(Streamed::new(model));
    }
    if let Some(limit) = config.time_limit()? {
        model = Arc::new(Timeout::new(model, limit));
    }
    model = Arc::new(Limit::new(model, config.at_once(), config.per_minute));
    Ok(Arc::new(Retry::new(model, config.backoff())))
}

fn provider(config: &ModelConfig) -> Result<Arc<dyn ChatModel>> {
    match config.provider.unwrap_or_default() {
        #[cfg(feature = "openai")]
        Provider::Openai => Ok(Arc::new(crate::OpenAi::new(config)?)),
        #[cfg(feature = "anthropic")]
        Provider::Anthropic => Ok(Arc::new(crate::Anthropic::new(config)?)),
        #[cfg(feature = "files")]
        Provider::Files => Ok(Arc::new(crate::Files::new(config)?)),
        #[cfg(not(all(feature = "openai", feature = "anthropic", feature = "files")))]
        other => Err(Error::unsupported(format!(
            "models of {other:?} are not built in; enable the feature of that name of `akg-llm`"
        ))),
    }
}
