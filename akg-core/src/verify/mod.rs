//! The judge.
//!
//! A candidate is hostile until proven otherwise. It runs in a process of its own, on inputs that it cannot change and
//! outputs that were poisoned; this process makes the inputs, computes the f64 reference, and decides from the bytes that
//! came back. Verifiers compose: [`Judge`] asks them one after the other, and the first failure is the verdict.
//!
//! - [`NumericVerifier`]: every element of the outputs, over distributions, seeds and sizes.
//! - [`AdversarialVerifier`]: whether the work follows the inputs, and whether every kernel does some.
//! - [`PartVerifier`]: the kernels of a plan by themselves.
//! - [`SanitizerVerifier`], for who asks for it: how kernels use memory.

mod adversarial;
mod appeals;
mod captured;
mod changes;
mod comparison;
mod contest_data;
mod double;
mod elements;
#[cfg(test)]
mod faults;
mod groups;
mod hidden;
mod inputs;
mod judge;
mod life;
mod limits;
mod measure;
mod misfit;
mod numeric;
mod parts;
mod pieces;
mod policy;
mod readings;
mod sample;
mod sanitizer;
mod scores;
mod suspects;
mod tally;
mod tolerance;
mod units;
mod work;

pub use adversarial::AdversarialVerifier;
#[cfg(feature = "conformance")]
pub(crate) use comparison::judge_all;
pub(crate) use comparison::{agrees, judge_sample};
pub use contest_data::ContestData;
pub(crate) use hidden::sizes as hidden_sizes;
pub(crate) use inputs::host_inputs;
pub use inputs::{Distribution, make_inputs};
pub use judge::Judge;
pub use measure::Measured;
pub use numeric::NumericVerifier;
pub use parts::PartVerifier;
pub use sanitizer::SanitizerVerifier;
pub use work::Operations;

#[cfg(test)]
mod tests;
