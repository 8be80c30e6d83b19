//! The worker's device, described by numbers.

use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::path::PathBuf;
use std::{env, fs, thread};

use akg_core::error::Result;
use akg_core::target::Target;

use crate::measure::{self, Measured};
use crate::team::Team;
use crate::{caches, memory};

/// Where measurements are kept: variables that a describing worker is given.
pub(crate) const CACHE_VARIABLES: [&str; 2] = ["XDG_CACHE_HOME", "HOME"];

/// On-chip memory that is assumed where the system does not say.
const TYPICAL_L2: u64 = 256 << 10;

/// Describes this machine's processor; the first time on a machine, measures it.
pub(crate) fn target() -> Result<Target> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let name = processor_name();
    let features = features();
    let measured = measured(&name, cores, &features)?;
    let caches = caches::sizes();
    let mut target = Target::new("cpu", ARCH);
    target.vector_bytes = vector_bytes(&features);
    // The last level that a core has for itself.
    target.tile_bytes = caches.iter().rev().nth(1).copied().unwrap_or(TYPICAL_L2);
    if !caches.is_empty() {
        target.caches = caches;
    }
    target.name = name;
    target.features = features.into_iter().map(str::to_owned).collect();
    target.cores = cores as u32;
    target.memory_bytes = memory::total();
    target.bandwidth = measured.bandwidth;
    target.peak = measured.peak;
    target.launch_seconds = measured.launch_seconds;
    Ok(target)
}

/// The measurement of an earlier process if there is one, else a new one.
fn measured(name: &str, cores: usize, features: &BTreeSet<&str>) -> Result<Measured> {
    let file = cache_file(name, cores);
    let known = file
        .as_ref()
        .and_then(|path| serde_json::from_slice(&fs::read(path).ok()?).ok());
    if let Some(measured) = known {
        return Ok(measured);
    }
    let measured = measure::measure(&Team::new(0)?, features);
    // Where nothing can be kept, the next process measures again.
    if let (Some(path), Ok(json)) = (file, serde_json::to_vec(&measured))
        && let Some(directory) = path.parent()
        && fs::create_dir_all(directory).is_ok()
    {
        let new = path.with_extension(format!("{}.new", std::process::id()));
        let _ = fs::write(&new, json).and_then(|()| fs::rename(&new, &path));
    }
    Ok(measured)
}

fn cache_file(name: &str, cores: usize) -> Option<PathBuf> {
    let [cache, home] = CACHE_VARIABLES.map(|v| env::var_os(v).map(PathBuf::from));
    let directory = cache
        .or_else(|| Some(home?.join(".cache")))
        .filter(|d| d.is_absolute())?;
    let name: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    let version = env!("CARGO_PKG_VERSION");
    Some(
        directory
            .join("akg")
            .join(format!("cpu-{name}-{cores}-{version}.json")),
    )
}

fn processor_name() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|l| l.strip_prefix("model name")?.split_once(':'));
    name.map_or(ARCH, |(_, name)| name.trim()).to_owned()
}

macro_rules! detected {
    ($detect:ident: $($feature:tt)*) => {
        [$(($feature, std::arch::$detect!($feature))),*]
            .into_iter()
            .filter_map(|(name, present)| present.then_some(name))
            .collect()
    };
}

/// The instruction-set features of this machine's processor that targets are described with.
#[cfg(target_arch = "x86_64")]
pub fn features() -> BTreeSet<&'static str> {
    detected!(is_x86_feature_detected:
        "sse4.1" "sse4.2" "avx" "avx2" "fma" "f16c" "bmi1" "bmi2"
        "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl" "avx512vnni" "avx512vbmi" "avx512bf16"
    )
}

/// The instruction-set features of this machine's processor that targets are described with.
#[cfg(target_arch = "aarch64")]
pub fn features() -> BTreeSet<&'static str> {
    detected!(is_aarch64_feature_detected: "neon" "fp16" "bf16" "dotprod" "i8mm" "sve" "sve2")
}

/// The instruction-set features of this machine's processor that targets are described with.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub fn features() -> BTreeSet<&'static str> {
    BTreeSet::new()
}

fn vector_bytes(features: &BTreeSet<&str>) -> u32 {
    if features.contains("avx512f") {
        64
    } else if features.contains("avx") {
        32
    } else {
        16
    }
}
