//! Whether a graph is what an original computes.

use std::time::Duration;

use super::Original;
use crate::error::Result;
use crate::task::Task;
use crate::verify::{Distribution, agrees, hidden_sizes, host_inputs};

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

/// Time for each reference.
const SAMPLE_TIME: Duration = Duration::from_secs(1);

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
/// If the original cannot be executed at all, or the graph cannot be evaluated.
pub async fn disagreement(original: &dyn Original, task: &Task) -> Result<Option<String>> {
    let hints = &task.contract.hints;
    let hidden = hidden_sizes(task, SEED);
    let at_hints = DATA.iter().map(|data| (*data, hints.clone()));
    let elsewhere = hidden.into_iter().map(|dims| (Distribution::Signed, dims));
    for (number, (data, dims)) in at_hints.chain(elsewhere).enumerate() {
        let mut sized = task.clone();
        sized.contract.hints.clone_from(&dims);
        let seed = SEED + number as u64;
        let inputs = host_inputs(&sized, data, seed)?;
        let given = inputs.get(..task.graph.inputs().len()).unwrap_or_default();
        let sizes: Vec<_> = dims.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let at = if sizes.is_empty() {
            String::new()
        } else {
            format!(" with {}", sizes.join(", "))
        };
        let outputs = match original.run(given, &dims).await? {
            Ok(outputs) => outputs,
            Err(failure) => {
                let (kind, evidence) = (failure.kind.name(), failure.evidence);
                return Ok(Some(format!(
                    "The original cannot be executed on {data} inputs{at} ({kind}): {evidence}."
                )));
            }
        };
        if let Some(failure) = agrees(&sized, &inputs, &outputs, seed, SAMPLE_TIME)? {
            return Ok(Some(format!(
                "The graph is not what the original computes. On {data} inputs{at}, with the original's values as what was got \
                 and the graph's as what was expected: {}.",
                failure.evidence
            )));
        }
    }
    Ok(None)
}
