//! How far a candidate is kept from everything that is not its business.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// What a process that runs hostile code cannot do, in three steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IsolationLevel {
    /// A process of its own, which ends at its deadline; nothing more is promised.
    #[default]
    None,
    /// A session of its own, a cleaned environment, a private directory, bounded memory, time and output, and an end
    /// together with all processes that it started. What else is contained depends on the system.
    Basic,
    /// Also no file outside what it needs, no network, no other process, no disk beyond its quota, nothing that
    /// outlives it, whatever it tries.
    Strict,
}

impl IsolationLevel {
    /// Every level, weakest first.
    pub const ALL: [IsolationLevel; 3] = [
        IsolationLevel::None,
        IsolationLevel::Basic,
        IsolationLevel::Strict,
    ];

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            IsolationLevel::None => "none",
            IsolationLevel::Basic => "basic",
            IsolationLevel::Strict => "strict",
        }
    }
}

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for IsolationLevel {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|l| l.name() == text).ok_or_else(|| {
            Error::invalid(format!(
                "unknown isolation level `{text}`; use none, basic or strict"
            ))
        })
    }
}

/// The isolation that was reached on this system.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Isolation {
    /// The level: every promise of it holds.
    pub level: IsolationLevel,
    /// What the system does not offer and the next level needs, for people; empty at the highest level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.level)?;
        match self.missing.as_slice() {
            [] => Ok(()),
            missing => write!(f, " (missing: {})", missing.join("; ")),
        }
    }
}

impl Isolation {
    /// Refuses what is below `required`.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported), naming what is missing.
    pub fn demand(&self, required: IsolationLevel) -> Result<()> {
        if self.level >= required {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "isolation `{required}` is required, but this system reaches `{}`: {}",
            self.level,
            self.missing.join("; ")
        )))
    }
}
