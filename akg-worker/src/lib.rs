#![doc = include_str!("../README.md")]

mod caches;
pub mod client;
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
pub mod protocol;
mod scratch;
mod serve;
pub mod shm;
mod team;

pub use locate::{find, init};
