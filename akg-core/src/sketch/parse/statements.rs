//! Blocks and statements.

use super::{Parsed, Parser, is_keyword};
use crate::diagnostic::{Diagnostic, closest};
use crate::sketch::lex::Token;
use crate::sketch::syntax::*;

impl Parser<'_> {
    pub(super) fn block(&mut self, role: &str) -> Parsed<Vec<Spanned<Statement>>> {
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
            Token::Word(word) if !is_keyword(word) => {
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
