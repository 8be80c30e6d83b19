//! Reads sketch text into a [`SketchTree`]: recursive descent, recovering at statements so that one run reports
//! several errors.
//!
//! Line ends mean nothing, except to recovery: a statement begins with a word, and no expression goes on with one.

mod expr;

pub(super) use expr::{BINARY, COMPARISON};

use std::ops::Range;

use super::lex::{Lexeme, Token, lex};
use super::syntax::*;
use crate::diagnostic::{Diagnostic, Diagnostics, closest};
use crate::dtype::DType;

/// Words with a fixed meaning, which nothing can be named.
const KEYWORDS: [&str; 19] = [
    "sketch", "kernel", "param", "let", "knob", "hint", "require", "buffer", "for", "if", "else", "load",
    "store", "zeros", "full", "dot", "barrier", "combine", "None",
];

/// How deep brackets and blocks may nest, and how many operators one expression may chain: far more than a person
/// writes, and few enough for the stack.
const DEPTH_LIMIT: usize = 96;

/// Parses a whole sketch.
pub(super) fn parse(text: &str) -> Result<SketchTree, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    let lexemes = lex(text, &mut diagnostics);
    let mut parser = Parser {
        lexemes,
        at: 0,
        depth: 0,
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
            Token::Word(w) if KEYWORDS.contains(&w) => format!("the keyword `{w}`"),
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
            Token::Word(word) if !KEYWORDS.contains(&word) => {
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
        let mut out = Vec::new();
        while !self.eat_sign(close) {
            out.push(item(self)?);
            if !self.eat_sign(",") {
                self.expect_sign(close, &format!("or `,` {role}"))?;
                break;
            }
        }
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

/// Declarations.
impl Parser<'_> {
    fn sketch(&mut self) -> Parsed<SketchTree> {
        let doc = texts(self.comments());
        self.expect_word("sketch", "to begin: `sketch NAME(x: f32[M]) -> y: f32[M]`")?;
        let name = self.name("the sketch's name")?;
        self.expect_sign("(", "before the inputs")?;
        let inputs = self.list(")", "after an input", Self::tensor)?;
        self.expect_sign("->", "before the outputs")?;
        let outputs = if self.eat_sign("(") {
            self.list(")", "after an output", Self::tensor)?
        } else {
            vec![self.tensor()?]
        };
        let (mut items, mut kernels) = (Vec::new(), Vec::new());
        loop {
            let comments = self.comments();
            if self.peek() == Token::End {
                break;
            }
            let start = self.here().start;
            if self.word("kernel") {
                match self.kernel(texts(comments)) {
                    Ok(kernel) => kernels.push(Spanned::new(kernel, self.since(start))),
                    Err(error) => self.recover_item(error),
                }
                continue;
            }
            items.extend(
                comments
                    .into_iter()
                    .map(|c| Spanned::new(Item::Comment(c.node), c.span)),
            );
            let item = if kernels.is_empty() {
                self.item()
            } else {
                Err(self.expected("`kernel` (declarations stand before the kernels)"))
            };
            match item {
                Ok(item) => items.push(Spanned::new(item, self.since(start))),
                Err(error) => self.recover_item(error),
            }
        }
        if kernels.is_empty() && !self.diagnostics.has_errors() {
            return Err(self.expected("`kernel` (a sketch has at least one)"));
        }
        Ok(SketchTree {
            name,
            inputs,
            outputs,
            items,
            kernels,
            doc,
        })
    }

    fn recover_item(&mut self, error: Diagnostic) {
        self.bump();
        let starts_item = |t: Token<'_>| match t {
            Token::Word(w) => ["param", "let", "knob", "hint", "require", "buffer", "kernel"].contains(&w),
            _ => false,
        };
        self.recover(error, starts_item);
        self.eat_sign("}");
    }

    fn tensor(&mut self) -> Parsed<TensorSyntax> {
        let name = self.name("a tensor's name")?;
        self.expect_sign(":", "and a type, as in `x: f32[M, N]`")?;
        let dtype = self.name("an element type")?;
        let shape = if self.eat_sign("[") {
            self.list("]", "after an extent", Self::expr)?
        } else {
            Vec::new()
        };
        Ok(TensorSyntax { name, dtype, shape })
    }

    fn item(&mut self) -> Parsed<Item> {
        const ITEMS: [&str; 7] = ["param", "let", "knob", "hint", "require", "buffer", "kernel"];
        let Token::Word(keyword) = self.peek() else {
            return Err(self.expected("a declaration or a kernel"));
        };
        match keyword {
            "param" => self.param(),
            "let" => {
                self.bump();
                let name = self.name("the name of the definition")?;
                self.expect_sign("=", "and a value")?;
                let value = self.expr()?;
                Ok(Item::Let { name, value })
            }
            "knob" | "hint" => {
                self.bump();
                let name = self.name("the knob's name")?;
                self.expect_word("in", "and the legal values, as in `knob BM in {16, 32}`")?;
                self.expect_sign("{", "before the legal values")?;
                let values = self.list("}", "after a value", Self::knob_value)?;
                if values.is_empty() {
                    let message = format!("`{}` has no legal value; give at least one", name.node);
                    return Err(Diagnostic::error(message, name.span));
                }
                let hint = keyword == "hint";
                Ok(Item::Knob { name, values, hint })
            }
            "require" => {
                self.bump();
                Ok(Item::Require(self.expr()?))
            }
            "buffer" => {
                self.bump();
                let tensor = self.tensor()?;
                let align = if self.eat_word("align") {
                    Some(self.expr()?)
                } else {
                    None
                };
                Ok(Item::Buffer { tensor, align })
            }
            word => {
                let error =
                    self.expected("a declaration (param, let, knob, hint, require, buffer) or a kernel");
                Err(match closest(word, ITEMS) {
                    Some(item) => error.note(format!("did you mean `{item}`?")),
                    None => error,
                })
            }
        }
    }

    fn knob_value(&mut self) -> Parsed<Ex> {
        let value = self.expr()?;
        match &*value.node {
            Expression::Int(_) => Ok(value),
            Expression::Name(name) if name.parse::<DType>().is_ok() => Ok(value),
            _ => Err(Diagnostic::error(
                "a knob's value is an integer or an element type",
                value.span,
            )),
        }
    }

    fn param(&mut self) -> Parsed<Item> {
        self.bump();
        let name = self.name("the parameter's name")?;
        let dtype = if self.eat_sign(":") {
            let dtype = self.name("an element type")?;
            let parsed = dtype.node.parse::<DType>();
            Some(parsed.map_err(|e| Diagnostic::error(e.message(), dtype.span))?)
        } else {
            None
        };
        let value = if self.eat_sign("=") {
            Some(self.expr()?)
        } else {
            None
        };
        Ok(Item::Param { name, dtype, value })
    }

    fn kernel(&mut self, doc: Vec<String>) -> Parsed<KernelSyntax> {
        self.bump();
        let name = self.name("the kernel's name")?;
        let template = if self.eat_word("for") {
            Some(self.template()?)
        } else {
            None
        };
        self.expect_word("over", "and the grid, as in `over (m in ceildiv(M, BM))`")?;
        self.expect_sign("(", "before the grid's indices")?;
        let grid = self.list(")", "after a grid index", |p| {
            let name = p.name("a grid index")?;
            p.expect_word("in", "and the number of programs, as in `m in ceildiv(M, BM)`")?;
            Ok((name, p.expr()?))
        })?;
        let (mut grouped, mut cooperative) = (None, false);
        loop {
            if grouped.is_none() && self.eat_word("grouped") {
                let axis = self.name("the grid index to group")?;
                self.expect_word("by", "and the group's size, as in `grouped m by 8`")?;
                grouped = Some((axis, self.expr()?));
            } else if !cooperative && self.eat_word("cooperative") {
                cooperative = true;
            } else {
                break;
            }
        }
        let body = self.block("before the kernel's statements")?;
        Ok(KernelSyntax {
            name,
            template,
            grid,
            grouped,
            cooperative,
            body,
            doc,
        })
    }

    fn template(&mut self) -> Parsed<Template> {
        self.expect_sign(
            "(",
            "before the names to replace, as in `for (X, R) in {(x, M), (w, N)}`",
        )?;
        let names = self.list(")", "after a name", |p| p.name("a name to replace"))?;
        self.expect_word("in", "and the instances, as in `for (X, R) in {(x, M), (w, N)}`")?;
        self.expect_sign("{", "before the instances")?;
        let rows = self.list("}", "after an instance", |p| {
            p.expect_sign("(", "before an instance's values")?;
            let start = p.here().start;
            let row = p.list(")", "after a value", Self::expr)?;
            if row.len() != names.len() {
                let message = format!(
                    "{} names are replaced but this instance has {} values",
                    names.len(),
                    row.len()
                );
                return Err(Diagnostic::error(message, p.since(start)));
            }
            Ok(row)
        })?;
        Ok(Template { names, rows })
    }
}

/// Statements.
impl Parser<'_> {
    fn block(&mut self, role: &str) -> Parsed<Vec<Spanned<Statement>>> {
        self.expect_sign("{", role)?;
        self.nested(|p| {
            let mut out = Vec::new();
            loop {
                let comments = p.comments().into_iter();
                out.extend(comments.map(|c| Spanned::new(Statement::Comment(c.node), c.span)));
                if p.eat_sign("}") {
                    return Ok(out);
                }
                if p.peek() == Token::End || p.word("kernel") {
                    return Err(p.expected("`}` at the end of the block"));
                }
                let (start, before) = (p.here().start, p.at);
                match p.statement() {
                    Ok(statement) => out.push(Spanned::new(statement, p.since(start))),
                    Err(error) => {
                        if p.at == before {
                            p.bump();
                        }
                        p.recover(error, |t| matches!(t, Token::Word(_)));
                    }
                }
            }
        })
    }

    fn statement(&mut self) -> Parsed<Statement> {
        match self.peek() {
            Token::Word("store") => self.store(),
            Token::Word("for") => self.for_loop(),
            Token::Word("if") => {
                self.bump();
                let condition = self.expr()?;
                let then = self.block("before the statements of `if`")?;
                let otherwise = if self.eat_word("else") {
                    self.block("before the statements of `else`")?
                } else {
                    Vec::new()
                };
                Ok(Statement::If {
                    condition,
                    then,
                    otherwise,
                })
            }
            Token::Word("barrier") => {
                self.bump();
                Ok(Statement::Barrier)
            }
            Token::Word(word) if !KEYWORDS.contains(&word) => {
                let name = self.name("a name")?;
                if self.sign("[") {
                    let message = format!("write `store {word}[…] = …` to write a tensor");
                    return Err(Diagnostic::error(message, name.span));
                }
                if let Token::Word(_) | Token::Sign("(") = self.peek()
                    && let Some(keyword) = closest(word, ["store", "for", "if", "barrier"])
                {
                    let message = format!("no statement begins with `{word}`; did you mean `{keyword}`?");
                    return Err(Diagnostic::error(message, name.span));
                }
                if self.sign("+=") {
                    let message = format!("write `{word} = {word} + …`; only a store can be `+=`");
                    return Err(Diagnostic::error(message, self.here()));
                }
                self.expect_sign("=", &format!("after `{word}`"))?;
                let value = self.expr()?;
                Ok(Statement::Assign { name, value })
            }
            _ => Err(self.expected("a statement (`name = …`, store, for, if, barrier)")),
        }
    }

    fn store(&mut self) -> Parsed<Statement> {
        self.bump();
        let tensor = self.name("the tensor to write")?;
        self.expect_sign("[", "before the region to write")?;
        let region = self.list("]", "after a dimension of the region", Self::region_entry)?;
        let atomic_add = self.eat_sign("+=");
        if !atomic_add {
            self.expect_sign("=", "(or `+=` to add atomically) and the tile to write")?;
        }
        let value = self.expr()?;
        Ok(Statement::Store {
            tensor,
            region,
            value,
            atomic_add,
        })
    }

    fn for_loop(&mut self) -> Parsed<Statement> {
        self.bump();
        let mut indices = Vec::new();
        loop {
            let name = self.name("a loop index")?;
            self.expect_word("in", "and the loop's bounds, as in `for k in 0..K step BK`")?;
            let lo = self.expr()?;
            self.expect_sign("..", "and the loop's end, as in `for k in 0..K step BK`")?;
            let hi = self.expr()?;
            let step = if self.eat_word("step") {
                Some(self.expr()?)
            } else {
                None
            };
            indices.push(LoopIndex { name, lo, hi, step });
            if !self.eat_sign(",") {
                break;
            }
        }
        let (mut pipeline, mut unroll) = (None, false);
        loop {
            if pipeline.is_none() && self.eat_word("pipeline") {
                self.expect_sign("(", "before the pipelining depth")?;
                pipeline = Some(self.expr()?);
                self.expect_sign(")", "after the pipelining depth")?;
            } else if !unroll && self.eat_word("unroll") {
                unroll = true;
            } else {
                break;
            }
        }
        let body = self.block("before the statements of the loop (or step, pipeline, unroll)")?;
        let combine = if self.eat_word("combine") {
            self.expect_sign("(", "before the pairs of names, as in `combine (m: m2)`")?;
            let pairs = self.list(")", "after a pair", |p| {
                let left = p.name("a carried name")?;
                p.expect_sign(":", "and a name for the later part's value")?;
                Ok((left, p.name("a name for the later part's value")?))
            })?;
            let body = self.block("before the statements of `combine`")?;
            Some(CombineSyntax { pairs, body })
        } else {
            None
        };
        Ok(Statement::For {
            indices,
            pipeline,
            unroll,
            body,
            combine,
        })
    }
}

fn texts(comments: Vec<Spanned<String>>) -> Vec<String> {
    comments.into_iter().map(|c| c.node).collect()
}
