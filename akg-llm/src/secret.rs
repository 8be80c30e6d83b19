//! Keys.

use std::fmt;

use serde::Deserialize;

/// A key to a server. It is never shown, and cannot be written to a file.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Hides a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    #[cfg(feature = "http")]
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` without the key, which some servers repeat in what they answer.
    #[cfg(feature = "http")]
    pub(crate) fn redact(&self, text: &str) -> String {
        if self.0.is_empty() {
            return text.to_owned();
        }
        text.replace(&self.0, "[key]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

impl<S: Into<String>> From<S> for Secret {
    fn from(key: S) -> Self {
        Self::new(key)
    }
}
