//! Settings.

use std::path::PathBuf;
use std::time::Duration;

use akg_core::isolation::IsolationLevel;
use serde::{Deserialize, Serialize};

/// How Triton is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct TritonConfig {
    /// The Python interpreter that has Triton. If `None`, `$AKG_PYTHON`, then the active one, then the one that akg
    /// installed.
    pub python: Option<PathBuf>,
    /// The cache directory, instead of `$AKG_CACHE` or `akg` in the user's cache directory.
    pub cache: Option<PathBuf>,
    /// How long a compiler may take for some of the kernels of a source, eight at most.
    pub time_limit: Duration,
    /// The isolation that the compiler must run in at least. It always gets the highest that the system offers.
    pub isolation: IsolationLevel,
}

impl Default for TritonConfig {
    fn default() -> Self {
        Self {
            python: None,
            cache: None,
            time_limit: Duration::from_secs(180),
            isolation: IsolationLevel::None,
        }
    }
}
