//! Bundles on the command line: made by `run`, and what `show`, `verify` and `export` do with one.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use akg::bundle::{Bundle, ModuleInput, Port};
use akg::expr::Bindings;
use akg::file::read_text;
use akg::python::{ImportedModule, Source as ImportSource};
use akg::session::Outcome;
use akg::source::TensorRole;
use akg::{Error, Result, Session, Verifier as _};

use super::JudgeArgs;
use super::progress::Progress;
use super::report::{Report, TaskReport, bytes, describe, print_speed};
use super::run::write;
use super::task::Loaded;

/// Writes the best candidate of a session as a bundle.
pub(super) fn save(path: &Path, session: &Session, loaded: &Loaded, outcome: &Outcome) -> Result<()> {
    let Some(mut bundle) = session.bundle(&loaded.task, outcome)? else {
        return Ok(());
    };
    if let Some(module) = &loaded.module {
        let text = read_text(&module.path)?;
        bundle = bundle
            .with_module(text, module_inputs(module))?
            .with_call(module.call.clone())?;
    }
    bundle.write(path)
}

/// Where the inputs of an imported module's graph are in the module.
pub(super) fn module_inputs(module: &ImportedModule) -> Vec<ModuleInput> {
    let place = |source: &ImportSource| match source {
        ImportSource::Attribute(path) => ModuleInput::Attribute(path.clone()),
        ImportSource::Argument(position) => ModuleInput::Argument(*position),
        ImportSource::Seed {} => ModuleInput::Seed {},
    };
    module.inputs.iter().map(|input| place(&input.source)).collect()
}

/// Whether a file is a bundle, by its first bytes.
pub(super) fn is_bundle(path: &Path) -> bool {
    // Opening a pipe would wait for somebody who writes to it.
    if !path.is_file() {
        return false;
    }
    let mut first = Vec::new();
    let read = File::open(path).and_then(|file| file.take(16).read_to_end(&mut first));
    read.is_ok() && Bundle::is_bundle(&first)
}

/// Prints what a bundle holds, and with `sources` its texts.
pub(super) fn show(path: &Path, sources: bool) -> Result<()> {
    let bundle = Bundle::read(path)?;
    let manifest = bundle.manifest();
    let (contract, evidence) = (&manifest.contract, bundle.evidence());
    println!(
        "{}: {} kernels in {} on {}",
        manifest.name,
        manifest.plan.launches.len(),
        manifest.dsl,
        manifest.target.name
    );
    println!("  content hash: {}", bundle.content_hash()?);
    println!(
        "  made by akg {}, built by {}",
        manifest.akg,
        manifest.toolchain.get("compiler").map_or("?", |c| c.as_str())
    );
    let port = |port: &Port| {
        let shape: Vec<_> = port.shape.iter().map(ToString::to_string).collect();
        format!(
            "{}: {}[{}] aligned to {}",
            port.name,
            port.dtype,
            shape.join(", "),
            port.align
        )
    };
    for input in &manifest.inputs {
        println!("  takes {}", port(input));
    }
    let tensors = manifest.plan.with_role(TensorRole::Output);
    for (output, (_, tensor)) in manifest.outputs.iter().zip(tensors) {
        let updates = output.updates.as_ref().map_or_else(String::new, |name| {
            let how = if tensor.updates.is_some() {
                ", in place where both are the same memory"
            } else {
                ""
            };
            format!(", new content of {name}{how}")
        });
        println!("  writes {}{updates}", port(output));
    }
    for dim in &manifest.plan.dims {
        let range = contract.ranges.get(dim);
        let range = range.map_or("from 1 on".to_owned(), |r| format!("from {} to {}", r.lo, r.hi));
        let hint = contract
            .hints
            .get(dim)
            .map_or_else(String::new, |v| format!(", tuned for {v}"));
        println!("  dim {dim}: {range}{hint}");
    }
    if let Some(size) = scratch(&bundle, &contract.hints) {
        println!("  scratch memory: {}", bytes(size));
    }
    let features: Vec<_> = manifest.requires.features.iter().map(String::as_str).collect();
    println!(
        "  needs: {}, {} {}",
        manifest.requires.backend,
        manifest.requires.arch,
        features.join(" ")
    );
    for kernel in &evidence.kernels {
        println!("  kernel {}: {}", kernel.name, kernel.operators.join(" + "));
    }
    let verdict = &evidence.verdict;
    println!(
        "  verdict: pass in class {}, {} checks, {} compared",
        verdict.accuracy,
        verdict.checks.len(),
        bytes(verdict.bytes_compared())
    );
    if let Some(error) = verdict.error() {
        println!(
            "  error against f64: rms {:.1e}, max {:.1e}",
            error.rms, error.max
        );
    }
    for gap in &verdict.gaps {
        println!("  not checked: {gap}");
    }
    if let Some(timing) = &evidence.timing {
        print_speed(timing);
    }
    if sources {
        let texts = [
            ("the sketch", bundle.sketch()),
            ("the source", &bundle.candidate().source.text),
        ];
        for (name, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
            println!("\n--- {name}\n{text}");
        }
    }
    Ok(())
}

/// Bytes of scratch tensors under the given dims.
fn scratch(bundle: &Bundle, dims: &Bindings) -> Option<u64> {
    let tensors = bundle.manifest().plan.with_role(TensorRole::Scratch);
    let sizes = tensors.map(|(_, tensor)| {
        let extents = tensor
            .shape
            .iter()
            .map(|e| usize::try_from(e.eval(dims).ok()?).ok());
        let shape: Vec<_> = extents.collect::<Option<_>>()?;
        akg::tensor::byte_len(tensor.dtype, &shape).ok().map(|n| n as u64)
    });
    sizes.sum()
}

/// Judges a bundle's artifact again, on this machine.
pub(super) fn verify(path: &Path, args: &JudgeArgs, report: &mut Report, progress: &Progress) -> Result<()> {
    let bundle = Bundle::read(path)?;
    let manifest = bundle.manifest();
    let task = bundle.task();
    report.task = TaskReport {
        accuracy: manifest.contract.accuracy,
        ..describe(&task, &path.display().to_string())
    };
    report.kernels.clone_from(&bundle.evidence().kernels);
    report.dsl.clone_from(&manifest.dsl);
    report.backend.clone_from(&manifest.requires.backend);
    args.demand_isolation()?;
    let backend = akg::registry().backend(&manifest.requires.backend)?;
    args.demand_sanitizers(&*backend)?;
    let target = akg::blocking::devices(&*backend)?
        .into_iter()
        .next()
        .ok_or_else(|| {
            Error::unsupported(format!(
                "backend `{}` finds no device on this machine",
                backend.name()
            ))
        })?;
    manifest
        .requires
        .check(&target.backend, &target.arch, &target.features)?;
    report.device = Some(target.name.clone());
    progress.step("verifying");
    let judge = args.verifier();
    let verdict = futures::executor::block_on(judge.verify(&bundle.candidate(), &task, &target, &*backend))?;
    report.add_verdict(&verdict);
    Ok(())
}

/// Prints or writes a bundle in another form: `modelnew` or `c`.
pub(super) fn export(path: &Path, form: &str, out: Option<&Path>) -> Result<()> {
    let bundle = Bundle::read(path)?;
    match form {
        "modelnew" => {
            let text = match bundle.manifest().dsl.as_str() {
                "triton" => akg::triton::modelnew(&bundle)?,
                _ => akg::cpu::modelnew(&bundle)?,
            };
            match out {
                Some(file) => write(file, &text),
                None => std::io::stdout()
                    .write_all(text.as_bytes())
                    .map_err(|e| Error::io("cannot print the module", e)),
            }
        }
        "c" => {
            let files = akg::cpp::standalone(&bundle)?;
            let directory = out.map_or_else(|| PathBuf::from("."), Path::to_owned);
            std::fs::create_dir_all(&directory)
                .map_err(|e| Error::io(format!("cannot create {}", directory.display()), e))?;
            for (extension, text) in [("h", &files.header), ("cpp", &files.source)] {
                let file = directory.join(&files.name).with_extension(extension);
                write(&file, text)?;
                println!("{}", file.display());
            }
            Ok(())
        }
        _ => Err(Error::unsupported(format!(
            "a bundle has no form `{form}`; forms are modelnew and c"
        ))),
    }
}
