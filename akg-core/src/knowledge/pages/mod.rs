//! Guides and hardware sheets: Markdown with front matter, part of the library.
//!
//! What a DSL's text must look like is said by [`Dsl::guide`](crate::Dsl::guide), and what a device measures by its
//! [`Target`](crate::Target); the pages say what neither does: what makes kernels fast there, and what goes wrong.

use super::{Article, Body, Card, Kind};
use crate::digest::Digest;
use crate::error::{Error, Result};

/// The library's pages.
const EMBEDDED: [&str; 8] = [
    include_str!("triton.md"),
    include_str!("cpp.md"),
    include_str!("cuda-cpp.md"),
    include_str!("nvidia-a100.md"),
    include_str!("nvidia-h200.md"),
    include_str!("nvidia-b200.md"),
    include_str!("cpu-x86_64.md"),
    include_str!("cpu-aarch64.md"),
];

/// The library's pages.
///
/// # Errors
/// Never, unless the library itself is damaged.
pub fn pages() -> Result<Vec<Article>> {
    EMBEDDED.into_iter().map(page).collect()
}

/// Reads a page. It begins with its front matter, `key: value` lines between two lines of `---`: `kind` is `guide` or
/// `hardware`, `name` is what it is called and found by, and `dsl`, `backend` and `arch`, which may be missing, say what alone
/// it holds for. Pages with one name replace each other.
///
/// # Errors
/// If the front matter is not that.
pub fn page(text: &str) -> Result<Article> {
    let wrong = |what: &str| {
        Error::invalid(format!(
            "{what}; a page begins with `kind: guide` (or `hardware`) and `name: …` between two lines of `---`"
        ))
    };
    let (front, body) = text
        .strip_prefix("---\n")
        .and_then(|rest| rest.split_once("\n---\n"))
        .ok_or_else(|| wrong("the page has no front matter"))?;
    let (mut kind, mut name) = (None, None);
    let (mut dsl, mut backend, mut arch) = (None, None, None);
    for line in front.lines().filter(|line| !line.trim().is_empty()) {
        let (key, value) = line
            .split_once(':')
            .ok_or_else(|| wrong("a line of the front matter is no `key: value`").with("line", line))?;
        let value = value.trim().to_owned();
        match key.trim() {
            "kind" => {
                kind = [Kind::Guide, Kind::Hardware]
                    .into_iter()
                    .find(|kind| kind.name() == value)
            }
            "name" => name = Some(value),
            "dsl" => dsl = Some(value),
            "backend" => backend = Some(value),
            "arch" => arch = Some(value),
            _ => return Err(wrong("the front matter has a key that pages do not have").with("key", key)),
        }
    }
    let kind = kind.ok_or_else(|| wrong("the page has no kind that pages can have"))?;
    let name = name.ok_or_else(|| wrong("the page has no name"))?;
    Ok(Article {
        card: Card {
            key: Digest::of_parts([kind.name(), &name]),
            kind,
            name,
            dsl,
            backend,
            arch,
            problem: None,
            skeleton: None,
        },
        body: Body::Page {
            text: body.trim_start().to_owned(),
        },
        embedding: None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_page_is_one_of_its_own() {
        let pages = pages().unwrap();
        let keys: BTreeSet<Digest> = pages.iter().map(|page| page.card.key).collect();
        assert_eq!(keys.len(), EMBEDDED.len());
        for page in &pages {
            assert!(page.text().starts_with("# "), "{}", page.card.name);
            assert_eq!(
                page.card.kind == Kind::Hardware,
                page.card.arch.is_some(),
                "{}",
                page.card.name
            );
        }
    }

    #[test]
    fn front_matter_that_is_wrong_is_refused_with_what_it_should_be() {
        let right = "---\nkind: guide\nname: n\n---\n# n\n";
        assert_eq!(page(right).unwrap().text(), "# n\n");
        for (old, new, says) in [
            ("---\nkind", "kind", "no front matter"),
            ("guide", "kernel", "no kind"),
            ("name: n", "name", "no `key: value`"),
            ("name: n", "title: n", "does not have"),
            ("name: n\n", "\n", "no name"),
        ] {
            let error = page(&right.replacen(old, new, 1)).unwrap_err().to_string();
            assert!(
                error.contains(says) || error.contains("do not have"),
                "{says}: {error}"
            );
        }
    }
}
