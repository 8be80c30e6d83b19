//! Samples of the code that a candidate executes, taken from outside while it stands still.

use std::collections::HashMap;
use std::fs;

use rustix::process::Pid;

use crate::halt::Halt;
use crate::snapshot::Maps;

/// The code that one thread executes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The path of the file that the code is from; empty for code that was made in memory.
    pub file: String,
    /// The path of the file that the last word on the stack points into, which is the caller's for short functions; empty if
    /// that is no code of a file.
    pub caller: String,
}

/// Takes samples of a candidate.
#[derive(Debug)]
pub struct Sampler<'a> {
    halt: &'a Halt,
    /// What was mapped when a process was looked at last.
    maps: HashMap<Pid, Maps>,
}

impl<'a> Sampler<'a> {
    /// A sampler of this candidate.
    pub fn new(halt: &'a Halt) -> Self {
        Self {
            halt,
            maps: HashMap::new(),
        }
    }

    /// The code that each thread of the stopped candidate executes. Threads that wait in the system are left out, and so are
    /// those of which the system does not tell.
    pub fn sample(&mut self) -> Vec<Executed> {
        let tasks: Vec<_> = self.halt.tasks().collect();
        tasks.iter().filter_map(|task| self.executed(task)).collect()
    }

    /// The code that a thread with this directory executes.
    fn executed(&mut self, task: &str) -> Option<Executed> {
        let process = task.strip_prefix("/proc/")?.split('/').next()?;
        let process = Pid::from_raw(process.parse().ok()?)?;
        let (stack, counter) = registers(&fs::read_to_string(format!("{task}/syscall")).ok()?)?;
        let mut word = [0; 8];
        let is_known = process == self.halt.executor() && self.halt.read(stack, &mut word).is_ok();
        let caller = is_known.then(|| self.file(process, u64::from_ne_bytes(word), false));
        Some(Executed {
            file: self.file(process, counter, true)?,
            caller: caller.flatten().unwrap_or_default(),
        })
    }

    /// The file that the code at an address is from. Maps are read again if there is none and an address `must` be code.
    fn file(&mut self, process: Pid, address: u64, must: bool) -> Option<String> {
        let known = self.maps.get(&process).and_then(|maps| maps.code_at(address));
        if let Some(file) = known {
            return Some(file.to_owned());
        }
        if must {
            self.maps.insert(process, Maps::read(process).ok()?);
        }
        self.maps.get(&process)?.code_at(address).map(str::to_owned)
    }
}

/// The stack pointer and the program counter of a stopped thread that is not in a system call, from its file `syscall`.
fn registers(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace();
    let is_in_none = words.next()? == "-1";
    let mut number = || u64::from_str_radix(words.next()?.strip_prefix("0x")?, 16).ok();
    is_in_none.then_some((number()?, number()?))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};
    use std::thread;
    use std::time::Duration;

    use super::*;

    fn shell(script: &str) -> Child {
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", script]).stdin(Stdio::piped());
        shell.spawn().unwrap()
    }

    #[test]
    fn a_busy_process_executes_its_program_and_a_waiting_one_nothing() {
        for (script, is_busy) in [("while :; do :; done", true), ("read x", false)] {
            let mut child = shell(script);
            let halt = Halt::new(Pid::from_child(&child));
            let mut sampler = Sampler::new(&halt);
            let program = fs::read_link("/proc/self/root/bin/sh").unwrap_or_else(|_| "sh".into());
            let program = program.file_name().unwrap().to_string_lossy().into_owned();
            let mut seen = Vec::new();
            for _ in 0..200 {
                halt.go();
                thread::sleep(Duration::from_millis(1));
                halt.stop().unwrap();
                seen.extend(sampler.sample());
                if seen.iter().any(|e| e.file.ends_with(&program)) {
                    break;
                }
            }
            let is_seen = seen.iter().any(|e| e.file.ends_with(&program));
            child.kill().unwrap();
            child.wait().unwrap();
            assert_eq!(is_seen, is_busy, "{seen:?} of {program}");
        }
    }

    #[test]
    fn a_thread_in_a_system_call_has_no_registers() {
        assert_eq!(
            registers("-1 0x7ffc7f9c6570 0x7f2bc88fe1cc\n"),
            Some((0x7ffc7f9c6570, 0x7f2bc88fe1cc))
        );
        assert_eq!(registers("0 0x0 0x7f 0x1 0x0 0x0 0x0 0x7ffc 0x7f2b\n"), None);
        assert_eq!(registers("running\n"), None);
        assert_eq!(registers(""), None);
    }
}
