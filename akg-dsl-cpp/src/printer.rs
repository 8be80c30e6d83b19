//! Kernels of loops as C++ text.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use akg_core::dtype::DType;
use akg_core::expr::Expr;
use akg_core::lower::loops::ir::{
    Accumulation, Dot, Layout, Local, LocalId, LoopKernel, LoopKind, Matrix, Pack, Param, Place, Scalar,
    Stmt, Sums,
};
use akg_core::sketch::ir::{ReduceOp, StoreMode, TensorId};
use akg_core::source::comment_lines;

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
pub(crate) fn held_type(dtype: DType) -> &'static str {
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

pub(crate) struct Printer<'a> {
    pub(crate) kernel: &'a LoopKernel,
    out: String,
    indent: usize,
    used: BTreeSet<&'static str>,
}

impl Printer<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", 2 * self.indent);
    }

    /// A call of a prelude function.
    pub(crate) fn prelude(&mut self, name: &'static str) -> &'static str {
        self.used.insert(name);
        name
    }

    fn local(&self, id: LocalId) -> Option<&Local> {
        self.kernel.locals.get(id.0)
    }

    pub(crate) fn param(&self, tensor: TensorId) -> Option<&Param> {
        self.kernel.params.iter().find(|p| p.tensor == tensor)
    }

    pub(crate) fn element_type(&mut self, dtype: DType) -> &'static str {
        let name = element_type(dtype);
        if matches!(dtype, DType::F16 | DType::BF16) {
            self.used.insert(name);
        }
        name
    }

    fn function(&mut self) {
        let kernel = self.kernel;
        for line in comment_lines(&kernel.doc) {
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
        if self.used.contains("akg_stream") {
            self.line("akg_stream_end();");
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
                    LoopKind::Unrolled => {
                        self.line("#pragma GCC unroll 16");
                        "int"
                    }
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
            Stmt::Stream {
                tensor,
                offset,
                from,
                len,
            } => {
                let function = self.prelude("akg_stream");
                let to = self.param(*tensor).map_or(String::new(), |p| p.name.clone());
                let from = self.local(*from).map_or(String::new(), |l| l.name.clone());
                let (offset, len) = (self.offset(offset), self.index(len));
                self.line(&format!("{function}({to} + {offset}, {from}, {len});"));
            }
            Stmt::Prefetch { tensor, offset, len } => {
                let function = self.prelude("akg_prefetch");
                let from = self.param(*tensor).map_or(String::new(), |p| p.name.clone());
                let (offset, len) = (self.offset(offset), self.index(len));
                self.line(&format!("{function}({from} + {offset}, {len});"));
            }
            Stmt::Scan {
                local,
                offset,
                len,
                op,
                exclusive,
                reverse,
            } => {
                let function = self.prelude("akg_scan");
                let name = self.local(*local).map_or(String::new(), |l| l.name.clone());
                let (product, offset) = (*op == ReduceOp::Prod, self.offset(offset));
                self.line(&format!(
                    "{function}<{product}, {exclusive}, {reverse}>({name} + {offset}, {len});"
                ));
            }
            Stmt::Pack(pack) => self.pack(pack),
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
            Some(len) if len * local.dtype.size() > STACK_LIMIT => {
                // Nothing outlives a call, so that it is no static data.
                let room = self.prelude("akg_room");
                self.line(&format!("{room}<{ty}, {len}> {room}_{name};"));
                self.line(&format!("{ty} (&{name})[{len}] = {room}_{name}.tile();"));
            }
            Some(len) => self.line(&format!("alignas(64) {ty} {name}[{}];", len.max(1))),
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

    pub(crate) fn place(&mut self, local: LocalId, offset: &Expr) -> String {
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
        let place = format!("{}[{}]", param.name, self.offset(offset));
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

    fn pack(&mut self, pack: &Pack) {
        let Matrix {
            place,
            offset,
            extents,
            strides: [rows, columns],
            valid,
        } = &pack.from;
        let from = self.address(*place, offset);
        let to = self.local(pack.to).map(|l| l.name.clone()).unwrap_or_default();
        let [[row, row_end], [column, column_end]] = valid
            .each_ref()
            .map(|ends| ends.each_ref().map(|end| self.index(end)));
        let ([height, width], [at_row, at_column]) = (extents, &pack.at);
        let begins = row == "0" && column == "0";
        let line = if pack.is_all() && begins && (columns.is(1) || rows.is(1)) {
            let (function, stride) = if columns.is(1) {
                (self.prelude("akg_pack"), rows)
            } else {
                (self.prelude("akg_pack_transposed"), columns)
            };
            let stride = self.index(stride);
            format!(
                "{function}<{height}, {width}, {}>({from}, {stride}, {row_end}, {column_end}, {to});",
                pack.width
            )
        } else {
            let function = self.prelude("akg_pack_part");
            let (stride, step) = (self.index(rows), self.index(columns));
            let at = self.offset(&(at_row.clone() * Expr::from(pack.width) + at_column.clone()));
            let to = if at == "0" { to } else { format!("{to} + {at}") };
            format!(
                "{function}<{}, {height}, {width}, {step}>({from}, {stride}, {row}, {row_end}, {column}, {column_end}, {to});",
                pack.width
            )
        };
        self.line(&line);
    }

    /// The address of an element.
    fn address(&mut self, place: Place, offset: &Expr) -> String {
        let name = match place {
            Place::Tensor(tensor) => self.param(tensor).map(|p| p.name.clone()),
            Place::Local(local) => self.local(local).map(|l| l.name.clone()),
        };
        let name = name.unwrap_or_default();
        match self.offset(offset) {
            offset if offset == "0" => name,
            offset => format!("{name} + {offset}"),
        }
    }

    fn dot(&mut self, dot: &Dot) {
        let function = self.prelude("akg_dot");
        let [left, right] = [&dot.a, &dot.b].map(|operand| self.address(operand.place, &operand.offset));
        let name = |id: LocalId| self.local(id).map_or("", |l| l.name.as_str());
        let [m, n, k] = dot.extents;
        let [rows, vectors] = dot.block;
        // Rows in a line, and distances of lines, of blocks' first rows, of rows and of columns.
        let left_layout = match dot.a_layout {
            Layout::Strided([row, column]) => [m, 0, row, row, column],
            Layout::Lines(len, [line, row, column]) => [len, line, row, row, column],
            Layout::Panels => [m, 0, k, 1, rows],
        };
        let left_layout = left_layout.map(|number| number.to_string()).join(", ");
        let sums = match dot.sums {
            Sums::Continue => "akg_continue",
            Sums::Add => "akg_add",
            Sums::Replace => "akg_replace",
        };
        let line = format!(
            "{function}<{m}, {n}, {k}, {left_layout}, {rows}, {vectors}, {}, {}, {sums}, {}>({}, {}, {});",
            dot.width,
            dot.chunk.min(k),
            held_type(dot.sum),
            left,
            right,
            name(dot.c)
        );
        self.line(&line);
    }
}
