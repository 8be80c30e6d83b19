//! The process that a tool watches: executes an artifact once and ends.

mod tool;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};

use akg_core::backend::{Call, Poison};
use akg_core::error::{Error, ErrorKind, Result};
use akg_core::expr::Bindings;
use akg_core::source::Artifact;
use akg_core::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::driver;
use crate::engine::{Context, Engine, Slots};
pub(crate) use tool::{Run, Tool};

/// Where the tensors of a replay lie.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) enum Placing {
    /// Where they were when they were bound, with what was around them.
    AsBound,
    /// Each in an allocation of its own.
    Apart,
}

/// What to execute. The tensors stay where they are.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    device: u32,
    artifact: Artifact,
    dims: Bindings,
    placement: u32,
    poison: Poison,
    placing: Placing,
    /// The files of the inputs, which live as long as the process that made the job.
    inputs: Vec<PathBuf>,
}

impl Job {
    /// The files of a job in its directory: itself, and what was executed.
    const FILES: [&str; 2] = ["job.json", "launches.json"];

    /// A call whose inputs are in shared memory.
    pub(crate) fn new(device: u32, artifact: &Artifact, call: &Call, placing: Placing) -> Result<Self> {
        let path = |input: &Tensor| {
            let path = input.path().map(Path::to_owned);
            path.ok_or_else(|| Error::unexpected("a shared tensor has no file"))
        };
        Ok(Self {
            device,
            artifact: artifact.clone(),
            dims: call.dims.clone(),
            placement: call.placement,
            poison: call.poison,
            placing,
            inputs: call.inputs.iter().map(path).collect::<Result<_>>()?,
        })
    }

    /// Executes it; gives the numbers of the launches in the plan.
    fn replay(self) -> Result<Vec<usize>> {
        let absent = |why: String| Error::new(ErrorKind::NotFound, why);
        let device = driver::device(self.device).map_err(absent)?;
        let open = |path: &PathBuf| {
            File::open(path).map_err(|e| Error::io(format!("cannot open {}", path.display()), e))
        };
        let inputs: Vec<File> = self.inputs.iter().map(open).collect::<Result<_>>()?;
        let context = Context::open(device)?;
        // It was within its limits before.
        let loaded = Engine::load(context, self.artifact, u64::MAX)?;
        let replayed = match loaded {
            Ok(mut engine) => {
                let bound = match self.placing {
                    Placing::AsBound => {
                        let slots = Slots::single();
                        engine.bind(&self.dims, self.placement, self.poison, &slots, &inputs)?
                    }
                    Placing::Apart => engine.bind_apart(&self.dims, &inputs)?,
                };
                match bound {
                    Ok(()) => engine.replay()?,
                    Err(failure) => Err(failure),
                }
            }
            Err(failure) => Err(failure),
        };
        replayed.map_err(|failure| Error::unexpected(failure.evidence))
    }
}

/// Replays the job in this directory and ends the process.
pub(crate) fn serve(directory: &OsString) -> ! {
    let replay = || {
        let [job, launches] = Job::FILES.map(|name| Path::new(directory).join(name));
        let cannot = |e| Error::io(format!("cannot use the job in {}", directory.display()), e);
        let bytes = std::fs::read(job).map_err(cannot)?;
        let job: Job = serde_json::from_slice(&bytes).map_err(|e| cannot(e.into()))?;
        let answer = serde_json::to_vec(&job.replay()?).map_err(|e| cannot(e.into()))?;
        std::fs::write(launches, answer).map_err(cannot)
    };
    let status = match replay() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    };
    std::process::exit(status)
}
