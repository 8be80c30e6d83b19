//! The mock driver as a library.

use std::path::Path;
use std::process::Command;

/// Builds the mock driver in a directory, or says why not. Loaded by its path, it stands for the driver in that process.
pub(crate) fn build(directory: &Path) -> Result<(), String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mock/cuda.c");
    let output = Command::new("cc")
        .args([
            "-std=c11",
            "-O2",
            "-shared",
            "-fPIC",
            "-Wl,-soname,libcuda.so",
            "-o",
        ])
        .arg(directory.join("libcuda.so"))
        .arg(&source)
        .output()
        .map_err(|_| "no C compiler to build the mock driver".to_owned())?;
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}");
    Ok(())
}
