//! The faults: small edits of a kernel's text, each as a mistake that somebody makes.

use std::ops::Range;

use crate::tokens::{Code, Kind, Language, TYPES};

/// Replacements of stretches of text.
type Edits = Vec<(Range<usize>, String)>;

/// One way of making a mistake.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    find: fn(&Code<'_>) -> Vec<Edits>,
}

/// A text with one fault.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) operator: &'static str,
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
        .map(|operator| {
            (operator.find)(&code)
                .into_iter()
                .map(|edits| apply(operator.name, &code, edits))
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
        operator,
        language: code.language,
        before: line(code.text),
        after: line(&text),
        text,
    }
}

pub(crate) const OPERATORS: &[Operator] = &[
    Operator { name: "index off by one", find: index_off_by_one },
    Operator { name: "wrong stride", find: wrong_stride },
    Operator { name: "swapped indices", find: swapped_indices },
    Operator { name: "loop bound", find: loop_bound },
    Operator { name: "loop start", find: loop_start },
    Operator { name: "loop step", find: loop_step },
    Operator { name: "dropped tail", find: dropped_tail },
    Operator { name: "comparison", find: comparison },
    Operator { name: "arithmetic", find: arithmetic },
    Operator { name: "accumulation", find: accumulation },
    Operator { name: "operand order", find: operand_order },
    Operator { name: "dropped term", find: dropped_term },
    Operator { name: "dropped factor", find: dropped_factor },
    Operator { name: "constant", find: constant },
    Operator { name: "fill", find: fill },
    Operator { name: "identity", find: identity },
    Operator { name: "function", find: function },
    Operator { name: "axis", find: axis },
    Operator { name: "dropped statement", find: dropped_statement },
    Operator { name: "condition", find: condition },
    Operator { name: "wrong tensor", find: wrong_tensor },
    Operator { name: "half precision", find: half_precision },
    Operator { name: "uninitialised", find: uninitialised },
    Operator { name: "dropped barrier", find: dropped_barrier },
    Operator { name: "plain access", find: plain_access },
    Operator { name: "memory order", find: memory_order },
    Operator { name: "dropped fence", find: dropped_fence },
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

fn indices<'c>(code: &'c Code<'_>) -> impl Iterator<Item = usize> + 'c {
    code.find("[").filter(|open| code.is_index(*open))
}

/// One element further, or one before.
fn index_off_by_one(code: &Code<'_>) -> Vec<Edits> {
    indices(code)
        .flat_map(|open| code.arguments(open))
        .flat_map(|axis| ["1 + ", "-1 + "].map(|by| insert(code, axis.start, by)))
        .collect()
}

/// A number or factor in an index that is one too large or too small.
fn wrong_stride(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for i in 0..code.tokens.len() {
        if !in_index(code, i) {
            continue;
        }
        let factor = i > 0 && code.word(i - 1) == "*" && code.is_binary(i - 1);
        if code.kind(i) == Some(Kind::Number) {
            out.extend(number(code.word(i), 1).map(|n| replace(code, i..i + 1, n)));
            out.extend(number(code.word(i), -1).map(|n| replace(code, i..i + 1, n)));
        } else if factor && code.kind(i) == Some(Kind::Word) {
            out.push(replace(code, i..i + 1, format!("({} + 1)", code.word(i))));
        }
    }
    out
}

/// An integer literal plus `by`, with its suffix.
fn number(literal: &str, by: i64) -> Option<String> {
    let digits = literal.trim_end_matches(['L', 'l', 'u', 'U']);
    let value: i64 = digits.parse().ok()?;
    Some(format!("{}{}", value + by, &literal[digits.len()..]))
}

/// Two names of one index exchanged.
fn swapped_indices(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for open in indices(code) {
        let close = code.tokens[open].partner.unwrap_or(open);
        let names: Vec<usize> = (open + 1..close)
            .filter(|i| code.kind(*i) == Some(Kind::Word) && code.word(i + 1) != "(")
            .collect();
        let mut distinct: Vec<&str> = names.iter().map(|i| code.word(*i)).collect();
        distinct.sort_unstable();
        distinct.dedup();
        for (n, a) in distinct.iter().enumerate() {
            for b in distinct.iter().skip(n + 1) {
                let swap = names.iter().filter_map(|i| {
                    let now = code.word(*i);
                    let new = if now == *a { b } else { a };
                    (now == *a || now == *b).then(|| (code.tokens[*i].at.clone(), (*new).to_owned()))
                });
                out.push(swap.collect());
            }
        }
    }
    out
}

/// One iteration too many or too few.
fn loop_bound(code: &Code<'_>) -> Vec<Edits> {
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
fn loop_start(code: &Code<'_>) -> Vec<Edits> {
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

fn loop_step(code: &Code<'_>) -> Vec<Edits> {
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
fn dropped_tail(code: &Code<'_>) -> Vec<Edits> {
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

fn comparison(code: &Code<'_>) -> Vec<Edits> {
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

fn arithmetic(code: &Code<'_>) -> Vec<Edits> {
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
fn accumulation(code: &Code<'_>) -> Vec<Edits> {
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
fn operand_order(code: &Code<'_>) -> Vec<Edits> {
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

fn dropped_term(code: &Code<'_>) -> Vec<Edits> {
    code.find("+")
        .chain(code.find("-"))
        .filter(|i| code.is_binary(*i))
        .map(|i| replace(code, i..code.term_end(i + 1), ""))
        .collect()
}

fn dropped_factor(code: &Code<'_>) -> Vec<Edits> {
    code.find("*")
        .chain(code.find("/"))
        .filter(|i| code.is_binary(*i))
        .map(|i| replace(code, i..code.operand_end(i + 1), ""))
        .collect()
}

/// Numbers whose change is no fault: they say how fast, not what.
const HINTS: [&str; 5] = ["pipeline", "by", "promote", "align", "alignas"];

fn constant(code: &Code<'_>) -> Vec<Edits> {
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
            let news = if value == 0.0 { [0.5, 1.0] } else { [value * 1.01, -value] };
            out.extend(news.map(|new| replace(code, i..i + 1, format!("({new:?}{suffix})"))));
        }
    }
    out
}

/// What a load gives outside of the tensor.
fn fill(code: &Code<'_>) -> Vec<Edits> {
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
fn identity(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for i in 0..code.tokens.len() {
        match code.word(i) {
            "zeros" => {
                let close = code.tokens.get(i + 2).and_then(|t| t.partner).unwrap_or(i + 2);
                out.push(vec![
                    (code.tokens[i].at.clone(), "full".to_owned()),
                    (code.tokens[close].at.end..code.tokens[close].at.end, " 1".to_owned()),
                ]);
            }
            "inf" | "INFINITY" | "__builtin_inff" => {
                let end = code.operand_end(i);
                let zero = if code.language == Language::Cpp { "0.0f" } else { "0" };
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

fn function(code: &Code<'_>) -> Vec<Edits> {
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
    let along = |name: &str| name.starts_with("reduce_") || name.starts_with("scan_") || name.starts_with("arg");
    code.language == Language::Sketch && open.is_some_and(|open| along(code.word(open - 1)) && i > open + 1)
}

fn axis(code: &Code<'_>) -> Vec<Edits> {
    (0..code.tokens.len())
        .filter(|i| code.kind(*i) == Some(Kind::Number) && is_axis(code, *i))
        .flat_map(|i| [1, -1].map(|by| number(code.word(i), by).map(|n| replace(code, i..i + 1, n))))
        .flatten()
        .collect()
}

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

fn dropped_statement(code: &Code<'_>) -> Vec<Edits> {
    assignments(code).into_iter().map(|tokens| replace(code, tokens, "")).collect()
}

/// A condition with one part left out, or the other way round.
fn condition(code: &Code<'_>) -> Vec<Edits> {
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
        match code.language {
            Language::Cpp => out.push(insert(code, i + 1, "(!")),
            Language::Sketch => {
                let end = code.until(i + 1, |t| t == "{");
                let now = code.slice(i + 1..end);
                out.push(replace(code, i + 1..end, format!("!({now})")));
            }
        }
        if let (Language::Cpp, Some(edits)) = (code.language, out.last_mut()) {
            if let Some(close) = code.tokens.get(i + 1).and_then(|t| t.partner) {
                let at = code.tokens[close].at.end;
                edits.push((at..at, ")".to_owned()));
            }
        }
    }
    out
}

/// One parameter of the kernel taken for another.
fn wrong_tensor(code: &Code<'_>) -> Vec<Edits> {
    let numbers: Vec<usize> = code.find("tensors").filter(|i| code.word(i + 1) == "[").map(|i| i + 2).collect();
    let mut out = Vec::new();
    for i in &numbers {
        for j in &numbers {
            if code.word(*i) != code.word(*j) {
                out.push(replace(code, *i..i + 1, code.word(*j)));
            }
        }
    }
    out
}

/// A floating value rounded to f16 on its way.
fn half_precision(code: &Code<'_>) -> Vec<Edits> {
    let mut out = Vec::new();
    for i in code.find("=") {
        let (end, before, after) = match code.language {
            Language::Cpp => (code.until(i + 1, |t| matches!(t, ";" | ",")), "float(_Float16(", "))"),
            Language::Sketch => {
                let next = (i + 1..code.tokens.len()).find(|j| code.tokens[*j].starts_line);
                (next.unwrap_or(code.tokens.len()), "f32(f16(", "))")
            }
        };
        let start = code.statement_start(i);
        let integer = (start..i).any(|j| TYPES.contains(&code.word(j)) && !matches!(code.word(j), "float" | "double"));
        let pointer = (start..i).any(|j| code.word(j) == "*" && !code.is_binary(j));
        if i + 1 < end && !integer && !pointer && code.word(i + 1) != "{" {
            let value = code.slice(i + 1..end);
            out.push(replace(code, i + 1..end, format!("{before}{value}{after}")));
        }
    }
    out
}

/// A variable that starts from whatever is there.
fn uninitialised(code: &Code<'_>) -> Vec<Edits> {
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

fn dropped_barrier(code: &Code<'_>) -> Vec<Edits> {
    code.find("barrier")
        .filter_map(|i| match code.language {
            Language::Sketch => code.tokens[i].starts_line.then(|| replace(code, i..i + 1, "")),
            Language::Cpp => Some(replace(code, i - 2..code.operand_end(i), "")),
        })
        .collect()
}

/// An atomic access made an ordinary one.
fn plain_access(code: &Code<'_>) -> Vec<Edits> {
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

fn memory_order(code: &Code<'_>) -> Vec<Edits> {
    (0..code.tokens.len())
        .filter(|i| code.word(*i).starts_with("__ATOMIC_"))
        .map(|i| replace(code, i..i + 1, "__ATOMIC_RELAXED"))
        .collect()
}

fn dropped_fence(code: &Code<'_>) -> Vec<Edits> {
    code.find("__atomic_thread_fence")
        .map(|i| replace(code, i..code.operand_end(i), ""))
        .collect()
}
