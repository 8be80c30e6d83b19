//! Products that are only added to something: `acc + f64(dot(a, b))`.

use std::collections::HashMap;

use crate::dtype::DType;
use crate::sketch::ir::{BinaryOp, Kernel, Op, Stmt, Val};

use super::uses::Use;

/// An addition whose one operand is a product that nothing else needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Addition {
    /// What the product is added to.
    pub(super) to: Val,
    /// The product.
    pub(super) dot: Val,
}

/// Additions of products by the value that they define. The product itself and its conversion, which need no storage, are
/// there as `None`.
pub(super) type Added = HashMap<Val, Option<Addition>>;

/// Finds the additions of products. Only statements that follow each other immediately count, so that nothing can change in
/// between.
pub(super) fn find(kernel: &Kernel, uses: &[Use]) -> Added {
    let mut found = Added::new();
    let mut blocks = vec![kernel.body.as_slice()];
    while let Some(block) = blocks.pop() {
        blocks.extend(block.iter().flat_map(Stmt::blocks));
        for first in 0..block.len() {
            found.extend(addition(kernel, uses, &block[first..]).into_iter().flatten());
        }
    }
    found
}

/// The addition that begins with the first of these statements.
fn addition(kernel: &Kernel, uses: &[Use], stmts: &[Stmt]) -> Option<[(Val, Option<Addition>); 3]> {
    let mut definitions = stmts.iter().map_while(|stmt| match stmt {
        Stmt::Define { value, op, .. } => Some((*value, op)),
        _ => None,
    });
    let (dot, Op::Dot { init: None, .. }) = definitions.next()? else {
        return None;
    };
    let (mut term, mut next) = (dot, definitions.next()?);
    if let (v, Op::Cast(u)) = next
        && *u == dot
        && kernel.ty(v).dtype == DType::F64
    {
        (term, next) = (v, definitions.next()?);
    }
    let (v, Op::Binary(BinaryOp::Add, a, b)) = next else {
        return None;
    };
    let to = if *a == term { *b } else { *a };
    let is_lone = |v: Val| uses[v.0 as usize].count == 1;
    let is_single = |v: Val| matches!(kernel.ty(v).dtype, DType::F32 | DType::F64);
    let fits = [a, b].contains(&&term)
        && [dot, term].into_iter().all(|v| is_lone(v) && is_single(v))
        && kernel.ty(to).extents == kernel.ty(v).extents;
    fits.then_some([(dot, None), (term, None), (v, Some(Addition { to, dot }))])
}
