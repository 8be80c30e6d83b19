//! The loaded code of an artifact: a kernel for each launch of its plan.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use akg_core::error::{Error, Result};
use akg_core::image::{Images, KernelImage};
use akg_core::source::Artifact;
use akg_core::verdict::{Failure, FailureKind};

use crate::compile::compile;
use crate::driver::{Attribute, Device, Kernel, Module};
use crate::{CUBIN, CUDA_CPP, describe};

/// Blocks of a cluster that every device with clusters can have.
const PORTABLE_CLUSTER: u32 = 8;

/// The kernels of an artifact by their names in the plan.
#[derive(Debug, Default)]
pub(crate) struct Program {
    kernels: BTreeMap<String, (Kernel, KernelImage)>,
    _modules: Vec<Module>,
}

impl Program {
    /// Loads the code of every kernel that the plan launches; compiles it first if it is text.
    pub(crate) fn load(artifact: &Artifact, device: Device) -> Result<Result<Self, Failure>> {
        let images = match Images::decode(artifact) {
            Ok(images) => images,
            Err(error) => return Ok(failed(error.to_string())),
        };
        let arch = describe::arch(device)?;
        let most_shared =
            device.attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?;
        let mut modules: BTreeMap<Vec<u8>, Module> = BTreeMap::new();
        let mut kernels = BTreeMap::new();
        for mut image in images.kernels {
            // Several kernels may be of one text or one image.
            let code = std::mem::take(&mut image.code);
            let module = match modules.entry(code) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(place) => {
                    let machine_code = match artifact.format.as_str() {
                        CUBIN => Ok(place.key().clone()),
                        CUDA_CPP => compile(place.key(), &arch)?,
                        other => return Err(foreign(other)),
                    };
                    match machine_code.and_then(|code| load(&code, &image.kernel, &arch)) {
                        Ok(module) => place.insert(module),
                        Err(failure) => return Ok(Err(failure)),
                    }
                }
            };
            match kernel(module, &image, most_shared) {
                Ok(kernel) => kernels.insert(image.kernel.clone(), (kernel, image)),
                Err(evidence) => return Ok(failed(evidence)),
            };
        }
        Ok(Ok(Self {
            kernels,
            _modules: modules.into_values().collect(),
        }))
    }

    /// The kernel of this name, which the artifact was checked to have.
    pub(crate) fn kernel(&self, name: &str) -> Result<(Kernel, &KernelImage)> {
        let (kernel, image) = self
            .kernels
            .get(name)
            .ok_or_else(|| Error::unexpected(format!("kernel `{name}` is not loaded")))?;
        Ok((*kernel, image))
    }
}

/// What is said of a format that is not loaded here.
pub(crate) fn foreign(format: &str) -> Error {
    Error::unsupported(format!(
        "the CUDA backend loads artifacts of the formats `{CUBIN}` and `{CUDA_CPP}`, not `{format}`"
    ))
}

fn failed<T>(evidence: String) -> Result<T, Failure> {
    Err(Failure::new(FailureKind::LoadFailed, evidence))
}

fn load(code: &[u8], kernel: &str, arch: &str) -> Result<Module, Failure> {
    // The driver is told no length and believes what the code's header says.
    if !code.starts_with(b"\x7fELF") {
        return failed(format!("the code of kernel `{kernel}` is no cubin"));
    }
    Module::load(code).or_else(|error| {
        failed(format!(
            "the code of kernel `{kernel}` cannot be loaded on a device of architecture {arch}: {error}"
        ))
    })
}

fn kernel(module: &Module, image: &KernelImage, most_shared: u64) -> Result<Kernel, String> {
    let of = |what: String| format!("kernel `{}` {what}", image.kernel);
    let kernel = module
        .kernel(&image.symbol)
        .map_err(|error| of(format!("is not in its code as `{}`: {error}", image.symbol)))?;
    if image.shared_bytes > 0 {
        kernel.allow_shared(image.shared_bytes).map_err(|error| {
            of(format!(
                "asks for {} bytes of shared memory; the device has {most_shared} for a block: {error}",
                image.shared_bytes
            ))
        })?;
    }
    if image.cluster > PORTABLE_CLUSTER {
        kernel.allow_large_clusters().map_err(|error| {
            of(format!(
                "cannot have clusters of {} blocks: {error}",
                image.cluster
            ))
        })?;
    }
    kernel
        .load()
        .map_err(|error| of(format!("cannot be brought to the device: {error}")))?;
    Ok(kernel)
}
