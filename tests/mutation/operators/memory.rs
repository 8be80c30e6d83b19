//! Faults in what is stored, and when others see it.

use std::ops::Range;

use super::{Edits, in_loop_header, replace};
use crate::tokens::{Code, Kind, Language, TYPES};

/// The ranges of assignments, and in sketches stores: from the first token to after the last.
fn assignments(code: &Code<'_>) -> Vec<Range<usize>> {
    let mut out = Vec::new();
    for i in 1..code.tokens.len() {
        if code.language == Language::Sketch {
            let assigns = code.tokens[i].starts_line && (code.word(i + 1) == "=" || code.word(i) == "store");
            if assigns {
                let end = (i + 1..code.tokens.len())
                    .find(|j| code.tokens[*j].starts_line)
                    .unwrap_or(code.tokens.len());
                out.push(i..end);
            }
            continue;
        }
        let declares = TYPES.contains(&code.word(i)) || matches!(code.word(i), "const" | "alignas");
        let starts = matches!(code.word(i - 1), ";" | "{" | "}" | ")") && code.kind(i) == Some(Kind::Word);
        if starts && !declares && code.tokens[i].inside.is_some_and(|open| code.word(open) == "{") {
            let end = code.until(i, |t| t == ";");
            let assigns = (i..end).any(|j| {
                matches!(code.word(j), "=" | "+=" | "-=") && code.tokens[j].inside == code.tokens[i].inside
            });
            if assigns && !matches!(code.word(i), "for" | "if" | "while" | "else") {
                out.push(i..end);
            }
        }
    }
    out
}

pub(super) fn dropped_statement(code: &Code<'_>) -> Vec<Edits> {
    assignments(code)
        .into_iter()
        .map(|tokens| replace(code, tokens, ""))
        .collect()
}

/// A variable that starts from whatever is there.
pub(super) fn uninitialised(code: &Code<'_>) -> Vec<Edits> {
    if code.language == Language::Sketch {
        return Vec::new();
    }
    let headers = code.loop_headers();
    let mut out = Vec::new();
    for i in 1..code.tokens.len() {
        let declares = TYPES.contains(&code.word(i)) && matches!(code.word(i - 1), ";" | "{" | "}" | ")");
        if !declares || code.kind(i + 1) != Some(Kind::Word) || in_loop_header(&headers, i) {
            continue;
        }
        let end = code.until(i, |t| t == ";");
        let equals = code.until(i, |t| matches!(t, ";" | "="));
        if code.word(equals) == "=" && !(i..end).any(|j| code.word(j) == ",") {
            out.push(replace(code, equals..end, ""));
        }
    }
    out
}

pub(super) fn dropped_barrier(code: &Code<'_>) -> Vec<Edits> {
    code.find("barrier")
        .filter_map(|i| match code.language {
            Language::Sketch => code.tokens[i].starts_line.then(|| replace(code, i..i + 1, "")),
            Language::Cpp => Some(replace(code, i - 2..code.operand_end(i), "")),
        })
        .collect()
}

/// An atomic access made an ordinary one.
pub(super) fn plain_access(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for i in 0..code.tokens.len() {
        let name = code.word(i);
        if code.word(i + 1) != "(" || !name.contains("atomic") {
            continue;
        }
        let arguments: Vec<&str> = code.arguments(i + 1).into_iter().map(|a| code.slice(a)).collect();
        let plain = match (name, arguments.as_slice()) {
            ("__atomic_fetch_add", [place, value, _]) => format!("((*({place}) += {value}) - {value})"),
            ("akg_atomic_add", [place, value]) => format!("*({place}) += {value}"),
            ("__atomic_load_n", [place, _]) => format!("*({place})"),
            ("__atomic_store_n", [place, value, _]) => format!("*({place}) = {value}"),
            _ => continue,
        };
        out.push(replace(code, i..code.operand_end(i), plain));
    }
    out
}

pub(super) fn memory_order(code: &Code<'_>) -> Vec<Edits> {
    (0..code.tokens.len())
        .filter(|i| code.word(*i).starts_with("__ATOMIC_"))
        .map(|i| replace(code, i..i + 1, "__ATOMIC_RELAXED"))
        .collect()
}

pub(super) fn dropped_fence(code: &Code<'_>) -> Vec<Edits> {
    code.find("__atomic_thread_fence")
        .map(|i| replace(code, i..code.operand_end(i), ""))
        .collect()
}
