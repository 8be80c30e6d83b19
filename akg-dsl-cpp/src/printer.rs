//! Kernels of loops as C++ text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use akg_core::dtype::DType;
use akg_core::expr::{Atom, Expr, Term};
use akg_core::lower::loops::ir::{
    Accumulation, Dot, Local, LocalId, LoopKernel, LoopKind, Param, Scalar, Stmt,
};
use akg_core::sketch::ir::{
    BinaryOp, CompareOp, Condition, ReduceOp, Scalar as Constant, StoreMode, TensorId, UnaryOp,
};

/// Names that a kernel must not give to anything.
pub(crate) const RESERVED: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "and_eq",
    "asm",
    "auto",
    "bitand",
    "bitor",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "char16_t",
    "char32_t",
    "char8_t",
    "class",
    "co_await",
    "co_return",
    "co_yield",
    "compl",
    "concept",
    "const",
    "const_cast",
    "consteval",
    "constexpr",
    "constinit",
    "continue",
    "decltype",
    "default",
    "delete",
    "dims",
    "do",
    "double",
    "dynamic_cast",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "first",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "int16_t",
    "int32_t",
    "int64_t",
    "int8_t",
    "last",
    "linux",
    "long",
    "main",
    "mutable",
    "namespace",
    "new",
    "noexcept",
    "not",
    "not_eq",
    "nullptr",
    "operator",
    "or",
    "or_eq",
    "private",
    "protected",
    "public",
    "register",
    "reinterpret_cast",
    "requires",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "static_assert",
    "static_cast",
    "struct",
    "switch",
    "team",
    "template",
    "tensors",
    "this",
    "thread_local",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "uint16_t",
    "uint32_t",
    "uint64_t",
    "uint8_t",
    "union",
    "unix",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "wchar_t",
    "while",
    "xor",
    "xor_eq",
];

/// Locals above this size in bytes are kept out of the stack.
const STACK_LIMIT: usize = 32 << 10;

/// The C++ type of a tensor element in memory.
pub(crate) fn element_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool | DType::U8 => "uint8_t",
        DType::F16 => "akg_f16",
        DType::BF16 => "akg_bf16",
        other => held_type(other),
    }
}

/// The C++ type that computation holds an element in.
fn held_type(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "bool",
        DType::U8 => "uint8_t",
        DType::I8 => "int8_t",
        DType::I16 => "int16_t",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        DType::F64 => "double",
        _ => "float",
    }
}

/// The kernel as a function of the CPU calling convention, and the prelude sections that it uses.
pub(crate) fn print(kernel: &LoopKernel) -> (String, BTreeSet<&'static str>) {
    let mut printer = Printer {
        kernel,
        out: String::new(),
        indent: 0,
        used: BTreeSet::new(),
    };
    printer.function();
    (printer.out, printer.used)
}

struct Printer<'a> {
    kernel: &'a LoopKernel,
    out: String,
    indent: usize,
    used: BTreeSet<&'static str>,
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", 2 * self.indent);
    }

    /// A call of a prelude function.
    fn prelude(&mut self, name: &'static str) -> &'static str {
        self.used.insert(name);
        name
    }

    fn local(&self, id: LocalId) -> Option<&Local> {
        self.kernel.locals.get(id.0)
    }

    fn param(&self, tensor: TensorId) -> Option<&Param> {
        self.kernel.params.iter().find(|p| p.tensor == tensor)
    }

    fn element_type(&mut self, dtype: DType) -> &'static str {
        let name = element_type(dtype);
        if matches!(dtype, DType::F16 | DType::BF16) {
            self.used.insert(name);
        }
        name
    }

    fn function(&mut self) {
        let kernel = self.kernel;
        for line in kernel.doc.lines() {
            self.line(&format!("// {line}"));
        }
        let arguments = if kernel.cooperative {
            self.used.insert("akg_team");
            format!(
                "void *const *tensors, const int64_t *dims, int64_t {}, const akg_team *team",
                kernel.program
            )
        } else {
            "void *const *tensors, const int64_t *dims, int64_t first, int64_t last".to_owned()
        };
        self.line(&format!("extern \"C\" void {}({arguments}) {{", kernel.name));
        self.indent += 1;
        for (i, param) in kernel.params.iter().enumerate() {
            let constant = if param.written { "" } else { "const " };
            // Other threads write these between barriers.
            let alone = if param.written && kernel.cooperative {
                ""
            } else {
                "__restrict "
            };
            let ty = self.element_type(param.dtype);
            let name = &param.name;
            self.line(&format!(
                "{constant}{ty} *{alone}{name} = static_cast<{constant}{ty} *>(tensors[{i}]);"
            ));
        }
        for (i, dim) in kernel.dims.iter().enumerate() {
            self.line(&format!("const int64_t {dim} = dims[{i}];"));
        }
        if !kernel.cooperative {
            let program = &kernel.program;
            self.line(&format!(
                "for (int64_t {program} = first; {program} < last; ++{program}) {{"
            ));
            self.indent += 1;
        }
        for (symbol, value) in &kernel.indices {
            let value = self.index(value);
            self.line(&format!("const int64_t {symbol} = {value};"));
        }
        self.block(&kernel.body);
        if !kernel.cooperative {
            self.indent -= 1;
            self.line("}");
        }
        self.indent -= 1;
        self.line("}");
    }

    fn block(&mut self, stmts: &[Stmt]) {
        let mut rest = stmts;
        while let [stmt, tail @ ..] = rest {
            rest = tail;
            if let (Stmt::Declare(id), [Stmt::Set { local, value, .. }, after @ ..]) = (stmt, tail)
                && let (true, Some(declared)) =
                    (id == local, self.local(*id).filter(|l| l.len.is_none()).cloned())
            {
                let value = self.whole(value);
                self.line(&format!(
                    "{} {} = {value};",
                    held_type(declared.dtype),
                    declared.name
                ));
                rest = after;
                continue;
            }
            self.statement(stmt);
        }
    }

    fn braced(&mut self, head: &str, body: &[Stmt]) {
        self.line(&format!("{head} {{"));
        self.indent += 1;
        self.block(body);
        self.indent -= 1;
    }

    fn statement(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Comment(text) => self.line(&format!("// {text}")),
            Stmt::Declare(id) => self.declare(*id),
            Stmt::Let { name, dtype, value } => {
                let ty = dtype.map_or("int64_t", held_type);
                let value = self.whole(value);
                self.line(&format!("const {ty} {name} = {value};"));
            }
            Stmt::Clip {
                lo,
                hi,
                start,
                step,
                extent,
                len,
            } => {
                let (start, extent) = (self.index(start), self.index(extent));
                for (bound, function) in [(lo, "akg_clip_lo"), (hi, "akg_clip_hi")] {
                    if let Some(bound) = bound {
                        let function = self.prelude(function);
                        self.line(&format!(
                            "const int {bound} = {function}({start}, {step}, {extent}, {len});"
                        ));
                    }
                }
            }
            Stmt::For {
                symbol,
                lo,
                hi,
                step,
                kind,
                body,
            } => {
                let (lo, hi) = (self.index(lo), self.index(hi));
                let ty = match kind {
                    LoopKind::Sketch { unroll } => {
                        if *unroll {
                            self.line("#pragma GCC unroll 16");
                        }
                        "int64_t"
                    }
                    LoopKind::Tile => "int",
                    LoopKind::Vector(accumulators) => {
                        self.vector_hint(accumulators);
                        "int"
                    }
                };
                let step = match step {
                    1 => format!("++{symbol}"),
                    step => format!("{symbol} += {step}"),
                };
                self.braced(
                    &format!("for ({ty} {symbol} = {lo}; {symbol} < {hi}; {step})"),
                    body,
                );
                self.line("}");
            }
            Stmt::If {
                condition,
                then,
                otherwise,
            } => {
                let condition = self.condition(condition);
                self.braced(&format!("if ({condition})"), then);
                if !otherwise.is_empty() {
                    self.braced("} else", otherwise);
                }
                self.line("}");
            }
            Stmt::Set { local, offset, value } => {
                let value = self.whole(value);
                let place = self.place(*local, offset);
                self.line(&format!("{place} = {value};"));
            }
            Stmt::Store {
                tensor,
                offset,
                mode,
                value,
            } => self.store(*tensor, offset, *mode, value),
            Stmt::Transpose {
                from,
                extents: [rows, columns],
                to,
                stride,
            } => {
                let function = self.prelude("akg_transpose");
                let name = |id: &LocalId| self.local(*id).map_or("", |l| l.name.as_str());
                let line = format!(
                    "{function}<{rows}, {columns}>({}, {}, {stride});",
                    name(from),
                    name(to)
                );
                self.line(&line);
            }
            Stmt::Dot(dot) => self.dot(dot),
            Stmt::Barrier => self.line("team->barrier(team->context);"),
        }
    }

    fn declare(&mut self, id: LocalId) {
        let Some(local) = self.local(id).cloned() else {
            return;
        };
        let (ty, name) = (held_type(local.dtype), &local.name);
        match local.len {
            None => self.line(&format!("{ty} {name};")),
            Some(len) => {
                let keep = if len * local.dtype.size() > STACK_LIMIT {
                    "static thread_local "
                } else {
                    ""
                };
                self.line(&format!("alignas(64) {keep}{ty} {name}[{}];", len.max(1)));
            }
        }
    }

    fn vector_hint(&mut self, accumulators: &[(Accumulation, LocalId)]) {
        let mut hint = "#pragma omp simd".to_owned();
        for (accumulation, id) in accumulators {
            let Some(local) = self.local(*id) else { return };
            // OpenMP has no reductions of bool.
            if local.dtype == DType::Bool {
                return;
            }
            let operator = match accumulation {
                Accumulation::Reduce(ReduceOp::Sum) => "+",
                Accumulation::Reduce(ReduceOp::Prod) => "*",
                Accumulation::Reduce(ReduceOp::Max) => "max",
                Accumulation::Reduce(ReduceOp::Min) => "min",
                Accumulation::Or => "|",
            };
            let _ = write!(hint, " reduction({operator} : {})", local.name);
        }
        self.line(&hint);
    }

    fn place(&mut self, local: LocalId, offset: &Expr) -> String {
        let Some(local) = self.local(local).cloned() else {
            return String::new();
        };
        match local.len {
            None => local.name,
            Some(_) => format!("{}[{}]", local.name, self.index(offset)),
        }
    }

    fn store(&mut self, tensor: TensorId, offset: &Expr, mode: StoreMode, value: &Scalar) {
        let Some(param) = self.param(tensor).cloned() else {
            return;
        };
        let is_half = matches!(param.dtype, DType::F16 | DType::BF16);
        let value = self.whole(value);
        let place = format!("{}[{}]", param.name, self.index(offset));
        let ty = self.element_type(param.dtype);
        match mode {
            StoreMode::Set if is_half => self.line(&format!("{place} = {ty}({value});")),
            StoreMode::Set => self.line(&format!("{place} = {value};")),
            StoreMode::AtomicAdd => {
                let function = self.prelude(if is_half {
                    "akg_atomic_add_half"
                } else {
                    "akg_atomic_add"
                });
                self.line(&format!("{function}<{ty}>(&{place}, {value});"));
            }
        }
    }

    fn dot(&mut self, dot: &Dot) {
        let function = self.prelude("akg_dot");
        let name = |id: LocalId| self.local(id).map_or("", |l| l.name.as_str());
        let [m, n, k] = dot.extents;
        let [rows, vectors] = dot.block;
        let line = format!(
            "{function}<{m}, {n}, {k}, {rows}, {vectors}, {}, {}>({}, {}, {}, {}, {}, {});",
            dot.chunk,
            dot.direct,
            name(dot.a),
            dot.a_strides[0],
            dot.a_strides[1],
            name(dot.b),
            dot.b_stride,
            name(dot.c)
        );
        self.line(&line);
    }

    fn condition(&mut self, condition: &Condition) -> String {
        match condition {
            Condition::Compare(op, a, b) => {
                let (a, b) = (self.index(a), self.index(b));
                format!("{a} {} {b}", sign(*op))
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

    /// An index expression; sums are not in parentheses.
    fn index(&mut self, expr: &Expr) -> String {
        let mut text = String::new();
        // Symbols first, so that `-1` comes last.
        let (constants, others): (Vec<&Term>, Vec<&Term>) =
            expr.terms().iter().partition(|t| t.factors.is_empty());
        let ordered = others
            .iter()
            .filter(|t| t.coefficient > 0)
            .chain(others.iter().filter(|t| t.coefficient < 0))
            .chain(&constants);
        for term in ordered {
            let magnitude = term.coefficient.unsigned_abs();
            match (text.is_empty(), term.coefficient < 0) {
                (true, true) => text.push('-'),
                (true, false) => {}
                (false, true) => text.push_str(" - "),
                (false, false) => text.push_str(" + "),
            }
            let mut factors: Vec<String> = term.factors.iter().map(|atom| self.atom(atom)).collect();
            if magnitude != 1 || factors.is_empty() {
                let single = Expr::from(vec![Term::clone(term)]);
                let fits = self
                    .kernel
                    .bounds(&single)
                    .is_some_and(|(lo, hi)| i32::try_from(lo).is_ok() && i32::try_from(hi).is_ok());
                factors.push(if fits {
                    magnitude.to_string()
                } else {
                    format!("{magnitude}L")
                });
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
        }
    }

    fn index_call(&mut self, name: &'static str, a: &Expr, b: &Expr) -> String {
        let name = self.prelude(name);
        let (a, b) = (self.index(a), self.index(b));
        format!("{name}<int64_t>({a}, {b})")
    }

    /// An expression that stands alone.
    fn whole(&mut self, scalar: &Scalar) -> String {
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
                let element = format!("{}[{}]", param.name, self.index(offset));
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
                format!("({a} {} {b})", sign(*op))
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
                    BinaryOp::Min => "akg_min",
                    BinaryOp::Max => "akg_max",
                    _ => "akg_pow",
                });
                let (a, b) = (self.whole(a), self.whole(b));
                let text = format!("{function}({a}, {b})");
                return self.rounded(dtype, text);
            }
            BinaryOp::Ldexp => {
                let function = self.prelude("akg_ldexp");
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

fn sign(op: CompareOp) -> &'static str {
    CompareOp::ALL
        .iter()
        .find(|(o, _)| *o == op)
        .map_or("", |(_, sign)| sign)
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
            Constant::Float(v) => v as i64,
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
