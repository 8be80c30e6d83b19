//! Reductions and scans.
//!
//! Floating sums and products are kept in f64 (see also [`sums`](super::sums)), extremes in the tile's type.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{CompareOp, Op, ReduceOp, Scalar as Constant, Val};

use super::effect::{Effect, identity};
use super::element::row_major;
use super::ir::{Accumulation, LocalId, LoopKind, Scalar, Stmt};
use super::mapper::{Mapper, Resource, State};
use super::nest::Nest;
use super::node::NodeKind;
use super::sums::Gathered;

/// One reduction of a group over the same tile.
struct Sum {
    v: Val,
    op: ReduceOp,
    operand: Val,
    /// The type of the accumulator.
    dtype: DType,
    accumulator: LocalId,
    nan: Option<LocalId>,
    result: LocalId,
    /// How it is taken part by part, if it is.
    gathered: Option<Gathered>,
}

/// The tile and axis of a reduction.
fn reduction(op: Option<&Op>) -> Option<(ReduceOp, Val, usize)> {
    match op {
        Some(Op::Reduce(op, a, axis)) => Some((*op, *a, *axis)),
        _ => None,
    }
}

impl Mapper<'_> {
    /// Emits the waiting reduction `v` together with others over tiles of the same extents. Returns its storage.
    pub(super) fn flush_reductions(&mut self, v: Val) -> Result<LocalId> {
        let missing = || Error::unexpected("a reduction was lost");
        let (_, operand, axis) = reduction(self.value(v).op).ok_or_else(missing)?;
        let extents = self.kernel.ty(operand).extents.clone();
        let mut group = vec![v];
        for other in self.reductions.clone() {
            let Some((_, tile, other_axis)) = reduction(self.value(other).op) else {
                continue;
            };
            let independent = |mapper: &Self, a: Val, b: Val| {
                !mapper.value(b).reads.contains(&Resource::Reduction(a))
                    && !mapper.value(a).reads.contains(&Resource::Reduction(b))
            };
            if other != v
                && self.value(other).state == State::Reduction
                && other_axis == axis
                && self.kernel.ty(tile).extents == extents
                && group.iter().all(|member| independent(self, *member, other))
            {
                group.push(other);
            }
        }
        group.sort();
        self.reductions.retain(|r| !group.contains(r));
        let names: Vec<_> = group.iter().map(|r| self.describe(*r)).collect();
        self.out.push(Stmt::Comment(names.join("; ")));
        let results: Vec<LocalId> = group.iter().map(|r| self.local_for(*r)).collect();

        let outer = self.open_extents(extents.clone());
        let index = self.frame.index.clone();
        let inner = extents.get(axis + 1..).unwrap_or_default().to_vec();
        let level = loops_before(&extents, axis);
        let is_innermost = inner.iter().all(|e| *e == 1) && extents.get(axis) != Some(&1);
        let len = extents.get(axis).copied().filter(|_| is_innermost);
        let parts = len.and_then(|len| self.parts_of_sums(&group, len));
        let mut before = Vec::new();
        let mut sums = Vec::new();
        for (r, result) in group.iter().zip(results) {
            let (op, operand, _) = reduction(self.value(*r).op).ok_or_else(missing)?;
            let dtype = accumulator_type(op, self.kernel.ty(*r).dtype);
            let is_extreme = matches!(op, ReduceOp::Max | ReduceOp::Min);
            let (accumulator, declared) = self.scratch("acc", dtype, &inner);
            before.extend(declared);
            before.extend(self.fill(accumulator, inner.clone(), dtype, identity(op, dtype)));
            let mut nan = None;
            if is_extreme && dtype.is_float() && inner.iter().all(|e| *e == 1) {
                let (seen, declared) = self.scratch("nan", DType::I32, &[]);
                before.extend(declared);
                before.extend(self.fill(seen, Vec::new(), DType::I32, Constant::Int(0)));
                nan = Some(seen);
            }
            let mut gathered = None;
            if let Some(parts) = parts.as_ref().filter(|_| self.is_single_sum(*r)) {
                let (sum, declared) = self.gather(parts);
                before.extend(declared);
                gathered = Some(sum);
            }
            sums.push(Sum {
                v: *r,
                op,
                operand,
                dtype,
                accumulator,
                nan,
                result,
                gathered,
            });
        }
        let inner_index: Vec<Expr> = index.get(axis + 1..).unwrap_or_default().to_vec();
        let mut effects = Vec::new();
        for sum in &sums {
            let value = self.element(sum.operand, &index)?;
            if let (Some(gathered), Some(parts), Some(at)) = (&sum.gathered, &parts, index.get(axis)) {
                effects.push(gathered.effect(parts, at, value));
                continue;
            }
            effects.push(Effect::Accumulate {
                op: sum.op,
                local: sum.accumulator,
                offset: row_major(&inner, &inner_index),
                dtype: sum.dtype,
                nan: sum.nan,
                value: self.cast(value, sum.dtype),
            });
        }
        let mut kinds = Vec::new();
        let mut each = Vec::new();
        let mut after = Vec::new();
        for sum in &sums {
            match (&sum.gathered, &parts) {
                (Some(gathered), Some(parts)) => {
                    each.push(self.add_part(gathered, parts));
                    after.push(self.add_lanes(gathered, sum.accumulator));
                }
                _ => kinds.push((Accumulation::Reduce(sum.op), sum.accumulator)),
            }
            kinds.extend(sum.nan.map(|nan| (Accumulation::Or, nan)));
            after.extend(self.finish(sum, &extents, axis, &index));
        }
        let innermost = LoopKind::Vector(if is_innermost { kinds } else { Vec::new() });
        self.close(outer, effects, |axes, effects| Nest {
            level,
            before,
            after,
            innermost,
            parts: parts.map(|parts| (parts, each)),
            ..Nest::parallel(axes, effects)
        });
        for sum in &sums {
            self.set_state(sum.v, State::Stored(sum.result));
        }
        match self.value(v).state {
            State::Stored(local) => Ok(local),
            _ => Err(missing()),
        }
    }

    /// The statements that round accumulators into the result.
    fn finish(&mut self, sum: &Sum, extents: &[usize], axis: usize, index: &[Expr]) -> Vec<Stmt> {
        let inner_extents = extents.get(axis + 1..).unwrap_or_default().to_vec();
        let (loops, inner_index) = self.inner_loops(&inner_extents);
        let mut result_index = index.get(..axis).unwrap_or_default().to_vec();
        result_index.extend(inner_index.iter().cloned());
        let result = self.kernel.ty(sum.v);
        let mut value = Scalar::Local(sum.accumulator, row_major(&inner_extents, &inner_index));
        if sum.dtype != result.dtype {
            value = Scalar::Cast {
                from: sum.dtype,
                to: result.dtype,
                value: Box::new(value),
            };
        }
        if let Some(nan) = sum.nan {
            let zero = Scalar::Const(DType::I32, Constant::Int(0));
            let seen = Scalar::Local(nan, 0.into());
            let any = Scalar::Compare(CompareOp::Ne, DType::I32, Box::new([seen, zero]));
            let quiet = Scalar::Const(result.dtype, Constant::Float(f64::NAN));
            value = Scalar::Select(Box::new([any, quiet, value]));
        }
        let set = Stmt::Set {
            local: sum.result,
            offset: row_major(&result.extents, &result_index),
            value,
        };
        nested(loops, vec![set])
    }

    /// Emits a scan or the index of an extreme.
    pub(super) fn collect(&mut self, v: Val) -> Result<()> {
        self.out.push(Stmt::Comment(self.describe(v)));
        let result = self.local_for(v);
        let (operand, axis) = match self.value(v).op {
            Some(Op::ArgReduce(_, a, axis)) => (*a, *axis),
            Some(Op::Scan { value, axis, .. }) => (*value, *axis),
            _ => return Err(Error::unexpected("not a scan")),
        };
        let extents = self.kernel.ty(operand).extents.clone();
        let inner = extents.get(axis + 1..).unwrap_or_default().to_vec();
        if let Some(Op::Scan {
            op: op @ (ReduceOp::Sum | ReduceOp::Prod),
            exclusive,
            reverse,
            ..
        }) = self.value(v).op
            && accumulator_type(*op, self.kernel.ty(v).dtype) == DType::F64
            && inner.iter().all(|e| *e == 1)
        {
            return self.scan_rows(v, operand, result, (*op, *exclusive, *reverse));
        }
        let outer = self.open_extents(extents.clone());
        let level = loops_before(&extents, axis);
        let index = self.frame.index.clone();
        let inner_index: Vec<Expr> = index.get(axis + 1..).unwrap_or_default().to_vec();
        let inner_offset = row_major(&inner, &inner_index);
        let mut before = Vec::new();
        let mut after = Vec::new();
        let effect = match self.value(v).op {
            Some(Op::ArgReduce(op, ..)) => {
                let dtype = self.kernel.ty(operand).dtype;
                let (best, declared) = self.scratch("best", dtype, &inner);
                before.extend(declared);
                before.extend(self.fill(best, inner.clone(), dtype, identity(*op, dtype)));
                let (place, declared) = self.scratch("place", DType::I32, &inner);
                before.extend(declared);
                before.extend(self.fill(place, inner.clone(), DType::I32, Constant::Int(0)));
                let (loops, loop_index) = self.inner_loops(&inner);
                let mut result_index = index.get(..axis).unwrap_or_default().to_vec();
                result_index.extend(loop_index.iter().cloned());
                let ty = self.kernel.ty(v);
                let mut value = Scalar::Local(place, row_major(&inner, &loop_index));
                if ty.dtype != DType::I32 {
                    value = Scalar::Cast {
                        from: DType::I32,
                        to: ty.dtype,
                        value: Box::new(value),
                    };
                }
                let set = Stmt::Set {
                    local: result,
                    offset: row_major(&ty.extents, &result_index),
                    value,
                };
                after = nested(loops, vec![set]);
                Effect::Extreme {
                    op: *op,
                    best,
                    index: place,
                    offset: inner_offset,
                    dtype,
                    position: index.get(axis).cloned().unwrap_or_else(|| 0.into()),
                    value: self.element(operand, &index)?,
                }
            }
            Some(Op::Scan {
                op,
                exclusive,
                reverse,
                ..
            }) => {
                let out_dtype = self.kernel.ty(v).dtype;
                let dtype = accumulator_type(*op, out_dtype);
                let (running, declared) = self.scratch("running", dtype, &inner);
                before.extend(declared);
                before.extend(self.fill(running, inner.clone(), dtype, identity(*op, dtype)));
                let mut position = index.clone();
                if let (true, Some(i), Some(extent)) = (*reverse, position.get_mut(axis), extents.get(axis)) {
                    *i = Expr::from(extent - 1) - i.clone();
                    self.frame.covers = false;
                }
                let value = self.element(operand, &position)?;
                Effect::Scan {
                    op: *op,
                    running,
                    running_offset: inner_offset,
                    dtype,
                    exclusive: *exclusive,
                    out: result,
                    offset: row_major(&extents, &position),
                    out_dtype,
                    value: self.cast(value, dtype),
                }
            }
            _ => return Err(Error::unexpected("not a scan")),
        };
        let innermost = if inner.iter().any(|e| *e != 1) {
            LoopKind::Vector(Vec::new())
        } else {
            LoopKind::Tile
        };
        self.close(outer, vec![effect], |axes, effects| Nest {
            level,
            before,
            after,
            innermost,
            ..Nest::parallel(axes, effects)
        });
        self.set_state(v, State::Stored(result));
        Ok(())
    }

    /// Emits running sums or products along contiguous rows: the elements are written to storage, then combined there.
    fn scan_rows(
        &mut self,
        v: Val,
        operand: Val,
        result: LocalId,
        (op, exclusive, reverse): (ReduceOp, bool, bool),
    ) -> Result<()> {
        let (extents, dtype) = (self.kernel.ty(v).extents.clone(), self.kernel.ty(v).dtype);
        let wide = match dtype {
            DType::F64 => result,
            _ => self.local("running", DType::F64, &extents),
        };
        let outer = self.open_extents(extents.clone());
        let index = self.frame.index.clone();
        let offset = row_major(&extents, &index);
        let value = self.element(operand, &index)?;
        let value = self.cast(value, DType::F64);
        let set = |local, value| Effect::Set {
            local,
            offset: offset.clone(),
            value,
        };
        self.close(outer, vec![set(wide, value)], Nest::parallel);
        let len = extents.iter().rev().find(|e| **e != 1).copied().unwrap_or(1);
        let rows = extents.iter().product::<usize>() / len.max(1);
        let row = self.names.fresh("row");
        self.ranges.insert(row.clone(), (0, rows as i64));
        let scan = Stmt::Scan {
            local: wide,
            offset: Expr::symbol(row.clone()) * Expr::from(len),
            len,
            op,
            exclusive,
            reverse,
        };
        self.out.push(Stmt::For {
            symbol: row,
            lo: 0.into(),
            hi: rows.into(),
            step: 1,
            kind: LoopKind::Tile,
            body: vec![scan],
        });
        if wide != result {
            let outer = self.open_extents(extents.clone());
            let offset = row_major(&extents, &self.frame.index);
            let value = self.nodes.add(DType::F64, NodeKind::Local(wide, offset.clone()));
            let value = self.cast(value, dtype);
            let effect = Effect::Set {
                local: result,
                offset,
                value,
            };
            self.close(outer, vec![effect], Nest::parallel);
        }
        self.set_state(v, State::Stored(result));
        Ok(())
    }

    /// A local that is declared by the returned statement.
    pub(super) fn scratch(&mut self, name: &str, dtype: DType, extents: &[usize]) -> (LocalId, Option<Stmt>) {
        let extents: Vec<usize> = extents.iter().copied().filter(|e| *e != 1).collect();
        let local = self.local(name, dtype, &extents);
        (local, self.out.pop())
    }

    /// Fresh loops over extents, and the index in them.
    fn inner_loops(&mut self, extents: &[usize]) -> (Vec<(Symbol, usize)>, Vec<Expr>) {
        let outer = self.open_extents(extents.to_vec());
        let frame = std::mem::replace(&mut self.frame, outer);
        (frame.axes, frame.index)
    }

    /// The statement of the sketch that computes a value, for a comment.
    pub(super) fn describe(&self, v: Val) -> String {
        let name = |v: Val| match self.kernel.values[v.0 as usize].name.as_str() {
            "" => "…",
            name => name,
        };
        let what = match self.value(v).op {
            Some(Op::Reduce(op, a, axis)) => format!("reduce_{}({}, {axis})", op.name(), name(*a)),
            Some(Op::ArgReduce(op, a, axis)) => format!("arg{}({}, {axis})", op.name(), name(*a)),
            Some(Op::Scan { op, value, axis, .. }) => {
                format!("scan_{}({}, {axis})", op.name(), name(*value))
            }
            Some(Op::Dot { a, b, init, .. }) => match init {
                Some(init) => format!("dot({}, {}, {})", name(*a), name(*b), name(*init)),
                None => format!("dot({}, {})", name(*a), name(*b)),
            },
            _ => "…".to_owned(),
        };
        match name(v) {
            "…" => what,
            name => format!("{name} = {what}"),
        }
    }
}

/// The number of loops over dimensions before `axis`.
fn loops_before(extents: &[usize], axis: usize) -> usize {
    extents
        .get(..axis)
        .unwrap_or_default()
        .iter()
        .filter(|e| **e != 1)
        .count()
}

/// The type that a reduction or scan accumulates in.
fn accumulator_type(op: ReduceOp, dtype: DType) -> DType {
    match op {
        ReduceOp::Sum | ReduceOp::Prod if dtype.is_float() => DType::F64,
        _ => dtype,
    }
}

fn nested(loops: Vec<(Symbol, usize)>, mut body: Vec<Stmt>) -> Vec<Stmt> {
    for (i, (symbol, len)) in loops.into_iter().rev().enumerate() {
        body = vec![Stmt::For {
            symbol,
            lo: 0.into(),
            hi: len.into(),
            step: 1,
            kind: if i == 0 {
                LoopKind::Vector(Vec::new())
            } else {
                LoopKind::Tile
            },
            body,
        }];
    }
    body
}
