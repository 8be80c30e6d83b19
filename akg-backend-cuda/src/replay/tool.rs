//! One run of a tool around a replay.

use std::env;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::IsolationLevel;
use akg_worker::process::Program;
use rustix::process::{Pid, Signal, kill_process_group};

use super::Job;

/// How often it is looked whether a tool has ended.
const GLANCE: Duration = Duration::from_millis(50);

/// Characters of what a failed run printed that are kept.
const MOST_COMPLAINT: usize = 300;

/// Variables that name the directory of the CUDA toolkit.
const HOMES: [&str; 2] = ["CUDA_HOME", "CUDA_PATH"];

/// A tool of NVIDIA's that watches another program.
#[derive(Debug)]
pub(crate) struct Tool {
    /// What people call it.
    pub(crate) title: &'static str,
    /// Its program.
    pub(crate) program: &'static str,
    /// Where it is installed if not on the path; the last part of a directory may be any version.
    pub(crate) places: &'static [&'static str],
    /// How to get it.
    pub(crate) comes_with: &'static str,
    /// How long a run may take.
    pub(crate) patience: Duration,
}

/// What a run left.
#[derive(Debug)]
pub(crate) struct Run {
    /// The tool's output.
    pub(crate) log: String,
    /// The numbers of the launches that were executed, if the process came to its end.
    pub(crate) launches: Option<Vec<usize>>,
    /// What the tool and the process printed beside.
    printed: String,
}

impl Run {
    /// The end of what was printed beside, to be put after an explanation.
    pub(crate) fn complaint(&self) -> String {
        let text = self.printed.trim();
        let count = text.chars().count();
        let end: String = text.chars().skip(count.saturating_sub(MOST_COMPLAINT)).collect();
        if end.is_empty() { end } else { format!(" ({end})") }
    }
}

impl Tool {
    /// # Errors
    /// If candidates must be confined more than what the tool watches can be.
    pub(crate) fn allow(&self, required: IsolationLevel) -> Result<()> {
        if required == IsolationLevel::None {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "{} needs rights that isolation `{required}` takes away from candidates",
            self.title
        )))
    }

    /// The tool: as configured, on the path, in the toolkit, or where it is installed usually, the newest version.
    pub(crate) fn find(&self, configured: Option<&Path>) -> Result<PathBuf> {
        let missing = |message: String| Error::new(ErrorKind::ToolMissing, message);
        let Self {
            title,
            program,
            places,
            comes_with,
            ..
        } = self;
        if let Some(path) = configured {
            return akg_worker::on_path(path)
                .ok_or_else(|| missing(format!("the configured {title}, {}, is no file", path.display())));
        }
        let homes = HOMES.iter().filter_map(env::var_os);
        let mut of_homes = homes.map(|home| Path::new(&home).join("bin").join(program));
        akg_worker::on_path(Path::new(program))
            .or_else(|| of_homes.find(|path| path.is_file()))
            .or_else(|| places.iter().find_map(|place| newest(Path::new(place))))
            .ok_or_else(|| {
                missing(format!(
                    "{title} (`{program}`) is neither on PATH nor in CUDA_HOME/bin nor in {}; {comes_with}",
                    places.join(", ")
                ))
            })
    }

    /// Lets the tool at this path watch the worker program while that replays a job.
    pub(crate) fn run(&self, path: &Path, options: &[&str], worker: &Program, job: &Job) -> Result<Run> {
        let cannot = |e| Error::io(format!("cannot run {}", path.display()), e);
        let directory = tempfile::tempdir().map_err(cannot)?;
        let at = |name: &str| directory.path().join(name);
        let [job_file, launches] = Job::FILES;
        let bytes = serde_json::to_vec(job).map_err(|e| cannot(e.into()))?;
        std::fs::write(at(job_file), bytes).map_err(cannot)?;
        let output = File::create(at("output")).map_err(cannot)?;
        let errors = output.try_clone().map_err(cannot)?;
        let mut child = Command::new(path)
            .args(options)
            .arg("--log-file")
            .arg(at("log"))
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
        let deadline = Instant::now() + self.patience;
        while child.try_wait().map_err(cannot)?.is_none() {
            if Instant::now() > deadline {
                let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
                let _ = group.map(|group| kill_process_group(group, Signal::KILL));
                let _ = child.wait();
                let (title, seconds) = (self.title, self.patience.as_secs());
                let why = format!("{title} took longer than {seconds} s and was stopped");
                return Err(Error::new(ErrorKind::Timeout, why));
            }
            thread::sleep(GLANCE);
        }
        let read = |name| String::from_utf8_lossy(&std::fs::read(at(name)).unwrap_or_default()).into_owned();
        Ok(Run {
            log: read("log"),
            launches: serde_json::from_str(&read(launches)).ok(),
            printed: read("output"),
        })
    }
}

/// The file of this path, in which `*` stands for the directory whose name is the last in order.
fn newest(place: &Path) -> Option<PathBuf> {
    let parent = place.parent()?;
    if !parent.ends_with("*") {
        return place.is_file().then(|| place.to_owned());
    }
    let entries = std::fs::read_dir(parent.parent()?).ok()?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path().join(place.file_name()?)));
    files.filter(|file| file.is_file()).max()
}
