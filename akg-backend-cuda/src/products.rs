//! Matrix products of the judge's reference, on the device.
//!
//! They are made in the judge's own process, in a context of its own, which no candidate's worker shares. Before the first
//! one, the kernels show on small integers, of which every sum is exact, that they can multiply.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use akg_core::reference::{Matrix, Products};
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

/// The part of the device's memory that a product may take: one over this. Candidates need the rest.
const SHARE: u64 = 4;

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
        if work < LEAST_WORK || work / copied < LEAST_REUSE {
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
        let (Some(a_span), Some(b_span)) = (span(a), span(b)) else {
            return Ok(false);
        };
        self.device.enter()?;
        let (left, right) = (self.put(a_span.elements)?, self.put(b_span.elements)?);
        let result = Memory::new(size_of_val(out) as u64)?;
        let first =
            |memory: &Memory, span: &Span<'_, T>| memory.address() + (span.first * size_of::<T>()) as u64;
        let strides = |x: &Matrix<'_, T>| [x.row_stride as u64, x.col_stride as u64];
        let ([a_row, a_col], [b_row, b_col]) = (strides(a), strides(b));
        let extents = [a.rows, a.cols, b.cols].map(|n| n as u64);
        let mut arguments = [
            first(&left, &a_span),
            a_row,
            a_col,
            first(&right, &b_span),
            b_row,
            b_col,
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

    /// A copy on the device.
    fn put<T: Element>(&mut self, elements: &[T]) -> driver::Result<Memory> {
        let bytes: &[u8] = bytemuck::cast_slice(elements);
        let memory = Memory::new(bytes.len() as u64)?;
        self.lanes.upload(memory.address(), bytes)?;
        Ok(memory)
    }
}

/// The memory that a matrix lies in.
struct Span<'a, T> {
    elements: &'a [T],
    /// Where the matrix's first element is.
    first: usize,
}

/// `None` if the matrix has no elements, or is less than half of the memory that it lies in.
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
    let elements = x.data.get(lowest..=highest)?;
    let first = x.offset - lowest;
    (elements.len() / 2 <= x.rows * x.cols).then_some(Span { elements, first })
}
