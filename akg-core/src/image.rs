//! Code for devices whose driver loads each kernel by itself: one image for each kernel, with what a launch of it needs.
//!
//! The bytes of an [`Artifact`] in such a format (`cubin`, `hsaco`, and `cuda-c++`, whose code is text) are an [`Images`].
//! The toolchain that made the code writes it, the backend that launches the kernels reads it, and neither knows the
//! other.

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::source::{Artifact, base64_bytes};

/// The kernels of an artifact.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Images {
    /// One for each kernel that the plan launches, in any order.
    pub kernels: Vec<KernelImage>,
}

impl Images {
    /// The bytes of an artifact.
    pub fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|e| Error::unexpected(format!("images cannot be written: {e}")))
    }

    /// Reads an artifact, and checks that it has an image for every kernel of its plan with parameters that exist.
    pub fn decode(artifact: &Artifact) -> Result<Self> {
        let images: Self = serde_json::from_slice(&artifact.bytes).map_err(|e| {
            Error::invalid(format!(
                "the artifact in format `{}` is damaged: {e}; build its source again",
                artifact.format
            ))
        })?;
        for launch in &artifact.plan.launches {
            let image = images.get(&launch.kernel)?;
            for parameter in &image.parameters {
                let (what, at, count) = match parameter {
                    Parameter::Tensor(at) => ("tensor", *at, launch.tensors.len()),
                    Parameter::Descriptor(d) => ("tensor", d.tensor, launch.tensors.len()),
                    Parameter::Dim { dim, .. } => ("dim", *dim, artifact.plan.dims.len()),
                    Parameter::Constant { .. } | Parameter::Scratch(_) => continue,
                };
                if at >= count {
                    return Err(Error::invalid(format!(
                        "kernel `{}` wants {what} {at}, but its launch has {count}",
                        launch.kernel
                    )));
                }
            }
        }
        Ok(images)
    }

    /// The image of a kernel.
    pub fn get(&self, kernel: &str) -> Result<&KernelImage> {
        self.kernels
            .iter()
            .find(|image| image.kernel == kernel)
            .ok_or_else(|| Error::invalid(format!("the artifact has no code for kernel `{kernel}`")))
    }
}

/// The code of one kernel and what a launch of it needs. A program of the plan's grid is one block or one cluster of
/// blocks; the grid is launched with one axis, on which the programs follow each other in their row-major order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelImage {
    /// The kernel's name in the plan.
    pub kernel: String,
    /// The symbol in the code.
    pub symbol: String,
    /// Threads of a block.
    pub threads: u32,
    /// Blocks of a cluster, which share one program.
    pub cluster: u32,
    /// Bytes of on-chip memory that a launch must ask for.
    pub shared_bytes: u32,
    /// The parameters in order.
    pub parameters: Vec<Parameter>,
    /// What the compiler said of its code.
    #[serde(default)]
    pub report: Report,
    /// The code.
    #[serde(with = "base64_bytes")]
    pub code: Vec<u8>,
}

/// A parameter of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Parameter {
    /// The address of the launch's tensor of this number.
    Tensor(usize),
    /// The copy engine's description of a tensor, by value.
    Descriptor(Descriptor),
    /// The value of a dim of the plan.
    Dim {
        /// Its number.
        dim: usize,
        /// Bytes of the integer.
        bytes: u32,
    },
    /// A number that is the same in every launch, such as an extent that the code of a described tensor takes.
    Constant {
        /// The number.
        value: i64,
        /// Bytes of the integer.
        bytes: u32,
    },
    /// The address of memory that programs need for themselves, or null where there is none.
    Scratch(Scratch),
}

/// Memory outside the chip that every block has for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Scratch {
    /// Bytes for each block.
    pub bytes: u64,
    /// Alignment of each block's share; 0 if there are no bytes.
    pub align: u64,
}

/// How a copy engine sees a tensor: dense and row-major, moved in boxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// The launch's tensor of this number.
    pub tensor: usize,
    /// The element type that is moved.
    pub dtype: DType,
    /// The extents that the kernel sees the tensor in, outermost first. Its elements are as many as the plan declares.
    pub shape: Vec<u64>,
    /// Extents of a box, outermost first, as many as the tensor is seen in.
    pub block: Vec<u32>,
    /// The driver's number of the swizzle in on-chip memory.
    pub swizzle: u32,
    /// Whether boxes of 4-bit elements are padded on the chip.
    #[serde(default)]
    pub padded: bool,
}

/// What a compiler says of a kernel's code.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Bytes that a thread spills.
    pub spilled_bytes: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::{Launch, LaunchPlan};

    fn artifact(parameters: Vec<Parameter>) -> Artifact {
        let images = Images {
            kernels: vec![KernelImage {
                kernel: "k0".into(),
                symbol: "k0".into(),
                threads: 128,
                cluster: 1,
                shared_bytes: 0,
                parameters,
                report: Report::default(),
                code: vec![1, 2, 3],
            }],
        };
        let launch = Launch {
            kernel: "k0".into(),
            grid: vec![1.into()],
            tensors: vec![0, 1],
            cooperative: false,
            doc: String::new(),
        };
        Artifact {
            format: "cubin".into(),
            bytes: images.encode().unwrap(),
            plan: LaunchPlan {
                launches: vec![launch],
                ..LaunchPlan::default()
            },
            metadata: Default::default(),
        }
    }

    #[test]
    fn images_are_read_as_they_were_written() {
        let artifact = artifact(vec![Parameter::Tensor(1), Parameter::Scratch(Scratch::default())]);
        let images = Images::decode(&artifact).unwrap();
        assert_eq!(images.encode().unwrap(), artifact.bytes);
        assert_eq!(images.get("k0").unwrap().code, [1, 2, 3]);
        assert!(images.get("k1").is_err());
    }

    #[test]
    fn parameters_that_do_not_exist_are_refused() {
        for parameter in [Parameter::Tensor(2), Parameter::Dim { dim: 0, bytes: 8 }] {
            let error = Images::decode(&artifact(vec![parameter])).unwrap_err();
            assert!(error.to_string().contains("but its launch has"), "{error}");
        }
    }
}
