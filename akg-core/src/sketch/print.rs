//! Writes a syntax tree as canonical sketch text, which parses back to the same tree.

use std::fmt::{self, Display, Formatter, Write};

use super::Sketch;
use super::parse::{BINARY, COMPARISON};
use super::syntax::*;

impl Display for Sketch {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.tree.fmt(f)
    }
}

impl Display for SketchTree {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        comments(f, &self.doc)?;
        write!(f, "sketch {}({}) -> ", self.name.node, Commas(&self.inputs))?;
        match self.outputs.as_slice() {
            [output] => writeln!(f, "{output}")?,
            outputs => writeln!(f, "({})", Commas(outputs))?,
        }
        for item in &self.items {
            writeln!(f, "{}", item.node)?;
        }
        for kernel in &self.kernels {
            writeln!(f)?;
            kernel.node.fmt(f)?;
        }
        Ok(())
    }
}

impl Display for TensorSyntax {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {}[{}]",
            self.name.node,
            self.dtype.node,
            Commas(&self.shape)
        )?;
        match &self.updates {
            Some(input) => write!(f, " updates {}", input.node),
            None => Ok(()),
        }
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Item::Param { name, dtype, value } => {
                write!(f, "param {}", name.node)?;
                if let Some(dtype) = dtype {
                    write!(f, ": {dtype}")?;
                }
                optional(f, " = ", value.as_ref())
            }
            Item::Let { name, value } => write!(f, "let {} = {value}", name.node),
            Item::Knob { name, values, hint } => {
                let keyword = if *hint { "hint" } else { "knob" };
                write!(f, "{keyword} {} in {{{}}}", name.node, Commas(values))
            }
            Item::Require(condition) => write!(f, "require {condition}"),
            Item::Buffer { tensor, align } => {
                write!(f, "buffer {tensor}")?;
                optional(f, " align ", align.as_ref())
            }
            Item::Accuracy(class) => write!(f, "accuracy {}", class.node),
            Item::Comment(text) => comment(f, text),
        }
    }
}

impl Display for KernelSyntax {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        comments(f, &self.doc)?;
        write!(f, "kernel {}", self.name.node)?;
        if let Some(template) = &self.template {
            write!(f, " for ({}) in {{", Commas(&template.names))?;
            for (i, row) in template.rows.iter().enumerate() {
                let comma = if i > 0 { ", " } else { "" };
                write!(f, "{comma}({})", Commas(row))?;
            }
            f.write_char('}')?;
        }
        f.write_str(" over (")?;
        for (i, (name, extent)) in self.grid.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{} in {extent}", name.node)?;
        }
        f.write_char(')')?;
        if let Some((axis, size)) = &self.grouped {
            write!(f, " grouped {} by {size}", axis.node)?;
        }
        if let Some(along) = &self.cooperative {
            f.write_str(" cooperative")?;
            for (i, name) in along.iter().enumerate() {
                let sign = if i > 0 { "," } else { " along" };
                write!(f, "{sign} {}", name.node)?;
            }
        }
        for (i, (tensor, extents)) in self.views.iter().enumerate() {
            let sign = if i > 0 { "," } else { " seeing" };
            write!(f, "{sign} {} as [{}]", tensor.node, Commas(extents))?;
        }
        f.write_char(' ')?;
        block(f, 0, &self.body)?;
        f.write_char('\n')
    }
}

/// `{ … }` whose statements stand one level deeper than `level`.
fn block(f: &mut Formatter<'_>, level: usize, body: &[Spanned<Statement>]) -> fmt::Result {
    f.write_str("{\n")?;
    for statement in body {
        print_statement(f, level + 1, &statement.node)?;
        f.write_char('\n')?;
    }
    indent(f, level)?;
    f.write_char('}')
}

fn print_statement(f: &mut Formatter<'_>, level: usize, statement: &Statement) -> fmt::Result {
    indent(f, level)?;
    match statement {
        Statement::Assign { name, value } => write!(f, "{} = {value}", name.node),
        Statement::Store {
            tensor,
            region,
            value,
            atomic_add,
        } => {
            let sign = if *atomic_add { "+=" } else { "=" };
            write!(f, "store {}[{}] {sign} {value}", tensor.node, Commas(region))
        }
        Statement::For {
            indices,
            pipeline,
            unroll,
            body,
            combine,
        } => {
            write!(f, "for {} ", Commas(indices))?;
            if let Some(depth) = pipeline {
                write!(f, "pipeline({depth}) ")?;
            }
            if *unroll {
                f.write_str("unroll ")?;
            }
            block(f, level, body)?;
            if let Some(combine) = combine {
                f.write_str(" combine (")?;
                for (i, (left, right)) in combine.pairs.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{}: {}", left.node, right.node)?;
                }
                f.write_str(") ")?;
                block(f, level, &combine.body)?;
            }
            Ok(())
        }
        Statement::If {
            condition,
            then,
            otherwise,
        } => {
            write!(f, "if {condition} ")?;
            block(f, level, then)?;
            if !otherwise.is_empty() {
                f.write_str(" else ")?;
                block(f, level, otherwise)?;
            }
            Ok(())
        }
        Statement::Barrier => f.write_str("barrier"),
        Statement::Comment(text) => comment(f, text),
    }
}

impl Display for LoopIndex {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {}..{}", self.name.node, self.lo, self.hi)?;
        optional(f, " step ", self.step.as_ref())
    }
}

impl Display for RegionSyntax {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            RegionSyntax::Range { start, len, step } => {
                write!(f, "{start} :+ {len}")?;
                optional(f, " by ", step.as_ref())
            }
            RegionSyntax::At(at) => at.fmt(f),
        }
    }
}

impl<T: Display> Display for Spanned<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.node.fmt(f)
    }
}

/// How tightly an expression holds together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// A binary operator of the parser's table.
    Binary(u8),
    /// A sign, a load, a dot or a full tile.
    Unary,
    /// A number with a sign.
    Negative,
    /// Needs no brackets anywhere.
    Primary,
}

impl Expression {
    fn level(&self) -> Level {
        match self {
            Expression::Binary(sign, ..) => Level::Binary(binary_level(sign)),
            Expression::Unary(..)
            | Expression::Load { .. }
            | Expression::Full { .. }
            | Expression::Dot { .. } => Level::Unary,
            Expression::Int(value) if *value < 0 => Level::Negative,
            Expression::Float(value) if value.is_sign_negative() => Level::Negative,
            _ => Level::Primary,
        }
    }

    /// Whether it must not stand directly behind a sign, which would become part of it.
    fn is_number(&self) -> bool {
        matches!(self, Expression::Int(_) | Expression::Float(_))
    }

    /// A number or a name.
    fn is_simple(&self) -> bool {
        self.is_number() || matches!(self, Expression::Name(_))
    }

    fn reads_better_bracketed(&self) -> bool {
        matches!(
            self,
            Expression::Load { .. } | Expression::Full { .. } | Expression::Dot { .. }
        )
    }
}

fn binary_level(sign: &str) -> u8 {
    BINARY
        .iter()
        .find(|(s, _)| *s == sign)
        .map_or(0, |(_, level)| *level)
}

/// `operand`, in brackets if it holds together less than `least` asks.
fn operand(f: &mut Formatter<'_>, operand: &Ex, least: Level) -> fmt::Result {
    if operand.node.level() < least || operand.node.reads_better_bracketed() {
        write!(f, "({operand})")
    } else {
        operand.fmt(f)
    }
}

/// A constant after `else` or `full`.
fn constant(f: &mut Formatter<'_>, value: &Ex) -> fmt::Result {
    match &*value.node {
        Expression::Unary('-', inner)
            if matches!(*inner.node, Expression::Name(_) | Expression::Call(..)) =>
        {
            value.fmt(f)
        }
        node if node.level() >= Level::Negative && !matches!(node, Expression::Expand(..)) => value.fmt(f),
        _ => write!(f, "({value})"),
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Expression::Int(value) => value.fmt(f),
            Expression::Float(value) if value.is_nan() => f.write_str("nan"),
            Expression::Float(value) => write!(f, "{value:?}"),
            Expression::Name(name) => f.write_str(name),
            Expression::Unary('-', inner) if inner.node.is_number() => write!(f, "-({inner})"),
            Expression::Unary(sign, inner) => {
                f.write_char(*sign)?;
                operand(f, inner, Level::Unary)
            }
            Expression::Binary(sign, left, right) => {
                let level = binary_level(sign);
                let left_least = if level == COMPARISON { level + 1 } else { level };
                operand(f, left, Level::Binary(left_least))?;
                // Products inside sums read better without spaces, but `a * (…)` does not.
                if *sign == "*" && left.node.is_simple() && right.node.is_simple() {
                    f.write_str(sign)?;
                } else {
                    write!(f, " {sign} ")?;
                }
                operand(f, right, Level::Binary(level + 1))
            }
            Expression::Call(name, arguments) => write!(f, "{}({})", name.node, Commas(arguments)),
            Expression::List(values) => write!(f, "[{}]", Commas(values)),
            Expression::Expand(tile, keeps) => {
                operand(f, tile, Level::Primary)?;
                let keeps: Vec<_> = keeps.iter().map(|k| if *k { ":" } else { "None" }).collect();
                write!(f, "[{}]", Commas(&keeps))
            }
            Expression::Load { tensor, region, fill } => {
                write!(f, "load {}[{}]", tensor.node, Commas(region))?;
                match fill {
                    Some(fill) => {
                        f.write_str(" else ")?;
                        constant(f, fill)
                    }
                    None => Ok(()),
                }
            }
            Expression::Full { dtype, shape, value } => {
                let keyword = if value.is_some() { "full" } else { "zeros" };
                write!(f, "{keyword} {}[{}]", dtype.node, Commas(shape))?;
                match value {
                    Some(value) => {
                        f.write_char(' ')?;
                        constant(f, value)
                    }
                    None => Ok(()),
                }
            }
            Expression::Dot {
                a,
                b,
                init,
                method,
                promote,
            } => {
                write!(f, "dot({a}, {b}")?;
                optional(f, ", ", init.as_ref())?;
                write!(f, ") {}", method.node)?;
                match promote {
                    Some(interval) => write!(f, " promote({interval})"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Its elements with `, ` between them.
struct Commas<'a, T>(&'a [T]);

impl<T: Display> Display for Commas<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, element) in self.0.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            write!(f, "{comma}{element}")?;
        }
        Ok(())
    }
}

fn optional(f: &mut Formatter<'_>, before: &str, value: Option<&Ex>) -> fmt::Result {
    match value {
        Some(value) => write!(f, "{before}{value}"),
        None => Ok(()),
    }
}

fn indent(f: &mut Formatter<'_>, level: usize) -> fmt::Result {
    (0..level).try_for_each(|_| f.write_str("  "))
}

fn comment(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    f.write_str(if text.is_empty() { "#" } else { "# " })?;
    f.write_str(text)
}

fn comments(f: &mut Formatter<'_>, texts: &[String]) -> fmt::Result {
    for text in texts {
        comment(f, text)?;
        f.write_char('\n')?;
    }
    Ok(())
}
