//! One run of Nsight Compute.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use akg_worker::process::Program;
use rustix::process::{Pid, Signal, kill_process_group};

use super::replay::Job;

/// How long a run may take: the tool starts in seconds, and executes each kernel some ten times.
const PATIENCE: Duration = Duration::from_secs(180);

/// How often it is looked whether it has ended.
const GLANCE: Duration = Duration::from_millis(50);

/// Characters of what a failed run printed that are kept.
const MOST_COMPLAINT: usize = 300;

/// What a run left.
#[derive(Debug)]
pub(super) struct Run {
    /// The tool's output.
    pub(super) counted: String,
    /// The numbers of the launches that were executed, if the process came to its end.
    pub(super) launches: Option<Vec<usize>>,
    /// What the tool and the process printed beside.
    printed: String,
}

impl Run {
    /// The end of what was printed beside, to be put after an explanation.
    pub(super) fn complaint(&self) -> String {
        let text = self.printed.trim();
        let count = text.chars().count();
        let end: String = text.chars().skip(count.saturating_sub(MOST_COMPLAINT)).collect();
        if end.is_empty() { end } else { format!(" ({end})") }
    }
}

/// Lets the tool count while the worker program replays a job.
pub(super) fn run(tool: &Path, metrics: &[String], worker: &Program, job: &Job) -> Result<Run> {
    let cannot = |e| Error::io(format!("cannot run {}", tool.display()), e);
    let directory = tempfile::tempdir().map_err(cannot)?;
    let at = |name: &str| directory.path().join(name);
    let [job_file, launches] = Job::FILES;
    let bytes = serde_json::to_vec(job).map_err(|e| cannot(e.into()))?;
    std::fs::write(at(job_file), bytes).map_err(cannot)?;
    let output = File::create(at("output")).map_err(cannot)?;
    let errors = output.try_clone().map_err(cannot)?;
    let mut child = Command::new(tool)
        .args(["--csv", "--page", "raw", "--print-units", "base"])
        // Clocks and caches as in ordinary runs.
        .args(["--clock-control", "none", "--cache-control", "none"])
        .args(["--profile-from-start", "off"])
        .arg("--log-file")
        .arg(at("counted"))
        .args(["--metrics", &metrics.join(",")])
        .arg(worker.path())
        .args(worker.arguments())
        .arg(directory.path())
        // Numbers with points.
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(errors)
        .process_group(0)
        .spawn()
        .map_err(cannot)?;
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().map_err(cannot)?.is_none() {
        if Instant::now() > deadline {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            let _ = group.map(|group| kill_process_group(group, Signal::KILL));
            let _ = child.wait();
            let seconds = PATIENCE.as_secs();
            let why = format!("Nsight Compute took longer than {seconds} s and was stopped");
            return Err(Error::new(ErrorKind::Timeout, why));
        }
        thread::sleep(GLANCE);
    }
    let read = |name| String::from_utf8_lossy(&std::fs::read(at(name)).unwrap_or_default()).into_owned();
    Ok(Run {
        counted: read("counted"),
        launches: serde_json::from_str(&read(launches)).ok(),
        printed: read("output"),
    })
}
