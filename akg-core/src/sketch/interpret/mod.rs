//! The meaning of a sketch, executable: runs a typed program on tensors in host memory.
//!
//! Every operator rounds its result to the tile's element type. What a sketch leaves open is fixed so that one result
//! stands for all: transcendental functions are those of f64, rounded; a reduction is formed in f64 and rounded once; a
//! dot rounds each product and each sum, without fused multiply-add.
//!
//! Programs run in the order of their numbers; those of a team of a cooperative kernel together, from barrier to barrier. What
//! real programs could see differently is an error that names tensor, coordinates and programs: reading an element that
//! nothing was written to, two programs that touch one element at the same time, a load that leaves the tensor without
//! `else`, an output element that is never stored.

mod dot;
mod element;
mod memory;
mod tile;

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use self::memory::{Coordinates, Memory, Toucher};
use self::tile::{Data, Tile};
use super::ir::{
    Axis, Branch, Condition, Kernel, Loop, Op, Program, Scalar, Stmt, TensorId, TileType, Val, has_barrier,
};
use crate::error::{Error, Result};
use crate::expr::{Bindings, Expr, Symbol};
use crate::lower::grid;
use crate::source::TensorRole;
use crate::tensor::Tensor;

/// How the iterations of a fold (a loop with `combine`) are executed. Both give the same up to rounding if `combine`
/// is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Folds {
    /// One after the other; `combine` is not used.
    #[default]
    Sequential,
    /// In two halves that both start from the initial values, combined at the end.
    Halves,
}

/// Runs `program` on `inputs`, given in the order of declaration, and returns its outputs.
///
/// `bindings` holds the extents that are still symbols.
///
/// ```
/// use akg_core::expr::Bindings;
/// use akg_core::sketch::{Sketch, interpret};
/// use akg_core::source::Knobs;
/// use akg_core::Tensor;
///
/// let text = "
/// sketch double(x: f32[L]) -> y: f32[L]
/// kernel main over (p in ceildiv(L, 4)) {
///   store y[p*4 :+ 4] = 2 * (load x[p*4 :+ 4] else 0)
/// }";
/// let dims = Bindings::from([("L".into(), 5)]);
/// let program = Sketch::parse(text)?.elaborate(&Knobs::new(), &dims)?;
/// let x = Tensor::from_slice([5], &[1.0f32, 2.0, 3.0, 4.0, 5.0])?;
/// let y = interpret(&program, &[x], &dims)?;
/// assert_eq!(y[0].as_slice::<f32>()?, [2.0, 4.0, 6.0, 8.0, 10.0]);
/// # Ok::<(), akg_core::Error>(())
/// ```
pub fn interpret(program: &Program, inputs: &[Tensor], bindings: &Bindings) -> Result<Vec<Tensor>> {
    interpret_folds(program, inputs, bindings, Folds::Sequential)
}

/// [`interpret`] with a choice of how folds are executed.
pub fn interpret_folds(
    program: &Program,
    inputs: &[Tensor],
    bindings: &Bindings,
    folds: Folds,
) -> Result<Vec<Tensor>> {
    let mut machine = Machine {
        memory: allocate(program, inputs, bindings)?,
        kernel: 0,
        team: 0,
        epoch: 0,
        folds,
    };
    for kernel in &program.kernels {
        machine.see(&kernel.views, bindings)?;
        machine
            .launch(kernel, bindings)
            .map_err(|e| e.with("kernel", &kernel.name))?;
        let seen = kernel.views.keys();
        let declared = seen.filter_map(|id| Some((*id, program.tensors.get(id.0)?.shape.clone())));
        machine.see(&declared.collect(), bindings)?;
    }
    let roles = program.tensors.iter().map(|t| t.role);
    machine
        .memory
        .into_iter()
        .zip(roles)
        .filter(|(_, role)| *role == TensorRole::Output)
        .map(|(memory, _)| memory.finish())
        .collect()
}

fn allocate(program: &Program, inputs: &[Tensor], bindings: &Bindings) -> Result<Vec<Memory>> {
    let wanted = program.with_role(TensorRole::Input).count();
    if wanted != inputs.len() {
        return Err(Error::invalid(format!(
            "sketch `{}` takes {wanted} inputs, not {}",
            program.name,
            inputs.len()
        )));
    }
    let mut inputs = inputs.iter();
    let mut memory = Vec::with_capacity(program.tensors.len());
    for tensor in &program.tensors {
        let shape = concrete(&tensor.shape, bindings).map_err(|e| e.with("tensor", &tensor.name))?;
        memory.push(match tensor.role {
            TensorRole::Input => {
                let given = inputs
                    .next()
                    .filter(|given| given.dtype() == tensor.dtype && given.shape() == shape)
                    .ok_or_else(|| {
                        Error::invalid(format!(
                            "input `{}` must be {}{shape:?} under the given extents",
                            tensor.name, tensor.dtype
                        ))
                    })?;
                Memory::input(&tensor.name, given)?
            }
            TensorRole::Output | TensorRole::Scratch => {
                let blank = Memory::poisoned(&tensor.name, tensor.dtype, shape)?;
                match tensor.updates.and_then(|input| memory.get(input)) {
                    Some(input) => blank.beginning_as(input),
                    None => blank,
                }
            }
        });
    }
    Ok(memory)
}

pub(crate) fn concrete(shape: &[Expr], bindings: &Bindings) -> Result<Vec<usize>> {
    let extents = shape.iter().map(|extent| {
        let value = extent.eval(bindings)?;
        usize::try_from(value).map_err(|_| Error::invalid(format!("extent {extent} is {value}")))
    });
    extents.collect()
}

struct Machine {
    memory: Vec<Memory>,
    /// What runs, as a [`Toucher`] says it.
    kernel: u32,
    team: i64,
    epoch: u32,
    folds: Folds,
}

/// The state of one program of the running kernel.
struct Instance<'k> {
    kernel: &'k Kernel,
    number: u32,
    symbols: Vec<(Symbol, i64)>,
    values: Vec<Option<Rc<Tile>>>,
}

impl Instance<'_> {
    fn symbol(&self, name: &str) -> Option<i64> {
        let mut found = self.symbols.iter().rev();
        found.find(|(symbol, _)| **symbol == *name).map(|(_, v)| *v)
    }

    fn eval(&self, expr: &Expr) -> Result<i64> {
        expr.eval_with(&|name| self.symbol(name))
    }

    fn holds(&self, condition: &Condition) -> Result<bool> {
        condition.eval_with(&|name| self.symbol(name))
    }

    fn get(&self, value: Val) -> Result<&Rc<Tile>> {
        self.values
            .get(value.0 as usize)
            .and_then(Option::as_ref)
            .ok_or_else(|| Error::invalid(format!("tile value {} is used before it is defined", value.0)))
    }

    /// Gives `to` the tile of `from`.
    fn copy(&mut self, from: Val, to: Val) -> Result<()> {
        let tile = Rc::clone(self.get(from)?);
        self.set(to, tile)
    }

    fn set(&mut self, value: Val, tile: Rc<Tile>) -> Result<()> {
        let want = self.kernel.values.get(value.0 as usize).map(|info| &info.ty);
        let elements = match &tile.data {
            Data::Float(v) if tile.ty.dtype.is_float() => v.len(),
            Data::Int(v) if !tile.ty.dtype.is_float() => v.len(),
            _ => {
                return Err(Error::invalid(format!(
                    "{} is not the operator's result type",
                    tile.ty.dtype
                )));
            }
        };
        if want != Some(&tile.ty) || elements != tile.ty.extents.iter().product::<usize>() {
            return Err(Error::invalid(format!(
                "{elements} elements {}{:?} do not fit the type of tile value {}",
                tile.ty.dtype, tile.ty.extents, value.0
            )));
        }
        match self.values.get_mut(value.0 as usize) {
            Some(slot) => *slot = Some(tile),
            None => return Err(Error::invalid(format!("there is no tile value {}", value.0))),
        }
        Ok(())
    }

    fn region(&self, region: &[Axis]) -> Result<Vec<Coordinates>> {
        region
            .iter()
            .map(|axis| {
                let (at, kept) = match axis {
                    Axis::Range { start, len, step } => {
                        let start = self.eval(start)?;
                        let far = i64::try_from(*len).ok().and_then(|n| n.checked_mul(*step));
                        if far.and_then(|far| start.checked_add(far)).is_none() {
                            return Err(Error::invalid("a region's coordinates overflow"));
                        }
                        ((0..*len as i64).map(|i| start + i * step).collect(), true)
                    }
                    Axis::At(expr) => (vec![self.eval(expr)?], false),
                    Axis::AtTile(v) => (self.get(*v)?.ints()?.to_vec(), false),
                    Axis::Gather(v) => (self.get(*v)?.ints()?.to_vec(), true),
                };
                if !kept && at.len() != 1 {
                    return Err(Error::invalid("a coordinate must be one element"));
                }
                Ok(Coordinates { at, kept })
            })
            .collect()
    }
}

/// The points of a loop nest, the last index fastest.
fn iterations(instance: &Instance<'_>, l: &Loop) -> Result<Vec<Vec<i64>>> {
    let mut points = vec![Vec::new()];
    for axis in &l.axes {
        let (lo, hi) = (instance.eval(&axis.lo)?, instance.eval(&axis.hi)?);
        let step = usize::try_from(axis.step)
            .ok()
            .filter(|s| *s > 0)
            .ok_or_else(|| {
                Error::invalid(format!("loop index `{}` has the step {}", axis.symbol, axis.step))
            })?;
        points = points
            .into_iter()
            .flat_map(|p: Vec<i64>| {
                (lo..hi).step_by(step).map(move |i| {
                    let mut p = p.clone();
                    p.push(i);
                    p
                })
            })
            .collect();
    }
    Ok(points)
}

/// What all programs agree on; an error if they do not, because then not all would meet at the barrier inside.
fn uniform<T: PartialEq>(mut each: impl Iterator<Item = Result<T>>) -> Result<Option<T>> {
    let Some(first) = each.next().transpose()? else {
        return Ok(None);
    };
    for other in each {
        if other? != first {
            return Err(Error::invalid(
                "programs disagree on a loop or branch that contains a barrier",
            ));
        }
    }
    Ok(Some(first))
}

impl Machine {
    /// Gives tensors these extents, from now on.
    fn see(&mut self, views: &BTreeMap<TensorId, Vec<Expr>>, bindings: &Bindings) -> Result<()> {
        for (id, shape) in views {
            if let Some(memory) = self.memory.get_mut(id.0) {
                memory.see(concrete(shape, bindings)?);
            }
        }
        Ok(())
    }

    fn launch(&mut self, kernel: &Kernel, bindings: &Bindings) -> Result<()> {
        let count = grid::program_count(kernel).eval(bindings)?;
        let count =
            u32::try_from(count).map_err(|_| Error::invalid(format!("a grid of {count} programs")))?;
        let number = Symbol::from("program number");
        let indices = grid::program_indices(kernel, &Expr::symbol(number.clone()));
        let mut dims = bindings.clone();
        let mut programs = (0..count).map(|program| -> Result<_> {
            dims.insert(number.clone(), i64::from(program));
            let mut symbols: Vec<_> = bindings.iter().map(|(k, v)| (k.clone(), *v)).collect();
            for (axis, index) in kernel.grid.iter().zip(&indices) {
                symbols.push((axis.symbol.clone(), index.eval(&dims)?));
            }
            Ok(Instance {
                kernel,
                number: program,
                symbols,
                values: vec![None; kernel.values.len()],
            })
        });
        self.kernel += 1;
        if let Some(teams) = grid::teams(kernel) {
            let mut members: BTreeMap<i64, Vec<Instance<'_>>> = BTreeMap::new();
            for program in programs {
                let program = program?;
                members
                    .entry(program.eval(&teams.number)?)
                    .or_default()
                    .push(program);
            }
            return members.into_iter().try_for_each(|(team, mut programs)| {
                self.team = team;
                self.epoch += 1;
                self.run(&mut programs, &kernel.body)
            });
        }
        self.team = 0;
        self.epoch += 1;
        programs.try_for_each(|program| self.run(&mut [program?], &kernel.body))
    }

    /// Runs statements for programs that run at the same time. Statements without a barrier inside run program by
    /// program, the others iteration by iteration.
    fn run(&mut self, programs: &mut [Instance<'_>], body: &[Stmt]) -> Result<()> {
        for stmt in body {
            match stmt {
                Stmt::Barrier => self.epoch += 1,
                Stmt::For(l) if has_barrier(&l.body) => {
                    let points = uniform(programs.iter().map(|p| iterations(p, l)))?;
                    self.run_loop(programs, l, &points.unwrap_or_default())?;
                }
                Stmt::If(b) if has_barrier(&b.then) || has_barrier(&b.otherwise) => {
                    let holds = uniform(programs.iter().map(|p| p.holds(&b.condition)))?;
                    self.run_branch(programs, b, holds.unwrap_or(true))?;
                }
                _ => {
                    for program in programs.iter_mut() {
                        self.run_one(program, stmt)
                            .map_err(|e| locate(e, program, stmt))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs a statement without a barrier inside for one program.
    fn run_one(&mut self, program: &mut Instance<'_>, stmt: &Stmt) -> Result<()> {
        match stmt {
            Stmt::Define { value, op, .. } => {
                let ty = program.kernel.values.get(value.0 as usize).map(|info| &info.ty);
                let ty = ty.ok_or_else(|| Error::invalid(format!("there is no tile value {}", value.0)))?;
                let tile = self.compute(program, ty, op)?;
                program.set(*value, Rc::new(tile))
            }
            Stmt::Store {
                tensor,
                region,
                value,
                mode,
                ..
            } => {
                let coordinates = program.region(region)?;
                let by = self.toucher(program);
                let memory = self.memory.get_mut(tensor.0);
                let memory = memory.ok_or_else(|| Error::invalid("a store to no tensor"))?;
                memory.store(&coordinates, program.get(*value)?, *mode, by)
            }
            Stmt::For(l) => {
                let points = iterations(program, l)?;
                let programs = std::slice::from_mut(program);
                match (&l.combine, self.folds) {
                    (Some(combine), Folds::Halves) => {
                        let (first, second) = points.split_at(points.len() / 2);
                        self.run_loop(programs, l, first)?;
                        let left = results(programs, l)?;
                        self.run_loop(programs, l, second)?;
                        let right = results(programs, l)?;
                        for program in programs.iter_mut() {
                            let sides = combine.left.iter().zip(&left);
                            for (name, tile) in sides.chain(combine.right.iter().zip(&right)) {
                                program.set(*name, Rc::clone(tile))?;
                            }
                        }
                        self.run(programs, &combine.body)?;
                        for program in programs {
                            for (from, carried) in combine.result.iter().zip(&l.carried) {
                                program.copy(*from, carried.result)?;
                            }
                        }
                        Ok(())
                    }
                    _ => self.run_loop(programs, l, &points),
                }
            }
            Stmt::If(b) => {
                let holds = program.holds(&b.condition)?;
                self.run_branch(std::slice::from_mut(program), b, holds)
            }
            Stmt::Barrier => Ok(()),
        }
    }

    fn run_loop(&mut self, programs: &mut [Instance<'_>], l: &Loop, points: &[Vec<i64>]) -> Result<()> {
        for program in programs.iter_mut() {
            for carried in &l.carried {
                program.copy(carried.initial, carried.inner)?;
            }
        }
        for point in points {
            for program in programs.iter_mut() {
                let indices = l.axes.iter().zip(point);
                program
                    .symbols
                    .extend(indices.map(|(axis, i)| (axis.symbol.clone(), *i)));
            }
            self.run(programs, &l.body)?;
            for program in programs.iter_mut() {
                program.symbols.truncate(program.symbols.len() - l.axes.len());
                let next: Vec<_> = l
                    .carried
                    .iter()
                    .map(|carried| program.get(carried.next).map(Rc::clone))
                    .collect::<Result<_>>()?;
                for (carried, tile) in l.carried.iter().zip(next) {
                    program.set(carried.inner, tile)?;
                }
            }
        }
        for program in programs {
            for carried in &l.carried {
                program.copy(carried.inner, carried.result)?;
            }
        }
        Ok(())
    }

    fn run_branch(&mut self, programs: &mut [Instance<'_>], b: &Branch, holds: bool) -> Result<()> {
        self.run(programs, if holds { &b.then } else { &b.otherwise })?;
        for program in programs {
            for merge in &b.merges {
                let taken = if holds { merge.then } else { merge.otherwise };
                program.copy(taken, merge.result)?;
            }
        }
        Ok(())
    }

    fn toucher(&self, program: &Instance<'_>) -> Toucher {
        Toucher {
            kernel: self.kernel,
            team: self.team,
            epoch: self.epoch,
            program: program.number,
        }
    }

    fn compute(&mut self, program: &Instance<'_>, ty: &TileType, op: &Op) -> Result<Tile> {
        let get = |v: &Val| program.get(*v).map(Rc::as_ref);
        match op {
            Op::Load { tensor, region, fill } => {
                let coordinates = program.region(region)?;
                let by = self.toucher(program);
                let memory = self.memory.get_mut(tensor.0);
                let memory = memory.ok_or_else(|| Error::invalid("a load from no tensor"))?;
                memory.load(&coordinates, *fill, by)
            }
            Op::Full(value) => Ok(Tile::full(ty, *value)),
            Op::Iota => Ok(Tile::int(ty, 0..ty.extents.iter().product::<usize>() as i64)),
            Op::Index(expr) => Ok(Tile::full(ty, Scalar::Int(program.eval(expr)?))),
            Op::Unary(op, a) => Tile::unary(ty, *op, get(a)?),
            Op::Binary(op, a, b) => Tile::binary(ty, *op, get(a)?, get(b)?),
            Op::Compare(op, a, b) => Tile::compare(ty, *op, get(a)?, get(b)?),
            Op::Select(c, a, b) => Tile::select(ty, get(c)?, get(a)?, get(b)?),
            Op::Cast(a) => Ok(Tile::cast(ty, get(a)?)),
            Op::Bits(a) => Tile::bits(ty, get(a)?),
            Op::Reduce(op, a, axis) => Tile::reduce(ty, *op, get(a)?, *axis),
            Op::ArgReduce(op, a, axis) => Tile::arg_reduce(ty, *op, get(a)?, *axis),
            Op::Scan {
                op,
                value,
                axis,
                exclusive,
                reverse,
            } => Tile::scan(ty, *op, get(value)?, *axis, *exclusive, *reverse),
            Op::Dot {
                a,
                b,
                init,
                method,
                promote,
            } => {
                let init = init.as_ref().map(get).transpose()?;
                dot::dot(ty, (get(a)?, get(b)?, init), *method, *promote)
            }
            Op::Transpose(a, perm) => Tile::transpose(ty, get(a)?, perm),
            Op::Reshape(a) => Tile::reshape(ty, get(a)?),
        }
    }
}

fn results(programs: &[Instance<'_>], l: &Loop) -> Result<Vec<Rc<Tile>>> {
    let carried = |p| {
        l.carried
            .iter()
            .map(move |c| Instance::get(p, c.result).map(Rc::clone))
    };
    programs.iter().flat_map(carried).collect()
}

/// Says where an error arose, unless a statement inside already did.
fn locate(error: Error, program: &Instance<'_>, stmt: &Stmt) -> Error {
    if error.context().next().is_some() {
        return error;
    }
    let span: Option<&Range<usize>> = match stmt {
        Stmt::Define { span, .. } | Stmt::Store { span, .. } => Some(span),
        Stmt::For(l) => Some(&l.span),
        Stmt::If(b) => Some(&b.span),
        Stmt::Barrier => None,
    };
    let indices: Vec<String> = program
        .symbols
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let error = error.with("program", indices.join(" "));
    match span {
        Some(span) if !span.is_empty() => error.with("at byte", span.start),
        _ => error,
    }
}
