//! Reading the printed form back.

use super::Expr;
use crate::error::{Error, Result};

impl Expr {
    /// Parses the printed form: integers, names, `+ - * //`, `%`, parentheses, `ceildiv(a, b)`, `min(a, b)`,
    /// `max(a, b)`.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parser = Parser { text, at: 0 };
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
        Error::invalid(format!(
            "{what} at offset {} of the integer expression `{}`",
            self.at, self.text
        ))
    }

    fn expect(&mut self, token: &str) -> Result<()> {
        if self.eat(token) {
            Ok(())
        } else {
            Err(self.error(&format!("expected `{token}`")))
        }
    }

    fn sum(&mut self) -> Result<Expr> {
        let mut value = self.product()?;
        loop {
            if self.eat("+") {
                value = value + self.product()?;
            } else if self.eat("-") {
                value = value - self.product()?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Result<Expr> {
        let mut value = self.factor()?;
        loop {
            if self.eat("//") {
                value = value.floor_div(&self.factor()?);
            } else if self.eat("*") {
                value = value * self.factor()?;
            } else if self.eat("%") {
                value = value.modulo(&self.factor()?);
            } else {
                return Ok(value);
            }
        }
    }

    fn factor(&mut self) -> Result<Expr> {
        if self.eat("-") {
            return Ok(-self.factor()?);
        }
        if self.eat("(") {
            let value = self.sum()?;
            self.expect(")")?;
            return Ok(value);
        }
        self.skip_space();
        let rest = self.rest();
        let word_end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.')
            .unwrap_or(rest.len());
        let word = rest.get(..word_end).unwrap_or_default();
        if word.is_empty() {
            return Err(self.error("expected a number, a name or `(`"));
        }
        self.at += word.len();
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word
                .parse::<i64>()
                .map(Expr::constant)
                .map_err(|_| self.error("bad integer"));
        }
        let function: fn(&Expr, &Expr) -> Expr = match word {
            "ceildiv" => Expr::ceil_div,
            "min" => Expr::minimum,
            "max" => Expr::maximum,
            name => return Ok(Expr::symbol(name)),
        };
        if !self.eat("(") {
            return Ok(Expr::symbol(word));
        }
        let a = self.sum()?;
        self.expect(",")?;
        let b = self.sum()?;
        self.expect(")")?;
        Ok(function(&a, &b))
    }
}
