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
pub mod object;
mod pipes;
pub mod plan;
pub mod process;
mod program;
pub mod protocol;
mod sandbox;
mod scratch;
pub mod seat;
mod serve;
pub mod shm;
mod space;
mod stage;
pub mod team;
mod tool;
mod toolchain;
mod worker;

pub use describe::features;
pub use locate::{find, init, init_with, isolation};
pub use memory::{available as available_memory, total as machine_memory};
pub use serve::{Service, answer_calls};
pub use toolchain::on_path;
