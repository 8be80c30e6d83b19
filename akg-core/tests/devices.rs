//! Several devices in one run: what agents propose is tried on others while the first times what came before.
#![allow(clippy::unwrap_used, reason = "tests")]

mod simulated;

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use akg_core::analyst::Place;
use akg_core::designer::{Design, DesignContext, Designer};
use akg_core::pass::Ending;
use akg_core::search::BestOfN;
use akg_core::session::Outcome;
use akg_core::store::MemoryStore;
use akg_core::{
    Agent, Backend, Candidate, Digest, Error, ErrorKind, Result, Session, Target, Task, Verdict, Verifier,
};
use async_trait::async_trait;
use futures::executor::block_on;
use simulated::{Adviser, Device, PLENTY, Shared, design, kernels, session, task, value};

/// Begins with two kernels, and then proposes one number of them after the other.
#[derive(Debug)]
struct InTurn(Mutex<Vec<usize>>);

#[async_trait]
impl Agent<Designer> for InTurn {
    fn name(&self) -> &str {
        "in turn"
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        let text = kernels(match context.improve {
            None => 2,
            Some(_) => self.0.lock().unwrap().remove(0),
        });
        Ok(design(&text))
    }
}

/// Three passes on the first device and these others, each of which goes on from the fastest.
fn staffed(world: &Shared, store: &Arc<MemoryStore>, others: &[usize], lookahead: usize) -> Session {
    let device = |at: &usize| Arc::new(Device::new(world, *at)) as Arc<dyn Backend>;
    session(world, store, PLENTY)
        .with_strategy(BestOfN { most: 100, width: 1 })
        .with_designer(InTurn(Mutex::new(vec![3, 1, 4])))
        .with_analyst(Adviser(Place::Sketch))
        .with_others(others.iter().map(device).collect())
        .with_lookahead(lookahead)
        .with_passes(3)
}

fn endings(outcome: &Outcome) -> Vec<String> {
    let ending = |ending: &Ending| match ending {
        Ending::Faster(ratio) => format!("faster by {ratio:.1}"),
        Ending::NotFaster(ratio) => format!("not faster by {ratio:.1}"),
        other => format!("{other:?}"),
    };
    outcome.passes.iter().map(|pass| ending(&pass.ending)).collect()
}

fn text(outcome: &Outcome) -> &str {
    &outcome.best().unwrap().source.text
}

#[test]
fn other_devices_share_the_work_and_nothing_is_decided_otherwise() {
    let (alone, store) = (Shared::default(), Arc::default());
    let single = block_on(staffed(&alone, &store, &[], 2).run(&task(4096))).unwrap();
    assert!(text(&single).starts_with("K = 1"), "{}", text(&single));

    let (world, store) = (Shared::default(), Arc::default());
    let shared = block_on(staffed(&world, &store, &[1, 2], 2).run(&task(4096))).unwrap();
    assert_eq!(
        (endings(&shared), text(&shared)),
        (endings(&single), text(&single))
    );
    let loads = |world: &Shared| world.with(|w| w.loads_of.clone());
    let (used, before) = (loads(&world), loads(&alone));
    assert_eq!(before.keys().copied().collect::<Vec<_>>(), [0]);
    assert_eq!(used.keys().copied().collect::<Vec<_>>(), [0, 1, 2]);
    // What was tuned elsewhere is not tuned again.
    assert!(used[&0] < before[&0], "{used:?} and {before:?}");

    // The same run again, on one device, finds all of it in the store.
    let again = Shared::default();
    let recalled = block_on(staffed(&again, &store, &[], 2).run(&task(4096))).unwrap();
    assert_eq!(
        (endings(&recalled), text(&recalled)),
        (endings(&shared), text(&shared))
    );
    again.with(|w| assert_eq!((w.builds.len(), w.verdicts.len(), w.loads), (0, 0, 0)));
}

#[test]
fn a_device_that_is_lost_costs_only_its_help() {
    let (world, store) = (Shared::default(), Arc::default());
    world.with(|w| w.lost_device = Some(1));
    let outcome = block_on(staffed(&world, &store, &[1], 1).run(&task(4096))).unwrap();
    assert!(text(&outcome).starts_with("K = 1"), "{}", text(&outcome));
    assert_eq!(outcome.passes.len(), 3);
}

/// Judges one kernel on the first device only while four of them are judged on the second, and those only meanwhile.
#[derive(Debug, Clone, Default)]
struct Meeting(Arc<(Mutex<[bool; 2]>, Condvar)>);

#[async_trait]
impl Verifier for Meeting {
    fn name(&self) -> &str {
        "meeting"
    }

    fn identity(&self) -> Digest {
        Digest::of(b"meeting")
    }

    async fn verify(
        &self,
        candidate: &Candidate,
        task: &Task,
        _: &Target,
        device: &dyn Backend,
    ) -> Result<Verdict> {
        let (there, came) = &*self.0;
        if let (1, 0) | (4, 1) = (value(&candidate.source.text, "K"), device.position()) {
            let mut all = there.lock().unwrap();
            all[device.position()] = true;
            came.notify_all();
            let waited = came.wait_timeout_while(all, Duration::from_secs(60), |all| *all != [true; 2]);
            if waited.unwrap().1.timed_out() {
                return Err(Error::unexpected("the other device has nothing to do"));
            }
        }
        Ok(Verdict::new(task.contract.accuracy))
    }
}

#[test]
fn devices_work_at_the_same_time() {
    let (world, store, meeting) = (Shared::default(), Arc::default(), Meeting::default());
    let session = staffed(&world, &store, &[1], 1).with_verifier(meeting.clone());
    let outcome = block_on(session.run(&task(4096))).unwrap();
    assert_eq!(*meeting.0.0.lock().unwrap(), [true; 2]);
    assert_eq!(outcome.passes.len(), 3);
}

#[test]
fn devices_that_do_not_belong_together_are_refused() {
    let refused = |others: &[usize], odd: Option<usize>| {
        let (world, store) = (Shared::default(), Arc::default());
        world.with(|w| w.odd_device = odd);
        block_on(staffed(&world, &store, others, 1).run(&task(4096))).unwrap_err()
    };
    // The first shares its processors.
    assert_eq!(refused(&[0], None).kind(), ErrorKind::Unsupported);
    assert_eq!(refused(&[9], None).kind(), ErrorKind::Unsupported);
    let error = refused(&[1], Some(1));
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("odd"), "{error}");
}
