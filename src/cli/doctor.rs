//! `akg doctor`: what there is on this machine.

use std::process::ExitCode;

use akg::cuda::CudaBackend;
use akg::python::{Environment, Origin, Package};
use akg::source::{Knobs, LaunchPlan, Source, SourceForm};
use akg::{ErrorKind, Result, Target, blocking};
use clap::Args;

use super::PythonArgs;
use super::progress::Progress;

#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Install what is missing and can be installed: Python with PyTorch and Triton, into akg's cache directory.
    #[arg(long)]
    fix: bool,
    #[command(flatten)]
    python: PythonArgs,
}

impl DoctorArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let progress = Progress::new(false);
        let registry = akg::registry();
        let mut healthy = true;
        let mut say = |name: &str, result: Result<String>| {
            progress.done();
            match result {
                Ok(text) => println!("ok       {name}: {text}"),
                Err(error) => {
                    healthy = false;
                    println!("missing  {name}: {error}");
                }
            }
        };
        let isolation = akg::worker::isolation();
        say("isolation of candidates", isolation.map(|i| i.to_string()));
        for backend in registry.backends() {
            let devices = blocking::devices(&**backend);
            let name = format!("backend {}", backend.name());
            match devices {
                Ok(devices) if devices.is_empty() => say(&name, no_device(backend.name())),
                Ok(devices) => devices.iter().for_each(|d| say(&name, Ok(describe(d)))),
                Err(error) => say(&name, Err(error)),
            }
        }
        // Languages may need what is installed here.
        let config = self.python.config();
        let mut environment = Environment::find(&config);
        if self.fix && environment.is_err() {
            environment = Environment::install(&config, &mut |text| progress.step(text));
        }
        if let Ok(environment) = &environment
            && self.fix
            && environment.origin() == Origin::Installed
        {
            let mut progress = |text: &str| progress.step(text);
            let installed = environment.install_package(Package::Triton, &mut progress);
            say("Triton", installed.map(|()| Package::Triton.version().to_owned()));
        }
        say(
            "Python with PyTorch",
            environment.map(|e| e.describe()).map_err(|e| {
                if self.fix {
                    e
                } else {
                    e.with("to install it", "akg doctor --fix")
                }
            }),
        );
        for dsl in registry.dsls() {
            let probe = Source {
                dsl: dsl.name().to_owned(),
                text: String::new(),
                form: SourceForm::Lowered {
                    plan: LaunchPlan::default(),
                },
                knobs: Knobs::new(),
            };
            let backend = dsl.capability().backends.first().cloned().unwrap_or_default();
            let target = Target::new(backend, std::env::consts::ARCH);
            let built = match dsl.build(&probe, &target) {
                // A language for devices that are not here still has its compiler.
                Err(e) if e.kind() == ErrorKind::Unsupported => {
                    say(&format!("DSL {}", dsl.name()), dsl.toolchain(&target));
                    continue;
                }
                built => built,
            };
            say(
                &format!("DSL {}", dsl.name()),
                built.map(|b| match b {
                    Ok(artifact) => artifact
                        .metadata
                        .get("compiler")
                        .cloned()
                        .unwrap_or_else(|| "builds".to_owned()),
                    Err(failure) => format!("builds nothing: {}", failure.evidence),
                }),
            );
        }
        Ok(if healthy {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(1)
        })
    }
}

/// What is said of a backend that has no device.
fn no_device(backend: &str) -> Result<String> {
    let why = match backend {
        CudaBackend::NAME => akg::cuda::absence(None)?,
        _ => None,
    };
    Ok(why.map_or("no device".to_owned(), |why| format!("no device: {why}")))
}

fn describe(target: &Target) -> String {
    let mut text = format!("{}, {} cores", target.name, target.cores);
    if target.bandwidth > 0.0 {
        text.push_str(&format!(", {:.0} GB/s", target.bandwidth / 1e9));
    }
    for (dtype, rate) in &target.peak {
        text.push_str(&format!(", {dtype} {:.0} GFLOP/s", rate / 1e9));
    }
    text
}
