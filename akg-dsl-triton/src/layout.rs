//! Lines of Python.

use std::fmt::Write as _;

/// The most columns of a line that can be broken.
const COLUMNS: usize = 110;

/// A statement at a depth, with a long call's arguments on lines of their own.
pub(crate) fn statement(depth: usize, text: &str) -> String {
    let indent = 4 * depth;
    let mut out = format!("{:indent$}{text}\n", "");
    if out.len() <= COLUMNS + 1 {
        return out;
    }
    if let Some((head, arguments)) = last_call(text) {
        out = format!("{:indent$}{head}(\n", "");
        for argument in arguments {
            let _ = writeln!(out, "{:1$}{argument},", "", indent + 4);
        }
        let _ = writeln!(out, "{:indent$})", "");
    }
    out
}

/// What comes before the parentheses that end a statement, and the arguments in them.
fn last_call(text: &str) -> Option<(&str, Vec<&str>)> {
    let inner = text.strip_suffix(')')?;
    let mut depth = 0;
    let mut ends = vec![inner.len()];
    for (at, c) in inner.char_indices().rev() {
        match c {
            ')' | ']' => depth += 1,
            '(' if depth == 0 => {
                let mut arguments = Vec::new();
                let mut start = at + 1;
                for end in ends.into_iter().rev() {
                    arguments.push(inner.get(start..end)?.trim());
                    start = end + 1;
                }
                return Some((text.get(..at)?, arguments));
            }
            '(' | '[' => depth -= 1,
            ',' if depth == 0 => ends.push(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_calls_are_broken_at_their_own_commas() {
        assert_eq!(statement(1, "x = f(a, b)"), "    x = f(a, b)\n");
        let long = format!("x = f({}(1, 2), b[:, None], g())", "a".repeat(100));
        let expected = format!(
            "x = f(\n    {}(1, 2),\n    b[:, None],\n    g(),\n)\n",
            "a".repeat(100)
        );
        assert_eq!(statement(0, &long), expected);
    }
}
