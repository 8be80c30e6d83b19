//! What stands for elements outside the tensors, so that reductions ignore them: a fill of the loads, or a mask.

use super::super::{Var, Walk};
use super::Passes;
use crate::designer::plan::{Axis, Operand};
use crate::designer::prim::{MapOp, Prim, PrimId, Scan};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::sketch::ir::{BinaryOp, ReduceOp, UnaryOp};

impl Passes<'_> {
    /// Replaces elements beyond the reduced extent by `neutral`.
    pub(super) fn mask(&mut self, var: Var, position: usize, neutral: &str) -> Result<Var> {
        let Some(axis) = var.axes.get(position).copied() else {
            return Ok(var);
        };
        let place = self.emitter.coordinate(&[axis], DType::I64)?;
        let marks: Vec<_> = var
            .axes
            .iter()
            .map(|a| if *a == axis { ":" } else { "None" })
            .collect();
        let inside = if self.is_reversed() {
            format!("{} >= 0", place.text)
        } else {
            format!("{} < {}", place.text, self.emitter.extent(axis))
        };
        let inside = format!("({inside})[{}]", marks.join(", "));
        let name = self.emitter.fresh("t");
        self.emitter
            .line(format!("{name} = select({inside}, {}, {neutral})", var.text));
        Ok(Var {
            text: name,
            axes: var.axes,
        })
    }

    /// Finds what must stand outside the tensors for the reductions of a pass to ignore it; if there is no such value,
    /// says that operands must be masked.
    pub(super) fn choose_fill(&mut self, reductions: &[PrimId]) -> Result<bool> {
        let overhangs = self.overhangs();
        let kernel = self.emitter.kernel;
        let sees_nothing = kernel.windows.keys().any(|d| kernel.sees_nothing(*d));
        self.emitter.fill = 0.0;
        if !overhangs && !sees_nothing {
            return Ok(false);
        }
        for fill in [0.0, 1.0, f64::NEG_INFINITY, f64::INFINITY] {
            let ignored = |id: &PrimId| {
                let op = match &self.emitter.prims.node(*id).prim {
                    Prim::Reduce(op, ..) | Prim::Scan(Scan { op, .. }, _) => *op,
                    _ => return false,
                };
                let neutral = match op {
                    ReduceOp::Sum => 0.0,
                    ReduceOp::Prod => 1.0,
                    ReduceOp::Max => f64::NEG_INFINITY,
                    ReduceOp::Min => f64::INFINITY,
                };
                self.outside(*id, 0, fill) == Some(neutral)
            };
            if reductions.iter().all(ignored) {
                self.emitter.fill = fill;
                return Ok(false);
            }
        }
        if sees_nothing {
            return Err(Error::unsupported(
                "no design rule yet for combinations of what windows see that pass over different values",
            ));
        }
        // Tiles before the first element are known to be neutral only where sums read them from memory.
        let is_read = |id: &PrimId| {
            let operand = self.emitter.kernel.operands.get(&(*id, 0));
            let is_sum = match &self.emitter.prims.node(*id).prim {
                Prim::Reduce(op, ..) | Prim::Scan(Scan { op, .. }, _) => *op == ReduceOp::Sum,
                _ => false,
            };
            is_sum && matches!(operand, Some(Operand::Load(_)))
        };
        if self.is_reversed() && !reductions.iter().all(is_read) {
            return Err(Error::unsupported(
                "no design rule yet for a scan from the end of something that starts within a tile",
            ));
        }
        Ok(true)
    }

    /// Whether a tile along a reduced axis may reach beyond it.
    fn overhangs(&self) -> bool {
        self.emitter.walks.iter().any(|(a, w)| {
            self.emitter.kernel.reduced.contains(a) && matches!(w, Walk::Tile { overhang: true, .. })
        })
    }

    /// The value of an operand outside the tensors when loads give `fill` there; `None` if it depends on data.
    fn outside(&self, id: PrimId, i: usize, fill: f64) -> Option<f64> {
        let kernel = self.emitter.kernel;
        match kernel.operands.get(&(id, i))? {
            Operand::Number(v) => Some(*v),
            Operand::Integer(_) | Operand::Coordinate(_) => None,
            Operand::Load(access) => {
                let leaves = |a: &Axis| {
                    let tile = self.emitter.walks.get(a);
                    kernel.reduced.contains(a)
                        && (!self.overhangs() || matches!(tile, Some(Walk::Tile { overhang: true, .. })))
                };
                // Loads of whole numbers have zeros outside.
                let is_float = self.emitter.plan.dtype(&access.tensor).is_float();
                let given = if is_float { fill } else { 0.0 };
                kernel.walked(access).iter().any(leaves).then_some(given)
            }
            Operand::Node(node) => {
                if !self.inner(*node) {
                    return None;
                }
                let Prim::Map(op, args) = &self.emitter.prims.node(*node).prim else {
                    return None;
                };
                let values: Vec<Option<f64>> =
                    (0..args.len()).map(|j| self.outside(*node, j, fill)).collect();
                match (op, values.as_slice()) {
                    // An infinity swallows every finite value.
                    (MapOp::Binary(BinaryOp::Add | BinaryOp::Sub), [Some(a), None])
                        if a.is_infinite() && self.is_apart(*node, 1) =>
                    {
                        Some(*a)
                    }
                    _ => apply(*op, &values),
                }
            }
        }
    }

    /// Whether an operand has nothing to do with what stands outside the tensors.
    fn is_apart(&self, id: PrimId, i: usize) -> bool {
        let kernel = self.emitter.kernel;
        match kernel.operands.get(&(id, i)) {
            Some(Operand::Node(node)) => !self.inner(*node),
            Some(Operand::Load(access)) => !kernel.walked(access).iter().any(|a| kernel.reduced.contains(a)),
            Some(Operand::Number(_) | Operand::Integer(_) | Operand::Coordinate(_)) => true,
            None => false,
        }
    }
}

/// Element-wise arithmetic on operands of which some depend on data.
fn apply(op: MapOp, values: &[Option<f64>]) -> Option<f64> {
    match (op, values) {
        (MapOp::Cast, [a]) => *a,
        (MapOp::Unary(op), [Some(a)]) => match op {
            UnaryOp::Neg => Some(-a),
            UnaryOp::Abs => Some(a.abs()),
            UnaryOp::Exp => Some(a.exp()),
            UnaryOp::Exp2 => Some(a.exp2()),
            UnaryOp::Sqrt => Some(a.sqrt()),
            UnaryOp::Tanh => Some(a.tanh()),
            _ => None,
        },
        (MapOp::Binary(op), [Some(a), Some(b)]) => match op {
            BinaryOp::Add => Some(a + b),
            BinaryOp::Sub => Some(a - b),
            BinaryOp::Mul => Some(a * b),
            BinaryOp::Div => Some(a / b),
            // In a sketch they keep NaN.
            BinaryOp::Max if !(a.is_nan() || b.is_nan()) => Some(a.max(*b)),
            BinaryOp::Min if !(a.is_nan() || b.is_nan()) => Some(a.min(*b)),
            _ => None,
        },
        _ => None,
    }
}
