//! Reading files that somebody names, without waiting for ever and without filling the memory.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::Path;

use crate::error::{Error, Result};

/// The longest text that is read: sources, sketches, graphs with their constants, reports.
pub const MAX_TEXT: u64 = 256 << 20;

/// The longest bundle that is read.
pub const MAX_BUNDLE: u64 = 4 << 30;

/// The bytes of a regular file, of which there are at most `limit`.
///
/// # Errors
/// For a file that is longer, or none: a device, a pipe or a directory may have no end, or nobody who writes to it. If it
/// cannot be read.
pub fn read_bytes(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>> {
    let path = path.as_ref();
    let failed = |e| Error::io(format!("cannot read {}", path.display()), e);
    // Before it is opened, because opening a pipe waits for a writer.
    require_regular(path, &std::fs::metadata(path).map_err(failed)?)?;
    let file = File::open(path).map_err(failed)?;
    require_regular(path, &file.metadata().map_err(failed)?)?;
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(Error::invalid(format!(
            "{} has more than {limit} bytes, which is the limit for such a file",
            path.display()
        )));
    }
    Ok(bytes)
}

/// The text of a regular file of at most [`MAX_TEXT`] bytes.
///
/// # Errors
/// As for [`read_bytes`], and for what is no UTF-8.
pub fn read_text(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    String::from_utf8(read_bytes(path, MAX_TEXT)?)
        .map_err(|e| Error::invalid(format!("{} is no UTF-8", path.display())).caused_by(e))
}

fn require_regular(path: &Path, metadata: &Metadata) -> Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{} is no regular file; only those are read",
        path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn endless_files_are_refused_and_long_ones_named() {
        for endless in ["/dev/zero", "/dev/urandom", "/"] {
            let error = read_text(endless).unwrap_err();
            assert!(error.message().contains("no regular file"), "{error}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("text");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_bytes(&path, 5).unwrap(), b"12345");
        assert!(
            read_bytes(&path, 4)
                .unwrap_err()
                .message()
                .contains("more than 4 bytes")
        );
        assert_eq!(
            read_text(directory.path().join("none")).unwrap_err().kind(),
            ErrorKind::NotFound
        );
        std::fs::write(&path, [0xff]).unwrap();
        assert!(read_text(&path).unwrap_err().message().contains("UTF-8"));
    }
}
