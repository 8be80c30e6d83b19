//! Finding the program that serves as worker.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::Isolation;

use crate::process::Program;
use crate::serve::Service;

/// The first argument of a process that is to serve as worker.
pub(crate) const SERVE: &str = "akg-worker-serve";

/// The first argument of a process that is to supervise a program.
pub(crate) const CONFINE: &str = "akg-worker-confine";

const BINARY: &str = "akg-worker";

static OWN_EXECUTABLE_SERVES: AtomicBool = AtomicBool::new(false);

/// Serves as worker, or supervises a program, and ends the process if it was started for that; returns otherwise.
///
/// A program that calls this first in `main`, before it has threads, is its own worker and needs no `akg-worker` binary:
///
/// ```
/// akg_worker::init();
/// // … the program
/// ```
pub fn init() {
    init_with(&[]);
}

/// As [`init`], and serves as other kinds of workers too.
pub fn init_with(services: &[Service]) {
    let mut arguments = env::args_os().skip(1);
    match arguments.next() {
        Some(argument) if argument == SERVE => serve(arguments.next(), services),
        Some(argument) if argument == CONFINE => crate::sandbox::confine(arguments),
        _ => {}
    }
    OWN_EXECUTABLE_SERVES.store(true, Ordering::Relaxed);
}

/// Serves as the kind of worker that is called for.
fn serve(name: Option<OsString>, services: &[Service]) -> ! {
    let Some(name) = name else {
        crate::serve::serve();
    };
    let Some(service) = services.iter().find(|service| name == service.name) else {
        eprintln!(
            "this program cannot serve as worker `{}`: build it with the crate that brings it, of the same version, \
             and hand that to akg::worker::init_with() or call akg::worker::init() first in main",
            name.display()
        );
        std::process::exit(2);
    };
    (service.serve)()
}

/// The worker program: `configured` if given; else the path in the variable `AKG_WORKER`; else the running program if
/// it called [`init`]; else `akg-worker` beside the running program (or one directory up, for test binaries); else
/// `akg-worker` on `PATH`.
///
/// # Errors
/// [`ErrorKind::ToolMissing`] if there is none. A path that was configured but is no file is an error, not passed over.
pub fn find(configured: Option<&Path>) -> Result<Program> {
    let path = path(configured)?;
    Ok(Program::new(&path).arg(SERVE).supervisor(path))
}

/// The isolation that this system offers.
///
/// # Errors
/// As for [`find`].
pub fn isolation() -> Result<Isolation> {
    // Any program shows it.
    let program = Program::new("/bin/sh").args(["-c", ":"]);
    Ok(program.spawn()?.isolation().clone())
}

/// The path of the worker program.
pub(crate) fn path(configured: Option<&Path>) -> Result<PathBuf> {
    let running = env::current_exe().ok();
    let own = OWN_EXECUTABLE_SERVES.load(Ordering::Relaxed);
    let places = Places {
        configured,
        variable: env::var_os("AKG_WORKER").filter(|v| !v.is_empty()),
        own: running.clone().filter(|_| own),
        running,
        path: env::var_os("PATH"),
    };
    places.find()
}

struct Places<'a> {
    configured: Option<&'a Path>,
    variable: Option<OsString>,
    own: Option<PathBuf>,
    running: Option<PathBuf>,
    path: Option<OsString>,
}

impl Places<'_> {
    fn find(&self) -> Result<PathBuf> {
        let missing = |message| Err(Error::new(ErrorKind::ToolMissing, message));
        let configured = self.configured.map(|path| ("the configured worker", path));
        let variable = self
            .variable
            .as_ref()
            .map(|path| ("the worker in AKG_WORKER,", Path::new(path)));
        if let Some((what, path)) = configured.or(variable) {
            if !path.is_file() {
                return missing(format!("{what} {} is no file", path.display()));
            }
            return Ok(path.to_owned());
        }
        if let Some(own) = &self.own {
            return Ok(own.clone());
        }
        let beside = self
            .running
            .iter()
            .flat_map(|exe| exe.ancestors().skip(1).take(2));
        let on_path = self.path.iter().flat_map(env::split_paths);
        beside
            .map(Path::to_owned)
            .chain(on_path)
            .map(|directory| directory.join(BINARY))
            .find(|candidate| candidate.is_file())
            .map_or_else(
                || {
                    let beside = self.running.as_deref().and_then(Path::parent).unwrap_or(Path::new("."));
                    missing(format!(
                        "no worker program found: none is configured, AKG_WORKER is not set, this program does not \
                         call akg::worker::init() first in main, and there is no `{BINARY}` in {} or on PATH; \
                         `cargo install akg-worker` installs it",
                        beside.display()
                    ))
                },
                Ok,
            )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_searched_in_order() {
        let root = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let directory = root.path().join(name);
            std::fs::create_dir_all(&directory).unwrap();
            let file = directory.join(BINARY);
            std::fs::write(&file, "").unwrap();
            file
        };
        let (configured, variable, target, on_path) = (make("a"), make("b"), make("c"), make("d"));
        let running = root.path().join("c/deps/test-123");
        let mut places = Places {
            configured: Some(&configured),
            variable: Some(variable.clone().into()),
            own: Some(running.clone()),
            running: Some(running.clone()),
            path: Some(root.path().join("d").into()),
        };
        assert_eq!(places.find().unwrap(), configured);
        places.configured = None;
        assert_eq!(places.find().unwrap(), variable);
        places.variable = None;
        assert_eq!(places.find().unwrap(), running);
        places.own = None;
        assert_eq!(places.find().unwrap(), target);
        places.running = None;
        assert_eq!(places.find().unwrap(), on_path);
        places.path = None;
        let error = places.find().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ToolMissing);
        for place in ["configured", "AKG_WORKER", "init()", "PATH"] {
            assert!(error.message().contains(place), "{error}");
        }
        places.variable = Some("/no/such/worker".into());
        assert!(places.find().unwrap_err().message().contains("AKG_WORKER"));
    }
}
