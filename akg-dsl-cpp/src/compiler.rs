//! Running the system's C++ compiler.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::isolation::Isolation;
use akg_core::target::Target;
use akg_worker::process::{Finished, Program, ResourceLimits};
use akg_worker::{available_memory, on_path};

use crate::config::CppConfig;

/// Programs tried when no compiler is named, in this order.
const CANDIDATES: [&str; 3] = ["c++", "g++", "clang++"];

/// Bytes of compiler output that are kept.
const OUTPUT_LIMIT: usize = 64 << 10;

/// Bytes of a shared object at most.
const OBJECT_LIMIT: u64 = 256 << 20;

/// Bytes of the compiler's files together.
const QUOTA: u64 = 1 << 30;

/// What a text may make the compiler use: GCC takes some 200 MiB for the largest kernels.
const LIMITS: ResourceLimits = ResourceLimits {
    data: None,
    address_space: None,
    file_size: Some(OBJECT_LIMIT),
    total: Some(4 << 30),
    processes: Some(64),
};

/// Flags that make arithmetic what the text says, rounded operator by operator, and let loops be vectorised.
///
/// GCC's elimination of partial redundancies makes branches of what is a choice between values.
const FLAGS: [&str; 12] = [
    "-std=c++17",
    "-O3",
    "-fPIC",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-fno-tree-pre",
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
    /// What contained the compiler, which a text can make read files and use resources.
    pub(crate) isolation: Isolation,
}

/// What is asked of the compiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A shared object.
    Link,
    /// Syntax and types only.
    Check,
}

/// The features of a target that kernels may use, as the target names them.
pub(crate) fn target_features(target: &Target) -> Vec<&'static str> {
    let known = match target.arch.as_str() {
        "x86_64" => X86_FEATURES.as_slice(),
        _ => &[],
    };
    let names = known.iter().map(|(feature, _)| *feature);
    names
        .filter(|feature| target.features.contains(*feature))
        .collect()
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

/// Features as the system and Rust name them, and as compilers do. AVX-512VL is not among them: with it GCC 12 makes plain
/// loads of vectors of 128 and 256 bits of those under a mask that it knows, which read what lies behind a tensor.
const X86_FEATURES: [(&str, &str); 20] = [
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
    ("avx512vbmi", "avx512vbmi"),
    ("avx512vnni", "avx512vnni"),
];

/// The flags for a target.
fn flags(config: &CppConfig, target: &Target) -> Vec<String> {
    let mut flags: Vec<String> = FLAGS.iter().map(|f| (*f).to_owned()).collect();
    flags.extend(target_flags(target));
    flags.extend(config.flags.iter().cloned());
    flags
}

/// This crate's version, and the compiler with its version and flags.
pub(crate) fn identity(config: &CppConfig, target: &Target) -> Result<String> {
    let version = version(&find(config)?, config)?;
    Ok(format!(
        "akg-dsl-cpp {}, {version}, {}",
        env!("CARGO_PKG_VERSION"),
        flags(config, target).join(" ")
    ))
}

/// Compiles `text`, which has so many kernels, in confinement.
pub(crate) fn compile(
    config: &CppConfig,
    target: &Target,
    text: &str,
    kernels: usize,
    mode: Mode,
) -> Result<Compilation> {
    let compiler = find(config)?;
    let flags = flags(config, target);
    let program = program(&compiler, config)
        .args(&flags)
        .args(match mode {
            Mode::Link => ["-shared", "-o", "kernel.so"].as_slice(),
            Mode::Check => &["-fsyntax-only"],
        })
        .file("kernel.cpp", text)
        .arg("kernel.cpp");
    let hundreds = u32::try_from(kernels.div_ceil(100)).unwrap_or(u32::MAX);
    let limit = config.time_limit.saturating_mul(hundreds.max(1));
    let finished = program.run(limit, OUTPUT_LIMIT)?;
    let status = finished.status();
    let object = match mode {
        Mode::Link if status.success() => Some(finished.file("kernel.so", OBJECT_LIMIT)?),
        Mode::Check if status.success() => Some(Vec::new()),
        _ => None,
    };
    let output = finished.output();
    if !status.success() && !finished.exceeded_limits() {
        refuse_exhaustion(&output, status, &compiler)?;
    }
    Ok(Compilation {
        object,
        output,
        flags,
        version: version(&compiler, config)?,
        isolation: finished.isolation().clone(),
    })
}

/// The compiler as a confined program.
fn program(compiler: &Path, config: &CppConfig) -> Program {
    let mut program = Program::new(compiler)
        .installation(compiler)
        .env("LC_ALL", "C")
        .limits(LIMITS)
        .quota(QUOTA)
        .isolation(config.isolation);
    if let Some(worker) = &config.worker {
        program = program.supervisor(worker);
    }
    program
}

/// An error if the compiler failed for want of disk or memory, which is not the text's fault, unless it wanted more
/// memory than any text should.
fn refuse_exhaustion(output: &str, status: ExitStatus, compiler: &Path) -> Result<()> {
    let says = |signs: &[&str]| signs.iter().any(|sign| output.contains(sign));
    let short_of_memory = says(&[
        "out of memory",
        "cannot allocate memory",
        "Cannot allocate memory",
    ]) && LIMITS.total.is_some_and(|limit| available_memory() < limit);
    let exhausted = short_of_memory
        || says(&[
            "No space left on device",
            "Disk quota exceeded",
            "Killed signal terminated",
        ]);
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
    let found = match &named {
        Some(name) => on_path(name),
        None => CANDIDATES.iter().find_map(|name| on_path(Path::new(name))),
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
fn version(compiler: &Path, config: &CppConfig) -> Result<String> {
    let program = program(compiler, config).arg("--version");
    let finished: Finished = program.run(config.time_limit, OUTPUT_LIMIT)?;
    Ok(first_lines(&finished.output(), 1))
}
