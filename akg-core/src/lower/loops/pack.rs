//! Operands of dots that are parts of tensors, and how they are copied into panels.

use crate::error::{Error, Result};
use crate::expr::{Expr, Symbol};
use crate::sketch::ir::{Axis, Op, Scalar as Constant, Val};

use super::checks::affine;
use super::ir::{Address, Layout, LocalId, LoopKind, Matrix, Pack, Place, Stmt};
use super::mapper::{Mapper, State};
use super::node::Guard;

/// A matrix in a tensor or a box of one, each of whose sides is one or several dimensions of it, the last of them innermost.
#[derive(Debug)]
pub(super) struct Slab {
    place: Place,
    /// The element of row 0 and column 0.
    offset: Expr,
    rows: Vec<Side>,
    columns: Vec<Side>,
    /// What must be inside of the tensor for there to be anything but zeros.
    outer: Vec<Guard>,
}

/// A dimension of a [`Slab`].
#[derive(Debug)]
struct Side {
    extent: usize,
    /// Its index; none for an extent of 1.
    symbol: Option<Symbol>,
    /// The distance of its elements in the tensor.
    stride: Expr,
    /// What must be inside of the tensor for an element not to be zero.
    guard: Option<Guard>,
}

impl Side {
    fn index(&self) -> Expr {
        self.symbol.clone().map_or_else(|| 0.into(), Expr::symbol)
    }

    fn is_adjacent(&self) -> bool {
        self.extent == 1 || self.stride.is(1)
    }

    /// Whether an element of it lies where all of `inner` ends.
    fn holds(&self, inner: &Side) -> bool {
        let is_plain = self.guard.is_none() && inner.guard.is_none();
        is_plain && self.stride == inner.stride.clone() * Expr::from(inner.extent)
    }
}

/// The number of elements of some dimensions.
fn elements(sides: &[Side]) -> usize {
    sides.iter().map(|side| side.extent).product()
}

impl Mapper<'_> {
    /// The part of a tensor that a value is, if it is one with zeros around it.
    pub(super) fn slab(&mut self, v: Val) -> Result<Option<Slab>> {
        let [rows, columns] = self.kernel.ty(v).extents[..] else {
            return Ok(None);
        };
        let mut source = v;
        while let (State::Inline, Some(Op::Reshape(u))) = (self.value(source).state, self.value(source).op) {
            source = *u;
        }
        let (State::Inline, Some(Op::Load { tensor, region, fill })) =
            (self.value(source).state, self.value(source).op)
        else {
            return Ok(None);
        };
        let is_plain = |axis: &Axis| matches!(axis, Axis::Range { .. } | Axis::At(_));
        let is_zero = matches!(fill, None | Some(Constant::Int(0) | Constant::Float(0.0)));
        let extents = self.kernel.ty(source).extents.clone();
        let products = |at: usize| -> usize { extents.iter().take(at).product() };
        let split = (1..=extents.len()).find(|at| products(*at) == rows);
        let Some(split) = split.filter(|_| is_zero && region.iter().all(is_plain)) else {
            return Ok(None);
        };
        debug_assert_eq!(products(extents.len()), rows * columns);
        let outer = self.open_extents(extents);
        let index = self.frame.index.clone();
        let extents = self.frame.extents.clone();
        let placed = self.place(*tensor, region, &index);
        self.frame = outer;
        let (mut offset, mut guards) = placed?;
        let held = self.held.get(&source).cloned();
        if fill.is_none() || held.is_some() {
            guards.clear();
        }
        let place = match &held {
            Some(held) => Place::Local(held.local),
            None => Place::Tensor(*tensor),
        };
        let strides = held.map(|held| {
            offset = held.offset;
            held.strides
        });
        Ok(self.slab_at(
            place,
            offset,
            guards,
            (&index, &extents),
            strides.as_deref(),
            split,
        ))
    }

    /// The elements of a tensor or a box at the offset that follows from these indices, each below its extent, of which the
    /// first `split` are the rows. What must be inside is said of at most one index each. In a box the distances of elements
    /// along the indices are known.
    pub(super) fn slab_at(
        &mut self,
        place: Place,
        mut offset: Expr,
        guards: Vec<Guard>,
        (index, extents): (&[Expr], &[usize]),
        strides: Option<&[i64]>,
        split: usize,
    ) -> Option<Slab> {
        let mut sides = Vec::new();
        for (d, (i, extent)) in index.iter().zip(extents).enumerate() {
            let symbol = i.as_symbol().cloned();
            let mut stride = Expr::constant(1);
            if let Some(strides) = strides {
                stride = strides.get(d).copied().unwrap_or(1).into();
            } else if let Some(symbol) = &symbol {
                let first = offset.substitute(&|s| (s == &**symbol).then(|| 0.into()));
                let distance = (&offset - &first).exact_div(i)?;
                (offset, stride) = (first, distance);
            }
            sides.push(Side {
                extent: *extent,
                symbol,
                stride,
                guard: None,
            });
        }
        let mut outer = Vec::new();
        for guard in guards {
            let symbols = guard.coordinate.symbols();
            if symbols.iter().any(|s| self.dynamic.contains_key(s)) {
                return None;
            }
            let is_along = |side: &&mut Side| side.symbol.as_ref().is_some_and(|s| symbols.contains(s));
            let mut along = sides.iter_mut().filter(is_along);
            match (along.next(), along.next()) {
                (None, _) => outer.push(guard),
                (Some(side), None) => side.guard = Some(guard),
                (Some(_), Some(_)) => return None,
            }
        }
        let columns = sides.split_off(split);
        Some(Slab {
            place,
            offset,
            rows: self.merged(sides),
            columns: self.merged(columns),
            outer,
        })
    }

    /// The same dimensions, of which those are one whose elements lie as far apart as if they were.
    fn merged(&mut self, sides: Vec<Side>) -> Vec<Side> {
        let mut merged: Vec<Side> = Vec::new();
        for side in sides.into_iter().filter(|side| side.extent > 1) {
            match merged.last_mut() {
                Some(outer) if outer.holds(&side) => {
                    outer.extent *= side.extent;
                    outer.stride = side.stride;
                    outer.symbol = Some(self.counter("i", outer.extent as i64 - 1));
                }
                _ => merged.push(side),
            }
        }
        if merged.is_empty() {
            merged.push(Side {
                extent: 1,
                symbol: None,
                stride: 0.into(),
                guard: None,
            });
        }
        merged
    }

    /// The same as one matrix with adjacent columns that begins inside of the tensor.
    pub(super) fn whole(&mut self, slab: &Slab) -> Option<Matrix> {
        let ([row], [column]) = (&slab.rows[..], &slab.columns[..]) else {
            return None;
        };
        let begins_inside = |side: &Side| match side.affine() {
            Some((start, step)) => step > 0 && self.bounds(&start).is_some_and(|b| b.0 >= 0),
            None => side.guard.is_none(),
        };
        let is_one = column.is_adjacent() && begins_inside(row) && begins_inside(column);
        if !is_one || !slab.outer.is_empty() {
            return None;
        }
        Some(Matrix {
            place: slab.place,
            offset: slab.offset.clone(),
            extents: [row.extent, column.extent],
            strides: [row.stride.clone(), 1.into()],
            valid: [self.valid(row), self.valid(column)],
        })
    }

    /// The first index along a dimension that is inside of the tensor, and the end of these.
    fn valid(&mut self, side: &Side) -> [Expr; 2] {
        let guard = side.guard.as_ref().zip(side.symbol.as_ref());
        let [first, end] = guard
            .and_then(|(guard, symbol)| self.clip(guard, symbol, side.extent))
            .unwrap_or_default();
        [first.unwrap_or(0.into()), end.unwrap_or(side.extent.into())]
    }

    /// 1 if the coordinate is inside of the tensor, and 0 or less if not.
    fn is_inside(&mut self, guard: &Guard) -> Expr {
        let [lo, hi] = ["first", "end"].map(|name| {
            let symbol = self.names.fresh(name);
            self.ranges.insert(symbol.clone(), (0, 1));
            symbol
        });
        self.out.push(Stmt::Clip {
            lo: Some(lo.clone()),
            hi: Some(hi.clone()),
            start: guard.coordinate.clone(),
            step: 1,
            extent: guard.extent.clone(),
            len: 1,
        });
        Expr::symbol(hi) - Expr::symbol(lo)
    }

    /// Copies a slab into panels of `width` columns.
    pub(super) fn pack(&mut self, slab: &Slab, to: LocalId, width: usize) -> Result<()> {
        let unexpected = || Error::unexpected("an operand of a dot has no sides");
        let (row, outer_rows) = slab.rows.split_last().ok_or_else(unexpected)?;
        let (column, outer_columns) = slab.columns.split_last().ok_or_else(unexpected)?;
        let valid = [self.valid(row), self.valid(column)];
        let mut exists = Expr::constant(1);
        for guard in &slab.outer {
            exists = exists * self.is_inside(guard);
        }
        let before = std::mem::take(&mut self.out);
        let mut offset = slab.offset.clone();
        let mut at = [Expr::constant(0), Expr::constant(0)];
        let mut inner = [row.extent, column.extent];
        let sides = [outer_rows, outer_columns];
        for ((sides, at), inner) in sides.into_iter().zip(&mut at).zip(&mut inner) {
            for side in sides.iter().rev() {
                offset = offset + side.index() * side.stride.clone();
                *at = &*at + &(side.index() * Expr::from(*inner));
                *inner *= side.extent;
                if let Some(guard) = &side.guard {
                    exists = exists * self.is_inside(guard);
                }
            }
        }
        let [[first, end], columns] = valid;
        self.out.push(Stmt::Pack(Pack {
            from: Matrix {
                place: slab.place,
                offset,
                extents: [row.extent, column.extent],
                strides: [row.stride.clone(), column.stride.clone()],
                valid: [[first, end * exists], columns],
            },
            to,
            rows: elements(&slab.rows),
            width,
            at,
        }));
        let mut body = std::mem::replace(&mut self.out, before);
        for side in outer_rows.iter().chain(outer_columns).rev() {
            let Some(symbol) = side.symbol.clone() else {
                continue;
            };
            body = vec![Stmt::For {
                symbol,
                lo: 0.into(),
                hi: side.extent.into(),
                step: 1,
                kind: LoopKind::Tile,
                body,
            }];
        }
        self.out.extend(body);
        Ok(())
    }
}

impl Side {
    /// Where the coordinate starts that must be inside, and its step.
    fn affine(&self) -> Option<(Expr, i64)> {
        affine(&self.guard.as_ref()?.coordinate, self.symbol.as_ref()?)
    }
}

impl Slab {
    /// Where it begins and the distance of its rows, if columns are adjacent and nothing is outside of the tensor.
    pub(super) fn in_place(&self) -> Option<(Address, usize)> {
        let ([row], [column]) = (&self.rows[..], &self.columns[..]) else {
            return None;
        };
        let width = usize::try_from(row.stride.as_const()?).ok()?;
        let is_inside = row.guard.is_none() && column.guard.is_none() && self.outer.is_empty();
        let is_panel = column.is_adjacent() && width >= column.extent && row.extent > 1;
        let address = Address {
            place: self.place,
            offset: self.offset.clone(),
        };
        (is_inside && is_panel).then_some((address, width))
    }

    /// Where it begins and lies if its columns are the rows of a dot: in lines, of which elements are a known distance apart.
    pub(super) fn lines(&self) -> Option<(Address, Layout)> {
        let mut sides = self.rows.iter().chain(&self.columns);
        let is_inside = sides.all(|side| side.guard.is_none()) && self.outer.is_empty();
        let distance = |side: &Side| usize::try_from(side.stride.as_const()?).ok();
        let layout = match (&self.rows[..], &self.columns[..]) {
            ([k], [row]) => Layout::Strided([distance(row)?, distance(k)?]),
            ([k], [line, row]) => Layout::Lines(row.extent, [distance(line)?, distance(row)?, distance(k)?]),
            _ => return None,
        };
        let address = Address {
            place: self.place,
            offset: self.offset.clone(),
        };
        is_inside.then_some((address, layout))
    }

    /// Whether it is in a box.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.place, Place::Local(_))
    }

    /// Whether columns are elements a known distance apart, and what must be inside of the tensor is so step by step.
    pub(super) fn is_regular(&self) -> bool {
        let mut sides = self.rows.iter().chain(&self.columns);
        let is_apart = self
            .columns
            .last()
            .is_some_and(|side| side.stride.as_const().is_some());
        is_apart && !self.rows.is_empty() && sides.all(|side| side.guard.is_none() || side.affine().is_some())
    }
}
