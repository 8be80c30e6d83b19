//! The mock driver and its management library as libraries.

use std::path::Path;
use std::process::Command;

/// Builds the mock libraries in a directory, or says why not. Loaded by their paths, they stand for the driver's in that
/// process.
pub(crate) fn build(directory: &Path) -> Result<(), String> {
    library(directory, "libcuda.so", "cuda.c")?;
    library(directory, "libnvidia-ml.so.1", "nvml.c")
}

fn library(directory: &Path, name: &str, source: &str) -> Result<(), String> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mock");
    let output = Command::new("cc")
        .args(["-std=c11", "-O2", "-shared", "-fPIC"])
        .arg(format!("-Wl,-soname,{name}"))
        .arg("-o")
        .arg(directory.join(name))
        .arg(sources.join(source))
        .output()
        .map_err(|_| "no C compiler to build the mock driver".to_owned())?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    Ok(())
}
