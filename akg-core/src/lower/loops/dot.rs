//! Dots: operands into locals, a register block for the target, partial sums.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::sketch::ir::{DotMethod, Op, Val};

use super::Machine;
use super::effect::Effect;
use super::element::row_major;
use super::ir::{Address, Dot, Layout, LocalId, Matrix, Pack, Place, Stmt, Sums};
use super::mapper::{Mapper, Resource, State};
use super::nest::Nest;
use super::node::{NodeId, NodeKind};
use super::pack::Slab;

/// Products that may be summed one after another in f32 where the sketch leaves it open.
const CHUNK: usize = 32;

/// Rows of a local matrix a multiple of this many bytes apart compete for the same lines of a cache.
const CONFLICT: usize = 512;

/// So few columns are not worth packing the left operand for, if its rows are so many bytes apart at most.
const FEW: usize = 256;
const NEAR: usize = 4096;

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
            Some(p) => ((*p).max(1), held),
            None if dtype != DType::F32 => (depth, held),
            None if depth <= CHUNK => (CHUNK, held),
            None => (CHUNK, DType::F64),
        };
        // Sums in a wider type than the result's cannot start from it element by element.
        let sums = match sums {
            Sums::Continue if sum != held => Sums::Add,
            other => other,
        };
        self.out.push(Stmt::Comment(self.describe(dot)));
        let in_box = self.held_left(a, method, dtype)?;
        let line = match in_box {
            Some((_, Layout::Lines(len, _))) => len,
            _ => *m,
        };
        let block = block(self.machine, [line, *n], dtype);
        let width = block[1] * (self.machine.vector_bytes / dtype.size());
        let rows = match in_box {
            Some(_) => self.rows_in_place(b, method, dtype)?,
            None => None,
        };
        let (a, a_layout) = match in_box {
            Some(operand) => operand,
            None => self.left(a, method, dtype, block[0], *n)?,
        };
        let (b, width) = match rows {
            Some(operand) => operand,
            None => self.right(b, method, dtype, width)?,
        };
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

    /// The left operand where it lies in a box, if it is a transposed part of one.
    fn held_left(&mut self, v: Val, method: DotMethod, dtype: DType) -> Result<Option<(Address, Layout)>> {
        let (source, transposed) = self.untransposed(v);
        if !transposed {
            return Ok(None);
        }
        let slab = self.packable(source, method, dtype)?;
        Ok(slab.filter(Slab::is_held).and_then(|slab| slab.lines()))
    }

    /// The right operand where it lies in a tensor, and the distance of its rows, if these do not compete for the same lines
    /// of a cache, and are whole vectors.
    fn rows_in_place(&mut self, v: Val, method: DotMethod, dtype: DType) -> Result<Option<(Address, usize)>> {
        let columns = self.kernel.ty(v).extents.last().copied().unwrap_or(1);
        let lanes = self.machine.vector_bytes / dtype.size();
        let slab = self.packable(v, method, dtype)?;
        let in_place = slab.filter(|_| columns.is_multiple_of(lanes));
        let is_apart = |row: usize| !(row * dtype.size()).is_multiple_of(CONFLICT);
        Ok(in_place
            .and_then(|slab| slab.in_place())
            .filter(|(_, row)| is_apart(*row)))
    }

    /// The left operand in a local: part of a tensor in panels of `rows` rows, and what is computed as it is, where rows
    /// and columns may lie either way.
    fn left(
        &mut self,
        v: Val,
        method: DotMethod,
        dtype: DType,
        rows: usize,
        columns: usize,
    ) -> Result<(Address, Layout)> {
        let (source, transposed) = self.untransposed(v);
        let [m, k] = self.kernel.ty(v).extents[..] else {
            return Err(Error::unexpected("the left operand of a dot is not a matrix"));
        };
        let slab = self.packable(source, method, dtype)?;
        let in_place = slab
            .as_ref()
            .filter(|_| transposed && columns <= FEW)
            .and_then(Slab::in_place);
        if let Some((source, row)) = in_place.filter(|(_, row)| row * dtype.size() <= NEAR) {
            return Ok((source, Layout::Strided([1, row])));
        }
        let lanes = self.machine.vector_bytes / dtype.size();
        let extents = [m.div_ceil(rows) * rows * k + lanes];
        let packed =
            slab.and_then(|slab| self.panels(source, &slab, !transposed, ("left", dtype), &extents, rows));
        if let Some(to) = packed {
            return Ok((to.into(), Layout::Panels));
        }
        let (local, row) = self.dense(source, method, dtype)?;
        let strides = if transposed { [1, row] } else { [row, 1] };
        Ok((local.into(), Layout::Strided(strides)))
    }

    /// A local of these extents with `source`, which is all of `slab`, in panels, if it is one matrix: packed before the loop at
    /// hand if that finds it as it is there.
    fn panels(
        &mut self,
        source: Val,
        slab: &Slab,
        is_turned: bool,
        (name, dtype): (&str, DType),
        extents: &[usize],
        width: usize,
    ) -> Option<LocalId> {
        let value = self.value(source);
        let is_there = self.loop_block.is_some_and(|block| value.block < block) && value.reads.is_empty();
        let goes_before = is_there && !slab.is_held();
        if goes_before {
            std::mem::swap(&mut self.out, &mut self.before);
        }
        let packed = self.whole(slab).map(|matrix| {
            let from = if is_turned { matrix.transposed() } else { matrix };
            let to = self.local(name, dtype, extents);
            self.out.push(Stmt::Pack(Pack::all(from, to, width)));
            to
        });
        if goes_before {
            std::mem::swap(&mut self.out, &mut self.before);
        }
        packed
    }

    /// A matrix as the dot reads it in a local, and the distance of its rows.
    fn dense(&mut self, v: Val, method: DotMethod, dtype: DType) -> Result<(LocalId, usize)> {
        let extents = self.kernel.ty(v).extents.clone();
        let [rows, columns] = extents[..] else {
            return Err(Error::unexpected("an operand of a dot is not a matrix"));
        };
        let is_shared = self.uses[v.0 as usize].count > 1 || self.value(v).state != State::Inline;
        // Rows and columns of what it was before are walked without quotients.
        let is_view = matches!(self.value(v).op, Some(Op::Reshape(_)));
        if (is_shared || is_view) && self.is_ready(v, method, dtype) {
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

    /// The right operand in a local, and the columns of its panels: `block`, or more if it comes in parts.
    fn right(&mut self, v: Val, method: DotMethod, dtype: DType, block: usize) -> Result<(Address, usize)> {
        let [k, n] = self.kernel.ty(v).extents[..] else {
            return Err(Error::unexpected("the right operand of a dot is not a matrix"));
        };
        let (source, transposed) = self.untransposed(v);
        let slab = self.packable(source, method, dtype)?;
        let held = slab.as_ref().filter(|slab| !transposed && slab.is_held());
        if let Some(in_place) = held.and_then(Slab::in_place) {
            return Ok(in_place);
        }
        let extents = [n.div_ceil(block), k, block];
        let packed = slab
            .as_ref()
            .and_then(|slab| self.panels(source, slab, transposed, ("right", dtype), &extents, block));
        if let Some(to) = packed {
            return Ok((to.into(), block));
        }
        if let Some(slab) = slab.filter(|_| !transposed) {
            let width = self.apart(n, dtype);
            let to = self.local("right", dtype, &[k, width]);
            self.pack(&slab, to, width)?;
            return Ok((to.into(), width));
        }
        let (local, row) = self.dense(source, method, dtype)?;
        let extents = if transposed { [n, k] } else { [k, n] };
        let from = Matrix {
            place: Place::Local(local),
            offset: 0.into(),
            extents,
            strides: [row.into(), 1.into()],
            valid: extents.map(|extent| [0.into(), extent.into()]),
        };
        let from = if transposed { from.transposed() } else { from };
        let to = self.local("right", dtype, &[n.div_ceil(block), k, block]);
        self.out.push(Stmt::Pack(Pack::all(from, to, block)));
        Ok((to.into(), block))
    }

    /// The distance of rows of so many elements of a local matrix that lets vectors read beyond them, and rows not compete
    /// for the same lines of a cache.
    pub(super) fn apart(&self, row: usize, dtype: DType) -> usize {
        let lanes = self.machine.vector_bytes / dtype.size();
        let width = row.next_multiple_of(lanes);
        let conflicts = (width * dtype.size()).is_multiple_of(CONFLICT);
        width + if conflicts { lanes } else { 0 }
    }

    /// The part of a tensor that a value is, if the dot reads its elements as they are.
    fn packable(&mut self, v: Val, method: DotMethod, dtype: DType) -> Result<Option<Slab>> {
        if self.kernel.ty(v).dtype != dtype || !self.is_ready(v, method, dtype) {
            return Ok(None);
        }
        Ok(self.slab(v)?.filter(Slab::is_regular))
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

/// The register block: rows, and vectors of columns, with the least estimated time for so many of each.
fn block(machine: Machine, [m, n]: [usize; 2], dtype: DType) -> [usize; 2] {
    let vectors = n.div_ceil(machine.vector_bytes / dtype.size()).max(1);
    // In 32nds of a cycle, with two multiply-adds or two loads in each cycle: fewer than 8 sums do not hide the latency of an
    // addition, and compilers load a vector of columns again for each of two rows rather than keep it. Where few of 16
    // registers are left, each sum costs a sixteenth more, as measured on Zen 3.
    let time = |rows: usize, columns: usize| {
        let sums = rows * columns;
        let loads = rows + if rows <= 2 { sums } else { columns };
        let is_tight = machine.vector_registers <= 16 && sums > 8;
        match sums {
            0 => 0,
            _ => (sums.max(8) * if is_tight { 17 } else { 16 }).max(16 * loads),
        }
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
