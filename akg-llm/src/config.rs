//! Which model to ask, and how.

use std::collections::BTreeMap;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use akg_core::chat::ChatCapability;
use akg_core::{Error, Result};
use serde::Deserialize;

use crate::meter::{Budget, Price};
use crate::retry::Backoff;
use crate::secret::Secret;

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Provider {
    /// A server that takes chat completions: OpenAI's or one like it.
    #[default]
    Openai,
    /// A server that takes Anthropic's messages.
    Anthropic,
    /// Whoever answers files in a folder.
    Files,
}

impl FromStr for Provider {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name {
            "openai" => Ok(Provider::Openai),
            "anthropic" => Ok(Provider::Anthropic),
            "files" => Ok(Provider::Files),
            _ => Err(Error::invalid(
                "there is no such provider of models; there are `openai`, `anthropic` and `files`",
            )),
        }
    }
}

/// How to ask a model. What is `None` is taken from the configuration of all roles, and then has the default named here.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Who is asked: `openai`.
    pub provider: Option<Provider>,
    /// The model, as the provider calls it. There is no default.
    pub model: Option<String>,
    /// Where the server is: where the provider's own is.
    pub base_url: Option<String>,
    /// The key: none.
    pub key: Option<Secret>,
    /// The folder of the provider `files`. There is no default.
    pub folder: Option<PathBuf>,
    /// The most tokens of a reply, where the request says nothing: what the server allows, and 8192 for Anthropic, which
    /// wants a number.
    pub max_tokens: Option<u32>,
    /// Whether the model calls tools: yes.
    pub tools: Option<bool>,
    /// Whether the model keeps to a JSON schema: yes.
    pub schema: Option<bool>,
    /// Whether the model sees images: yes.
    pub images: Option<bool>,
    /// Whether replies stream where nobody listens, too: no.
    pub stream: Option<bool>,
    /// Seconds for a reply: 600 for servers, for files any time.
    pub timeout: Option<f64>,
    /// How often to ask again after trouble that may pass: 6.
    pub retries: Option<u32>,
    /// How many calls may run at once: 8.
    pub at_once: Option<NonZeroUsize>,
    /// How many calls may begin each minute: any number.
    pub per_minute: Option<NonZeroU32>,
    /// The price of a million tokens read: 0.
    pub price_input: Option<f64>,
    /// The price of a million tokens from the server's cache: that of tokens read.
    pub price_cached: Option<f64>,
    /// The price of a million tokens written: 0.
    pub price_output: Option<f64>,
}

impl ModelConfig {
    /// The model's name.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](akg_core::ErrorKind::InvalidInput) if none is named.
    pub fn model(&self) -> Result<&str> {
        self.model
            .as_deref()
            .ok_or_else(|| Error::invalid("no model is named; set `AKG_LLM_MODEL` or the model of the role"))
    }

    /// What the model is capable of.
    pub fn capability(&self) -> ChatCapability {
        let mut capability = ChatCapability::ALL;
        capability.tools = self.tools.unwrap_or(true);
        capability.schema = self.schema.unwrap_or(true);
        capability.images = self.images.unwrap_or(true);
        capability
    }

    /// What tokens cost.
    pub fn price(&self) -> Price {
        let input = self.price_input.unwrap_or(0.0);
        Price {
            input,
            cached: self.price_cached.unwrap_or(input),
            output: self.price_output.unwrap_or(0.0),
        }
    }

    /// How long a reply may take; `None` for any time.
    pub(crate) fn time_limit(&self) -> Result<Option<Duration>> {
        let default = match self.provider {
            Some(Provider::Files) => None,
            _ => Some(600.0),
        };
        let limit = self.timeout.or(default).map(Duration::try_from_secs_f64);
        limit
            .transpose()
            .map_err(|e| Error::invalid("the time limit of the model is no time").caused_by(e))
    }

    /// How many calls may run at once.
    pub(crate) fn at_once(&self) -> Option<NonZeroUsize> {
        self.at_once.or(NonZeroUsize::new(8))
    }

    /// How often to ask again, and when.
    pub(crate) fn backoff(&self) -> Backoff {
        let default = Backoff::default();
        Backoff {
            retries: self.retries.unwrap_or(default.retries),
            ..default
        }
    }

    /// This where it says something, `other` where it does not.
    fn or(self, other: &Self) -> Self {
        let other = other.clone();
        // A key belongs to its server, and is not sent to another.
        let elsewhere = self.base_url.is_some() || self.provider.is_some();
        let key = if elsewhere { None } else { other.key };
        let base_url = if self.provider.is_some() {
            None
        } else {
            other.base_url
        };
        Self {
            provider: self.provider.or(other.provider),
            model: self.model.or(other.model),
            base_url: self.base_url.or(base_url),
            key: self.key.or(key),
            folder: self.folder.or(other.folder),
            max_tokens: self.max_tokens.or(other.max_tokens),
            tools: self.tools.or(other.tools),
            schema: self.schema.or(other.schema),
            images: self.images.or(other.images),
            stream: self.stream.or(other.stream),
            timeout: self.timeout.or(other.timeout),
            retries: self.retries.or(other.retries),
            at_once: self.at_once.or(other.at_once),
            per_minute: self.per_minute.or(other.per_minute),
            price_input: self.price_input.or(other.price_input),
            price_cached: self.price_cached.or(other.price_cached),
            price_output: self.price_output.or(other.price_output),
        }
    }

    /// Reads the variables that begin with `prefix`.
    fn read(prefix: &str, get: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        Ok(Self {
            provider: read(prefix, "PROVIDER", get)?,
            model: read(prefix, "MODEL", get)?,
            base_url: read(prefix, "BASE_URL", get)?,
            key: read::<String>(prefix, "API_KEY", get)?.map(Secret::new),
            folder: read(prefix, "FOLDER", get)?,
            max_tokens: read(prefix, "MAX_TOKENS", get)?,
            tools: read(prefix, "TOOLS", get)?,
            schema: read(prefix, "SCHEMA", get)?,
            images: read(prefix, "IMAGES", get)?,
            stream: read(prefix, "STREAM", get)?,
            timeout: read(prefix, "TIMEOUT", get)?,
            retries: read(prefix, "RETRIES", get)?,
            at_once: read(prefix, "AT_ONCE", get)?,
            per_minute: read(prefix, "PER_MINUTE", get)?,
            price_input: read(prefix, "PRICE_INPUT", get)?,
            price_cached: read(prefix, "PRICE_CACHED", get)?,
            price_output: read(prefix, "PRICE_OUTPUT", get)?,
        })
    }
}

/// The value of a variable; `None` if it is not set, or empty.
fn read<T: FromStr<Err: std::fmt::Display>>(
    prefix: &str,
    name: &str,
    get: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<T>> {
    let name = format!("{prefix}{name}");
    let Some(text) = get(&name).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let parsed = text.parse().map_err(|e: T::Err| {
        Error::invalid(format!(
            "the variable `{name}` has no value that it can have: {e}"
        ))
    });
    parsed.map(Some)
}

/// Models for the roles of a run.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// What holds for all roles.
    pub all: ModelConfig,
    /// What is different for a role, by its name.
    pub roles: BTreeMap<String, ModelConfig>,
    /// What the run may spend.
    pub budget: Budget,
    /// Where to record every exchange.
    pub record: Option<PathBuf>,
    /// The recording to answer from, instead of asking anyone.
    pub replay: Option<PathBuf>,
}

impl Config {
    /// The roles that the environment can name.
    pub const ROLES: [&'static str; 8] = [
        "task-builder",
        "designer",
        "coder",
        "fixer",
        "analyst",
        "conductor",
        "lifter",
        Self::EMBEDDER,
    ];

    /// The role of who embeds texts.
    pub(crate) const EMBEDDER: &'static str = "embedder";

    /// Reads the variables `AKG_LLM_*` of the environment, which the crate's documentation lists.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`](akg_core::ErrorKind::InvalidInput) if one has a value that it cannot have.
    pub fn from_env() -> Result<Self> {
        Self::from_variables(&|name| std::env::var(name).ok())
    }

    /// Reads the same variables from elsewhere.
    ///
    /// # Errors
    /// As [`from_env`](Self::from_env).
    pub fn from_variables(get: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        const PREFIX: &str = "AKG_LLM_";
        let mut roles = BTreeMap::new();
        for role in Self::ROLES {
            let prefix = format!("{PREFIX}{}_", role.to_uppercase().replace('-', "_"));
            let config = ModelConfig::read(&prefix, get)?;
            if config != ModelConfig::default() {
                roles.insert(role.to_owned(), config);
            }
        }
        Ok(Self {
            all: ModelConfig::read(PREFIX, get)?,
            roles,
            budget: Budget {
                tokens: read(PREFIX, "BUDGET_TOKENS", get)?,
                money: read(PREFIX, "BUDGET_MONEY", get)?,
            },
            record: read(PREFIX, "RECORD", get)?,
            replay: read(PREFIX, "REPLAY", get)?,
        })
    }

    /// How to ask the model of a role.
    pub fn role(&self, name: &str) -> ModelConfig {
        let own = self.roles.get(name).cloned().unwrap_or_default();
        own.or(&self.all)
    }

    /// How to ask who embeds texts; `None` if nothing says who that is: no model of replies does it, too.
    pub fn embedder(&self) -> Option<ModelConfig> {
        let own = self.roles.get(Self::EMBEDDER)?;
        let mut config = own.clone().or(&self.all);
        config.model.clone_from(&own.model);
        Some(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)]) -> Result<Config> {
        let all: BTreeMap<_, _> = variables.iter().copied().collect();
        Config::from_variables(&|name| all.get(name).map(|&value| value.to_owned()))
    }

    #[test]
    fn roles_differ_where_they_say_so() {
        let config = config(&[
            ("AKG_LLM_MODEL", "fast"),
            ("AKG_LLM_BASE_URL", "http://here/v1"),
            ("AKG_LLM_API_KEY", "k1"),
            ("AKG_LLM_PER_MINUTE", "30"),
            ("AKG_LLM_DESIGNER_MODEL", "strong"),
            ("AKG_LLM_TASK_BUILDER_IMAGES", "false"),
            ("AKG_LLM_BUDGET_MONEY", "2.5"),
            ("AKG_LLM_FIXER_MODEL", ""),
        ])
        .unwrap();
        assert_eq!(config.budget.money, Some(2.5));
        assert_eq!(config.role("fixer"), config.all);
        let designer = config.role("designer");
        assert_eq!(designer.model().unwrap(), "strong");
        assert_eq!(designer.key, Some("k1".into()));
        assert_eq!(designer.per_minute, NonZeroU32::new(30));
        assert!(!config.role("task-builder").capability().images);
    }

    #[test]
    fn nobody_embeds_unless_that_is_said() {
        let all = [("AKG_LLM_MODEL", "m"), ("AKG_LLM_BASE_URL", "http://here/v1")];
        assert_eq!(config(&all).unwrap().embedder(), None);
        let named = |name, value| {
            config(&[all[0], all[1], (name, value)])
                .unwrap()
                .embedder()
                .unwrap()
        };
        let embedder = named("AKG_LLM_EMBEDDER_MODEL", "e");
        assert_eq!(embedder.model().unwrap(), "e");
        assert_eq!(embedder.base_url.as_deref(), Some("http://here/v1"));
        assert!(named("AKG_LLM_EMBEDDER_RETRIES", "3").model().is_err());
    }

    #[test]
    fn a_key_stays_with_its_server() {
        let config = config(&[
            ("AKG_LLM_MODEL", "m"),
            ("AKG_LLM_BASE_URL", "http://here/v1"),
            ("AKG_LLM_API_KEY", "k1"),
            ("AKG_LLM_CODER_BASE_URL", "http://there/v1"),
            ("AKG_LLM_FIXER_PROVIDER", "anthropic"),
        ])
        .unwrap();
        assert_eq!(config.role("coder").key, None);
        let fixer = config.role("fixer");
        assert_eq!((fixer.key, fixer.base_url), (None, None));
    }

    #[test]
    fn what_is_wrong_is_named_and_keys_are_not_shown() {
        let error = config(&[("AKG_LLM_DESIGNER_RETRIES", "many")]).unwrap_err();
        assert!(error.message().contains("`AKG_LLM_DESIGNER_RETRIES`"), "{error}");
        let error = config(&[("AKG_LLM_PROVIDER", "oracle")]).unwrap_err();
        assert!(error.message().contains("`anthropic`"), "{error}");
        let shown = format!("{:?}", config(&[("AKG_LLM_API_KEY", "sk-secret")]).unwrap());
        assert!(!shown.contains("sk-secret"), "{shown}");
        assert!(config(&[]).unwrap().role("coder").model().is_err());
    }
}
