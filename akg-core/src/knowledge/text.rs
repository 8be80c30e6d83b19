//! Articles as text, and the words in it.

use std::fmt::Write as _;

use super::{Article, Body, FixBody, KernelBody};

/// The words of a text in lower case: runs of letters and digits, so that `tl.load` is two and `wrong-values` is.
pub fn words(text: &str) -> Vec<String> {
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect()
}

impl Article {
    /// The article as Markdown, for people and for models.
    pub fn text(&self) -> String {
        match &self.body {
            Body::Kernel(kernel) => of_kernel(kernel),
            Body::Fix(fix) => of_fix(fix),
            Body::Page { text } => text.clone(),
        }
    }
}

fn of_kernel(kernel: &KernelBody) -> String {
    let mut text = format!(
        "Verified in class {} as {} on {}",
        kernel.accuracy, kernel.dsl, kernel.device
    );
    if let Some(seconds) = kernel.seconds {
        let _ = write!(text, ": {:.1} µs", seconds * 1e6);
    }
    if let Some(speedup) = kernel.speedup {
        let _ = write!(text, ", {speedup:.2} times as fast as its fastest rival");
    }
    if kernel.tried > 0 {
        let _ = write!(text, "; {} configurations were tried", kernel.tried);
    }
    let knobs: Vec<String> = kernel
        .knobs
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let _ = write!(
        text,
        ".\n\n```text\n{}\n```\n\n```sketch\n{}\n```\n",
        kernel.graph.trim_end(),
        kernel.sketch.trim_end()
    );
    if !knobs.is_empty() {
        let _ = write!(text, "\nKnobs: {}.\n", knobs.join(", "));
    }
    text
}

fn of_fix(fix: &FixBody) -> String {
    let mut text = format!(
        "It failed with {}:\n\n```text\n{}\n```\n",
        fix.failure.kind.name(),
        fix.failure.evidence.trim_end()
    );
    let _ = write!(
        text,
        "\nWhat failed:\n\n```text\n{}\n```\n\nWhat passed instead",
        fix.before.trim_end()
    );
    if !fix.why.is_empty() {
        let _ = write!(text, " ({})", fix.why.trim_end());
    }
    let _ = write!(text, ":\n\n```text\n{}\n```\n", fix.after.trim_end());
    text
}
