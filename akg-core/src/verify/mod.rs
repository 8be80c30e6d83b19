//! The numeric judge.
//!
//! [`NumericVerifier`] makes inputs, lets a backend run the candidate on them in a process of its own, and compares
//! every returned element with the reference interpreter's f64 result in this process. Outputs are poisoned before the
//! run, element types and shapes must match exactly, NaN and infinities must stand where the reference has them, and
//! the error of each output must be within the task's accuracy class.

mod inputs;
mod limits;
mod measure;
mod numeric;

pub use inputs::{Distribution, make_inputs};
pub use measure::Measured;
pub use numeric::NumericVerifier;
