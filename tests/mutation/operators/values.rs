//! Faults in what is computed.

use std::ops::Range;

use super::{Edits, in_index, in_loop_header, number, replace};
use crate::tokens::{Code, Kind, Language, TYPES};

pub(super) fn arithmetic(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for i in 0..code.tokens.len() {
        let other = match code.word(i) {
            "+" => "-",
            "-" => "+",
            "*" => "+",
            "/" => "*",
            "//" => "*",
            "%" if code.language == Language::Cpp => "/",
            "%" => "//",
            _ => continue,
        };
        if code.is_binary(i) {
            out.push(replace(code, i..i + 1, other));
        }
    }
    out
}

/// A sum that is overwritten or counted down.
pub(super) fn accumulation(code: &Code<'_>) -> Vec<Edits> {
    let headers = code.loop_headers();
    let sums = code.find("+=").filter(|i| !in_loop_header(&headers, *i));
    let mut out: Vec<Edits> = sums
        .flat_map(|i| ["=", "-="].map(|other| replace(code, i..i + 1, other)))
        .collect();
    // `acc = acc + x`.
    for i in code.find("=") {
        let same = i > 0 && code.kind(i - 1) == Some(Kind::Word) && code.word(i - 1) == code.word(i + 1);
        if same && code.word(i + 2) == "+" {
            out.push(replace(code, i + 1..i + 3, ""));
        }
    }
    out
}

/// Operands of operators that do not commute, exchanged.
pub(super) fn operand_order(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    let swap = |a: Range<usize>, b: Range<usize>| -> Edits {
        vec![
            (code.span(a.clone()), code.slice(b.clone()).to_owned()),
            (code.span(b), code.slice(a).to_owned()),
        ]
    };
    for i in 1..code.tokens.len() {
        match code.word(i) {
            "-" | "/" | "//" | "%" if code.is_binary(i) => {
                out.push(swap(code.operand_start(i)..i, i + 1..code.operand_end(i + 1)));
            }
            "select" => {
                if let [_, a, b] = code.arguments(i + 1).as_slice() {
                    out.push(swap(a.clone(), b.clone()));
                }
            }
            "?" => {
                let colon = code.until(i + 1, |t| t == ":");
                let end = code.until(colon + 1, |t| matches!(t, ";" | ","));
                if code.word(colon) == ":" && colon + 1 < end {
                    out.push(swap(i + 1..colon, colon + 1..end));
                }
            }
            _ => {}
        }
    }
    out
}

pub(super) fn dropped_term(code: &Code<'_>) -> Vec<Edits> {
    code.find("+")
        .chain(code.find("-"))
        .filter(|i| code.is_binary(*i))
        .map(|i| replace(code, i..code.term_end(i + 1), ""))
        .collect()
}

pub(super) fn dropped_factor(code: &Code<'_>) -> Vec<Edits> {
    code.find("*")
        .chain(code.find("/"))
        .filter(|i| code.is_binary(*i))
        .map(|i| replace(code, i..code.operand_end(i + 1), ""))
        .collect()
}

/// Numbers whose change is no fault: they say how fast, not what.
const HINTS: [&str; 5] = ["pipeline", "by", "promote", "align", "alignas"];

pub(super) fn constant(code: &Code<'_>) -> Vec<Edits> {
    let headers = code.loop_headers();
    let mut out = Vec::new();
    for i in 1..code.tokens.len() {
        let hint = HINTS.contains(&code.word(i - 1)) || i > 1 && HINTS.contains(&code.word(i - 2));
        let bracket = code.tokens[i].inside.is_some_and(|open| code.word(open) == "[");
        let skipped = hint || bracket || in_index(code, i) || in_loop_header(&headers, i);
        if code.kind(i) != Some(Kind::Number) || skipped || is_axis(code, i) {
            continue;
        }
        let literal = code.word(i);
        if let Some(next) = number(literal, 1) {
            out.push(replace(code, i..i + 1, next));
            continue;
        }
        let digits = literal.trim_end_matches(['f', 'F']);
        if let Ok(value) = digits.parse::<f64>() {
            let suffix = &literal[digits.len()..];
            let news = if value == 0.0 {
                [0.5, 1.0]
            } else {
                [value * 1.01, -value]
            };
            out.extend(news.map(|new| replace(code, i..i + 1, format!("({new:?}{suffix})"))));
        }
    }
    out
}

/// What a load gives outside of the tensor.
pub(super) fn fill(code: &Code<'_>) -> Vec<Edits> {
    if code.language == Language::Cpp {
        return Vec::new();
    }
    code.find("else")
        .filter(|i| code.word(i + 1) != "{")
        .flat_map(|i| {
            let end = code.operand_end(i + 1);
            ["1", "-1", "inf"].map(|new| replace(code, i + 1..end, new))
        })
        .collect()
}

/// What a reduction starts from.
pub(super) fn identity(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for i in 0..code.tokens.len() {
        match code.word(i) {
            "zeros" => {
                let close = code.tokens.get(i + 2).and_then(|t| t.partner).unwrap_or(i + 2);
                out.push(vec![
                    (code.tokens[i].at.clone(), "full".to_owned()),
                    (
                        code.tokens[close].at.end..code.tokens[close].at.end,
                        " 1".to_owned(),
                    ),
                ]);
            }
            "inf" | "INFINITY" | "__builtin_inff" => {
                let end = code.operand_end(i);
                let zero = if code.language == Language::Cpp {
                    "0.0f"
                } else {
                    "0"
                };
                out.push(replace(code, i..end, zero));
                if i > 0 && code.word(i - 1) == "-" {
                    out.push(replace(code, i - 1..i, ""));
                }
            }
            _ => {}
        }
    }
    out
}

/// Functions that are taken for each other.
const CONFUSED: [(&str, &str); 27] = [
    ("reduce_sum", "reduce_max"),
    ("reduce_max", "reduce_min"),
    ("reduce_min", "reduce_max"),
    ("reduce_prod", "reduce_sum"),
    ("argmax", "argmin"),
    ("argmin", "argmax"),
    ("scan_sum", "scan_max"),
    ("max", "min"),
    ("min", "max"),
    ("exp", "exp2"),
    ("exp2", "exp"),
    ("log", "log2"),
    ("sqrt", "rsqrt"),
    ("rsqrt", "sqrt"),
    ("erf", "tanh"),
    ("tanh", "erf"),
    ("floor", "ceil"),
    ("exclusive", "reverse"),
    ("akg_max", "akg_min"),
    ("akg_min", "akg_max"),
    ("akg_exp", "akg_exp_core"),
    ("akg_floor_div", "akg_floor_mod"),
    ("akg_floor_mod", "akg_floor_div"),
    ("akg_rsqrt", "akg_sqrt"),
    ("trans", ""),
    ("abs", ""),
    ("isnan", "!isnan"),
];

pub(super) fn function(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for i in 0..code.tokens.len() {
        let other = CONFUSED.iter().find(|(name, _)| code.word(i) == *name);
        if let (Some((_, other)), Some(Kind::Word)) = (other, code.kind(i)) {
            out.push(replace(code, i..i + 1, *other));
        }
    }
    out
}

/// Whether the number at `i` names the axis of a sketch's reduction.
fn is_axis(code: &Code<'_>, i: usize) -> bool {
    let open = code.tokens[i].inside.filter(|open| *open > 0);
    let along =
        |name: &str| name.starts_with("reduce_") || name.starts_with("scan_") || name.starts_with("arg");
    code.language == Language::Sketch && open.is_some_and(|open| along(code.word(open - 1)) && i > open + 1)
}

pub(super) fn axis(code: &Code<'_>) -> Vec<Edits> {
    (0..code.tokens.len())
        .filter(|i| code.kind(*i) == Some(Kind::Number) && is_axis(code, *i))
        .flat_map(|i| [1, -1].map(|by| number(code.word(i), by).map(|n| replace(code, i..i + 1, n))))
        .flatten()
        .collect()
}

/// A floating value rounded to f16 on its way.
pub(super) fn half_precision(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for i in code.find("=") {
        let (end, before, after) = match code.language {
            Language::Cpp => (
                code.until(i + 1, |t| matches!(t, ";" | ",")),
                "float(_Float16(",
                "))",
            ),
            Language::Sketch => {
                let next = (i + 1..code.tokens.len()).find(|j| code.tokens[*j].starts_line);
                (next.unwrap_or(code.tokens.len()), "f32(f16(", "))")
            }
        };
        let start = code.statement_start(i);
        let integer =
            (start..i).any(|j| TYPES.contains(&code.word(j)) && !matches!(code.word(j), "float" | "double"));
        let pointer = (start..i).any(|j| code.word(j) == "*" && !code.is_binary(j));
        if i + 1 < end && !integer && !pointer && code.word(i + 1) != "{" {
            let value = code.slice(i + 1..end);
            out.push(replace(code, i + 1..end, format!("{before}{value}{after}")));
        }
    }
    out
}
