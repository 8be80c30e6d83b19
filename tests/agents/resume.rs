//! What a run leaves in the store, and what one that is started again does with it.

use std::sync::Arc;

use akg::blocking;
use akg::store::{
    Answer, ExchangeRecord, MemoryStore, RunRecord, StepRecord, Store, StoreExt as _, VerdictRecord,
};
use libtest_mimic::Failed;

use crate::kernel::task;
use crate::mistakes::mistakes;
use crate::script::Scripted;
use crate::session;

/// A run with two repairs leaves its steps and exchanges; the same run again asks nobody and judges nothing.
pub(crate) fn again() -> Result<(), Failed> {
    let all = mistakes();
    let mistake = all.iter().find(|m| m.name == "two_slips").unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let run = || {
        let (coder, fixer) = (Scripted::new(&mistake.coder), Scripted::new(&mistake.fixer));
        let outcome = blocking::run(&session(&coder, &fixer).with_store(store.clone()), &task());
        let asked = (coder.told().len(), fixer.told().len());
        outcome.map(|outcome| (outcome, asked))
    };
    let (outcome, asked) = run()?;
    assert_eq!(asked, (1, 2));
    let runs = store.all::<RunRecord>(None)?;
    let [record] = runs.as_slice() else {
        return Err("one run".into());
    };
    assert_eq!(record.stopped.as_deref(), Some("a candidate passed"));
    let steps = store.all::<StepRecord>(Some(record.key))?;
    let roles: Vec<&str> = steps.iter().map(|step| step.role.as_str()).collect();
    assert_eq!(roles, ["designer", "coder", "fixer", "fixer"]);
    let parents: Vec<&[usize]> = steps.iter().map(|step| step.parents.as_slice()).collect();
    assert_eq!(parents, [&[][..], &[0], &[1], &[2]]);
    assert_eq!(record.best, Some(3));
    // Each candidate's step names what became of it, and the exchange that it came of.
    for (step, attempt) in steps[1..].iter().zip(&outcome.attempts) {
        assert_eq!(step.candidate, Some(attempt.key));
        assert_eq!(step.failure, attempt.verdict.failure);
        assert_eq!(step.exchanges.len(), 1);
        let exchange: ExchangeRecord = store.load(step.exchanges[0])?.unwrap();
        assert_eq!(exchange.role, step.role);
        assert!(matches!(exchange.answer, Answer::Reply(_)));
    }
    let exchanges = store.all::<ExchangeRecord>(Some(record.key))?;
    let numbers: Vec<usize> = exchanges.iter().map(|exchange| exchange.number).collect();
    assert_eq!(numbers, [0, 1, 2]);

    let verdicts = store.all::<VerdictRecord>(None)?;
    let (again, asked) = run()?;
    assert_eq!(asked, (0, 0));
    assert!(again.attempts.iter().all(|attempt| attempt.recalled));
    assert_eq!(store.all::<VerdictRecord>(None)?, verdicts);
    assert_eq!(store.all::<StepRecord>(Some(record.key))?, steps);
    assert_eq!(store.all::<ExchangeRecord>(Some(record.key))?, exchanges);
    Ok(())
}
