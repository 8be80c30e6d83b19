//! The text of Python modules, taken apart by statements.

use std::ops::Range;

/// A module's text, line by line.
#[derive(Debug, Clone)]
pub(crate) struct PythonText {
    lines: Vec<Line>,
}

/// A logical line: it ends where no bracket and no string is open. It has no line break at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Line {
    text: String,
    /// None for blank lines and comments.
    indent: Option<usize>,
}

impl Line {
    fn code(&self) -> &str {
        if self.indent.is_some() {
            self.text.trim()
        } else {
            ""
        }
    }

    /// Whether the statement is a string and nothing else.
    fn is_string(&self) -> bool {
        let literal = self.code().trim_start_matches(['r', 'R', 'u', 'U']);
        ["\"\"\"", "'''", "\"", "'"].iter().any(|quote| {
            let inner = literal.strip_prefix(quote).and_then(|l| l.strip_suffix(quote));
            inner.is_some_and(|inner| !inner.is_empty() && !inner.contains(quote))
        })
    }

    fn is_import(&self) -> bool {
        self.indent == Some(0) && (self.text.starts_with("import ") || self.text.starts_with("from "))
    }
}

/// What is open at a place in the text.
#[derive(Debug, Default)]
struct Open {
    brackets: usize,
    /// The quotes that end a string of several lines.
    quotes: Option<&'static str>,
    backslash: bool,
}

impl Open {
    fn nothing(&self) -> bool {
        self.brackets == 0 && self.quotes.is_none() && !self.backslash
    }

    /// Goes on by one line of the file.
    fn read(&mut self, line: &str) {
        self.backslash = false;
        let mut rest = line;
        while let Some(c) = rest.chars().next() {
            let long = ["\"\"\"", "'''"]
                .into_iter()
                .find(|quotes| rest.starts_with(quotes));
            let next = match self.quotes {
                Some(quotes) if rest.starts_with(quotes) => {
                    self.quotes = None;
                    quotes.len()
                }
                Some(_) if c == '\\' => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
                Some(_) => c.len_utf8(),
                None if long.is_some() => {
                    self.quotes = long;
                    3
                }
                None => match c {
                    '#' => return,
                    '"' | '\'' => short_string(rest, c),
                    '\\' => {
                        self.backslash = rest == "\\";
                        1
                    }
                    '(' | '[' | '{' => {
                        self.brackets += 1;
                        1
                    }
                    ')' | ']' | '}' => {
                        self.brackets = self.brackets.saturating_sub(1);
                        1
                    }
                    _ => c.len_utf8(),
                },
            };
            rest = rest.get(next..).unwrap_or_default();
        }
    }
}

/// Bytes of the string at the beginning of `text`, which ends with the line at the latest.
fn short_string(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

impl PythonText {
    pub(crate) fn new(text: &str) -> Self {
        let mut lines: Vec<Line> = Vec::new();
        let mut open = Open::default();
        for line in text.lines() {
            match lines.last_mut() {
                Some(last) if !open.nothing() => {
                    last.text.push('\n');
                    last.text.push_str(line);
                }
                _ => {
                    let code = line.trim_start();
                    let indent = line.len() - code.len();
                    lines.push(Line {
                        text: line.to_owned(),
                        indent: (!code.is_empty() && !code.starts_with('#')).then_some(indent),
                    });
                }
            }
            open.read(line);
        }
        Self { lines }
    }

    /// The text, without blank lines at its ends.
    pub(crate) fn text(&self) -> String {
        self.part(self.all()).trim_matches('\n').to_owned()
    }

    /// The text of some lines.
    pub(crate) fn part(&self, range: Range<usize>) -> String {
        let lines = self.lines.iter().take(range.end).skip(range.start);
        lines.map(|l| l.text.as_str()).collect::<Vec<_>>().join("\n")
    }

    /// Takes the imports at the top level out of the text.
    pub(crate) fn take_imports(&mut self) -> Vec<String> {
        let (imports, rest) = self.lines.drain(..).partition(Line::is_import);
        self.lines = rest;
        let imports: Vec<Line> = imports;
        imports
            .into_iter()
            .map(|l| l.text.trim_end().to_owned())
            .collect()
    }

    /// Takes all statements out that are a string and nothing else.
    pub(crate) fn drop_docstrings(&mut self) {
        let mut at = 0;
        while let Some(line) = self.lines.get(at) {
            if !line.is_string() {
                at += 1;
                continue;
            }
            let indent = line.indent;
            let next = self.lines.iter().skip(at + 1).find_map(|l| l.indent);
            let stays = indent > Some(0) && next != indent;
            if stays {
                // A block is never empty.
                let spaces = " ".repeat(indent.unwrap_or_default());
                self.replace(at..at + 1, &format!("{spaces}..."));
            } else {
                let blank = self.lines.get(at + 1).is_some_and(|l| l.text.trim().is_empty());
                self.replace(at..at + 1 + usize::from(blank), "");
            }
        }
    }

    /// The first statement in `range` with so much indentation that begins with `words`.
    pub(crate) fn find(&self, range: Range<usize>, indent: usize, words: &str) -> Option<usize> {
        let mut lines = self.lines.iter().enumerate().take(range.end).skip(range.start);
        let found = lines.find(|(_, l)| l.indent == Some(indent) && l.code().starts_with(words));
        found.map(|(at, _)| at)
    }

    /// All lines.
    pub(crate) fn all(&self) -> Range<usize> {
        0..self.lines.len()
    }

    /// The text of one logical line, without its indentation.
    pub(crate) fn line(&self, at: usize) -> &str {
        self.lines.get(at).map_or("", |l| l.text.trim())
    }

    /// The lines of the block that begins with the statement at `at`, and the indentation of its statements. Blank lines and
    /// comments after the last statement are no part of it.
    pub(crate) fn block(&self, at: usize) -> (Range<usize>, usize) {
        let head = self.lines.get(at).and_then(|l| l.indent).unwrap_or_default();
        let (mut end, mut inner) = (at + 1, head + 4);
        for (i, line) in self.lines.iter().enumerate().skip(at + 1) {
            match line.indent {
                Some(indent) if indent <= head => break,
                Some(indent) => {
                    inner = if end == at + 1 { indent } else { inner };
                    end = i + 1;
                }
                None => {}
            }
        }
        (at..end, inner)
    }

    /// Puts other text in the place of lines.
    pub(crate) fn replace(&mut self, range: Range<usize>, text: &str) {
        self.lines.splice(range, Self::new(text).lines);
    }
}

/// The names of the parameters in the head of a function, if all are plain ones.
pub(crate) fn parameters(head: &str) -> Option<Vec<String>> {
    let open = head.find('(')? + 1;
    let mut names = Vec::new();
    let (mut depth, mut start) = (1, open);
    for (at, c) in head.char_indices().skip_while(|(at, _)| *at < open) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 || depth == 1 && c == ',' {
            names.push(head.get(start..at)?.split([':', '=']).next()?.trim().to_owned());
            start = at + 1;
        }
        if depth == 0 {
            break;
        }
    }
    if names.last().is_some_and(String::is_empty) {
        names.pop();
    }
    let plain = |name: &String| {
        let mut letters = name.chars();
        letters.next().is_some_and(|c| c.is_alphabetic() || c == '_')
            && letters.all(|c| c.is_alphanumeric() || c == '_')
    };
    names.iter().all(plain).then_some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\"\"\"One # pass.\"\"\"
import torch
from math import (
    pi,
)

class Model:
    'All in one pass.'
    def __init__(self, a=(1, \"x)\"), *, b: dict[str, int] = {}):
        r'''
def no(): end
        '''
        self.text = \"\"\"
kept\"\"\"  # a (comment

    # Of forward.
    def forward(self,
                x: torch.Tensor, y=(1, 2)) -> int:
        z = x + \\
1
        return z

    def after(self):
        \"\"\"Alone.\"\"\"

end = 1
";

    #[test]
    fn statements_are_found_and_replaced() {
        let mut text = PythonText::new(TEXT);
        assert_eq!(text.text(), TEXT.trim_end());
        assert_eq!(
            text.take_imports(),
            ["import torch", "from math import (\n    pi,\n)"]
        );
        text.drop_docstrings();
        let class = text.find(text.all(), 0, "class Model").unwrap();
        let (block, indent) = text.block(class);
        assert_eq!(indent, 4);
        let forward = text.find(block, indent, "def forward(").unwrap();
        assert_eq!(parameters(text.line(forward)).unwrap(), ["self", "x", "y"]);
        let (block, _) = text.block(forward);
        text.replace(block, "    def forward(self):\n        return 1");
        assert_eq!(
            text.text(),
            "class Model:
    def __init__(self, a=(1, \"x)\"), *, b: dict[str, int] = {}):
        self.text = \"\"\"
kept\"\"\"  # a (comment

    # Of forward.
    def forward(self):
        return 1

    def after(self):
        ...

end = 1"
        );
    }

    #[test]
    fn only_plain_parameters_have_names() {
        assert_eq!(parameters("def f(a,): ...").unwrap(), ["a"]);
        assert!(parameters("def f(a, *rest): ...").is_none());
        assert!(parameters("def f(a, **rest): ...").is_none());
    }
}
