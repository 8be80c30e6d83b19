#![doc = include_str!("../README.md")]

pub mod caches;
mod channel;
pub mod client;
mod confined;
mod crash;
mod describe;
mod engine;
mod fault;
pub mod frame;
mod halt;
mod layout;
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
mod space;
mod stage;
mod team;
mod tool;
mod worker;

pub use locate::{find, init, isolation};
pub use memory::{available as available_memory, total as machine_memory};
