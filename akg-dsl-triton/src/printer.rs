//! Prints tile programs as Triton kernels: one `@triton.jit` function for each kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::mem;

use akg_core::dtype::DType;
use akg_core::error::Result;
use akg_core::expr::{Expr, Symbol};
use akg_core::lower::tiles::{Access, TileKernel, TileLoop, TileOp, TileProgram, TileStmt};
use akg_core::sketch::ir::{Carried, Condition, Op, ReduceOp, TensorId, Val};
use akg_core::source::comment_lines;

use crate::access;
use crate::dialect::Dialect;
use crate::flow::{Flow, flow};
use crate::index::{Indices, Text, compare};
use crate::layout::statement;
use crate::names::Names;
use crate::options::{Descriptor, Style};

mod prefetch;

/// An unrolled loop has at most so many iterations.
const MOST_UNROLLED: i64 = 64;

/// A printed kernel.
#[derive(Debug)]
pub(crate) struct Printed {
    /// The function.
    pub(crate) text: String,
    /// Functions of the prelude that it calls.
    pub(crate) used: BTreeSet<&'static str>,
    /// The parameters that are tensor descriptors.
    pub(crate) descriptors: Vec<(String, Descriptor)>,
    /// The parameters for the kernel's tensors.
    pub(crate) parameters: Vec<String>,
    /// The names of parameters and variables.
    pub(crate) names: Names,
}

/// Prints `kernel` of `program` as the function `name`. A cooperative kernel takes its counter as its last tensor.
pub(crate) fn print<'a>(
    program: &'a TileProgram,
    kernel: &'a TileKernel,
    name: &str,
    dialect: &'a Dialect,
    style: Style,
) -> Result<Printed> {
    let flow = flow(kernel);
    let boxes = if style.descriptors {
        access::boxes(program, kernel, &flow)
    } else {
        BTreeMap::new()
    };
    let mut names = Names::new();
    let parameters = kernel.tensors.iter().map(|t| {
        let base = program.tensors.get(t.0).map_or("", |t| t.name.as_str());
        let suffix = if boxes.contains_key(t) { "desc" } else { "ptr" };
        (*t, names.fresh(&format!("{base}_{suffix}")))
    });
    let parameters: BTreeMap<_, _> = parameters.collect();
    let mut printer = Printer {
        program,
        kernel,
        dialect,
        style,
        flow,
        boxes,
        shared: access::shared(kernel),
        parameters,
        symbols: BTreeMap::new(),
        variables: vec![None; kernel.values.len()],
        names,
        used: BTreeSet::new(),
        text: String::new(),
        scopes: vec![Scope::default()],
        constants: BTreeMap::new(),
        ahead: Vec::new(),
    };
    printer.kernel(name)?;
    let described =
        |(tensor, descriptor): (&TensorId, &Descriptor)| (printer.parameter(*tensor), descriptor.clone());
    Ok(Printed {
        descriptors: printer.boxes.iter().map(described).collect(),
        parameters: kernel.tensors.iter().map(|t| printer.parameter(*t)).collect(),
        text: printer.text,
        used: printer.used,
        names: printer.names,
    })
}

pub(crate) struct Printer<'a> {
    pub(crate) program: &'a TileProgram,
    pub(crate) kernel: &'a TileKernel,
    pub(crate) dialect: &'a Dialect,
    pub(crate) style: Style,
    pub(crate) flow: Flow<'a>,
    /// Tensors that are read or written by descriptors.
    pub(crate) boxes: BTreeMap<TensorId, Descriptor>,
    /// Tensors that other programs write while this one runs.
    pub(crate) shared: BTreeSet<TensorId>,
    parameters: BTreeMap<TensorId, String>,
    /// The variables of index symbols.
    symbols: BTreeMap<String, String>,
    /// The variables of tiles.
    variables: Vec<Option<String>>,
    names: Names,
    used: BTreeSet<&'static str>,
    text: String,
    /// The open blocks.
    scopes: Vec<Scope>,
    /// The values of index symbols that are constant.
    constants: BTreeMap<String, Expr>,
    /// What the next iteration of the loop loads before the barrier, by lines of the cache.
    ahead: Vec<Access>,
}

/// An open block.
#[derive(Debug, Default)]
struct Scope {
    /// The variables of expressions.
    known: BTreeMap<String, String>,
    /// Index symbols that are defined in it.
    symbols: BTreeSet<String>,
    /// Where in the text the statement begins that it belongs to.
    opened: usize,
}

impl<'a> Printer<'a> {
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.text += &statement(self.scopes.len(), line.as_ref());
    }

    /// A variable for an expression that the current block may use again.
    pub(crate) fn shared_variable(&mut self, name: &str, text: String) -> String {
        self.variable_in(self.scopes.len() - 1, name, text)
    }

    /// A variable for an expression of index symbols, defined where all of them are known.
    pub(crate) fn hoisted_variable(
        &mut self,
        name: &str,
        text: String,
        symbols: &BTreeSet<Symbol>,
    ) -> String {
        let needed = |scope: &Scope| symbols.iter().any(|s| scope.symbols.contains(&**s));
        let at = self.scopes.iter().rposition(needed).unwrap_or(0);
        self.variable_in(at, name, text)
    }

    fn variable_in(&mut self, at: usize, name: &str, text: String) -> String {
        if let Some(known) = self.scopes.iter().find_map(|scope| scope.known.get(&text)) {
            return known.clone();
        }
        let variable = self.names.fresh(name);
        let line = statement(at + 1, &format!("{variable} = {text}"));
        let end = self.text.len();
        let place = self.scopes.get(at + 1).map_or(end, |inner| inner.opened);
        self.text.insert_str(place, &line);
        for inner in self.scopes.iter_mut().skip(at + 1) {
            inner.opened += line.len();
        }
        if let Some(scope) = self.scopes.get_mut(at) {
            scope.known.insert(text, variable.clone());
        }
        variable
    }

    /// A variable for an expression.
    pub(crate) fn variable(&mut self, name: &str, text: &str) -> String {
        let variable = self.names.fresh(name);
        self.line(format!("{variable} = {text}"));
        variable
    }

    /// Says that the text calls a function of the prelude.
    pub(crate) fn call(&mut self, function: &'static str) -> &'static str {
        self.used.insert(function);
        function
    }

    pub(crate) fn dtype(&self, value: Val) -> DType {
        self.kernel.value(value).ty.dtype
    }

    pub(crate) fn extents(&self, value: Val) -> &'a [usize] {
        &self.kernel.value(value).extents
    }

    pub(crate) fn parameter(&self, tensor: TensorId) -> String {
        self.parameters.get(&tensor).cloned().unwrap_or_default()
    }

    /// An index expression in terms of symbols that have a variable.
    pub(crate) fn resolved(&self, expr: &Expr) -> Expr {
        expr.substitute(&|name| self.constants.get(name).cloned())
    }

    pub(crate) fn index(&mut self, expr: &Expr) -> Text {
        let expr = &self.resolved(expr);
        let kernel = self.kernel;
        let symbols = &self.symbols;
        let used = &mut self.used;
        Indices {
            facts: &kernel.facts,
            symbol: &|name| symbols.get(name).cloned().unwrap_or_else(|| name.to_owned()),
            call: &mut |function| {
                used.insert(function);
            },
        }
        .text(expr)
    }

    fn define_symbol(&mut self, name: &str) -> String {
        let variable = self.names.fresh(name);
        self.symbols.insert(name.to_owned(), variable.clone());
        if let Some(scope) = self.scopes.last_mut() {
            scope.symbols.insert(name.to_owned());
        }
        variable
    }

    /// What a tile without a name is called: after what it is.
    fn base_name(&self, value: Val) -> String {
        let tile = &self.kernel.value(value).name;
        if !tile.is_empty() {
            return tile.clone();
        }
        let name = match self.flow.ops.get(&value) {
            Some(TileOp::Load { access, .. }) => return format!("{}_tile", self.tensor_name(access.tensor)),
            Some(TileOp::Mask { value, .. }) => return self.base_name(*value),
            Some(TileOp::Dot { .. }) => "product",
            Some(TileOp::Plain(Op::Reduce(ReduceOp::Sum, ..))) => "total",
            Some(TileOp::Plain(Op::Reduce(ReduceOp::Max, ..))) => "most",
            Some(TileOp::Plain(Op::Reduce(ReduceOp::Min, ..))) => "least",
            Some(TileOp::Plain(Op::Scan { .. })) => "running",
            _ => "t",
        };
        name.to_owned()
    }

    fn tensor_name(&self, tensor: TensorId) -> &'a str {
        self.program.tensors.get(tensor.0).map_or("", |t| t.name.as_str())
    }

    /// The variable of a tile.
    pub(crate) fn name(&mut self, value: Val) -> String {
        let value = self.flow.variable(value);
        let at = value.0 as usize;
        if let Some(Some(name)) = self.variables.get(at) {
            return name.clone();
        }
        let base = self.base_name(value);
        let name = self.names.fresh(&base);
        if let Some(slot) = self.variables.get_mut(at) {
            *slot = Some(name.clone());
        }
        name
    }

    fn kernel(&mut self, name: &str) -> Result<()> {
        let kernel = self.kernel;
        let mut parameters: Vec<String> = kernel.tensors.iter().map(|t| self.parameter(*t)).collect();
        let counter = kernel.teams.as_ref().map(|_| self.names.fresh("counter_ptr"));
        parameters.extend(counter.clone());
        // The number of a program is its index where a grid has one axis.
        let is_number = |stmt: &&TileStmt| matches!(stmt, TileStmt::Let { value, .. } if value.as_symbol() == Some(&kernel.program));
        let number = match kernel.body.iter().find(is_number) {
            Some(TileStmt::Let { symbol, .. }) => symbol,
            _ => &kernel.program,
        };
        for dim in &self.program.dims {
            parameters.push(format!("{}: tl.int64", self.define_symbol(dim)));
        }
        for line in comment_lines(&kernel.doc) {
            let _ = writeln!(self.text, "# {line}");
        }
        let _ = writeln!(self.text, "@triton.jit\ndef {name}({}):", parameters.join(", "));
        let wide = if kernel.wide { ".to(tl.int64)" } else { "" };
        let is_persistent = self.style.persistent.is_some();
        if is_persistent {
            let programs = self.index(&kernel.programs);
            self.open(self.text.len());
            let number = self.define_symbol(number);
            let tiles = format!("tl.program_id(0), {}, tl.num_programs(0)", programs.open());
            self.text += &statement(1, &format!("for {number} in tl.range({tiles}, flatten=True):"));
            if kernel.wide {
                self.line(format!("{number} = tl.cast({number}, tl.int64)"));
            }
        } else {
            let number = self.define_symbol(number);
            self.line(format!("{number} = tl.program_id(0){wide}"));
        }
        let number = self.symbols.get(&**number).cloned().unwrap_or_default();
        self.symbols.insert(kernel.program.to_string(), number.clone());
        let alone = |op: &TileOp| {
            matches!(
                op,
                TileOp::Dot {
                    init: None,
                    separate: true,
                    ..
                }
            )
        };
        if self.flow.ops.values().copied().any(alone) {
            self.line("# A zero that Triton does not know: it folds what is added to a dot that starts from a known one.");
            self.line(format!("zero = {number} >> 31"));
        }
        if is_persistent {
            return self.close(&kernel.body, Vec::new());
        }
        self.block(&kernel.body)
    }

    fn block(&mut self, body: &[TileStmt]) -> Result<()> {
        for stmt in body {
            match stmt {
                TileStmt::Let { symbol, value } => self.let_(symbol, value),
                TileStmt::Define { value, op } => {
                    if !self.flow.inlined.contains(value) {
                        let text = self.op(*value, op)?;
                        let name = self.name(*value);
                        self.line(format!("{name} = {}", text.open()));
                    }
                }
                TileStmt::Store { access, value, mode } => self.store(access, *value, *mode)?,
                TileStmt::For(l) => self.loop_(l)?,
                TileStmt::If {
                    condition,
                    then,
                    otherwise,
                    merges,
                } => {
                    let condition = self.condition(condition);
                    let opened = self.text.len();
                    self.line(format!("if {}:", condition.open()));
                    self.open(opened);
                    self.close(then, merges.iter().map(|m| (m.result, m.then)).collect())?;
                    let values: Vec<_> = merges.iter().map(|m| (m.result, m.otherwise)).collect();
                    let changes = values
                        .iter()
                        .any(|(to, from)| self.flow.variable(*to) != self.flow.variable(*from));
                    if !otherwise.is_empty() || changes {
                        self.line("else:");
                        self.open(opened);
                        self.close(otherwise, values)?;
                    }
                }
                TileStmt::Barrier => {
                    self.prefetch()?;
                    self.barrier();
                }
            }
        }
        Ok(())
    }

    /// Waits for the program's team.
    fn barrier(&mut self) {
        let kernel = self.kernel;
        let mut counter = "counter_ptr".to_owned();
        let one = Expr::constant(1);
        let teams = kernel.teams.as_ref();
        if let Some(number) = teams.map(|t| &t.number).filter(|number| !number.is(0)) {
            counter += &format!(" + {}", self.index(number).closed());
        }
        let programs = self.index(teams.map_or(&one, |t| &t.programs));
        let barrier = self.call("akg_barrier");
        self.line(format!("{barrier}({counter}, {})", programs.open()));
    }

    /// Names an index, unless it is a constant or has a variable.
    fn let_(&mut self, symbol: &Symbol, value: &Expr) {
        let value = self.resolved(value);
        if self.symbols.contains_key(&**symbol) {
            return;
        }
        if value.as_const().is_some() {
            self.constants.insert(symbol.to_string(), value);
            return;
        }
        let text = self.index(&value);
        let symbol = self.define_symbol(symbol);
        self.line(format!("{symbol} = {}", text.open()));
    }

    /// Opens the block of the statement that begins at `opened`.
    fn open(&mut self, opened: usize) {
        self.scopes.push(Scope {
            opened,
            ..Scope::default()
        });
    }

    /// The statements of the open block, which may end by giving variables their values; closes it.
    fn close(&mut self, body: &[TileStmt], values: Vec<(Val, Val)>) -> Result<()> {
        self.block(body)?;
        self.assign(values)?;
        if self.text.ends_with(":\n") {
            self.line("pass");
        }
        self.scopes.pop();
        Ok(())
    }

    /// Gives variables their values, all at once: a value may be another variable.
    fn assign(&mut self, values: Vec<(Val, Val)>) -> Result<()> {
        let (mut targets, mut sources) = (Vec::new(), Vec::new());
        for (target, source) in values {
            if self.flow.variable(target) != self.flow.variable(source) {
                targets.push(self.name(target));
                sources.push(self.operand(source)?.open().to_owned());
            }
        }
        if !targets.is_empty() {
            self.line(format!("{} = {}", targets.join(", "), sources.join(", ")));
        }
        Ok(())
    }

    fn loop_(&mut self, l: &TileLoop) -> Result<()> {
        let pairs = |to: fn(&Carried) -> Val, from: fn(&Carried) -> Val| {
            l.carried.iter().map(|c| (to(c), from(c))).collect::<Vec<_>>()
        };
        self.assign(pairs(|c| c.inner, |c| c.initial))?;
        let (lo, hi) = (self.index(&l.lo), self.index(&l.hi));
        let mut bounds = match (l.step, l.lo.is(0)) {
            (1, true) => hi.open().to_owned(),
            (1, false) => format!("{}, {}", lo.open(), hi.open()),
            (step, _) => format!("{}, {}, {step}", lo.open(), hi.open()),
        };
        let few = match (l.lo.as_const(), l.hi.as_const()) {
            (Some(lo), Some(hi)) => hi.saturating_sub(lo) <= MOST_UNROLLED.saturating_mul(l.step),
            _ => false,
        };
        let range = match l.pipeline {
            _ if l.unroll && few => "tl.static_range",
            Some(stages) if overlaps(l) => {
                let _ = write!(bounds, ", num_stages={stages}");
                if self.style.specialised && multiplies(&l.body) {
                    bounds += ", warp_specialize=True";
                }
                "tl.range"
            }
            _ => "range",
        };
        self.open(self.text.len());
        let counter = self.define_symbol(&l.symbol);
        let depth = self.scopes.len() - 1;
        self.text += &statement(depth, &format!("for {counter} in {range}({bounds}):"));
        if self.kernel.wide {
            self.line(format!("{counter} = tl.cast({counter}, tl.int64)"));
        }
        let ahead = self.lines_ahead(l);
        let outside = mem::replace(&mut self.ahead, ahead);
        self.close(&l.body, pairs(|c| c.inner, |c| c.next))?;
        self.ahead = outside;
        self.assign(pairs(|c| c.result, |c| c.inner))
    }

    fn condition(&mut self, condition: &Condition) -> Text {
        match condition {
            Condition::Compare(op, a, b) => {
                let (a, b) = (self.index(a), self.index(b));
                Text::loose(format!("{} {} {}", a.closed(), compare(*op), b.closed()))
            }
            Condition::And(a, b) => {
                let (a, b) = (self.condition(a).closed(), self.condition(b).closed());
                Text::loose(format!("{a} & {b}"))
            }
            Condition::Or(a, b) => {
                let (a, b) = (self.condition(a).closed(), self.condition(b).closed());
                Text::loose(format!("{a} | {b}"))
            }
            Condition::Not(a) => {
                let a = self.condition(a).closed();
                Text::loose(format!("{a} == 0"))
            }
        }
    }
}

/// Whether a block has products, outside of loops of its own.
fn multiplies(body: &[TileStmt]) -> bool {
    let is_product = |stmt: &TileStmt| {
        matches!(
            stmt,
            TileStmt::Define {
                op: TileOp::Dot { .. },
                ..
            }
        )
    };
    body.iter().any(is_product)
}

/// Whether several iterations of a loop may be under way. What is loaded after a barrier must not be loaded before it.
pub(crate) fn overlaps(l: &TileLoop) -> bool {
    l.pipeline.is_some() && !has_barrier(&l.body)
}

fn has_barrier(body: &[TileStmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        TileStmt::Barrier => true,
        TileStmt::For(l) => has_barrier(&l.body),
        TileStmt::If { then, otherwise, .. } => has_barrier(then) || has_barrier(otherwise),
        TileStmt::Let { .. } | TileStmt::Define { .. } | TileStmt::Store { .. } => false,
    })
}
