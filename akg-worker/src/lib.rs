#![doc = include_str!("../README.md")]

mod caches;
pub mod client;
mod confined;
mod crash;
mod describe;
mod engine;
pub mod frame;
mod locate;
mod measure;
mod memory;
mod pipes;
mod plan;
pub mod process;
mod program;
pub mod protocol;
mod sandbox;
mod scratch;
mod serve;
pub mod shm;
mod team;
mod tool;

pub use locate::{find, init};
