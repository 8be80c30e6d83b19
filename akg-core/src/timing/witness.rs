//! What the judge itself sees of the machine.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use super::device::Reading;
use crate::error::Result;

/// What the judge itself sees of the machine while it times.
pub trait Witness: Send {
    /// Time since some fixed instant.
    fn now(&self) -> Duration;

    /// The time of a loop of the judge's own whose work is always the same: it grows when the processor's clock slows
    /// down or others take the processor.
    fn reference(&mut self) -> Duration;

    /// Processor time that a hypervisor has given to others so far, summed over processors; `None` if unknown.
    fn stolen(&mut self) -> Option<Duration>;

    /// Processor time that others have used: everyone but this process and those that it started. `None` if unknown.
    fn others(&mut self) -> Option<Usage>;

    /// What the device says of itself, asked right after it worked; an error if it cannot be asked now. `None` of devices that
    /// say nothing.
    fn device(&mut self) -> Option<Result<Reading>> {
        None
    }
}

/// Processor time that others have used of the processors that this process may run on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usage {
    /// Seconds since some fixed instant, summed over processors. What a hypervisor gave to others is among them. Only
    /// differences mean something.
    pub seconds: f64,
    /// How many processors there are.
    pub processors: usize,
}

/// This machine, if it runs Linux.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine;

/// Dependent multiplications in one reference loop: a fraction of a millisecond.
const TURNS: u64 = 100_000;

/// Loops of which the shortest counts: neither an interrupt in one says something about the machine's speed, nor threads of
/// a side that go on spinning for a millisecond on the other half of this processor's core.
const LOOPS: usize = 16;

/// Length of a tick in `/proc`: `USER_HZ` is 100 on all architectures that akg runs on.
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
        let ticks = stolen_ticks(&fs::read_to_string("/proc/stat").ok()?)?;
        Some(TICK * ticks)
    }

    fn others(&mut self) -> Option<Usage> {
        others(Path::new("/proc"), self.now())
    }
}

/// Nothing but the time: for devices of whose speed this machine's processors say nothing, and which nobody else uses.
#[derive(Debug, Clone, Copy, Default)]
pub struct Clock;

impl Witness for Clock {
    fn now(&self) -> Duration {
        START.elapsed()
    }

    fn reference(&mut self) -> Duration {
        // No loop, so nothing that could change.
        Duration::from_millis(1)
    }

    fn stolen(&mut self) -> Option<Duration> {
        None
    }

    fn others(&mut self) -> Option<Usage> {
        None
    }
}

/// The eighth number of the line for all processors; see proc_stat(5).
fn stolen_ticks(stat: &str) -> Option<u32> {
    let all = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    all.split_whitespace().nth(7)?.parse().ok()
}

/// What is neither idle time nor this process's or its descendants', at the time `now`. Idle time is what the kernel
/// measures; the times in which processors were used are samples, one a tick.
fn others(proc: &Path, now: Duration) -> Option<Usage> {
    let allowed = allowed_processors(&fs::read_to_string(proc.join("self/status")).ok()?)?;
    let (idle, processors) = idle_ticks(&fs::read_to_string(proc.join("stat")).ok()?, &allowed)?;
    let own = own_ticks(proc)?;
    let ticks = (idle + own) as f64;
    Some(Usage {
        seconds: processors as f64 * now.as_secs_f64() - ticks * TICK.as_secs_f64(),
        processors,
    })
}

/// First and last of each range in a list like `0-3,8`, which cpusets and affinity leave to a process.
fn allowed_processors(status: &str) -> Option<Vec<(usize, usize)>> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let range = |text: &str| {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    list.trim().split(',').map(range).collect()
}

/// The ticks in which `allowed` processors were idle, and how many these are; `None` if nothing is counted.
fn idle_ticks(stat: &str, allowed: &[(usize, usize)]) -> Option<(u64, usize)> {
    let (mut idle, mut processors) = (0, 0);
    for line in stat.lines().filter_map(|line| line.strip_prefix("cpu")) {
        let mut fields = line.split(' ');
        let Some(number) = fields.next().and_then(|n| n.parse::<usize>().ok()) else {
            continue;
        };
        if allowed
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&number))
        {
            let ticks: Vec<u64> = fields.map_while(|field| field.parse().ok()).collect();
            idle += ticks.get(3)? + ticks.get(4)?;
            processors += 1;
        }
    }
    (idle > 0).then_some((idle, processors))
}

/// Ticks that this process used, those that it started, and so on; `None` if the kernel does not say what it started,
/// being built without CONFIG_PROC_CHILDREN.
fn own_ticks(proc: &Path) -> Option<u64> {
    fs::read_to_string(proc.join("thread-self/children")).ok()?;
    let mut ticks = 0;
    let mut open = vec!["self".to_owned()];
    while let Some(process) = open.pop() {
        let directory = proc.join(&process);
        // A process may end while it is looked at.
        match fs::read_to_string(directory.join("stat")) {
            Ok(stat) => ticks += used_ticks(&stat)?,
            Err(_) if process == "self" => return None,
            Err(_) => continue,
        }
        for task in fs::read_dir(directory.join("task"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            open.extend(children.split_whitespace().map(str::to_owned));
        }
    }
    Some(ticks)
}

/// What a process used itself, and its children that ended: the numbers 14 to 17 of proc_pid_stat(5), of which the second
/// is the program's name in parentheses, which may contain anything.
fn used_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let numbers = fields.split_whitespace().skip(11).take(4);
    let numbers: Vec<u64> = numbers.map_while(|n| n.parse().ok()).collect();
    (numbers.len() == 4).then(|| numbers.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  10132153 290696 3084719 46828483 16683 0 25195 1752 0 0\n\
        cpu0 1 2 3 400 50 6 7 8 9 10\n\
        cpu1 1 2 3 1000 0 6 7 8 9 10\n\
        cpu2 1 2 3 2000 0 6 7 8 9 10\n\
        intr 46597534 0\n";

    #[test]
    fn stolen_time_is_the_eighth_number() {
        assert_eq!(stolen_ticks(STAT), Some(1752));
        assert_eq!(stolen_ticks("cpu  1 2 3 4\n"), None);
    }

    #[test]
    fn only_processors_that_this_process_may_use_count() {
        let allowed =
            |list: &str| allowed_processors(&format!("Name:\takg\nCpus_allowed_list:\t{list}\nMems: 1\n"));
        assert_eq!(allowed("0-1,6"), Some(vec![(0, 1), (6, 6)]));
        assert_eq!(allowed_processors("Name: akg\n"), None);
        assert_eq!(idle_ticks(STAT, &[(0, 1)]), Some((1450, 2)));
        assert_eq!(idle_ticks(STAT, &[(0, 0), (2, 9)]), Some((2450, 2)));
        // Some sandboxes have the file and count nothing.
        assert_eq!(
            idle_ticks("cpu  0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0\n", &[(0, 0)]),
            None
        );
    }

    /// A `/proc` of two processors that were idle for 14.5 s, in which this process has used a second, a thread of it has
    /// started a process that has used two, and that one another that has used four; another one has gone meanwhile.
    fn machine() -> tempfile::TempDir {
        let machine = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = machine.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let stat = |own: u64, ended: u64| {
            format!("9 (a) name) S 1 9 9 0 -1 4194560 1 2 3 4 {own} 20 {ended} 30 20 0 1 0 700 800 900")
        };
        write("stat", STAT);
        write("self/status", "Cpus_allowed_list:\t0-1\n");
        write("self/stat", &stat(40, 10));
        write("thread-self/children", "11 99 ");
        write("self/task/9/children", "");
        write("self/task/10/children", "11 99 ");
        write("11/stat", &stat(150, 0));
        write("11/task/11/children", "12");
        write("12/stat", &stat(0, 350));
        write("12/task/12/children", "");
        write("13/stat", &stat(1_000_000, 0));
        machine
    }

    #[test]
    fn others_used_what_is_neither_idle_nor_of_this_process_and_its_descendants() {
        let machine = machine();
        let used = others(machine.path(), Duration::from_secs(20)).unwrap();
        assert_eq!(used.processors, 2);
        assert!(
            (used.seconds - (2.0 * 20.0 - 14.5 - 7.0)).abs() < 1e-9,
            "{used:?}"
        );
        fs::remove_file(machine.path().join("thread-self/children")).unwrap();
        assert_eq!(others(machine.path(), Duration::from_secs(20)), None);
    }

    #[test]
    fn what_this_process_started_is_its_own() {
        let proc = Path::new("/proc");
        let Some(before) = own_ticks(proc) else {
            eprintln!("skipped: this system does not say what processes used");
            return;
        };
        let alone = || used_ticks(&fs::read_to_string("/proc/self/stat").unwrap()).unwrap();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        let counted = std::iter::repeat_with(|| (own_ticks(proc).unwrap(), alone()))
            .take_while(|_| child.try_wait().unwrap().is_none())
            .find(|(all, alone)| *all >= alone + 5);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(counted.is_some());
        // It stays so when it has ended.
        assert!(own_ticks(proc).unwrap() >= before + 5);
    }
}
