//! Devices, described by numbers.

use akg_core::dtype::DType;
use akg_core::target::{Residency, Target};

use crate::CudaBackend;
use crate::driver::{Attribute, Device, Result};

/// What the driver does not say of devices of one compute capability.
struct Generation {
    /// The compute capability: ten times the major number, and the minor.
    capability: u64,
    /// Bytes of L1 cache and shared memory of a multiprocessor.
    l1: u64,
    /// Floating-point operations of a multiprocessor in a clock, a multiply-add counting as two: binary32 and binary64 by
    /// whatever is fastest (tensor cores for binary64 where they take it), and dense 16-bit products with a 32-bit sum.
    single: f64,
    double: f64,
    half: f64,
}

/// Rates from NVIDIA's CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions", and for tensor cores from
/// the architecture white papers (V100, T4, A100, GA102, AD102, H100, B200): their peak rates over multiprocessors and
/// boost clock. L1 sizes from the guide's "Technical Specifications per Compute Capability".
#[rustfmt::skip]
const GENERATIONS: [Generation; 11] = [
    Generation { capability: 70, l1: 128 << 10, single: 128.0, double: 64.0, half: 1024.0 },
    Generation { capability: 75, l1: 96 << 10, single: 128.0, double: 4.0, half: 1024.0 },
    Generation { capability: 80, l1: 192 << 10, single: 128.0, double: 128.0, half: 2048.0 },
    Generation { capability: 86, l1: 128 << 10, single: 256.0, double: 4.0, half: 1024.0 },
    Generation { capability: 87, l1: 192 << 10, single: 256.0, double: 4.0, half: 1024.0 },
    Generation { capability: 89, l1: 128 << 10, single: 256.0, double: 4.0, half: 1024.0 },
    Generation { capability: 90, l1: 256 << 10, single: 256.0, double: 256.0, half: 4096.0 },
    Generation { capability: 100, l1: 256 << 10, single: 256.0, double: 128.0, half: 8192.0 },
    Generation { capability: 103, l1: 256 << 10, single: 256.0, double: 4.0, half: 8192.0 },
    Generation { capability: 120, l1: 128 << 10, single: 256.0, double: 4.0, half: 1024.0 },
    Generation { capability: 121, l1: 128 << 10, single: 256.0, double: 4.0, half: 1024.0 },
];

/// The capability from which machine code is made for one generation alone, to have all of its instructions.
const SPECIFIC: u64 = 90;

/// Seconds between the ends of two launches that do nothing, as the driver's documentation and measurements have it.
const LAUNCH_SECONDS: f64 = 3e-6;

/// Bytes that a thread loads or stores at once.
const VECTOR_BYTES: u32 = 16;

/// Transfers of a memory clock: both edges.
const TRANSFERS: f64 = 2.0;

fn capability(device: Device) -> Result<u64> {
    let major = device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
    let minor = device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
    Ok(10 * major + minor)
}

/// The architecture as compilers name it: `sm_80`, `sm_90a`.
pub(crate) fn arch(device: Device) -> Result<String> {
    let capability = capability(device)?;
    let suffix = if capability >= SPECIFIC { "a" } else { "" };
    Ok(format!("sm_{capability}{suffix}"))
}

/// Describes a device. Rates are what its clocks and units can do at most, and the driver is asked for nothing that needs
/// a context.
pub(crate) fn target(device: Device) -> Result<Target> {
    let capability = capability(device)?;
    let number = |attribute| device.attribute(attribute);
    let cores = number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let hertz = number(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)? as f64 * 1e3;
    let memory_hertz = number(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)? as f64 * 1e3;
    let bus_bytes = number(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)? as f64 / 8.0;
    let shared = number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?;
    let generation = GENERATIONS.iter().find(|g| g.capability == capability);
    let mut target = Target::new(CudaBackend::NAME, arch(device)?);
    target.name = device.name()?;
    target.cores = cores as u32;
    target.clock = hertz;
    target.threads = number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)? as u32;
    target.vector_bytes = VECTOR_BYTES;
    target.tile_bytes = number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
    target.caches = vec![
        generation.map_or(shared, |g| g.l1),
        number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
    ];
    target.memory_bytes = device.memory()?;
    target.bandwidth = memory_hertz * TRANSFERS * bus_bytes;
    if let Some(generation) = generation {
        let rate = |operations: f64| cores as f64 * hertz * operations;
        target.peak = [
            (DType::F32, rate(generation.single)),
            (DType::F64, rate(generation.double)),
            (DType::F16, rate(generation.half)),
            (DType::BF16, rate(generation.half)),
        ]
        .into();
        // The first generations have no arithmetic in bfloat16.
        if capability < 80 {
            target.peak.remove(&DType::BF16);
        }
    }
    target.launch_seconds = LAUNCH_SECONDS;
    target.residency = Some(Residency {
        programs: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)? as u32,
        threads_of_program: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)? as u32,
        registers: number(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)? as u32,
        tile_bytes: shared,
        reserved_bytes: number(Attribute::CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK)?,
    });
    Ok(target)
}
