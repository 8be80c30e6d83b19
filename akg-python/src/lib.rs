#![doc = include_str!("../README.md")]

mod backend;
mod baseline;
mod cache;
mod calls;
mod candidate;
mod command;
mod commitment;
mod environment;
mod import;
mod inductor;
mod install;
mod modules;
mod original;
mod pins;
mod pool;
mod python;
mod results;
mod share;
mod sources;
mod task;
mod transfer;
mod variant;
mod worker;

pub use backend::ModuleBackend;
pub use baseline::{BaselineOptions, BaselineSide, BaselineTask, BaselineWorker, Baselines, Executed};
pub use calls::{Job, Precision, Seeds};
pub use environment::{Config, Environment, Origin};
pub use import::{
    Cotangent, Generator, ImportOptions, ImportedInput, ImportedModule, OpenDim, OpenRange, Shrink, Source,
};
pub use install::InstallProgress;
pub use original::{FunctionOriginal, ModuleOriginal};
pub use pins::Package;
pub use pool::{Pool, Script};
pub use python::{Python, PythonOptions};
pub use task::{SharedPython, lock};
pub use variant::Variant;
