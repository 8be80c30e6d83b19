//! Dots: operands into locals, a register block for the target, partial sums.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::sketch::ir::{Axis, DotMethod, Op, Scalar as Constant, Val};

use super::Machine;
use super::effect::Effect;
use super::element::row_major;
use super::ir::{Dot, Layout, LocalId, Matrix, Pack, Place, Stmt, Sums};
use super::mapper::{Mapper, Resource, State};
use super::nest::Nest;
use super::node::{NodeId, NodeKind};

/// Products that may be summed one after another in f32 where the sketch leaves it open.
const CHUNK: usize = 32;

/// Rows of a local matrix a multiple of this many bytes apart compete for the same lines of a cache.
const CONFLICT: usize = 512;

/// Bytes of a cache line.
const LINE: usize = 64;

impl Mapper<'_> {
    /// A product, added to `init` by the operator itself.
    pub(super) fn dot(&mut self, v: Val) -> Result<()> {
        let Some(Op::Dot { init, .. }) = self.value(v).op else {
            return Err(Error::unexpected("not a dot"));
        };
        let sums = if init.is_some() {
            Sums::Continue
        } else {
            Sums::Replace
        };
        self.product(v, v, *init, sums)
    }

    /// The value `v`, which is the sum of `init` and the product that `dot` defines.
    pub(super) fn product(&mut self, v: Val, dot: Val, init: Option<Val>, sums: Sums) -> Result<()> {
        let Some(Op::Dot {
            a,
            b,
            method,
            promote,
            ..
        }) = self.value(dot).op
        else {
            return Err(Error::unexpected("not a dot"));
        };
        let (a, b, method) = (*a, *b, *method);
        let (ty_a, ty_b, ty) = (self.kernel.ty(a), self.kernel.ty(b), self.kernel.ty(dot));
        let ([m, k], [_, n]) = (ty_a.extents.as_slice(), ty_b.extents.as_slice()) else {
            return Err(Error::unexpected("the operands of a dot are not matrices"));
        };
        let extents = [*m, *n, *k];
        let dtype = match (ty_a.dtype, ty.dtype) {
            (DType::F64, _) => DType::F64,
            (operand, _) if operand.is_float() => DType::F32,
            (_, result) => result,
        };
        let held = match ty.dtype {
            DType::F16 | DType::BF16 => DType::F32,
            other => other,
        };
        let depth = extents[2].max(1);
        let (chunk, sum) = match promote {
            Some(p) => ((*p).clamp(1, depth), held),
            None if dtype != DType::F32 || depth <= CHUNK => (depth, held),
            None => (CHUNK, DType::F64),
        };
        // Sums in a wider type than the result's cannot start from it element by element.
        let sums = match sums {
            Sums::Continue if sum != held => Sums::Add,
            other => other,
        };
        self.out.push(Stmt::Comment(self.describe(dot)));
        let block = block(self.machine, extents, dtype);
        let width = block[1] * (self.machine.vector_bytes / dtype.size());
        let (a, a_layout) = self.left(a, method, dtype, block[0])?;
        let b = self.right(b, method, dtype, width)?;
        let c = match init {
            Some(init) => self.accumulator(v, init)?,
            None => self.result(v)?,
        };
        self.out.push(Stmt::Dot(Dot {
            a,
            a_layout,
            b,
            width,
            c,
            extents,
            dtype,
            chunk,
            sum,
            sums,
            block,
        }));
        self.set_state(v, State::Stored(c));
        if matches!(ty.dtype, DType::F16 | DType::BF16) {
            self.round(c, v);
        }
        Ok(())
    }

    /// The left operand in a local: part of a tensor in panels of `rows` rows, and what is computed as it is, where rows
    /// and columns may lie either way.
    fn left(&mut self, v: Val, method: DotMethod, dtype: DType, rows: usize) -> Result<(LocalId, Layout)> {
        let (source, transposed) = self.untransposed(v);
        let [m, k] = self.kernel.ty(v).extents[..] else {
            return Err(Error::unexpected("the left operand of a dot is not a matrix"));
        };
        let Some(mut from) = self.packable(source, method, dtype)? else {
            let (local, row) = self.dense(source, method, dtype)?;
            let strides = if transposed { [1, row] } else { [row, 1] };
            return Ok((local, Layout::Strided(strides)));
        };
        if !transposed {
            from.strides.reverse();
            from.valid.reverse();
        }
        let lanes = self.machine.vector_bytes / dtype.size();
        let to = self.local("left", dtype, &[m.div_ceil(rows) * rows * k + lanes]);
        self.out.push(Stmt::Pack(Pack {
            from,
            extents: [k, m],
            to,
            width: rows,
        }));
        Ok((to, Layout::Panels))
    }

    /// A matrix as the dot reads it in a local, and the distance of its rows.
    fn dense(&mut self, v: Val, method: DotMethod, dtype: DType) -> Result<(LocalId, usize)> {
        let extents = self.kernel.ty(v).extents.clone();
        let [rows, columns] = extents[..] else {
            return Err(Error::unexpected("an operand of a dot is not a matrix"));
        };
        let is_shared = self.uses[v.0 as usize].count > 1 || self.value(v).state != State::Inline;
        if is_shared && self.is_ready(v, method, dtype) {
            return Ok((self.settle(v)?, columns));
        }
        let conflicts = rows > 1 && (columns * dtype.size()).is_multiple_of(CONFLICT);
        let row = columns + if conflicts { LINE / dtype.size() } else { 0 };
        let local = self.local("left", dtype, &[rows, row]);
        let outer = self.open(v);
        let index = self.frame.index.clone();
        let offset = row_major(&[rows, row], &index);
        let element = self.element(v, &index)?;
        let value = self.convert(element, method, dtype);
        self.close(outer, vec![Effect::Set { local, offset, value }], Nest::parallel);
        Ok((local, row))
    }

    /// The right operand in a local, in panels of `width` columns.
    fn right(&mut self, v: Val, method: DotMethod, dtype: DType, width: usize) -> Result<LocalId> {
        let [k, n] = self.kernel.ty(v).extents[..] else {
            return Err(Error::unexpected("the right operand of a dot is not a matrix"));
        };
        let to = self.local("right", dtype, &[n.div_ceil(width), k, width]);
        let (source, transposed) = self.untransposed(v);
        let mut from = match self.packable(source, method, dtype)? {
            Some(matrix) => matrix,
            None => {
                let (local, row) = self.dense(source, method, dtype)?;
                let valid = if transposed { [n, k] } else { [k, n] };
                Matrix {
                    place: Place::Local(local),
                    offset: 0.into(),
                    strides: [row.into(), 1.into()],
                    valid: valid.map(Expr::from),
                }
            }
        };
        if transposed {
            from.strides.reverse();
            from.valid.reverse();
        }
        self.out.push(Stmt::Pack(Pack {
            from,
            extents: [k, n],
            to,
            width,
        }));
        Ok(to)
    }

    /// The part of a tensor that a value is, if the dot reads its elements as they are.
    fn packable(&mut self, v: Val, method: DotMethod, dtype: DType) -> Result<Option<Matrix>> {
        if self.kernel.ty(v).dtype != dtype || !self.is_ready(v, method, dtype) {
            return Ok(None);
        }
        self.plain(v)
    }

    /// The part of a tensor that a value is, if it is one with adjacent columns and zeros around it.
    fn plain(&mut self, v: Val) -> Result<Option<Matrix>> {
        let (State::Inline, Some(Op::Load { tensor, region, fill })) =
            (self.value(v).state, self.value(v).op)
        else {
            return Ok(None);
        };
        let is_dense = region.iter().all(|axis| match axis {
            Axis::Range { step, .. } => *step == 1,
            Axis::At(_) => true,
            Axis::AtTile(_) | Axis::Gather(_) => false,
        });
        let is_zero = matches!(fill, None | Some(Constant::Int(0) | Constant::Float(0.0)));
        let [rows, columns] = self.kernel.ty(v).extents[..] else {
            return Ok(None);
        };
        if !is_dense || !is_zero || !matches!(region.last(), Some(Axis::Range { .. })) {
            return Ok(None);
        }
        let outer = self.open_extents(vec![rows, columns]);
        let index = self.frame.index.clone();
        let placed = self.place(*tensor, region, &index);
        self.frame = outer;
        let (mut offset, guards) = placed?;
        let mut strides = [0.into(), 1.into()];
        for (i, stride) in index.iter().zip(&mut strides) {
            let Some(symbol) = i.as_symbol() else { continue };
            let first = offset.substitute(&|s| (s == &**symbol).then(|| 0.into()));
            let Some(distance) = (&offset - &first).exact_div(i) else {
                return Ok(None);
            };
            (offset, *stride) = (first, distance);
        }
        let mut valid = [rows, columns].map(Expr::from);
        for guard in guards.iter().filter(|_| fill.is_some()) {
            let mentions = |i: &Expr| i.as_symbol().is_some_and(|s| guard.coordinate.mentions(s));
            let along = index.iter().zip(&mut valid).find(|(i, _)| mentions(i));
            let Some((i, valid)) = along else { return Ok(None) };
            let start = &guard.coordinate - i;
            if self.bounds(&start).is_none_or(|b| b.0 < 0) {
                return Ok(None);
            }
            let len = valid.as_const().unwrap_or_default();
            let hi = self.names.fresh("valid");
            self.ranges.insert(hi.clone(), (0, len));
            self.out.push(Stmt::Clip {
                lo: None,
                hi: Some(hi.clone()),
                start,
                step: 1,
                extent: guard.extent.clone(),
                len: len as usize,
            });
            *valid = Expr::symbol(hi);
        }
        Ok(Some(Matrix {
            place: Place::Tensor(*tensor),
            offset,
            strides,
            valid,
        }))
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
    fn accumulator(&mut self, v: Val, init: Val) -> Result<LocalId> {
        let destination = self.destination(v);
        let in_place = self.reusable(init);
        if let Some(local) = in_place.filter(|local| destination.is_none_or(|d| d == *local)) {
            self.invalidate(Resource::Local(local))?;
            return Ok(local);
        }
        let local = self.result(v)?;
        self.write(local, init)?;
        Ok(local)
    }

    /// Storage of the result, uninitialised.
    fn result(&mut self, v: Val) -> Result<LocalId> {
        let Some(local) = self.destination(v) else {
            return Ok(self.local_for(v));
        };
        self.invalidate(Resource::Local(local))?;
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
    // Two multiply-adds or two loads a cycle; fewer than 8 sums do not hide the latency of an addition.
    let time = |rows: usize, columns: usize| match rows * columns {
        0 => 0,
        sums => sums.max(8).max(rows + columns),
    };
    let mut best = ([1, 1], usize::MAX);
    for columns in 1..=vectors.min(6) {
        for rows in 1..=m.clamp(1, 14) {
            if rows * columns + columns + 1 > machine.vector_registers {
                continue;
            }
            let panel = |columns| m / rows * time(rows, columns) + time(m % rows, columns);
            let all = vectors / columns * panel(columns) + panel(vectors % columns);
            if all < best.1 || all == best.1 && rows * columns >= best.0[0] * best.0[1] {
                best = ([rows, columns], all);
            }
        }
    }
    best.0
}
