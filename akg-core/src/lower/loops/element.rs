//! One element of a tile value as a scalar computation.

use std::collections::{HashMap, HashSet};

use half::{bf16, f16};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{BinaryOp, Op, Scalar as Constant, Val};

use super::effect::{Effect, integer_range};
use super::ir::{LocalId, Stmt};
use super::mapper::{Mapper, State};
use super::nest::Nest;
use super::node::{NodeId, NodeKind};

/// Loops under construction.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// The indices of the loops with their extents; none for an extent of 1.
    pub(super) axes: Vec<(Symbol, usize)>,
    /// The extents of the tile that the loops pass over, and the index of the current element.
    pub(super) extents: Vec<usize>,
    pub(super) index: Vec<Expr>,
    /// Whether the loops pass over every element.
    pub(super) covers: bool,
    elements: HashMap<(Val, Vec<Expr>), NodeId>,
    /// Values that the loops store on their way.
    passing: Vec<(Val, LocalId, NodeId)>,
}

impl Frame {
    /// Notes an element of a value.
    pub(super) fn remember(&mut self, v: Val, index: &[Expr], node: NodeId) {
        self.elements.insert((v, index.to_vec()), node);
    }

    /// Forgets all elements of some values.
    pub(super) fn forget(&mut self, values: &HashSet<Val>) {
        self.elements.retain(|(v, _), _| !values.contains(v));
    }
}

/// The position of an element in row-major order.
pub(super) fn row_major(extents: &[usize], index: &[Expr]) -> Expr {
    extents
        .iter()
        .zip(index)
        .fold(Expr::constant(0), |at, (extent, i)| {
            at * Expr::from(*extent) + i.clone()
        })
}

impl Mapper<'_> {
    /// Starts loops over the elements of a value. Returns the loops that were under construction.
    pub(super) fn open(&mut self, v: Val) -> Frame {
        let extents = self.kernel.ty(v).extents.clone();
        self.open_extents(extents)
    }

    pub(super) fn open_extents(&mut self, extents: Vec<usize>) -> Frame {
        let mut frame = Frame {
            extents,
            covers: true,
            ..Frame::default()
        };
        for extent in frame.extents.clone() {
            if extent == 1 {
                frame.index.push(0.into());
                continue;
            }
            let symbol = self.names.fresh("i");
            self.ranges
                .insert(symbol.clone(), (0, (extent as i64 - 1).max(0)));
            frame.index.push(Expr::symbol(symbol.clone()));
            frame.axes.push((symbol, extent));
        }
        std::mem::replace(&mut self.frame, frame)
    }

    /// Emits the loops under construction with these effects and returns to the `outer` ones.
    pub(super) fn close(
        &mut self,
        outer: Frame,
        effects: Vec<Effect>,
        nest: impl FnOnce(Vec<(Symbol, usize)>, Vec<Effect>) -> Nest,
    ) {
        let frame = std::mem::replace(&mut self.frame, outer);
        let offset = row_major(&frame.extents, &frame.index);
        let mut all: Vec<Effect> = frame
            .passing
            .iter()
            .map(|(_, local, value)| Effect::Set {
                local: *local,
                offset: offset.clone(),
                value: *value,
            })
            .collect();
        all.extend(effects);
        let nest = nest(frame.axes, all);
        self.emit(&nest);
        for (v, local, _) in frame.passing {
            self.set_state(v, State::Stored(local));
        }
    }

    /// The element of a value at an index.
    pub(super) fn element(&mut self, v: Val, index: &[Expr]) -> Result<NodeId> {
        let key = (v, index.to_vec());
        if let Some(node) = self.frame.elements.get(&key) {
            return Ok(*node);
        }
        let covered =
            self.frame.covers && self.frame.index == index && self.frame.extents == self.kernel.ty(v).extents;
        let node = match self.value(v).state {
            State::Stored(local) => self.local_element(v, local, index),
            State::Reduction => {
                let local = self.flush_reductions(v)?;
                self.local_element(v, local, index)
            }
            State::Inline | State::Passing => self.compute(v, index)?,
            State::Pending if covered && self.is_past(v) => self.compute(v, index)?,
            State::Pending if covered => {
                let local = self.local_for(v);
                self.set_state(v, State::Passing);
                let node = self.compute(v, index)?;
                self.frame.passing.push((v, local, node));
                node
            }
            State::Pending => {
                let local = self.settle(v)?;
                self.local_element(v, local, index)
            }
        };
        let name = &self.kernel.values[v.0 as usize].name;
        if !name.is_empty() {
            self.labels.insert(node, name.clone());
        }
        self.frame.elements.insert(key, node);
        Ok(node)
    }

    fn local_element(&mut self, v: Val, local: LocalId, index: &[Expr]) -> NodeId {
        let ty = self.kernel.ty(v);
        let offset = row_major(&ty.extents, index);
        self.nodes.add(ty.dtype, NodeKind::Local(local, offset))
    }

    /// The element of an operand of an element-wise operator, broadcast.
    fn operand(&mut self, v: Val, index: &[Expr]) -> Result<NodeId> {
        let extents = &self.kernel.ty(v).extents;
        let index: Vec<Expr> = extents
            .iter()
            .zip(index)
            .map(|(extent, i)| if *extent == 1 { 0.into() } else { i.clone() })
            .collect();
        self.element(v, &index)
    }

    fn compute(&mut self, v: Val, index: &[Expr]) -> Result<NodeId> {
        let info = &self.kernel.values[v.0 as usize];
        let dtype = info.ty.dtype;
        if let Some((l, carried)) = self.inside.get(&v).copied() {
            return self.after_iterations(l, carried, index);
        }
        let Some(op) = self.value(v).op else {
            return Err(Error::unexpected(format!(
                "value `{}` of kernel `{}` is used before it is defined",
                info.name, self.kernel.name
            )));
        };
        let kind = match op {
            Op::Load { tensor, region, fill } => {
                let (offset, mut guards) = self.place(*tensor, region, index)?;
                if fill.is_none() {
                    guards.clear();
                }
                NodeKind::Tensor {
                    tensor: *tensor,
                    offset,
                    guards,
                    fill: round_constant(fill.unwrap_or(Constant::Int(0)), dtype).into(),
                }
            }
            Op::Full(value) => NodeKind::Const(round_constant(*value, dtype).into()),
            Op::Iota => NodeKind::Index(index.first().cloned().unwrap_or_else(|| 0.into())),
            Op::Index(expr) => NodeKind::Index(self.index(expr)),
            Op::Unary(op, a) => NodeKind::Unary(*op, self.operand(*a, index)?),
            Op::Binary(op, a, b) => {
                let (a, b) = (self.operand(*a, index)?, self.operand(*b, index)?);
                match self.index_arithmetic(*op, dtype, a, b) {
                    Some(expr) => NodeKind::Index(expr),
                    None => NodeKind::Binary(*op, a, b),
                }
            }
            Op::Compare(op, a, b) => {
                NodeKind::Compare(*op, self.operand(*a, index)?, self.operand(*b, index)?)
            }
            Op::Select(c, a, b) => NodeKind::Select(
                self.operand(*c, index)?,
                self.operand(*a, index)?,
                self.operand(*b, index)?,
            ),
            Op::Cast(a) => {
                let a = self.operand(*a, index)?;
                return Ok(self.cast(a, dtype));
            }
            Op::Bits(a) => NodeKind::Bits(self.operand(*a, index)?),
            Op::Transpose(a, perm) => {
                let mut source = vec![Expr::constant(0); perm.len()];
                for (to, i) in perm.iter().zip(index) {
                    if let Some(slot) = source.get_mut(*to) {
                        *slot = i.clone();
                    }
                }
                return self.element(*a, &source);
            }
            Op::Reshape(a) => {
                let source = self.reshape_index(&info.ty.extents, index, &self.kernel.ty(*a).extents);
                return self.element(*a, &source);
            }
            Op::Reduce(..) | Op::ArgReduce(..) | Op::Scan { .. } | Op::Dot { .. } => {
                return Err(Error::unexpected(format!(
                    "value `{}` of kernel `{}` has no storage",
                    info.name, self.kernel.name
                )));
            }
        };
        Ok(self.nodes.add(dtype, kind))
    }

    /// A conversion; none if the type is the same.
    pub(super) fn cast(&mut self, node: NodeId, dtype: DType) -> NodeId {
        let from = self.nodes.get(node);
        if from.dtype == dtype {
            return node;
        }
        match &from.kind {
            NodeKind::Index(expr) if self.fits(expr, dtype) => {
                let expr = expr.clone();
                self.nodes.add(dtype, NodeKind::Index(expr))
            }
            _ => self.nodes.add(dtype, NodeKind::Cast(node)),
        }
    }

    /// Integer arithmetic on index expressions that cannot wrap stays an index expression.
    fn index_arithmetic(&self, op: BinaryOp, dtype: DType, a: NodeId, b: NodeId) -> Option<Expr> {
        let expr = |node: NodeId| match &self.nodes.get(node).kind {
            NodeKind::Index(expr) => Some(expr.clone()),
            NodeKind::Const(bits) => match Constant::from(*bits) {
                Constant::Int(v) => Some(v.into()),
                Constant::Float(_) => None,
            },
            _ => None,
        };
        let (a, b) = (expr(a)?, expr(b)?);
        let result = match op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::FloorDiv if b.as_const().is_some_and(|b| b > 0) => a.floor_div(&b),
            BinaryOp::Mod if b.as_const().is_some_and(|b| b > 0) => a.modulo(&b),
            _ => return None,
        };
        self.fits(&result, dtype).then_some(result)
    }

    fn fits(&self, expr: &Expr, dtype: DType) -> bool {
        let (lowest, highest) = integer_range(dtype);
        !dtype.is_float()
            && dtype != DType::Bool
            && self
                .bounds(expr)
                .is_some_and(|(lo, hi)| lo >= lowest && hi <= highest)
    }

    /// The index into a tile of extents `to` of the element that has `index` in a tile of extents `from`.
    fn reshape_index(&self, from: &[usize], index: &[Expr], to: &[usize]) -> Vec<Expr> {
        let mut out = Vec::with_capacity(to.len());
        let (mut from, mut index, mut to) = (from, index, to);
        while let [first, rest @ ..] = to {
            // The shortest prefixes with the same number of elements.
            let (mut taken, mut given) = (0, 1);
            let (mut have, mut need) = (1usize, *first);
            while have != need {
                let more = if have < need {
                    from.get(taken).map(|e| {
                        have *= e;
                        taken += 1;
                    })
                } else {
                    to.get(given).map(|e| {
                        need *= e;
                        given += 1;
                    })
                };
                if more.is_none() {
                    break;
                }
            }
            let (group, rest_from) = from.split_at(taken);
            let (group_index, rest_index) = index.split_at(taken);
            let mut flat = row_major(group, group_index);
            let (targets, rest_to) = to.split_at(given);
            debug_assert!(given > 1 || rest_to == rest);
            let at = out.len();
            for (i, extent) in targets.iter().enumerate().rev() {
                let (quotient, remainder) = if i == 0 {
                    (0.into(), flat)
                } else {
                    self.divide(&flat, *extent)
                };
                out.insert(at, if *extent == 1 { 0.into() } else { remainder });
                flat = quotient;
            }
            (from, index, to) = (rest_from, rest_index, rest_to);
        }
        out
    }

    /// Quotient and remainder of a non-negative expression, simplified by what is known of its symbols.
    fn divide(&self, expr: &Expr, divisor: usize) -> (Expr, Expr) {
        let divisor = Expr::from(divisor);
        let by = divisor.as_const().unwrap_or(1);
        let (multiples, rest): (Vec<_>, Vec<_>) = expr
            .terms()
            .iter()
            .cloned()
            .partition(|t| t.coefficient % by == 0);
        let (multiples, rest) = (Expr::from(multiples), Expr::from(rest));
        match self.bounds(&rest) {
            Some((lo, hi)) if lo >= 0 && hi < by => (multiples.floor_div(&divisor), rest),
            _ => (expr.floor_div(&divisor), expr.modulo(&divisor)),
        }
    }

    /// A fresh loop index in `0..=last`.
    pub(super) fn counter(&mut self, name: &str, last: i64) -> Symbol {
        let symbol = self.names.fresh(name);
        self.ranges.insert(symbol.clone(), (0, last));
        symbol
    }

    /// A statement that fills a local with a constant.
    pub(super) fn fill(
        &mut self,
        local: LocalId,
        extents: Vec<usize>,
        dtype: DType,
        value: Constant,
    ) -> Vec<Stmt> {
        let outer_out = std::mem::take(&mut self.out);
        let outer = self.open_extents(extents);
        let offset = row_major(&self.frame.extents, &self.frame.index);
        let value = self.nodes.add(dtype, NodeKind::Const(value.into()));
        self.close(outer, vec![Effect::Set { local, offset, value }], Nest::parallel);
        std::mem::replace(&mut self.out, outer_out)
    }
}

/// A constant as an element of `dtype`.
fn round_constant(value: Constant, dtype: DType) -> Constant {
    if !dtype.is_float() {
        return match value {
            Constant::Int(v) => Constant::Int(v),
            Constant::Float(v) if dtype == DType::Bool => Constant::Int(i64::from(v != 0.0)),
            Constant::Float(v) => Constant::Int(dtype.truncate(v)),
        };
    }
    let exact = match value {
        Constant::Int(v) => v as f64,
        Constant::Float(v) => v,
    };
    Constant::Float(match dtype {
        DType::F16 => f16::from_f64(exact).to_f64(),
        DType::BF16 => bf16::from_f64(exact).to_f64(),
        DType::F32 => f64::from(exact as f32),
        _ => exact,
    })
}
