//! The words of a text.

use std::collections::BTreeMap;

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The words of sketch text in order: names, keywords, numbers.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

/// A text with other words in the place of some, all at once.
pub(super) fn renamed(text: &str, names: &BTreeMap<String, String>) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (word, after) = rest.split_at(rest.find(|c| !is_word(c)).unwrap_or(rest.len()));
        out.push_str(names.get(word).map_or(word, String::as_str));
        let (others, after) = after.split_at(after.find(is_word).unwrap_or(after.len()));
        out.push_str(others);
        rest = after;
    }
    out
}
