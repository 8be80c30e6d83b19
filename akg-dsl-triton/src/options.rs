//! What Triton is told beside the text: warps, pipeline depth, descriptors. Each kernel has knobs of its own for it.

use std::collections::BTreeMap;

use akg_core::error::{Error, Result};
use akg_core::lower::tiles::{TileKernel, TileOp, TileStmt};
use akg_core::sketch::Knob;
use akg_core::sketch::ir::Op;
use akg_core::source::{KnobValue, Knobs};
use akg_core::target::Target;
use serde::{Deserialize, Serialize};

use crate::dialect::Dialect;
use crate::flow::flow;

/// Elements of its largest tile that a warp gets in a kernel that combines elements along axes.
const ELEMENTS_PER_WARP: usize = 256;

/// The same at most in kernels that only combine a row that they have as a whole, and [`WARPS_OF_ROWS`] for it: a thread's
/// own elements are combined fastest, and more programs wait for memory together.
const ROW_PER_WARP: usize = 1024;

/// Warps that rows get before each gets more than [`ELEMENTS_PER_WARP`].
const WARPS_OF_ROWS: usize = 4;

/// The same in kernels that scan: a thread's own elements are combined fastest.
const SCANNED_PER_WARP: usize = 512;

/// The same in element-wise kernels: 16 bytes for each thread at a time.
const LANES_PER_WARP: usize = 128;

/// The same in kernels whose programs all run at the same time and hold their tiles from one barrier to the next: a thread
/// has few registers beside those.
const HELD_PER_WARP: usize = 1024;

/// Registers that a thread can have, and needs.
const REGISTERS: std::ops::Range<u32> = 16..255;

/// Elements of an accumulator that a warp gets.
const SUMS_PER_WARP: usize = 2048;

/// Triton's own pipeline depth.
const STAGES: u32 = 3;

/// How Triton compiles one kernel, as its module says in `LAUNCH`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Options {
    pub(crate) num_warps: u32,
    pub(crate) num_stages: u32,
    /// Registers of a thread at most, where the compiler's own limit is not to be it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) maxnreg: Option<u32>,
    /// What parameters that are tensor descriptors describe.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) descriptors: BTreeMap<String, Descriptor>,
}

/// What a tensor descriptor says of its tensor, in Triton's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Descriptor {
    /// The extents that the kernel sees the tensor in.
    pub(crate) shape: Vec<i64>,
    /// Extents of the boxes that are moved.
    pub(crate) block_shape: Vec<usize>,
}

/// A knob of one kernel: its name is `KERNEL.NAME`, and the first value leaves the choice to the lowering.
struct Tunable {
    name: &'static str,
    values: &'static [i64],
    /// Whether it says something about kernels without dots.
    always: bool,
    legal: fn(i64) -> bool,
}

const TUNABLE: [Tunable; 6] = [
    Tunable {
        name: "warps",
        values: &[0, 4, 8, 16, 2, 1],
        always: true,
        legal: |v| v == 0 || (1..=32).contains(&v) && (v as u64).is_power_of_two(),
    },
    Tunable {
        name: "stages",
        values: &[0, 2, 3, 4, 5],
        always: false,
        legal: |v| (0..=16).contains(&v),
    },
    Tunable {
        name: "descriptors",
        values: &[1, 0],
        always: false,
        legal: |v| v == 0 || v == 1,
    },
    // Whether block pointers say what the copy engine does not move.
    Tunable {
        name: BLOCKS,
        values: &[0, 1],
        always: false,
        legal: |v| v == 0 || v == 1,
    },
    // Programs for each core that go through the tiles together; 0 for a program for each tile.
    Tunable {
        name: PERSISTENT,
        values: &[0, 1, 2],
        always: false,
        legal: |v| (0..=8).contains(&v),
    },
    // Whether some warps load while others multiply.
    Tunable {
        name: SPECIALISED,
        values: &[0, 1],
        always: false,
        legal: |v| v == 0 || v == 1,
    },
];

const BLOCKS: &str = "blocks";
const PERSISTENT: &str = "persistent";
const SPECIALISED: &str = "specialised";

/// The knobs of `kernels`.
pub(crate) fn knobs(kernels: &[TileKernel], dialect: &Dialect) -> Vec<Knob> {
    let of = |kernel: &TileKernel| {
        let dots = accumulator(kernel) > 0;
        let meets = kernel.teams.is_some();
        let kernel = kernel.name.clone();
        TUNABLE
            .iter()
            .filter(move |t| t.always || dots)
            .filter(move |t| match t.name {
                "descriptors" => dialect.descriptors,
                PERSISTENT => !meets,
                SPECIALISED => !meets && dialect.specialises,
                _ => true,
            })
            .map(move |t| Knob {
                name: format!("{kernel}.{}", t.name),
                values: t.values.iter().map(|v| KnobValue::Int(*v)).collect(),
                hint: true,
            })
    };
    kernels.iter().flat_map(of).collect()
}

/// The value of a knob of `kernel`; `None` if the lowering is to choose.
fn given(knobs: &Knobs, kernel: &str, name: &str) -> Option<i64> {
    match knobs.get(&format!("{kernel}.{name}")) {
        Some(KnobValue::Int(value)) => Some(*value),
        _ => None,
    }
}

/// Checks that every knob of the DSL names a kernel and has a legal value.
pub(crate) fn check(knobs: &Knobs, kernels: &[TileKernel]) -> Result<()> {
    for (name, value) in knobs {
        let Some((kernel, option)) = name.split_once('.') else {
            continue;
        };
        let tunable = TUNABLE.iter().find(|t| t.name == option);
        let Some(tunable) = tunable.filter(|_| kernels.iter().any(|k| k.name == kernel)) else {
            let kernels: Vec<_> = kernels.iter().map(|k| k.name.as_str()).collect();
            return Err(Error::invalid(format!(
                "there is no knob `{name}`: Triton has {} of the kernels {}",
                TUNABLE.map(|t| format!("`{}`", t.name)).join(", "),
                kernels.join(", ")
            )));
        };
        if !matches!(value, KnobValue::Int(v) if (tunable.legal)(*v)) {
            return Err(Error::invalid(format!("the knob `{name}` cannot be {value}")));
        }
    }
    Ok(())
}

/// How a kernel is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether tensor descriptors are used where they can be.
    pub(crate) descriptors: bool,
    /// Whether block pointers are used where they can be and tensor descriptors are not.
    pub(crate) blocks: bool,
    /// Programs for each core that go through the tiles together; `None` for a program for each tile.
    pub(crate) persistent: Option<i64>,
    /// Whether loops that multiply are given to several kinds of warps.
    pub(crate) specialised: bool,
}

/// How `knobs` want `kernel` to be printed.
pub(crate) fn style(knobs: &Knobs, kernel: &TileKernel, dialect: &Dialect) -> Style {
    let given = |name| given(knobs, &kernel.name, name);
    let meets = kernel.teams.is_some();
    Style {
        descriptors: dialect.descriptors && given("descriptors") != Some(0),
        blocks: given(BLOCKS) == Some(1),
        persistent: given(PERSISTENT).filter(|v| *v > 0 && !meets),
        specialised: dialect.specialises && !meets && given(SPECIALISED) == Some(1),
    }
}

/// The options of `kernel`: those that `knobs` give, and what its tiles suggest.
pub(crate) fn options(
    knobs: &Knobs,
    kernel: &TileKernel,
    descriptors: Vec<(String, Descriptor)>,
    target: &Target,
    dialect: &Dialect,
) -> Options {
    let chosen = |name| {
        given(knobs, &kernel.name, name)
            .filter(|v| *v > 0)
            .map(|v| v as u32)
    };
    let sums = accumulator(kernel);
    let holds = kernel.teams.is_some() && sums == 0;
    let row = whole_row(kernel).filter(|_| sums == 0 && !holds);
    let (work, share) = if sums > 0 {
        (sums, SUMS_PER_WARP)
    } else if holds {
        (largest(kernel), HELD_PER_WARP)
    } else if any(kernel, |op| matches!(op, Op::Scan { .. })) {
        (largest(kernel), SCANNED_PER_WARP)
    } else if let Some(row) = row {
        (row, (row / WARPS_OF_ROWS).clamp(ELEMENTS_PER_WARP, ROW_PER_WARP))
    } else if any(kernel, |op| matches!(op, Op::Reduce(..) | Op::ArgReduce(..))) {
        (largest(kernel), ELEMENTS_PER_WARP)
    } else {
        (largest(kernel), LANES_PER_WARP)
    };
    let suggested = match (work / share).max(1).next_power_of_two() {
        few @ 1..4 if sums > 0 => few.max(4),
        many if combines_groups(kernel, sums) => many.min(16),
        many if holds || row.is_some() => many.min(32),
        few @ ..=8 => few,
        // Rows of many thousands of elements.
        many if sums == 0 && many > 64 && is_row(kernel) => 32,
        many if sums == 0 && many > 32 => 16,
        _ => 8,
    };
    let num_warps = chosen("warps").unwrap_or(suggested as u32);
    let threads = num_warps.saturating_mul(dialect.warp);
    Options {
        num_warps,
        num_stages: chosen("stages").unwrap_or(STAGES),
        maxnreg: registers(kernel, threads, target).filter(|_| dialect.limits_registers),
        descriptors: descriptors.into_iter().collect(),
    }
}

/// Registers that a thread may have so that all programs of a kernel run at the same time, if they must.
fn registers(kernel: &TileKernel, threads: u32, target: &Target) -> Option<u32> {
    let core = target.residency.as_ref().filter(|_| kernel.teams.is_some())?;
    let programs = u32::try_from(kernel.programs.as_const()?).ok()?;
    let threads = programs
        .div_ceil(target.cores.max(1))
        .max(1)
        .checked_mul(threads)?;
    // They are given out by eights.
    let most = core.registers.checked_div(threads)? / 8 * 8;
    REGISTERS.contains(&most).then_some(most)
}

/// Elements of the largest result of a dot.
fn accumulator(kernel: &TileKernel) -> usize {
    let flow = flow(kernel);
    let dots = flow.ops.iter().filter(|(_, op)| matches!(op, TileOp::Dot { .. }));
    dots.map(|(value, _)| kernel.value(*value).extents.iter().product())
        .max()
        .unwrap_or(0)
}

/// Whether some element-wise or combining operation is of a kind.
fn any(kernel: &TileKernel, kind: impl Fn(&Op) -> bool) -> bool {
    let is = |op: &TileOp| matches!(op, TileOp::Plain(op) if kind(op));
    flow(kernel).ops.values().any(|op| is(op))
}

/// Whether a kernel combines groups of what it has so many sums of: each is needed again after that, beside what is made of it.
fn combines_groups(kernel: &TileKernel, sums: usize) -> bool {
    any(kernel, |op| match op {
        Op::Reduce(_, a, _) => {
            let extents = &kernel.value(*a).extents;
            extents.len() > 2 && extents.iter().product::<usize>() == sums
        }
        _ => false,
    })
}

/// Elements of the row that a kernel combines as a whole, without a loop, if no tile is larger and none as large is stored.
fn whole_row(kernel: &TileKernel) -> Option<usize> {
    let elements = largest(kernel);
    let combines = |op: &Op| match op {
        Op::Reduce(_, a, _) | Op::ArgReduce(_, a, _) => {
            kernel.value(*a).extents.iter().product::<usize>() == elements
        }
        _ => false,
    };
    let more = kernel.body.iter().any(|stmt| match stmt {
        TileStmt::For(_) => true,
        TileStmt::Store { value, .. } => kernel.value(*value).extents.iter().product::<usize>() == elements,
        _ => false,
    });
    (!more && is_row(kernel) && any(kernel, combines)).then_some(elements)
}

/// Whether the largest tile is a single row.
fn is_row(kernel: &TileKernel) -> bool {
    let largest = kernel
        .values
        .iter()
        .max_by_key(|v| v.extents.iter().product::<usize>());
    largest.is_some_and(|tile| tile.extents.iter().filter(|e| **e > 1).count() == 1)
}

/// Elements of the largest tile.
fn largest(kernel: &TileKernel) -> usize {
    let elements = kernel.values.iter().map(|v| v.extents.iter().product());
    elements.max().unwrap_or(1)
}
