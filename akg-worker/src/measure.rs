//! What the processor reaches: arithmetic, main memory, launches. Takes less than a second.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Instant;

use akg_core::dtype::DType;
use serde::{Deserialize, Serialize};

use crate::caches;
use crate::team::Team;

/// Measured numbers of a machine, in the units of `Target`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) bandwidth: f64,
    pub(crate) peak: BTreeMap<DType, f64>,
    pub(crate) launch_seconds: f64,
}

/// The best of this many rounds counts: everything that disturbs a round makes it slower.
const ROUNDS: usize = 5;

/// Bytes copied in one round by all threads, at most.
const MOST_COPIED: usize = 256 << 20;

/// Turns of the arithmetic loop in one round: some milliseconds.
const TURNS: u64 = 1 << 20;

/// Multiply-adds in one turn of the loop, enough to hide their latency.
const CHAINS: u64 = 12;

/// Measures with all threads of the team.
pub(crate) fn measure(team: &Team, features: &BTreeSet<&str>) -> Measured {
    Measured {
        bandwidth: bandwidth(team),
        peak: peak(team, features),
        launch_seconds: launch_seconds(team),
    }
}

/// The shortest of several rounds, in seconds.
fn best_time(mut round: impl FnMut()) -> f64 {
    let times = std::iter::repeat_with(|| {
        let start = Instant::now();
        round();
        start.elapsed().as_secs_f64()
    });
    times.take(ROUNDS).fold(f64::INFINITY, f64::min).max(1e-9)
}

/// Bytes read and written each second by threads that copy arrays too large for the caches.
fn bandwidth(team: &Team) -> f64 {
    let last_level = caches::sizes().last().map_or(32 << 20, |bytes| *bytes as usize);
    let length = (4 * last_level).min(MOST_COPIED) / team.threads();
    // Each thread writes its own memory first, so that it is near.
    let arrays = team.everywhere(|_| Mutex::new((vec![1u8; length], vec![2u8; length])));
    let seconds = best_time(|| {
        team.everywhere(|thread| {
            if let Some(Ok(mut arrays)) = arrays.get(thread).map(Mutex::lock) {
                let (from, to) = &mut *arrays;
                to.copy_from_slice(std::hint::black_box(from));
            }
        });
    });
    (2 * length * team.threads()) as f64 / seconds
}

/// Seconds from asking the team for nothing to its answer.
fn launch_seconds(team: &Team) -> f64 {
    const LAUNCHES: u32 = 100;
    let all = best_time(|| {
        for _ in 0..LAUNCHES {
            team.everywhere(|_| ());
        }
    });
    all / f64::from(LAUNCHES)
}

fn peak(team: &Team, features: &BTreeSet<&str>) -> BTreeMap<DType, f64> {
    let rate = |run: Loop, lanes: u64| {
        let seconds = best_time(|| {
            team.everywhere(|_| run(TURNS));
        });
        (2 * lanes * CHAINS * TURNS * team.threads() as u64) as f64 / seconds
    };
    loops(features)
        .into_iter()
        .map(|(dtype, run, lanes)| (dtype, rate(run, lanes)))
        .collect()
}

/// A loop that runs for so many turns.
type Loop = fn(u64);

/// Defines a loop of [`CHAINS`] independent multiply-adds on vectors that hold zeros: registers 0 to 11 each get
/// the product of 12 and 13 added. Assembly, so that unoptimised builds measure the same.
#[cfg(target_arch = "x86_64")]
macro_rules! multiply_adds {
    ($name:ident: $op:literal $bank:literal) => {
        multiply_adds!($name: $op $bank, 0 1 2 3 4 5 6 7 8 9 10 11);
    };
    ($name:ident: $op:literal $bank:literal, $($chain:literal)*) => {
        fn $name(turns: u64) {
            // SAFETY: changes only the registers it names; the caller has checked that the instructions exist.
            unsafe {
                std::arch::asm!(
                    "vzeroall",
                    "2:",
                    $(concat!($op, " ", $bank, $chain, ", ", $bank, "12, ", $bank, "13"),)*
                    "dec {turns}",
                    "jnz 2b",
                    "vzeroupper",
                    turns = inout(reg) turns => _,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _, out("xmm4") _, out("xmm5") _,
                    out("xmm6") _, out("xmm7") _, out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nomem, nostack),
                );
            }
        }
    };
}

/// For each element type, a loop of the widest multiply-adds and their lanes.
#[cfg(target_arch = "x86_64")]
fn loops(features: &BTreeSet<&str>) -> Vec<(DType, Loop, u64)> {
    multiply_adds!(single_512: "vfmadd231ps" "zmm");
    multiply_adds!(double_512: "vfmadd231pd" "zmm");
    multiply_adds!(single_256: "vfmadd231ps" "ymm");
    multiply_adds!(double_256: "vfmadd231pd" "ymm");
    if features.contains("avx512f") {
        vec![(DType::F32, single_512, 16), (DType::F64, double_512, 8)]
    } else if features.contains("fma") {
        vec![(DType::F32, single_256, 8), (DType::F64, double_256, 4)]
    } else {
        Vec::new()
    }
}

/// There is no loop for this architecture: its peak stays unknown.
#[cfg(not(target_arch = "x86_64"))]
fn loops(_: &BTreeSet<&str>) -> Vec<(DType, Loop, u64)> {
    Vec::new()
}
