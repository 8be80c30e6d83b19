//! What is read was written before, by a kernel that has ended or on the other side of a barrier. An output that updates an
//! input has values from the beginning.

use std::ops::Range;

use super::trace::{Access, Rounds, Stop, elements, extents, samples, trace};
use super::walk::walk;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::expr::{Bindings, Expr};
use crate::sketch::ir::*;
use crate::source::TensorRole;

/// Elements that one simulation of a cooperative kernel may touch.
const ELEMENTS: usize = 1 << 23;

pub(super) fn check(program: &Program, out: &mut Diagnostics) {
    for (number, kernel) in program.kernels.iter().enumerate() {
        barriers(kernel, &kernel.body, out);
        walk(kernel, &mut |_, statement| {
            if let Stmt::Define {
                op: Op::Load { tensor, .. },
                span,
                ..
            } = statement
            {
                read(program, number, *tensor, span, out);
            }
        });
        if kernel.cooperative.is_some() {
            phases(program, number, kernel, out);
        }
    }
}

fn writes(kernel: &Kernel, id: TensorId) -> bool {
    let mut found = false;
    walk(kernel, &mut |_, s| {
        found |= matches!(s, Stmt::Store { tensor, .. } if *tensor == id)
    });
    found
}

fn reads(kernel: &Kernel, id: TensorId) -> bool {
    let mut found = false;
    walk(
        kernel,
        &mut |_, s| found |= matches!(s, Stmt::Define { op: Op::Load { tensor, .. }, .. } if *tensor == id),
    );
    found
}

fn read(program: &Program, number: usize, id: TensorId, span: &Range<usize>, out: &mut Diagnostics) {
    let Some(tensor) = program.tensors.get(id.0) else {
        return;
    };
    if tensor.role == TensorRole::Input {
        let updating = program.tensors.iter().find(|t| t.updates == Some(id.0));
        out.extend(updating.map(|output| {
            let message = format!(
                "`{}` is read, and `{}` stands in its place",
                tensor.name, output.name
            );
            let error = Diagnostic::error(message, span.clone());
            error.note(format!(
                "read `{}`, which begins as the contents of `{}`",
                output.name, tensor.name
            ))
        }));
        return;
    }
    let name = &tensor.name;
    let has_begun = tensor.updates.is_some();
    let writers: Vec<_> = (0..)
        .zip(&program.kernels)
        .filter(|(_, k)| writes(k, id))
        .collect();
    for (writer, kernel) in &writers {
        if *writer == number && kernel.cooperative.is_none() {
            if has_begun && keeps_to_its_own(kernel, id) {
                continue;
            }
            let message =
                format!("`{name}` is read by the kernel that writes it, whose programs run in any order");
            let error = Diagnostic::error(message, span.clone());
            out.push(
                error.note("write it in an earlier kernel, or make the kernel cooperative with barriers"),
            );
        } else if *writer > number && !has_begun {
            let message = format!("`{name}` is read before kernel `{}` writes it", kernel.name);
            out.push(Diagnostic::error(message, span.clone()));
        }
    }
    if writers.is_empty() && !has_begun {
        out.push(Diagnostic::error(
            format!("`{name}` is read but no kernel writes it"),
            span.clone(),
        ));
    }
}

/// Whether all accesses of a tensor in a kernel are of one region, so that programs that write different elements read none of
/// each other's. That they write different ones is checked with the coverage.
fn keeps_to_its_own(kernel: &Kernel, id: TensorId) -> bool {
    let mut regions: Vec<&[Axis]> = Vec::new();
    walk(kernel, &mut |_, statement| match statement {
        Stmt::Store { tensor, region, .. }
        | Stmt::Define {
            op: Op::Load { tensor, region, .. },
            ..
        } if *tensor == id => regions.push(region),
        _ => {}
    });
    let is_plain = |axis: &Axis| matches!(axis, Axis::Range { .. } | Axis::At(_));
    regions.windows(2).all(|pair| pair[0] == pair[1])
        && regions.iter().all(|region| region.iter().all(is_plain))
}

fn barriers(kernel: &Kernel, body: &[Stmt], out: &mut Diagnostics) {
    let along = kernel
        .cooperative
        .iter()
        .flat_map(|team| &team.along)
        .filter_map(|at| kernel.grid.get(*at));
    let differs = |e: &Expr| along.clone().any(|axis| e.mentions(&axis.symbol));
    for statement in body {
        match statement {
            Stmt::Barrier if kernel.cooperative.is_none() => {
                let message = format!(
                    "the kernel `{}` has a barrier but is not cooperative",
                    kernel.name
                );
                out.push(Diagnostic::error(message, 0..0));
            }
            Stmt::If(branch) if statement.blocks().into_iter().any(has_barrier) => {
                let message = "a barrier inside `if`: programs that take the other side would never meet it";
                out.push(Diagnostic::error(message, branch.span.clone()));
            }
            Stmt::For(l) if has_barrier(&l.body) => {
                if l.axes.iter().any(|a| differs(&a.lo) || differs(&a.hi)) {
                    let message = "a barrier inside a loop whose length differs between programs that meet: some \
                                   would wait forever";
                    out.push(Diagnostic::error(message, l.span.clone()));
                }
                barriers(kernel, &l.body, out);
            }
            _ => {}
        }
    }
}

/// The last access of an element: its phase, and its program and team if it was only one.
#[derive(Debug, Clone, Copy)]
struct Last {
    phase: usize,
    program: Option<usize>,
    team: Option<i64>,
}

impl Last {
    fn of(access: &Access<'_>) -> Self {
        Self {
            phase: access.phase,
            program: Some(access.program),
            team: Some(access.team),
        }
    }

    /// Whether another program was last, and did not meet the one of `access` since.
    fn is_open(&self, access: &Access<'_>) -> bool {
        let own_team = self.team == Some(access.team);
        !own_team || (self.phase == access.phase && self.program != Some(access.program))
    }

    /// The last of this one and a later one.
    fn then(self, access: &Access<'_>) -> Self {
        let later = Self::of(access);
        Self {
            phase: later.phase,
            program: later.program.filter(|_| !self.is_open(access)),
            team: later.team.filter(|team| self.team == Some(*team)),
        }
    }
}

/// Whether programs of a cooperative kernel meet between one's store and another's access. What it only stores to outputs
/// is known to be written once.
fn phases(program: &Program, number: usize, kernel: &Kernel, out: &mut Diagnostics) {
    let is_output = |id: &TensorId| {
        program
            .tensors
            .get(id.0)
            .is_some_and(|t| t.role == TensorRole::Output)
    };
    let shared = (0..program.tensors.len())
        .map(TensorId)
        .filter(|id| writes(kernel, *id) && (reads(kernel, *id) || !is_output(id)));
    for id in shared {
        let earlier = program.kernels.iter().take(number).any(|k| writes(k, id));
        for sample in samples(program) {
            match simulate(program, kernel, id, earlier, &sample) {
                Ok(None) => {}
                Ok(Some(error)) => {
                    out.push(error);
                    break;
                }
                // A larger sample only repeats what a smaller one showed.
                Err(_) if !sample.is_empty() => break,
                Err(_) => {
                    let name = program.tensors.get(id.0).map_or("", |t| &t.name);
                    let message = format!("the accesses to `{name}` between barriers are too many to check");
                    out.push(Diagnostic::warning(message, 0..0));
                }
            }
        }
    }
}

fn simulate(
    program: &Program,
    kernel: &Kernel,
    id: TensorId,
    earlier: bool,
    bindings: &Bindings,
) -> Result<Option<Diagnostic>, Stop> {
    let tensor = program.tensors.get(id.0).ok_or(Stop::Unknown)?;
    let shape = extents(program.shape(kernel, id), bindings)?;
    let size = shape
        .iter()
        .try_fold(1i64, |n, e| n.checked_mul(*e))
        .ok_or(Stop::Limit)?;
    let size = usize::try_from(size)
        .ok()
        .filter(|n| *n <= ELEMENTS)
        .ok_or(Stop::Limit)?;
    let mut accesses: Vec<Access<'_>> = Vec::new();
    trace(kernel, bindings, Rounds::Few, &mut |access| {
        if access.tensor == id {
            accesses.push(access);
        }
        accesses.len() < ELEMENTS >> 6
    })?;
    accesses.sort_by_key(|a| a.phase);
    let (mut written, mut seen): (Vec<Option<Last>>, Vec<Option<Last>>) =
        (vec![None; size], vec![None; size]);
    let mut budget = ELEMENTS;
    let mut found = None;
    for access in &accesses {
        let Some(region) = &access.region else {
            return Err(Stop::Unknown);
        };
        let done = elements(region, &shape, &mut |at| {
            let (Some(written), Some(seen)) = (written.get_mut(at), seen.get_mut(at)) else {
                return false;
            };
            let others = |last: &Option<Last>| last.is_some_and(|last| last.is_open(access));
            if others(written) || (access.store.is_some() && others(seen)) {
                found = Some("is written by one program and accessed by another without a barrier between");
            } else if access.store.is_none() && written.is_none() && !earlier {
                found = Some("is read here before it is written");
            }
            if access.store.is_some() {
                *written = Some(Last::of(access));
            } else {
                *seen = Some(seen.map_or(Last::of(access), |last| last.then(access)));
            }
            budget = budget.saturating_sub(1);
            found.is_none() && budget > 0
        });
        if let Some(problem) = found {
            let message = format!("an element of `{}` {problem}", tensor.name);
            return Ok(Some(Diagnostic::error(message, access.span.clone())));
        }
        if !done {
            return Err(Stop::Limit);
        }
    }
    Ok(None)
}
