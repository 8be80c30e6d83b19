//! Declarations.

use super::{MAX_ITEMS, Parsed, Parser, texts};
use crate::diagnostic::{Diagnostic, closest};
use crate::dtype::DType;
use crate::error::Error;
use crate::sketch::lex::Token;
use crate::sketch::syntax::*;

/// What begins a declaration or a kernel.
const ITEMS: [&str; 8] = [
    "param", "let", "knob", "hint", "require", "buffer", "accuracy", "kernel",
];

impl Parser<'_> {
    pub(super) fn sketch(&mut self) -> Parsed<SketchTree> {
        let doc = texts(self.comments());
        self.expect_word("sketch", "to begin: `sketch NAME(x: f32[M]) -> y: f32[M]`")?;
        let name = self.name("the sketch's name")?;
        self.expect_sign("(", "before the inputs")?;
        let inputs = self.list(")", "after an input", Self::tensor)?;
        self.expect_sign("->", "before the outputs")?;
        let outputs = if self.eat_sign("(") {
            self.list(")", "after an output", Self::output)?
        } else {
            vec![self.output()?]
        };
        let (mut items, mut kernels) = (Vec::new(), Vec::new());
        loop {
            let comments = self.comments();
            if self.peek() == Token::End {
                break;
            }
            let start = self.here().start;
            let count = inputs.len() + outputs.len() + items.len();
            if count > MAX_ITEMS || kernels.len() >= MAX_ITEMS {
                let message =
                    format!("more than {MAX_ITEMS} inputs, outputs and declarations, or as many kernels");
                return Err(Diagnostic::error(message, self.here()));
            }
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
            Token::Word(w) => ITEMS.contains(&w),
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
        Ok(TensorSyntax {
            name,
            dtype,
            shape,
            updates: None,
        })
    }

    fn output(&mut self) -> Parsed<TensorSyntax> {
        let mut output = self.tensor()?;
        if self.eat_word("updates") {
            output.updates = Some(self.name("the input that the output begins as")?);
        }
        Ok(output)
    }

    fn item(&mut self) -> Parsed<Item> {
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
            "accuracy" => {
                self.bump();
                let class = self.name("an accuracy class, as in `accuracy tf32`")?;
                let parsed = class.node.parse();
                let parsed = parsed.map_err(|e: Error| Diagnostic::error(e.message(), class.span.clone()))?;
                Ok(Item::Accuracy(Spanned::new(parsed, class.span)))
            }
            word => {
                let error = self.expected(
                    "a declaration (param, let, knob, hint, require, buffer, accuracy) or a kernel",
                );
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
        let (mut grouped, mut cooperative, mut views) = (None, None, Vec::new());
        loop {
            if grouped.is_none() && self.eat_word("grouped") {
                let axis = self.name("the grid index to group")?;
                self.expect_word("by", "and the group's size, as in `grouped m by 8`")?;
                grouped = Some((axis, self.expr()?));
            } else if cooperative.is_none() && self.eat_word("cooperative") {
                let mut along = Vec::new();
                if self.eat_word("along") {
                    along.push(self.name("a grid index in which programs that meet differ")?);
                    while self.eat_sign(",") {
                        along.push(self.name("a grid index in which programs that meet differ")?);
                    }
                }
                cooperative = Some(along);
            } else if views.is_empty() && self.eat_word("seeing") {
                views.push(self.view()?);
                while self.eat_sign(",") {
                    views.push(self.view()?);
                }
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
            views,
            body,
            doc,
        })
    }

    fn view(&mut self) -> Parsed<(Name, Vec<Ex>)> {
        let tensor = self.name("a tensor that is seen in other extents")?;
        self.expect_word("as", "and the extents, as in `seeing x as [M*N]`")?;
        self.expect_sign("[", "before the extents")?;
        Ok((tensor, self.list("]", "after an extent", Self::expr)?))
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
