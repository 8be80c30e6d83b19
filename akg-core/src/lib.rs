#![doc = include_str!("../README.md")]

pub mod agent;
pub mod backend;
pub mod coder;
pub mod conductor;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod designer;
pub mod diagnostic;
pub mod dsl;
pub mod dtype;
pub mod error;
pub mod expr;
pub mod graph;
pub mod isolation;
pub mod lower;
pub mod reference;
pub mod registry;
pub mod session;
pub mod sketch;
pub mod source;
pub mod target;
pub mod task;
pub mod tensor;
pub mod timing;
pub mod verdict;
pub mod verifier;
pub mod verify;

pub use agent::{Agent, Role};
pub use backend::Backend;
pub use diagnostic::{Diagnostic, Diagnostics};
pub use dsl::Dsl;
pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use expr::Expr;
pub use graph::Graph;
pub use registry::Registry;
pub use session::Session;
pub use sketch::Sketch;
pub use target::Target;
pub use task::{Accuracy, Task};
pub use tensor::Tensor;
pub use verdict::Verdict;
pub use verifier::{Candidate, Verifier};
