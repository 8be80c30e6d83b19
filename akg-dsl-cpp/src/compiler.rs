//! Running the system's C++ compiler.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::target::Target;
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::config::CppConfig;

/// Programs tried when no compiler is named, in this order.
const CANDIDATES: [&str; 3] = ["c++", "g++", "clang++"];

/// Bytes of compiler output that are kept.
const OUTPUT_LIMIT: u64 = 64 << 10;

/// Flags that make arithmetic what the text says, rounded operator by operator, and let loops be vectorised.
const FLAGS: [&str; 11] = [
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-fno-exceptions",
    "-fno-rtti",
    "-w",
    "-fdiagnostics-color=never",
];

/// What the compiler made of a text.
#[derive(Debug)]
pub(crate) struct Compilation {
    /// The shared object, if it was accepted.
    pub(crate) object: Option<Vec<u8>>,
    /// What the compiler wrote.
    pub(crate) output: String,
    /// The flags.
    pub(crate) flags: Vec<String>,
    /// The first line of the compiler's version.
    pub(crate) version: String,
}

/// What is asked of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A shared object.
    Link,
    /// Syntax and types only.
    Check,
}

/// The instruction-set flags of a target.
pub(crate) fn target_flags(target: &Target) -> Vec<String> {
    match target.arch.as_str() {
        "x86_64" => {
            let mut flags: Vec<String> = X86_FEATURES
                .iter()
                .filter(|(feature, _)| target.features.contains(*feature))
                .map(|(_, flag)| format!("-m{flag}"))
                .collect();
            if target.vector_bytes >= 64 && target.features.contains("avx512f") {
                flags.push("-mprefer-vector-width=512".to_owned());
            }
            flags
        }
        _ => Vec::new(),
    }
}

/// Features as the system and Rust name them, and as compilers do.
const X86_FEATURES: [(&str, &str); 21] = [
    ("sse3", "sse3"),
    ("ssse3", "ssse3"),
    ("sse4.1", "sse4.1"),
    ("sse4_1", "sse4.1"),
    ("sse4.2", "sse4.2"),
    ("sse4_2", "sse4.2"),
    ("popcnt", "popcnt"),
    ("avx", "avx"),
    ("avx2", "avx2"),
    ("fma", "fma"),
    ("f16c", "f16c"),
    ("bmi1", "bmi"),
    ("bmi2", "bmi2"),
    ("lzcnt", "lzcnt"),
    ("avx512f", "avx512f"),
    ("avx512bw", "avx512bw"),
    ("avx512cd", "avx512cd"),
    ("avx512dq", "avx512dq"),
    ("avx512vl", "avx512vl"),
    ("avx512vbmi", "avx512vbmi"),
    ("avx512vnni", "avx512vnni"),
];

/// Compiles `text` in a directory of its own, which is removed afterwards.
pub(crate) fn compile(config: &CppConfig, target: &Target, text: &str, mode: Mode) -> Result<Compilation> {
    let compiler = find(config)?;
    let directory = TempDir::with_prefix("akg-cpp-")
        .map_err(|e| Error::io("cannot create a directory for the compiler", e))?;
    let source = directory.path().join("kernel.cpp");
    let object = directory.path().join("kernel.so");
    fs::write(&source, text).map_err(|e| Error::io(format!("cannot write {}", source.display()), e))?;
    let mut flags: Vec<String> = FLAGS.iter().map(|f| (*f).to_owned()).collect();
    flags.extend(target_flags(target));
    flags.extend(config.flags.iter().cloned());
    let mut arguments: Vec<OsString> = flags.iter().map(OsString::from).collect();
    match mode {
        Mode::Link => arguments.extend(["-shared".into(), "-o".into(), object.clone().into_os_string()]),
        Mode::Check => arguments.push("-fsyntax-only".into()),
    }
    arguments.push("kernel.cpp".into());
    let (status, output) = execute(&compiler, &arguments, directory.path(), config.time_limit)?;
    let object = if status.success() && mode == Mode::Link {
        Some(fs::read(&object).map_err(|e| Error::io("cannot read the compiled kernels", e))?)
    } else {
        None
    };
    if !status.success() {
        refuse_exhaustion(&output, status, &compiler)?;
    }
    let accepted_check = status.success() && mode == Mode::Check;
    Ok(Compilation {
        object: if accepted_check { Some(Vec::new()) } else { object },
        output,
        flags,
        version: version(&compiler, config.time_limit)?,
    })
}

/// An error if the compiler failed for want of disk or memory, which is not the text's fault.
fn refuse_exhaustion(output: &str, status: ExitStatus, compiler: &Path) -> Result<()> {
    use std::os::unix::process::ExitStatusExt as _;
    let exhausted = [
        "No space left on device",
        "Disk quota exceeded",
        "out of memory",
        "cannot allocate memory",
        "Cannot allocate memory",
        "Killed signal terminated",
    ]
    .iter()
    .any(|sign| output.contains(sign));
    if exhausted || status.signal().is_some() {
        return Err(Error::new(
            ErrorKind::OutOfResources,
            format!(
                "{} ran out of disk space or memory; free some (TMPDIR chooses where it works): {}",
                compiler.display(),
                first_lines(output, 3)
            ),
        ));
    }
    Ok(())
}

/// The first `count` lines that say something.
pub(crate) fn first_lines(output: &str, count: usize) -> String {
    let lines: Vec<_> = output
        .lines()
        .filter(|l| !l.trim().is_empty())
        .take(count)
        .collect();
    lines.join("\n")
}

fn find(config: &CppConfig) -> Result<PathBuf> {
    let named = config.compiler.clone().or_else(|| {
        std::env::var_os("CXX")
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    });
    let search = |name: &Path| -> Option<PathBuf> {
        if name.components().count() > 1 {
            return name.is_file().then(|| name.to_owned());
        }
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path)
            .map(|directory| directory.join(name))
            .find(|p| p.is_file())
    };
    let found = match &named {
        Some(name) => search(name),
        None => CANDIDATES.iter().find_map(|name| search(Path::new(name))),
    };
    found.ok_or_else(|| {
        let looked_for = match &named {
            Some(name) => format!("`{}`", name.display()),
            None => CANDIDATES.map(|c| format!("`{c}`")).join(", "),
        };
        Error::new(
            ErrorKind::ToolMissing,
            format!(
                "no C++ compiler: looked for {looked_for}; install GCC 9 or Clang 9 or newer (Debian, Ubuntu: `apt install \
                 g++`; Fedora: `dnf install gcc-c++`), or set CXX"
            ),
        )
    })
}

/// The first line that the compiler says about itself.
pub(crate) fn version(compiler: &Path, limit: Duration) -> Result<String> {
    let directory = std::env::temp_dir();
    let (_, output) = execute(compiler, &["--version".into()], &directory, limit)?;
    Ok(first_lines(&output, 1))
}

/// Runs a program in a process group of its own, which is killed if it takes too long. Returns what it wrote, at most
/// [`OUTPUT_LIMIT`] bytes of it.
fn execute(
    program: &Path,
    arguments: &[OsString],
    directory: &Path,
    limit: Duration,
) -> Result<(ExitStatus, String)> {
    let name = program.display();
    // A file takes any amount of output without a reader.
    let cannot_keep = |e| Error::io("cannot keep the compiler's output", e);
    let mut output: File = tempfile::tempfile().map_err(cannot_keep)?;
    let duplicate = || output.try_clone().map_err(cannot_keep);
    let child = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .env("LC_ALL", "C")
        .env("TMPDIR", directory)
        .stdin(Stdio::null())
        .stdout(duplicate()?)
        .stderr(duplicate()?)
        .process_group(0)
        .spawn()
        .map_err(|e| Error::io(format!("cannot run {name}"), e))?;
    let status = wait(child, limit)
        .map_err(|e| Error::io(format!("cannot wait for {name}"), e))?
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Timeout,
                format!("{name} took longer than {} s and was stopped", limit.as_secs()),
            )
        })?;
    let mut bytes = Vec::new();
    output.seek(SeekFrom::Start(0)).map_err(cannot_keep)?;
    output
        .take(OUTPUT_LIMIT)
        .read_to_end(&mut bytes)
        .map_err(cannot_keep)?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Waits for a process that leads its group; kills the group when the time is over and returns `None`.
fn wait(mut child: Child, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if started.elapsed() >= limit {
            if let Some(group) = Pid::from_raw(child.id() as i32) {
                // It may have ended in between.
                let _ = rustix::process::kill_process_group(group, Signal::KILL);
            }
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}
