//! Profiles as text.

use std::fmt;

use super::{LaunchProfile, Profile};

/// Reasons to wait that are printed at most.
const MOST_STALLS: usize = 3;

/// An amount with a decimal prefix and a unit: `1.5 MB`.
pub fn scaled(value: f64, unit: &str) -> String {
    let prefixes = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match prefixes.iter().find(|(scale, _)| value >= *scale) {
        Some((scale, prefix)) => format!("{:.1} {prefix}{unit}", value / scale),
        None => format!("{value:.0} {unit}"),
    }
}

/// A time with a decimal prefix: `1.5 ms`.
pub fn time(seconds: f64) -> String {
    let prefixes = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs")];
    match prefixes.iter().find(|(scale, _)| seconds >= *scale) {
        Some((scale, unit)) => format!("{:.2} {unit}", seconds / scale),
        None => format!("{:.0} ns", seconds * 1e9),
    }
}

impl fmt::Display for Profile {
    /// A heading, a paragraph for each launch, and the notes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {}: {} {} in {} launches",
            self.name,
            self.target.name,
            time(self.seconds),
            if self.measured { "a call" } else { "estimated" },
            self.launches.len()
        )?;
        let finding = &self.finding;
        writeln!(f, "  bottleneck: {}; {}", finding.bottleneck, finding.evidence)?;
        for launch in &self.launches {
            write!(f, "{launch}")?;
        }
        for note in &self.notes {
            writeln!(f, "  note: {note}")?;
        }
        Ok(())
    }
}

impl fmt::Display for LaunchProfile {
    /// What it took, what it did, what it occupied, what was counted, what holds it back: a line each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "\n  {}: {} ({:.0} %)",
            self.kernel,
            time(self.seconds),
            self.share * 100.0
        )?;
        if !self.doc.is_empty() {
            write!(f, " {}", self.doc)?;
        }
        writeln!(f)?;
        let rate = |amount: f64| {
            if self.seconds > 0.0 {
                amount / self.seconds
            } else {
                0.0
            }
        };
        let (bytes, ops) = (self.memory_bytes(), self.work.ops());
        write!(
            f,
            "    {} to and from memory ({})",
            scaled(bytes, "B"),
            scaled(rate(bytes), "B/s")
        )?;
        if ops > 0.0 {
            let (ops, rate) = (scaled(ops, "op"), scaled(rate(ops), "op/s"));
            write!(f, ", {ops} ({rate})")?;
        }
        writeln!(f)?;
        let resources = &self.resources;
        write!(f, "    {} programs", resources.programs)?;
        let known = [
            ("blocks in each", resources.cluster.filter(|n| *n > 1)),
            ("threads", resources.threads),
            ("registers", resources.registers),
            ("bytes spilled", resources.spilled_bytes),
            ("bytes of shared memory", resources.shared_bytes),
        ];
        for (what, number) in known {
            if let Some(number) = number {
                write!(f, ", {number} {what}")?;
            }
        }
        writeln!(f)?;
        if let Some(occupancy) = &self.occupancy {
            writeln!(
                f,
                "    blocks that fit a core: {}, with {:.0} % of its threads, limited by {}",
                occupancy.blocks,
                occupancy.part * 100.0,
                occupancy.limit
            )?;
        }
        self.counters(f)?;
        writeln!(f, "    {}: {}", self.finding.bottleneck, self.finding.evidence)
    }
}

impl LaunchProfile {
    fn counters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(counters) = &self.counters else {
            return Ok(());
        };
        let mut counted = Vec::new();
        counted.extend(counters.seconds.map(|s| format!("{} when counting", time(s))));
        let amounts = [
            ("read", counters.read_bytes),
            ("written", counters.written_bytes),
            ("through the last cache", counters.cache_bytes),
        ];
        counted.extend(
            amounts
                .into_iter()
                .filter_map(|(what, bytes)| Some(format!("{} {what}", scaled(bytes?, "B")))),
        );
        let parts = [
            ("memory", counters.memory),
            ("last cache", counters.cache),
            ("matrix units", counters.tensor),
            ("issue", counters.issue),
            ("threads in flight", counters.occupancy),
        ];
        counted.extend(
            parts
                .into_iter()
                .filter_map(|(what, part)| Some(format!("{what} {:.0} %", part? * 100.0))),
        );
        writeln!(f, "    counted: {}", counted.join(", "))?;
        let mut stalls: Vec<_> = counters.stalls.iter().collect();
        stalls.sort_by(|a, b| b.1.total_cmp(a.1));
        if !stalls.is_empty() {
            let named = stalls.into_iter().take(MOST_STALLS);
            let named: Vec<_> = named.map(|(name, warps)| format!("{name} {warps:.1}")).collect();
            writeln!(f, "    waiting for each issued: {}", named.join(", "))?;
        }
        Ok(())
    }
}
