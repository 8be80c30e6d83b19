#![doc = include_str!("../README.md")]

pub mod backend;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod diagnostic;
pub mod dsl;
pub mod dtype;
pub mod error;
pub mod expr;
pub mod graph;
pub mod lower;
pub mod reference;
pub mod sketch;
pub mod source;
pub mod target;
pub mod tensor;
pub mod verdict;

pub use backend::Backend;
pub use diagnostic::{Diagnostic, Diagnostics};
pub use dsl::Dsl;
pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use expr::Expr;
pub use graph::Graph;
pub use sketch::Sketch;
pub use target::Target;
pub use tensor::Tensor;
