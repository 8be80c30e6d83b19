//! The loaded code of an artifact: a kernel for each launch of its plan.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use akg_core::error::{Error, Result};
use akg_core::image::{Images, KernelImage};
use akg_core::source::Artifact;
use akg_core::verdict::{Failure, FailureKind};
use akg_worker::elf::Elf;

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

/// Sections of variables in a device's memory, which outlive a launch. Constants and shared memory are elsewhere.
const VARIABLES: [&str; 2] = [".nv.global", ".nv.global.init"];

/// What the toolchain's own functions keep there: tables for the arguments of sine and cosine, which nobody writes.
const TOOLCHAIN: &str = "__cudart_";

/// The variables of machine code that a kernel could remember something in, if it has any.
fn kept_state(code: &[u8]) -> Option<String> {
    let elf = Elf::new(code)?;
    let symbols = elf.symbols();
    let mut kept = BTreeSet::new();
    for section in elf.sections() {
        let bytes = section.addresses.end - section.addresses.start;
        if !VARIABLES.contains(&section.name) || bytes == 0 {
            continue;
        }
        let own = symbols
            .iter()
            .filter(|s| s.section == section.number && s.size > 0);
        let own: Vec<_> = own.collect();
        if own.is_empty() {
            kept.insert(format!("{bytes} bytes of `{}`", section.name));
        }
        let variables = own.iter().filter(|s| !s.name.starts_with(TOOLCHAIN));
        kept.extend(variables.map(|s| format!("`{}` ({} bytes)", s.name, s.size)));
    }
    (!kept.is_empty()).then(|| {
        let kept: Vec<String> = kept.into_iter().take(MOST_NAMED).collect();
        format!(
            "the code has `__device__` variables that outlive a call: {}; make them `__constant__`, compute them in each call, or \
             declare a scratch tensor",
            kept.join(", ")
        )
    })
}

/// Variables in the evidence at most.
const MOST_NAMED: usize = 8;

fn load(code: &[u8], kernel: &str, arch: &str) -> Result<Module, Failure> {
    // The driver is told no length and believes what the code's header says.
    if !code.starts_with(b"\x7fELF") {
        return failed(format!("the code of kernel `{kernel}` is no cubin"));
    }
    if let Some(evidence) = kept_state(code) {
        return Err(Failure::new(FailureKind::KeepsState, evidence));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// An object file with these sections, each with one symbol of four bytes unless its name is empty.
    fn object(sections: &[(&str, &str)]) -> Vec<u8> {
        let mut names = b"\0".to_vec();
        let mut name = |text: &str| {
            let at = names.len() as u32;
            names.extend(text.as_bytes());
            names.push(0);
            at
        };
        let mut symbols = vec![0; 24];
        let mut headers = vec![vec![0; 64]];
        let header = |name: u32, kind: u32, offset: u64, size: u64, link: u32| {
            let mut header = Vec::new();
            header.extend(name.to_le_bytes());
            header.extend(kind.to_le_bytes());
            for word in [3, 0, offset, size] {
                header.extend(u64::to_le_bytes(word));
            }
            header.extend(link.to_le_bytes());
            header.resize(64, 0);
            header
        };
        for (number, (section, symbol)) in sections.iter().enumerate() {
            headers.push(header(name(section), 8, 0, 4, 0));
            if !symbol.is_empty() {
                symbols.extend(name(symbol).to_le_bytes());
                symbols.extend([0x11, 0]);
                symbols.extend((number as u16 + 1).to_le_bytes());
                symbols.extend(0u64.to_le_bytes());
                symbols.extend(4u64.to_le_bytes());
            }
        }
        let (of_symbols, of_names) = (name(".symtab"), name(".strtab"));
        let strings = sections.len() as u32 + 2;
        headers.push(header(of_symbols, 2, 64, symbols.len() as u64, strings));
        headers.push(header(
            of_names,
            3,
            64 + symbols.len() as u64,
            names.len() as u64,
            0,
        ));
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64, 0);
        let start = (64 + symbols.len() + names.len()) as u64;
        bytes[0x28..0x30].copy_from_slice(&start.to_le_bytes());
        bytes[0x3c..0x3e].copy_from_slice(&(headers.len() as u16).to_le_bytes());
        bytes[0x3e..0x40].copy_from_slice(&(strings as u16).to_le_bytes());
        bytes.extend(symbols);
        bytes.extend(names);
        bytes.extend(headers.concat());
        bytes
    }

    #[test]
    fn variables_of_a_device_are_state_and_constants_are_not() {
        let honest = [
            (".nv.constant3", "table"),
            (".nv.shared.kernel", "tile"),
            (".nv.global.init", "__cudart_i2opi_f"),
            (".text.kernel", "kernel"),
        ];
        assert_eq!(kept_state(&object(&honest)), None);
        assert_eq!(kept_state(b"\x7fELF\x02\x01 and garbage"), None);
        for (section, symbol) in [
            (".nv.global", "calls"),
            (".nv.global.init", "seen"),
            (".nv.global", ""),
        ] {
            let mut sections = honest.to_vec();
            sections.push((section, symbol));
            let evidence = kept_state(&object(&sections)).unwrap();
            let named = if symbol.is_empty() { section } else { symbol };
            assert!(evidence.contains(&format!("`{named}`")), "{evidence}");
        }
        // Whatever is cut off, nothing panics.
        let whole = object(&[(".nv.global", "calls")]);
        for length in 0..whole.len() {
            kept_state(&whole[..length]);
        }
    }
}
