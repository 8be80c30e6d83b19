//! Matrix products of the judge's reference, on the device.
//!
//! They are made in the judge's own process, in a context of its own, which no candidate's worker shares. Before the first
//! one, the kernels show on small integers, of which every sum is exact, that they can multiply.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use akg_core::reference::{Matrix, Products};
use akg_core::tensor::{Tensor, TensorMark};
use akg_core::turns::Turns;

use crate::driver::{self, Device, Kernel, Memory, Module, Shape, Stream};
use crate::lanes::Lanes;

/// Compiled by the driver for the device at hand; see `products.cu`.
const CODE: &str = concat!(include_str!("products.ptx"), "\0");

/// The tile of a block, in both directions, and its threads.
const TILE: usize = 64;
const THREADS: u32 = 256;

/// Multiply-adds below which the host is as fast, and those for each element that is copied.
const LEAST_WORK: usize = 1 << 28;
const LEAST_REUSE: usize = 64;

/// The part of the device's memory that a product may take, and the part that tensors may stay in between products: one
/// over these. Candidates need the rest.
const SHARE: u64 = 4;
const KEPT: u64 = 8;

/// Products on one device, as long as nothing goes wrong.
#[derive(Debug)]
pub(crate) struct DeviceProducts {
    device: u32,
    turns: Turns,
    desk: Mutex<Desk>,
}

/// Where products are made.
#[derive(Debug)]
enum Desk {
    /// Nobody asked so far.
    New,
    Open(Bench),
    /// There is no device, or it failed once.
    Closed,
}

/// Everything a product needs.
#[derive(Debug)]
struct Bench {
    device: Device,
    stream: Stream,
    lanes: Lanes,
    /// Kernels are gone with the module that they are from.
    _module: Module,
    wide: Kernel,
    single: Kernel,
    /// Bytes that a product may take.
    room: u64,
    /// Stored tensors, the one used last at the end, and the bytes that they may take.
    kept: Vec<Kept>,
    room_kept: u64,
}

/// A copy of a stored tensor.
#[derive(Debug)]
struct Kept {
    mark: TensorMark,
    memory: Memory,
}

/// An operand on the device.
struct Placed {
    /// Of the matrix's first element.
    address: u64,
    /// Whether elements are f32, whatever those of the product are.
    narrow: bool,
    strides: [u64; 2],
    /// What was copied for this product.
    _memory: Option<Memory>,
}

// SAFETY: the driver allows every thread with the device's context to use its streams and kernels.
unsafe impl Send for Bench {}

impl DeviceProducts {
    /// On the device of this number, whose time is shared with what `turns` orders. Starts nothing yet.
    pub(crate) fn new(device: u32, turns: Turns) -> Self {
        Self {
            device,
            turns,
            desk: Mutex::new(Desk::New),
        }
    }

    /// Makes a product if that is worth it and nothing has gone wrong so far.
    fn make<T: Element>(&self, a: &Matrix<'_, T>, b: &Matrix<'_, T>, out: &mut [T]) -> bool {
        let copied = a.rows * a.cols + b.rows * b.cols + out.len();
        let work = out.len().saturating_mul(a.cols);
        // What is stored is copied once for many products, and by the host converted first.
        let stored = [a, b].iter().any(|x| x.data.stored().is_some());
        if !stored && (work < LEAST_WORK || work / copied < LEAST_REUSE) {
            return false;
        }
        let mut desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*desk, Desk::New) {
            *desk = self
                .turns
                .beside(|| Bench::open(self.device))
                .map_or(Desk::Closed, Desk::Open);
        }
        let Desk::Open(bench) = &mut *desk else {
            return false;
        };
        if (copied * size_of::<T>()) as u64 > bench.room {
            return false;
        }
        let made = self.turns.beside(|| bench.product(a, b, out));
        if made.is_err() {
            *desk = Desk::Closed;
        }
        made.unwrap_or(false)
    }
}

impl Products for DeviceProducts {
    fn fused(&self, a: &Matrix<'_, f64>, b: &Matrix<'_, f64>, out: &mut [f64]) -> bool {
        self.make(a, b, out)
    }

    fn pairwise(&self, a: &Matrix<'_, f32>, b: &Matrix<'_, f32>, out: &mut [f32]) -> bool {
        self.make(a, b, out)
    }
}

/// What products are made of.
trait Element: bytemuck::Pod + PartialEq {
    fn kernel(bench: &Bench) -> Kernel;
    /// An integer of at most 16 bits, exactly.
    fn of(integer: i16) -> Self;
}

impl Element for f64 {
    fn kernel(bench: &Bench) -> Kernel {
        bench.wide
    }
    fn of(integer: i16) -> Self {
        integer.into()
    }
}

impl Element for f32 {
    fn kernel(bench: &Bench) -> Kernel {
        bench.single
    }
    fn of(integer: i16) -> Self {
        integer.into()
    }
}

impl Bench {
    /// Enters the device and tries the kernels; `None` if that fails in any way.
    fn open(ordinal: u32) -> Option<Self> {
        let mut bench = Self::enter(driver::device(ordinal).ok()?).ok()?;
        let right = bench.multiplies::<f64>() && bench.multiplies::<f32>();
        right.then_some(bench)
    }

    fn enter(device: Device) -> driver::Result<Self> {
        device.enter()?;
        let module = Module::load(CODE.as_bytes())?;
        Ok(Self {
            device,
            stream: Stream::new()?,
            lanes: Lanes::new(device),
            wide: module.kernel("akg_product_f64")?,
            single: module.kernel("akg_product_f32")?,
            _module: module,
            room: device.memory()? / SHARE,
            kept: Vec::new(),
            room_kept: device.memory()? / KEPT,
        })
    }

    /// Whether integers are multiplied exactly, in more than one tile and with operands of both orders.
    fn multiplies<T: Element>(&mut self) -> bool {
        let (m, k, n) = (TILE + 3, 5 * TILE + 7, TILE + 1);
        let integer = |i: usize| ((i * 37 + i / 11) % 17) as i16 - 8;
        let integers = |count: usize| (0..count).map(|i| T::of(integer(i))).collect::<Vec<T>>();
        let (left, right) = (integers(m * k), integers(k * n));
        let a = Matrix::dense(&left, m, k);
        let b = Matrix {
            row_stride: 1,
            col_stride: k as isize,
            ..Matrix::dense(&right, k, n)
        };
        let mut out = vec![T::of(1); m * n];
        if !matches!(self.product(&a, &b, &mut out), Ok(true)) {
            return false;
        }
        let expected = |at: usize| -> T {
            let (row, col) = (at / n * k, at % n * k);
            T::of((0..k).map(|i| integer(row + i) * integer(col + i)).sum())
        };
        out.iter().enumerate().all(|(at, value)| *value == expected(at))
    }

    /// `out = a b`; `false` if an operand is strewn over too much memory.
    fn product<T: Element>(
        &mut self,
        a: &Matrix<'_, T>,
        b: &Matrix<'_, T>,
        out: &mut [T],
    ) -> driver::Result<bool> {
        self.device.enter()?;
        let (Some(left), Some(right)) = (self.place(a)?, self.place(b)?) else {
            return Ok(false);
        };
        let result = Memory::new(size_of_val(out) as u64)?;
        let ([a_row, a_col], [b_row, b_col]) = (left.strides, right.strides);
        let extents = [a.rows, a.cols, b.cols].map(|n| n as u64);
        let mut arguments = [
            left.address,
            a_row,
            a_col,
            left.narrow.into(),
            right.address,
            b_row,
            b_col,
            right.narrow.into(),
            result.address(),
            extents[0],
            extents[1],
            extents[2],
        ];
        let mut pointers = arguments
            .each_mut()
            .map(|argument| (&raw mut *argument).cast::<c_void>());
        let shape = Shape {
            blocks: (a.rows.div_ceil(TILE) * b.cols.div_ceil(TILE)) as u32,
            threads: THREADS,
            cluster: 1,
            shared_bytes: 0,
            cooperative: false,
        };
        self.stream.launch(&T::kernel(self), &shape, &mut pointers)?;
        self.stream.wait()?;
        self.lanes
            .download(bytemuck::cast_slice_mut(out), result.address())?;
        Ok(true)
    }

    /// Puts an operand on the device; `None` if it is strewn over too much memory.
    fn place<T: Element>(&mut self, x: &Matrix<'_, T>) -> driver::Result<Option<Placed>> {
        let strides = [x.row_stride as u64, x.col_stride as u64];
        if let Some(tensor) = x.data.stored()
            && let Some(start) = self.keep(tensor)?
        {
            return Ok(Some(Placed {
                address: start + (x.offset * size_of::<f32>()) as u64,
                narrow: true,
                strides,
                _memory: None,
            }));
        }
        let Some(span) = span(x) else {
            return Ok(None);
        };
        let bytes: &[u8] = bytemuck::cast_slice(span.elements);
        let memory = Memory::new(bytes.len() as u64)?;
        self.lanes.upload(memory.address(), bytes)?;
        Ok(Some(Placed {
            address: memory.address() + (span.first * size_of::<T>()) as u64,
            narrow: false,
            strides,
            _memory: Some(memory),
        }))
    }

    /// The address of a tensor's copy, which stays; `None` if it is too large for that.
    fn keep(&mut self, tensor: &Tensor) -> driver::Result<Option<u64>> {
        self.kept.retain(|kept| kept.mark.is_alive());
        if let Some(at) = self.kept.iter().position(|kept| kept.mark.is(tensor)) {
            let kept = self.kept.remove(at);
            let address = kept.memory.address();
            self.kept.push(kept);
            return Ok(Some(address));
        }
        let bytes = tensor.bytes().len() as u64;
        // Both operands of a product have room.
        if bytes > self.room_kept / 2 {
            return Ok(None);
        }
        while self.kept.iter().map(|kept| kept.memory.bytes()).sum::<u64>() + bytes > self.room_kept {
            self.kept.remove(0);
        }
        let memory = Memory::new(bytes)?;
        self.lanes.upload(memory.address(), tensor.bytes())?;
        let address = memory.address();
        let mark = tensor.mark();
        self.kept.push(Kept { mark, memory });
        Ok(Some(address))
    }
}

/// The memory that a matrix lies in.
struct Span<'a, T> {
    elements: &'a [T],
    /// Where the matrix's first element is.
    first: usize,
}

/// `None` if the matrix has no elements or leaves its memory, or is less than half of the memory that it lies in.
fn span<'a, T>(x: &Matrix<'a, T>) -> Option<Span<'a, T>> {
    let reach = [(x.rows, x.row_stride), (x.cols, x.col_stride)];
    let (mut lowest, mut highest) = (x.offset, x.offset);
    for (extent, stride) in reach {
        let far = extent.checked_sub(1)?.checked_mul(stride.unsigned_abs())?;
        if stride < 0 {
            lowest = lowest.checked_sub(far)?;
        } else {
            highest = highest.checked_add(far)?;
        }
    }
    let elements = x.data.get().get(lowest..=highest)?;
    let first = x.offset - lowest;
    (elements.len() / 2 <= x.rows * x.cols).then_some(Span { elements, first })
}
