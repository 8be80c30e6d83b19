//! What each launch takes and uses.

use akg_core::error::Result;
use akg_core::profile::{Observed, Resources};
use akg_core::timing::median;
use akg_core::verdict::Failure;

use super::Engine;
use crate::driver::{self, Event, profiled};

/// How often the caches are emptied before a call that is observed: long enough for the host to enqueue the whole call
/// meanwhile, so that no launch waits for it.
const HEAD_START: u32 = 8;

impl Engine {
    /// Executes the launches one by one, with a mark after each: gives the median time of each, in the order of the plan.
    pub(crate) fn observe(&mut self, calls: u32) -> Result<Result<Vec<Observed>, Failure>> {
        self.bound()?;
        self.context.helpers.prepare_flush()?;
        Ok(self.observe_launches(calls).map_err(|error| self.crashed(&error)))
    }

    fn observe_launches(&mut self, calls: u32) -> driver::Result<Vec<Observed>> {
        let stream = self.context.stream;
        let mut observed = vec![Observed::default(); self.plan.launches.len()];
        let mut numbers = Vec::new();
        for step in self.work.steps() {
            let (kernel, shape) = (step.kernel, step.shape);
            numbers.push(step.number);
            if let Some(observed) = observed.get_mut(step.number) {
                observed.resources = Resources {
                    programs: u64::from(shape.blocks / shape.cluster.max(1)),
                    threads: Some(shape.threads),
                    cluster: Some(shape.cluster.max(1)),
                    registers: Some(kernel.registers()?),
                    spilled_bytes: Some(kernel.local_bytes()?),
                    shared_bytes: Some(kernel.static_shared_bytes()? + shape.shared_bytes),
                };
            }
        }
        let start = Event::new()?;
        let ends = numbers.iter().map(|_| Event::new());
        let ends: Vec<Event> = ends.collect::<driver::Result<_>>()?;
        let mut times = vec![Vec::new(); numbers.len()];
        for call in 0..calls.max(1) {
            for _ in 0..HEAD_START {
                self.context.helpers.flush(stream, call)?;
            }
            // Leaves in the caches what a call leaves there.
            self.work.enqueue(stream)?;
            start.record(stream)?;
            let mut marks = ends.iter();
            self.work
                .enqueue_each(stream, || marks.next().map_or(Ok(()), |mark| mark.record(stream)))?;
            stream.wait()?;
            let mut before = start;
            for (times, end) in times.iter_mut().zip(&ends) {
                times.push(end.since(before)?.as_secs_f64());
                before = *end;
            }
        }
        for (number, times) in numbers.into_iter().zip(times) {
            if let Some(observed) = observed.get_mut(number) {
                observed.seconds = median(&times).unwrap_or(0.0);
            }
        }
        Ok(observed)
    }

    /// Executes the launches one by one, once for warmth and once for a profiler around this process; gives their numbers in
    /// the plan.
    pub(crate) fn replay(&mut self) -> Result<Result<Vec<usize>, Failure>> {
        self.bound()?;
        let stream = self.context.stream;
        let mut once = || {
            self.work.enqueue(stream)?;
            stream.wait()?;
            profiled(|| {
                self.work.enqueue_each(stream, || Ok(()))?;
                stream.wait()
            })
        };
        let replayed = once();
        Ok(match replayed {
            Ok(()) => Ok(self.work.steps().iter().map(|step| step.number).collect()),
            Err(error) => Err(self.crashed(&error)),
        })
    }
}
