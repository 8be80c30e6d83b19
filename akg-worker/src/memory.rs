//! How much memory there is.

use std::fs;

/// Bytes of memory of this machine or, if that is less, that this process's control group may use.
pub fn total() -> u64 {
    let machine = meminfo("MemTotal:").unwrap_or(u64::MAX);
    machine.min(group("memory.max").unwrap_or(u64::MAX))
}

/// Bytes that can be taken without disturbing others.
pub(crate) fn available() -> u64 {
    let machine = meminfo("MemAvailable:").unwrap_or(u64::MAX);
    let in_group = group("memory.max").map_or(u64::MAX, |limit| {
        limit.saturating_sub(group("memory.current").unwrap_or(0))
    });
    machine.min(in_group)
}

fn meminfo(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(field))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// A number of the control group that a container sees as its root.
fn group(file: &str) -> Option<u64> {
    fs::read_to_string(format!("/sys/fs/cgroup/{file}"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn some_but_not_all_memory_is_available() {
        assert!(super::total() > 64 << 20);
        assert!((1..=super::total()).contains(&super::available()));
    }
}
