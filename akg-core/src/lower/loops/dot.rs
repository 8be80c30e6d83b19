//! Dots: operands into local matrices, a register block for the target, partial sums.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::sketch::ir::{DotMethod, Op, Scalar as Constant, Val};

use super::Machine;
use super::effect::Effect;
use super::element::row_major;
use super::ir::{Dot, LocalId, Stmt};
use super::mapper::{Mapper, Resource, State};
use super::nest::Nest;
use super::node::{NodeId, NodeKind};

/// Products that may be summed one after another in f32 where the sketch leaves it open.
const CHUNK: usize = 32;

impl Mapper<'_> {
    pub(super) fn dot(&mut self, v: Val) -> Result<()> {
        let Some(Op::Dot {
            a,
            b,
            init,
            method,
            promote,
        }) = self.value(v).op
        else {
            return Err(Error::unexpected("not a dot"));
        };
        let (a, b, init, method) = (*a, *b, *init, *method);
        let (ty_a, ty_b, ty) = (self.kernel.ty(a), self.kernel.ty(b), self.kernel.ty(v));
        let ([m, k], [_, n]) = (ty_a.extents.as_slice(), ty_b.extents.as_slice()) else {
            return Err(Error::unexpected("the operands of a dot are not matrices"));
        };
        let extents = [*m, *n, *k];
        let dtype = match (ty_a.dtype, ty.dtype) {
            (DType::F64, _) => DType::F64,
            (operand, _) if operand.is_float() => DType::F32,
            (_, result) => result,
        };
        self.out.push(Stmt::Comment(self.describe(v)));
        let (a, a_strides) = self.left(a, method, dtype)?;
        let (b, b_stride) = self.right(b, method, dtype)?;
        let c = self.accumulator(v, init)?;
        let (chunk, direct) = match promote {
            Some(p) => ((*p).clamp(1, extents[2].max(1)), true),
            None if dtype != DType::F32 || extents[2] <= CHUNK => (extents[2].max(1), true),
            None => (CHUNK, ty.dtype == DType::F64),
        };
        self.out.push(Stmt::Dot(Dot {
            a,
            a_strides,
            b,
            b_stride,
            c,
            extents,
            dtype,
            chunk,
            direct,
            block: block(self.machine, extents, dtype),
        }));
        self.set_state(v, State::Stored(c));
        if matches!(ty.dtype, DType::F16 | DType::BF16) {
            self.round(c, v);
        }
        Ok(())
    }

    /// The left operand in a local: rows and columns may lie either way.
    fn left(&mut self, v: Val, method: DotMethod, dtype: DType) -> Result<(LocalId, [usize; 2])> {
        let (source, transposed) = self.untransposed(v);
        let columns = self.kernel.ty(source).extents.get(1).copied().unwrap_or(1);
        let strides = if transposed { [1, columns] } else { [columns, 1] };
        Ok((self.dense(source, method, dtype)?, strides))
    }

    /// A matrix as the dot reads it, in a dense local.
    fn dense(&mut self, v: Val, method: DotMethod, dtype: DType) -> Result<LocalId> {
        if self.is_ready(v, method, dtype) {
            return self.settle(v);
        }
        let extents = self.kernel.ty(v).extents.clone();
        let local = self.local("operand", dtype, &extents);
        let outer = self.open(v);
        let index = self.frame.index.clone();
        let offset = row_major(&extents, &index);
        let element = self.element(v, &index)?;
        let value = self.convert(element, method, dtype);
        self.close(outer, vec![Effect::Set { local, offset, value }], Nest::parallel);
        Ok(local)
    }

    /// The right operand in a local: row by row, rows padded to whole vectors.
    fn right(&mut self, v: Val, method: DotMethod, dtype: DType) -> Result<(LocalId, usize)> {
        let extents = self.kernel.ty(v).extents.clone();
        let [k, n] = extents[..] else {
            return Err(Error::unexpected("the right operand of a dot is not a matrix"));
        };
        let lanes = self.machine.vector_bytes / dtype.size();
        let stride = n.div_ceil(lanes) * lanes;
        if stride == n && !self.untransposed(v).1 && self.is_ready(v, method, dtype) {
            return Ok((self.settle(v)?, stride));
        }
        let local = self.local("right", dtype, &[k, stride]);
        if stride > n {
            let outer = self.open_extents(vec![k, stride - n]);
            let offset = row_major(&[k, stride], &self.frame.index) + Expr::from(n);
            let zero = if dtype.is_float() {
                Constant::Float(0.0)
            } else {
                Constant::Int(0)
            };
            let value = self.nodes.add(dtype, NodeKind::Const(zero.into()));
            self.close(outer, vec![Effect::Set { local, offset, value }], Nest::parallel);
        }
        if let ((source, true), 4) = (self.untransposed(v), dtype.size()) {
            let from = self.dense(source, method, dtype)?;
            self.out.push(Stmt::Transpose {
                from,
                extents: [n, k],
                to: local,
                stride,
            });
            return Ok((local, stride));
        }
        let outer = self.open(v);
        let index = self.frame.index.clone();
        let offset = row_major(&[k, stride], &index);
        let element = self.element(v, &index)?;
        let value = self.convert(element, method, dtype);
        self.close(outer, vec![Effect::Set { local, offset, value }], Nest::parallel);
        Ok((local, stride))
    }

    /// Looks through a transposition that is evaluated in place.
    fn untransposed(&self, v: Val) -> (Val, bool) {
        match (self.value(v).state, self.value(v).op) {
            (State::Inline, Some(Op::Transpose(source, perm))) if perm[..] == [1, 0] => (*source, true),
            _ => (v, false),
        }
    }

    /// Whether an array of the value's elements is what the dot reads.
    fn is_ready(&self, v: Val, method: DotMethod, dtype: DType) -> bool {
        let have = self.kernel.ty(v).dtype;
        let held = match have {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        };
        let as_is = match method {
            DotMethod::Ieee => true,
            DotMethod::Tf32 => matches!(have, DType::F16 | DType::BF16),
            DotMethod::F16 => have == DType::F16,
            DotMethod::Bf16 => have == DType::BF16,
        };
        as_is && held == dtype
    }

    fn convert(&mut self, node: NodeId, method: DotMethod, dtype: DType) -> NodeId {
        match method {
            DotMethod::Ieee => self.cast(node, dtype),
            DotMethod::Tf32 => {
                let single = self.cast(node, DType::F32);
                self.nodes.add(DType::F32, NodeKind::Tf32(single))
            }
            DotMethod::F16 | DotMethod::Bf16 => {
                let narrow = if method == DotMethod::F16 {
                    DType::F16
                } else {
                    DType::BF16
                };
                let rounded = self.cast(node, narrow);
                self.cast(rounded, dtype)
            }
        }
    }

    /// Storage of the result that holds the initial value.
    fn accumulator(&mut self, v: Val, init: Option<Val>) -> Result<LocalId> {
        let destination = self.destination(v);
        let in_place = init.and_then(|init| self.reusable(init));
        if let Some(local) = in_place.filter(|local| destination.is_none_or(|d| d == *local)) {
            self.invalidate(Resource::Local(local))?;
            return Ok(local);
        }
        let local = match destination {
            Some(local) => {
                self.invalidate(Resource::Local(local))?;
                local
            }
            None => self.local_for(v),
        };
        match init {
            Some(init) => self.write(local, init)?,
            None => {
                let ty = self.kernel.ty(v);
                let zero = if ty.dtype.is_float() {
                    Constant::Float(0.0)
                } else {
                    Constant::Int(0)
                };
                let fill = self.fill(local, ty.extents.clone(), ty.dtype, zero);
                self.out.extend(fill);
            }
        }
        Ok(local)
    }

    /// Rounds a half-precision result that was accumulated in f32.
    fn round(&mut self, local: LocalId, v: Val) {
        let ty = self.kernel.ty(v);
        let outer = self.open(v);
        let offset = row_major(&ty.extents, &self.frame.index);
        let wide = self.nodes.add(DType::F32, NodeKind::Local(local, offset.clone()));
        let value = self.nodes.add(ty.dtype, NodeKind::Cast(wide));
        self.close(outer, vec![Effect::Set { local, offset, value }], Nest::parallel);
    }
}

/// The register block: rows, and vectors of columns, with the least estimated time for the whole product.
fn block(machine: Machine, [m, n, _]: [usize; 3], dtype: DType) -> [usize; 2] {
    let vectors = n.div_ceil(machine.vector_bytes / dtype.size()).max(1);
    let mut best = ([1, 1], usize::MAX);
    for columns in 1..=vectors.min(6) {
        for rows in 1..=m.clamp(1, 14) {
            if rows * columns + columns + 1 > machine.vector_registers {
                continue;
            }
            // Two multiply-adds or two loads a cycle; fewer than 8 sums do not hide the latency of an addition.
            let arithmetic = (rows * columns).max(8);
            let time = arithmetic.max(rows + columns) * m.div_ceil(rows) * vectors.div_ceil(columns);
            if time < best.1 || time == best.1 && rows * columns >= best.0[0] * best.0[1] {
                best = ([rows, columns], time);
            }
        }
    }
    best.0
}
