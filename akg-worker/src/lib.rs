#![doc = include_str!("../README.md")]

pub mod caches;
mod channel;
pub mod client;
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
pub mod protocol;
mod scratch;
mod serve;
pub mod shm;
mod space;
mod stage;
mod team;

pub use locate::{find, init};
