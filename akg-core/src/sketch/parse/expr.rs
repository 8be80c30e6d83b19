//! Expressions and regions.

use super::super::syntax::*;
use super::{DEPTH_LIMIT, HEIGHT_LIMIT, Parsed, Parser};
use crate::diagnostic::{Diagnostic, closest};
use crate::sketch::ir::DotMethod;
use crate::sketch::lex::Token;

/// Binary operators with how tightly they bind. Comparisons bind tighter than `&` and do not chain.
pub(in crate::sketch) const BINARY: [(&str, u8); 17] = [
    ("|", 1),
    ("^", 2),
    ("&", 3),
    ("<", COMPARISON),
    ("<=", COMPARISON),
    (">", COMPARISON),
    (">=", COMPARISON),
    ("==", COMPARISON),
    ("!=", COMPARISON),
    ("<<", 5),
    (">>", 5),
    ("+", 6),
    ("-", 6),
    ("*", 7),
    ("/", 7),
    ("//", 7),
    ("%", 7),
];

/// The level of comparisons.
pub(in crate::sketch) const COMPARISON: u8 = 4;

impl Parser<'_> {
    pub(super) fn expr(&mut self) -> Parsed<Ex> {
        self.nested(|p| p.binary(0))
    }

    /// Operators that bind tighter than `above`, grouped to the left.
    fn binary(&mut self, above: u8) -> Parsed<Ex> {
        let start = self.here().start;
        let mut left = self.unary()?;
        let mut last = 0;
        for _ in 0..DEPTH_LIMIT {
            let Token::Sign(sign) = self.peek() else {
                return Ok(left);
            };
            let Some((_, level)) = BINARY.into_iter().find(|(s, level)| *s == sign && *level > above) else {
                return Ok(left);
            };
            if level == COMPARISON && last == COMPARISON {
                let message = "comparisons do not chain; write `a < b & b < c`";
                return Err(Diagnostic::error(message, self.here()));
            }
            last = level;
            self.bump();
            let height = self.height;
            let right = self.nested(|p| p.binary(level))?;
            self.height = self.height.max(height);
            left = self.finish(start, Expression::Binary(sign, left, right))?;
        }
        let message = format!("more than {DEPTH_LIMIT} operators in one expression; bind parts to names");
        Err(Diagnostic::error(message, self.here()))
    }

    /// The expression of parts of which the last is as high as the highest.
    fn finish(&mut self, start: usize, node: Expression) -> Parsed<Ex> {
        self.height += 1;
        let span = self.since(start);
        if self.height > HEIGHT_LIMIT {
            let message = format!("an expression of more than {HEIGHT_LIMIT} levels; bind parts to names");
            return Err(Diagnostic::error(message, span));
        }
        Ok(Ex::new(Box::new(node), span))
    }

    fn unary(&mut self) -> Parsed<Ex> {
        let start = self.here().start;
        let sign = match self.peek() {
            Token::Sign("-") => '-',
            Token::Sign("!") => '!',
            _ => return self.postfix(),
        };
        self.bump();
        // A sign before a number is part of the number.
        let literal = match (sign, self.peek()) {
            _ if self.peek_after(1) == Token::Sign("[") => None,
            ('-', Token::Int(value)) => Some(Expression::Int(-value)),
            ('-', Token::Float(value)) => Some(Expression::Float(-value)),
            _ => None,
        };
        if let Some(literal) = literal {
            self.bump();
            self.height = 0;
            return self.finish(start, literal);
        }
        let operand = self.nested(Self::unary)?;
        self.finish(start, Expression::Unary(sign, operand))
    }

    fn postfix(&mut self) -> Parsed<Ex> {
        let start = self.here().start;
        let mut value = self.primary()?;
        for _ in 0..DEPTH_LIMIT {
            if !self.eat_sign("[") {
                return Ok(value);
            }
            let height = self.height;
            let keeps = self.list("]", "after a dimension", |p| {
                if p.eat_sign(":") {
                    Ok(true)
                } else if p.eat_word("None") {
                    Ok(false)
                } else {
                    let error = p.expected("`:` to keep a dimension or `None` to insert one");
                    Err(error.note("tiles are not indexed; `load NAME[…]` reads a region of a tensor"))
                }
            })?;
            self.height = height;
            value = self.finish(start, Expression::Expand(value, keeps))?;
        }
        let message = format!("more than {DEPTH_LIMIT} `[…]` in a row; bind parts to names");
        Err(Diagnostic::error(message, self.here()))
    }

    fn primary(&mut self) -> Parsed<Ex> {
        let start = self.here().start;
        self.height = 0;
        let node = match self.peek() {
            Token::Int(value) => {
                self.bump();
                Expression::Int(value)
            }
            Token::Float(value) => {
                self.bump();
                Expression::Float(value)
            }
            Token::Sign("(") => {
                self.bump();
                let inner = self.expr()?;
                self.expect_sign(")", "to close the bracket")?;
                return Ok(Ex::new(inner.node, self.since(start)));
            }
            Token::Sign("[") => {
                self.bump();
                Expression::List(self.list("]", "after a value", Self::expr)?)
            }
            Token::Word("load") => self.load()?,
            Token::Word("zeros" | "full") => self.full()?,
            Token::Word("dot") => self.dot()?,
            Token::Word(_) => {
                let name = self.name("a value")?;
                if self.eat_sign("(") {
                    Expression::Call(name, self.list(")", "after an argument", Self::expr)?)
                } else {
                    Expression::Name(name.node)
                }
            }
            _ => return Err(self.expected("a value")),
        };
        self.finish(start, node)
    }

    /// A constant without brackets around it: a number, a name, or one of them with a sign.
    fn constant(&mut self) -> Parsed<Ex> {
        let start = self.here().start;
        self.nested(|p| match (p.peek(), p.peek_after(1)) {
            (Token::Sign("-"), Token::Int(_) | Token::Float(_)) => p.unary(),
            (Token::Sign("-"), Token::Word(_)) => {
                p.bump();
                let operand = p.primary()?;
                p.finish(start, Expression::Unary('-', operand))
            }
            _ => p.primary(),
        })
    }

    fn load(&mut self) -> Parsed<Expression> {
        self.bump();
        let tensor = self.name("the tensor to read")?;
        self.expect_sign("[", "before the region to read")?;
        let region = self.list("]", "after a dimension of the region", Self::region_entry)?;
        let height = self.height;
        let fill = if self.eat_word("else") {
            Some(self.constant()?)
        } else {
            None
        };
        self.height = self.height.max(height);
        Ok(Expression::Load { tensor, region, fill })
    }

    pub(super) fn region_entry(&mut self) -> Parsed<RegionSyntax> {
        let start = self.expr()?;
        if self.sign(":") || self.sign("..") {
            let error = self.expected("`START :+ LENGTH`");
            return Err(error.note("a region says where it starts and how long it is: `m*BM :+ BM`"));
        }
        if !self.eat_sign(":+") {
            return Ok(RegionSyntax::At(start));
        }
        let mut height = self.height;
        let len = self.expr()?;
        height = height.max(self.height);
        let step = if self.eat_word("by") {
            Some(self.expr()?)
        } else {
            None
        };
        self.height = self.height.max(height);
        Ok(RegionSyntax::Range { start, len, step })
    }

    fn full(&mut self) -> Parsed<Expression> {
        let valued = self.bump() == Token::Word("full");
        let dtype = self.name("an element type, as in `zeros f32[BM, BN]`")?;
        self.expect_sign("[", "before the tile's extents")?;
        let shape = self.list("]", "after an extent", Self::expr)?;
        let height = self.height;
        let value = if valued { Some(self.constant()?) } else { None };
        self.height = self.height.max(height);
        Ok(Expression::Full { dtype, shape, value })
    }

    fn dot(&mut self) -> Parsed<Expression> {
        let start = self.here().start;
        self.bump();
        self.expect_sign("(", "before the operands")?;
        let arguments = self.list(")", "after an operand", Self::expr)?;
        let (span, height) = (self.since(start), self.height);
        let mut arguments = arguments.into_iter();
        let (Some(a), Some(b), init, None) = (
            arguments.next(),
            arguments.next(),
            arguments.next(),
            arguments.next(),
        ) else {
            let message = "`dot` takes two operands and perhaps an accumulator: `dot(a, b, acc)`";
            return Err(Diagnostic::error(message, span));
        };
        let methods = || DotMethod::ALL.iter().map(|method| method.name());
        let method = match self.peek() {
            Token::Word(word) if word.parse::<DotMethod>().is_ok() => self.name("a method")?,
            found => {
                let message = "expected the dot's method after `)`: ieee, tf32, f16 or bf16";
                let error = Diagnostic::error(message, span);
                return Err(match found {
                    Token::Word(word) => match closest(word, methods()) {
                        Some(method) => error.note(format!("did you mean `{method}`?")),
                        None => error,
                    },
                    _ => error,
                });
            }
        };
        let promote = if self.eat_word("promote") {
            self.expect_sign("(", "before the promotion interval")?;
            let interval = self.expr()?;
            self.expect_sign(")", "after the promotion interval")?;
            Some(interval)
        } else {
            None
        };
        self.height = self.height.max(height);
        Ok(Expression::Dot {
            a,
            b,
            init,
            method,
            promote,
        })
    }
}
