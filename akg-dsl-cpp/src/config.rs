//! Settings.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How C++ is built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CppConfig {
    /// The compiler, a path or a name on PATH. If `None`, `$CXX`, then `c++`, `g++`, `clang++`.
    pub compiler: Option<PathBuf>,
    /// Flags after akg's own and those of the target.
    pub flags: Vec<String>,
    /// How long one run of the compiler may take.
    pub time_limit: Duration,
}

impl Default for CppConfig {
    fn default() -> Self {
        Self {
            compiler: None,
            flags: Vec::new(),
            time_limit: Duration::from_secs(120),
        }
    }
}
