//! The time that a candidate has for one request, in which its waits for processors do not count.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use akg_core::backend::Limits;

use crate::halt::Halt;

/// The time between two readings of the waits of the candidate's threads. A thread that lives shorter is missed, and its waits with it.
const INTERVAL: Duration = Duration::from_millis(500);

/// The least time until the next reading.
const LEAST_WAIT: Duration = Duration::from_millis(20);

/// The time that a candidate has for one request, and the part of it that is spent.
#[derive(Debug)]
pub struct Allowance<'a> {
    halt: &'a Halt,
    start: Instant,
    time: Duration,
    /// The part of the elapsed time that counts.
    spent: Duration,
    /// When the waits were read.
    read: Instant,
    /// The waits of each thread, by its directory. Requests are many and short: the first reading comes later, and takes
    /// the waits before the request for waits in it.
    waits: HashMap<String, Duration>,
}

impl<'a> Allowance<'a> {
    pub(crate) fn new(halt: &'a Halt, time: Duration) -> Self {
        let start = Instant::now();
        Self {
            halt,
            start,
            time,
            spent: Duration::ZERO,
            read: start,
            waits: HashMap::new(),
        }
    }

    /// The first moment at which to ask for [`extension`](Self::extension).
    pub fn first(&self) -> Instant {
        self.start + self.time.min(INTERVAL)
    }

    /// The next moment at which to ask again. `None` if the time is up, or if the request took [`Limits::WAITING`] times as
    /// much by the clock.
    pub fn extension(&mut self) -> Option<Instant> {
        let (before, now) = (self.read, Instant::now());
        let waits = waits(self.halt);
        // Threads wait beside each other, or one for the other: the longest wait is the candidate's.
        let added = waits
            .iter()
            .map(|(task, wait)| wait.saturating_sub(self.waits.get(task).copied().unwrap_or_default()));
        let waited = added.max().unwrap_or_default();
        self.spent += now.duration_since(before).saturating_sub(waited);
        (self.read, self.waits) = (now, waits);
        let by_clock = self.time.saturating_mul(Limits::WAITING);
        let left = by_clock.checked_sub(now.duration_since(self.start))?;
        let left = self.time.checked_sub(self.spent)?.min(left);
        (!left.is_zero()).then(|| now + left.clamp(LEAST_WAIT, INTERVAL))
    }
}

/// The time that each thread of the candidate has waited for a processor; nothing where the system does not count that.
fn waits(halt: &Halt) -> HashMap<String, Duration> {
    let waited = |task: &str| {
        let stat = fs::read_to_string(format!("{task}/schedstat")).ok()?;
        // Nanoseconds on a processor come first.
        let nanoseconds = stat.split_whitespace().nth(1)?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    };
    let tasks = halt.tasks();
    tasks
        .filter_map(|task| waited(&task).map(|wait| (task, wait)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::thread;

    use rustix::process::Pid;

    use super::*;

    fn shell(script: &str) -> Child {
        Command::new("/bin/sh")
            .args(["-c", script])
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn time_without_waits_counts() {
        // It sleeps.
        let child = shell("exec sleep 100");
        let halt = Halt::new(Pid::from_child(&child));
        assert!(
            Allowance::new(&halt, Duration::from_secs(3600))
                .extension()
                .is_some()
        );
        assert_eq!(Allowance::new(&halt, Duration::ZERO).extension(), None);
        let mut short = Allowance::new(&halt, Duration::from_millis(40));
        let asked = std::iter::from_fn(|| {
            let next = short.extension()?;
            thread::sleep(next.saturating_duration_since(Instant::now()));
            Some(next)
        });
        // The clock alone would allow twenty times as much, and more questions.
        assert!(asked.count() < 10);
        end(child);
    }

    #[test]
    fn waits_for_a_processor_do_not_count() {
        if !fs::exists("/proc/self/schedstat").unwrap() {
            return;
        }
        let cores = thread::available_parallelism().map_or(1, usize::from);
        // Of processes that never rest, each waits for the others; its own ends again and again.
        let others: Vec<Child> = (0..8 * cores).map(|_| shell("while :; do :; done")).collect();
        let child = shell("while :; do sh -c 'n=0; while [ $n -lt 300000 ]; do n=$((n+1)); done'; done");
        let halt = Halt::new(Pid::from_child(&child));
        let mut allowance = Allowance::new(&halt, Duration::from_secs(3600));
        let mut counted = (0..20).map(|_| {
            thread::sleep(INTERVAL);
            let (spent, read) = (allowance.spent, allowance.read);
            assert!(allowance.extension().is_some());
            let counted = allowance.spent.saturating_sub(spent);
            counted.as_secs_f64() / allowance.read.duration_since(read).as_secs_f64()
        });
        // All of an interval counts where a process began and ended within it.
        assert!(counted.any(|share| share < 0.5));
        end(child);
        others.into_iter().for_each(end);
    }
}
