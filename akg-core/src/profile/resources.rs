//! What a launch occupies of a device.

use serde::{Deserialize, Serialize};

use crate::image::KernelImage;
use crate::target::Target;

/// Registers are handed out to threads in multiples of this.
const REGISTER_UNIT: u32 = 8;

/// What a launch occupies; `None` where nobody said.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Programs of the grid.
    pub programs: u64,
    /// Threads of a block.
    pub threads: Option<u32>,
    /// Blocks that share one program.
    pub cluster: Option<u32>,
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Bytes of memory outside the chip that a thread has for what does not fit its registers.
    pub spilled_bytes: Option<u32>,
    /// Bytes of on-chip memory of a block.
    pub shared_bytes: Option<u32>,
}

/// How much of a core is in flight at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Blocks that fit a core together.
    pub blocks: u32,
    /// Their threads over those that a core can hold.
    pub part: f64,
    /// What admits no further block: `registers`, `shared memory`, `threads` or `blocks`.
    pub limit: String,
}

impl Resources {
    /// What the compiler reports of a kernel, launched with so many programs.
    pub fn of_image(image: &KernelImage, programs: u64) -> Self {
        Self {
            programs,
            threads: Some(image.threads),
            cluster: Some(image.cluster.max(1)),
            registers: image.report.registers,
            spilled_bytes: image.report.spilled_bytes,
            shared_bytes: Some(image.shared_bytes),
        }
    }

    /// Takes over what `other` knows and this does not.
    #[must_use]
    pub fn or(self, other: &Self) -> Self {
        Self {
            programs: self.programs,
            threads: self.threads.or(other.threads),
            cluster: self.cluster.or(other.cluster),
            registers: self.registers.or(other.registers),
            spilled_bytes: self.spilled_bytes.or(other.spilled_bytes),
            shared_bytes: self.shared_bytes.or(other.shared_bytes),
        }
    }

    /// How many blocks fit a core; `None` if threads are unknown or cores run one program at a time.
    pub fn occupancy(&self, target: &Target) -> Option<Occupancy> {
        let core = target.residency?;
        let threads = self.threads.filter(|n| *n > 0)?;
        let registers = self
            .registers
            .filter(|n| *n > 0)
            .map(|n| n.next_multiple_of(REGISTER_UNIT) * threads);
        let shared = u64::from(self.shared_bytes.unwrap_or(0)) + core.reserved_bytes;
        let limits = [
            ("blocks", u64::from(core.programs)),
            ("threads", u64::from(target.threads / threads)),
            (
                "registers",
                registers.map_or(u64::MAX, |n| u64::from(core.registers / n)),
            ),
            (
                "shared memory",
                core.tile_bytes.checked_div(shared).unwrap_or(u64::MAX),
            ),
        ];
        let (limit, blocks) = limits.into_iter().min_by_key(|(_, blocks)| *blocks)?;
        Some(Occupancy {
            blocks: blocks as u32,
            part: blocks as f64 * f64::from(threads) / f64::from(target.threads.max(1)),
            limit: limit.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Residency;

    fn h200() -> Target {
        let mut target = Target::new("cuda", "sm_90a");
        target.threads = 2048;
        target.residency = Some(Residency {
            programs: 32,
            threads_of_program: 1024,
            registers: 65536,
            tile_bytes: 233_472,
            reserved_bytes: 1024,
        });
        target
    }

    fn occupancy(threads: u32, registers: u32, shared_bytes: u32) -> (u32, f64, String) {
        let resources = Resources {
            threads: Some(threads),
            registers: Some(registers),
            shared_bytes: Some(shared_bytes),
            ..Resources::default()
        };
        let found = resources.occupancy(&h200()).unwrap();
        (found.blocks, found.part, found.limit)
    }

    /// The numbers are those of NVIDIA's occupancy calculator for compute capability 9.0.
    #[test]
    fn the_scarcest_resource_limits_occupancy() {
        assert_eq!(occupancy(256, 32, 0), (8, 1.0, "threads".into()));
        assert_eq!(occupancy(32, 32, 0), (32, 0.5, "blocks".into()));
        assert_eq!(occupancy(256, 65, 0), (3, 0.375, "registers".into()));
        assert_eq!(occupancy(128, 255, 0), (2, 0.125, "registers".into()));
        assert_eq!(occupancy(128, 40, 100 << 10), (2, 0.125, "shared memory".into()));
    }

    #[test]
    fn cores_that_run_one_program_have_no_occupancy() {
        let resources = Resources {
            threads: Some(1),
            ..Resources::default()
        };
        assert_eq!(resources.occupancy(&Target::new("cpu", "x86_64")), None);
        assert_eq!(Resources::default().occupancy(&h200()), None);
    }
}
