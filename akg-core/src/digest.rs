//! Hashes of content.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The BLAKE3 hash of some bytes, written as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// The hash of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The hash of a list. Where one part ends and the next begins counts.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The hash of a value's JSON.
    pub fn of_value(value: &impl Serialize) -> Result<Self> {
        let json = serde_json::to_vec(value)
            .map_err(|e| Error::unexpected("cannot write a value as JSON to hash it").caused_by(e))?;
        Ok(Self::of(&json))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let hash = blake3::Hash::from_hex(text)
            .map_err(|e| Error::invalid(format!("`{text}` is not a hash")).caused_by(e))?;
        Ok(Self(*hash.as_bytes()))
    }
}

impl TryFrom<String> for Digest {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_read_back_and_damage_is_refused() {
        // From the BLAKE3 test vectors: the hash of nothing.
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(Digest::of(b"").to_string(), empty);
        let json = serde_json::to_string(&Digest::of(b"a")).unwrap();
        assert_eq!(serde_json::from_str::<Digest>(&json).unwrap(), Digest::of(b"a"));
        assert!(empty.get(1..).unwrap().parse::<Digest>().is_err());
    }

    #[test]
    fn parts_are_not_only_their_concatenation() {
        assert_ne!(Digest::of_parts(["ab", "c"]), Digest::of_parts(["a", "bc"]));
        assert_ne!(Digest::of_parts(["ab"]), Digest::of_parts(["ab", ""]));
    }
}
