//! The sections of a corpus file.

use std::fs;
use std::path::Path;

/// A part of a file that begins with `//@` (`#@` in Python, sketches and replies).
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) name: String,
    /// The names of the failures for which it may be rejected; none for an honest one.
    pub(crate) reasons: Vec<String>,
    /// Whether it is judged by a benchmark, too.
    pub(crate) timed: bool,
    /// Options of the section: the lines `//: KEY: VALUE` at its beginning.
    pub(crate) options: Vec<(String, String)>,
    pub(crate) text: String,
}

impl Section {
    /// The value of an option.
    pub(crate) fn option(&self, key: &str) -> Option<&str> {
        let found = self.options.iter().find(|(k, _)| k == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The values of an option that stands there several times.
    pub(crate) fn options<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.options.iter().filter(move |(k, _)| k == key);
        found.map(|(_, value)| value.as_str())
    }
}

/// A file: options at its head, then sections.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) head: Section,
    pub(crate) sections: Vec<Section>,
}

impl File {
    /// Reads a file, after the head of the file beside it that its option `head` names.
    pub(crate) fn open(path: &Path, comment: &str) -> Self {
        let read = |path: &Path| Self::read(&fs::read_to_string(path).unwrap(), comment);
        let mut file = read(path);
        if let Some(name) = file.head.option("head") {
            let shared = read(&path.with_file_name(name)).head;
            file.head.options.extend(shared.options);
            file.head.text.insert_str(0, &shared.text);
        }
        file
    }

    /// Reads a text whose comments begin with `comment`.
    fn read(text: &str, comment: &str) -> Self {
        let marker = format!("{comment}@ ");
        let option = format!("{comment}: ");
        let mut sections = vec![Section {
            name: String::new(),
            reasons: Vec::new(),
            timed: false,
            options: Vec::new(),
            text: String::new(),
        }];
        for line in text.lines() {
            if let Some(title) = line.strip_prefix(&marker) {
                sections.push(begin(title));
                continue;
            }
            let section = sections.last_mut().unwrap();
            match line.strip_prefix(&option).and_then(|line| line.split_once(": ")) {
                Some((key, value)) => match section.options.last_mut() {
                    // Long values go on in the next line.
                    Some((last, whole)) if last == key && key == "graph" => whole.push_str(value.trim()),
                    _ => section.options.push((key.to_owned(), value.trim().to_owned())),
                },
                None => {
                    section.text.push_str(line);
                    section.text.push('\n');
                }
            }
        }
        for section in &mut sections {
            section.text = expand(&section.text);
            for (_, value) in &mut section.options {
                *value = expand(value);
            }
        }
        let head = sections.remove(0);
        Self { head, sections }
    }
}

/// Writes out what files cannot hold well: `@ESCAPE@` is the control character, `@REPEAT 3 ab@` is `ababab`.
fn expand(text: &str) -> String {
    const REPEAT: &str = "@REPEAT ";
    let text = text.replace("@ESCAPE@", "\x1b");
    let mut parts = text.split(REPEAT);
    let mut expanded = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (count, rest) = part.split_once(' ').unwrap();
        let (repeated, rest) = rest.split_once('@').unwrap();
        expanded.push_str(&repeated.repeat(count.parse().unwrap()));
        expanded.push_str(rest);
    }
    expanded
}

/// The section with a title such as `hostile idle_after_60 timed: stale, keeps-state`.
fn begin(title: &str) -> Section {
    let (title, reasons) = title.split_once(": ").unwrap_or((title, ""));
    let mut words = title.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let reasons = reasons.split(", ").filter(|reason| !reason.is_empty());
    let reasons: Vec<String> = reasons.map(str::to_owned).collect();
    assert!(
        matches!(kind, "honest" | "compute") && reasons.is_empty()
            || kind == "hostile" && !reasons.is_empty(),
        "a section is `honest NAME` or `hostile NAME: REASON, ...`, not `{title}`"
    );
    let name = words.next().unwrap_or(kind).to_owned();
    Section {
        name,
        reasons,
        timed: words.next() == Some("timed"),
        options: Vec::new(),
        text: String::new(),
    }
}
