//! The time of kernels that multiply tiles, on cores that several programs share: those of GPUs.
//!
//! A program goes through steps. Copies of the operands' tiles come from the last cache into on-chip memory, as many steps
//! ahead as there are stages; tensor cores multiply them from there; threads add the products to sums in their registers.
//! A program that is alone on its core waits for one after the other, only copies go on beside. With others there, one
//! program's units are busy while another's wait, until the busiest unit has no pause left. So the programs that a core
//! runs at the same time take the longer of what one of them takes alone and what all of them ask of the busiest unit.
//!
//! Cores take programs in waves; in the last, fewer share a core. All waves together take no less than memory does for
//! what it moves.

use super::INTERFERENCE;
use super::rates::Rates;
use super::tiles::Held;
use crate::dtype::DType;
use crate::target::{Residency, Target};

/// Bytes that on-chip memory moves in a clock: 32 banks of 4 bytes (CUDA C++ Programming Guide, "Shared Memory").
const CHIP_BYTES: f64 = 128.0;
/// Bytes that the last cache gives a core in a clock while all cores ask (NVIDIA's A100 white paper: 5120 bytes for 108
/// cores).
const CACHE_BYTES: f64 = 48.0;
/// Clocks from asking memory for a tile to having it on the chip, queues included; single accesses take half of that (Luo et
/// al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture", 2024).
const LATENCY: f64 = 900.0;
/// Clocks for a program to begin: to be placed, and to compute where its tiles are.
const BEGIN: f64 = 700.0;
/// Clocks in which the threads of a program wait for each other, once a step.
const MEET: f64 = 60.0;
/// Clocks from the last instruction of a dot to its result, beyond those in which its units are busy.
const DRAIN: f64 = 32.0;

/// Threads of a warp.
const WARP: u32 = 32;
/// Warps that multiply with one instruction, and the rows and the most columns of it (PTX ISA, "wgmma.mma_async"). Others
/// multiply alone, but as many of them share what they read.
const TEAM: u32 = 4;
const TEAM_ROWS: f64 = 64.0;
const TEAM_COLUMNS: f64 = 256.0;
/// Parts of a core with units of their own.
const QUARTERS: u32 = 4;
/// Registers that a thread can have (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"), and
/// those that are given at once.
const MOST_REGISTERS: u64 = 255;
const REGISTER_GRAIN: u64 = 8;
/// Registers that a thread needs beside tiles: addresses, counters, what is in flight.
const OTHER_REGISTERS: u64 = 36;
/// Elements of computed tiles that make lowerings add a warp, and the warps they give at least and at most.
const SUMS_PER_WARP: u64 = 2048;
const WARPS: [u64; 2] = [4, 8];

/// The part of its bandwidth that memory reaches.
const MEMORY_EFFICIENCY: f64 = 0.9;

/// A dot, and how often it is done by all programs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dot {
    pub(super) rows: f64,
    pub(super) columns: f64,
    pub(super) depth: f64,
    /// FLOP/s of the device.
    pub(super) rate: f64,
    /// Bytes of an element of the operands.
    pub(super) size: f64,
    pub(super) executions: f64,
}

/// What a kernel does around its dots, all programs together.
#[derive(Debug, Clone, Default)]
pub(super) struct Steps {
    pub(super) dots: Vec<Dot>,
    /// Element operations in the statements beside dots.
    pub(super) element_ops: f64,
    /// How often these are executed.
    pub(super) count: f64,
    /// How often a loop over them begins.
    pub(super) begins: f64,
    /// Tiles of each loaded operand on the chip at the same time.
    pub(super) stages: f64,
    /// Bytes that stores beside dots write in loops.
    pub(super) written_bytes: f64,
}

/// What a kernel does as a whole.
#[derive(Debug, Clone, Copy)]
pub(super) struct Totals {
    pub(super) programs: f64,
    /// Element operations, and those of them on f64.
    pub(super) element_ops: f64,
    pub(super) wide_ops: f64,
    pub(super) requested_bytes: f64,
    pub(super) written_bytes: f64,
}

/// How programs lie on the cores.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placement {
    threads: f64,
    /// Programs that a core runs at the same time; 0 if the tiles of one do not fit.
    pub(super) resident: f64,
    /// Bytes that do not fit a program's registers.
    spilled: f64,
    /// Steps by which copies are ahead.
    ahead: f64,
}

impl Placement {
    /// `warps` of a program, if somebody has chosen them.
    pub(super) fn new(
        steps: &Steps,
        held: Held,
        target: &Target,
        core: &Residency,
        warps: Option<u32>,
    ) -> Self {
        let sums = held.computed / 4;
        let suggested = (sums / SUMS_PER_WARP)
            .clamp(WARPS[0], WARPS[1])
            .next_power_of_two();
        let threads = u64::from(warps.unwrap_or(suggested as u32).max(1) * WARP);
        let trips = (steps.count / steps.begins.max(1.0)).max(1.0);
        // More stages than there are steps have no place of their own.
        let stages = steps.stages.min(trips.ceil());
        let most =
            (u64::from(core.registers) / threads / REGISTER_GRAIN * REGISTER_GRAIN).min(MOST_REGISTERS);
        let needed = sums.div_ceil(threads) + OTHER_REGISTERS;
        let registers = needed.min(most).max(1).next_multiple_of(REGISTER_GRAIN);
        let on_chip = (held.loaded as f64 * stages) as u64 + held.kept + held.written + held.leaving;
        let limits = [
            u64::from(core.programs),
            u64::from(target.threads) / threads,
            u64::from(core.registers) / (registers * threads),
            core.tile_bytes / (on_chip + core.reserved_bytes).max(1),
        ];
        let resident = limits.into_iter().min().unwrap_or(0);
        Self {
            threads: threads as f64,
            resident: if on_chip > target.tile_bytes {
                0.0
            } else {
                resident as f64
            },
            spilled: (needed.saturating_sub(most) * threads * 4) as f64,
            ahead: steps.stages - 1.0,
        }
    }
}

/// Seconds of a kernel without its launch; infinite if its tiles do not fit.
pub(super) fn seconds(
    steps: &Steps,
    totals: &Totals,
    placement: &Placement,
    memory_bytes: f64,
    target: &Target,
) -> f64 {
    if placement.resident < 1.0 {
        return f64::INFINITY;
    }
    let cores = f64::from(target.cores.max(1));
    let program = Program::new(steps, totals, placement, target);
    let full = (totals.programs / (cores * placement.resident)).floor();
    let rest = totals.programs - full * cores * placement.resident;
    let last = (rest / cores).ceil();
    let mut clocks = full * program.clocks(placement.resident);
    if last > 0.0 {
        clocks += program.clocks(last);
    }
    let memory = memory_bytes / (Rates { target }.memory() * MEMORY_EFFICIENCY);
    let compute = clocks / target.clock;
    compute.max(memory) + INTERFERENCE * compute.min(memory)
}

/// What one program takes, in clocks.
#[derive(Debug, Clone, Copy)]
struct Program {
    /// Alone on its core.
    alone: f64,
    /// Of the unit that it keeps busy for the longest.
    busiest: f64,
}

impl Program {
    fn new(steps: &Steps, totals: &Totals, placement: &Placement, target: &Target) -> Self {
        let rates = Rates { target };
        let each = |all: f64| all / totals.programs.max(1.0);
        // Operations of a core in a clock.
        let core = |rate: f64| rate / (f64::from(target.cores.max(1)) * target.clock);
        let lanes = core(rates.element(DType::F32));
        let teams = (placement.threads / f64::from(TEAM * WARP)).max(1.0);
        // Each quarter of a core has its own units, and works for its own warps.
        let part = (placement.threads / f64::from(QUARTERS * WARP)).min(1.0);
        let count = each(steps.count).max(1.0);
        let (mut tensor, mut chip, mut multiply) = (0.0, 0.0, 0.0);
        for dot in &steps.dots {
            let times = each(dot.executions);
            let flops = 2.0 * dot.rows * dot.columns * dot.depth;
            // Teams share out the rows, and the columns if there are more teams.
            let blocks = (dot.rows / TEAM_ROWS).max(1.0);
            let columns = (dot.columns / (teams / blocks).max(1.0)).clamp(1.0, TEAM_COLUMNS);
            let read = dot.size * dot.depth * (dot.rows * dot.columns / columns + dot.columns * blocks);
            let (units, memory) = (flops / core(dot.rate), read / CHIP_BYTES);
            tensor += times * units;
            chip += times * memory;
            multiply += times * ((units / part).max(memory) + DRAIN);
        }
        let (loaded, written) = (each(totals.requested_bytes), each(totals.written_bytes));
        let spilled = 2.0 * placement.spilled / CHIP_BYTES;
        chip += loaded / CHIP_BYTES + count * spilled;
        let cache = (loaded + written) / CACHE_BYTES;
        let narrow = each(totals.element_ops - totals.wide_ops) / lanes;
        let wide = each(totals.wide_ops) / core(rates.element(DType::F64));
        let add = each(steps.element_ops) / lanes;

        let step = (multiply + add / part) / count + MEET + spilled;
        // A copy is asked for when its place is free, and must be there when its turn comes.
        let copy = LATENCY + loaded / count / CACHE_BYTES;
        // What one step writes is on its way while the next one multiplies.
        let beside = each(steps.written_bytes);
        let store = beside / count / CACHE_BYTES;
        let step = if placement.ahead > 0.0 {
            step.max(copy / placement.ahead).max(store)
        } else {
            step + copy + store
        };
        let end = (narrow - add + wide) / part + (written - beside) / CACHE_BYTES + LATENCY;
        Self {
            alone: BEGIN + each(steps.begins) * LATENCY + count * step + end,
            busiest: tensor.max(chip).max(cache).max(narrow + wide),
        }
    }

    /// Until so many programs on one core are done that begin together.
    fn clocks(&self, together: f64) -> f64 {
        self.alone.max(together * self.busiest)
    }
}
