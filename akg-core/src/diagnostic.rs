//! Findings about a text, shown the way compilers do.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How serious a [`Diagnostic`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The source is rejected.
    Error,
    /// Worth saying.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
        })
    }
}

/// A finding about a text, with the bytes it concerns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How serious.
    pub severity: Severity,
    /// What is wrong and what to do.
    pub message: String,
    /// Byte range in the text; empty if the whole text is meant.
    pub span: Range<usize>,
    /// Further remarks.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// An error about the bytes `span`.
    pub fn error(message: impl Into<String>, span: Range<usize>) -> Self {
        Self {
            severity: Severity::Error,
            message: message.into(),
            span,
            notes: Vec::new(),
        }
    }

    /// A warning about the bytes `span`.
    pub fn warning(message: impl Into<String>, span: Range<usize>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(message, span)
        }
    }

    /// Adds a remark.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Appends the diagnostic to `out`: severity and message, then the line of `text` with the place underlined, then
    /// the notes.
    fn render(&self, text: &str, out: &mut String) {
        out.push_str(&format!("{}: {}\n", self.severity, self.message));
        let mut margin = String::new();
        if !self.span.is_empty() {
            let place = Place::find(text, &self.span);
            let number = place.line.to_string();
            margin = " ".repeat(number.len());
            let (line, indent, carets) = (place.text, place.indent, "^".repeat(place.width));
            out.push_str(&format!("{margin}--> {}:{}\n", place.line, place.column));
            out.push_str(&format!(
                "{margin} |\n{number} | {line}\n{margin} | {indent}{carets}\n"
            ));
        }
        for note in &self.notes {
            out.push_str(&format!("{margin} = note: {note}\n"));
        }
    }
}

/// Bytes of a line that are shown; of a longer one, those around the place.
const MAX_LINE: usize = 1000;

/// Where a byte range begins in a text.
struct Place<'a> {
    /// From 1.
    line: usize,
    /// In characters, from 1.
    column: usize,
    /// The line, or the part of a long one that is shown.
    text: &'a str,
    /// Blanks as wide as what precedes the place, tabs kept.
    indent: String,
    /// Characters to underline on this line.
    width: usize,
}

impl<'a> Place<'a> {
    fn find(text: &'a str, span: &Range<usize>) -> Self {
        let floor = |mut at: usize| {
            at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let (start, end) = (floor(span.start), floor(span.end));
        let (before, after) = text.split_at(start);
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        let line_end = after.find('\n').map_or(text.len(), |i| start + i);
        let lead = text.get(line_start..start).unwrap_or_default();
        let (from, to) = if line_end - line_start > MAX_LINE {
            let near = (start.saturating_sub(MAX_LINE / 2), start + MAX_LINE / 2);
            (floor(near.0).max(line_start), floor(near.1).min(line_end))
        } else {
            (line_start, line_end)
        };
        let line = text.get(from..to).unwrap_or_default();
        let shown_lead = text.get(from..start).unwrap_or_default();
        let marked = text.get(start..end.min(to)).unwrap_or_default();
        Self {
            line: before.matches('\n').count() + 1,
            column: lead.chars().count() + 1,
            text: line.trim_end(),
            indent: shown_lead
                .chars()
                .map(|c| if c == '\t' { '\t' } else { ' ' })
                .collect(),
            width: marked.trim_end().chars().count().max(1),
        }
    }
}

/// Findings about one text, in the order they were made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Diagnostics(Vec<Diagnostic>);

/// Findings that are kept. Nobody reads more, and each takes time to make and to show.
const MAX_FINDINGS: usize = 200;

impl Diagnostics {
    /// No finding.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a finding, if there are not 200 already. An error then takes the place of the last one, so that
    /// [`has_errors`](Self::has_errors) holds.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        if self.0.len() < MAX_FINDINGS {
            self.0.push(diagnostic);
        } else if diagnostic.severity == Severity::Error
            && let Some(last) = self.0.last_mut().filter(|last| last.severity != Severity::Error)
        {
            *last = diagnostic;
        }
    }

    /// The findings.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the text is rejected.
    pub fn has_errors(&self) -> bool {
        self.iter().any(|d| d.severity == Severity::Error)
    }

    /// Puts the findings in the order of their places; those about the whole text come first.
    pub(crate) fn sort(&mut self) {
        self.0.sort_by_key(|d| (!d.span.is_empty(), d.span.start));
    }

    /// Every finding with its place in `text`, the text that they are about, as compilers show them.
    pub fn render(&self, text: &str) -> String {
        let mut out = String::new();
        for (i, diagnostic) in self.iter().enumerate() {
            if i > 0 {
                out.push('\n');
            }
            diagnostic.render(text, &mut out);
        }
        out
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Self(vec![diagnostic])
    }
}

impl Extend<Diagnostic> for Diagnostics {
    fn extend<I: IntoIterator<Item = Diagnostic>>(&mut self, iter: I) {
        for diagnostic in iter {
            self.push(diagnostic);
        }
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(iter: I) -> Self {
        let mut all = Self::new();
        all.extend(iter);
        all
    }
}

impl IntoIterator for Diagnostics {
    type Item = Diagnostic;
    type IntoIter = std::vec::IntoIter<Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<Diagnostics> for Error {
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) with the first error's message. For people, show
    /// [`Diagnostics::render`] instead: only it knows the text.
    fn from(diagnostics: Diagnostics) -> Self {
        let mut errors = diagnostics.iter().filter(|d| d.severity == Severity::Error);
        let message = match (errors.next(), errors.count()) {
            (None, _) => "rejected without an error".to_owned(),
            (Some(first), 0) => first.message.clone(),
            (Some(first), more) => format!("{} (and {more} more)", first.message),
        };
        Error::invalid(message)
    }
}

/// The one of `candidates` that `name` is most likely a misspelling of.
pub(crate) fn closest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = name.len().div_ceil(3).min(3);
    candidates
        .into_iter()
        .map(|c| (strsim::damerau_levenshtein(name, c), c))
        .filter(|(distance, _)| *distance <= limit && *distance < name.len())
        .min()
        .map(|(_, c)| c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rendering_underlines_the_place() {
        let text = "one\n\ttwo thrée four\nfive";
        let at = text.find("thrée").unwrap();
        let all: Diagnostics = [
            Diagnostic::error("bad", at..at + "thrée".len()).note("why"),
            Diagnostic::warning("all of it", 0..0),
            Diagnostic::error("runs on", 1..9),
        ]
        .into_iter()
        .collect();
        let expected = "\
error: bad
 --> 2:6
  |
2 | \ttwo thrée four
  | \t    ^^^^^
  = note: why

warning: all of it

error: runs on
 --> 1:2
  |
1 | one
  |  ^^
";
        assert_eq!(all.render(text), expected);
        assert_eq!(Error::from(all).to_string(), "bad (and 1 more)");
    }

    #[test]
    fn misspellings_are_close() {
        assert_eq!(
            closest("reduce_smu", ["reduce_sum", "reduce_max"]),
            Some("reduce_sum")
        );
        assert_eq!(closest("q", ["a", "b"]), None);
    }
}
