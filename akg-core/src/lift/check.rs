//! Whether a graph is what an original computes.

use std::fmt;

use super::Original;
use crate::error::{Error, Result, ResultExt as _};
use crate::expr::Bindings;
use crate::task::Task;
use crate::verdict::{Failure, FailureKind};
use crate::verify::{Distribution, Operations, agrees, hidden_sizes, host_inputs};

/// The data that originals are executed on. Those that nearly cancel are left out: what an original loses there says nothing
/// about what it computes.
const DATA: [Distribution; 7] = [
    Distribution::Contract,
    Distribution::Signed,
    Distribution::Offset,
    Distribution::Tiny,
    Distribution::Large,
    Distribution::Ties,
    Distribution::Extremes,
];

/// Work of each reference.
const SAMPLE_WORK: Operations = Operations::of_milliseconds(1000);

/// What sizes, data and the rows that are looked at follow from: the same each time, so that a recorded conversation about them can
/// be replayed.
const SEED: u64 = 0x6c69_6674;

/// Why a task is not what an original computes: the first element or output that differs, on which data and at which sizes;
/// `None` if it is.
///
/// The original is executed on data of several distributions at the sizes of the contract, and at others where extents are
/// open. Its error may be some times what the class allows, for it sums as it likes.
///
/// # Errors
/// If the original cannot be executed, or leaves other outputs than its interface says; if the graph cannot be evaluated.
pub async fn disagreement(original: &dyn Original, task: &Task) -> Result<Option<String>> {
    let hints = &task.contract.hints;
    let at_hints = DATA.iter().map(|data| (*data, hints.clone()));
    let hidden = hidden_sizes(task, SEED).into_iter();
    let elsewhere = hidden.map(|dims| (Distribution::Signed, dims));
    for (seed, (data, dims)) in (SEED..).zip(at_hints.chain(elsewhere)) {
        let about = About { data, dims: &dims };
        let mut sized = task.clone();
        sized.contract.hints.clone_from(&dims);
        let inputs = host_inputs(&sized, data, seed)?;
        let given = inputs.get(..task.graph.inputs().len()).unwrap_or_default();
        let ran = original.run(given, &dims).await;
        let outputs = ran
            .context("executed on", || &about)?
            .map_err(|failure| about.broken(&failure))?;
        let Some(failure) = agrees(&sized, &inputs, &outputs, seed, SAMPLE_WORK)? else {
            continue;
        };
        if failure.kind != FailureKind::WrongValues {
            return Err(about.broken(&failure));
        }
        return Ok(Some(format!(
            "The graph is not what the original computes. On {about}, with the original's values as what was got and the graph's as \
             what was expected: {}.",
            failure.evidence
        )));
    }
    Ok(None)
}

/// What an original is executed on.
struct About<'a> {
    data: Distribution,
    dims: &'a Bindings,
}

impl About<'_> {
    /// That an original fails is no fault of the graph's.
    fn broken(&self, failure: &Failure) -> Error {
        let (kind, evidence) = (failure.kind.name(), &failure.evidence);
        Error::invalid(format!(
            "the original cannot be executed, or its interface does not fit it: {kind}: {evidence}"
        ))
        .with("executed on", self)
    }
}

impl fmt::Display for About<'_> {
    /// `signed inputs with N = 37`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} inputs", self.data)?;
        for (number, (name, value)) in self.dims.iter().enumerate() {
            let word = if number == 0 { " with" } else { "," };
            write!(f, "{word} {name} = {value}")?;
        }
        Ok(())
    }
}
