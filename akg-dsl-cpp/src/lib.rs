#![doc = include_str!("../README.md")]

mod compiler;
mod config;
mod dsl;
mod expression;
mod names;
mod original;
mod prelude;
mod printer;
mod standalone;
mod text;

pub use config::CppConfig;
pub use dsl::{CppDsl, lower_program};
pub use original::original;
pub use standalone::{Standalone, standalone};
pub use text::stub;

use akg_core::registry::Registry;

/// Adds [`CppDsl`] with default settings.
pub fn register(registry: &mut Registry) {
    registry.add_dsl(CppDsl::default());
}
