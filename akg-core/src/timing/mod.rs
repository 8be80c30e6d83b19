//! Measured speed that can be believed.
//!
//! A [`contest`](contest()) lets [sides](Side) (a candidate, the same candidate again, baselines) take turns in random
//! order on data that is new in every round, and says by how much the candidate is faster, with an interval. How it is
//! kept honest:
//!
//! - **The clock is the judge's.** A batch of calls is timed from outside, once with calls and once with none; the
//!   difference over the number of calls is the time of one. Batches have several lengths, drawn at random: a side whose
//!   time per call depends on the length does something else than its work.
//! - **Slots.** Each timed call has [data](SlotData) and memory of its own, which follow from a secret: nothing that an earlier
//!   call left helps it. Which slots are compared is drawn after the calls.
//! - **Pairs.** A comparison is the median over rounds of the ratio of the two sides' times in the *same* round, so that
//!   whatever changes the machine's speed for longer than a round cancels.
//! - **Processes.** Each round runs in processes of its own where that is cheap, because where its memory lies makes a
//!   process faster or slower than another of the same program.
//! - **A/A.** The candidate takes part twice. What it differs from itself, and how far chance could drive that, is the
//!   noise of this run; a smaller difference is none. Below [one percent](ContestPolicy::resolution) nothing is claimed:
//!   the layout of code and data alone moves times by that much (Mytkowicz et al., Producing wrong data without doing
//!   anything obviously wrong, ASPLOS 2009).
//! - **The machine is watched.** A loop of the judge's own, the hypervisor's account of stolen time and the processor time that
//!   neither was idle nor went to akg and what it started tell rounds in which others used the machine; these are left
//!   out. A run in which too many are, or in which a side drifts against the candidate, is repeated; if that does not help
//!   it claims nothing.
//! - **The device is watched**, where it [says](Witness::device) how fast its clocks are and what holds them back. One that slows
//!   itself down because it is hot or lacks power makes a run claim nothing.
//! - **Timed outputs are verified**: slots at random of the first round, the last and others at random. They are
//!   judged when all rounds are over, so that nothing waits for it that could be timed. The last process is called
//!   [once more](Side::once_more) after that.
//! - **The floor.** A time below what the device needs to move the task's bytes and form its products is
//!   [disbelieved](Floor).

mod assess;
mod contest;
mod device;
mod floor;
mod held;
mod outcome;
mod policy;
mod side;
mod slots;
mod statistics;
mod turn;
mod witness;

pub use contest::contest;
pub use device::{ClockLimit, Reading, Readings, Span};
pub use floor::{Floor, product_flops};
pub use outcome::{Claim, Comparison, Contest, Disturbance, Noise, SideTimes};
pub use policy::{ContestPolicy, Entrants};
pub use side::{LoadedSide, Side, Testimony};
pub use slots::{Check, Returned, SlotData, SlotId, stretches};
pub use statistics::{Interval, Timing, Trend, bootstrap_median, fewest_samples, median, trend};
pub use witness::{Clock, Machine, Usage, Witness};
