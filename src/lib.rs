#![doc = include_str!("../README.md")]

pub use akg_core::*;

pub mod blocking;
pub mod builtin;
#[cfg(feature = "draw")]
pub mod draw;

/// The C++ DSL.
#[cfg(feature = "cpp")]
pub use akg_dsl_cpp as cpp;

/// The CPU backend.
#[cfg(feature = "cpu")]
pub use akg_backend_cpu as cpu;

/// Import of PyTorch modules, and PyTorch baselines.
#[cfg(feature = "python")]
pub use akg_python as python;

/// Language models: clients, recordings, budgets.
#[cfg(feature = "llm")]
pub use akg_llm as llm;

/// A memory that outlasts the process.
#[cfg(feature = "sqlite")]
pub use akg_store as sqlite;

/// The CUDA backend.
#[cfg(feature = "cuda")]
pub use akg_backend_cuda as cuda;

/// The Triton DSL.
#[cfg(feature = "triton")]
pub use akg_dsl_triton as triton;

/// The worker process, for embedders whose own executable serves as one.
#[cfg(any(feature = "cpu", feature = "cuda"))]
pub mod worker {
    pub use akg_worker::*;

    /// Serves as worker of every backend that the enabled features bring, and ends the process if it was started for that;
    /// returns otherwise. See [`akg_worker::init`].
    pub fn init() {
        init_with(&[
            #[cfg(feature = "cuda")]
            akg_backend_cuda::SERVICE,
        ]);
    }
}

/// A registry of every DSL and backend that the enabled features bring, in their default configuration.
pub fn registry() -> Registry {
    #[allow(unused_mut, reason = "without features nothing is added")]
    let mut registry = Registry::new();
    #[cfg(feature = "cpp")]
    akg_dsl_cpp::register(&mut registry);
    #[cfg(feature = "cpu")]
    akg_backend_cpu::register(&mut registry);
    #[cfg(feature = "cuda")]
    akg_backend_cuda::register(&mut registry);
    #[cfg(feature = "triton")]
    akg_dsl_triton::register(&mut registry);
    registry
}
