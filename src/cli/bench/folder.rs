//! The output directory, which is also all that a run needs to go on after it was ended in any way.

use std::fs::{self, File, TryLockError};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use akg::file::read_text;
use akg::{Error, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::problems::Problem;
use super::record::Record;

/// What must stay the same for results to belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Settings {
    pub(super) akg: String,
    /// The version of the judge.
    #[serde(default = "first_judge")]
    pub(super) judge: u32,
    pub(super) root: PathBuf,
    pub(super) dsl: String,
    pub(super) backend: String,
    pub(super) accuracy: akg::Accuracy,
    /// Whether inputs may hold NaN, infinities and the like.
    #[serde(default)]
    pub(super) special_values: bool,
    /// Whether graphs were rewritten before they were designed.
    #[serde(default)]
    pub(super) algebra: bool,
    /// Bytes that the tensors of a module may take.
    pub(super) memory: Option<u64>,
    pub(super) seed: u64,
    pub(super) secret: Option<u64>,
    pub(super) isolation: akg::isolation::IsolationLevel,
    pub(super) baseline: bool,
    pub(super) contest_seconds: f64,
    pub(super) tune_seconds: f64,
    pub(super) seconds_per_problem: f64,
}

/// The judge of runs that do not name its version.
fn first_judge() -> u32 {
    1
}

/// The output directory of a run.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Keeps other runs out, and ends with the process.
    _lock: File,
}

const SETTINGS: &str = "bench.json";
const LOCK: &str = "lock";
const RECORD: &str = "record.json";

impl Folder {
    /// Opens a directory for a run with these settings: a new or an empty one, or with `resume` that of an earlier run,
    /// whose settings are given back.
    ///
    /// # Errors
    /// Also if there is something in the directory already, if its settings are others, or if another run uses it.
    pub(super) fn open(path: &Path, mut settings: Settings, resume: bool) -> Result<(Self, Settings)> {
        let cannot = |what: &str, e| Error::io(format!("cannot {what} {}", path.display()), e);
        fs::create_dir_all(path).map_err(|e| cannot("create", e))?;
        // A run that was killed before it had settings left nothing else.
        let own = [LOCK, "bench.part"];
        let mut entries = fs::read_dir(path).map_err(|e| cannot("list", e))?.flatten();
        let is_empty = entries.all(|e| own.iter().any(|name| e.file_name() == *name));
        let earlier = path.join(SETTINGS);
        if !resume && !is_empty {
            return Err(Error::invalid(format!(
                "{} is not empty; give --resume to go on with the run in it, or name another directory",
                path.display()
            )));
        }
        if !is_empty && !earlier.exists() {
            return Err(Error::invalid(format!(
                "{} holds no run of `akg bench`; name another directory",
                path.display()
            )));
        }
        let lock = File::create(path.join(LOCK)).map_err(|e| cannot("lock", e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Error::invalid(format!("another run uses {}", path.display())));
            }
            Err(TryLockError::Error(e)) => return Err(cannot("lock", e)),
        }
        if is_empty {
            write_whole(&earlier, &to_json(&settings)?)?;
        } else {
            let stored: Settings = read(&earlier)?;
            // What was available then decided the sizes of the problems.
            settings.memory = settings.memory.or(stored.memory);
            settings.agree(&stored)?;
        }
        Ok((
            Self {
                path: path.to_owned(),
                _lock: lock,
            },
            settings,
        ))
    }

    /// Where the files of one problem are.
    pub(super) fn of(&self, problem: &Problem) -> PathBuf {
        self.path.join(problem.id())
    }

    /// The record of a problem that is finished.
    pub(super) fn finished(&self, problem: &Problem) -> Result<Option<Record>> {
        let path = self.of(problem).join(RECORD);
        if path.exists() {
            read(&path).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Finishes a problem: from now on it is not repeated.
    pub(super) fn finish(&self, problem: &Problem, record: &Record) -> Result<()> {
        let directory = self.of(problem);
        fs::create_dir_all(&directory)
            .map_err(|e| Error::io(format!("cannot create {}", directory.display()), e))?;
        write_whole(&directory.join(RECORD), &to_json(record)?)
    }

    /// Writes a file of the whole run.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<()> {
        write_whole(&self.path.join(name), text)
    }
}

impl Settings {
    /// Says what differs from the settings of an earlier run.
    fn agree(&self, stored: &Self) -> Result<()> {
        let fields = |settings: &Self| {
            serde_json::to_value(settings)
                .map_err(|e| Error::unexpected("cannot write settings").caused_by(e))
        };
        let (now, then) = (fields(self)?, fields(stored)?);
        let differ = now.as_object().into_iter().flatten().filter_map(|(name, value)| {
            let earlier = then.get(name).filter(|earlier| *earlier != value)?;
            Some(format!("{name} was {earlier} and is now {value}"))
        });
        let differ: Vec<_> = differ.collect();
        if differ.is_empty() {
            Ok(())
        } else {
            Err(Error::invalid(format!(
                "results of different settings do not belong together: {}; repeat the earlier ones, or name another directory",
                differ.join(", ")
            )))
        }
    }
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string_pretty(value).map_err(|e| Error::unexpected("cannot write JSON").caused_by(e))
}

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|e| {
        Error::invalid(format!(
            "{} is not of this version of akg; name another directory",
            path.display()
        ))
        .caused_by(e)
    })
}

/// Writes a file so that it is there as a whole or not at all, even if the machine stops.
pub(super) fn write_whole(path: &Path, text: &str) -> Result<()> {
    let cannot = |e| Error::io(format!("cannot write {}", path.display()), e);
    let part = path.with_extension("part");
    let mut file = File::create(&part).map_err(cannot)?;
    file.write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(cannot)?;
    fs::rename(&part, path).map_err(cannot)
}
