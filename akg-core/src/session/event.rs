//! What a session reports while it works.

use std::time::Duration;

use crate::analyst::Recommendation;
use crate::designer::Design;
use crate::pass::Pass;
use crate::source::Source;
use crate::timing::Contest;
use crate::tuner::{Trial, Tuning};
use crate::verdict::Verdict;

/// What a session reports while it works.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A designer proposed a sketch.
    Designed(&'a Design),
    /// A source was written.
    Coded(&'a Source),
    /// A source was built, in this time, or taken from the store.
    Built(Duration),
    /// A candidate was judged, or its verdict taken from the store.
    Judged(&'a Verdict),
    /// Measuring begins, by duels or by a contest: whoever hears this should leave the device alone from here on, and may
    /// take the time that it needs to get there.
    Measuring,
    /// Tuning begins, with so many groups of knobs.
    Tuning(usize),
    /// A configuration challenged the fastest so far.
    Tried(&'a Trial),
    /// Tuning ended.
    Tuned(&'a Tuning),
    /// The analyst recommended a change.
    Recommended(&'a Recommendation),
    /// An attempt to make what passed faster ended.
    Pass(&'a Pass),
    /// A candidate was timed beside its rivals, or its times taken from the store.
    Timed(&'a Contest),
}

/// Receives a session's reports.
pub trait Observer: Send + Sync {
    /// Something happened.
    fn event(&self, event: Event<'_>);
}

impl<F: Fn(Event<'_>) + Send + Sync> Observer for F {
    fn event(&self, event: Event<'_>) {
        self(event);
    }
}
