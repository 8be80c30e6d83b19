//! Installation of the pinned environment into the cache.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use rustix::fs::FlockOperation;

use crate::cache;
use crate::command::{self, Finished};
use crate::environment::{Config, Environment, Origin, active, probe, version};
use crate::pins::{DISK_BYTES, OLDEST_PYTHON, Package, Requirements, TORCH};

/// Called with what an installation is doing.
pub type InstallProgress<'a> = dyn FnMut(&str) + 'a;

/// How long an installation may take in all.
const LIMIT: Duration = Duration::from_secs(3600);

/// Written last; an installation without it was interrupted.
const COMPLETE: &str = "akg-complete";

const STUB_MAKER: &str = include_str!("stub_libraries.py");

/// The interpreter of a complete installation.
pub(crate) fn installed(cache: &Path) -> Option<PathBuf> {
    let directory = directory(cache);
    directory.join(COMPLETE).exists().then(|| interpreter(&directory))
}

fn directory(cache: &Path) -> PathBuf {
    let pins = blake3::hash(format!("{TORCH:?}{STUB_MAKER}").as_bytes()).to_hex();
    cache.join(format!("python-{}", pins.get(..16).unwrap_or(&pins)))
}

fn interpreter(directory: &Path) -> PathBuf {
    directory.join("bin/python")
}

impl Environment {
    /// Installs the pinned PyTorch into a virtual environment in the cache directory, unless it is there already. Takes
    /// minutes and about 1.5 GB. What an earlier, interrupted installation left is removed first; processes that
    /// install at the same time wait for each other.
    ///
    /// # Errors
    /// [`ErrorKind::ToolMissing`] without a Python 3.10 with `venv`, or without a C compiler on Linux;
    /// [`ErrorKind::OutOfResources`] if the disk is too small; [`ErrorKind::Io`] with pip's words if it fails.
    pub fn install(config: &Config, progress: &mut InstallProgress<'_>) -> Result<Self> {
        let cache = config.cache_directory()?;
        let target = directory(&cache);
        let _lock = lock(&cache, &target, progress)?;
        if installed(&cache).is_some() {
            match Self::check(&interpreter(&target), Origin::Installed, &cache) {
                Ok(environment) => return Ok(environment),
                Err(e) => progress(&format!("replacing a broken installation: {e}")),
            }
        }
        let base = base_interpreter(config)?;
        if target.exists() {
            fs::remove_dir_all(&target)
                .map_err(|e| Error::io(format!("cannot remove the old {}", target.display()), e))?;
        }
        check_disk(&cache)?;
        let deadline = Instant::now() + LIMIT;
        progress(&format!("creating a virtual environment at {}", target.display()));
        create(&base, &target, deadline)?;
        let python = interpreter(&target);
        for requirements in &TORCH {
            pip(&python, requirements, deadline, progress)?;
        }
        let environment = Self::unchecked(&python, &cache)?;
        progress("importing PyTorch");
        if let Err(why) = environment.try_import()? {
            progress(&format!("standing in for the CUDA libraries ({why})"));
            make_stubs(&python, deadline)?;
            if let Err(why) = environment.try_import()? {
                let message = format!("the installed PyTorch cannot be imported: {why}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        }
        cache::write(&target.join(COMPLETE), environment.torch_version.as_bytes())?;
        Self::check(&python, Origin::Installed, &cache)
    }

    /// Installs `package` beside PyTorch, unless its version is there already.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if akg did not install this environment: it is not akg's to change.
    pub fn install_package(&self, package: Package, progress: &mut InstallProgress<'_>) -> Result<()> {
        let have = self.version_of(package)?;
        if have.as_deref() == Some(package.version()) {
            return Ok(());
        }
        let wanted = format!("{}=={}", package.name(), package.version());
        if self.origin != Origin::Installed {
            let message = format!(
                "{} is not akg's to change; run `{} -m pip install --no-deps {wanted}` in it",
                self.python.display(),
                self.python.display()
            );
            return Err(Error::unsupported(message));
        }
        let _lock = lock(&self.cache, &directory(&self.cache), progress)?;
        pip_install(
            &self.python,
            &["--no-deps", &wanted],
            &wanted,
            Instant::now() + LIMIT,
            progress,
        )
    }

    fn unchecked(python: &Path, cache: &Path) -> Result<Self> {
        let facts = probe(python)?;
        Ok(Self {
            id: facts.id(python),
            python: python.to_owned(),
            python_version: facts.python,
            torch_version: facts.torch.unwrap_or_default(),
            origin: Origin::Installed,
            cache: cache.to_owned(),
            roots: facts.roots,
            // What pip installs is compiled.
            bytecode: None,
        })
    }
}

/// Held while one process changes an installation.
fn lock(cache: &Path, target: &Path, progress: &mut InstallProgress<'_>) -> Result<File> {
    let path = target.with_extension("lock");
    let cannot = |e| Error::io(format!("cannot lock {}", path.display()), e);
    fs::create_dir_all(cache).map_err(cannot)?;
    let file = File::create(&path).map_err(cannot)?;
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        progress("waiting for another process that is installing");
        rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|e| cannot(e.into()))?;
    }
    Ok(file)
}

/// The interpreter that the virtual environment is made from.
fn base_interpreter(config: &Config) -> Result<PathBuf> {
    let named = config
        .python
        .clone()
        .or_else(|| env::var_os("AKG_PYTHON").map(Into::into));
    let mut tried = Vec::new();
    for python in named.into_iter().chain(active()) {
        match probe(&python) {
            Ok(facts) if version(&facts.python).is_some_and(|v| v >= OLDEST_PYTHON) => return Ok(python),
            Ok(facts) => tried.push(format!("{} is Python {}", python.display(), facts.python)),
            Err(e) => tried.push(e.to_string()),
        }
    }
    let (major, minor) = OLDEST_PYTHON;
    let message = format!(
        "installing PyTorch needs a `python3` of version {major}.{minor} or newer on the search path; {}",
        if tried.is_empty() {
            "there is none".into()
        } else {
            tried.join("; ")
        }
    );
    Err(Error::new(ErrorKind::ToolMissing, message))
}

fn check_disk(cache: &Path) -> Result<()> {
    let stat = rustix::fs::statvfs(cache).map_err(|e| {
        Error::io(
            format!("cannot ask for the free space of {}", cache.display()),
            e.into(),
        )
    })?;
    let free = stat.f_bavail * stat.f_frsize;
    if free < DISK_BYTES {
        let gb = |bytes: u64| bytes as f64 / 1e9;
        return Err(Error::new(
            ErrorKind::OutOfResources,
            format!(
                "installing PyTorch needs {:.1} GB in {}, where {:.1} GB are free; free some or set AKG_CACHE to \
                 another disk",
                gb(DISK_BYTES),
                cache.display(),
                gb(free)
            ),
        ));
    }
    Ok(())
}

fn create(base: &Path, target: &Path, deadline: Instant) -> Result<()> {
    let mut command = Command::new(base);
    command.args(["-m", "venv"]).arg(target);
    let done = run(&mut command, deadline, &mut |_| {})?;
    if done.status.success() {
        return Ok(());
    }
    let message = format!(
        "{} cannot make a virtual environment (on Debian and Ubuntu: apt install python3-venv): {}",
        base.display(),
        done.last_line()
    );
    Err(Error::new(ErrorKind::ToolMissing, message))
}

fn pip(
    python: &Path,
    what: &Requirements,
    deadline: Instant,
    progress: &mut InstallProgress<'_>,
) -> Result<()> {
    let mut arguments = what.packages.to_vec();
    if !what.with_dependencies {
        arguments.push("--no-deps");
    }
    pip_install(python, &arguments, what.name, deadline, progress)
}

fn pip_install(
    python: &Path,
    arguments: &[&str],
    name: &str,
    deadline: Instant,
    progress: &mut InstallProgress<'_>,
) -> Result<()> {
    progress(&format!("installing {name}"));
    let mut command = Command::new(python);
    command
        .args([
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar",
            "off",
        ])
        .args(arguments);
    let done = run(&mut command, deadline, &mut |line| {
        if ["Collecting", "Downloading", "Installing"]
            .iter()
            .any(|w| line.starts_with(w))
        {
            progress(line);
        }
    })?;
    if done.status.success() {
        Ok(())
    } else {
        Err(pip_error(name, &done))
    }
}

fn pip_error(name: &str, done: &Finished) -> Error {
    let errors = done
        .output
        .iter()
        .filter(|l| l.contains("ERROR:") || l.contains("error:"));
    let words: Vec<_> = errors.map(String::as_str).collect();
    let words = if words.is_empty() {
        done.last_line().to_owned()
    } else {
        words.join(" ")
    };
    let says = |needles: &[&str]| done.output.iter().any(|l| needles.iter().any(|n| l.contains(n)));
    let (kind, hint) = if says(&["No space left", "Disk quota"]) {
        (
            ErrorKind::OutOfResources,
            "the disk is full; free some space or set AKG_CACHE to another disk",
        )
    } else if says(&[
        "NewConnectionError",
        "NameResolutionError",
        "ReadTimeoutError",
        "ConnectTimeoutError",
        "ProxyError",
    ]) {
        (
            ErrorKind::Io,
            "the package index cannot be reached; check the network, or pip's index and proxy settings",
        )
    } else {
        (
            ErrorKind::Io,
            "run it again, or set AKG_PYTHON to a Python that has PyTorch",
        )
    };
    Error::new(
        kind,
        format!("pip cannot install {name}: {hint}. pip said: {words}"),
    )
}

fn make_stubs(python: &Path, deadline: Instant) -> Result<()> {
    let mut command = Command::new(python);
    command.args(["-c", STUB_MAKER]);
    let done = run(&mut command, deadline, &mut |_| {})?;
    if done.status.success() {
        return Ok(());
    }
    let message = format!(
        "PyTorch needs stand-ins for CUDA's libraries, which cannot be built: {}",
        done.last_line()
    );
    Err(Error::new(ErrorKind::ToolMissing, message))
}

fn run(command: &mut Command, deadline: Instant, on_line: &mut dyn FnMut(&str)) -> Result<Finished> {
    command::run(
        command,
        deadline.saturating_duration_since(Instant::now()),
        on_line,
    )
}
