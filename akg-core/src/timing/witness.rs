//! What the judge itself sees of the machine.

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// What the judge itself sees of the machine while it times.
pub trait Witness: Send {
    /// Time since some fixed instant.
    fn now(&self) -> Duration;

    /// The time of a loop of the judge's own whose work is always the same: it grows when the processor's clock slows
    /// down or others take the processor.
    fn reference(&mut self) -> Duration;

    /// Processor time that a hypervisor has given to others so far, summed over processors; `None` if unknown.
    fn stolen(&mut self) -> Option<Duration>;

    /// Time so far in which any task of the system waited for a processor; `None` if unknown.
    fn waited(&mut self) -> Option<Duration>;
}

/// This machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine;

/// Dependent multiplications in one reference loop: a fraction of a millisecond.
const TURNS: u64 = 100_000;

/// Loops of which the shortest counts, because an interrupt in one says nothing about the machine's speed.
const LOOPS: usize = 3;

/// Length of a tick in `/proc/stat`: `USER_HZ` is 100 on all architectures that akg runs on.
const TICK: Duration = Duration::from_millis(10);

static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Witness for Machine {
    fn now(&self) -> Duration {
        START.elapsed()
    }

    fn reference(&mut self) -> Duration {
        let times = std::iter::repeat_with(|| {
            let start = Instant::now();
            let mut x = black_box(1u64);
            for _ in 0..TURNS {
                x = x
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
            }
            black_box(x);
            start.elapsed()
        });
        times.take(LOOPS).min().unwrap_or_default()
    }

    fn stolen(&mut self) -> Option<Duration> {
        let ticks = stolen_ticks(&std::fs::read_to_string("/proc/stat").ok()?)?;
        Some(TICK * ticks)
    }

    fn waited(&mut self) -> Option<Duration> {
        let micros = waited_micros(&std::fs::read_to_string("/proc/pressure/cpu").ok()?)?;
        Some(Duration::from_micros(micros))
    }
}

/// The eighth number of the line for all processors; see proc_stat(5).
fn stolen_ticks(stat: &str) -> Option<u32> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    all.split_whitespace().nth(7)?.parse().ok()
}

/// The last number of the line for at least one waiting task, in Linux's pressure stall information.
fn waited_micros(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find_map(|line| line.strip_prefix("some "))?;
    some.split_once("total=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_number() {
        let stat =
            "cpu  10132153 290696 3084719 46828483 16683 0 25195 1752 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(stolen_ticks(stat), Some(1752));
        assert_eq!(stolen_ticks("cpu  1 2 3 4\n"), None);
    }
    #[test]
    fn waiting_time_is_the_total() {
        let pressure = "some avg10=8.02 avg60=9.53 avg300=7.29 total=771093117\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(waited_micros(pressure), Some(771_093_117));
        assert_eq!(waited_micros(""), None);
    }
}
