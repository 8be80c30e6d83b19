//! Which Python to use.

use std::env;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use akg_core::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::cache;
use crate::command;
use crate::install;
use crate::pins::{OLDEST_TORCH, Package};
use crate::sources;

/// How long a question to an interpreter may take; importing torch from a cold disk is slow.
const PROBE_LIMIT: Duration = Duration::from_secs(180);

/// Where to look for Python, and where to install it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Config {
    /// The interpreter to use; nothing else is tried if it is set.
    pub python: Option<PathBuf>,
    /// The cache directory, instead of `$AKG_CACHE` or `akg` in the user's cache directory.
    pub cache: Option<PathBuf>,
    /// How long an import may take, instead of the default of [`PythonOptions`](crate::PythonOptions).
    pub import_timeout: Option<Duration>,
}

impl Config {
    /// The cache directory.
    pub fn cache_directory(&self) -> Result<PathBuf> {
        self.cache.clone().map_or_else(cache::default_directory, Ok)
    }
}

/// How an environment was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// [`Config::python`].
    Configured,
    /// The variable `AKG_PYTHON`.
    Variable,
    /// The active virtual environment, or `python3` on the search path.
    Active,
    /// akg installed it.
    Installed,
}

/// A Python interpreter that has PyTorch.
#[derive(Debug, Clone)]
pub struct Environment {
    pub(crate) python: PathBuf,
    pub(crate) python_version: String,
    pub(crate) torch_version: String,
    pub(crate) origin: Origin,
    pub(crate) cache: PathBuf,
    /// Identifies this very installation.
    pub(crate) id: String,
    /// Where its files are.
    pub(crate) roots: Vec<PathBuf>,
    /// Where its modules are kept compiled if they are not where they lie. No worker can write there.
    pub(crate) bytecode: Option<PathBuf>,
}

/// The variable that tells Python where compiled modules are.
pub(crate) const BYTECODE: &str = "PYTHONPYCACHEPREFIX";

impl Environment {
    /// Finds an environment: the configured one; `AKG_PYTHON`; the active one if it has PyTorch 2.9 or newer; the one
    /// that akg installed.
    ///
    /// # Errors
    /// [`ErrorKind::ToolMissing`] says what was tried, and what was wrong with each.
    pub fn find(config: &Config) -> Result<Self> {
        let cache = config.cache_directory()?;
        let named = config.python.clone().map(|p| (p, Origin::Configured));
        let named = named.or_else(|| env::var_os("AKG_PYTHON").map(|p| (p.into(), Origin::Variable)));
        if let Some((python, origin)) = named {
            return Self::check(&python, origin, &cache);
        }
        let mut tried = Vec::new();
        let mut candidates: Vec<_> = active().into_iter().map(|p| (p, Origin::Active)).collect();
        candidates.extend(install::installed(&cache).map(|p| (p, Origin::Installed)));
        for (python, origin) in candidates {
            match Self::check(&python, origin, &cache) {
                Ok(environment) => return Ok(environment),
                Err(e) => tried.push(format!("\n  {e}")),
            }
        }
        let (major, minor) = OLDEST_TORCH;
        Err(Error::new(
            ErrorKind::ToolMissing,
            format!(
                "no Python with PyTorch {major}.{minor} or newer was found; `akg doctor --fix` installs one, or set \
                 AKG_PYTHON to an interpreter that has it. Tried:{}",
                if tried.is_empty() {
                    " no interpreter".into()
                } else {
                    tried.concat()
                }
            ),
        ))
    }

    /// Whether the interpreter at `python` can be used.
    pub(crate) fn check(python: &Path, origin: Origin, cache: &Path) -> Result<Self> {
        let facts = probe(python)?;
        let unusable = |why: String| {
            Err(Error::new(
                ErrorKind::ToolMissing,
                format!("{} {why}", python.display()),
            ))
        };
        let Some(torch_version) = facts.torch.clone() else {
            return unusable("has no PyTorch".into());
        };
        if version(&torch_version).is_none_or(|v| v < OLDEST_TORCH) {
            let (major, minor) = OLDEST_TORCH;
            return unusable(format!("has PyTorch {torch_version}, older than {major}.{minor}"));
        }
        // Importing takes seconds, so a success is remembered for this very installation.
        let id = facts.id(python);
        let proof = cache.join("checked").join(&id);
        let bytecode = (!facts.compiled).then(|| cache.join("bytecode").join(&id));
        let environment = Self {
            python: python.to_owned(),
            python_version: facts.python.clone(),
            torch_version,
            origin,
            cache: cache.to_owned(),
            id,
            roots: facts.roots.clone(),
            bytecode,
        };
        if !proof.exists() || environment.bytecode.as_ref().is_some_and(|b| !b.exists()) {
            if let Err(why) = environment.try_import()? {
                return unusable(format!("cannot import torch: {why}"));
            }
            // Without the note the next search takes longer, that is all.
            let _ = cache::write(&proof, b"");
        }
        Ok(environment)
    }

    /// Imports torch; the inner error is what Python said. Compiles all that workers import, where that is kept.
    pub(crate) fn try_import(&self) -> Result<Result<(), String>> {
        let mut command = Command::new(&self.python);
        match &self.bytecode {
            None => command.args(["-c", TRIAL]),
            Some(directory) => {
                let script = sources::write(&self.cache)?;
                command
                    .args(["-c", &format!("{COMPILATION}{TRIAL}")])
                    .arg(script.parent().unwrap_or(&script))
                    .env(BYTECODE, directory)
                    .env_remove("PYTHONDONTWRITEBYTECODE")
            }
        };
        let done = command::run(&mut command, PROBE_LIMIT, &mut |_| {})?;
        Ok(if done.status.success() {
            Ok(())
        } else {
            Err(done.last_line().to_owned())
        })
    }

    /// The interpreter.
    pub fn python(&self) -> &Path {
        &self.python
    }

    /// Python's version.
    pub fn python_version(&self) -> &str {
        &self.python_version
    }

    /// PyTorch's version.
    pub fn torch_version(&self) -> &str {
        &self.torch_version
    }

    /// How it was found.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        format!(
            "Python {} with PyTorch {} at {} ({})",
            self.python_version,
            self.torch_version,
            self.python.display(),
            self.origin
        )
    }

    /// Runs a program's text to its end, with this process's rights, and gives the last lines that it printed.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] after `limit`.
    pub fn run(&self, program: &str, arguments: &[&str], limit: Duration) -> Result<Vec<String>> {
        let mut command = Command::new(&self.python);
        command.arg("-c").arg(program).args(arguments);
        Ok(command::run(&mut command, limit, &mut |_| {})?.output)
    }

    /// The installed version of `package`, if it is there.
    pub fn version_of(&self, package: Package) -> Result<Option<String>> {
        let name = package.name();
        let script = format!(
            "import importlib.metadata as m\ntry: print(m.version('{name}'))\nexcept m.PackageNotFoundError: print()"
        );
        let mut command = Command::new(&self.python);
        command.args(["-c", &script]);
        let done = command::run(&mut command, PROBE_LIMIT, &mut |_| {})?;
        let version = done.output.last().map(|l| l.trim().to_owned());
        Ok(version.filter(|v| done.status.success() && !v.is_empty()))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Configured => "configured",
            Origin::Variable => "from AKG_PYTHON",
            Origin::Active => "the active environment",
            Origin::Installed => "installed by akg",
        })
    }
}

/// Shows whether torch can be imported.
const TRIAL: &str = "import torch; torch.ones(2).sum().item()";

/// Compiles the packages that torch consists of, on all processors, and then, by importing it, what else the workers need
/// whose sources are in the directory given as argument.
const COMPILATION: &str = r#"
import compileall, contextlib, importlib.util, re, sys
for name in ("torch", "sympy", "networkx", "mpmath", "numpy", "triton"):
    spec = importlib.util.find_spec(name)
    for directory in spec.submodule_search_locations if spec else []:
        compileall.compile_dir(directory, quiet=2, workers=0, rx=re.compile("/tests?/|/testing/_internal/"))
sys.path.insert(0, sys.argv[1])
with contextlib.suppress(Exception):
    import akg_worker.warm, akg_worker.replay, akg_worker.baseline, torch._inductor.compile_fx
"#;

/// What an interpreter says about itself without importing torch.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Facts {
    pub(crate) python: String,
    pub(crate) torch: Option<String>,
    /// Where torch is and when it was put there.
    stamp: Option<String>,
    /// Whether torch's modules are compiled.
    compiled: bool,
    /// Where its modules and libraries are.
    pub(crate) roots: Vec<PathBuf>,
}

impl Facts {
    /// Identifies this very installation.
    pub(crate) fn id(&self, python: &Path) -> String {
        let identity = format!("{} {} {:?}", python.display(), self.python, self.stamp);
        blake3::hash(identity.as_bytes()).to_hex().to_string()
    }
}

const PROBE: &str = r#"
import importlib.metadata, importlib.util, json, os, platform, sys
torch = stamp = None
compiled = False
spec = importlib.util.find_spec("torch")
if spec is not None and spec.origin:
    stamp = f"{spec.origin} {os.stat(spec.origin).st_mtime_ns}"
    compiled = bool(spec.cached) and os.path.exists(spec.cached)
    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        pass
roots = sorted({p for p in [sys.prefix, sys.base_prefix, *sys.path] if p and os.path.exists(p)})
print(json.dumps({"python": platform.python_version(), "torch": torch, "stamp": stamp, "compiled": compiled, "roots": roots}))
"#;

pub(crate) fn probe(python: &Path) -> Result<Facts> {
    let mut command = Command::new(python);
    // Workers do not get this variable of the caller's.
    command.args(["-c", PROBE]).env_remove(BYTECODE);
    let done = command::run(&mut command, PROBE_LIMIT, &mut |_| {})?;
    let facts = serde_json::from_str(done.last_line());
    match facts {
        Ok(facts) if done.status.success() => Ok(facts),
        _ => Err(Error::new(
            ErrorKind::ToolMissing,
            format!(
                "{} is no working Python 3: {}",
                python.display(),
                done.last_line()
            ),
        )),
    }
}

/// Major and minor number of a version.
pub(crate) fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|n| n.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// The interpreters of the active environment.
pub(crate) fn active() -> Vec<PathBuf> {
    let activated = env::var_os("VIRTUAL_ENV").map(|d| Path::new(&d).join("bin/python"));
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|d| d.join("python3"));
    let mut found: Vec<PathBuf> = activated.into_iter().filter(|p| p.exists()).collect();
    found.extend(on_path.into_iter().find(|p| p.exists()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert_eq!(version("2.15.0+cu132"), Some((2, 15)));
        assert!(version("2.9.1") < version("2.11"));
        assert_eq!(version("nightly"), None);
    }

    #[test]
    fn a_named_interpreter_that_is_none_is_an_error_not_a_fallback() {
        let cache = tempfile::tempdir().unwrap();
        let config = Config {
            python: Some("/bin/false".into()),
            cache: Some(cache.path().into()),
            ..Config::default()
        };
        let error = Environment::find(&config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ToolMissing);
        assert!(error.to_string().contains("/bin/false"), "{error}");
    }
}
