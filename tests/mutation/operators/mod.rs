//! The faults: small edits of a kernel's text, each as a mistake that somebody makes.

mod indices;
mod loops;
mod memory;
mod values;

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::tokens::{Code, Language};

/// Replacements of stretches of text.
type Edits = Vec<(Range<usize>, String)>;

/// Every place at which one mistake can be made.
type Find = fn(&Code<'_>) -> Vec<Edits>;

/// A text with one fault.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Fault {
    pub(crate) operator: Cow<'static, str>,
    pub(crate) language: Language,
    /// The whole text.
    pub(crate) text: String,
    /// What the line was.
    pub(crate) before: String,
    /// What it is now.
    pub(crate) after: String,
}

/// Every fault of every operator, operators apart.
pub(crate) fn faults(text: &str, language: Language) -> Vec<Vec<Fault>> {
    let code = Code::new(text, language);
    OPERATORS
        .iter()
        .map(|(operator, find)| {
            find(&code)
                .into_iter()
                .map(|edits| apply(operator, &code, edits))
                .filter(|fault| fault.text != text)
                .collect()
        })
        .collect()
}

fn apply(operator: &'static str, code: &Code<'_>, mut edits: Edits) -> Fault {
    edits.sort_by_key(|(range, _)| range.start);
    let mut text = code.text.to_owned();
    for (range, new) in edits.iter().rev() {
        text.replace_range(range.clone(), new);
    }
    let at = edits.first().map_or(0, |(range, _)| range.start);
    let number = code.text[..at].matches('\n').count();
    let line = |text: &str| text.lines().nth(number).unwrap_or_default().trim().to_owned();
    Fault {
        operator: operator.into(),
        language: code.language,
        before: line(code.text),
        after: line(&text),
        text,
    }
}

/// The mistakes by name.
const OPERATORS: &[(&str, Find)] = &[
    ("index off by one", indices::index_off_by_one),
    ("wrong stride", indices::wrong_stride),
    ("swapped indices", indices::swapped_indices),
    ("wrong tensor", indices::wrong_tensor),
    ("loop bound", loops::loop_bound),
    ("loop start", loops::loop_start),
    ("loop step", loops::loop_step),
    ("dropped tail", loops::dropped_tail),
    ("comparison", loops::comparison),
    ("condition", loops::condition),
    ("arithmetic", values::arithmetic),
    ("accumulation", values::accumulation),
    ("operand order", values::operand_order),
    ("dropped term", values::dropped_term),
    ("dropped factor", values::dropped_factor),
    ("constant", values::constant),
    ("fill", values::fill),
    ("identity", values::identity),
    ("function", values::function),
    ("axis", values::axis),
    ("half precision", values::half_precision),
    ("dropped statement", memory::dropped_statement),
    ("uninitialised", memory::uninitialised),
    ("dropped barrier", memory::dropped_barrier),
    ("plain access", memory::plain_access),
    ("memory order", memory::memory_order),
    ("dropped fence", memory::dropped_fence),
];

fn insert(code: &Code<'_>, token: usize, text: &str) -> Edits {
    let at = code.tokens[token].at.start;
    vec![(at..at, text.to_owned())]
}

fn replace(code: &Code<'_>, tokens: Range<usize>, text: impl Into<String>) -> Edits {
    vec![(code.span(tokens), text.into())]
}

fn in_index(code: &Code<'_>, i: usize) -> bool {
    code.around(i).any(|open| code.is_index(open))
}

fn in_loop_header(headers: &[Range<usize>], i: usize) -> bool {
    headers.iter().any(|h| h.contains(&i))
}

/// An integer literal plus `by`, with its suffix.
fn number(literal: &str, by: i64) -> Option<String> {
    let digits = literal.trim_end_matches(['L', 'l', 'u', 'U']);
    let value: i64 = digits.parse().ok()?;
    Some(format!("{}{}", value + by, &literal[digits.len()..]))
}
