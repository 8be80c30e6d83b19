//! The processes below this one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use rustix::process::{Pid, Signal, WaitOptions};

/// Ids of all processes below this one, however far.
pub(super) fn descendants() -> BTreeSet<i32> {
    let own = std::process::id() as i32;
    let mut found = BTreeSet::new();
    let mut unvisited = vec![own];
    while let Some(pid) = unvisited.pop() {
        match children(pid) {
            Some(children) => unvisited.extend(children.into_iter().filter(|child| found.insert(*child))),
            // It has ended, or the system keeps no such lists.
            None if pid == own => return descendants_by_parents(),
            None => {}
        }
    }
    found
}

/// The children of a process, from the list that most systems keep for each thread.
fn children(pid: i32) -> Option<Vec<i32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
        let list = fs::read_to_string(thread.path().join("children"));
        // A thread may end meanwhile, but the first one is there as long as its process.
        if let Ok(list) = list {
            children.extend(list.split_whitespace().filter_map(|id| id.parse::<i32>().ok()));
        } else if thread.file_name().to_str() == Some(pid.to_string().as_str()) {
            return None;
        }
    }
    Some(children)
}

/// The same, by asking every process of the machine for its parent.
fn descendants_by_parents() -> BTreeSet<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok())
            && let Some(parent) = parent(pid)
        {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = BTreeSet::new();
    let mut unvisited = vec![std::process::id() as i32];
    while let Some(pid) = unvisited.pop() {
        // Ids are read one after the other, so that a reused one could close a circle.
        let new = children.remove(&pid).unwrap_or_default();
        found.extend(&new);
        unvisited.extend(new);
    }
    found
}

/// The second field after the name, which is in parentheses and may hold anything.
fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// Bytes of memory in use and threads of these processes.
pub(super) fn usage(processes: &BTreeSet<i32>) -> (u64, u64) {
    let page = rustix::param::page_size() as u64;
    processes.iter().fold((0, 0), |(bytes, threads), pid| {
        let statm = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
        let resident = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok());
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |d| d.count() as u64);
        (bytes + resident.unwrap_or(0) * page, threads + tasks)
    })
}

/// Kills every process below this one, and waits for their end. Works because this process adopts the children of those
/// that end.
pub(super) fn end() {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => continue,
            // There is none left.
            Err(_) => return,
            Ok(None) => {}
        }
        // One that is stopped starts no others, so that this meets all in the end.
        let mut stopped = BTreeSet::new();
        loop {
            let new: Vec<_> = descendants().difference(&stopped).copied().collect();
            if new.is_empty() {
                break;
            }
            for pid in new {
                signal(pid, Signal::STOP);
                stopped.insert(pid);
            }
        }
        for pid in stopped {
            signal(pid, Signal::KILL);
        }
        // Ended by a signal that is not blocked, or by the end of all.
        let _ = rustix::process::wait(WaitOptions::empty());
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may be gone.
        let _ = rustix::process::kill_process(pid, signal);
    }
}
