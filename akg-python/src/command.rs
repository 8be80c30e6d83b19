//! Programs that run to their end, with a time limit.

use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use rustix::process::{Pid, Signal, kill_process_group};

/// How much of the output is kept.
const KEPT_LINES: usize = 60;

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) status: ExitStatus,
    /// The last lines of standard output and standard error together.
    pub(crate) output: Vec<String>,
}

impl Finished {
    /// The last line that is not empty.
    pub(crate) fn last_line(&self) -> &str {
        let lines = self.output.iter().rev().map(|l| l.trim());
        lines.into_iter().find(|l| !l.is_empty()).unwrap_or("no output")
    }
}

/// Kills the group when the caller leaves early.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            // Fails only if the group is gone.
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
            let _ = self.0.wait();
        }
    }
}

/// Runs `command` to its end; `on_line` sees its output as it comes.
///
/// # Errors
/// [`ErrorKind::ToolMissing`] if there is no such program, [`ErrorKind::Timeout`] after `limit`.
pub(crate) fn run(command: &mut Command, limit: Duration, on_line: &mut dyn FnMut(&str)) -> Result<Finished> {
    let program = command.get_program().to_string_lossy().into_owned();
    let cannot = |e: std::io::Error| {
        let kind = match e.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::ToolMissing,
            _ => ErrorKind::Io,
        };
        Error::new(kind, format!("cannot run {program}")).caused_by(e)
    };
    let deadline = Instant::now() + limit;
    let (reader, writer) = std::io::pipe().map_err(cannot)?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone().map_err(cannot)?)
        .stderr(writer)
        .process_group(0);
    let mut child = Group(command.spawn().map_err(cannot)?);
    // The command holds the pipe's writing ends, and would keep the reader waiting.
    command.stdout(Stdio::null()).stderr(Stdio::null());

    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        let mut line = Vec::new();
        while matches!(reader.read_until(b'\n', &mut line), Ok(n) if n > 0) {
            if sender
                .send(String::from_utf8_lossy(&line).trim_end().to_owned())
                .is_err()
            {
                break;
            }
            line.clear();
        }
    });
    let mut output = Vec::new();
    loop {
        match lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                on_line(&line);
                output.push(line);
                let extra = output.len().saturating_sub(KEPT_LINES);
                output.drain(..extra);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let message = format!("{program} did not finish within {:.0} s", limit.as_secs_f64());
                return Err(Error::new(ErrorKind::Timeout, message));
            }
        }
    }
    let status = child.0.wait().map_err(cannot)?;
    Ok(Finished { status, output })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_arrives_in_order_and_the_status_is_kept() {
        let mut seen = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; exit 3"]);
        let done = run(&mut command, Duration::from_secs(60), &mut |l| {
            seen.push(l.to_owned())
        })
        .unwrap();
        assert_eq!(seen, ["one", "two"]);
        assert_eq!(done.last_line(), "two");
        assert_eq!(done.status.code(), Some(3));
    }

    #[test]
    fn the_time_limit_ends_the_whole_group() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & sleep 1000"]);
        let error = run(&mut command, Duration::from_millis(50), &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        let missing = run(
            &mut Command::new("/no/such/program"),
            Duration::from_secs(1),
            &mut |_| {},
        );
        assert_eq!(missing.unwrap_err().kind(), ErrorKind::ToolMissing);
    }
}
