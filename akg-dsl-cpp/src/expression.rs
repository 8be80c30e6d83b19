//! Scalars, conditions and index expressions as C++ text.

use akg_core::dtype::DType;
use akg_core::expr::{Atom, Excess, Expr, Term};
use akg_core::lower::loops::ir::Scalar;
use akg_core::sketch::ir::{BinaryOp, Condition, Scalar as Constant, UnaryOp};

use crate::printer::{Printer, held_type};

impl Printer<'_> {
    pub(crate) fn condition(&mut self, condition: &Condition) -> String {
        match condition {
            Condition::Compare(op, a, b) => {
                let (a, b) = (self.index(a), self.index(b));
                format!("{a} {} {b}", op.name())
            }
            Condition::And(a, b) => {
                let (a, b) = (self.condition_operand(a), self.condition_operand(b));
                format!("{a} && {b}")
            }
            Condition::Or(a, b) => {
                let (a, b) = (self.condition_operand(a), self.condition_operand(b));
                format!("{a} || {b}")
            }
            Condition::Not(a) => format!("!({})", self.condition(a)),
        }
    }

    fn condition_operand(&mut self, condition: &Condition) -> String {
        let text = self.condition(condition);
        match condition {
            Condition::Or(..) => format!("({text})"),
            _ => text,
        }
    }

    /// The offset of an element of a tensor, computed in 64 bits: compilers see through that, and not through a sum of
    /// `int` that only some iterations compute.
    pub(crate) fn offset(&mut self, expr: &Expr) -> String {
        self.sum(expr, true)
    }

    /// An index expression; sums are not in parentheses.
    pub(crate) fn index(&mut self, expr: &Expr) -> String {
        self.sum(expr, false)
    }

    fn sum(&mut self, expr: &Expr, wide: bool) -> String {
        let mut terms: Vec<&Term> = expr.terms().iter().collect();
        // So that `-1` comes last.
        terms.sort_by_key(|t| {
            let small = if wide { -t.coefficient.abs() } else { 0 };
            (t.factors.is_empty(), t.coefficient < 0, small)
        });
        let mut text = String::new();
        for term in terms {
            let magnitude = term.coefficient.unsigned_abs();
            match (text.is_empty(), term.coefficient < 0) {
                (true, true) => text.push('-'),
                (true, false) => {}
                (false, true) => text.push_str(" - "),
                (false, false) => text.push_str(" + "),
            }
            let mut factors: Vec<String> = term.factors.iter().map(|atom| self.atom(atom)).collect();
            if magnitude != 1 || factors.is_empty() {
                let single = Expr::from(vec![term.clone()]);
                let fits = self
                    .kernel
                    .bounds(&single)
                    .is_some_and(|(lo, hi)| i32::try_from(lo).is_ok() && i32::try_from(hi).is_ok());
                let suffix = if fits && !wide { "" } else { "L" };
                factors.push(format!("{magnitude}{suffix}"));
            }
            text.push_str(&factors.join(" * "));
        }
        if text.is_empty() { "0".to_owned() } else { text }
    }

    fn index_operand(&mut self, expr: &Expr) -> String {
        let text = self.index(expr);
        if expr.as_symbol().is_some() || expr.as_const().is_some_and(|v| v >= 0) {
            text
        } else {
            format!("({text})")
        }
    }

    fn atom(&mut self, atom: &Atom) -> String {
        let plain = |printer: &Self, a: &Expr, b: &Expr| {
            printer.kernel.bounds(a).is_some_and(|r| r.0 >= 0)
                && printer.kernel.bounds(b).is_some_and(|r| r.0 > 0)
        };
        match atom {
            Atom::Sym(name) => name.to_string(),
            Atom::FloorDiv(a, b) if plain(self, a, b) => {
                format!("({} / {})", self.index_operand(a), self.index_operand(b))
            }
            Atom::FloorDiv(a, b) => self.index_call("akg_floor_div", a, b),
            Atom::CeilDiv(a, b) => {
                // ceil(a / b) = -floor(-a / b)
                let negated = self.index_call("akg_floor_div", &-a.clone(), b);
                format!("(-{negated})")
            }
            Atom::Mod(a, b) if plain(self, a, b) => {
                format!("({} % {})", self.index_operand(a), self.index_operand(b))
            }
            Atom::Mod(a, b) => self.index_call("akg_floor_mod", a, b),
            Atom::Min(a, b) => self.index_call("akg_min", a, b),
            Atom::Max(a, b) => self.index_call("akg_max", a, b),
            Atom::Excess(_) => Excess::IDENTIFIER.to_owned(),
        }
    }

    fn index_call(&mut self, name: &'static str, a: &Expr, b: &Expr) -> String {
        let name = self.prelude(name);
        let (a, b) = (self.index(a), self.index(b));
        format!("{name}<int64_t>({a}, {b})")
    }

    /// An expression that stands alone.
    pub(crate) fn whole(&mut self, scalar: &Scalar) -> String {
        let text = self.scalar(scalar);
        let wrapped = matches!(
            scalar,
            Scalar::Binary(..)
                | Scalar::Compare(..)
                | Scalar::Select(_)
                | Scalar::Guarded(..)
                | Scalar::Unary(..)
        );
        match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
            Some(inner) if wrapped && balanced(inner) => inner.to_owned(),
            _ => text,
        }
    }

    /// An expression, in parentheses unless it binds tightly.
    fn scalar(&mut self, scalar: &Scalar) -> String {
        match scalar {
            Scalar::Const(dtype, value) => constant(*dtype, *value),
            Scalar::Index(dtype, expr) => format!("{}({})", held_type(*dtype), self.index(expr)),
            Scalar::Var(name) => name.to_string(),
            Scalar::Local(local, offset) => self.place(*local, offset),
            Scalar::Tensor(tensor, offset) => {
                let Some(param) = self.param(*tensor).cloned() else {
                    return String::new();
                };
                let element = format!("{}[{}]", param.name, self.offset(offset));
                match param.dtype {
                    DType::F16 | DType::BF16 => format!("float({element})"),
                    DType::Bool => format!("({element} != 0)"),
                    _ => element,
                }
            }
            Scalar::Unary(op, dtype, a) => self.unary(*op, *dtype, a),
            Scalar::Binary(op, dtype, operands) => {
                let [a, b] = &**operands;
                self.binary(*op, *dtype, a, b)
            }
            Scalar::Compare(op, _, operands) => {
                let [a, b] = &**operands;
                let (a, b) = (self.scalar(a), self.scalar(b));
                format!("({a} {} {b})", op.name())
            }
            Scalar::Select(operands) => {
                let [c, a, b] = &**operands;
                let (c, a, b) = (self.scalar(c), self.scalar(a), self.scalar(b));
                format!("({c} ? {a} : {b})")
            }
            Scalar::Guarded(condition, operands) => {
                let [value, fill] = &**operands;
                let condition = self.condition(condition);
                let (value, fill) = (self.scalar(value), self.scalar(fill));
                format!("({condition} ? {value} : {fill})")
            }
            Scalar::Cast { from, to, value } => self.cast(*from, *to, value),
            Scalar::Bits { from, to, value } => {
                let function = self.prelude("akg_bits");
                let mut operand = self.whole(value);
                if matches!(from, DType::F16 | DType::BF16) {
                    operand = format!("{}({operand})", self.element_type(*from));
                }
                let ty = self.element_type(*to);
                match to {
                    DType::F16 | DType::BF16 => format!("float({function}<{ty}>({operand}))"),
                    _ => format!("{function}<{ty}>({operand})"),
                }
            }
            Scalar::Tf32(a) => {
                let function = self.prelude("akg_round_tf32");
                format!("{function}({})", self.whole(a))
            }
        }
    }

    /// Rounds the text of a float computation to a half-precision type.
    fn rounded(&mut self, dtype: DType, text: String) -> String {
        match dtype {
            DType::F16 => format!("{}({text})", self.prelude("akg_round_f16")),
            DType::BF16 => format!("{}({text})", self.prelude("akg_round_bf16")),
            _ => text,
        }
    }

    fn unary(&mut self, op: UnaryOp, dtype: DType, a: &Scalar) -> String {
        let is_float = dtype.is_float();
        let ty = held_type(dtype);
        let function = match op {
            UnaryOp::Neg => {
                let a = self.scalar(a);
                return match dtype {
                    _ if is_float => format!("(-{a})"),
                    DType::I32 => format!("int32_t(0u - uint32_t({a}))"),
                    DType::I64 => format!("int64_t(0u - uint64_t({a}))"),
                    _ => format!("{ty}(-{a})"),
                };
            }
            UnaryOp::Not => {
                let a = self.scalar(a);
                return match dtype {
                    DType::Bool => format!("(!{a})"),
                    _ => format!("{ty}(~{a})"),
                };
            }
            UnaryOp::IsNan => {
                let a = self.scalar(a);
                return if is_float {
                    format!("({a} != {a})")
                } else {
                    "false".to_owned()
                };
            }
            UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc if !is_float => {
                return self.scalar(a);
            }
            UnaryOp::Abs => "akg_abs",
            UnaryOp::Exp => "akg_exp",
            UnaryOp::Exp2 => "akg_exp2",
            UnaryOp::Expm1 => "akg_expm1",
            UnaryOp::Log => "akg_log",
            UnaryOp::Log2 => "akg_log2",
            UnaryOp::Log1p => "akg_log1p",
            UnaryOp::Sqrt => "akg_sqrt",
            UnaryOp::Rsqrt => "akg_rsqrt",
            UnaryOp::Sin => "akg_sin",
            UnaryOp::Cos => "akg_cos",
            UnaryOp::Tanh => "akg_tanh",
            UnaryOp::Erf => "akg_erf",
            UnaryOp::Sigmoid => "akg_sigmoid",
            UnaryOp::Floor => "akg_floor",
            UnaryOp::Ceil => "akg_ceil",
            UnaryOp::Round => "akg_round",
            UnaryOp::Trunc => "akg_trunc",
            UnaryOp::Pow2Floor => "akg_pow2_floor",
        };
        let function = self.prelude(function);
        let text = format!("{function}({})", self.whole(a));
        self.rounded(dtype, text)
    }

    fn binary(&mut self, op: BinaryOp, dtype: DType, a: &Scalar, b: &Scalar) -> String {
        let ty = held_type(dtype);
        let operator = match op {
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::And => "&",
            BinaryOp::Or => "|",
            BinaryOp::Xor => "^",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::FloorDiv | BinaryOp::Mod | BinaryOp::Min | BinaryOp::Max | BinaryOp::Pow => {
                let function = self.prelude(match op {
                    BinaryOp::FloorDiv => "akg_floor_div",
                    BinaryOp::Mod => "akg_floor_mod",
                    BinaryOp::Min if is_number(b) => "akg_at_most",
                    BinaryOp::Max if is_number(b) => "akg_at_least",
                    BinaryOp::Min => "akg_min",
                    BinaryOp::Max => "akg_max",
                    _ => "akg_pow",
                });
                let (a, b) = (self.whole(a), self.whole(b));
                let text = format!("{function}({a}, {b})");
                return self.rounded(dtype, text);
            }
            BinaryOp::Ldexp | BinaryOp::Philox => {
                let function = self.prelude(if op == BinaryOp::Ldexp {
                    "akg_ldexp"
                } else {
                    "akg_philox"
                });
                let (a, b) = (self.whole(a), self.whole(b));
                let text = format!("{function}({a}, {b})");
                return self.rounded(dtype, text);
            }
        };
        let (a, b) = (self.scalar(a), self.scalar(b));
        // Signed overflow and shifts of negative numbers wrap.
        let wraps = matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl);
        match dtype {
            DType::I32 if wraps => format!("int32_t(uint32_t({a}) {operator} uint32_t({b}))"),
            DType::I64 if wraps => format!("int64_t(uint64_t({a}) {operator} uint64_t({b}))"),
            DType::I32 | DType::I64 | DType::F32 | DType::F64 => format!("({a} {operator} {b})"),
            DType::F16 | DType::BF16 => self.rounded(dtype, format!("{a} {operator} {b}")),
            DType::I8 | DType::I16 if op == BinaryOp::Shl => format!("{ty}(uint32_t({a}) << {b})"),
            _ => format!("{ty}({a} {operator} {b})"),
        }
    }

    fn cast(&mut self, from: DType, to: DType, value: &Scalar) -> String {
        if from == to {
            return self.scalar(value);
        }
        if to == DType::Bool {
            return format!("({} != 0)", self.scalar(value));
        }
        let whole = self.whole(value);
        let ty = held_type(to);
        match (from.is_float(), to) {
            (true, DType::F32) if from != DType::F64 => self.scalar(value),
            (true, DType::F16 | DType::BF16) => self.rounded(to, whole),
            (false, DType::F16 | DType::BF16) => self.rounded(to, format!("double({whole})")),
            (true, to) if !to.is_float() => {
                let function = self.prelude("akg_to_int");
                format!("{function}<{ty}>({whole})")
            }
            _ => format!("{ty}({whole})"),
        }
    }
}

/// Whether the value is known not to be NaN.
fn is_number(scalar: &Scalar) -> bool {
    match scalar {
        Scalar::Const(_, Constant::Float(v)) => !v.is_nan(),
        Scalar::Const(..) | Scalar::Index(..) => true,
        _ => false,
    }
}

/// Whether no parenthesis of the text closes one before it.
fn balanced(text: &str) -> bool {
    let mut depth = 0i32;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    true
}

fn constant(dtype: DType, value: Constant) -> String {
    if !dtype.is_float() {
        let value = match value {
            Constant::Int(v) => v,
            Constant::Float(v) if dtype == DType::Bool => i64::from(v != 0.0),
            Constant::Float(v) => dtype.truncate(v),
        };
        return match dtype {
            DType::Bool => (value != 0).to_string(),
            DType::I64 if value == i64::MIN => "INT64_MIN".to_owned(),
            DType::I64 => format!("INT64_C({value})"),
            DType::I32 if value == i64::from(i32::MIN) => "INT32_MIN".to_owned(),
            DType::I32 if value >= 0 => value.to_string(),
            other => format!("{}({value})", held_type(other)),
        };
    }
    let value = match value {
        Constant::Int(v) => v as f64,
        Constant::Float(v) => v,
    };
    let is_double = dtype == DType::F64;
    let text = match (value.is_nan(), value.is_infinite(), is_double) {
        (true, _, true) => "__builtin_nan(\"\")".to_owned(),
        (true, _, false) => "__builtin_nanf(\"\")".to_owned(),
        (_, true, true) => "__builtin_inf()".to_owned(),
        (_, true, false) => "__builtin_inff()".to_owned(),
        (_, _, true) => format!("{:?}", value.abs()),
        (_, _, false) => format!("{:?}f", (value as f32).abs()),
    };
    if value.is_sign_negative() && !value.is_nan() {
        format!("(-{text})")
    } else {
        text
    }
}
