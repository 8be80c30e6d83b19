//! What a kernel is made for: a device, described by numbers.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::digest::{Digest, Fields, Fingerprint};
use crate::dtype::DType;

/// A device and its limits. Rules and the cost model read these numbers and never a device's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Target {
    /// The backend that owns the device: `cpu`, `cuda`, ….
    pub backend: String,
    /// The architecture as the toolchain names it: `x86_64`, `sm_90a`, ….
    pub arch: String,
    /// The device's marketing name, for people.
    pub name: String,
    /// Instruction-set features as the toolchain names them: `avx2`, `avx512f`, ….
    pub features: BTreeSet<String>,
    /// Independent processors: cores, streaming multiprocessors.
    pub cores: u32,
    /// Clock of the cores at most, in Hz; 0 if unknown.
    #[serde(default)]
    pub clock: f64,
    /// Threads that one core keeps in flight to hide latency; 1 for cores that hide it by themselves.
    #[serde(default = "one")]
    pub threads: u32,
    /// Bytes of one vector register; 0 if unknown.
    pub vector_bytes: u32,
    /// Bytes of on-chip memory that one program can fill with tiles.
    pub tile_bytes: u64,
    /// Data cache sizes in bytes, nearest first; those shared by all cores last.
    pub caches: Vec<u64>,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// Main-memory bandwidth in bytes per second (0 if not measured).
    pub bandwidth: f64,
    /// Peak arithmetic rate in FLOP/s by element type of the operands (empty if not measured).
    pub peak: BTreeMap<DType, f64>,
    /// Seconds that one kernel launch costs.
    pub launch_seconds: f64,
    /// What programs share that run on one core at the same time; `None` where a core runs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residency: Option<Residency>,
}

/// What one core has for all programs that run on it at the same time, beside its [threads](Target::threads).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Residency {
    /// Programs at most.
    pub programs: u32,
    /// Threads of one program at most.
    pub threads_of_program: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Bytes of on-chip memory.
    pub tile_bytes: u64,
    /// Bytes of it that each program takes beside its tiles.
    pub reserved_bytes: u64,
}

impl Fingerprint for Residency {
    fn feed(&self, to: &mut Fields) {
        let Self {
            programs,
            threads_of_program,
            registers,
            tile_bytes,
            reserved_bytes,
        } = self;
        to.record(
            "residency",
            1,
            &[
                ("programs", programs),
                ("threads_of_program", threads_of_program),
                ("registers", registers),
                ("tile_bytes", tile_bytes),
                ("reserved_bytes", reserved_bytes),
            ],
        );
    }
}

impl Fingerprint for Target {
    fn feed(&self, to: &mut Fields) {
        // Every field is named: whoever adds one decides whether it belongs here.
        let Self {
            backend,
            arch,
            name,
            features,
            cores,
            clock: _,
            threads,
            vector_bytes,
            tile_bytes,
            caches,
            memory_bytes: _,
            bandwidth: _,
            peak: _,
            launch_seconds: _,
            residency,
        } = self;
        to.record(
            "target",
            1,
            &[
                ("backend", backend),
                ("arch", arch),
                ("name", name),
                ("features", features),
                ("cores", cores),
                ("threads", threads),
                ("vector_bytes", vector_bytes),
                ("tile_bytes", tile_bytes),
                ("caches", caches),
                ("residency", residency),
            ],
        );
    }
}

impl Target {
    /// What distinguishes devices for which kernels may be made differently: everything but rates, which are measured
    /// anew, and the size of memory.
    pub fn fingerprint(&self) -> Digest {
        Digest::of_fields(self)
    }

    /// A target of which only the names are known; numbers are conservative.
    pub fn new(backend: impl Into<String>, arch: impl Into<String>) -> Self {
        let arch = arch.into();
        Self {
            backend: backend.into(),
            name: arch.clone(),
            arch,
            features: BTreeSet::new(),
            cores: 1,
            clock: 0.0,
            threads: 1,
            vector_bytes: 16,
            tile_bytes: 256 << 10,
            caches: vec![32 << 10, 256 << 10],
            memory_bytes: 4 << 30,
            bandwidth: 0.0,
            peak: BTreeMap::new(),
            launch_seconds: 5e-6,
            residency: None,
        }
    }
}

fn one() -> u32 {
    1
}
