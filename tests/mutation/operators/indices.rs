//! Faults in which element is meant.

use super::{Edits, in_index, insert, number, replace};
use crate::tokens::{Code, Kind};

/// One element further, or one before.
pub(super) fn index_off_by_one(code: &Code<'_>) -> Vec<Edits> {
    indices(code)
        .flat_map(|open| code.arguments(open))
        .flat_map(|axis| ["1 + ", "-1 + "].map(|by| insert(code, axis.start, by)))
        .collect()
}

/// A number or factor in an index that is one too large or too small.
pub(super) fn wrong_stride(code: &Code<'_>) -> Vec<Edits> {
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

/// Two names of one index exchanged.
pub(super) fn swapped_indices(code: &Code<'_>) -> Vec<Edits> {
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

fn indices<'c>(code: &'c Code<'_>) -> impl Iterator<Item = usize> + 'c {
    code.find("[").filter(|open| code.is_index(*open))
}

/// One parameter of the kernel taken for another.
pub(super) fn wrong_tensor(code: &Code<'_>) -> Vec<Edits> {
    let numbers: Vec<usize> = code
        .find("tensors")
        .filter(|i| code.word(i + 1) == "[")
        .map(|i| i + 2)
        .collect();
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
