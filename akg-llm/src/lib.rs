#![doc = include_str!("../README.md")]

#[cfg(feature = "anthropic")]
mod anthropic;
mod cassette;
mod config;
#[cfg(feature = "files")]
mod files;
#[cfg(feature = "http")]
mod http;
mod layer;
mod limit;
mod meter;
mod models;
#[cfg(feature = "openai")]
mod openai;
mod record;
mod replay;
mod retry;
mod runtime;
mod secret;
mod streamed;
mod timeout;

#[cfg(feature = "anthropic")]
pub use anthropic::Anthropic;
pub use cassette::{Exchange, Outcome, Recorder, read as read_recording};
pub use config::{Config, ModelConfig, Provider};
#[cfg(feature = "files")]
pub use files::Files;
#[cfg(all(feature = "files", feature = "openai"))]
pub use files::batch::{Imported, export_batch, import_batch};
pub use limit::Limit;
pub use meter::{Account, Budget, Meter, Price, Spent};
pub use models::Models;
#[cfg(feature = "openai")]
pub use openai::{OpenAi, OpenAiEmbedder};
pub use record::Record;
pub use replay::{Cassette, Replay};
pub use retry::{Backoff, Retry};
pub use secret::Secret;
pub use streamed::Streamed;
pub use timeout::Timeout;
