//! Prints a [`TileProgram`] as Triton kernels: one Python module with a `@triton.jit` function for each kernel, whose
//! parameters are pointers to the kernel's tensors, for a cooperative kernel a pointer to a zeroed 32-bit counter, and
//! the program's unbound extents as 64-bit integers.

mod ops;

use std::fmt::Write as _;

use akg_core::DType;
use akg_core::expr::{Atom, Expr};
use akg_core::lower::analysis::Facts;
use akg_core::lower::tiles::{
    Access, Coordinate, TileKernel, TileLoop, TileOp, TileProgram, TileRules, TileStmt,
};
use akg_core::sketch::ir::{Carried, CompareOp, Condition, DotMethod, Scalar, StoreMode, Val};

/// What Triton asks of tiles.
pub(crate) fn rules() -> TileRules {
    TileRules {
        power_of_two_extents: true,
        min_contraction: 16,
    }
}

/// The Python module.
pub(crate) fn print(program: &TileProgram) -> String {
    let mut text = String::from(include_str!("prelude.py"));
    for kernel in &program.kernels {
        let mut printer = Printer {
            program,
            kernel,
            text: String::new(),
            depth: 1,
            temporaries: 0,
        };
        printer.kernel();
        text += &printer.text;
    }
    text
}

/// Triton's name of an element type.
fn dtype(dtype: DType) -> &'static str {
    match dtype {
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
        other => panic!("Triton has no element type for {other}"),
    }
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

fn literal(scalar: Scalar) -> String {
    match scalar {
        Scalar::Int(i) => i.to_string(),
        Scalar::Float(f) if f.is_finite() => format!("{f:?}"),
        Scalar::Float(f) => format!("float(\"{f}\")").to_lowercase(),
    }
}

fn tuple<T: ToString>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(T::to_string).collect();
    match items.as_slice() {
        [one] => format!("({one},)"),
        _ => format!("({})", items.join(", ")),
    }
}

/// The subscript that makes a rank-1 tile an axis of a tile of `rank`.
fn expand(axis: usize, rank: usize) -> String {
    let entries: Vec<&str> = (0..rank).map(|i| if i == axis { ":" } else { "None" }).collect();
    if rank < 2 {
        String::new()
    } else {
        format!("[{}]", entries.join(", "))
    }
}

fn sanitize(name: &str) -> String {
    name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn symbol(name: &str) -> String {
    format!("i_{}", sanitize(name))
}

/// Python text of an index expression. Triton's `//` and `%` truncate: they serve where nothing is
/// negative.
fn index(facts: &Facts, expr: &Expr) -> String {
    let mut text = String::new();
    for term in expr.terms() {
        let mut factors: Vec<String> = term.factors.iter().map(|a| atom(facts, a)).collect();
        if factors.is_empty() || term.coefficient != 1 {
            factors.insert(0, term.coefficient.to_string());
        }
        if !text.is_empty() {
            text += " + ";
        }
        text += &factors.join(" * ");
    }
    match expr.terms() {
        [] => "0".into(),
        [term] if term.factors.len() + usize::from(term.coefficient != 1) < 2 => text,
        _ => format!("({text})"),
    }
}

fn atom(facts: &Facts, atom: &Atom) -> String {
    let e = |expr: &Expr| index(facts, expr);
    let plain = |a: &Expr, b: &Expr| facts.non_negative(a) && facts.range(b).is_some_and(|(lo, _)| lo > 0);
    match atom {
        Atom::Sym(name) => symbol(name),
        Atom::FloorDiv(a, b) if plain(a, b) => format!("({} // {})", e(a), e(b)),
        Atom::FloorDiv(a, b) => format!("akg_floordiv({}, {})", e(a), e(b)),
        Atom::CeilDiv(a, b) if plain(a, b) => format!("(({} + {} - 1) // {})", e(a), e(b), e(b)),
        Atom::CeilDiv(a, b) => format!("(-akg_floordiv({}, {}))", e(&-a), e(b)),
        Atom::Mod(a, b) if plain(a, b) => format!("({} % {})", e(a), e(b)),
        Atom::Mod(a, b) => format!("akg_mod({}, {})", e(a), e(b)),
        Atom::Min(a, b) => format!("tl.minimum({}, {})", e(a), e(b)),
        Atom::Max(a, b) => format!("tl.maximum({}, {})", e(a), e(b)),
    }
}

struct Printer<'a> {
    program: &'a TileProgram,
    kernel: &'a TileKernel,
    text: String,
    depth: usize,
    temporaries: usize,
}

impl Printer<'_> {
    fn line(&mut self, line: impl AsRef<str>) {
        let _ = writeln!(self.text, "{:1$}{2}", "", 4 * self.depth, line.as_ref());
    }

    /// A name that is used once: a name from before a loop would become a value that the loop carries.
    fn temporary(&mut self, value: &str) -> String {
        self.temporaries += 1;
        let name = format!("t{}", self.temporaries);
        self.line(format!("{name} = {value}"));
        name
    }

    fn index(&self, expr: &Expr) -> String {
        index(&self.kernel.facts, expr)
    }

    fn name(&self, value: Val) -> String {
        let name = sanitize(&self.kernel.value(value).name);
        format!("v{}{}{name}", value.0, if name.is_empty() { "" } else { "_" })
    }

    fn dtype(&self, value: Val) -> DType {
        self.kernel.value(value).ty.dtype
    }

    fn extents(&self, value: Val) -> &[usize] {
        &self.kernel.value(value).extents
    }

    fn pointer(&self, tensor: usize) -> String {
        format!("p_{}", sanitize(&self.program.tensors[tensor].name))
    }

    fn kernel(&mut self) {
        let mut parameters: Vec<String> = self.kernel.tensors.iter().map(|t| self.pointer(t.0)).collect();
        if self.kernel.cooperative {
            parameters.push("p_counter".into());
        }
        parameters.extend(self.program.dims.iter().map(|d| symbol(d)));
        let _ = write!(
            self.text,
            "\n\n@triton.jit\ndef {}({}):\n",
            self.kernel.name,
            parameters.join(", ")
        );
        self.line(format!("{} = tl.program_id(0)", symbol(&self.kernel.program)));
        self.line(format!("zero = {} >> 31", symbol(&self.kernel.program)));
        if self.kernel.wide {
            let program = symbol(&self.kernel.program);
            self.line(format!("{program} = {program}.to(tl.int64)"));
        }
        self.block(&self.kernel.body);
    }

    fn block(&mut self, body: &[TileStmt]) {
        for stmt in body {
            match stmt {
                TileStmt::Let { symbol: name, value } => {
                    let value = self.index(value);
                    self.line(format!("{} = {value}", symbol(name)));
                }
                TileStmt::Define { value, op } => {
                    let text = self.op(*value, op);
                    let name = self.name(*value);
                    self.line(format!("{name} = {text}"));
                }
                TileStmt::Store { access, value, mode } => {
                    let (address, mask) = self.access(access);
                    let mask = mask.map(|m| format!(", mask={m}")).unwrap_or_default();
                    let function = match mode {
                        StoreMode::Set => "store",
                        StoreMode::AtomicAdd => "atomic_add",
                    };
                    let value = self.name(*value);
                    self.line(format!("tl.{function}({address}, {value}{mask})"));
                }
                TileStmt::For(l) => self.loop_(l),
                TileStmt::If {
                    condition,
                    then,
                    otherwise,
                    merges,
                } => {
                    let condition = self.condition(condition);
                    self.line(format!("if {condition}:"));
                    let branches = [(then, true), (otherwise, false)];
                    for (body, taken) in branches {
                        if !taken {
                            self.line("else:");
                        }
                        self.depth += 1;
                        self.block(body);
                        for merge in merges {
                            let value = if taken { merge.then } else { merge.otherwise };
                            let (to, from) = (self.name(merge.result), self.name(value));
                            self.line(format!("{to} = {from}"));
                        }
                        self.line("pass");
                        self.depth -= 1;
                    }
                }
                TileStmt::Barrier => self.line("akg_barrier(p_counter)"),
            }
        }
    }

    fn loop_(&mut self, l: &TileLoop) {
        for carried in &l.carried {
            let (to, from) = (self.name(carried.inner), self.name(carried.initial));
            self.line(format!("{to} = {from}"));
        }
        let bounds = format!("{}, {}, {}", self.index(&l.lo), self.index(&l.hi), l.step);
        let constant = l.lo.as_const().is_some() && l.hi.as_const().is_some_and(|hi| hi <= 64 * l.step);
        let range = match l.pipeline {
            _ if l.unroll && constant => format!("tl.static_range({bounds})"),
            Some(stages) => format!("tl.range({bounds}, num_stages={stages})"),
            None => format!("range({bounds})"),
        };
        let counter = symbol(&l.symbol);
        self.line(format!("for {counter} in {range}:"));
        self.depth += 1;
        if self.kernel.wide {
            self.line(format!("{counter} = tl.cast({counter}, tl.int64)"));
        }
        self.block(&l.body);
        // All at once: a next value may be another's value of this iteration.
        let names = |p: &Self, f: fn(&Carried) -> Val| {
            let names: Vec<String> = l.carried.iter().map(|c| p.name(f(c))).collect();
            names.join(", ")
        };
        if l.carried.is_empty() {
            self.line("pass");
        } else {
            let line = format!("{} = {}", names(self, |c| c.inner), names(self, |c| c.next));
            self.line(line);
        }
        self.depth -= 1;
        for carried in &l.carried {
            let (to, from) = (self.name(carried.result), self.name(carried.inner));
            self.line(format!("{to} = {from}"));
        }
    }

    fn condition(&self, condition: &Condition) -> String {
        match condition {
            Condition::Compare(op, a, b) => {
                format!("({} {} {})", self.index(a), compare(*op), self.index(b))
            }
            Condition::And(a, b) => format!("({} & {})", self.condition(a), self.condition(b)),
            Condition::Or(a, b) => format!("({} | {})", self.condition(a), self.condition(b)),
            Condition::Not(a) => format!("({} == 0)", self.condition(a)),
        }
    }

    /// The addresses of an access and the mask, if there is one.
    fn access(&mut self, access: &Access) -> (String, Option<String>) {
        let rank = access.lanes.len();
        let mut offsets = Vec::new();
        let mut masks = Vec::new();
        for (axis, lanes) in access.lanes.iter().enumerate() {
            if lanes.live < lanes.all {
                masks.push(format!(
                    "(tl.arange(0, {}) < {}){}",
                    lanes.all,
                    lanes.live,
                    expand(axis, rank)
                ));
            }
        }
        for dim in &access.dims {
            let (coordinate, axis) = match &dim.coordinate {
                Coordinate::At(at) => (self.index(at), None),
                Coordinate::AtTile(value) => (self.offset(*value), None),
                Coordinate::Lanes { axis, start, step } => {
                    let (start, all) = (self.index(start), access.lanes[*axis].all);
                    let lanes = match step {
                        1 => format!("{start} + tl.arange(0, {all})"),
                        step => format!("{start} + tl.arange(0, {all}) * {step}"),
                    };
                    (lanes, Some(*axis))
                }
                Coordinate::Index { axis, value } => (self.offset(*value), Some(*axis)),
            };
            let coordinate = self.temporary(&coordinate);
            let place = axis.map(|axis| expand(axis, rank)).unwrap_or_default();
            let extent = self.index(&dim.extent);
            if dim.guard.below {
                masks.push(format!("({coordinate} >= 0){place}"));
            }
            if dim.guard.above {
                masks.push(format!("({coordinate} < {extent}){place}"));
            }
            let coordinate = if access.wide {
                format!("tl.cast({coordinate}, tl.int64)")
            } else {
                coordinate
            };
            let stride = self.index(&dim.stride);
            offsets.push(format!("({coordinate} * {stride}){place}"));
        }
        let pointer = self.pointer(access.tensor.0);
        let address = format!(
            "{pointer} + {}",
            if offsets.is_empty() {
                "0".into()
            } else {
                offsets.join(" + ")
            }
        );
        let address = self.temporary(&address);
        if masks.is_empty() {
            return (address, None);
        }
        // The mask has the shape of the addresses.
        let mask = self.temporary(&masks.join(" & "));
        let extents: Vec<usize> = access.lanes.iter().map(|l| l.all).collect();
        let mask = if rank > 1 {
            self.temporary(&format!("tl.broadcast_to({mask}, {})", tuple(&extents)))
        } else {
            mask
        };
        (address, Some(mask))
    }

    /// A tile of indices in a type that offsets fit.
    fn offset(&self, value: Val) -> String {
        let name = self.name(value);
        if self.dtype(value).size() < 4 {
            format!("{name}.to(tl.int32)")
        } else {
            name
        }
    }

    /// A tile in the type that arithmetic on it uses.
    fn computing(&self, value: Val) -> String {
        let name = self.name(value);
        if is_half(self.dtype(value)) {
            format!("{name}.to(tl.float32)")
        } else {
            name
        }
    }

    fn op(&mut self, value: Val, op: &TileOp) -> String {
        match op {
            TileOp::Load { access, fill } => {
                let (address, mask) = self.access(access);
                match mask {
                    None => format!("tl.load({address})"),
                    Some(mask) => format!("tl.load({address}, mask={mask}, other={})", literal(*fill)),
                }
            }
            TileOp::Mask {
                value: operand,
                axis,
                keep,
                other,
            } => {
                let extents = self.extents(*operand);
                let lane = format!("tl.arange(0, {}){}", extents[*axis], expand(*axis, extents.len()));
                let lane = self.temporary(&lane);
                let fill = format!(
                    "tl.full((), {}, {})",
                    literal(*other),
                    dtype(self.dtype(*operand))
                );
                format!(
                    "tl.where(({lane} >= {}) & ({lane} < {}), {}, {fill})",
                    keep.start,
                    keep.end,
                    self.name(*operand)
                )
            }
            TileOp::Dot {
                a,
                b,
                init,
                method,
                separate,
            } => {
                let sum = dtype(self.dtype(value));
                let shape = tuple(self.extents(value));
                let init = match (init, separate) {
                    (Some(init), _) => self.name(*init),
                    (None, false) => format!("tl.zeros({shape}, {sum})"),
                    // Triton folds an addition to a dot that starts from zero into the dot.
                    (None, true) => format!("tl.full({shape}, zero.to({sum}), {sum})"),
                };
                let precision = match (method, self.dtype(*a)) {
                    (DotMethod::Ieee, DType::F32) => ", input_precision=\"ieee\"",
                    (DotMethod::Tf32, _) => ", input_precision=\"tf32\"",
                    _ => "",
                };
                let (a, b) = (self.name(*a), self.name(*b));
                format!("tl.dot({a}, {b}, {init}{precision}, out_dtype={sum})")
            }
            TileOp::Regroup(operand) => self.regroup(*operand, value),
            TileOp::Plain(op) => self.plain(value, op),
        }
    }
}

fn compare(op: CompareOp) -> &'static str {
    CompareOp::ALL
        .iter()
        .find_map(|(known, sign)| (*known == op).then_some(*sign))
        .unwrap_or_default()
}
