#![doc = include_str!("../README.md")]

pub mod agent;
#[cfg(feature = "algebra")]
pub mod algebra;
pub mod backend;
pub mod bundle;
pub mod chat;
pub mod coder;
pub mod conductor;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod designer;
pub mod diagnostic;
pub mod digest;
pub mod dsl;
pub mod dtype;
pub mod error;
pub mod expr;
pub mod graph;
pub mod image;
pub mod isolation;
pub mod lower;
mod philox;
pub mod profile;
#[cfg(feature = "models")]
pub mod prompts;
pub mod reference;
pub mod registry;
pub mod search;
pub mod session;
pub mod sketch;
pub mod source;
pub mod store;
pub mod target;
pub mod task;
pub mod tensor;
pub mod timing;
pub mod tuner;
pub mod turns;
pub mod verdict;
pub mod verifier;
pub mod verify;
pub mod view;

pub use agent::{Agent, Role};
pub use backend::Backend;
pub use bundle::Bundle;
pub use chat::ChatModel;
pub use diagnostic::{Diagnostic, Diagnostics};
pub use digest::Digest;
pub use dsl::Dsl;
pub use dtype::DType;
pub use error::{Error, ErrorKind, Result};
pub use expr::Expr;
pub use graph::Graph;
pub use profile::Profile;
pub use registry::Registry;
pub use session::Session;
pub use sketch::Sketch;
pub use store::Store;
pub use target::Target;
pub use task::{Accuracy, Task};
pub use tensor::Tensor;
pub use verdict::Verdict;
pub use verifier::{Candidate, Verifier};
pub use view::{AnyView, AnyViewMut, TensorView, TensorViewMut};
