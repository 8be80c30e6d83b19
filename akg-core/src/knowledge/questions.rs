//! What agents that ask models look up.

use super::{Kind, Query, words};
use crate::error::Result;
use crate::target::Target;
use crate::task::Task;
use crate::verdict::Failure;

/// The most articles of a kind.
const MOST_KERNELS: usize = 2;
const MOST_FIXES: usize = 2;
const MOST_PAGES: usize = 1;

/// Kernels of tasks that are less alike have nothing to tell; tasks of one size and type alone are alike by 0.35.
const LEAST_ALIKE: f64 = 0.4;

/// The words of a failure that are looked for.
const MOST_WORDS: usize = 64;

/// Questions for what helps with a task on a device, by kind, the most important first; fixes are of failures like this one. Of
/// several guides, the one whose text means the most for the computation is wanted; kernels are known by their structure.
pub(crate) fn questions(
    task: &Task,
    target: &Target,
    kinds: &[Kind],
    failure: Option<&Failure>,
) -> Result<Vec<Query>> {
    let mut questions = Vec::new();
    for kind in kinds {
        let question = Query::of(task, target)?.about(&[*kind]);
        questions.extend(match kind {
            Kind::Kernel => Some(question.at_most(MOST_KERNELS).at_least(LEAST_ALIKE)),
            Kind::Fix => failure.map(|failure| {
                let told = format!("{} {}", failure.kind.name(), failure.evidence);
                let some: Vec<String> = words(&told).into_iter().take(MOST_WORDS).collect();
                question
                    .with_text(some.join(" "))
                    .with_meaning(told)
                    .at_most(MOST_FIXES)
            }),
            Kind::Guide => {
                let meaning = format!("{}\n{}", task.name, task.graph);
                Some(question.with_meaning(meaning).at_most(MOST_PAGES))
            }
            Kind::Hardware => Some(question.at_most(MOST_PAGES)),
        });
    }
    Ok(questions)
}
