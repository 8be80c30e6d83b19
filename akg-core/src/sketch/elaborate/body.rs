//! Kernels and their statements.

use std::collections::BTreeMap;

use super::header::{Entity, Header, unknown_type};
use super::prune::prune;
use super::scalar::Value;
use super::scope::{Frame, Scope};
use super::tiles::Builder;
use super::{Elab, Fault, fault};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::expr::Expr;
use crate::sketch::ir::*;
use crate::sketch::syntax::*;
use crate::source::TensorRole;

/// The most kernels of a sketch, those of templates included.
const MAX_KERNELS: usize = 4096;

/// The kernels of a sketch, one for each instance of a template.
pub(super) fn kernels(tree: &SketchTree, header: &Header) -> Result<Vec<Kernel>, Diagnostics> {
    let mut diagnostics = Diagnostics::new();
    let mut out: Vec<Kernel> = Vec::new();
    for kernel in &tree.kernels {
        let kernel = &kernel.node;
        let instances = match &kernel.template {
            None => vec![(kernel.name.node.clone(), BTreeMap::new())],
            Some(template) => match instances(&kernel.name, template, header) {
                Ok(instances) => instances,
                Err(Fault::New(diagnostic)) => {
                    diagnostics.push(diagnostic);
                    continue;
                }
                Err(Fault::Reported) => continue,
            },
        };
        if out.len() + instances.len() > MAX_KERNELS {
            let message = format!("more than {MAX_KERNELS} kernels, those of templates included");
            diagnostics.push(Diagnostic::error(message, kernel.name.span.clone()));
            break;
        }
        for (name, aliases) in instances {
            if out.iter().any(|k| k.name == name) {
                let message = format!("two kernels are named `{name}`");
                diagnostics.push(Diagnostic::error(message, kernel.name.span.clone()));
            }
            let mut builder = Builder::new(header, Scope::new(header, aliases), &mut diagnostics);
            match builder.kernel(kernel, name) {
                Ok(kernel) => out.push(kernel),
                Err(error) => builder.report(error),
            }
        }
    }
    diagnostics.sort();
    if diagnostics.has_errors() {
        Err(diagnostics)
    } else {
        Ok(out)
    }
}

/// The largest bound of a loop or grid, and the largest step: adding a step to an end must not overflow in any language.
const MAX_BOUND: i64 = 1 << 60;

/// An error if a known bound cannot be counted to.
fn countable(bound: &Expr, ex: &Ex) -> Elab<()> {
    match bound
        .as_const()
        .filter(|value| value.unsigned_abs() > MAX_BOUND as u64)
    {
        None => Ok(()),
        Some(value) => fault(
            format!("a bound of {value}; loops and grids count to 2^60 at most"),
            ex.span.clone(),
        ),
    }
}

type Instance = (String, BTreeMap<String, Entity>);

fn instances(kernel: &Name, template: &Template, header: &Header) -> Elab<Vec<Instance>> {
    for name in &template.names {
        if header.names.contains_key(&name.node) {
            let message = format!(
                "`{}` already has a meaning in this sketch; choose another name",
                name.node
            );
            return fault(message, name.span.clone());
        }
    }
    let mut out = Vec::new();
    for (i, row) in template.rows.iter().enumerate() {
        let mut aliases = BTreeMap::new();
        for (name, value) in template.names.iter().zip(row) {
            let entity = match &*value.node {
                Expression::Int(number) => Some(Entity::Int((*number).into())),
                Expression::Float(number) => Some(Entity::Float(*number)),
                Expression::Name(target) => {
                    let global = header.names.get(target).cloned();
                    global.or_else(|| target.parse().ok().map(Entity::DType))
                }
                _ => None,
            };
            let Some(entity) = entity else {
                let message = format!("`{value}` cannot stand for `{}`", name.node);
                let error = Diagnostic::error(message, value.span.clone());
                return Err(error
                    .note("write a tensor, a type, a number or a name from a `let`")
                    .into());
            };
            aliases.insert(name.node.clone(), entity);
        }
        out.push((format!("{}_{i}", kernel.node), aliases));
    }
    Ok(out)
}

impl Builder<'_> {
    pub(super) fn report(&mut self, error: Fault) {
        if let Fault::New(diagnostic) = error
            && !self.diagnostics.iter().any(|d| *d == diagnostic)
        {
            self.diagnostics.push(diagnostic);
        }
    }

    fn kernel(&mut self, kernel: &KernelSyntax, name: String) -> Elab<Kernel> {
        let mut grid = Vec::new();
        for (axis, extent) in &kernel.grid {
            // Extents may not mention indices, so all are evaluated before the first index is bound.
            let programs = self.integer(extent)?;
            countable(&programs, extent)?;
            grid.push((axis, programs));
        }
        for (tensor, extents) in &kernel.views {
            self.view(tensor, extents)?;
        }
        let mut axes = Vec::new();
        for (axis, extent) in grid {
            let symbol = self.scope.index(axis)?;
            axes.push(GridAxis { symbol, extent });
        }
        let order = match &kernel.grouped {
            None => Order::RowMajor,
            Some((axis, size)) => self.order(kernel, axis, size)?,
        };
        let along = kernel.cooperative.as_deref();
        let cooperative = along.map(|along| Self::team(kernel, along)).transpose()?;
        self.statements(&kernel.body);
        let mut out = Kernel {
            name,
            grid: axes,
            order,
            cooperative,
            views: std::mem::take(&mut self.views),
            values: std::mem::take(&mut self.values),
            body: std::mem::take(&mut self.block),
            doc: kernel.doc.join("\n"),
        };
        prune(&mut out.body);
        Ok(out)
    }

    fn view(&mut self, tensor: &Name, extents: &[Ex]) -> Elab<()> {
        let id = self.scope.tensor(tensor)?;
        let shape = extents.iter().map(|extent| self.integer(extent));
        let shape = shape.collect::<Elab<Vec<_>>>()?;
        let elements = |shape: &[Expr]| shape.iter().fold(Expr::constant(1), |n, extent| &n * extent);
        let (declared, seen) = (elements(&self.tensor(id)?.shape), elements(&shape));
        if declared != seen {
            let message = format!(
                "`{}` has {declared} elements and is seen with {seen}",
                tensor.node
            );
            return fault(message, tensor.span.clone());
        }
        if self.views.insert(id, shape).is_some() {
            let message = format!("`{}` is seen twice by one kernel", tensor.node);
            return fault(message, tensor.span.clone());
        }
        Ok(())
    }

    fn order(&mut self, kernel: &KernelSyntax, axis: &Name, size: &Ex) -> Elab<Order> {
        let rank = kernel.grid.len();
        let position = kernel.grid.iter().position(|(n, _)| n == axis);
        let Some(position) = position.filter(|p| rank >= 2 && p + 2 >= rank) else {
            let message = "`grouped` names one of the last two indices of a grid of two or more";
            return fault(message, axis.span.clone());
        };
        let size = self.hint(size)?;
        Ok(Order::Grouped { axis: position, size })
    }

    /// The programs that meet; `along` names the indices in which they differ, and nothing stands for all of them.
    fn team(kernel: &KernelSyntax, along: &[Name]) -> Elab<Team> {
        let mut positions: Vec<usize> = (0..kernel.grid.len()).collect();
        for name in along {
            if !kernel.grid.iter().any(|(axis, _)| axis == name) {
                let message = format!("`along` names an index of the grid, and `{}` is none", name.node);
                return fault(message, name.span.clone());
            }
        }
        if !along.is_empty() {
            positions.retain(|at| kernel.grid.get(*at).is_some_and(|(axis, _)| along.contains(axis)));
        }
        Ok(Team { along: positions })
    }

    /// A positive number that may be a hint.
    fn hint(&mut self, ex: &Ex) -> Elab<i64> {
        self.scope.hints = true;
        let value = self.constant_int(ex);
        self.scope.hints = false;
        match value? {
            value if value > 0 => Ok(value),
            value => fault(
                format!("`{ex}` is {value}, but must be positive"),
                ex.span.clone(),
            ),
        }
    }

    fn statements(&mut self, body: &[Spanned<Statement>]) {
        for statement in body {
            if let Err(error) = self.statement(statement) {
                self.report(error);
            }
        }
    }

    fn statement(&mut self, statement: &Spanned<Statement>) -> Elab<()> {
        match &statement.node {
            Statement::Assign { name, value } => {
                let value = self.eval(value);
                if let Ok(Value::Tile(tile)) = &value {
                    self.name_value(*tile, &name.node);
                }
                match value {
                    Ok(value) => self.scope.assign(name, Some(value)),
                    Err(error) => {
                        self.scope.assign(name, None)?;
                        Err(error)
                    }
                }
            }
            Statement::Store {
                tensor,
                region,
                value,
                atomic_add,
            } => {
                let id = self.scope.tensor(tensor)?;
                let planned = self.tensor(id)?.clone();
                if planned.role == TensorRole::Input {
                    let message = format!(
                        "`{}` is an input; only outputs and buffers are written",
                        planned.name
                    );
                    return fault(message, tensor.span.clone());
                }
                let (region, extents) = self.region(id, &planned.name, region, &statement.span)?;
                let value = self.stored(value, planned.dtype, &extents, &planned.name)?;
                self.block.push(Stmt::Store {
                    tensor: id,
                    region,
                    value,
                    mode: if *atomic_add {
                        StoreMode::AtomicAdd
                    } else {
                        StoreMode::Set
                    },
                    span: statement.span.clone(),
                });
                Ok(())
            }
            Statement::For {
                indices,
                pipeline,
                unroll,
                body,
                combine,
            } => {
                let mut bounds = Vec::new();
                for index in indices {
                    let (lo, hi) = (self.integer(&index.lo)?, self.integer(&index.hi)?);
                    let step = match &index.step {
                        None => 1,
                        Some(step) => self.constant_int(step)?,
                    };
                    for (bound, ex) in [(&lo, &index.lo), (&hi, &index.hi)] {
                        countable(bound, ex)?;
                    }
                    if let Some(ex) = &index.step {
                        countable(&step.into(), ex)?;
                    }
                    bounds.push((lo, hi, step));
                }
                let pipeline = pipeline.as_ref().map(|p| self.hint(p)).transpose()?;
                let names = self.rebound(body);
                self.scope.open();
                let mut axes = Vec::new();
                for (index, (lo, hi, step)) in indices.iter().zip(bounds) {
                    match self.scope.index(&index.name) {
                        Ok(symbol) => axes.push(LoopAxis { symbol, lo, hi, step }),
                        Err(error) => {
                            self.scope.close();
                            return Err(error);
                        }
                    }
                }
                let inner: Vec<_> = names
                    .iter()
                    .map(|(name, initial)| self.enter(name, *initial))
                    .collect();
                let outside = std::mem::take(&mut self.block);
                self.statements(body);
                let body = std::mem::replace(&mut self.block, outside);
                let frame = self.scope.close();
                let mut carried = Vec::new();
                for ((name, initial), inner) in names.iter().zip(inner) {
                    let next = self.leave(name, *initial, &frame, "carried through the loop");
                    let (Some(initial), Some(inner), Some(next)) = (*initial, inner, next) else {
                        self.scope.bind(name, None, statement.span.clone());
                        continue;
                    };
                    let result = self.rebind(name, initial, &statement.span);
                    carried.push(Carried {
                        initial,
                        inner,
                        next,
                        result,
                    });
                }
                let combine = match combine {
                    Some(combine) if carried.len() == names.len() => {
                        let names: Vec<_> = names.iter().map(|(n, _)| n.as_str()).collect();
                        Some(self.combine(combine, &names, &carried, &statement.span)?)
                    }
                    _ => None,
                };
                self.block.push(Stmt::For(Loop {
                    axes,
                    carried,
                    body,
                    pipeline,
                    unroll: *unroll,
                    combine,
                    span: statement.span.clone(),
                }));
                Ok(())
            }
            Statement::If {
                condition,
                then,
                otherwise,
            } => self.branch(condition, then, otherwise, statement),
            Statement::Barrier => {
                self.block.push(Stmt::Barrier);
                Ok(())
            }
            Statement::Comment(_) => Ok(()),
        }
    }

    fn branch(
        &mut self,
        condition: &Ex,
        then: &[Spanned<Statement>],
        otherwise: &[Spanned<Statement>],
        statement: &Spanned<Statement>,
    ) -> Elab<()> {
        let condition = match self.eval(condition)? {
            Value::Condition(condition) => condition,
            Value::Tile(_) => {
                let message =
                    "`if` decides for the whole program, on integers; choose between elements with `select`";
                return fault(message, condition.span.clone());
            }
            _ => {
                return fault(
                    "`if` needs a comparison, as in `m*BM + BM > M`",
                    condition.span.clone(),
                );
            }
        };
        let mut names = self.rebound(then);
        for (name, value) in self.rebound(otherwise) {
            if !names.iter().any(|(n, _)| *n == name) {
                names.push((name, value));
            }
        }
        let mut sides = Vec::new();
        for side in [then, otherwise] {
            self.scope.open();
            for (name, value) in &names {
                self.scope
                    .bind(name, value.map(Value::Tile), statement.span.clone());
            }
            let outside = std::mem::take(&mut self.block);
            self.statements(side);
            let block = std::mem::replace(&mut self.block, outside);
            sides.push((block, self.scope.close()));
        }
        let mut sides = sides.into_iter();
        let (Some((then, then_frame)), Some((otherwise, otherwise_frame))) = (sides.next(), sides.next())
        else {
            return Err(Fault::Reported);
        };
        let mut merges = Vec::new();
        for (name, before) in &names {
            let what = "merged after `if`";
            let on_then = self.leave(name, *before, &then_frame, what);
            let on_otherwise = self.leave(name, *before, &otherwise_frame, what);
            let (Some(before), Some(then), Some(otherwise)) = (*before, on_then, on_otherwise) else {
                self.scope.bind(name, None, statement.span.clone());
                continue;
            };
            let result = self.rebind(name, before, &statement.span);
            merges.push(Merge {
                then,
                otherwise,
                result,
            });
        }
        self.block.push(Stmt::If(Branch {
            condition,
            then,
            otherwise,
            merges,
            span: statement.span.clone(),
        }));
        Ok(())
    }

    fn combine(
        &mut self,
        combine: &CombineSyntax,
        names: &[&str],
        carried: &[Carried],
        span: &std::ops::Range<usize>,
    ) -> Elab<Combine> {
        if let Some((stranger, _)) = combine
            .pairs
            .iter()
            .find(|(l, _)| !names.contains(&l.node.as_str()))
        {
            return fault(
                format!("the loop does not carry `{}`", stranger.node),
                stranger.span.clone(),
            );
        }
        self.scope.open();
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (name, carried) in names.iter().zip(carried) {
            let ty = self.ty(carried.initial).clone();
            let Some((_, later)) = combine.pairs.iter().find(|(l, _)| l.node == *name) else {
                self.scope.close();
                let message =
                    format!("the loop carries `{name}`, but `combine` does not say how it combines");
                return fault(message, span.clone());
            };
            for (side, name) in [(&mut left, *name), (&mut right, later.node.as_str())] {
                let value = self.value(ty.clone(), name);
                self.scope
                    .bind(name, Some(Value::Tile(value)), later.span.clone());
                side.push(value);
            }
        }
        let outside = std::mem::take(&mut self.block);
        self.statements(&combine.body);
        let body = std::mem::replace(&mut self.block, outside);
        let frame = self.scope.close();
        if body.iter().any(|s| !matches!(s, Stmt::Define { .. })) {
            return fault(
                "`combine` only computes: it has no loop, branch or store",
                span.clone(),
            );
        }
        let mut result = Vec::new();
        for (name, carried) in names.iter().zip(carried) {
            match self.leave(name, Some(carried.initial), &frame, "combined") {
                Some(value) => result.push(value),
                None => return Err(Fault::Reported),
            }
        }
        Ok(Combine {
            left,
            right,
            body,
            result,
        })
    }

    /// The names that `body` rebinds although they are bound to tiles outside, with those tiles (`None` if rejected),
    /// in the order of their first rebinding.
    fn rebound(&self, body: &[Spanned<Statement>]) -> Vec<(String, Option<Val>)> {
        let mut names = Vec::new();
        assigned(body, &mut names);
        let bound = names
            .into_iter()
            .filter_map(|name| match &self.scope.local(name)?.value {
                Some(Value::Tile(value)) => Some((name.to_owned(), Some(*value))),
                None => Some((name.to_owned(), None)),
                Some(_) => None,
            });
        bound.collect()
    }

    /// Binds a carried name inside the loop.
    fn enter(&mut self, name: &str, initial: Option<Val>) -> Option<Val> {
        let inner = initial.map(|v| self.value(self.ty(v).clone(), name));
        self.scope.bind(name, inner.map(Value::Tile), 0..0);
        inner
    }

    /// The tile that a name has at the end of a block, which must have the type of `before`.
    fn leave(&mut self, name: &str, before: Option<Val>, frame: &Frame, what: &str) -> Option<Val> {
        let binding = frame.get(name)?;
        let expected = self.ty(before?).clone();
        let message = match binding.value.as_ref()? {
            Value::Tile(value) if *self.ty(*value) == expected => return Some(*value),
            Value::Tile(value) => {
                let found = self.ty(*value);
                format!(
                    "`{name}` is {expected} and {what}, but becomes {found} here; cast it or use another name"
                )
            }
            _ => format!(
                "`{name}` is {expected} and {what}, but becomes a constant here; write `full {expected} …`"
            ),
        };
        self.report(Diagnostic::error(message, binding.span.clone()).into());
        None
    }

    /// Binds a name to a new value after a loop or branch.
    fn rebind(&mut self, name: &str, like: Val, span: &std::ops::Range<usize>) -> Val {
        let result = self.value(self.ty(like).clone(), name);
        self.scope.bind(name, Some(Value::Tile(result)), span.clone());
        result
    }

    /// The element type that a name stands for.
    pub(super) fn dtype(&self, name: &Name) -> Elab<crate::DType> {
        let found = self.scope.dtype(&name.node);
        found.ok_or_else(|| unknown_type(name, &self.header.names).into())
    }
}

/// The names that statements assign, nested ones included, each once.
fn assigned<'a>(body: &'a [Spanned<Statement>], out: &mut Vec<&'a str>) {
    for statement in body {
        match &statement.node {
            Statement::Assign { name, .. } if !out.contains(&name.node.as_str()) => out.push(&name.node),
            Statement::For { body, .. } => assigned(body, out),
            Statement::If { then, otherwise, .. } => {
                assigned(then, out);
                assigned(otherwise, out);
            }
            _ => {}
        }
    }
}
