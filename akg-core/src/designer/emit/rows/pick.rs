//! Sums that pick one element of a row: all their terms are zero but the one at a place that data name, which is loaded
//! by itself.

use std::collections::HashMap;

use super::super::{Var, Walk};
use super::Passes;
use crate::designer::plan::{Axis, Operand};
use crate::designer::prim::{MapOp, Prim, PrimId};
use crate::dtype::DType;
use crate::error::Result;
use crate::sketch::ir::{CompareOp, ReduceOp};

/// A sum of `select(coordinate == place, term, 0)`.
struct Pick {
    /// The axis of the coordinate.
    axis: Axis,
    comparison: PrimId,
    selection: PrimId,
}

impl Passes<'_> {
    /// The only term of a sum that is not zero; `None` for other sums, and where a program has several rows.
    pub(super) fn pick(&mut self, id: PrimId) -> Result<Option<Var>> {
        let Some(pick) = self.picked(id) else {
            return Ok(None);
        };
        let place = self.emitter.operand(pick.comparison, 1, DType::I64)?;
        if !place.axes.is_empty() {
            return Ok(None);
        }
        // Only what is the same along the row is known of the element.
        let scopes = self.emitter.scopes.iter().flatten();
        let known: HashMap<PrimId, Var> = scopes
            .filter(|(id, _)| !self.inner(**id))
            .map(|(id, var)| (*id, var.clone()))
            .collect();
        let e = &mut self.emitter;
        let scopes = std::mem::replace(&mut e.scopes, vec![known]);
        let walk = e.walks.insert(pick.axis, Walk::Index(place.text));
        e.stray = Some(pick.axis);
        let dtype = e.prims.dtype(id);
        let element = e.operand(pick.selection, 1, dtype)?;
        e.stray = None;
        e.scopes = scopes;
        e.walks.extend(walk.map(|walk| (pick.axis, walk)));
        Ok(Some(element))
    }

    fn picked(&self, id: PrimId) -> Option<Pick> {
        let kernel = self.emitter.kernel;
        let prim = |id: PrimId| &self.emitter.prims.node(id).prim;
        let operand = |id: PrimId, i: usize| kernel.operands.get(&(id, i));
        let selection = kernel.node(id, 0)?;
        let comparison = kernel.node(selection, 0)?;
        let Some(Operand::Coordinate(axes)) = operand(comparison, 0) else {
            return None;
        };
        let [axis] = *axes.as_slice() else { return None };
        let fits = matches!(prim(id), Prim::Reduce(ReduceOp::Sum, ..))
            && matches!(prim(selection), Prim::Map(MapOp::Select, _))
            && matches!(prim(comparison), Prim::Map(MapOp::Compare(CompareOp::Eq), _))
            && operand(selection, 2) == Some(&Operand::Number(0.0))
            && kernel.node(comparison, 1).is_some_and(|place| !self.inner(place))
            && kernel.reduced.iter().eq([&axis])
            && kernel.windows.is_empty();
        let (needed, _) = self.needed([selection]);
        let mut inner = needed.iter().filter(|id| self.inner(**id));
        let plain = inner.all(|id| matches!(prim(*id), Prim::Map(..)));
        (fits && plain).then_some(Pick {
            axis,
            comparison,
            selection,
        })
    }
}
