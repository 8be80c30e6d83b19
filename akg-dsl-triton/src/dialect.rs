//! What Triton can do on a target, as data.

use akg_core::error::{Error, Result};
use akg_core::target::Target;
use serde::Serialize;

/// Triton's name of a device, and what its code may use there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Dialect {
    /// Triton's backend: `cuda` or `hip`.
    pub(crate) backend: &'static str,
    /// The architecture as Triton names it: `90`, `gfx942`.
    pub(crate) arch: String,
    /// Threads of a warp.
    pub(crate) warp: u32,
    /// The format of what is built.
    #[serde(skip)]
    pub(crate) format: &'static str,
    /// Whether a copy engine moves boxes that tensor descriptors describe.
    #[serde(skip)]
    pub(crate) descriptors: bool,
    /// Whether the registers of a thread can be limited.
    #[serde(skip)]
    pub(crate) limits_registers: bool,
    /// Whether an instruction rounds to TF32.
    #[serde(skip)]
    pub(crate) rounds_to_tf32: bool,
    /// Whether lines of the cache of all cores can be asked for ahead of their use.
    #[serde(skip)]
    pub(crate) prefetches: bool,
    /// Whether products run beside what follows them with their left factor in registers.
    #[serde(skip)]
    pub(crate) multiplies_from_registers: bool,
    /// Whether the compiler gives a loop's loads and its products to warps of their own.
    #[serde(skip)]
    pub(crate) specialises: bool,
    /// Whether an instruction approximates logarithms.
    #[serde(skip)]
    pub(crate) approximates_log: bool,
}

impl Dialect {
    /// The dialect of `target`.
    ///
    /// # Errors
    /// [`Unsupported`](akg_core::ErrorKind::Unsupported) for a device that Triton does not compile for.
    pub(crate) fn of(target: &Target) -> Result<Self> {
        let arch = target.arch.as_str();
        let number = arch
            .strip_prefix("sm_")
            .map(|a| a.trim_end_matches(|c: char| c.is_ascii_lowercase()))
            .and_then(|a| a.parse::<u32>().ok());
        match (target.backend.as_str(), number) {
            ("cuda", Some(number @ 80..)) => Ok(Self {
                backend: "cuda",
                arch: number.to_string(),
                warp: 32,
                format: "cubin",
                descriptors: number >= 90,
                limits_registers: true,
                rounds_to_tf32: true,
                prefetches: true,
                multiplies_from_registers: number / 10 == 9,
                specialises: number / 10 == 10,
                approximates_log: true,
            }),
            ("hip", _) if arch.starts_with("gfx") => Ok(Self {
                backend: "hip",
                arch: arch.to_owned(),
                warp: if arch.starts_with("gfx9") { 64 } else { 32 },
                format: "hsaco",
                descriptors: false,
                limits_registers: false,
                rounds_to_tf32: false,
                prefetches: false,
                multiplies_from_registers: false,
                specialises: false,
                approximates_log: false,
            }),
            (backend, _) => Err(Error::unsupported(format!(
                "Triton writes no code for `{arch}` of backend `{backend}`: it takes `sm_80` and later of `cuda`, and `gfx…` \
                 of `hip`"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_numbers_without_their_suffix() {
        let of = |backend: &str, arch: &str| Dialect::of(&Target::new(backend, arch));
        assert_eq!(of("cuda", "sm_90a").unwrap().arch, "90");
        assert!(of("cuda", "sm_100a").unwrap().descriptors);
        assert!(!of("cuda", "sm_80").unwrap().descriptors);
        assert_eq!(of("hip", "gfx942").unwrap().warp, 64);
        for (backend, arch) in [("cuda", "sm_75"), ("cuda", "volta"), ("cpu", "x86_64")] {
            assert!(of(backend, arch).is_err(), "{backend} {arch}");
        }
    }
}
