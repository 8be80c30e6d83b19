//! What running a sketch costs on a device, estimated from its text: bytes, operations, on-chip memory and time.
//!
//! Counts of bytes and operations follow from regions, trip counts and grids (exact where a region's dimensions vary
//! independently; long index ranges are sampled). Time is a roofline: the slowest of memory, shared cache and
//! arithmetic and a little of the others, with the parts of the device that a short grid leaves idle taken into account,
//! and a launch. Kernels with dots on cores that several programs share have a [model of their own](product). It is meant
//! to rank knob points and sketches, not to predict a clock.

mod product;
mod rates;
mod space;
mod tiles;
mod traffic;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use self::product::{Dot, Placement, Steps, Totals};
pub(crate) use self::rates::Rates;
use self::space::{Index, Space};
pub(crate) use self::tiles::peak_tile_bytes;
use self::traffic::{Accesses, Loaded, Wave};
use super::ir::{BinaryOp, GridAxis, Kernel, Op, Program, Stmt, StoreMode, TensorId, UnaryOp, Val};
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Bindings, Expr};
use crate::lower::grid;
use crate::target::Target;

/// The part of its peak that a resource reaches in good code.
const EFFICIENCY: f64 = 0.8;
/// Bandwidth of the last cache relative to memory.
const CACHE_SPEEDUP: f64 = 4.0;
/// The part of the cores that can saturate memory.
const CORES_FOR_MEMORY: f64 = 0.5;
/// The part of the time for other resources that the slowest one does not hide.
const INTERFERENCE: f64 = 0.1;

/// Stages of loops that do not say how many they want.
const STAGES: usize = 3;

/// What a program costs under given extents on a target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Cost {
    /// The kernels in launch order.
    pub kernels: Vec<KernelCost>,
    /// Estimated time in seconds, launches included.
    pub seconds: f64,
}

/// What one kernel costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct KernelCost {
    /// The kernel's name.
    pub name: String,
    /// Programs in the grid.
    pub programs: u64,
    /// Bytes that loads ask for inside tensors, every repetition counted.
    pub requested_bytes: f64,
    /// Bytes of the tensor elements that are loaded at all.
    pub distinct_bytes: f64,
    /// Bytes that stores write inside tensors; an atomic addition counts twice.
    pub written_bytes: f64,
    /// Bytes to and from memory when programs that run together share the last cache.
    pub memory_bytes: f64,
    /// Floating operations of dots (two for each product), by method and operand type as in `tf32 f32`.
    pub dot_flops: BTreeMap<String, f64>,
    /// Seconds of the dots at the device's peak rates.
    pub dot_seconds: f64,
    /// Element operations outside dots; a transcendental function counts as 8, a division or root as 4.
    pub element_ops: f64,
    /// The most bytes of tiles that a program holds at once.
    pub tile_bytes: u64,
    /// The part of the cores that is busy, averaged over the waves of programs.
    pub utilisation: f64,
    /// Time for memory, in seconds.
    pub memory_seconds: f64,
    /// Time for the last cache, in seconds.
    pub cache_seconds: f64,
    /// Time for arithmetic, in seconds.
    pub compute_seconds: f64,
    /// Estimated time in seconds with the launch.
    pub seconds: f64,
}

impl KernelCost {
    /// All operations: those of dots and element operations.
    pub fn flops(&self) -> f64 {
        self.dot_flops.values().sum::<f64>() + self.element_ops
    }
}

/// Warps of a program by kernel, for those where they are chosen.
pub type Warps = BTreeMap<String, u32>;

/// Estimates what `program` costs on `target` when `bindings` holds the extents that are still symbols.
pub fn cost(program: &Program, bindings: &Bindings, target: &Target) -> Result<Cost> {
    cost_with(program, bindings, target, &Warps::new())
}

/// [`cost()`] with the warps that programs are to have on devices where they have any. Kernels without an entry have those
/// that lowerings usually choose.
pub fn cost_with(program: &Program, bindings: &Bindings, target: &Target, warps: &Warps) -> Result<Cost> {
    let kernels = program
        .kernels
        .iter()
        .map(|kernel| {
            let warps = warps.get(&kernel.name).copied();
            kernel_cost(program, kernel, bindings, target, warps).map_err(|e| e.with("kernel", &kernel.name))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Cost {
        seconds: kernels.iter().map(|k| k.seconds).sum(),
        kernels,
    })
}

/// Whether the time of a kernel depends on its warps.
pub(crate) fn knows_warps(kernel: &Kernel, target: &Target) -> bool {
    has_model(target) && tiles::held_at_dots(kernel).is_some()
}

/// Whether enough is known of the device's cores for the model of products.
fn has_model(target: &Target) -> bool {
    target.residency.is_some() && target.clock > 0.0
}

fn kernel_cost(
    program: &Program,
    kernel: &Kernel,
    dims: &Bindings,
    target: &Target,
    warps: Option<u32>,
) -> Result<KernelCost> {
    let mut tally = Tally {
        program,
        kernel,
        loads: BTreeMap::new(),
        written_bytes: 0.0,
        dots: BTreeMap::new(),
        element_ops: 0.0,
        wide_ops: 0.0,
        turns: 0.0,
        steps: Steps::default(),
        rates: Rates { target },
    };
    let axis = |axis: &GridAxis| Index {
        symbol: axis.symbol.clone(),
        lo: Expr::constant(0),
        hi: axis.extent.clone(),
        step: 1,
    };
    let space = Space {
        indices: kernel.grid.iter().map(axis).collect(),
        grid: kernel.grid.len(),
        share: 1.0,
        dims: dims.clone(),
    };
    tally.body(&kernel.body, &space, &Around::default())?;

    let programs = grid::program_count(kernel).eval(dims)?.max(0) as f64;
    let cores = f64::from(target.cores.max(1));
    let core = target.residency.as_ref().filter(|_| has_model(target));
    let placement = core
        .zip(tiles::held_at_dots(kernel))
        .map(|(core, held)| Placement::new(&tally.steps, held, target, core, warps));
    let together = cores * placement.map_or(1.0, |p| p.resident.max(1.0));
    let mut wave = Wave::new(kernel, together as i64, dims)?;
    let cache = target.caches.last().map_or(0.0, |bytes| *bytes as f64);
    let size = |tensor: &TensorId| program.tensors.get(tensor.0).map_or(0, |t| t.dtype.size()) as f64;
    let loads = tally
        .loads
        .iter()
        .map(|(tensor, accesses)| (size(tensor), accesses));
    let Loaded {
        requested,
        distinct,
        from_memory,
    } = Loaded::sum(loads, &mut wave, programs, cache)?;
    let memory_bytes = from_memory + tally.written_bytes;
    let tile_bytes = tiles::peak_tile_bytes(kernel);
    let shared = Shared::of(target, tile_bytes);
    let utilisation = shared.utilisation(programs, cores);
    let rates = Rates { target };
    let dots = tally.dots.iter();
    let dot_seconds: f64 = dots
        .map(|((method, dtype), flops)| flops / rates.dot(method, *dtype))
        .sum();
    let arithmetic = dot_seconds
        + (tally.element_ops - tally.wide_ops) / rates.element(DType::F32)
        + tally.wide_ops / rates.element(DType::F64);
    let busy = utilisation.max(f64::MIN_POSITIVE);
    let memory_seconds = memory_bytes / rates.memory() / (busy / CORES_FOR_MEMORY).min(1.0);
    // Every turn moves the tiles that do not fit to the last cache and back.
    let spilled = 2.0 * tile_bytes.saturating_sub(shared.room) as f64 * tally.turns;
    let cache_seconds = (requested + tally.written_bytes + spilled) / (CACHE_SPEEDUP * rates.memory()) / busy;
    let compute_seconds = arithmetic / busy;
    let slowest = memory_seconds.max(cache_seconds).max(compute_seconds);
    let parts = memory_seconds + cache_seconds + compute_seconds;
    let seconds = match &placement {
        Some(placement) => {
            let totals = Totals {
                programs,
                element_ops: tally.element_ops,
                wide_ops: tally.wide_ops,
                requested_bytes: requested,
                written_bytes: tally.written_bytes,
            };
            product::seconds(&tally.steps, &totals, placement, memory_bytes, target)
        }
        None => (slowest + INTERFERENCE * (parts - slowest)) / EFFICIENCY,
    };
    Ok(KernelCost {
        name: kernel.name.clone(),
        programs: programs as u64,
        requested_bytes: requested,
        distinct_bytes: distinct,
        written_bytes: tally.written_bytes,
        memory_bytes,
        dot_flops: tally
            .dots
            .into_iter()
            .map(|((method, dtype), flops)| (format!("{method} {dtype}"), flops))
            .collect(),
        dot_seconds,
        element_ops: tally.element_ops,
        tile_bytes,
        utilisation,
        memory_seconds,
        cache_seconds,
        compute_seconds,
        seconds: seconds + target.launch_seconds,
    })
}

/// What programs share of a core.
struct Shared {
    /// Bytes that the tiles of one program can have there.
    room: u64,
    /// Programs that run there at the same time.
    programs: f64,
}

impl Shared {
    fn of(target: &Target, tile_bytes: u64) -> Self {
        let Some(core) = &target.residency else {
            return Self {
                room: target.tile_bytes,
                programs: 1.0,
            };
        };
        // Accumulators lie in registers, everything else in on-chip memory.
        let registers = 4 * u64::from(core.registers);
        let all = core.tile_bytes + registers;
        let needed = tile_bytes.max(1) + core.reserved_bytes;
        Self {
            room: target.tile_bytes + registers,
            programs: (all / needed).clamp(1, u64::from(core.programs.max(1))) as f64,
        }
    }

    /// The part of the cores that is busy, averaged over the waves of programs. Fewer programs than a core can hold keep it
    /// as busy as it gets.
    fn utilisation(&self, programs: f64, cores: f64) -> f64 {
        let slots = cores * self.programs;
        if programs <= slots {
            return (programs / cores).min(1.0);
        }
        programs / ((programs / slots).ceil() * slots)
    }
}

/// Counts what the statements of a kernel do.
struct Tally<'p> {
    program: &'p Program,
    kernel: &'p Kernel,
    loads: BTreeMap<TensorId, Accesses>,
    written_bytes: f64,
    /// By method and operand type.
    dots: BTreeMap<(&'static str, DType), f64>,
    element_ops: f64,
    /// Those of [`element_ops`](Self::element_ops) on f64.
    wide_ops: f64,
    /// How often the block that is executed most often is, over all programs.
    turns: f64,
    steps: Steps,
    rates: Rates<'p>,
}

/// The loop around statements.
#[derive(Debug, Clone, Copy, Default)]
struct Around {
    /// How often it begins; never, if there is none.
    begins: f64,
    stages: Option<usize>,
}

impl Tally<'_> {
    fn body(&mut self, body: &[Stmt], space: &Space, around: &Around) -> Result<()> {
        let executions = space.executions()?;
        self.turns = self.turns.max(executions);
        let (ops, written) = (self.element_ops, self.written_bytes);
        let dots = self.steps.dots.len();
        for stmt in body {
            match stmt {
                Stmt::Define { value, op, .. } => self.define(executions, *value, op, space)?,
                Stmt::Store {
                    tensor, region, mode, ..
                } => {
                    let extents = traffic::extents(self.program, self.kernel, *tensor, &space.dims)?;
                    let mut accesses = Accesses::default();
                    accesses.add(space, executions, &extents, (self.kernel, region))?;
                    let times = if *mode == StoreMode::AtomicAdd { 2.0 } else { 1.0 };
                    let size = self.program.tensors.get(tensor.0).map_or(0, |t| t.dtype.size());
                    self.written_bytes += times * size as f64 * accesses.requested;
                }
                Stmt::For(l) => {
                    let mut inner = space.clone();
                    inner.indices.extend(l.axes.iter().map(|axis| Index {
                        symbol: axis.symbol.clone(),
                        lo: axis.lo.clone(),
                        hi: axis.hi.clone(),
                        step: axis.step,
                    }));
                    let around = Around {
                        begins: executions,
                        stages: l.pipeline.map(|stages| stages.max(1) as usize),
                    };
                    self.body(&l.body, &inner, &around)?;
                }
                Stmt::If(b) => {
                    let share = space.share_of(&b.condition)?;
                    for (body, share) in [(&b.then, share), (&b.otherwise, 1.0 - share)] {
                        let inner = Space {
                            share: space.share * share,
                            ..space.clone()
                        };
                        self.body(body, &inner, around)?;
                    }
                }
                Stmt::Barrier => {}
            }
        }
        let is_step = body.iter().any(|s| {
            matches!(
                s,
                Stmt::Define {
                    op: Op::Dot { .. },
                    ..
                }
            )
        });
        if is_step && self.steps.dots.len() > dots {
            self.steps.element_ops += self.element_ops - ops;
            self.steps.count += executions;
            self.steps.begins += around.begins.min(executions);
            if around.begins > 0.0 {
                self.steps.written_bytes += self.written_bytes - written;
            }
            let stages = around.stages.unwrap_or(STAGES) as f64;
            self.steps.stages = self
                .steps
                .stages
                .max(if around.begins > 0.0 { stages } else { 1.0 });
        }
        Ok(())
    }

    fn define(&mut self, executions: f64, value: Val, op: &Op, space: &Space) -> Result<()> {
        let elements = |v| self.kernel.ty(v).extents.iter().product::<usize>() as f64;
        match op {
            Op::Load { tensor, region, .. } => {
                let extents = traffic::extents(self.program, self.kernel, *tensor, &space.dims)?;
                let accesses = self.loads.entry(*tensor).or_default();
                return accesses.add(space, executions, &extents, (self.kernel, region));
            }
            Op::Dot { a, method, .. } => {
                let extent =
                    |v: Val, axis: usize| self.kernel.ty(v).extents.get(axis).copied().unwrap_or(1) as f64;
                let depth = extent(*a, 1);
                let key = (method.name(), self.kernel.ty(*a).dtype);
                *self.dots.entry(key).or_insert(0.0) += 2.0 * depth * elements(value) * executions;
                self.steps.dots.push(Dot {
                    rows: extent(value, 0),
                    columns: extent(value, 1),
                    depth,
                    rate: self.rates.dot(method.name(), key.1),
                    size: key.1.size() as f64,
                    executions,
                });
                return Ok(());
            }
            _ => {}
        }
        let ops = match op {
            Op::Unary(op, _) => weight(*op) * elements(value),
            Op::Binary(BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Mod, ..) => 4.0 * elements(value),
            Op::Binary(BinaryOp::Pow, ..) => 8.0 * elements(value),
            Op::Binary(BinaryOp::Philox, ..) => 60.0 * elements(value),
            Op::Binary(..) | Op::Compare(..) | Op::Select(..) | Op::Cast(_) => elements(value),
            Op::Reduce(_, a, _) | Op::ArgReduce(_, a, _) | Op::Scan { value: a, .. } => elements(*a),
            _ => 0.0,
        };
        self.element_ops += ops * executions;
        if self.kernel.ty(value).dtype == DType::F64 {
            self.wide_ops += ops * executions;
        }
        Ok(())
    }
}

fn weight(op: UnaryOp) -> f64 {
    match op {
        op if op.is_transcendental() => 8.0,
        UnaryOp::Sqrt | UnaryOp::Rsqrt => 4.0,
        _ => 1.0,
    }
}

/// A number with a decimal prefix: `1.5 M`.
fn scaled(value: f64) -> String {
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match prefixes.iter().find(|(scale, _)| value >= *scale) {
        Some((scale, prefix)) => format!("{:.1} {prefix}", value / scale),
        None => format!("{value:.0} "),
    }
}

impl fmt::Display for KernelCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {:.2} us ({} programs, {:.0} % of cores; memory {}B in {:.2} us, requested {}B; {}op in {:.2} us; tiles {}B)",
            self.name,
            self.seconds * 1e6,
            self.programs,
            self.utilisation * 100.0,
            scaled(self.memory_bytes),
            self.memory_seconds * 1e6,
            scaled(self.requested_bytes),
            scaled(self.flops()),
            self.compute_seconds * 1e6,
            scaled(self.tile_bytes as f64),
        )
    }
}

impl fmt::Display for Cost {
    /// One line for each kernel and one for all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for kernel in &self.kernels {
            writeln!(f, "{kernel}")?;
        }
        write!(f, "total: {:.2} us", self.seconds * 1e6)
    }
}
