//! Seeds that once failed.

/// A seed that found a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeptSeed {
    /// The seed.
    pub seed: u64,
    /// What it found.
    pub found: &'static str,
}

/// The seeds that once failed, to be tried before others. What a seed grows into changes with the generator, so each bug
/// has a test of its own as well.
pub fn kept() -> impl Iterator<Item = KeptSeed> {
    let lines = include_str!("kept.txt").lines();
    lines.filter_map(|line| {
        let (seed, found) = line.split_once(' ')?;
        Some(KeptSeed {
            seed: seed.parse().ok()?,
            found,
        })
    })
}
