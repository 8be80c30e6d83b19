//! Random graphs: valid, well-conditioned, and of every family of operators that the rules design.
//!
//! A [`Case`] is a graph with inputs, both following from a number. It grows call by call, and a call stays only if its
//! results can be told from rounding errors where they are evaluated: floats neither overflow nor vanish nor cancel, and
//! no index or boolean hangs on a last digit. So whoever computes a case and is [judged](Case::judge) wrong, is wrong.
//!
//! [`check`] goes from the graph to the sketch interpreter, [`run`] goes on to a DSL and a backend. A case that fails is
//! made [smaller](shrink) before somebody reads it:
//!
//! ```
//! use akg_core::Target;
//! use akg_core::conformance::random::{Case, Finding, check, shrink};
//!
//! let target = Target::new("cpu", "x86_64");
//! for seed in 0..3 {
//!     let case = Case::new(seed)?;
//!     if let Finding::Wrong(_) = check(&case, &target)? {
//!         let fails = |case: &Case| matches!(check(case, &target), Ok(Finding::Wrong(_)));
//!         panic!("{}", shrink(&case, &fails));
//!     }
//! }
//! # Ok::<(), akg_core::Error>(())
//! ```

use std::fmt;

use crate::error::Result;
use crate::reference::{Options, evaluate};
use crate::task::Task;
use crate::tensor::Tensor;
use crate::verdict::Failure;
use crate::verify::judge_all;

mod check;
mod elements;
mod folds;
mod grow;
mod kept;
mod layers;
mod layout;
mod products;
mod shrink;
mod steady;
mod windows;

pub use check::{Finding, check, run};
pub use kept::{KeptSeed, kept};
pub use shrink::shrink;

/// A graph and inputs to evaluate it on. `Display` is what somebody needs who looks into it.
#[derive(Debug, Clone)]
pub struct Case {
    /// What it grew from.
    pub seed: u64,
    /// The graph, in accuracy class `fp32`.
    pub task: Task,
    /// One tensor for each of the graph's inputs.
    pub inputs: Vec<Tensor>,
}

impl Case {
    /// The case of this number: the same on every machine, until the generator changes.
    ///
    /// # Errors
    /// None that an input could cause; trouble of the generator itself.
    pub fn new(seed: u64) -> Result<Self> {
        let grown = grow::grow(seed)?;
        Ok(Self {
            seed,
            task: Task::new(grown.graph.name().to_owned(), grown.graph),
            inputs: grown.inputs,
        })
    }

    /// What a plan for the graph reads: the inputs, then the constants.
    pub fn given(&self) -> Vec<Tensor> {
        let constants = self.task.graph.constants().iter().map(|c| c.tensor.clone());
        self.inputs.iter().cloned().chain(constants).collect()
    }

    /// Judges outputs that somebody computed, as the numeric verifier does: every element, in class `fp32`.
    ///
    /// # Errors
    /// If the reference cannot evaluate the graph.
    pub fn judge(&self, outputs: &[Tensor]) -> Result<Option<Failure>> {
        judge_all(&self.task, &self.inputs, outputs, self.seed)
    }

    /// Whether no result hangs on a last digit.
    fn is_steady(&self) -> bool {
        grow::is_steady(self.seed, &self.task.graph, &self.inputs).unwrap_or(false)
    }

    /// What every value that a node computes holds, in its own type; by the value's index.
    fn values(&self) -> Result<Vec<Option<Tensor>>> {
        let graph = &self.task.graph;
        let given: Vec<_> = graph.inputs().iter().map(|i| i.value).collect();
        let computed: Vec<_> = graph.nodes().iter().flat_map(|n| n.outputs.clone()).collect();
        let outcomes = evaluate(
            &graph.subgraph(&given, &computed)?,
            &self.inputs,
            &Options::default(),
        )?;
        let mut values = vec![None; graph.values().len()];
        for (value, outcome) in computed.iter().zip(&outcomes) {
            if let Some(slot) = values.get_mut(value.index()) {
                *slot = Some(steady::stored(outcome)?);
            }
        }
        Ok(values)
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}\n{}", self.seed, self.task.graph)
    }
}
