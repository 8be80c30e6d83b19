//! Faults in what is done and how often.

use super::{Edits, in_loop_header, insert, replace};
use crate::tokens::{Code, Language};

/// One iteration too many or too few.
pub(super) fn loop_bound(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for header in code.loop_headers() {
        for i in header.clone() {
            match code.word(i) {
                "<" if code.is_binary(i) => {
                    out.push(replace(code, i..i + 1, "<="));
                    out.push(insert(code, i + 1, "-1 + "));
                }
                "<=" => out.push(replace(code, i..i + 1, "<")),
                ".." => {
                    out.push(insert(code, i + 1, "-1 + "));
                    out.push(insert(code, i + 1, "1 + "));
                }
                _ => {}
            }
        }
    }
    if code.language == Language::Sketch {
        // The grid.
        for over in code.find("over") {
            for axis in code.arguments(over + 1) {
                out.push(insert(code, axis.start + 2, "-1 + "));
                out.push(insert(code, axis.start + 2, "1 + "));
            }
        }
    }
    out
}

/// The first iteration left out.
pub(super) fn loop_start(code: &Code<'_>) -> Vec<Edits> {
    let starts = |i: usize| match code.language {
        Language::Cpp => code.word(i) == "=",
        Language::Sketch => code.word(i) == "in",
    };
    code.loop_headers()
        .into_iter()
        .flat_map(|header| header.filter(|i| starts(*i)))
        .map(|i| insert(code, i + 1, "1 + "))
        .collect()
}

pub(super) fn loop_step(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for header in code.loop_headers() {
        for i in header {
            match code.word(i) {
                "++" => out.push(replace(code, i..i + 2, format!("{} += 2", code.word(i + 1)))),
                "+=" | "step" => {
                    out.push(insert(code, i + 1, "1 + "));
                    out.push(insert(code, i + 1, "2 * "));
                }
                _ => {}
            }
        }
    }
    out
}

/// What does not fill a vector is left out.
pub(super) fn dropped_tail(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for header in code.loop_headers() {
        for i in header {
            let end = match code.word(i) {
                "<" if code.is_binary(i) => code.until(i + 1, |t| matches!(t, ";" | "&&")),
                ".." => code.until(i + 1, |t| matches!(t, "step" | "," | "{" | "pipeline" | "unroll")),
                _ => continue,
            };
            let divide = if code.language == Language::Cpp { "/" } else { "//" };
            let bound = code.slice(i + 1..end);
            out.push(replace(code, i + 1..end, format!("({bound}) {divide} 8 * 8")));
        }
    }
    out
}

pub(super) fn comparison(code: &Code<'_>) -> Vec<Edits> {
    let headers = code.loop_headers();
    let mut out = Vec::new();
    for i in 0..code.tokens.len() {
        let others: &[&str] = match code.word(i) {
            "<" => &["<=", ">"],
            "<=" => &["<", ">="],
            ">" => &[">=", "<"],
            ">=" => &[">", "<="],
            "==" => &["!="],
            "!=" => &["=="],
            _ => continue,
        };
        if code.is_binary(i) && !in_loop_header(&headers, i) {
            out.extend(others.iter().map(|other| replace(code, i..i + 1, *other)));
        }
    }
    out
}

/// A condition with one part left out, or the other way round.
pub(super) fn condition(code: &Code<'_>) -> Vec<Edits> {
    let (and, or) = match code.language {
        Language::Cpp => ("&&", "||"),
        Language::Sketch => ("&", "|"),
    };
    let headers = code.loop_headers();
    let mut out = Vec::new();
    for i in code.find(and).chain(code.find(or)) {
        if !code.is_binary(i) {
            continue;
        }
        let other = if code.word(i) == and { or } else { and };
        if !in_loop_header(&headers, i) {
            out.push(replace(code, i..i + 1, other));
        }
        let end = code.until(i + 1, |t| matches!(t, ";" | "?" | ",") || t == and || t == or);
        out.push(replace(code, i..end, ""));
    }
    for i in code.find("if") {
        let end = match code.language {
            Language::Cpp => code.operand_end(i + 1),
            Language::Sketch => code.until(i + 1, |t| t == "{"),
        };
        let now = code.slice(i + 1..end);
        let wrong = match code.language {
            Language::Cpp => format!("(!{now})"),
            Language::Sketch => format!("!({now})"),
        };
        out.push(replace(code, i + 1..end, wrong));
    }
    out
}
