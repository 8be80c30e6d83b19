#![doc = include_str!("../README.md")]

mod access;
mod alike;
mod compiler;
mod config;
mod dialect;
mod dot;
mod dsl;
mod expression;
mod flow;
mod index;
mod layout;
mod lower;
mod modelnew;
mod names;
mod options;
mod prelude;
mod printer;
mod python;
mod text;

pub use config::TritonConfig;
pub use dsl::TritonDsl;
pub use lower::lower_program;
pub use modelnew::{ModelNew, modelnew};
pub use text::stub;

use akg_core::registry::Registry;

/// The DSL's name in registries and sources.
pub(crate) const NAME: &str = "triton";

/// Adds [`TritonDsl`] with default settings.
pub fn register(registry: &mut Registry) {
    registry.add_dsl(TritonDsl::default());
}
