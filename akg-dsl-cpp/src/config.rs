//! Settings.

use std::path::PathBuf;
use std::time::Duration;

use akg_core::isolation::IsolationLevel;
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
    /// How long one run of the compiler may take for each hundred kernels, or a part of that many.
    pub time_limit: Duration,
    /// The isolation that the compiler must run in at least. It always gets the highest that the system offers.
    pub isolation: IsolationLevel,
    /// The worker program that confines the compiler; found as [`akg_worker::find`] does if `None`.
    pub worker: Option<PathBuf>,
}

impl Default for CppConfig {
    fn default() -> Self {
        Self {
            compiler: None,
            flags: Vec::new(),
            time_limit: Duration::from_secs(120),
            isolation: IsolationLevel::None,
            worker: None,
        }
    }
}
