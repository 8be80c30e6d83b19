//! What every DSL, backend, store, shelf of knowledge and language model must do, as functions that their crates call in their own tests.
//!
//! [`dsl`] lowers, builds and runs the crate's [example sketches](sketch_cases), and tries what goes wrong; [`backend`]
//! runs small [probes](Probe); [`store`] puts and gets, [`knowledge`] shelves and finds; [`chat`](chat()) asks short questions. All judge through the trait
//! alone and report on every [`Rule`]:
//!
//! ```no_run
//! # async fn test(my_dsl: &dyn akg_core::Dsl, cpu: &dyn akg_core::Backend) -> akg_core::Result<()> {
//! let device = &cpu.devices().await?[0];
//! akg_core::conformance::dsl(my_dsl, cpu, device).await.assert_held();
//! # Ok(())
//! # }
//! ```
//!
//! [`random`] makes graphs to try designers, DSLs and backends on, as many as there is time for; [`half`](mod@half) has graphs in
//! half types, whose values may be rounded on the way or not.
//!
//! Behind the feature `conformance`.

mod backend;
mod cases;
mod chat;
mod dsl;
pub mod half;
mod knowledge;
mod probe;
pub mod random;
mod report;
mod slots;
mod store;

pub use backend::backend;
pub use cases::{SketchCase, sketch_cases};
pub use chat::chat;
pub use dsl::dsl;
pub use knowledge::knowledge;
pub use probe::Probe;
pub use report::{Report, Rule, Standing};
pub use store::store;
