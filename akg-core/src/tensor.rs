//! Typed tensors in host memory.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Weak};

use half::{bf16, f16};

use crate::dtype::DType;
use crate::error::{Error, Result};

/// A Rust type that is stored as a tensor element.
pub trait Element: bytemuck::Pod + Send + Sync {
    /// The element type it stands for.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($ty:ty => $dtype:ident),*) => {$(
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
elements!(u8 => U8, i8 => I8, i16 => I16, i32 => I32, i64 => I64, f16 => F16, bf16 => BF16, f32 => F32, f64 => F64);

/// Bytes that a tensor can live in: a vector, a memory map, memory of a device library.
///
/// Implementors keep the bytes at one address, aligned to at least 16, for as long as the value lives.
pub trait Storage: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];

    /// The path of a file that holds the same bytes from its start, unchanging, for other processes to map; `None` if
    /// there is none.
    fn path(&self) -> Option<&Path> {
        None
    }
}

impl Storage for Vec<u128> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
}

/// A dense, row-major tensor. Cloning shares the bytes.
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<usize>,
    storage: Arc<dyn Storage>,
}

impl Tensor {
    /// A tensor over existing storage, which must hold at least the bytes of `shape`.
    pub fn new(dtype: DType, shape: impl Into<Vec<usize>>, storage: Arc<dyn Storage>) -> Result<Self> {
        let tensor = Self {
            dtype,
            shape: shape.into(),
            storage,
        };
        let (have, need) = (tensor.storage.bytes().len(), byte_len(dtype, &tensor.shape)?);
        if have < need {
            return Err(Error::invalid(format!(
                "a tensor {dtype}{:?} needs {need} bytes but its storage has {have}",
                tensor.shape
            )));
        }
        Ok(tensor)
    }

    /// A tensor of zero bytes (0, 0.0 or false).
    pub fn zeros(dtype: DType, shape: impl Into<Vec<usize>>) -> Result<Self> {
        let shape = shape.into();
        let words = byte_len(dtype, &shape)?.div_ceil(16);
        Self::new(dtype, shape, Arc::new(vec![0u128; words]))
    }

    /// A tensor with these elements in row-major order.
    pub fn from_slice<T: Element>(shape: impl Into<Vec<usize>>, values: &[T]) -> Result<Self> {
        Self::from_bytes(T::DTYPE, shape, bytemuck::cast_slice(values))
    }

    /// A tensor of booleans.
    pub fn from_bools(shape: impl Into<Vec<usize>>, values: &[bool]) -> Result<Self> {
        let bytes: Vec<u8> = values.iter().map(|b| u8::from(*b)).collect();
        Self::from_bytes(DType::Bool, shape, &bytes)
    }

    /// A tensor from the native-endian bytes of its elements, whose count must match `shape`.
    pub fn from_bytes(dtype: DType, shape: impl Into<Vec<usize>>, bytes: &[u8]) -> Result<Self> {
        let shape = shape.into();
        let need = byte_len(dtype, &shape)?;
        if need != bytes.len() {
            return Err(Error::invalid(format!(
                "a tensor {dtype}{shape:?} needs {need} bytes, not {}",
                bytes.len()
            )));
        }
        let mut words = vec![0u128; need.div_ceil(16)];
        if let Some(head) = bytemuck::cast_slice_mut::<u128, u8>(&mut words).get_mut(..need) {
            head.copy_from_slice(bytes);
        }
        Self::new(dtype, shape, Arc::new(words))
    }

    /// The same elements in row-major order with other extents.
    pub fn reshape(&self, shape: impl Into<Vec<usize>>) -> Result<Self> {
        let shape = shape.into();
        if byte_len(self.dtype, &shape)? != self.len() * self.dtype.size() {
            return Err(Error::invalid(format!("cannot reshape {self:?} to {shape:?}")));
        }
        Self::new(self.dtype, shape, self.storage.clone())
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of the elements, row-major, native-endian.
    pub fn bytes(&self) -> &[u8] {
        let need = self.len() * self.dtype.size();
        self.storage.bytes().get(..need).unwrap_or_default()
    }

    /// Where other processes can map the bytes; see [`Storage::path`].
    pub fn path(&self) -> Option<&Path> {
        self.storage.path()
    }

    /// A mark that tells these bytes, which never change, from all others.
    pub fn mark(&self) -> TensorMark {
        TensorMark {
            storage: Arc::downgrade(&self.storage),
            bytes: self.bytes().len(),
        }
    }

    /// The elements, if `T` is the element type.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        if T::DTYPE != self.dtype {
            return Err(Error::invalid(format!(
                "asked for {} elements of a {} tensor",
                T::DTYPE,
                self.dtype
            )));
        }
        bytemuck::try_cast_slice(self.bytes())
            .map_err(|e| Error::unexpected(format!("tensor storage is misaligned: {e}")))
    }

    /// Every element as f64 (booleans as 0 and 1; 64-bit integers beyond 2^53 round).
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        fn widen<T: Element>(tensor: &Tensor, f: impl Fn(T) -> f64) -> Result<Vec<f64>> {
            Ok(tensor.as_slice::<T>()?.iter().map(|v| f(*v)).collect())
        }
        match self.dtype {
            DType::Bool => Ok(self
                .bytes()
                .iter()
                .map(|b| f64::from(u8::from(*b != 0)))
                .collect()),
            DType::U8 => widen::<u8>(self, f64::from),
            DType::I8 => widen::<i8>(self, f64::from),
            DType::I16 => widen::<i16>(self, f64::from),
            DType::I32 => widen::<i32>(self, f64::from),
            DType::I64 => widen::<i64>(self, |v| v as f64),
            DType::F16 => widen::<f16>(self, f64::from),
            DType::BF16 => widen::<bf16>(self, f64::from),
            DType::F32 => widen::<f32>(self, f64::from),
            DType::F64 => widen::<f64>(self, |v| v),
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}{:?})", self.dtype, self.shape)
    }
}

/// Tells whether a tensor has certain bytes, without keeping them.
#[derive(Clone)]
pub struct TensorMark {
    storage: Weak<dyn Storage>,
    bytes: usize,
}

impl TensorMark {
    /// Whether any tensor has the bytes.
    pub fn is_alive(&self) -> bool {
        self.storage.strong_count() > 0
    }

    /// Whether this tensor's bytes are the marked ones, in the same place.
    pub fn is(&self, tensor: &Tensor) -> bool {
        let same = std::ptr::addr_eq(self.storage.as_ptr(), Arc::as_ptr(&tensor.storage));
        same && self.bytes == tensor.bytes().len()
    }
}

impl fmt::Debug for TensorMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorMark({} bytes)", self.bytes)
    }
}

/// Bytes of a dense tensor; an error if that does not fit the address space.
pub fn byte_len(dtype: DType, shape: &[usize]) -> Result<usize> {
    shape
        .iter()
        .try_fold(dtype.size(), |n, d| n.checked_mul(*d))
        .filter(|n| isize::try_from(*n).is_ok())
        .ok_or_else(|| {
            Error::invalid(format!(
                "a tensor {dtype}{shape:?} is larger than the address space"
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_of_one_tensor() {
        let t = Tensor::zeros(DType::F32, [4]).unwrap();
        let mark = t.mark();
        assert!(mark.is(&t.clone()) && mark.is(&t.reshape([2, 2]).unwrap()));
        assert!(!mark.is(&Tensor::zeros(DType::F32, [4]).unwrap()));
        assert!(mark.is_alive());
        drop(t);
        assert!(!mark.is_alive());
    }

    #[test]
    fn elements_round_trip() {
        let t = Tensor::from_slice([2, 2], &[1.0f32, -2.0, 0.5, 4.0]).unwrap();
        assert_eq!(t.as_slice::<f32>().unwrap(), [1.0, -2.0, 0.5, 4.0]);
        assert_eq!(t.to_f64().unwrap(), [1.0, -2.0, 0.5, 4.0]);
        assert!(t.as_slice::<f64>().is_err());
        assert!(Tensor::from_slice([3], &[1i64]).is_err());
        assert_eq!(Tensor::zeros(DType::I16, [0, 5]).unwrap().len(), 0);
        assert!(Tensor::zeros(DType::F64, [usize::MAX, 2]).is_err());
    }
}
