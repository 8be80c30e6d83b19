//! From a typed sketch to tile machines, statement by statement.

use std::collections::BTreeSet;

use super::regroup::keeps_order;
use super::{
    Access, AccessDim, Coordinate, Lanes, TileKernel, TileLoop, TileOp, TileProgram, TileRules, TileStmt,
    TileValue,
};
use crate::dtype::{DType, DTypeClass};
use crate::expr::{Expr, Symbol};
use crate::lower::analysis::{Facts, Guard, loops, region, roles};
use crate::lower::grid;
use crate::sketch::ir::{
    Axis, BinaryOp, Condition, Kernel, Loop, Op, Program, ReduceOp, Scalar, Stmt, TensorId, TileType, Val,
};

/// Maps `program` to a tile machine with `rules`.
///
/// The program must be one that `elaborate` made or the validator accepts: identifiers refer to what exists.
pub fn map(program: &Program, rules: &TileRules) -> TileProgram {
    TileProgram {
        name: program.name.clone(),
        tensors: program.tensors.clone(),
        dims: program.dims.clone(),
        accuracy: program.accuracy,
        kernels: program
            .kernels
            .iter()
            .map(|kernel| Mapper::new(program, kernel, rules).run(kernel))
            .collect(),
    }
}

pub(super) struct Mapper<'a> {
    program: &'a Program,
    kernel: &'a Kernel,
    pub(super) rules: &'a TileRules,
    facts: Facts,
    symbols: BTreeSet<Symbol>,
    tensors: Vec<TensorId>,
    wide: bool,
    pub(super) values: Vec<TileValue>,
    /// What every lane beyond the sketch's extents holds, where that is known.
    pub(super) beyond: Vec<Option<Scalar>>,
    /// Values that an addition reads.
    pub(super) added: BTreeSet<Val>,
}

impl<'a> Mapper<'a> {
    fn new(program: &'a Program, kernel: &'a Kernel, rules: &'a TileRules) -> Self {
        let mut added = BTreeSet::new();
        roles::each_op(&kernel.body, &mut |_, op| {
            if let Op::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) = op {
                added.extend([*a, *b]);
            }
        });
        let mut symbols: BTreeSet<Symbol> = program.dims.iter().cloned().collect();
        symbols.extend(kernel.grid.iter().map(|axis| axis.symbol.clone()));
        loop_symbols(&kernel.body, &mut symbols);
        let mut mapper = Self {
            program,
            kernel,
            rules,
            facts: Facts::of(program, kernel),
            symbols,
            tensors: Vec::new(),
            wide: false,
            values: Vec::new(),
            beyond: Vec::new(),
            added,
        };
        for info in &kernel.values {
            mapper.new_value(info.ty.clone(), &info.name);
        }
        mapper
    }

    fn run(mut self, kernel: &Kernel) -> TileKernel {
        let symbol = self.fresh("program");
        let programs = grid::program_count(kernel);
        self.facts.add_counter(symbol.clone(), &programs);
        self.note_index(&programs);
        let mut body = Vec::new();
        let indices = grid::program_indices(kernel, &Expr::symbol(symbol.clone()));
        for (axis, value) in kernel.grid.iter().zip(indices) {
            body.push(TileStmt::Let {
                symbol: axis.symbol.clone(),
                value,
            });
        }
        self.block(&kernel.body, &mut body);
        TileKernel {
            name: kernel.name.clone(),
            doc: kernel.doc.clone(),
            teams: grid::teams(kernel),
            tensors: self.tensors,
            program: symbol,
            programs,
            wide: self.wide,
            facts: self.facts,
            values: self.values,
            body,
        }
    }

    /// A symbol that no expression of the kernel has.
    fn fresh(&mut self, stem: &str) -> Symbol {
        let mut name: Symbol = stem.into();
        let mut n = 2;
        while self.symbols.contains(&name) {
            name = format!("{stem}{n}").into();
            n += 1;
        }
        self.symbols.insert(name.clone());
        name
    }

    fn note_index(&mut self, expr: &Expr) {
        self.wide |= !self.facts.fits_i32(expr);
    }

    /// Declares a tile.
    pub(super) fn new_value(&mut self, ty: TileType, name: &str) -> Val {
        let extents = ty.extents.iter().map(|n| self.rules.round_up(*n)).collect();
        self.values.push(TileValue {
            ty,
            extents,
            name: name.into(),
        });
        self.beyond.push(None);
        Val(self.values.len() as u32 - 1)
    }

    pub(super) fn value(&self, value: Val) -> &TileValue {
        &self.values[value.0 as usize]
    }

    /// Declares and defines a tile of `dtype` and `extents`.
    pub(super) fn define(
        &mut self,
        dtype: DType,
        extents: &[usize],
        op: TileOp,
        out: &mut Vec<TileStmt>,
    ) -> Val {
        let value = self.new_value(
            TileType {
                dtype,
                extents: extents.to_vec(),
            },
            "",
        );
        out.push(TileStmt::Define { value, op });
        value
    }

    fn block(&mut self, body: &[Stmt], out: &mut Vec<TileStmt>) {
        for stmt in body {
            match stmt {
                Stmt::Define { value, op, .. } => self.op(*value, op, out),
                Stmt::Store {
                    tensor,
                    region,
                    value,
                    mode,
                    ..
                } => {
                    let access = self.access(*tensor, region, *value, true);
                    out.push(TileStmt::Store {
                        access,
                        value: *value,
                        mode: *mode,
                    });
                }
                Stmt::For(l) => {
                    let l = self.map_loop(l);
                    out.push(TileStmt::For(l));
                }
                Stmt::If(branch) => {
                    self.note_condition(&branch.condition);
                    let (mut then, mut otherwise) = (Vec::new(), Vec::new());
                    self.block(&branch.then, &mut then);
                    self.block(&branch.otherwise, &mut otherwise);
                    out.push(TileStmt::If {
                        condition: branch.condition.clone(),
                        then,
                        otherwise,
                        merges: branch.merges.clone(),
                    });
                }
                Stmt::Barrier => out.push(TileStmt::Barrier),
            }
        }
    }

    fn note_condition(&mut self, condition: &Condition) {
        match condition {
            Condition::Compare(_, a, b) => {
                self.note_index(a);
                self.note_index(b);
            }
            Condition::And(a, b) | Condition::Or(a, b) => {
                self.note_condition(a);
                self.note_condition(b);
            }
            Condition::Not(a) => self.note_condition(a),
        }
    }

    fn map_loop(&mut self, l: &Loop) -> TileLoop {
        let l = loops::join_nest(l);
        let mut body = Vec::new();
        let (symbol, lo, hi, step) = if let [axis] = l.axes.as_slice() {
            (axis.symbol.clone(), axis.lo.clone(), axis.hi.clone(), axis.step)
        } else {
            let names: Vec<&str> = l.axes.iter().map(|axis| &*axis.symbol).collect();
            let counter = self.fresh(&names.join("_"));
            let collapsed = loops::collapse(&self.facts, &l.axes, &Expr::symbol(counter.clone()));
            self.facts.add_counter(counter.clone(), &collapsed.count);
            for (symbol, value) in collapsed.indices {
                body.push(TileStmt::Let { symbol, value });
            }
            (counter, 0.into(), collapsed.count, 1)
        };
        self.note_index(&lo);
        self.note_index(&(&hi + &step.into()));
        self.block(&l.body, &mut body);
        TileLoop {
            symbol,
            lo,
            hi,
            step,
            carried: l.carried,
            body,
            pipeline: l.pipeline,
            unroll: l.unroll,
        }
    }

    fn access(&mut self, tensor: TensorId, axes: &[Axis], tile: Val, guarded: bool) -> Access {
        if !self.tensors.contains(&tensor) {
            self.tensors.push(tensor);
        }
        let shape = self.program.shape(self.kernel, tensor);
        let elements = shape.iter().fold(Expr::constant(1), |n, extent| n * extent);
        let mut axis = 0;
        let mut next_axis = || {
            axis += 1;
            axis - 1
        };
        let mut dims = Vec::with_capacity(axes.len());
        for ((entry, extent), stride) in axes.iter().zip(shape).zip(region::strides(shape)) {
            let coordinate = match entry {
                Axis::Range { start, step, .. } => Coordinate::Lanes {
                    axis: next_axis(),
                    start: start.clone(),
                    step: *step,
                },
                Axis::At(at) => Coordinate::At(at.clone()),
                Axis::AtTile(value) => Coordinate::AtTile(*value),
                Axis::Gather(value) => Coordinate::Index {
                    axis: next_axis(),
                    value: *value,
                },
            };
            dims.push(AccessDim {
                coordinate,
                stride,
                extent: extent.clone(),
                guard: if guarded {
                    region::guard(&self.facts, entry, extent)
                } else {
                    Guard::default()
                },
            });
        }
        for entry in axes {
            match entry {
                Axis::Range { start, len, step } => {
                    self.note_index(start);
                    self.note_index(&(start + &Expr::constant(step * self.rules.round_up(*len) as i64)));
                }
                Axis::At(at) => self.note_index(at),
                Axis::AtTile(_) | Axis::Gather(_) => {}
            }
        }
        let tile = self.value(tile);
        let lanes = tile.ty.extents.iter().zip(&tile.extents);
        Access {
            tensor,
            dims,
            lanes: lanes
                .map(|(live, all)| Lanes {
                    live: *live,
                    all: *all,
                })
                .collect(),
            wide: !self.facts.fits_i32(&elements),
        }
    }

    fn op(&mut self, value: Val, op: &Op, out: &mut Vec<TileStmt>) {
        let mapped = match op {
            Op::Load { tensor, region, fill } => {
                let access = self.access(*tensor, region, value, fill.is_some());
                let dtype = self.value(value).ty.dtype;
                let fill = fill.unwrap_or(zero(dtype));
                self.beyond[value.0 as usize] = Some(fill);
                TileOp::Load { access, fill }
            }
            Op::Dot {
                a,
                b,
                init,
                method,
                promote,
            } => {
                self.dot(value, (*a, *b), *init, *method, *promote, out);
                return;
            }
            Op::Reduce(kind, a, axis) => {
                let a = self.neutral(*a, *axis, *kind, out);
                TileOp::Plain(Op::Reduce(*kind, a, *axis))
            }
            Op::ArgReduce(kind, a, axis) => {
                let a = self.neutral(*a, *axis, *kind, out);
                TileOp::Plain(Op::ArgReduce(*kind, a, *axis))
            }
            // Forward scans reach the lanes beyond the extent last.
            Op::Scan {
                op: kind,
                value: a,
                axis,
                exclusive,
                reverse: true,
            } => TileOp::Plain(Op::Scan {
                op: *kind,
                value: self.neutral(*a, *axis, *kind, out),
                axis: *axis,
                exclusive: *exclusive,
                reverse: true,
            }),
            Op::Reshape(a) if !keeps_order(self.value(*a), self.value(value)) => TileOp::Regroup(*a),
            other => {
                self.beyond[value.0 as usize] = self.known_beyond(value, other);
                if let Op::Index(expr) = other {
                    self.note_index(expr);
                }
                TileOp::Plain(other.clone())
            }
        };
        out.push(TileStmt::Define { value, op: mapped });
    }

    fn known_beyond(&self, value: Val, op: &Op) -> Option<Scalar> {
        let of = |v: &Val| self.beyond[v.0 as usize];
        match op {
            Op::Full(scalar) => Some(*scalar),
            Op::Transpose(a, _) | Op::Reshape(a) => of(a),
            // Zero and infinities convert exactly between floating types.
            Op::Cast(a) if self.value(value).ty.dtype.is_float() => {
                of(a).filter(|s| matches!(s, Scalar::Float(f) if *f == 0.0 || f.is_infinite()))
            }
            _ => None,
        }
    }

    /// `value` with lanes beyond the sketch's extent along `axis` that do not matter to `kind`.
    fn neutral(&mut self, value: Val, axis: usize, kind: ReduceOp, out: &mut Vec<TileStmt>) -> Val {
        let dtype = self.value(value).ty.dtype;
        self.padding_as(value, axis, identity(kind, dtype), out)
    }

    /// `value` with `other` in lanes beyond the sketch's extent along `axis`.
    pub(super) fn padding_as(
        &mut self,
        value: Val,
        axis: usize,
        other: Scalar,
        out: &mut Vec<TileStmt>,
    ) -> Val {
        let tile = self.value(value);
        if !tile.padded(axis) || self.beyond[value.0 as usize] == Some(other) {
            return value;
        }
        let ty = tile.ty.clone();
        let keep = 0..ty.extents[axis];
        let op = TileOp::Mask {
            value,
            axis,
            keep,
            other,
        };
        self.define(ty.dtype, &ty.extents, op, out)
    }
}

fn loop_symbols(body: &[Stmt], symbols: &mut BTreeSet<Symbol>) {
    for stmt in body {
        match stmt {
            Stmt::For(l) => {
                symbols.extend(l.axes.iter().map(|axis| axis.symbol.clone()));
                loop_symbols(&l.body, symbols);
            }
            Stmt::If(branch) => {
                loop_symbols(&branch.then, symbols);
                loop_symbols(&branch.otherwise, symbols);
            }
            Stmt::Define { .. } | Stmt::Store { .. } | Stmt::Barrier => {}
        }
    }
}

pub(super) fn zero(dtype: DType) -> Scalar {
    if dtype.is_float() {
        Scalar::Float(0.0)
    } else {
        Scalar::Int(0)
    }
}

/// The element that `kind` ignores.
fn identity(kind: ReduceOp, dtype: DType) -> Scalar {
    let bits = 8 * dtype.size() as u32;
    let (lowest, highest) = match (dtype.class(), dtype) {
        (DTypeClass::Float, _) => (Scalar::Float(f64::NEG_INFINITY), Scalar::Float(f64::INFINITY)),
        (DTypeClass::Bool, _) => (Scalar::Int(0), Scalar::Int(1)),
        (_, DType::U8) => (Scalar::Int(0), Scalar::Int(255)),
        _ => (
            Scalar::Int(i64::MIN >> (64 - bits)),
            Scalar::Int(i64::MAX >> (64 - bits)),
        ),
    };
    match kind {
        ReduceOp::Sum => zero(dtype),
        ReduceOp::Prod if dtype.is_float() => Scalar::Float(1.0),
        ReduceOp::Prod => Scalar::Int(1),
        ReduceOp::Max => lowest,
        ReduceOp::Min => highest,
    }
}
