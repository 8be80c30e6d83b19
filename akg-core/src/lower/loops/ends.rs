//! The ends of vector loops.
//!
//! What a loop has beyond whole vectors, compilers compute element by element, which can take longer than all that came
//! before. Where an element is dear, the last vector ends where the loop ends, instead, and repeats some elements. Written
//! once more they are what they were; in sums and products they do not count.

use std::collections::BTreeSet;

use crate::dtype::DType;
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{CompareOp, Condition, ReduceOp, StoreMode, TensorId};

use super::cost;
use super::effect::{combination, identity};
use super::ir::{Accumulation, LocalId, LoopKind, Scalar, Stmt};
use super::mapper::Mapper;

/// Bytes of the elements that lanes are counted by.
const ELEMENT: usize = 4;
/// Elements of the shortest vector.
const SHORTEST: usize = 4;
/// From this cost of what is left over on, repeating pays.
const DEAR: usize = 24;
/// Elements that are left over of a length that is not known.
const USUAL: usize = 2;

/// Which loops a loop from 0 on is cut into.
struct End {
    lanes: usize,
    /// The first element that the vectors before the last one lack.
    first: Expr,
}

impl Mapper<'_> {
    /// The loop over `lo..hi`, which may be cut in two.
    pub(super) fn vector_loop(
        &self,
        symbol: &Symbol,
        (lo, hi): (Expr, Expr),
        kind: LoopKind,
        body: Vec<Stmt>,
    ) -> Vec<Stmt> {
        let each = |lo, hi, body| Stmt::For {
            symbol: symbol.clone(),
            lo,
            hi,
            step: 1,
            kind: kind.clone(),
            body,
        };
        let cut = self.end(&lo, &hi, &body).and_then(|end| {
            let again = self.again(symbol, &end, &kind, &body)?;
            Some((end, again))
        });
        let Some((End { lanes, first }, again)) = cut else {
            return vec![each(lo, hi, body)];
        };
        let vectors = each(lo.clone(), first.clone(), body.clone());
        let last = each(&hi - &Expr::from(lanes), hi.clone(), again);
        if hi.as_const().is_some() {
            return vec![vectors, last];
        }
        let rest = Stmt::If {
            condition: Condition::Compare(CompareOp::Lt, first, hi.clone()),
            then: vec![last],
            otherwise: Vec::new(),
        };
        vec![Stmt::If {
            condition: Condition::Compare(CompareOp::Ge, hi.clone(), lanes.into()),
            then: vec![vectors, rest],
            otherwise: vec![each(lo, hi, body)],
        }]
    }

    fn end(&self, lo: &Expr, hi: &Expr, body: &[Stmt]) -> Option<End> {
        let longest = usize::try_from(self.bounds(hi)?.1).ok()?;
        if !lo.is(0) || longest < SHORTEST {
            return None;
        }
        let mut lanes = self.machine.vector_bytes / ELEMENT;
        while lanes > longest {
            lanes /= 2;
        }
        // A compiler may take half a vector before it goes on one by one.
        let alone = match hi.as_const() {
            Some(_) => longest % lanes % (lanes / 2),
            None => USUAL,
        };
        let each: u32 = body.iter().filter_map(value).map(cost_of).sum();
        let whole = Expr::from(lanes);
        (alone * each as usize >= DEAR).then(|| End {
            lanes,
            first: hi.floor_div(&whole) * whole,
        })
    }

    /// The body for the last vector, if elements can be repeated.
    fn again(&self, symbol: &Symbol, end: &End, kind: &LoopKind, body: &[Stmt]) -> Option<Vec<Stmt>> {
        let LoopKind::Vector(accumulators) = kind else {
            return None;
        };
        let mut read = Read::default();
        body.iter().filter_map(value).for_each(|value| read.note(value));
        let is_wide = |dtype: DType| dtype.size() >= ELEMENT;
        let wide_local = |id: &LocalId| is_wide(self.locals[id.0].dtype);
        let tensors = &self.program.tensors;
        let wide_tensor = |id: &TensorId| tensors.get(id.0).is_some_and(|info| is_wide(info.dtype));
        if !read.locals.iter().all(wide_local) || !read.tensors.iter().all(wide_tensor) {
            return None;
        }
        let is_new = Scalar::Compare(
            CompareOp::Ge,
            DType::I32,
            Box::new([
                Scalar::Index(DType::I32, Expr::symbol(symbol.clone())),
                Scalar::Index(DType::I32, end.first.clone()),
            ]),
        );
        let again = |stmt: &Stmt| match stmt {
            Stmt::Let { .. } => Some(stmt.clone()),
            Stmt::Set { local, offset, value } => {
                match accumulators.iter().find(|(_, accumulator)| accumulator == local) {
                    None => (!read.locals.contains(local) && wide_local(local)).then(|| stmt.clone()),
                    Some((Accumulation::Reduce(ReduceOp::Sum | ReduceOp::Prod), _)) => Some(Stmt::Set {
                        local: *local,
                        offset: offset.clone(),
                        value: counted(value, *local, &is_new)?,
                    }),
                    Some(_) => Some(stmt.clone()),
                }
            }
            Stmt::Store {
                tensor,
                mode: StoreMode::Set,
                ..
            } => (!read.tensors.contains(tensor) && wide_tensor(tensor)).then(|| stmt.clone()),
            _ => None,
        };
        body.iter().map(again).collect()
    }
}

/// `value`, which adds to an accumulator or multiplies it, for elements that may have been counted.
fn counted(value: &Scalar, accumulator: LocalId, is_new: &Scalar) -> Option<Scalar> {
    let Scalar::Binary(op, dtype, operands) = value else {
        return None;
    };
    let [so_far @ Scalar::Local(local, _), element] = &**operands else {
        return None;
    };
    let neutral = identity(combination(*op).filter(|_| *local == accumulator)?, *dtype);
    let element = Scalar::Select(Box::new([
        is_new.clone(),
        element.clone(),
        Scalar::Const(*dtype, neutral),
    ]));
    Some(Scalar::Binary(*op, *dtype, Box::new([so_far.clone(), element])))
}

/// What is read.
#[derive(Default)]
struct Read {
    locals: BTreeSet<LocalId>,
    tensors: BTreeSet<TensorId>,
}

impl Read {
    fn note(&mut self, value: &Scalar) {
        match value {
            Scalar::Local(local, _) => {
                self.locals.insert(*local);
            }
            Scalar::Tensor(tensor, _) => {
                self.tensors.insert(*tensor);
            }
            _ => {}
        }
        value.operands().iter().for_each(|operand| self.note(operand));
    }
}

fn value(stmt: &Stmt) -> Option<&Scalar> {
    match stmt {
        Stmt::Let { value, .. } | Stmt::Set { value, .. } | Stmt::Store { value, .. } => Some(value),
        _ => None,
    }
}

fn cost_of(value: &Scalar) -> u32 {
    let own = match value {
        Scalar::Unary(op, ..) => cost::unary(*op),
        Scalar::Binary(op, ..) => cost::binary(*op),
        Scalar::Var(_) | Scalar::Const(..) | Scalar::Index(..) => 0,
        _ => 1,
    };
    value
        .operands()
        .iter()
        .map(cost_of)
        .fold(own, u32::saturating_add)
}
