#![doc = include_str!("../README.md")]

pub mod frame;
mod memory;
mod pipes;
pub mod process;
mod scratch;
pub mod shm;
