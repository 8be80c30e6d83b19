//! What holds for backends that bind several calls at a time.

use super::backend::{Judge, call, holds, unfailing, values};
use super::probe::Probe;
use super::report::{Tried, broken, demand, skipped};
use crate::backend::{Cache, Call};
use crate::error::{ErrorKind, Result};

/// Slots that are bound together.
const SLOTS: usize = 3;

/// Elements of each.
const LEN: usize = 1000;

/// What a slot is given, and what is doubled of it.
fn given(slot: usize) -> Vec<f32> {
    values(LEN).iter().map(|v| v + 10.0 * slot as f32).collect()
}

fn calls(placements: [u32; SLOTS]) -> Result<Vec<Call>> {
    let calls = placements.into_iter().enumerate();
    calls
        .map(|(slot, placement)| call(&given(slot), placement))
        .collect()
}

impl Judge<'_> {
    /// Calls go round the slots, each of which keeps what its own call left there.
    pub(super) async fn slots(&self) -> Tried {
        let mut loaded = self.load(Probe::Double).await?;
        if loaded.slots(&call(&given(0), 0)?.dims)? < SLOTS {
            return skipped("it binds one call at a time");
        }
        let doubled = |slot: usize| given(slot).iter().map(|v| 2.0 * v).collect::<Vec<f32>>();
        unfailing(loaded.bind_slots(calls([0; SLOTS])?).await?)?;
        for calls in [1, 0, 1] {
            unfailing(loaded.execute(calls, Cache::Warm).await?)?;
        }
        let wanted = [1, 0];
        let untouched = loaded.untouched(2).await?;
        demand(untouched.is_empty(), || {
            format!("slots {untouched:?} are said to be untouched, but every call wrote its output")
        })?;
        let taken = unfailing(loaded.take_slots(&wanted).await?)?;
        demand(taken.len() == wanted.len(), || {
            format!("of {} slots it gives {}", wanted.len(), taken.len())
        })?;
        for (output, slot) in taken.iter().zip(wanted) {
            holds(output, &doubled(slot))?;
        }
        unfailing(loaded.bind_slots(calls([1; SLOTS])?).await?)?;
        unfailing(loaded.execute(SLOTS as u32 + 1, Cache::Cold).await?)?;
        let first = unfailing(loaded.take().await?)?;
        holds(&first, &doubled(0))?;
        match loaded.bind_slots(calls([0, 1, 0])?).await {
            Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(()),
            other => broken(format!(
                "calls with different placements are not refused: {other:?}"
            )),
        }
    }
}
