#![doc = include_str!("../README.md")]

mod cache;
mod calls;
mod command;
mod environment;
mod import;
mod install;
mod pins;
mod python;
mod sources;
mod transfer;

pub use calls::{Baseline, BaselineOptions, BaselineTask, Job, Precision, Seeds};
pub use environment::{Config, Environment, Origin};
pub use import::{Generator, ImportOptions, ImportedInput, ImportedModule, Shrink, Source};
pub use install::InstallProgress;
pub use pins::Package;
pub use python::{Python, PythonOptions};
