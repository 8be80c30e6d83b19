//! Reading the printed form back.

use super::Expr;
use crate::error::{Error, Result};

/// The longest text of an expression in bytes.
const MAX_TEXT: usize = 64 << 10;

/// Brackets and signs inside of each other: more than the printed form of any expression has.
const MAX_NESTING: usize = 256;

/// The [parts](Expr::parts) that a short text may have when its products are written out, and those of a longer text for each byte,
/// which the printed form of an expression does not reach. A file has as many expressions as it has room for, and none of them may be
/// much larger than its text.
const SHORT_PARTS: usize = 128;
const PARTS_PER_BYTE: usize = 2;

/// Bytes of the text that an error shows around its place.
const EXCERPT: usize = 60;

impl Expr {
    /// Parses the printed form: integers, names, `+ - * //`, `%`, parentheses, `ceildiv(a, b)`, `min(a, b)`,
    /// `max(a, b)`.
    ///
    /// # Errors
    /// Names the offset where the text is wrong, or where it goes beyond a limit: on its length, its nesting, its size
    /// once products are written out, or that of [`Expr::check`].
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_TEXT {
            return Err(Error::invalid(format!(
                "an integer expression has {} bytes, and at most {MAX_TEXT} are allowed",
                text.len()
            )));
        }
        let mut parser = Parser {
            text,
            at: 0,
            nesting: 0,
        };
        let expr = parser.sum()?;
        parser.skip_space();
        if parser.at < text.len() {
            return Err(parser.error("unexpected text"));
        }
        Ok(expr)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    nesting: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn error(&self, what: &str) -> Error {
        let mut start = self.at.saturating_sub(EXCERPT / 2);
        while !self.text.is_char_boundary(start) {
            start -= 1;
        }
        let tail = self.text.get(start..).unwrap_or_default();
        let excerpt: String = tail.chars().take(EXCERPT).collect();
        let before = if start > 0 { "…" } else { "" };
        let after = if excerpt.len() < tail.len() { "…" } else { "" };
        Error::invalid(format!(
            "{what} at offset {} of the integer expression `{before}{excerpt}{after}`",
            self.at
        ))
    }

    /// The value, unless it goes beyond a limit.
    fn limited(&self, value: Expr) -> Result<Expr> {
        match value.excess() {
            None => Ok(value),
            Some(excess) => Err(self.error(&excess.to_string())),
        }
    }

    /// Runs `inner` one level deeper.
    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Result<Expr>) -> Result<Expr> {
        if self.nesting >= MAX_NESTING {
            return Err(self.error(&format!("nested deeper than {MAX_NESTING} levels")));
        }
        self.nesting += 1;
        let value = inner(self);
        self.nesting -= 1;
        value
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.error(&format!("expected `{token}`")))
        }
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut parts = vec![self.product()?];
        loop {
            if self.eat("+") {
                parts.push(self.product()?);
            } else if self.eat("-") {
                parts.push(-self.product()?);
            } else if let [single] = parts.as_slice() {
                return Ok(single.clone());
            } else {
                return self.limited(Expr::total(parts));
            }
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut value = self.factor()?;
        loop {
            let next = if self.eat("//") {
                value.floor_div(&self.factor()?)
            } else if self.eat("*") {
                value * self.factor()?
            } else if self.eat("%") {
                value.modulo(&self.factor()?)
            } else {
                return Ok(value);
            };
            value = self.limited(next)?;
            let most = SHORT_PARTS.max(PARTS_PER_BYTE * self.text.len());
            if value.parts() > most {
                let (parts, bytes) = (value.parts(), self.text.len());
                return Err(self.error(&format!(
                    "a product has {parts} terms and factors when it is written out, and at most {most} are allowed in a text of {bytes} \
                     bytes"
                )));
            }
        }
    }

    fn factor(&mut self) -> Result<Expr> {
        if self.eat("-") {
            self.skip_space();
            if let Some(digits) = self.digits() {
                return self.integer(&format!("-{digits}"));
            }
            let value = self.nested(Self::factor)?;
            return self.limited(-value);
        }
        if self.eat("(") {
            let value = self.nested(Self::sum)?;
            self.expect(")")?;
            return Ok(value);
        }
        if let Some(digits) = self.digits() {
            return self.integer(digits);
        }
        self.skip_space();
        let word = self.word();
        if word.is_empty() {
            return Err(self.error("expected a number, a name or `(`"));
        }
        self.at += word.len();
        let function: fn(&Expr, &Expr) -> Expr = match word {
            "ceildiv" => Expr::ceil_div,
            "min" => Expr::minimum,
            "max" => Expr::maximum,
            name => return Ok(Expr::symbol(name)),
        };
        if !self.eat("(") {
            return Ok(Expr::symbol(word));
        }
        let a = self.nested(Self::sum)?;
        self.expect(",")?;
        let b = self.nested(Self::sum)?;
        self.expect(")")?;
        self.limited(function(&a, &b))
    }

    /// The letters and digits that come next.
    fn word(&self) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
        rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
    }

    /// The word that comes next, if it begins with a digit.
    fn digits(&mut self) -> Option<&'a str> {
        self.skip_space();
        let word = self.word();
        word.starts_with(|c: char| c.is_ascii_digit()).then_some(word)
    }

    /// The integer of `text`, whose digits come next.
    fn integer(&mut self, text: &str) -> Result<Expr> {
        let value = text
            .parse::<i64>()
            .map_err(|_| self.error("an integer that does not fit 64 bits"))?;
        self.at += self.word().len();
        Ok(Expr::constant(value))
    }
}
