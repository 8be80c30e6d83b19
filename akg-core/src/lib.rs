//! akg-core
#![doc = include_str!("../README.md")]

pub mod dtype;
pub mod error;
pub mod expr;
pub mod graph;
pub mod reference;
pub mod tensor;

pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use expr::Expr;
pub use graph::Graph;
pub use tensor::Tensor;
