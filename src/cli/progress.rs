//! Progress on standard error.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::ProgressBar;

/// A spinner on a terminal, lines elsewhere.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Progress that shows unless `quiet`.
    pub(super) fn new(quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self { bar }
    }

    /// What is being done now.
    pub(super) fn step(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => eprintln!("akg: {text}"),
        }
    }

    /// Something that people should know and that is not fatal.
    pub(super) fn warn(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(format!("warning: {text}")),
            None => eprintln!("warning: {text}"),
        }
    }

    /// Removes the spinner.
    pub(super) fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
