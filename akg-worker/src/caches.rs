//! The processor's data caches: their sizes, and emptying them between samples.

use std::fs;
use std::path::Path;
use std::sync::Mutex;

use crate::team::Team;

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

/// Bytes that [`Flush`] allocates for `threads` threads.
pub(crate) fn flush_bytes(threads: usize) -> u64 {
    flush_share(threads) as u64 * threads as u64
}

/// Memory that displaces everything else from the caches when it is walked.
pub(crate) struct Flush {
    /// One for each thread.
    shares: Vec<Mutex<Vec<u8>>>,
}

impl Flush {
    pub(crate) fn new(threads: usize) -> Self {
        let share = || Mutex::new(vec![1; flush_share(threads)]);
        Self {
            shares: std::iter::repeat_with(share).take(threads).collect(),
        }
    }

    /// Every thread of the team walks its share.
    pub(crate) fn run(&self, team: &Team) {
        team.everywhere(|thread| {
            let Some(Ok(mut share)) = self.shares.get(thread).map(Mutex::lock) else {
                return;
            };
            for line in share.chunks_mut(LINE) {
                if let Some(byte) = line.first_mut() {
                    *byte = byte.wrapping_add(1);
                }
            }
        });
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
