//! Hashes of content.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

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

    /// The hash of a value by its [`Fingerprint`], which tells kinds of values apart.
    pub fn of_fields(value: &(impl Fingerprint + ?Sized)) -> Self {
        let mut fields = Fields(blake3::Hasher::new());
        value.feed(&mut fields);
        Self(*fields.0.finalize().as_bytes())
    }

    /// The hash of a value's JSON.
    pub fn of_value(value: &impl Serialize) -> Result<Self> {
        let json = serde_json::to_vec(value)
            .map_err(|e| Error::unexpected("cannot write a value as JSON to hash it").caused_by(e))?;
        Ok(Self::of(&json))
    }
}

/// A value that is identified by bytes of its own choice, whatever its `Debug` and its JSON look like.
pub trait Fingerprint {
    /// Feeds what distinguishes this value from others of its kind.
    fn feed(&self, to: &mut Fields);
}

/// The bytes of a [`Fingerprint`], as they are hashed: every value begins with a byte for its kind, every text and list with
/// its length, and every record with its name and the version of its fields, so that different values never give the
/// same bytes.
#[derive(Debug)]
pub struct Fields(blake3::Hasher);

impl Fields {
    /// Feeds a record: its name, the version of its fields, and the fields, each by its name. The version grows with every
    /// change of the fields or of their meaning.
    pub fn record(&mut self, name: &str, version: u32, fields: &[(&str, &dyn Fingerprint)]) {
        self.tag(b'r', name.len() as u64);
        self.0.update(name.as_bytes());
        self.0.update(&version.to_le_bytes());
        self.0.update(&(fields.len() as u64).to_le_bytes());
        for (name, value) in fields {
            name.feed(self);
            value.feed(self);
        }
    }

    fn tag(&mut self, kind: u8, number: u64) {
        self.0.update(&[kind]);
        self.0.update(&number.to_le_bytes());
    }
}

impl<T: Fingerprint + ?Sized> Fingerprint for &T {
    fn feed(&self, to: &mut Fields) {
        (**self).feed(to);
    }
}

impl<T: Fingerprint + ?Sized> Fingerprint for Arc<T> {
    fn feed(&self, to: &mut Fields) {
        (**self).feed(to);
    }
}

impl Fingerprint for str {
    fn feed(&self, to: &mut Fields) {
        to.tag(b's', self.len() as u64);
        to.0.update(self.as_bytes());
    }
}

impl Fingerprint for String {
    fn feed(&self, to: &mut Fields) {
        self.as_str().feed(to);
    }
}

macro_rules! numbers {
    ($($type:ty as $kind:literal: $bits:expr;)*) => {$(
        impl Fingerprint for $type {
            fn feed(&self, to: &mut Fields) {
                to.tag($kind, $bits(*self));
            }
        }
    )*};
}
numbers! {
    bool as b'b': u64::from;
    u32 as b'u': u64::from;
    u64 as b'u': |n| n;
    usize as b'u': |n| n as u64;
    i64 as b'i': i64::cast_unsigned;
    f64 as b'f': f64::to_bits;
}

impl Fingerprint for Digest {
    fn feed(&self, to: &mut Fields) {
        to.tag(b'd', self.0.len() as u64);
        to.0.update(&self.0);
    }
}

impl<T: Fingerprint> Fingerprint for Option<T> {
    fn feed(&self, to: &mut Fields) {
        to.tag(b'o', u64::from(self.is_some()));
        if let Some(value) = self {
            value.feed(to);
        }
    }
}

impl<T: Fingerprint> Fingerprint for [T] {
    fn feed(&self, to: &mut Fields) {
        to.tag(b'l', self.len() as u64);
        self.iter().for_each(|value| value.feed(to));
    }
}

impl<T: Fingerprint> Fingerprint for Vec<T> {
    fn feed(&self, to: &mut Fields) {
        self.as_slice().feed(to);
    }
}

impl<T: Fingerprint> Fingerprint for BTreeSet<T> {
    fn feed(&self, to: &mut Fields) {
        to.tag(b'l', self.len() as u64);
        self.iter().for_each(|value| value.feed(to));
    }
}

impl<K: Fingerprint, V: Fingerprint> Fingerprint for BTreeMap<K, V> {
    fn feed(&self, to: &mut Fields) {
        to.tag(b'm', self.len() as u64);
        for (key, value) in self {
            key.feed(to);
            value.feed(to);
        }
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
    fn fingerprints_are_the_bytes_that_are_written_down_here() {
        struct Pair(i64, Option<String>);
        impl Fingerprint for Pair {
            fn feed(&self, to: &mut Fields) {
                to.record("pair", 3, &[("left", &self.0), ("right", &self.1)]);
            }
        }
        let number = |n: u64| n.to_le_bytes();
        let mut bytes = Vec::new();
        bytes.extend(
            [
                b"r".as_slice(),
                &number(4),
                b"pair",
                &3u32.to_le_bytes(),
                &number(2),
            ]
            .concat(),
        );
        bytes.extend([b"s".as_slice(), &number(4), b"left", b"i", &number(u64::MAX)].concat());
        bytes.extend([b"s".as_slice(), &number(5), b"right", b"o", &number(1)].concat());
        bytes.extend([b"s".as_slice(), &number(3), b"abc"].concat());
        assert_eq!(
            Digest::of_fields(&Pair(-1, Some("abc".to_owned()))),
            Digest::of(&bytes)
        );
    }

    #[test]
    fn values_of_different_kinds_and_groups_differ() {
        let digests = [
            Digest::of_fields(""),
            Digest::of_fields(&0u64),
            Digest::of_fields(&0i64),
            Digest::of_fields(&0.0),
            Digest::of_fields(&false),
            Digest::of_fields(&Vec::<u64>::new()),
            Digest::of_fields(&None::<u64>),
            Digest::of_fields(&["ab", "c"].as_slice()),
            Digest::of_fields(&["a", "bc"].as_slice()),
            Digest::of_fields(&vec![vec![1i64], vec![2]]),
            Digest::of_fields(&vec![vec![1i64, 2], vec![]]),
            Digest::of_fields(&BTreeMap::from([(1i64, 2i64)])),
        ];
        for (i, digest) in digests.iter().enumerate() {
            assert!(!digests.iter().skip(i + 1).any(|other| other == digest), "{i}");
        }
    }

    #[test]
    fn parts_are_not_only_their_concatenation() {
        assert_ne!(Digest::of_parts(["ab", "c"]), Digest::of_parts(["a", "bc"]));
        assert_ne!(Digest::of_parts(["ab"]), Digest::of_parts(["ab", ""]));
    }
}
