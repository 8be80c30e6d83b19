//! Reads sketch text into a [`SketchTree`]: recursive descent, recovering at statements so that one run reports
//! several errors.
//!
//! Line ends mean nothing, except to recovery: a statement begins with a word, and no expression goes on with one.

mod expr;
mod items;
mod statements;

pub(super) use expr::{BINARY, COMPARISON};

use std::ops::Range;

use super::lex::{Lexeme, Token, lex};
use super::syntax::*;
use crate::diagnostic::{Diagnostic, Diagnostics};

/// Words with a fixed meaning, which nothing can be named.
const KEYWORDS: [&str; 19] = [
    "sketch", "kernel", "param", "let", "knob", "hint", "require", "buffer", "for", "if", "else", "load",
    "store", "zeros", "full", "dot", "barrier", "combine", "None",
];

/// Whether a word has a fixed meaning, so that nothing can have it as its name.
pub(crate) fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word) || ["inf", "nan"].contains(&word)
}

/// How deep brackets and blocks may nest, and how many operators one expression may chain: far more than a person
/// writes, and few enough for the stack.
const DEPTH_LIMIT: usize = 96;

/// How high the tree of one expression may be, chains of operators and brackets together.
const HEIGHT_LIMIT: usize = 160;

/// The longest text of a sketch in bytes.
const MAX_TEXT: usize = 4 << 20;

/// The most inputs, outputs and declarations, and the most kernels.
const MAX_ITEMS: usize = 4096;

/// Parses a whole sketch.
pub(super) fn parse(text: &str) -> Result<SketchTree, Diagnostics> {
    if text.len() > MAX_TEXT {
        let message = format!(
            "the sketch has {} bytes, and at most {MAX_TEXT} are allowed",
            text.len()
        );
        return Err(Diagnostic::error(message, 0..0).into());
    }
    let mut diagnostics = Diagnostics::new();
    let lexemes = lex(text, &mut diagnostics);
    let mut parser = Parser {
        lexemes,
        at: 0,
        depth: 0,
        height: 0,
        diagnostics,
    };
    let tree = parser.sketch();
    match tree {
        Ok(tree) if !parser.diagnostics.has_errors() => Ok(tree),
        Ok(_) => Err(parser.diagnostics),
        Err(error) => {
            parser.diagnostics.push(error);
            Err(parser.diagnostics)
        }
    }
}

type Parsed<T> = Result<T, Diagnostic>;

struct Parser<'a> {
    lexemes: Vec<Lexeme<'a>>,
    at: usize,
    depth: usize,
    /// The height of the expression that was parsed last.
    height: usize,
    diagnostics: Diagnostics,
}

/// Tokens.
impl<'a> Parser<'a> {
    /// Position of the next token that is not a comment.
    fn next_at(&self) -> usize {
        let comments = self.lexemes.iter().skip(self.at);
        self.at
            + comments
                .take_while(|l| matches!(l.token, Token::Comment(_)))
                .count()
    }

    fn peek_after(&self, skip: usize) -> Token<'a> {
        self.lexemes
            .get(self.next_at() + skip)
            .map_or(Token::End, |l| l.token)
    }

    fn peek(&self) -> Token<'a> {
        self.peek_after(0)
    }

    /// The place of the next token.
    fn here(&self) -> Range<usize> {
        let next = self.lexemes.get(self.next_at()).or(self.lexemes.last());
        next.map_or(0..0, |l| l.span.clone())
    }

    fn bump(&mut self) -> Token<'a> {
        let token = self.peek();
        if token != Token::End {
            self.at = self.next_at() + 1;
        }
        token
    }

    /// From `start` to the end of the token last taken.
    fn since(&self, start: usize) -> Range<usize> {
        let last = self.at.checked_sub(1).and_then(|i| self.lexemes.get(i));
        start..last.map_or(start, |l| l.span.end).max(start)
    }

    fn sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(s) if s == sign)
    }

    fn word(&self, word: &str) -> bool {
        self.peek() == Token::Word(word)
    }

    fn eat_sign(&mut self, sign: &str) -> bool {
        let found = self.sign(sign);
        if found {
            self.bump();
        }
        found
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.word(word);
        if found {
            self.bump();
        }
        found
    }

    fn expect_sign(&mut self, sign: &str, role: &str) -> Parsed<()> {
        if self.eat_sign(sign) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{sign}` {role}")))
        }
    }

    fn expect_word(&mut self, word: &str, role: &str) -> Parsed<()> {
        if self.eat_word(word) {
            Ok(())
        } else {
            Err(self.expected(&format!("`{word}` {role}")))
        }
    }

    /// An error at the next token, which is not `what`.
    fn expected(&self, what: &str) -> Diagnostic {
        let found = match self.peek() {
            Token::Word(w) if is_keyword(w) => format!("the keyword `{w}`"),
            Token::Word(w) => format!("`{w}`"),
            Token::Int(i) => format!("`{i}`"),
            Token::Float(x) => format!("`{x}`"),
            Token::Sign(s) => format!("`{s}`"),
            Token::Comment(_) | Token::End => "the end of the text".to_owned(),
        };
        Diagnostic::error(format!("expected {what}, found {found}"), self.here())
    }

    /// A name; `role` says of what.
    fn name(&mut self, role: &str) -> Parsed<Name> {
        match self.peek() {
            Token::Word(word) if !is_keyword(word) => {
                let span = self.here();
                self.bump();
                Ok(Name::new(word.to_owned(), span))
            }
            Token::Word(_) => {
                let error = self.expected(role);
                Err(error.note("keywords cannot be names"))
            }
            _ => Err(self.expected(role)),
        }
    }

    /// Comment lines that stand here.
    fn comments(&mut self) -> Vec<Spanned<String>> {
        let end = self.next_at();
        let lines = self.lexemes.get(self.at..end).unwrap_or_default();
        let out = lines
            .iter()
            .filter_map(|l| match l.token {
                Token::Comment(text) => Some(Spanned::new(text.to_owned(), l.span.clone())),
                _ => None,
            })
            .collect();
        self.at = end;
        out
    }

    /// `item, item, … CLOSE`, a trailing comma allowed; the opening bracket is already taken.
    fn list<T>(
        &mut self,
        close: &str,
        role: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let (mut out, mut height) = (Vec::new(), 0);
        while !self.eat_sign(close) {
            out.push(item(self)?);
            height = height.max(self.height);
            if !self.eat_sign(",") {
                self.expect_sign(close, &format!("or `,` {role}"))?;
                break;
            }
        }
        self.height = height;
        Ok(out)
    }

    /// Runs `inner` one level deeper.
    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_LIMIT {
            let message = format!("nested deeper than {DEPTH_LIMIT} levels; bind parts to names");
            return Err(Diagnostic::error(message, self.here()));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    /// After an error: skips to the first token of a line for which `resume` holds, or to the `}` that closes the
    /// block of the error.
    fn recover(&mut self, error: Diagnostic, resume: impl Fn(Token<'_>) -> bool) {
        self.diagnostics.push(error);
        let mut open = 0usize;
        loop {
            let next = self.lexemes.get(self.next_at());
            let starts_line = next.is_none_or(|l| l.starts_line);
            match self.peek() {
                Token::End => return,
                Token::Sign("}") if open == 0 => return,
                token if open == 0 && starts_line && resume(token) => return,
                Token::Sign("{") => open += 1,
                Token::Sign("}") => open -= 1,
                _ => {}
            }
            self.bump();
        }
    }
}

fn texts(comments: Vec<Spanned<String>>) -> Vec<String> {
    comments.into_iter().map(|c| c.node).collect()
}
