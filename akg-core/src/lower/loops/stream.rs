//! Stores past the caches.
//!
//! A store through the caches reads each line before it changes it. For a tensor that does not stay in the caches anyway
//! that is a third of the traffic of a copy. Loops that store such a tensor gather a part of a row in a local, which
//! stays in the nearest cache, and [`Stmt::Stream`] writes the part out in whole lines.

use std::collections::BTreeSet;

use crate::dtype::DType;
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{Kernel, Program, StoreMode, TensorId};

use super::Machine;
use super::checks::affine;
use super::effect::Effect;
use super::ir::{LocalId, LoopKind, Stmt};
use super::mapper::{Mapper, loaded_tensors, stored_tensors};
use super::nest::Nest;
use super::parts::Parts;

/// Bytes that are gathered before they are written out.
const PART: usize = 1024;

/// Bytes of a row of a tile below which its first and last line, which it shares, weigh too much.
const SHORTEST: usize = 256;

/// How the innermost loop of a nest stores past the caches.
#[derive(Debug)]
pub(super) struct Stream {
    tensor: TensorId,
    /// The offset of the element that the loop is at.
    offset: Expr,
    /// Where the loop gathers.
    local: LocalId,
    parts: Parts,
}

/// The tensors that `kernel` stores past the caches: those too large for the last one that it does not read.
pub(super) fn streamed_tensors(program: &Program, kernel: &Kernel, machine: Machine) -> BTreeSet<TensorId> {
    let (mut stored, mut loaded) = (BTreeSet::new(), BTreeSet::new());
    stored_tensors(&kernel.body, &mut stored);
    loaded_tensors(&kernel.body, &mut loaded);
    let is_large = |id: &TensorId| {
        program.tensors.get(id.0).is_some_and(|tensor| {
            let elements = tensor
                .shape
                .iter()
                .map(Expr::as_const)
                .try_fold(1, |product, extent| i64::checked_mul(product, extent?));
            let bytes = elements.and_then(|n| u64::try_from(n).ok()?.checked_mul(tensor.dtype.size() as u64));
            // Half precision and booleans have another form in locals.
            let plain = !matches!(tensor.dtype, DType::F16 | DType::BF16 | DType::Bool);
            plain && bytes.is_some_and(|bytes| bytes >= machine.stream_bytes)
        })
    };
    if kernel.cooperative.is_some() {
        return BTreeSet::new();
    }
    stored
        .difference(&loaded)
        .filter(|id| is_large(id))
        .copied()
        .collect()
}

impl Mapper<'_> {
    /// How `nest` stores past the caches, if it does. Declares the local.
    pub(super) fn stream(&mut self, nest: &Nest) -> Option<Stream> {
        let (symbol, len) = nest.axes.last()?;
        let (tensor, offset) = nest.effects.iter().find_map(|effect| match effect {
            Effect::Store {
                tensor,
                offset,
                mode: StoreMode::Set,
                ..
            } => Some((*tensor, offset)),
            _ => None,
        })?;
        let dtype = self.program.tensors.get(tensor.0)?.dtype;
        let contiguous = matches!(affine(offset, symbol), Some((_, 1)));
        if !contiguous || !self.streamed.contains(&tensor) || len * dtype.size() < SHORTEST {
            return None;
        }
        let part = (*len).min(PART / dtype.size());
        Some(Stream {
            tensor,
            offset: offset.clone(),
            local: self.local("line", dtype, &[part]),
            parts: self.parts(part, *len),
        })
    }
}

impl Stream {
    /// Where the element at index `symbol` is gathered.
    pub(super) fn place(&self, symbol: &Symbol) -> (LocalId, Expr) {
        (self.local, self.parts.place(&Expr::symbol(symbol.clone())))
    }

    /// The innermost loop over `range`, part by part.
    pub(super) fn split(
        &self,
        symbol: &Symbol,
        range: (Expr, Expr),
        kind: LoopKind,
        body: Vec<Stmt>,
    ) -> Stmt {
        self.parts.split(symbol, range, kind, body, |start, len| {
            let offset = self
                .offset
                .substitute(&|s| (s == &**symbol).then(|| start.clone()));
            vec![Stmt::Stream {
                tensor: self.tensor,
                offset,
                from: self.local,
                len,
            }]
        })
    }
}
