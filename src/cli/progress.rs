//! Progress on standard error.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::print::escaped;

/// A spinner on a terminal, elsewhere lines with the seconds since the start.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    /// What the steps belong to.
    about: String,
    /// What is shown beside them on a terminal.
    standing: String,
    /// Since when lines count the seconds.
    began: Instant,
}

impl Progress {
    /// Progress that shows unless `quiet`.
    pub(super) fn new(quiet: bool) -> Self {
        let bar = (!quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new_spinner();
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        Self {
            bar,
            about: String::new(),
            standing: String::new(),
            began: Instant::now(),
        }
    }

    /// The same progress, whose steps are those of something; a terminal also shows how all stands.
    pub(super) fn about(&self, what: &str, standing: &str) -> Self {
        Self {
            bar: self.bar.clone(),
            about: format!("{what}: "),
            standing: format!("{standing} · "),
            began: self.began,
        }
    }

    /// A line of output above the spinner.
    pub(super) fn print(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| println!("{line}")),
            None => println!("{line}"),
        }
    }

    /// What is being done now.
    pub(super) fn step(&self, text: &str) {
        match &self.bar {
            Some(bar) => {
                bar.set_message(escaped(&format!("{}{}{text}", self.standing, self.about)).into_owned())
            }
            None => {
                let seconds = self.began.elapsed().as_secs_f64();
                eprintln!("akg: {seconds:.1} s: {}{text}", self.about);
            }
        }
    }

    /// Something that people should know and that is not fatal.
    pub(super) fn warn(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(escaped(&format!("warning: {text}"))),
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
