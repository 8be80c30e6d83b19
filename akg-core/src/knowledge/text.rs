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
    let [before, after] = differing(&fix.before, &fix.after);
    let _ = write!(
        text,
        "\nWhat failed:\n\n```text\n{before}\n```\n\nWhat passed instead"
    );
    if !fix.why.is_empty() {
        let _ = write!(text, " ({})", fix.why.trim_end());
    }
    let _ = write!(text, ":\n\n```text\n{after}\n```\n");
    text
}

/// Lines that are shown around those that differ.
const AROUND: usize = 3;

/// Two texts without the lines that both begin with, and without those that both end with, but for a few.
fn differing(a: &str, b: &str) -> [String; 2] {
    let [a, b]: [Vec<&str>; 2] = [a, b].map(|text| text.trim_end().lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(a, b)| a == b).count();
    let begin = same(&mut a.iter().zip(&b));
    let shorter = a.len().min(b.len());
    let end = same(&mut a.iter().rev().zip(b.iter().rev())).min(shorter - begin);
    let (first, last) = (begin.saturating_sub(AROUND), end.saturating_sub(AROUND));
    [a, b].map(|lines| {
        let mut shown: Vec<&str> = lines.get(first..lines.len() - last).unwrap_or_default().to_vec();
        if first > 0 {
            shown.insert(0, "…");
        }
        if last > 0 {
            shown.push("…");
        }
        shown.join("\n")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_texts_share_is_left_out() {
        let lines = |texts: &[&str]| texts.join("\n");
        let before = lines(&["1", "2", "3", "4", "wrong", "6", "7", "8", "9"]);
        let after = lines(&["1", "2", "3", "4", "right", "more", "6", "7", "8", "9"]);
        assert_eq!(
            differing(&before, &after),
            [
                lines(&["…", "2", "3", "4", "wrong", "6", "7", "8", "…"]),
                lines(&["…", "2", "3", "4", "right", "more", "6", "7", "8", "…"]),
            ]
        );
        assert_eq!(differing("a\nb\n", "a\nb\nb"), ["a\nb", "a\nb\nb"]);
        assert_eq!(differing("", "a"), ["", "a"]);
    }
}
