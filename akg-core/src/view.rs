//! Borrowed tensors: slices of the caller with extents and strides, for calls that copy nothing.
//!
//! [`TensorView`] and [`TensorViewMut`] know their element type at compile time; [`AnyView`] and [`AnyViewMut`] know it at
//! run time, so that tensors of several types go through one call.

use std::marker::PhantomData;

use half::{bf16, f16};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{Tensor, byte_len};

mod sealed {
    pub trait Sealed {}
}

/// A Rust type whose slices are elements of a tensor.
pub trait Scalar: sealed::Sealed + Copy + Send + Sync + 'static {
    /// The element type that it stands for.
    const DTYPE: DType;
}

macro_rules! scalars {
    ($($ty:ty => $dtype:ident),*) => {$(
        impl sealed::Sealed for $ty {}
        impl Scalar for $ty {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
scalars!(
    bool => Bool, u8 => U8, i8 => I8, i16 => I16, i32 => I32, i64 => I64, f16 => F16, bf16 => BF16, f32 => F32, f64 => F64
);

/// Elements that are only read.
#[derive(Debug, Clone, Copy)]
pub struct TensorView<'a, T> {
    data: &'a [T],
    shape: &'a [usize],
    strides: Option<&'a [isize]>,
}

impl<'a, T: Scalar> TensorView<'a, T> {
    /// Dense elements in row-major order.
    ///
    /// # Errors
    /// If there are not as many elements as `shape` says.
    pub fn new(data: &'a [T], shape: &'a [usize]) -> Result<Self> {
        check_dense(T::DTYPE, data.len(), shape)?;
        Ok(Self {
            data,
            shape,
            strides: None,
        })
    }

    /// Elements at `strides`, in elements, from the first of `data`.
    ///
    /// # Errors
    /// If an element would lie outside of `data`.
    pub fn with_strides(data: &'a [T], shape: &'a [usize], strides: &'a [isize]) -> Result<Self> {
        check_strided(T::DTYPE, data.len(), shape, strides)?;
        Ok(Self {
            data,
            shape,
            strides: Some(strides),
        })
    }
}

/// Elements that are written.
#[derive(Debug)]
pub struct TensorViewMut<'a, T> {
    data: &'a mut [T],
    shape: &'a [usize],
    strides: Option<&'a [isize]>,
}

impl<'a, T: Scalar> TensorViewMut<'a, T> {
    /// Dense elements in row-major order.
    ///
    /// # Errors
    /// If there are not as many elements as `shape` says.
    pub fn new(data: &'a mut [T], shape: &'a [usize]) -> Result<Self> {
        check_dense(T::DTYPE, data.len(), shape)?;
        Ok(Self {
            data,
            shape,
            strides: None,
        })
    }

    /// Elements at `strides`, in elements, from the first of `data`.
    ///
    /// # Errors
    /// If an element would lie outside of `data`.
    pub fn with_strides(data: &'a mut [T], shape: &'a [usize], strides: &'a [isize]) -> Result<Self> {
        check_strided(T::DTYPE, data.len(), shape, strides)?;
        Ok(Self {
            data,
            shape,
            strides: Some(strides),
        })
    }
}

/// Where a tensor's elements are, of whatever type.
#[derive(Debug, Clone, Copy)]
struct Place<'a> {
    dtype: DType,
    address: usize,
    shape: &'a [usize],
    strides: Option<&'a [isize]>,
}

/// A [`TensorView`] of any element type.
#[derive(Debug, Clone, Copy)]
pub struct AnyView<'a> {
    place: Place<'a>,
    pointer: *const u8,
    elements: PhantomData<&'a [u8]>,
}

/// A [`TensorViewMut`] of any element type.
#[derive(Debug)]
pub struct AnyViewMut<'a> {
    place: Place<'a>,
    pointer: *mut u8,
    elements: PhantomData<&'a mut [u8]>,
}

macro_rules! accessors {
    ($view:ident, $pointer:ty) => {
        impl<'a> $view<'a> {
            /// Elements that the caller vouches for.
            ///
            /// # Safety
            /// For `'a`, `pointer` must lead to the elements that `dtype`, `shape` and `strides` (in elements; dense and
            /// row-major if there are none) say, which nobody else may access in a way that contradicts this view.
            pub unsafe fn from_raw(
                dtype: DType,
                pointer: $pointer,
                shape: &'a [usize],
                strides: Option<&'a [isize]>,
            ) -> Self {
                Self {
                    place: Place {
                        dtype,
                        address: pointer as usize,
                        shape,
                        strides,
                    },
                    pointer,
                    elements: PhantomData,
                }
            }

            /// The element type.
            pub fn dtype(&self) -> DType {
                self.place.dtype
            }

            /// The extents, outermost first.
            pub fn shape(&self) -> &'a [usize] {
                self.place.shape
            }

            /// The strides in elements; `None` if the elements are dense and row-major.
            pub fn strides(&self) -> Option<&'a [isize]> {
                self.place.strides
            }

            /// The first element.
            pub fn pointer(&self) -> $pointer {
                self.pointer
            }

            /// Whether the elements are dense and row-major.
            pub fn is_contiguous(&self) -> bool {
                self.place.is_contiguous()
            }

            /// The addresses from the first element in memory to the last.
            pub fn addresses(&self) -> std::ops::Range<usize> {
                self.place.addresses()
            }
        }
    };
}
accessors!(AnyView, *const u8);
accessors!(AnyViewMut, *mut u8);

impl Place<'_> {
    fn is_contiguous(&self) -> bool {
        let Some(strides) = self.strides else {
            return true;
        };
        let mut dense = 1;
        self.shape.contains(&0)
            || self.shape.iter().zip(strides).rev().all(|(extent, stride)| {
                let fits = *extent == 1 || *stride == dense;
                dense *= *extent as isize;
                fits
            })
    }

    fn addresses(&self) -> std::ops::Range<usize> {
        if self.shape.contains(&0) {
            return self.address..self.address;
        }
        let size = self.dtype.size() as isize;
        let ends = match self.strides {
            None => Some((0, self.shape.iter().product::<usize>() as isize - 1)),
            Some(strides) => ends(self.shape, strides),
        };
        let Some((first, last)) = ends else {
            return 0..usize::MAX;
        };
        let at = |element: isize| self.address.wrapping_add_signed(element.wrapping_mul(size));
        at(first)..at(last.wrapping_add(1))
    }
}

impl<'a, T: Scalar> From<TensorView<'a, T>> for AnyView<'a> {
    fn from(view: TensorView<'a, T>) -> Self {
        let pointer = view.data.as_ptr().cast::<u8>();
        Self {
            place: Place {
                dtype: T::DTYPE,
                address: pointer as usize,
                shape: view.shape,
                strides: view.strides,
            },
            pointer,
            elements: PhantomData,
        }
    }
}

impl<'a, T: Scalar> From<TensorViewMut<'a, T>> for AnyViewMut<'a> {
    fn from(view: TensorViewMut<'a, T>) -> Self {
        let pointer = view.data.as_mut_ptr().cast::<u8>();
        Self {
            place: Place {
                dtype: T::DTYPE,
                address: pointer as usize,
                shape: view.shape,
                strides: view.strides,
            },
            pointer,
            elements: PhantomData,
        }
    }
}

impl<'a> From<&'a Tensor> for AnyView<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        let pointer = tensor.bytes().as_ptr();
        Self {
            place: Place {
                dtype: tensor.dtype(),
                address: pointer as usize,
                shape: tensor.shape(),
                strides: None,
            },
            pointer,
            elements: PhantomData,
        }
    }
}

fn check_dense(dtype: DType, have: usize, shape: &[usize]) -> Result<()> {
    let need = byte_len(dtype, shape)? / dtype.size();
    if have == need {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a tensor {dtype}{shape:?} has {need} elements, but the slice has {have}"
    )))
}

/// The strides of dense, row-major elements.
pub(crate) fn dense_strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis].max(1) as isize;
    }
    strides
}

/// The lowest and the highest element of a tensor with elements, counted from the first; `None` beyond all addresses.
fn ends(shape: &[usize], strides: &[isize]) -> Option<(isize, isize)> {
    let mut pairs = shape.iter().zip(strides);
    pairs.try_fold((0, 0), |(low, high): (isize, isize), (extent, stride)| {
        let reach = isize::try_from(extent - 1).ok()?.checked_mul(*stride)?;
        Some((low.checked_add(reach.min(0))?, high.checked_add(reach.max(0))?))
    })
}

fn check_strided(dtype: DType, have: usize, shape: &[usize], strides: &[isize]) -> Result<()> {
    if shape.len() != strides.len() {
        return Err(Error::invalid(format!(
            "{} strides do not go with the extents {shape:?}",
            strides.len()
        )));
    }
    byte_len(dtype, shape)?;
    if shape.contains(&0) {
        return Ok(());
    }
    match ends(shape, strides) {
        Some((0, high)) if usize::try_from(high).is_ok_and(|high| high < have) => Ok(()),
        _ => Err(Error::invalid(format!(
            "the tensor {dtype}{shape:?} with strides {strides:?} reaches beyond its slice of {have} elements"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn slices_must_have_the_elements() {
        let values = [0f32; 6];
        assert!(TensorView::new(&values, &[2, 3]).is_ok());
        assert!(TensorView::new(&values, &[2, 2]).is_err());
        assert!(TensorView::new(&values, &[usize::MAX, 2]).is_err());
        assert!(TensorView::with_strides(&values, &[2, 3], &[3]).is_err());
        assert!(TensorView::with_strides(&values, &[2, 3], &[-3, 1]).is_err());
        assert!(TensorView::with_strides(&values, &[2, 2], &[isize::MAX, 1]).is_err());
        assert!(TensorView::with_strides(&values, &[0, 9], &[100, 100]).is_ok());
        let view: AnyView<'_> = TensorView::new(&[true, false], &[2]).unwrap().into();
        assert_eq!(view.dtype(), DType::Bool);
        assert_eq!(view.addresses().len(), 2);
    }

    proptest! {
        #[test]
        fn strides_are_judged_by_the_addresses_they_reach(
            shape in prop::collection::vec(0usize..4, 0..4),
            strides in prop::collection::vec(-2isize..13, 3),
            length in 0usize..30,
        ) {
            let strides = &strides[..shape.len()];
            let mut offsets = vec![0isize];
            for (extent, stride) in shape.iter().zip(strides) {
                let next = offsets.iter().flat_map(|o| (0..*extent).map(move |i| o + i as isize * stride));
                offsets = next.collect();
            }
            let inside = offsets.iter().all(|o| (0..length as isize).contains(o));
            let values = vec![0i16; length];
            let view = TensorView::with_strides(&values, &shape, strides);
            prop_assert_eq!(view.is_ok(), inside);
            if let Ok(view) = view {
                let dense: Vec<isize> = (0..offsets.len() as isize).collect();
                prop_assert_eq!(AnyView::from(view).is_contiguous(), offsets == dense);
            }
        }
    }
}
