//! Copies of views, where kernels cannot read or write through them.

use super::cut::{Apart, Fusion, Unarranged, attentions, cut};
use super::decompose::Decomposed;
use super::prim::{MapOp, Prim, PrimId, PrimNode, Prims};

/// What copies come from.
const COPY: &str = "copy";

/// Makes outputs that only view an input, repeat elements or leave some out into copies that a kernel computes.
pub(super) fn copy_outputs(decomposed: &mut Decomposed) {
    let prims = &mut decomposed.prims;
    for (position, output) in decomposed.outputs.iter_mut().enumerate() {
        let mut id = *output;
        let mut differs = false;
        while let Some(a) = prims.viewed(id) {
            differs |= matches!(prims.node(id).prim, Prim::Expand(_) | Prim::Window(..));
            id = a;
        }
        // What stands in the place of an input is one output.
        let is_elsewhere = matches!(prims.node(id).prim, Prim::Scatter { output, .. } if output != position);
        if differs || is_elsewhere || !prims.is_computed(id) {
            prims.origin = COPY;
            *output = prims.copy(*output);
        }
    }
}

/// Copies views until every kernel can read its operands as it arranges them; what cannot be read in spite of that, if
/// there is something.
pub(super) fn copy_operands(decomposed: &mut Decomposed) -> Result<(), Unarranged> {
    // Separate kernels ask for the fewest arrangements.
    while let Err(Unarranged(id)) = cut(decomposed, Fusion::Off) {
        let trials = views(decomposed, id).into_iter().map(|(view, reader)| {
            let mut trial = decomposed.clone();
            insert_copy(&mut trial, view, reader);
            trial
        });
        let trials: Vec<Decomposed> = trials.collect();
        // The primitive has moved on by one; another one is further on.
        let helps = |trial: &&Decomposed| {
            cut(trial, Fusion::Off).map_or_else(|Unarranged(at)| at.0 > id.0 + 1, |_| true)
        };
        let better = trials.iter().find(helps).or(trials.first());
        *decomposed = better.ok_or(Unarranged(id))?.clone();
    }
    Ok(())
}

/// Copies what products read of an attention in another order, as where the heads of a row are put side by side: its kernel
/// writes the copy instead, and the sum of the product is along one dimension of it.
pub(super) fn copy_heads(decomposed: &mut Decomposed, apart: &Apart<'_>) {
    let attentions = attentions(decomposed, apart);
    for reader in (0..decomposed.prims.nodes.len()).rev().map(PrimId) {
        let prims = &decomposed.prims;
        let Prim::Contract(a, b) = prims.node(reader).prim else {
            continue;
        };
        let reorders = |id: &PrimId| attentions.contains_key(&prims.root(*id)) && is_permuted(prims, *id);
        if let Some(view) = [a, b].into_iter().find(reorders) {
            insert_copy(decomposed, view, reader);
            // What is stored is the copy.
            let viewed = decomposed.values.values_mut().filter(|id| **id == view);
            viewed.for_each(|id| *id = reader);
        }
    }
}

/// Whether a view on the way to the root has dimensions in another order.
fn is_permuted(prims: &Prims, id: PrimId) -> bool {
    matches!(prims.node(id).prim, Prim::Permute(..))
        || prims.viewed(id).is_some_and(|a| is_permuted(prims, a))
}

/// The views that a primitive reads, with who is to read a copy instead: the primitive, or the view of a view that it copies.
fn views(decomposed: &Decomposed, id: PrimId) -> Vec<(PrimId, PrimId)> {
    let prims = &decomposed.prims;
    let is_view = |id: &PrimId| prims.viewed(*id).is_some();
    let operands = prims.operands(id).into_iter().filter(is_view);
    if is_copy(prims.node(id)) {
        let inner = operands.filter_map(|view| Some((prims.viewed(view).filter(is_view)?, view)));
        return inner.collect();
    }
    operands.map(|view| (view, id)).collect()
}

fn is_copy(node: &PrimNode) -> bool {
    matches!(node.prim, Prim::Map(MapOp::Cast, _)) && node.origin == COPY
}

/// Lets `reader` read a copy of `view`, which takes its place in the order; what was there and after it moves on by one.
fn insert_copy(decomposed: &mut Decomposed, view: PrimId, reader: PrimId) {
    let moved = |id: PrimId| if id >= reader { PrimId(id.0 + 1) } else { id };
    let nodes = &mut decomposed.prims.nodes;
    for (at, node) in nodes.iter_mut().enumerate() {
        node.prim.rename(|id| match id {
            _ if id == view && at == reader.0 => reader,
            _ => moved(id),
        });
    }
    let PrimNode { dtype, shape, .. } = nodes[view.0].clone();
    let copy = PrimNode {
        prim: Prim::Map(MapOp::Cast, vec![view]),
        dtype,
        shape,
        origin: COPY,
    };
    nodes.insert(reader.0, copy);
    for id in decomposed
        .outputs
        .iter_mut()
        .chain(decomposed.values.values_mut())
    {
        *id = moved(*id);
    }
}
