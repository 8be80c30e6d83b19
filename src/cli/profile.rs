//! `akg profile`: where the time of a kernel goes, as text, numbers and pictures.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use akg::backend::Limits;
use akg::bundle::Bundle;
use akg::profile::{Profile, Subject};
use akg::source::{Artifact, Knobs};
use akg::verdict::Failure;
use akg::verify::Judge;
use akg::{Error, Result, Session, Sketch, Target, Task, blocking, designer, draw};
use clap::Args;

use super::bundle::is_bundle;
use super::device::described;
use super::progress::Progress;
use super::run::write;
use super::store::MemoryArgs;
use super::task::{load, memory_budget, python};
use super::{PythonArgs, SizeArgs, TargetArgs, TaskArgs, parse_duration};

#[derive(Debug, Args)]
pub(super) struct ProfileArgs {
    #[command(flatten)]
    task: TaskArgs,
    #[command(flatten)]
    target: TargetArgs,
    /// Execute nothing: say what is known of a kernel for the device that this JSON file describes, with times from the cost
    /// model. The repository has some in `examples/devices`.
    #[arg(long, value_name = "FILE")]
    device: Option<PathBuf>,
    #[command(flatten)]
    size: SizeArgs,
    #[command(flatten)]
    python: PythonArgs,
    #[command(flatten)]
    memory: MemoryArgs,
    /// Seed of the inputs.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Wall time that one run of the kernel may take.
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    timeout: Duration,
    /// Directory for profile.txt, profile.json, roofline.png and timeline.png.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object instead of text; its form is in docs/profile.md.
    #[arg(long)]
    json: bool,
}

/// A kernel and the device that it is profiled on.
struct Made {
    task: Task,
    sketch: Option<Sketch>,
    knobs: Knobs,
    artifact: Artifact,
    backend: String,
    target: Target,
}

impl ProfileArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let progress = Progress::new(self.json);
        if let Some(out) = &self.out {
            std::fs::create_dir_all(out)
                .map_err(|e| Error::io(format!("cannot create {}", out.display()), e))?;
        }
        let path = Path::new(&self.task.task);
        let made = if is_bundle(path) {
            self.unpack(path).map(Ok)
        } else if let Some(device) = &self.device {
            self.build(described(device)?, &progress)
        } else {
            self.search(&progress)
        };
        let profiled = match made? {
            Ok(made) => self.profile(&made, &progress)?,
            Err(failure) => Err(failure),
        };
        progress.done();
        match profiled {
            Ok(profile) => {
                self.report(&profile)?;
                Ok(ExitCode::SUCCESS)
            }
            Err(failure) => {
                eprintln!("{}: {}", failure.kind.name(), failure.evidence);
                Ok(ExitCode::from(1))
            }
        }
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        limits.time = self.timeout;
        limits
    }

    /// What a bundle holds.
    fn unpack(&self, path: &Path) -> Result<Made> {
        let bundle = Bundle::read(path)?;
        let manifest = bundle.manifest();
        let backend = manifest.requires.backend.clone();
        let target = match &self.device {
            Some(device) => described(device)?,
            None => {
                let devices = blocking::devices(&*akg::registry().backend(&backend)?)?;
                let first = devices.into_iter().next();
                first.ok_or_else(|| {
                    Error::unsupported(format!("backend `{backend}` finds no device on this machine"))
                })?
            }
        };
        manifest
            .requires
            .check(&target.backend, &target.arch, &target.features)?;
        let candidate = bundle.candidate();
        Ok(Made {
            task: bundle.task(),
            sketch: Sketch::parse(bundle.sketch()).ok(),
            knobs: candidate.source.knobs,
            artifact: candidate.artifact,
            backend,
            target,
        })
    }

    /// What the rules design for a device that need not be here.
    fn build(&self, target: Target, progress: &Progress) -> Result<Result<Made, Failure>> {
        let dsl = akg::registry().dsl(&self.target.dsl)?;
        let config = self.python.config();
        let loaded = load(
            &self.task,
            self.size.memory,
            || python(&config, progress),
            progress,
        )?;
        let design = designer::design(&loaded.task, &target)?;
        progress.step("building");
        let source = dsl.lower(&design.sketch, &design.knobs, &target)?;
        Ok(dsl.build(&source, &target)?.map(|artifact| Made {
            task: loaded.task,
            sketch: Some(design.sketch),
            knobs: design.knobs,
            artifact,
            backend: target.backend.clone(),
            target,
        }))
    }

    /// The first kernel that passes, with the knobs that earlier tuning found best.
    fn search(&self, progress: &Progress) -> Result<Result<Made, Failure>> {
        let (dsl, backend) = self.target.find()?;
        let config = self.python.config();
        let memory = self.size.memory.or_else(memory_budget);
        let loaded = load(&self.task, memory, || python(&config, progress), progress)?;
        progress.step("making and verifying a kernel");
        let session = Session::new(dsl.clone(), backend)
            .with_verifier(Judge::standard(self.seed, None, &self.limits()))
            .with_timing(None)
            .with_store(self.memory.open()?.store);
        let outcome = blocking::run(&session, &loaded.task)?;
        let Some(best) = outcome.best() else {
            let mut failures = outcome.attempts.into_iter().rev();
            let failure = failures.find_map(|attempt| attempt.verdict.failure);
            return failure
                .map(Err)
                .ok_or_else(|| Error::unexpected(format!("no candidate was tried: {}", outcome.stopped)));
        };
        Ok(dsl.build(&best.source, &outcome.target)?.map(|artifact| Made {
            sketch: Sketch::parse(&outcome.sketch).ok(),
            knobs: best.source.knobs.clone(),
            artifact,
            backend: self.target.backend.clone(),
            target: outcome.target.clone(),
            task: loaded.task,
        }))
    }

    fn profile(&self, made: &Made, progress: &Progress) -> Result<Result<Profile, Failure>> {
        let subject = Subject {
            task: &made.task,
            artifact: &made.artifact,
            sketch: made.sketch.as_ref().map(|sketch| (sketch, &made.knobs)),
            target: &made.target,
        };
        if self.device.is_some() {
            return Ok(Ok(Profile::estimate(&subject)));
        }
        progress.step("profiling");
        let backend = akg::registry().backend(&made.backend)?;
        blocking::profile(&subject, &*backend, &self.limits(), self.seed)
    }

    /// Prints and saves a profile.
    fn report(&self, profile: &Profile) -> Result<()> {
        let json = serde_json::to_string_pretty(profile)
            .map_err(|e| Error::unexpected("cannot write a profile").caused_by(e))?;
        if self.json {
            println!("{json}");
        } else {
            print!("{profile}");
        }
        let Some(out) = &self.out else {
            return Ok(());
        };
        write(&out.join("profile.json"), &json)?;
        write(&out.join("profile.txt"), &profile.to_string())?;
        let pictures = [
            ("roofline.png", draw::roofline(profile)?),
            ("timeline.png", draw::timeline(profile)?),
        ];
        for (name, bytes) in pictures {
            let path = out.join(name);
            std::fs::write(&path, bytes)
                .map_err(|e| Error::io(format!("cannot write {}", path.display()), e))?;
        }
        Ok(())
    }
}
