//! The exact packages that akg installs. They are data: to move to another PyTorch, edit this file.

/// The oldest PyTorch that akg works with, major and minor version.
pub(crate) const OLDEST_TORCH: (u32, u32) = (2, 9);

/// The oldest Python that the pinned packages exist for, major and minor version.
pub(crate) const OLDEST_PYTHON: (u32, u32) = (3, 10);

/// Bytes of disk space that an installation needs while it runs.
pub(crate) const DISK_BYTES: u64 = 4 << 30;

/// One call of `pip install`.
#[derive(Debug)]
pub(crate) struct Requirements {
    /// What it is, for messages.
    pub(crate) name: &'static str,
    /// Whether pip installs what these packages depend on too.
    pub(crate) with_dependencies: bool,
    /// Requirement specifiers.
    pub(crate) packages: &'static [&'static str],
}

/// PyTorch without the gigabytes of CUDA libraries that its wheel asks for; what it then cannot find is stubbed.
pub(crate) const TORCH: [Requirements; 2] = [
    Requirements {
        name: "PyTorch",
        with_dependencies: false,
        packages: &[
            "torch==2.15.0",
            "nvidia-cuda-runtime==13.2.*; platform_system == 'Linux'",
            "nvidia-cuda-cupti==13.2.*; platform_system == 'Linux'",
        ],
    },
    Requirements {
        name: "the packages that PyTorch and its modules use",
        with_dependencies: true,
        packages: &[
            "filelock",
            "typing-extensions",
            "sympy",
            "networkx",
            "jinja2",
            "fsspec",
            "numpy<2.4",
            "setuptools<81",
            "einops",
        ],
    },
];

/// A package that some work needs beside PyTorch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Package {
    /// The Triton compiler, for building kernels ahead of time.
    Triton,
}

impl Package {
    /// The distribution's name.
    pub const fn name(self) -> &'static str {
        match self {
            Package::Triton => "triton",
        }
    }

    /// The version that akg is tested with.
    pub const fn version(self) -> &'static str {
        match self {
            Package::Triton => "3.6.0",
        }
    }
}
