//! Text of expressions: how tightly they bind, index arithmetic, literals.

use akg_core::dtype::DType;
use akg_core::error::{Error, Result};
use akg_core::expr::{Atom, Excess, Expr};
use akg_core::lower::analysis::Facts;
use akg_core::sketch::ir::{CompareOp, Scalar};

/// Python text of an expression.
#[derive(Debug, Clone)]
pub(crate) struct Text {
    text: String,
    /// Whether it needs no parentheses beside any operator.
    tight: bool,
}

impl Text {
    /// A name, a literal, a call, a subscript.
    pub(crate) fn tight(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tight: true,
        }
    }

    /// Operands around an operator.
    pub(crate) fn loose(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tight: false,
        }
    }

    /// As an argument or the right side of an assignment.
    pub(crate) fn open(&self) -> &str {
        &self.text
    }

    /// As an operand.
    pub(crate) fn closed(&self) -> String {
        if self.tight {
            self.text.clone()
        } else {
            format!("({})", self.text)
        }
    }

    pub(crate) fn is_name(&self) -> bool {
        self.text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    }
}

/// Triton's name of an element type.
pub(crate) fn type_name(dtype: DType) -> Result<&'static str> {
    Ok(match dtype {
        DType::Bool => "tl.int1",
        DType::U8 => "tl.uint8",
        DType::I8 => "tl.int8",
        DType::I16 => "tl.int16",
        DType::I32 => "tl.int32",
        DType::I64 => "tl.int64",
        DType::F16 => "tl.float16",
        DType::BF16 => "tl.bfloat16",
        DType::F32 => "tl.float32",
        DType::F64 => "tl.float64",
        other => {
            return Err(Error::unsupported(format!(
                "Triton has no element type for {other}"
            )));
        }
    })
}

pub(crate) fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

pub(crate) fn literal(scalar: Scalar) -> String {
    match scalar {
        Scalar::Int(i) => i.to_string(),
        Scalar::Float(f) if f.is_finite() => format!("{f:?}"),
        Scalar::Float(f) if f.is_nan() => "float(\"nan\")".to_owned(),
        Scalar::Float(f) => format!("float(\"{}inf\")", if f < 0.0 { "-" } else { "" }),
    }
}

/// A Python tuple.
pub(crate) fn tuple<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    match items.as_slice() {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}

/// The subscript that makes a rank-1 tile an axis of a tile of `rank`.
pub(crate) fn expand(axis: usize, rank: usize) -> String {
    if rank < 2 {
        return String::new();
    }
    let entries: Vec<&str> = (0..rank).map(|i| if i == axis { ":" } else { "None" }).collect();
    format!("[{}]", entries.join(", "))
}

/// The sign of a comparison.
pub(crate) fn compare(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Gt => ">",
        CompareOp::Ge => ">=",
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
    }
}

/// Prints index arithmetic.
pub(crate) struct Indices<'a> {
    /// What is known of the symbols.
    pub(crate) facts: &'a Facts,
    /// The variable of a symbol.
    pub(crate) symbol: &'a dyn Fn(&str) -> String,
    /// Told of each function of the prelude that the text calls.
    pub(crate) call: &'a mut dyn FnMut(&'static str),
}

impl Indices<'_> {
    /// Triton's `//` and `%` truncate: they serve where nothing is negative.
    pub(crate) fn text(&mut self, expr: &Expr) -> Text {
        let terms = expr.terms();
        if let [term] = terms
            && let ([atom], 1) = (term.factors.as_slice(), term.coefficient)
        {
            return self.atom(atom);
        }
        let mut text = String::new();
        // What is added comes before what is subtracted, and variables before the constant.
        let mut terms: Vec<_> = terms.iter().collect();
        terms.sort_by_key(|t| (t.coefficient < 0, t.factors.is_empty()));
        for term in &terms {
            let coefficient = term.coefficient.unsigned_abs();
            let sign = match (text.is_empty(), term.coefficient < 0) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            let mut factors: Vec<String> = term.factors.iter().map(|a| self.atom(a).closed()).collect();
            if factors.is_empty() || coefficient != 1 {
                factors.push(coefficient.to_string());
            }
            text += sign;
            text += &factors.join(" * ");
        }
        match terms.as_slice() {
            [] => Text::tight("0"),
            [term] if term.factors.is_empty() && term.coefficient >= 0 => Text::tight(text),
            _ => Text::loose(text),
        }
    }

    fn closed(&mut self, expr: &Expr) -> String {
        self.text(expr).closed()
    }

    fn open(&mut self, expr: &Expr) -> String {
        self.text(expr).open().to_owned()
    }

    fn atom(&mut self, atom: &Atom) -> Text {
        let rounds_down = |a: &Expr, b: &Expr| {
            self.facts.non_negative(a) && self.facts.range(b).is_some_and(|(lo, _)| lo > 0)
        };
        match atom {
            Atom::Sym(name) => Text::tight((self.symbol)(name)),
            Atom::FloorDiv(a, b) if rounds_down(a, b) => {
                Text::loose(format!("{} // {}", self.closed(a), self.closed(b)))
            }
            Atom::FloorDiv(a, b) => {
                (self.call)("akg_floordiv");
                Text::tight(format!("akg_floordiv({}, {})", self.open(a), self.open(b)))
            }
            Atom::CeilDiv(a, b) if rounds_down(a, b) => {
                Text::tight(format!("tl.cdiv({}, {})", self.open(a), self.open(b)))
            }
            Atom::CeilDiv(a, b) => {
                (self.call)("akg_floordiv");
                Text::loose(format!("-akg_floordiv({}, {})", self.open(&-a), self.open(b)))
            }
            Atom::Mod(a, b) if rounds_down(a, b) => {
                Text::loose(format!("{} % {}", self.closed(a), self.closed(b)))
            }
            Atom::Mod(a, b) => {
                (self.call)("akg_mod");
                Text::tight(format!("akg_mod({}, {})", self.open(a), self.open(b)))
            }
            Atom::Min(a, b) => Text::tight(format!("tl.minimum({}, {})", self.open(a), self.open(b))),
            Atom::Max(a, b) => Text::tight(format!("tl.maximum({}, {})", self.open(a), self.open(b))),
            Atom::Excess(_) => Text::tight(Excess::IDENTIFIER),
        }
    }
}
