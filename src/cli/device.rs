//! The device that something is made for: this machine's, or one that a file describes.

use std::path::{Path, PathBuf};

use akg::error::ErrorKind;
use akg::file::read_text;
use akg::{Error, Result, Target, blocking};
use clap::Args;

/// Which device a kernel is made for, which need not be here.
#[derive(Debug, Clone, Args)]
pub(super) struct DeviceArgs {
    /// The device's backend.
    #[arg(long, default_value = "cpu")]
    backend: String,
    /// The device that this JSON file describes, instead of the first one that the backend finds. The repository has some in
    /// `examples/devices`.
    #[arg(long, value_name = "FILE")]
    device: Option<PathBuf>,
}

impl DeviceArgs {
    pub(super) fn target(&self) -> Result<Target> {
        target(&self.backend, self.device.as_deref())
    }
}

/// The device that a file describes, or the first one that the backend finds.
pub(super) fn target(backend: &str, file: Option<&Path>) -> Result<Target> {
    if let Some(path) = file {
        return described(path);
    }
    let devices = blocking::devices(&*akg::registry().backend(backend)?)?;
    devices.into_iter().next().ok_or_else(|| {
        let message = format!("backend `{backend}` finds no device; describe one with --device");
        Error::new(ErrorKind::NotFound, message)
    })
}

/// The device that a JSON file describes.
pub(super) fn described(path: &Path) -> Result<Target> {
    let at = |e: &dyn std::fmt::Display| Error::invalid(format!("the device in {}: {e}", path.display()));
    let text = read_text(path)?;
    serde_json::from_str(&text).map_err(|e| at(&e))
}
