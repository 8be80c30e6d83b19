//! Ends a command that takes longer than anybody waits.

use std::time::Duration;

/// Ends the program with an error when `limit` is over. What a run found is on disk as it happens, and workers end with the
/// program.
pub(super) fn begin(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        eprintln!(
            "error: the command took longer than {} s\n  help: `--deadline` gives it longer",
            limit.as_secs_f64()
        );
        std::process::exit(2);
    });
}
