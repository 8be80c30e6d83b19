//! Parts of a run that is too long for one machine or one sitting.

use akg::{Error, Result};

/// One of the parts of a run, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    number: u64,
    of: u64,
}

impl Shard {
    /// The whole run.
    pub(crate) const ALL: Self = Self { number: 1, of: 1 };

    /// Reads `all`, or a part such as `2/8`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text == "all" {
            return Some(Self::ALL);
        }
        let (number, of) = text.split_once('/')?;
        let (number, of) = (number.parse().ok()?, of.parse().ok()?);
        (1..=of).contains(&number).then_some(Self { number, of })
    }

    /// Reads an environment variable, if it is set. An error if it has neither form.
    pub(crate) fn from_environment(variable: &str) -> Result<Option<Self>> {
        let Ok(text) = std::env::var(variable) else {
            return Ok(None);
        };
        let shard = Self::parse(&text).ok_or_else(|| {
            Error::invalid(format!(
                "{variable} is `{text}`; use `all` or a shard such as `2/8`"
            ))
        })?;
        Ok(Some(shard))
    }

    /// Whether the item with this number is in the part.
    pub(crate) fn has(self, item: u64) -> bool {
        item % self.of == self.number - 1
    }
}
