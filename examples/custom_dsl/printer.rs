//! Loops as C99. What the language cannot say (half precision, atomics, barriers) is unsupported, not wrong.

use akg::DType;
use akg::expr::{Atom, Expr};
use akg::lower::loops::ir::{Address, Dot, Layout, LocalId, LoopKernel, Pack, Place, Scalar, Stmt, Sums};
use akg::sketch::ir::{BinaryOp, Condition, ReduceOp, Scalar as Constant, StoreMode, TensorId, UnaryOp};
use akg::{Error, Result};

/// Names that kernels must leave alone.
#[rustfmt::skip]
pub(crate) const RESERVED: &[&str] = &[
    "auto",
    "bool",
    "break",
    "case",
    "char",
    "const",
    "continue",
    "default",
    "dims",
    "do",
    "double",
    "else",
    "enum",
    "extern",
    "false",
    "first",
    "float",
    "for",
    "goto",
    "if",
    "inline",
    "int",
    "last",
    "long",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "tensors",
    "true",
    "typedef",
    "union",
    "unsigned",
    "void",
    "volatile",
    "while",
    "before",
    "floor_div",
    "floor_mod",
    "min_f32",
    "max_f32",
    "min_f64",
    "max_f64",
    "min_i32",
    "max_i32",
    "min_i64",
    "max_i64",
];

/// What every text begins with.
pub(crate) const PRELUDE: &str = "\
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define EXTREMES(T, NAME) \\
  static inline T min_##NAME(T a, T b) { return a < b || a != a ? a : b; } \\
  static inline T max_##NAME(T a, T b) { return a > b || a != a ? a : b; }
EXTREMES(float, f32)
EXTREMES(double, f64)
EXTREMES(int32_t, i32)
EXTREMES(int64_t, i64)

static inline int64_t floor_div(int64_t a, int64_t b) {
  return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static inline int64_t floor_mod(int64_t a, int64_t b) { return a - b * floor_div(a, b); }

// The number of indices i in 0..len with start + step * i on the near side of limit.
static inline int64_t before(int64_t start, int64_t step, int64_t limit, int64_t len) {
  const int64_t distance = step > 0 ? limit - start : start - limit, stride = step > 0 ? step : -step;
  return distance <= 0 ? 0 : min_i64((distance + stride - 1) / stride, len);
}
";

/// The head of a kernel, brace included.
pub(crate) fn signature(name: &str) -> String {
    format!("void {name}(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {{")
}

/// One kernel.
pub(crate) fn print(kernel: &LoopKernel) -> Result<String> {
    if kernel.cooperative {
        return unsupported("cooperative kernels");
    }
    let mut printer = Printer {
        kernel,
        out: format!("\n{}\n", signature(&kernel.name)),
        depth: 1,
    };
    for (i, param) in kernel.params.iter().enumerate() {
        let constant = if param.written { "" } else { "const " };
        let (ty, name) = (type_name(param.dtype)?, &param.name);
        printer.line(&format!("{constant}{ty} *restrict {name} = tensors[{i}];"));
    }
    for (i, dim) in kernel.dims.iter().enumerate() {
        printer.line(&format!("const int64_t {dim} = dims[{i}];"));
    }
    let program = &kernel.program;
    printer.line(&format!(
        "for (int64_t {program} = first; {program} < last; ++{program}) {{"
    ));
    printer.depth += 1;
    for (symbol, value) in &kernel.indices {
        printer.line(&format!("const int64_t {symbol} = {};", index(value)));
    }
    printer.block(&kernel.body)?;
    printer.out.push_str("  }\n}\n");
    Ok(printer.out)
}

struct Printer<'a> {
    kernel: &'a LoopKernel,
    out: String,
    depth: usize,
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        self.out.push_str(&"  ".repeat(self.depth));
        self.out.push_str(text);
        self.out.push('\n');
    }

    fn block(&mut self, stmts: &[Stmt]) -> Result<()> {
        stmts.iter().try_for_each(|stmt| self.statement(stmt))
    }

    fn braced(&mut self, head: &str, body: &[Stmt]) -> Result<()> {
        self.line(&format!("{head} {{"));
        self.depth += 1;
        self.block(body)?;
        self.depth -= 1;
        self.line("}");
        Ok(())
    }

    fn statement(&mut self, stmt: &Stmt) -> Result<()> {
        match stmt {
            Stmt::Comment(text) => self.line(&format!("// {text}")),
            Stmt::Declare(id) => {
                let local = self.local(*id)?;
                let ty = type_name(local.dtype)?;
                let text = match local.len {
                    None => format!("{ty} {};", local.name),
                    Some(len) => format!("{ty} {}[{}];", local.name, len.max(1)),
                };
                self.line(&text);
            }
            Stmt::Let { name, dtype, value } => {
                let ty = dtype.map_or(Ok("int64_t"), type_name)?;
                let value = self.scalar(value)?;
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
                let (start, extent) = (index(start), index(extent));
                // Upward, indices are outside before 0 and from the extent on; downward, the other way round.
                let (enter, leave) = if *step > 0 {
                    ("0".to_owned(), extent)
                } else {
                    (format!("{extent} - 1"), "-1".to_owned())
                };
                for (bound, limit) in [(lo, enter), (hi, leave)] {
                    if let Some(bound) = bound {
                        self.line(&format!(
                            "const int64_t {bound} = before({start}, {step}, {limit}, {len});"
                        ));
                    }
                }
            }
            Stmt::For {
                symbol,
                lo,
                hi,
                step,
                body,
                ..
            } => {
                let (lo, hi) = (index(lo), index(hi));
                self.braced(
                    &format!("for (int64_t {symbol} = {lo}; {symbol} < {hi}; {symbol} += {step})"),
                    body,
                )?;
            }
            Stmt::If {
                condition: holds,
                then,
                otherwise,
            } => {
                self.braced(&format!("if {}", condition(holds)), then)?;
                if !otherwise.is_empty() {
                    self.braced("else", otherwise)?;
                }
            }
            Stmt::Set { local, offset, value } => {
                let (place, value) = (self.element(*local, offset)?, self.scalar(value)?);
                self.line(&format!("{place} = {value};"));
            }
            Stmt::Store {
                tensor,
                offset,
                mode: StoreMode::Set,
                value,
            } => {
                let value = self.scalar(value)?;
                let line = format!("{}[{}] = {value};", self.tensor(*tensor)?, index(offset));
                self.line(&line);
            }
            Stmt::Store { .. } => return unsupported("atomic additions"),
            Stmt::Stream {
                tensor,
                offset,
                from,
                len,
            } => {
                let (to, from) = (self.tensor(*tensor)?, &self.local(*from)?.name);
                let (offset, len) = (index(offset), index(len));
                let text = format!("for (int64_t i = 0; i < {len}; ++i) {to}[{offset} + i] = {from}[i];");
                self.line(&text);
            }
            // A hint, which this language has no words for.
            Stmt::Prefetch { .. } => {}
            Stmt::Scan {
                local,
                offset,
                len,
                op,
                exclusive,
                reverse,
            } => {
                let element = format!("{}[{}", self.local(*local)?.name, index(offset));
                let (first, sign) = match op {
                    ReduceOp::Prod => ("1", "*"),
                    _ => ("0", "+"),
                };
                let at = if *reverse {
                    format!("{element} + {} - i]", len.saturating_sub(1))
                } else {
                    format!("{element} + i]")
                };
                let result = if *exclusive { "earlier" } else { "total" };
                let text = format!(
                    "{{\n  double total = {first};\n  for (int i = 0; i < {len}; ++i) {{\n    const double earlier = total;\n    \
                     total {sign}= {at};\n    {at} = {result};\n  }}\n}}"
                );
                text.lines().for_each(|line| self.line(line));
            }
            Stmt::Pack(pack) => self.pack(pack)?,
            Stmt::Dot(dot) => self.dot(dot)?,
            Stmt::Barrier => return unsupported("barriers"),
        }
        Ok(())
    }

    fn pack(&mut self, pack: &Pack) -> Result<()> {
        let from = match pack.from.place {
            Place::Tensor(tensor) => self.tensor(tensor)?.to_owned(),
            Place::Local(local) => self.local(local)?.name.clone(),
        };
        let to = &self.local(pack.to)?.name;
        let ([rows, columns], width) = (pack.from.extents, pack.width);
        let [row, column] = pack.from.strides.each_ref().map(index);
        let [[row_first, row_end], [column_first, column_end]] =
            pack.from.valid.each_ref().map(|ends| ends.each_ref().map(index));
        let [at_row, at_column] = pack.at.each_ref().map(index);
        let text = format!(
            "for (int i = 0; i < {rows}; ++i)\n  for (int j = 0; j < {columns}; ++j) {{\n    const int row = {at_row} + i, column = \
             {at_column} + j;\n    const bool exists = i >= {row_first} && i < {row_end} && j >= {column_first} && j < \
             {column_end};\n    {to}[column / {width} * {} + row * {width} + column % {width}] = exists ? {from}[{} + i * ({row}) + \
             j * ({column})] : 0;\n  }}",
            pack.rows * width,
            index(&pack.from.offset),
        );
        text.lines().for_each(|line| self.line(line));
        Ok(())
    }

    fn dot(&mut self, dot: &Dot) -> Result<()> {
        type_name(dot.dtype)?;
        let name = |address: &Address| match address.place {
            Place::Tensor(tensor) => self.tensor(tensor),
            Place::Local(local) => Ok(self.local(local)?.name.as_str()),
        };
        let (a, b, c) = (name(&dot.a)?, name(&dot.b)?, &self.local(dot.c)?.name);
        let ([m, n, k], width) = (dot.extents, dot.width);
        let left = match dot.a_layout {
            Layout::Strided([row, column]) => format!("i * {row} + p * {column}"),
            Layout::Lines(len, [line, row, column]) => {
                format!("i / {len} * {line} + i % {len} * {row} + p * {column}")
            }
            Layout::Panels => {
                let rows = dot.block[0];
                format!("i / {rows} * {} + p * {rows} + i % {rows}", k * rows)
            }
        };
        let assign = if dot.sums == Sums::Replace { "=" } else { "+=" };
        let text = format!(
            "for (int i = 0; i < {m}; ++i)\n  for (int j = 0; j < {n}; ++j) {{\n    double sum = 0;\n    for (int p = 0; p < {k}; \
             ++p) sum += (double){a}[{} + {left}] * {b}[{} + j / {width} * {} + p * {width} + j % {width}];\n    {c}[i * \
             {n} + j] {assign} sum;\n  }}",
            index(&dot.a.offset),
            index(&dot.b.offset),
            k * width
        );
        text.lines().for_each(|line| self.line(line));
        Ok(())
    }

    fn local(&self, id: LocalId) -> Result<&akg::lower::loops::ir::Local> {
        self.kernel
            .locals
            .get(id.0)
            .ok_or_else(|| Error::unexpected(format!("there is no local {}", id.0)))
    }

    fn element(&self, id: LocalId, offset: &Expr) -> Result<String> {
        let local = self.local(id)?;
        Ok(match local.len {
            None => local.name.clone(),
            Some(_) => format!("{}[{}]", local.name, index(offset)),
        })
    }

    fn tensor(&self, id: TensorId) -> Result<&str> {
        let param = self.kernel.params.iter().find(|p| p.tensor == id);
        param
            .map(|p| p.name.as_str())
            .ok_or_else(|| Error::unexpected(format!("tensor {} is no parameter", id.0)))
    }

    fn scalar(&self, scalar: &Scalar) -> Result<String> {
        Ok(match scalar {
            Scalar::Const(dtype, value) => constant(*dtype, *value)?,
            Scalar::Index(dtype, expr) => format!("({})({})", type_name(*dtype)?, index(expr)),
            Scalar::Var(name) => name.to_string(),
            Scalar::Local(local, offset) => self.element(*local, offset)?,
            Scalar::Tensor(tensor, offset) => format!("{}[{}]", self.tensor(*tensor)?, index(offset)),
            Scalar::Unary(op, dtype, a) => unary(*op, *dtype, &self.scalar(a)?)?,
            Scalar::Binary(op, dtype, operands) => {
                let [a, b] = &**operands;
                binary(*op, *dtype, &self.scalar(a)?, &self.scalar(b)?)?
            }
            Scalar::Compare(op, _, operands) => {
                let [a, b] = &**operands;
                format!("({} {} {})", self.scalar(a)?, op.name(), self.scalar(b)?)
            }
            Scalar::Select(operands) => {
                let [c, a, b] = &**operands;
                format!(
                    "({} ? {} : {})",
                    self.scalar(c)?,
                    self.scalar(a)?,
                    self.scalar(b)?
                )
            }
            Scalar::Guarded(holds, operands) => {
                let [value, fill] = &**operands;
                format!(
                    "({} ? {} : {})",
                    condition(holds),
                    self.scalar(value)?,
                    self.scalar(fill)?
                )
            }
            Scalar::Cast { from, to, .. } if from.is_float() && !to.is_float() => {
                return unsupported("conversions from floats to integers");
            }
            Scalar::Cast { from, to, value } => {
                type_name(*from)?;
                format!("(({}){})", type_name(*to)?, self.scalar(value)?)
            }
            Scalar::Bits { .. } | Scalar::Tf32(_) => return unsupported("arithmetic on bits"),
        })
    }
}

fn type_name(dtype: DType) -> Result<&'static str> {
    Ok(match dtype {
        DType::Bool => "bool",
        DType::I32 => "int32_t",
        DType::I64 => "int64_t",
        DType::F32 => "float",
        DType::F64 => "double",
        other => return unsupported(&format!("tensors of {other}")),
    })
}

fn constant(dtype: DType, value: Constant) -> Result<String> {
    type_name(dtype)?;
    Ok(match value {
        Constant::Int(i64::MIN) => "INT64_MIN".to_owned(),
        Constant::Int(value) => value.to_string(),
        Constant::Float(value) if value.is_nan() => "NAN".to_owned(),
        Constant::Float(value) if value.is_infinite() => {
            format!("({}INFINITY)", if value < 0.0 { "-" } else { "" })
        }
        Constant::Float(value) if dtype == DType::F32 => format!("{:?}f", value as f32),
        Constant::Float(value) => format!("{value:?}"),
    })
}

fn unary(op: UnaryOp, dtype: DType, a: &str) -> Result<String> {
    type_name(dtype)?;
    let function = match op {
        UnaryOp::Neg => return Ok(format!("(-{a})")),
        UnaryOp::Not if dtype == DType::Bool => return Ok(format!("(!{a})")),
        UnaryOp::IsNan => return Ok(format!("({a} != {a})")),
        _ if !dtype.is_float() => return unsupported("functions of integers"),
        UnaryOp::Abs => "fabs",
        UnaryOp::Round => "rint",
        UnaryOp::Rsqrt => return Ok(format!("(1 / sqrt{}({a}))", suffix(dtype))),
        UnaryOp::Sigmoid => return Ok(format!("(1 / (1 + exp{}(-{a})))", suffix(dtype))),
        UnaryOp::Not | UnaryOp::Pow2Floor => return unsupported("arithmetic on bits"),
        // The others have the names that C has.
        _ => op.name(),
    };
    Ok(format!("{function}{}({a})", suffix(dtype)))
}

/// Ends the names of C's functions of `float`.
fn suffix(dtype: DType) -> &'static str {
    if dtype == DType::F32 { "f" } else { "" }
}

fn binary(op: BinaryOp, dtype: DType, a: &str, b: &str) -> Result<String> {
    type_name(dtype)?;
    Ok(match op {
        BinaryOp::Min | BinaryOp::Max if dtype != DType::Bool => {
            format!(
                "{}_{dtype}({a}, {b})",
                if op == BinaryOp::Min { "min" } else { "max" }
            )
        }
        BinaryOp::FloorDiv if !dtype.is_float() => format!("floor_div({a}, {b})"),
        BinaryOp::Mod if !dtype.is_float() => format!("floor_mod({a}, {b})"),
        BinaryOp::Pow if dtype.is_float() => format!("pow{}({a}, {b})", suffix(dtype)),
        BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::FloorDiv
        | BinaryOp::Mod
        | BinaryOp::Pow
        | BinaryOp::Ldexp
        | BinaryOp::Philox => {
            return unsupported(&format!("{op:?} of {dtype}"));
        }
        // The others have the signs that C has.
        _ => format!("({a} {} {b})", op.name()),
    })
}

fn condition(holds: &Condition) -> String {
    match holds {
        Condition::Compare(op, a, b) => format!("({} {} {})", index(a), op.name(), index(b)),
        Condition::And(a, b) => format!("({} && {})", condition(a), condition(b)),
        Condition::Or(a, b) => format!("({} || {})", condition(a), condition(b)),
        Condition::Not(a) => format!("(!{})", condition(a)),
    }
}

/// An index expression; sums are not in parentheses.
fn index(expr: &Expr) -> String {
    let terms = expr.terms().iter().map(|term| {
        let mut factors: Vec<String> = term.factors.iter().map(atom).collect();
        if term.coefficient != 1 || factors.is_empty() {
            factors.insert(0, term.coefficient.to_string());
        }
        factors.join(" * ")
    });
    terms
        .reduce(|sum, term| format!("{sum} + {term}"))
        .unwrap_or_else(|| "0".to_owned())
}

fn atom(atom: &Atom) -> String {
    match atom {
        Atom::Sym(name) => name.to_string(),
        Atom::FloorDiv(a, b) => format!("floor_div({}, {})", index(a), index(b)),
        Atom::CeilDiv(a, b) => format!("(-floor_div(-({}), {}))", index(a), index(b)),
        Atom::Mod(a, b) => format!("floor_mod({}, {})", index(a), index(b)),
        Atom::Min(a, b) => format!("min_i64({}, {})", index(a), index(b)),
        Atom::Max(a, b) => format!("max_i64({}, {})", index(a), index(b)),
        // Nothing has this name, so the compiler refuses what cannot be computed.
        Atom::Excess(_) => "expression_too_large".to_owned(),
    }
}

fn unsupported<T>(what: &str) -> Result<T> {
    Err(Error::unsupported(format!(
        "the C99 of this example has no {what}"
    )))
}
