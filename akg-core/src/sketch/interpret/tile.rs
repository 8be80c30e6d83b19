//! Tiles and the operators on them.

use std::borrow::Cow;

use super::element;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::sketch::ir::{BinaryOp, CompareOp, ReduceOp, Scalar, TileType, UnaryOp};

/// Elements in row-major order.
#[derive(Debug, Clone)]
pub(super) enum Data {
    /// Of a floating type.
    Float(Vec<f64>),
    /// Of an integer type or booleans.
    Int(Vec<i64>),
}

/// A tile value.
#[derive(Debug, Clone)]
pub(super) struct Tile {
    pub(super) ty: TileType,
    pub(super) data: Data,
}

/// The extents of an operand around one axis.
struct Strips {
    outer: usize,
    len: usize,
    inner: usize,
}

impl Strips {
    fn of(tile: &Tile, axis: usize) -> Result<Self> {
        let extents = &tile.ty.extents;
        match (extents.get(..axis), extents.get(axis), extents.get(axis + 1..)) {
            (Some(outer), Some(len), Some(inner)) => Ok(Self {
                outer: outer.iter().product(),
                len: *len,
                inner: inner.iter().product(),
            }),
            _ => Err(Error::invalid(format!(
                "axis {axis} of a tile of rank {}",
                extents.len()
            ))),
        }
    }

    /// The positions along the axis, once for each strip in row-major order.
    fn iter(&self) -> impl Iterator<Item = impl DoubleEndedIterator<Item = usize> + Clone> {
        let (len, inner) = (self.len, self.inner);
        (0..self.outer * inner).map(move |strip| {
            let first = strip / inner * len * inner + strip % inner;
            (0..len).map(move |i| first + i * inner)
        })
    }
}

fn wrong_class(what: &str, ty: &TileType) -> Error {
    Error::invalid(format!("{what} does not apply to {} tiles", ty.dtype))
}

/// The elements of a tile repeated along axes of extent 1 (or of a rank-0 tile) to fill `to`.
fn spread<'a, T: Copy>(values: &'a [T], from: &[usize], to: &[usize]) -> Result<Cow<'a, [T]>> {
    if from == to {
        return Ok(Cow::Borrowed(values));
    }
    if let ([], [one]) = (from, values) {
        return Ok(Cow::Owned(vec![*one; to.iter().product()]));
    }
    if from.len() != to.len() || from.iter().zip(to).any(|(f, t)| f != t && *f != 1) {
        return Err(Error::invalid(format!("a tile {from:?} cannot stand for {to:?}")));
    }
    if to.contains(&0) {
        return Ok(Cow::Owned(Vec::new()));
    }
    let mut out = values.to_vec();
    let mut inner = 1;
    for (f, t) in from.iter().zip(to).rev() {
        if f != t {
            out = out.chunks(inner).flat_map(|c| c.repeat(*t)).collect();
        }
        inner *= t;
    }
    Ok(Cow::Owned(out))
}

impl Tile {
    pub(super) fn float(ty: &TileType, values: impl Iterator<Item = f64>) -> Self {
        let dtype = ty.dtype;
        Self {
            ty: ty.clone(),
            data: Data::Float(values.map(|v| element::round(dtype, v)).collect()),
        }
    }

    pub(super) fn int(ty: &TileType, values: impl Iterator<Item = i64>) -> Self {
        let dtype = ty.dtype;
        Self {
            ty: ty.clone(),
            data: Data::Int(values.map(|v| element::wrap(dtype, v)).collect()),
        }
    }

    pub(super) fn full(ty: &TileType, value: Scalar) -> Self {
        let n = ty.extents.iter().product();
        match (ty.dtype.is_float(), value) {
            (true, Scalar::Float(v)) => Self::float(ty, std::iter::repeat_n(v, n)),
            (true, Scalar::Int(v)) => Self::float(ty, std::iter::repeat_n(element::from_int(ty.dtype, v), n)),
            (false, Scalar::Int(v)) => Self::int(ty, std::iter::repeat_n(v, n)),
            (false, Scalar::Float(v)) => Self::int(ty, std::iter::repeat_n(element::to_int(ty.dtype, v), n)),
        }
    }

    pub(super) fn floats(&self) -> Result<&[f64]> {
        match &self.data {
            Data::Float(values) => Ok(values),
            Data::Int(_) => Err(wrong_class("a floating operator", &self.ty)),
        }
    }

    pub(super) fn ints(&self) -> Result<&[i64]> {
        match &self.data {
            Data::Int(values) => Ok(values),
            Data::Float(_) => Err(wrong_class("an integer operator", &self.ty)),
        }
    }

    fn floats_as(&self, ty: &TileType) -> Result<Cow<'_, [f64]>> {
        spread(self.floats()?, &self.ty.extents, &ty.extents)
    }

    fn ints_as(&self, ty: &TileType) -> Result<Cow<'_, [i64]>> {
        spread(self.ints()?, &self.ty.extents, &ty.extents)
    }

    pub(super) fn unary(ty: &TileType, op: UnaryOp, a: &Tile) -> Result<Tile> {
        match &a.data {
            Data::Float(values) if op == UnaryOp::IsNan => {
                Ok(Tile::int(ty, values.iter().map(|v| i64::from(v.is_nan()))))
            }
            Data::Float(values) => {
                let f = element::unary_float(op).ok_or_else(|| wrong_class(&format!("{op:?}"), &a.ty))?;
                Ok(Tile::float(ty, values.iter().map(|v| f(*v))))
            }
            Data::Int(values) => {
                let f = element::unary_int(op, a.ty.dtype)
                    .ok_or_else(|| wrong_class(&format!("{op:?}"), &a.ty))?;
                Ok(Tile::int(ty, values.iter().map(|v| f(*v))))
            }
        }
    }

    pub(super) fn binary(ty: &TileType, op: BinaryOp, a: &Tile, b: &Tile) -> Result<Tile> {
        if op == BinaryOp::Ldexp {
            let (a, b) = (a.floats_as(ty)?, b.ints_as(ty)?);
            return Ok(Tile::float(
                ty,
                a.iter().zip(b.iter()).map(|(a, b)| element::ldexp(*a, *b)),
            ));
        }
        if ty.dtype.is_float() {
            let f = element::binary_float(op).ok_or_else(|| wrong_class(&format!("{op:?}"), ty))?;
            let (a, b) = (a.floats_as(ty)?, b.floats_as(ty)?);
            return Ok(Tile::float(ty, a.iter().zip(b.iter()).map(|(a, b)| f(*a, *b))));
        }
        let (a, b) = (a.ints_as(ty)?, b.ints_as(ty)?);
        let values: Vec<i64> = a
            .iter()
            .zip(b.iter())
            .map(|(a, b)| element::binary_int(op, ty.dtype, *a, *b))
            .collect::<Result<_, _>>()
            .map_err(|what| Error::invalid(format!("an element {what}")))?;
        Ok(Tile::int(ty, values.into_iter()))
    }

    pub(super) fn compare(ty: &TileType, op: CompareOp, a: &Tile, b: &Tile) -> Result<Tile> {
        fn all<T: PartialOrd>(op: CompareOp, a: &[T], b: &[T]) -> Vec<i64> {
            a.iter().zip(b).map(|(a, b)| i64::from(op.holds(a, b))).collect()
        }
        let values = match &a.data {
            Data::Float(_) => all(op, &a.floats_as(ty)?, &b.floats_as(ty)?),
            Data::Int(_) => all(op, &a.ints_as(ty)?, &b.ints_as(ty)?),
        };
        Ok(Tile::int(ty, values.into_iter()))
    }

    pub(super) fn select(ty: &TileType, condition: &Tile, a: &Tile, b: &Tile) -> Result<Tile> {
        fn pick<'a, T: Copy>(c: &'a [i64], a: &'a [T], b: &'a [T]) -> impl Iterator<Item = T> + 'a {
            let pairs = a.iter().zip(b);
            c.iter()
                .zip(pairs)
                .map(|(c, (a, b))| if *c != 0 { *a } else { *b })
        }
        let c = condition.ints_as(ty)?;
        if ty.dtype.is_float() {
            let (a, b) = (a.floats_as(ty)?, b.floats_as(ty)?);
            Ok(Tile::float(ty, pick(&c, &a, &b)))
        } else {
            let (a, b) = (a.ints_as(ty)?, b.ints_as(ty)?);
            Ok(Tile::int(ty, pick(&c, &a, &b)))
        }
    }

    pub(super) fn cast(ty: &TileType, a: &Tile) -> Tile {
        let to = ty.dtype;
        match (&a.data, to.is_float()) {
            (Data::Float(v), true) => Tile::float(ty, v.iter().copied()),
            (Data::Float(v), false) => Tile::int(ty, v.iter().map(|v| element::to_int(to, *v))),
            (Data::Int(v), true) => Tile::float(ty, v.iter().map(|v| element::from_int(to, *v))),
            (Data::Int(v), false) => Tile::int(ty, v.iter().copied()),
        }
    }

    pub(super) fn bits(ty: &TileType, a: &Tile) -> Result<Tile> {
        let (from, to) = (a.ty.dtype, ty.dtype);
        if from.size() != to.size() {
            return Err(Error::invalid(format!("the bits of {from} do not make {to}")));
        }
        Ok(match (&a.data, to.is_float()) {
            (Data::Float(v), true) => Tile::float(
                ty,
                v.iter()
                    .map(|v| element::from_bits(to, element::to_bits(from, *v))),
            ),
            (Data::Float(v), false) => Tile::int(ty, v.iter().map(|v| element::to_bits(from, *v))),
            (Data::Int(v), true) => Tile::float(ty, v.iter().map(|v| element::from_bits(to, *v))),
            (Data::Int(v), false) => Tile::int(ty, v.iter().copied()),
        })
    }

    /// Sums and products of floats are formed in f64 and rounded once, so that they stand for any order.
    pub(super) fn reduce(ty: &TileType, op: ReduceOp, a: &Tile, axis: usize) -> Result<Tile> {
        let strips = Strips::of(a, axis)?;
        Ok(match &a.data {
            Data::Float(v) => {
                let (identity, f) = element::fold_float(op);
                Tile::float(ty, strips.iter().map(|s| s.map(|i| v[i]).fold(identity, f)))
            }
            Data::Int(v) => {
                let (identity, f) = element::fold_int(op, ty.dtype);
                Tile::int(ty, strips.iter().map(|s| s.map(|i| v[i]).fold(identity, f)))
            }
        })
    }

    pub(super) fn arg_reduce(ty: &TileType, op: ReduceOp, a: &Tile, axis: usize) -> Result<Tile> {
        fn extreme<T: Copy>(values: impl Iterator<Item = T>, beats: impl Fn(T, T) -> bool) -> i64 {
            let mut best: Option<(usize, T)> = None;
            for (i, v) in values.enumerate() {
                if best.is_none_or(|(_, b)| beats(v, b)) {
                    best = Some((i, v));
                }
            }
            best.map_or(0, |(i, _)| i as i64)
        }
        let larger = match op {
            ReduceOp::Max => true,
            ReduceOp::Min => false,
            ReduceOp::Sum | ReduceOp::Prod => {
                return Err(Error::invalid("only min and max have an extreme element"));
            }
        };
        let strips = Strips::of(a, axis)?;
        if strips.len == 0 {
            return Err(Error::invalid("no element is extreme in an empty axis"));
        }
        Ok(match &a.data {
            Data::Float(v) => {
                let beats =
                    |a: f64, b: f64| !b.is_nan() && (a.is_nan() || if larger { a > b } else { a < b });
                Tile::int(ty, strips.iter().map(|s| extreme(s.map(|i| v[i]), beats)))
            }
            Data::Int(v) => {
                let beats = |a: i64, b: i64| if larger { a > b } else { a < b };
                Tile::int(ty, strips.iter().map(|s| extreme(s.map(|i| v[i]), beats)))
            }
        })
    }

    /// Running sums of floats are kept in f64; each prefix is rounded.
    pub(super) fn scan(
        ty: &TileType,
        op: ReduceOp,
        a: &Tile,
        axis: usize,
        exclusive: bool,
        reverse: bool,
    ) -> Result<Tile> {
        fn run<T: Copy>(
            (strips, exclusive, reverse): (&Strips, bool, bool),
            v: &[T],
            (identity, f): (T, impl Fn(T, T) -> T),
        ) -> Vec<T> {
            let mut out = v.to_vec();
            for strip in strips.iter() {
                let mut sum = identity;
                let mut step = |i: usize| {
                    let next = f(sum, v[i]);
                    out[i] = if exclusive { sum } else { next };
                    sum = next;
                };
                if reverse {
                    strip.rev().for_each(&mut step);
                } else {
                    strip.for_each(&mut step);
                }
            }
            out
        }
        let strips = Strips::of(a, axis)?;
        let shape = (&strips, exclusive, reverse);
        Ok(match &a.data {
            Data::Float(v) => Tile::float(ty, run(shape, v, element::fold_float(op)).into_iter()),
            Data::Int(v) => Tile::int(ty, run(shape, v, element::fold_int(op, ty.dtype)).into_iter()),
        })
    }

    pub(super) fn transpose(ty: &TileType, a: &Tile, perm: &[usize]) -> Result<Tile> {
        let mut strides = vec![1; a.ty.extents.len()];
        for i in (1..strides.len()).rev() {
            strides[i - 1] = strides[i] * a.ty.extents[i];
        }
        let mut sorted = perm.to_vec();
        sorted.sort_unstable();
        let shape: Vec<usize> = perm
            .iter()
            .filter_map(|p| a.ty.extents.get(*p).copied())
            .collect();
        if !sorted.into_iter().eq(0..strides.len()) || shape != ty.extents {
            return Err(Error::invalid(format!(
                "a tile {:?} transposed by {perm:?} is not {:?}",
                a.ty.extents, ty.extents
            )));
        }
        let mut sources = vec![0];
        for p in perm {
            let (extent, stride) = (a.ty.extents[*p], strides[*p]);
            sources = sources
                .into_iter()
                .flat_map(|base| (0..extent).map(move |i| base + i * stride))
                .collect();
        }
        Ok(Tile {
            ty: ty.clone(),
            data: match &a.data {
                Data::Float(v) => Data::Float(sources.into_iter().map(|i| v[i]).collect()),
                Data::Int(v) => Data::Int(sources.into_iter().map(|i| v[i]).collect()),
            },
        })
    }

    pub(super) fn reshape(ty: &TileType, a: &Tile) -> Result<Tile> {
        let count = |ty: &TileType| ty.extents.iter().product::<usize>();
        if count(ty) != count(&a.ty) || ty.dtype != a.ty.dtype {
            return Err(Error::invalid(format!(
                "a tile {:?} cannot be reshaped to {:?}",
                a.ty.extents, ty.extents
            )));
        }
        Ok(Tile {
            ty: ty.clone(),
            data: a.data.clone(),
        })
    }
}

/// Rank-0 type of an element.
pub(super) fn scalar_type(dtype: DType) -> TileType {
    TileType {
        dtype,
        extents: Vec::new(),
    }
}
