//! The device that something is made for: this machine's, or one that a file describes.

use std::path::{Path, PathBuf};

use akg::error::ErrorKind;
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
        match &self.device {
            Some(path) => described(path),
            None => self.found(),
        }
    }

    fn found(&self) -> Result<Target> {
        let devices = blocking::devices(&*akg::registry().backend(&self.backend)?)?;
        devices.into_iter().next().ok_or_else(|| {
            let message = format!(
                "backend `{}` finds no device; describe one with --device",
                self.backend
            );
            Error::new(ErrorKind::NotFound, message)
        })
    }
}

/// The device that a JSON file describes.
pub(super) fn described(path: &Path) -> Result<Target> {
    let at = |e: &dyn std::fmt::Display| Error::invalid(format!("the device in {}: {e}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| at(&e))?;
    serde_json::from_str(&text).map_err(|e| at(&e))
}
