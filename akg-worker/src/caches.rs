//! The processor's data caches: their sizes, and emptying them before a timed execution.

use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::{fs, thread};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The most that is walked to empty the caches: a walk longer than this costs more than it tells.
const MOST: u64 = 1 << 30;

const LINE: usize = 64;

/// Sizes of the data caches in bytes, nearest first; empty if the system does not say.
pub(crate) fn sizes() -> Vec<u64> {
    let directory = Path::new("/sys/devices/system/cpu/cpu0/cache");
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut caches: Vec<(u64, u64)> = entries
        .filter_map(|entry| {
            let read = |name| fs::read_to_string(entry.path().join(name)).ok();
            let kind = read("type")?;
            let level = read("level")?.trim().parse().ok()?;
            (kind.trim() != "Instruction").then_some((level, parse_size(read("size")?.trim())?))
        })
        .collect();
    caches.sort_unstable();
    caches.into_iter().map(|(_, size)| size).collect()
}

fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix('K') {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix('M') {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// Bytes that each of `threads` threads walks so that nothing else stays in the caches: together twice the last level,
/// each twice the levels of its own.
fn flush_share(threads: usize) -> usize {
    let sizes = sizes();
    let last = sizes.last().copied().unwrap_or(32 << 20);
    let own = sizes.iter().rev().nth(1).copied().unwrap_or(0);
    let threads = threads.max(1) as u64;
    (2 * last / threads).max(2 * own).min(MOST / threads) as usize
}

/// Displaces everything else from the caches by walking memory of this process on all its processors.
///
/// The memory stays for the next time; when several threads flush, one waits for the other.
pub fn flush() {
    /// A processor and what it walks.
    type Share = (CpuSet, Vec<u8>);
    static SHARES: LazyLock<Mutex<Vec<Share>>> = LazyLock::new(|| {
        let processors = processors();
        let bytes = flush_share(processors.len());
        let shares = processors.into_iter().map(|set| (set, vec![1; bytes]));
        Mutex::new(shares.collect())
    });
    let mut shares = SHARES.lock().unwrap_or_else(PoisonError::into_inner);
    thread::scope(|scope| {
        for (processor, share) in shares.iter_mut() {
            scope.spawn(|| {
                // Where a thread cannot be bound, the system spreads them.
                let _ = sched_setaffinity(None, processor);
                walk(share);
            });
        }
    });
}

/// One set for each processor that this process may run on.
fn processors() -> Vec<CpuSet> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let one = |number| {
        let mut set = CpuSet::new();
        set.set(number);
        set
    };
    (0..CpuSet::MAX_CPU)
        .filter(|number| allowed.is_set(*number))
        .map(one)
        .collect()
}

fn walk(memory: &mut [u8]) {
    for line in memory.chunks_mut(LINE) {
        if let Some(byte) = line.first_mut() {
            *byte = byte.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        assert_eq!(parse_size("48K"), Some(48 << 10));
        assert_eq!(parse_size("32M"), Some(32 << 20));
        assert_eq!(parse_size("512"), Some(512));
        assert_eq!(parse_size("big"), None);
    }
}
