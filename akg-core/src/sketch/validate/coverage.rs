//! Every element of an output or buffer is written exactly once, of an output that updates an input at most once; atomic
//! additions find a value to add to.

use std::collections::BTreeSet;
use std::ops::Range;

use super::tiling::{Run, run};
use super::trace::{Rounds, Stop, elements, extents, samples, trace};
use super::walk::{Index, Site, walk};
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::expr::{Bindings, Expr, Symbol};
use crate::sketch::ir::*;
use crate::source::{PlanTensor, TensorRole};

/// Elements of one tensor, and element writes to it, that are counted one by one.
const ELEMENTS: i64 = 1 << 22;

/// One store in the text.
struct Store<'a> {
    kernel: usize,
    site: Site,
    region: &'a [Axis],
    mode: StoreMode,
    span: &'a Range<usize>,
}

pub(super) fn check(program: &Program, out: &mut Diagnostics) {
    for (id, tensor) in program.tensors.iter().enumerate() {
        if tensor.role == TensorRole::Input {
            continue;
        }
        let stores = stores(program, TensorId(id));
        if stores.is_empty() {
            out.push(Diagnostic::error(
                format!("no kernel writes `{}`", tensor.name),
                0..0,
            ));
            continue;
        }
        accumulation(tensor, &stores, out);
        let plain: Vec<_> = stores.iter().filter(|s| s.mode == StoreMode::Set).collect();
        // A cooperative kernel may use a buffer again and again: see the checks of order.
        let reused = tensor.role == TensorRole::Scratch
            && plain.iter().any(|s| {
                program
                    .kernels
                    .get(s.kernel)
                    .is_some_and(|k| k.cooperative.is_some())
            });
        if !plain.is_empty() && !reused {
            out.extend(objection(program, TensorId(id), tensor, &plain));
        }
    }
}

fn stores(program: &Program, id: TensorId) -> Vec<Store<'_>> {
    let mut out = Vec::new();
    for (kernel, body) in program.kernels.iter().enumerate() {
        walk(body, &mut |site, statement| match statement {
            Stmt::Store {
                tensor,
                region,
                mode,
                span,
                ..
            } if *tensor == id => out.push(Store {
                kernel,
                site: site.clone(),
                region,
                mode: *mode,
                span,
            }),
            _ => {}
        });
    }
    out
}

fn accumulation(tensor: &PlanTensor, stores: &[Store<'_>], out: &mut Diagnostics) {
    let Some(add) = stores.iter().find(|s| s.mode == StoreMode::AtomicAdd) else {
        return;
    };
    let name = &tensor.name;
    let before = stores.iter().filter(|s| s.mode == StoreMode::Set);
    let latest = before.map(|s| s.kernel).max();
    if tensor.updates.is_none() && latest.is_none_or(|latest| latest >= add.kernel) {
        let message = format!("`{name}` is added to, but no earlier kernel gives it a value");
        let note = format!("begin with a kernel that stores zeros to all of `{name}`, and only add after it");
        out.push(Diagnostic::error(message, add.span.clone()).note(note));
    }
    if tensor.dtype.is_float() {
        let message =
            format!("atomic additions to `{name}` round in no particular order: results may differ by run");
        out.push(Diagnostic::warning(message, add.span.clone()));
    }
}

fn objection(
    program: &Program,
    id: TensorId,
    tensor: &PlanTensor,
    stores: &[&Store<'_>],
) -> Option<Diagnostic> {
    let name = &tensor.name;
    let first = stores.first()?;
    let computed = |s: &&&Store<'_>| {
        s.region
            .iter()
            .any(|a| matches!(a, Axis::AtTile(_) | Axis::Gather(_)))
    };
    if let Some(store) = stores.iter().find(computed) {
        let whether = match tensor.updates {
            Some(_) => format!("writes an element of `{name}` twice"),
            None => format!("writes all of `{name}` once"),
        };
        let message = format!("where this store writes is computed, so whether it {whether} is open");
        return Some(Diagnostic::warning(message, store.span.clone()));
    }
    if let [store] = stores
        && store.site.conditions.is_empty()
    {
        if let Some(index) = repeated(store) {
            let message = format!("every value of `{index}` writes the same elements of `{name}`");
            let error = Diagnostic::error(message, store.span.clone());
            return Some(error.note("move the store out of the loop, or use the index in its region"));
        }
        let kernel = program.kernels.get(store.kernel)?;
        if tiled(store, program.shape(kernel, id)) {
            return None;
        }
    }
    if tiled_together(program, id, stores) {
        return None;
    }
    for sample in samples(program) {
        match count(program, id, tensor, stores, &sample) {
            Ok(None) => {}
            Ok(Some(problem)) => {
                let error =
                    Diagnostic::error(format!("{problem} by the stores to `{name}`"), first.span.clone());
                let values: Vec<_> = sample.iter().map(|(k, v)| format!("{k} = {v}")).collect();
                return Some(if values.is_empty() {
                    error
                } else {
                    error.note(format!("seen with {}", values.join(", ")))
                });
            }
            Err(Stop::Limit) => return Some(open(name, "is too large to count", first)),
            Err(Stop::Unknown) => return Some(open(name, "has extents that have no value", first)),
        }
    }
    (!program.dims.is_empty()).then(|| open(name, "was only counted for a few small extents", first))
}

fn open(name: &str, why: &str, store: &Store<'_>) -> Diagnostic {
    let message = format!("cannot show that every element of `{name}` is written exactly once: it {why}");
    Diagnostic::warning(message, store.span.clone())
}

/// The indices of `symbols`, and those that their bounds mention.
fn closure(symbols: BTreeSet<Symbol>, indices: &[Index]) -> Vec<&Index> {
    let mut wanted = symbols;
    let mut out: Vec<&Index> = Vec::new();
    for index in indices.iter().rev() {
        if wanted.contains(&index.symbol) {
            wanted.extend(index.lo.symbols());
            wanted.extend(index.hi.symbols());
            out.push(index);
        }
    }
    out.reverse();
    out
}

fn axis_symbols(axis: &Axis) -> BTreeSet<Symbol> {
    match axis {
        Axis::Range { start, .. } => start.symbols(),
        Axis::At(at) => at.symbols(),
        Axis::AtTile(_) | Axis::Gather(_) => BTreeSet::new(),
    }
}

/// An index that the region does not depend on although it takes several values.
fn repeated<'a>(store: &'a Store<'_>) -> Option<&'a Symbol> {
    let symbols = store.region.iter().flat_map(axis_symbols).collect();
    let used = closure(symbols, &store.site.indices);
    let mut unused = store
        .site
        .indices
        .iter()
        .filter(|i| !used.iter().any(|u| u.symbol == i.symbol));
    unused.find(|i| !i.count().is(1)).map(|i| &i.symbol)
}

/// Whether the dimensions depend on different indices and each is tiled.
fn tiled(store: &Store<'_>, shape: &[Expr]) -> bool {
    runs(store, shape).is_some_and(|runs| runs.iter().zip(shape).all(|(run, extent)| run.covers(extent)))
}

/// What a store takes of each dimension, if they depend on different indices.
fn runs(store: &Store<'_>, shape: &[Expr]) -> Option<Vec<Run>> {
    let mut taken = BTreeSet::new();
    let along = |(axis, extent)| {
        let indices = closure(axis_symbols(axis), &store.site.indices);
        let own = indices.iter().all(|i| taken.insert(i.symbol.clone()));
        run(axis, extent, &indices).filter(|_| own)
    };
    store.region.iter().zip(shape).map(along).collect()
}

/// Whether each of several stores tiles a slab of one dimension, and one slab begins where another ends.
fn tiled_together(program: &Program, id: TensorId, stores: &[&Store<'_>]) -> bool {
    let shapes = stores
        .iter()
        .filter_map(|store| Some(program.shape(program.kernels.get(store.kernel)?, id)));
    let shapes: Vec<&[Expr]> = shapes.collect();
    let Some((shape, others)) = shapes.split_first() else {
        return false;
    };
    let is_plain = |store: &&Store<'_>| store.site.conditions.is_empty() && repeated(store).is_none();
    if others.iter().any(|other| other != shape) || !stores.iter().all(is_plain) {
        return false;
    }
    let Some(of_stores) = stores
        .iter()
        .map(|store| runs(store, shape))
        .collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    let follow = |dim: usize, extent: &Expr| {
        let mut slabs: Vec<&Run> = of_stores.iter().filter_map(|runs| runs.get(dim)).collect();
        slabs.sort_by_key(|run| run.start.as_const());
        let mut end = Some(Expr::constant(0));
        for slab in &slabs {
            end = end.filter(|end| slab.start == *end).map(|end| end + &slab.length);
        }
        end.is_some_and(|end| {
            Run {
                start: 0.into(),
                length: end,
            }
            .covers(extent)
        })
    };
    let is_whole = |dim: usize, extent: &Expr| {
        of_stores
            .iter()
            .all(|runs| runs.get(dim).is_some_and(|run| run.covers(extent)))
    };
    let mut slabs = shape
        .iter()
        .enumerate()
        .filter(|(dim, extent)| !is_whole(*dim, extent));
    match (slabs.next(), slabs.next()) {
        (Some((dim, extent)), None) => follow(dim, extent),
        _ => false,
    }
}

/// Counts the writes of every element; what is wrong, if anything is.
fn count(
    program: &Program,
    id: TensorId,
    tensor: &PlanTensor,
    stores: &[&Store<'_>],
    bindings: &Bindings,
) -> Result<Option<String>, Stop> {
    let shape = extents(&tensor.shape, bindings)?;
    let size = shape
        .iter()
        .try_fold(1i64, |n, e| n.checked_mul(*e))
        .filter(|n| *n <= ELEMENTS);
    let size = size.ok_or(Stop::Limit)?;
    let mut writes = vec![0u8; usize::try_from(size).map_err(|_| Stop::Unknown)?];
    let mut budget = 2 * ELEMENTS;
    let kernels: BTreeSet<_> = stores.iter().map(|s| s.kernel).collect();
    for kernel in kernels.into_iter().filter_map(|k| program.kernels.get(k)) {
        let shape = extents(program.shape(kernel, id), bindings)?;
        trace(kernel, bindings, Rounds::All, &mut |access| {
            budget -= 1;
            let (Some(region), Some(StoreMode::Set)) = (&access.region, access.store) else {
                return budget > 0;
            };
            if access.tensor != id {
                return budget > 0;
            }
            elements(region, &shape, &mut |at| {
                if let Some(n) = writes.get_mut(at) {
                    *n = n.saturating_add(1);
                }
                budget -= 1;
                budget > 0
            })
        })?;
    }
    let place = |at: usize| {
        let mut rest = at as i64;
        let mut coordinates: Vec<_> = shape
            .iter()
            .rev()
            .map(|e| {
                let x = rest % e;
                rest /= e;
                x
            })
            .collect();
        coordinates.reverse();
        format!("`{}`{coordinates:?}", tensor.name)
    };
    let may_be_left_out = tensor.updates.is_some();
    let wrong = writes
        .iter()
        .position(|n| *n > 1 || (*n == 0 && !may_be_left_out));
    Ok(wrong.map(|at| match writes.get(at) {
        Some(0) => format!("{} is never written", place(at)),
        n => format!(
            "{} is written {} times",
            place(at),
            n.copied().unwrap_or_default()
        ),
    }))
}
