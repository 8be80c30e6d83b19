//! Agents that ask a scripted model which makes the usual mistakes: each is repaired or given up, and no cheat is accepted.
//! Compiler, device and judge are real. The test is its own worker, hence a `main` of its own.
#![allow(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

mod kernel;
mod mistakes;
mod resume;
mod script;

use std::time::Duration;

use akg::backend::Limits;
use akg::coder::ModelCoder;
use akg::fixer::ModelFixer;
use akg::verify::Judge;
use akg::{ErrorKind, Session, blocking};
use libtest_mimic::{Arguments, Failed, Trial};

use kernel::task;
use mistakes::{End, Mistake, mistakes};
use script::Scripted;

/// Exchanges after which nobody may go on with a mistake.
const MOST_EXCHANGES: usize = 60;

fn main() {
    akg::worker::init();
    let mut trials: Vec<Trial> = mistakes()
        .into_iter()
        .map(|mistake| Trial::test(format!("mistake/{}", mistake.name), move || check(&mistake)))
        .collect();
    trials.push(Trial::test(
        "a_run_that_is_started_again_asks_nothing_again",
        resume::again,
    ));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A session in which models code and fix.
fn session(coder: &Scripted, fixer: &Scripted) -> Session {
    let registry = akg::registry();
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(5);
    Session::new(registry.dsl("cpp").unwrap(), registry.backend("cpu").unwrap())
        .with_timing(None)
        .with_verifier(Judge::standard(0, None, &limits))
        .with_budget(Duration::from_secs(600))
        .with_coder(ModelCoder::new(coder.clone()).unwrap())
        .with_fixer(ModelFixer::new(fixer.clone()).unwrap())
}

/// Runs a session with a model that makes a mistake.
fn check(mistake: &Mistake) -> Result<(), Failed> {
    let (coder, fixer) = (Scripted::new(&mistake.coder), Scripted::new(&mistake.fixer));
    let outcome = blocking::run(&session(&coder, &fixer), &task());
    let told = [coder.told(), fixer.told()].concat();
    if told.len() > MOST_EXCHANGES {
        return Err(format!("{} exchanges", told.len()).into());
    }
    for words in mistake.told {
        // The first message of the coder's is the task.
        if !told.iter().skip(1).any(|told| told.contains(words)) {
            return Err(format!("nobody was told `{words}`, but\n{}", told[1..].join("\n---\n")).into());
        }
    }
    let outcome = match (outcome, &mistake.end) {
        (Ok(outcome), _) => outcome,
        (Err(error), End::Abandoned) if error.kind() == ErrorKind::Unsupported => return Ok(()),
        (Err(error), _) => return Err(error.into()),
    };
    let failures = outcome.attempts.iter().map(|a| a.verdict.failure.as_ref());
    let failures: Vec<_> = failures.collect();
    match &mistake.end {
        End::Abandoned if outcome.best().is_none() => Ok(()),
        End::Abandoned => Err("it was accepted".into()),
        End::Repaired(kinds) => {
            let (last, before) = failures.split_last().ok_or("nothing was tried")?;
            let fits = before.len() == kinds.len()
                && before
                    .iter()
                    .zip(*kinds)
                    .all(|(f, kinds)| f.is_some_and(|f| kinds.contains(&f.kind)));
            if last.is_none() && fits {
                return Ok(());
            }
            Err(format!("{failures:#?}\n{}", outcome.stopped).into())
        }
    }
}
