//! Rehearsals: what agents propose is judged and tuned on all devices of a session at the same time, while what came before is timed
//! against the fastest.
//!
//! A rehearsal decides nothing. What it finds out is in the store, where the run finds it once it is the turn of the pass, as if
//! an earlier run had judged and tuned the same.

use std::pin::pin;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use futures::channel::oneshot;
use futures::executor::block_on;
use futures::future::select;

use super::asked::Proposal;
use super::road::Road;
use super::run::Run;
use super::{Event, Session, target_of};
use crate::backend::Backend;
use crate::coder::RuleCoder;
use crate::conductor::RuleConductor;
use crate::error::{Error, Result};
use crate::target::Target;

impl Session {
    /// Checks that other devices are of one kind with `target`, and that they can work at the same time.
    pub(super) async fn demand_alike(&self, target: &Target) -> Result<()> {
        for other in &self.others {
            if !other.capability().own_processors {
                return Err(Error::unsupported(format!(
                    "kernels of backend `{}` run on the processors that prepare them, so that a second device would disturb \
                     the times of the first",
                    other.name()
                )));
            }
            let theirs = target_of(&**other).await?;
            if theirs.fingerprint() != target.fingerprint() {
                return Err(Error::invalid("the devices of a session are not of one kind")
                    .with("device", &target.name)
                    .with("other", &theirs.name));
            }
        }
        Ok(())
    }

    /// The device on which member `number` of a search is rehearsed: members take the devices in turns, the session's own among
    /// them. `None` if there is but one.
    fn rehearses(&self, number: usize) -> Option<&Arc<dyn Backend>> {
        let mut devices = [&self.backend].into_iter().chain(&self.others);
        let several = !self.others.is_empty();
        devices.nth(number % (self.others.len() + 1)).filter(|_| several)
    }
}

/// Rehearses what is proposed as member `number`, in a thread of its own: compilers and judges do not wait for each other. It ends
/// as soon as it can if nobody waits for it any more.
pub(super) async fn rehearse(road: &Road<'_>, number: usize, proposal: &Proposal) {
    let Some(device) = road.session.rehearses(number) else {
        return;
    };
    let session = Session {
        backend: Arc::clone(device),
        coder: Arc::new(RuleCoder),
        conductor: Arc::new(RuleConductor::default()),
        observer: Arc::new(|_: Event<'_>| {}),
        ..road.session.clone()
    };
    let (task, target, proposal) = (road.task.clone(), road.target.clone(), proposal.clone());
    let prepared = road.prepared.get().cloned();
    let (mut waited_for, done) = oneshot::channel::<()>();
    thread::spawn(move || {
        let work = pin!(async {
            let road = Road::new(&session, &task, &target)?.with_prepared(prepared);
            find_out(&road, proposal).await
        });
        // Trouble is the run's own once it comes to the same.
        block_on(select(work, waited_for.cancellation()));
    });
    // The other end is dropped when the thread is done.
    let _ = done.await;
}

/// Judges what is proposed and tunes it, as far as no agent is to be asked.
async fn find_out(road: &Road<'_>, proposal: Proposal) -> Result<()> {
    match proposal {
        Proposal::Source(source) => {
            let (written, presented) = road.admit(*source)?;
            if presented.is_ok() {
                road.judge(written).await?;
            }
        }
        Proposal::Design(design) if road.session.dsl.capability().lowers => {
            let mut run = Run::new(road, *design, 0, road.target.clone(), Instant::now())?;
            (run.line.redesigns, run.line.fixes) = (false, false);
            run.search().await?;
            if let Some(mut best) = run.tune().await?
                && run.stand(&mut best).await?
            {
                best.choose(road)?;
            }
        }
        Proposal::Design(_) => {}
    }
    Ok(())
}
