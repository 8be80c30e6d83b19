//! Values of the interpreter: elements of one of three carriers, tagged with their logical element type.

use super::memory::zeros;
use super::parallel::blocks;
use super::real::Real;
use super::run::Stretch;
use super::shift::Shift;
use super::strided::{Item, Reader, Strided};
use crate::dtype::{DType, DTypeClass};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// A tensor under evaluation.
#[derive(Debug, Clone)]
pub(super) struct Array<T> {
    pub(super) dtype: DType,
    pub(super) data: Data<T>,
}

/// Elements: floating types in the precision of the evaluation, integers as `i64`, booleans as themselves.
#[derive(Debug, Clone)]
pub(super) enum Data<T> {
    Float(Strided<T>),
    Int(Strided<i64>),
    Bool(Strided<bool>),
}

/// Applies the same view operation to whichever carrier an array has.
macro_rules! each {
    ($array:expr, $x:ident => $view:expr) => {{
        let array = $array;
        let data = match array.data {
            $crate::reference::array::Data::Float($x) => $crate::reference::array::Data::Float($view),
            $crate::reference::array::Data::Int($x) => $crate::reference::array::Data::Int($view),
            $crate::reference::array::Data::Bool($x) => $crate::reference::array::Data::Bool($view),
        };
        $crate::reference::array::Array {
            dtype: array.dtype,
            data,
        }
    }};
}
pub(super) use each;

impl<T: Real> Array<T> {
    pub(super) fn float(dtype: DType, x: Strided<T>) -> Self {
        Self {
            dtype,
            data: Data::Float(x),
        }
    }

    pub(super) fn int(dtype: DType, x: Strided<i64>) -> Self {
        Self {
            dtype,
            data: Data::Int(x),
        }
    }

    pub(super) fn bool(x: Strided<bool>) -> Self {
        Self {
            dtype: DType::Bool,
            data: Data::Bool(x),
        }
    }

    /// One number everywhere, converted to `dtype`.
    pub(super) fn full(dtype: DType, shape: &[usize], value: f64) -> Self {
        let data = match dtype.class() {
            DTypeClass::Float => Data::Float(Strided::full(shape, T::of(value).round_to(dtype))),
            DTypeClass::Int => Data::Int(Strided::full(shape, dtype.truncate(value))),
            DTypeClass::Bool => Data::Bool(Strided::full(shape, value != 0.0)),
        };
        Self { dtype, data }
    }

    /// The elements of a tensor of `f32`, moved by `shift` and not read yet; `None` where that takes another precision.
    pub(super) fn stored(tensor: &Tensor, shift: Option<Shift>) -> Option<Self> {
        let stored = T::stored(tensor.clone(), shift)?;
        Some(Self::float(
            tensor.dtype(),
            Strided::stored(tensor.shape(), stored),
        ))
    }

    /// The elements of a tensor of any type or of a stretch of it, after `round` if they are floating.
    pub(super) fn from_tensor(
        tensor: &Tensor,
        stretch: Option<Stretch>,
        round: impl Fn(f64) -> f64 + Sync,
    ) -> Result<Self> {
        let mut shape = tensor.shape().to_vec();
        if let Some(part) = stretch {
            shape[part.axis] = part.end - part.start;
        }
        macro_rules! load {
            ($ty:ty, $carrier:ident, $f:expr) => {{
                let reader = Reader::over(tensor.as_slice::<$ty>()?, tensor.shape(), stretch);
                Data::$carrier(convert(&shape, &reader, $f))
            }};
        }
        let data = match tensor.dtype() {
            DType::Bool => {
                let reader = Reader::over(tensor.bytes(), tensor.shape(), stretch);
                Data::Bool(convert(&shape, &reader, |v| v != 0))
            }
            DType::U8 => load!(u8, Int, i64::from),
            DType::I8 => load!(i8, Int, i64::from),
            DType::I16 => load!(i16, Int, i64::from),
            DType::I32 => load!(i32, Int, i64::from),
            DType::I64 => load!(i64, Int, |v| v),
            DType::F16 => load!(half::f16, Float, |v: half::f16| T::of(round(v.to_f64()))),
            DType::BF16 => load!(half::bf16, Float, |v: half::bf16| T::of(round(v.to_f64()))),
            DType::F32 => load!(f32, Float, |v: f32| T::of(round(f64::from(v)))),
            DType::F64 => load!(f64, Float, |v: f64| T::of(round(v))),
        };
        Ok(Self {
            dtype: tensor.dtype(),
            data,
        })
    }

    pub(super) fn shape(&self) -> &[usize] {
        match &self.data {
            Data::Float(x) => x.shape(),
            Data::Int(x) => x.shape(),
            Data::Bool(x) => x.shape(),
        }
    }

    pub(super) fn rank(&self) -> usize {
        self.shape().len()
    }

    pub(super) fn len(&self) -> usize {
        self.shape().iter().product()
    }

    pub(super) fn expand(self, shape: &[usize]) -> Result<Self> {
        Ok(each!(self, x => x.expand(shape)?))
    }

    pub(super) fn reshape(self, shape: &[usize]) -> Result<Self> {
        Ok(each!(self, x => x.reshape(shape)?))
    }

    /// The elements as numbers of the evaluation's precision, unrounded.
    pub(super) fn into_float(self) -> Strided<T> {
        match self.data {
            Data::Float(x) => x,
            Data::Int(x) => map(&x, T::of_int),
            Data::Bool(x) => map(&x, |b| T::of_int(i64::from(b))),
        }
    }

    /// The elements as integers; floating ones truncate.
    pub(super) fn into_int(self) -> Strided<i64> {
        match self.data {
            Data::Float(x) => map(&x, |v| DType::I64.truncate(v.widen())),
            Data::Int(x) => x,
            Data::Bool(x) => map(&x, i64::from),
        }
    }

    /// The elements as truth values: whether they differ from zero.
    pub(super) fn into_bool(self) -> Strided<bool> {
        match self.data {
            Data::Float(x) => map(&x, |v| v != T::zero()),
            Data::Int(x) => map(&x, |v| v != 0),
            Data::Bool(x) => x,
        }
    }

    /// An explicit conversion: rounds to a narrower floating type, truncates and wraps to an integer type.
    pub(super) fn cast(self, dtype: DType) -> Self {
        if self.dtype == dtype {
            return self;
        }
        let from = self.dtype;
        match dtype.class() {
            DTypeClass::Bool => Self::bool(self.into_bool()),
            DTypeClass::Float => {
                let x = self.into_float();
                let exact = from.is_float() && from.promote(dtype) == dtype;
                Self::float(
                    dtype,
                    if exact {
                        x
                    } else {
                        map_in_place(x, |v| v.round_to(dtype))
                    },
                )
            }
            DTypeClass::Int => {
                let x = match self.data {
                    Data::Float(x) => map(&x, |v| dtype.truncate(v.widen())),
                    _ => map_in_place(self.into_int(), |v| wrap(dtype, v)),
                };
                Self::int(dtype, x)
            }
        }
    }

    /// Gives the elements the carrier of `dtype` without rounding floating values: how ATen's operators promote.
    pub(super) fn promote(self, dtype: DType) -> Self {
        match dtype.class() {
            DTypeClass::Float => Self::float(dtype, self.into_float()),
            _ => self.cast(dtype),
        }
    }

    /// The floating elements; an error for other types, which ATen's floating operators refuse.
    pub(super) fn expect_float(self) -> Result<Strided<T>> {
        match self.data {
            Data::Float(x) => Ok(x),
            _ => Err(Error::unsupported(format!(
                "a {} tensor, where only floating types are defined",
                self.dtype
            ))),
        }
    }
}

/// Two's complement reduction of `value` to an integer type.
pub(super) fn wrap(dtype: DType, value: i64) -> i64 {
    dtype.wrap(value)
}

/// `f` of every element, as new elements.
pub(super) fn map<A: Item, B: Item>(x: &Strided<A>, f: impl Fn(A) -> B + Sync) -> Strided<B> {
    convert(x.shape(), &x.reader(), f)
}

fn convert<A: Item, B: Item>(
    shape: &[usize],
    reader: &Reader<'_, A>,
    f: impl Fn(A) -> B + Sync,
) -> Strided<B> {
    let mut out = zeros(shape.iter().product());
    blocks(&mut out, &|start, out| {
        let values = reader.block(start, out.len());
        for (slot, value) in out.iter_mut().zip(values) {
            *slot = f(value);
        }
    });
    Strided::new(shape, out)
}

/// `f` of every element, in the memory of `x` when nobody else holds it.
pub(super) fn map_in_place<A: Item>(x: Strided<A>, f: impl Fn(A) -> A + Sync) -> Strided<A> {
    map_in_place_at(x, |_, v| f(v))
}

/// `f` of the number of each element in row-major order, and of the element.
pub(super) fn map_in_place_at<A: Item>(x: Strided<A>, f: impl Fn(usize, A) -> A + Sync) -> Strided<A> {
    let shape = x.shape().to_vec();
    let mut values = x.into_vec();
    blocks(&mut values, &|start, block| {
        let places = start..;
        places.zip(block).for_each(|(i, v)| *v = f(i, *v));
    });
    Strided::new(shape, values)
}

/// `f` of the pairs of two tensors of one shape, as new elements.
pub(super) fn zip<A: Item, B: Item, C: Item>(
    x: &Strided<A>,
    y: &Strided<B>,
    f: impl Fn(A, B) -> C + Sync,
) -> Strided<C> {
    debug_assert_eq!(x.shape(), y.shape());
    let mut out = zeros(x.len());
    let (xs, ys) = (x.reader(), y.reader());
    blocks(&mut out, &|start, out| {
        let (xs, ys) = (xs.block(start, out.len()), ys.block(start, out.len()));
        for (slot, (x, y)) in out.iter_mut().zip(xs.into_iter().zip(ys)) {
            *slot = f(x, y);
        }
    });
    Strided::new(x.shape(), out)
}

/// `f` of the pairs of two tensors of one shape, in the memory of `x` when nobody else holds it.
pub(super) fn zip_in_place<A: Item, B: Item>(
    x: Strided<A>,
    y: &Strided<B>,
    f: impl Fn(A, B) -> A + Sync,
) -> Strided<A> {
    debug_assert_eq!(x.shape(), y.shape());
    let shape = x.shape().to_vec();
    let mut values = x.into_vec();
    let ys = y.reader();
    blocks(&mut values, &|start, out| {
        let ys = ys.block(start, out.len());
        for (x, y) in out.iter_mut().zip(ys) {
            *x = f(*x, y);
        }
    });
    Strided::new(shape, values)
}

/// `f` of the triples of three tensors of one shape, in the memory of `x` when nobody else holds it.
pub(super) fn zip3<A: Item, B: Item, C: Item>(
    x: Strided<A>,
    y: &Strided<B>,
    z: &Strided<C>,
    f: impl Fn(A, B, C) -> A + Sync,
) -> Strided<A> {
    debug_assert!(x.shape() == y.shape() && x.shape() == z.shape());
    let shape = x.shape().to_vec();
    let mut values = x.into_vec();
    let (ys, zs) = (y.reader(), z.reader());
    blocks(&mut values, &|start, out| {
        let (ys, zs) = (ys.block(start, out.len()), zs.block(start, out.len()));
        for (x, (y, z)) in out.iter_mut().zip(ys.into_iter().zip(zs)) {
            *x = f(*x, y, z);
        }
    });
    Strided::new(shape, values)
}

/// The shape that `shapes` broadcast to.
pub(super) fn broadcast<'a>(shapes: impl IntoIterator<Item = &'a [usize]>) -> Result<Vec<usize>> {
    let mut out: Vec<usize> = Vec::new();
    for shape in shapes {
        if shape.len() > out.len() {
            out.splice(0..0, std::iter::repeat_n(1, shape.len() - out.len()));
        }
        let lead = out.len() - shape.len();
        for (slot, &extent) in out.iter_mut().skip(lead).zip(shape) {
            if *slot == 1 {
                *slot = extent;
            } else if extent != 1 && extent != *slot {
                return Err(Error::invalid(format!(
                    "{shape:?} does not broadcast with {extent} in {slot}"
                )));
            }
        }
    }
    Ok(out)
}
