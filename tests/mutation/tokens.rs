//! Sketches and C++ as tokens: enough structure to put faults into either.

use std::ops::Range;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Language {
    Sketch,
    Cpp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Word,
    Number,
    Sign,
}

#[derive(Debug, Clone)]
pub(crate) struct Token<'a> {
    pub(crate) kind: Kind,
    pub(crate) text: &'a str,
    pub(crate) at: Range<usize>,
    /// The innermost bracket that is open here, by its token.
    pub(crate) inside: Option<usize>,
    /// The other bracket of the pair, for brackets.
    pub(crate) partner: Option<usize>,
    /// Whether it is the first of its line.
    pub(crate) starts_line: bool,
}

const SIGNS: [&str; 22] = [
    "<<=", ">>=", "..", ":+", "->", "::", "<=", ">=", "==", "!=", "&&", "||", "+=", "-=", "*=", "/=", "++",
    "--", "//", "<<", ">>", "|=",
];

/// A text and the tokens in which faults may be put: kernels, without what stands before them.
#[derive(Debug)]
pub(crate) struct Code<'a> {
    pub(crate) text: &'a str,
    pub(crate) language: Language,
    pub(crate) tokens: Vec<Token<'a>>,
}

impl<'a> Code<'a> {
    pub(crate) fn new(text: &'a str, language: Language) -> Self {
        let start = match language {
            Language::Sketch => text.find("\nkernel "),
            Language::Cpp => text.find("\nextern \"C\""),
        };
        let mut code = Self {
            text,
            language,
            tokens: Vec::new(),
        };
        code.lex(start.unwrap_or(0));
        code.pair();
        code
    }

    fn lex(&mut self, mut at: usize) {
        let mut starts_line = true;
        while let Some(c) = self.text[at..].chars().next() {
            let rest = &self.text[at..];
            let skipped = match self.language {
                Language::Sketch => rest.starts_with('#'),
                Language::Cpp => rest.starts_with("//") || rest.starts_with('#'),
            };
            if skipped {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            if c.is_whitespace() {
                starts_line |= c == '\n';
                at += c.len_utf8();
                continue;
            }
            let (kind, length) = if c.is_ascii_digit() {
                (Kind::Number, number_length(rest))
            } else if c.is_ascii_alphabetic() || c == '_' {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                (Kind::Word, end.unwrap_or(rest.len()))
            } else {
                let sign = SIGNS.iter().find(|s| rest.starts_with(**s));
                (Kind::Sign, sign.map_or(c.len_utf8(), |s| s.len()))
            };
            self.tokens.push(Token {
                kind,
                text: &rest[..length],
                at: at..at + length,
                inside: None,
                partner: None,
                starts_line,
            });
            starts_line = false;
            at += length;
        }
    }

    fn pair(&mut self) {
        let mut open: Vec<usize> = Vec::new();
        for i in 0..self.tokens.len() {
            let closes = matches!(self.tokens[i].text, ")" | "]" | "}");
            if let Some(partner) = closes.then(|| open.pop()).flatten() {
                self.tokens[i].partner = Some(partner);
                self.tokens[partner].partner = Some(i);
            }
            self.tokens[i].inside = open.last().copied();
            if matches!(self.tokens[i].text, "(" | "[" | "{") {
                open.push(i);
            }
        }
    }

    /// The token's text; empty past either end.
    pub(crate) fn word(&self, i: usize) -> &'a str {
        self.tokens.get(i).map_or("", |t| t.text)
    }

    pub(crate) fn kind(&self, i: usize) -> Option<Kind> {
        self.tokens.get(i).map(|t| t.kind)
    }

    /// The positions of the tokens with this text.
    pub(crate) fn find(&self, text: &str) -> impl Iterator<Item = usize> {
        (0..self.tokens.len()).filter(move |i| self.word(*i) == text)
    }

    /// The text from one token to before another.
    pub(crate) fn slice(&self, tokens: Range<usize>) -> &'a str {
        &self.text[self.span(tokens)]
    }

    /// The bytes from one token to before another.
    pub(crate) fn span(&self, tokens: Range<usize>) -> Range<usize> {
        if tokens.is_empty() {
            let at = self.tokens[tokens.start].at.start;
            return at..at;
        }
        self.tokens[tokens.start].at.start..self.tokens[tokens.end - 1].at.end
    }

    /// Whether a sign has operands on both sides. The text is formatted: C++ has spaces around binary operators and
    /// none around templates' brackets and pointers' stars.
    pub(crate) fn is_binary(&self, i: usize) -> bool {
        let before = i.checked_sub(1).map_or("", |b| self.word(b));
        let value = matches!(before, ")" | "]")
            || i > 0 && matches!(self.kind(i - 1), Some(Kind::Word | Kind::Number));
        let at = &self.tokens[i].at;
        let spaced = self.text[..at.start].ends_with(' ') && self.text[at.end..].starts_with([' ', '\n']);
        value
            && !matches!(before, "return" | "else" | "in" | "step")
            && (spaced || self.language == Language::Sketch)
    }

    /// The end of the operand that begins at token `i`: signs before it, then a name, number or bracket, then calls and
    /// indices.
    pub(crate) fn operand_end(&self, mut i: usize) -> usize {
        while matches!(self.word(i), "-" | "!" | "&" | "*") {
            i += 1;
        }
        if self.language == Language::Sketch && self.word(i) == "load" {
            return self.load_end(i);
        }
        i = match self.tokens.get(i).map(|t| (t.kind, t.partner)) {
            Some((Kind::Sign, Some(partner))) => partner + 1,
            Some(_) => i + 1,
            None => return i,
        };
        while matches!(self.word(i), "(" | "[") {
            i = self.tokens[i].partner.map_or(i, |p| p) + 1;
        }
        i
    }

    /// The end of `load x[…] else …`.
    fn load_end(&self, load: usize) -> usize {
        let end = self
            .tokens
            .get(load + 2)
            .and_then(|t| t.partner)
            .map_or(load + 2, |p| p)
            + 1;
        if self.word(end) == "else" {
            self.operand_end(end + 1)
        } else {
            end
        }
    }

    /// The start of the operand that ends before token `end`.
    pub(crate) fn operand_start(&self, end: usize) -> usize {
        let mut i = end - 1;
        while let (true, Some(partner)) = (matches!(self.word(i), ")" | "]"), self.tokens[i].partner) {
            i = partner;
            let called =
                i > 0 && (self.kind(i - 1) == Some(Kind::Word) || matches!(self.word(i - 1), ")" | "]"));
            if !called {
                return i;
            }
            i -= 1;
        }
        i
    }

    /// The end of the product that begins at token `i`.
    pub(crate) fn term_end(&self, i: usize) -> usize {
        let mut end = self.operand_end(i);
        while matches!(self.word(end), "*" | "/" | "//" | "%") && self.is_binary(end) {
            end = self.operand_end(end + 1);
        }
        end
    }

    /// The first token from `i` on, at the depth of `i`, of which `stop` is true, or the bracket that closes around it.
    pub(crate) fn until(&self, mut i: usize, stop: impl Fn(&str) -> bool) -> usize {
        while i < self.tokens.len() {
            let token = &self.tokens[i];
            if stop(token.text) || matches!(token.text, ")" | "]" | "}") {
                return i;
            }
            i = match token.partner {
                Some(partner) if matches!(token.text, "(" | "[" | "{") => partner + 1,
                _ => i + 1,
            };
        }
        i
    }

    /// The positions of top-level commas between two brackets, with the bracket that closes.
    pub(crate) fn arguments(&self, open: usize) -> Vec<Range<usize>> {
        let close = self.tokens[open].partner.unwrap_or(open);
        let mut out = Vec::new();
        let mut start = open + 1;
        while start < close {
            let end = self.until(start, |t| t == ",");
            out.push(start..end);
            start = end + 1;
        }
        out
    }

    /// The opening brackets around token `i`, innermost first.
    pub(crate) fn around(&self, i: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(self.tokens[i].inside, |open| self.tokens[*open].inside)
    }

    /// Whether the bracket at `open` holds the coordinates of a tensor or array element, and does not declare it.
    pub(crate) fn is_index(&self, open: usize) -> bool {
        if self.word(open) != "[" || open == 0 {
            return false;
        }
        if self.language == Language::Sketch {
            return open > 1 && matches!(self.word(open - 2), "load" | "store");
        }
        let start = self.operand_start(open);
        self.kind(start) == Some(Kind::Word)
            && !matches!(self.word(start), "tensors" | "dims")
            && !self.is_declared(start)
    }

    /// Whether the C++ name at `i` stands where it is declared.
    fn is_declared(&self, i: usize) -> bool {
        let start = self.statement_start(i);
        let typed = TYPES.contains(&self.word(start)) || matches!(self.word(start), "const" | "alignas");
        typed && !(start..i).any(|t| self.word(t) == "=")
    }

    /// The first token of the statement around `i`.
    pub(crate) fn statement_start(&self, i: usize) -> usize {
        let mut start = i;
        while start > 0 {
            let before = start - 1;
            match self.word(before) {
                ";" | "{" | "(" => return start,
                ")" | "]" => start = self.tokens[before].partner.unwrap_or(before),
                "}" => return start,
                _ => start = before,
            }
        }
        start
    }

    /// Headers of loops: the tokens between the brackets of `for (…)`, or from `for` to `{` in a sketch.
    pub(crate) fn loop_headers(&self) -> Vec<Range<usize>> {
        self.find("for")
            .filter_map(|i| match self.language {
                Language::Cpp => Some(i + 2..self.tokens.get(i + 1)?.partner?),
                Language::Sketch => Some(i + 1..self.until(i, |t| t == "{")),
            })
            .collect()
    }
}

/// Element types and integers of C++ kernels.
pub(crate) const TYPES: [&str; 10] = [
    "float", "double", "int", "bool", "int32_t", "int64_t", "uint32_t", "uint64_t", "akg_f16", "uint8_t",
];

fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let at = |i: usize| bytes.get(i).copied().unwrap_or(b' ');
    let mut i = 0;
    loop {
        let c = at(i);
        let dot = c == b'.' && at(i + 1) != b'.';
        let exponent = matches!(c, b'-' | b'+') && i > 0 && matches!(at(i - 1), b'e' | b'E' | b'p' | b'P');
        if !(c.is_ascii_alphanumeric() || dot || exponent) {
            return i;
        }
        i += 1;
    }
}
