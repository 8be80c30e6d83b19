//! Tables for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use crate::campaign::{Excuse, Fate, Mutant};
use crate::subjects::Subject;
use crate::tokens::Language;

/// Counts of fates.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    refused: usize,
    repeated: usize,
    pub(crate) ran: usize,
    pub(crate) detected: usize,
    excused: usize,
    pub(crate) escaped: usize,
}

impl Tally {
    pub(crate) fn of<'a>(mutants: impl IntoIterator<Item = &'a Mutant>) -> Self {
        let mut tally = Self::default();
        for mutant in mutants {
            match &mutant.fate {
                Fate::Refused => tally.refused += 1,
                Fate::Repeated => tally.repeated += 1,
                Fate::Detected(_) => tally.detected += 1,
                Fate::Excused(_) => tally.excused += 1,
                // Whether it was luck or not, it is wrong and passed.
                Fate::Escaped(_) | Fate::Raced => tally.escaped += 1,
            }
        }
        tally.ran = tally.detected + tally.excused + tally.escaped;
        tally
    }

    /// The share of faults that were detected.
    pub(crate) fn detection(&self) -> f64 {
        self.detected as f64 / (self.detected + self.escaped).max(1) as f64
    }

    fn row(&self, name: &str) -> String {
        format!(
            "| {name} | {} | {} | {} | {} | {} | {} |\n",
            self.refused, self.repeated, self.ran, self.detected, self.excused, self.escaped
        )
    }
}

fn table<K: Ord + ToString>(title: &str, mutants: &[Mutant], key: impl Fn(&Mutant) -> K) -> String {
    let mut groups: BTreeMap<K, Vec<&Mutant>> = BTreeMap::new();
    for mutant in mutants {
        groups.entry(key(mutant)).or_default().push(mutant);
    }
    let mut out = format!(
        "| {title} | refused | repeated | ran | detected | excused | escaped |\n|---|---|---|---|---|---|---|\n"
    );
    for (name, group) in groups {
        out.push_str(&Tally::of(group).row(&name.to_string()));
    }
    out.push_str(&Tally::of(mutants).row("**all**"));
    out
}

/// Writes the text of every mutant that the judge passed into `directory`.
pub(crate) fn keep_passed(subjects: &[Subject], mutants: &[Mutant], directory: &Path) -> io::Result<()> {
    let passed = mutants
        .iter()
        .enumerate()
        .filter(|(_, mutant)| mutant.has_passed());
    for (n, mutant) in passed {
        let what = match mutant.fate {
            Fate::Excused(_) => "excused",
            _ => "escaped",
        };
        let extension = match mutant.fault.language {
            Language::Sketch => "sketch",
            Language::Cpp => "cpp",
        };
        let name = subjects[mutant.subject].name.replace(' ', "-");
        let path = directory.join(format!("{what}-{name}-{n}.{extension}"));
        fs::write(path, &mutant.fault.text)?;
    }
    Ok(())
}

/// Everything about a campaign.
pub(crate) fn report(subjects: &[Subject], mutants: &[Mutant]) -> String {
    let name = |m: &Mutant| subjects[m.subject].name.clone();
    let mut out = String::new();
    let tally = Tally::of(mutants);
    let _ = writeln!(
        out,
        "{} mutants of {} kernels ran; {} of {} faults were detected ({:.2} %).\n",
        tally.ran,
        subjects.len(),
        tally.detected,
        tally.detected + tally.escaped,
        100.0 * tally.detection()
    );
    out.push_str(&table("fault", mutants, |m| m.fault.operator.clone()));
    out.push('\n');
    out.push_str(&table("kernel", mutants, name));
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for mutant in mutants {
        if let Fate::Detected(kind) = &mutant.fate {
            *reasons.entry(kind.name()).or_default() += 1;
        }
    }
    let _ = writeln!(out, "\nDetected as: {reasons:?}");
    for excuse in Excuse::ALL {
        let _ = writeln!(out, "\nExcused, {excuse:?}:");
        list(
            &mut out,
            mutants.iter().filter(|m| m.fate == Fate::Excused(excuse)),
            &name,
        );
    }
    let _ = writeln!(out, "\nEscaped:");
    let escaped = mutants
        .iter()
        .filter(|m| matches!(m.fate, Fate::Escaped(_) | Fate::Raced));
    list(&mut out, escaped, &name);
    out
}

fn list<'a>(out: &mut String, mutants: impl Iterator<Item = &'a Mutant>, name: &dyn Fn(&Mutant) -> String) {
    for mutant in mutants {
        let fault = &mutant.fault;
        let language = match fault.language {
            Language::Sketch => "sketch",
            Language::Cpp => "C++",
        };
        let _ = write!(
            out,
            "- {}, {} in {language}:\n    {}\n    {}\n",
            name(mutant),
            fault.operator,
            fault.before,
            fault.after
        );
        if let Fate::Escaped(inputs) = &mutant.fate {
            let _ = writeln!(out, "    differs on inputs `{inputs}`");
        }
        if mutant.fate == Fate::Raced {
            let _ = writeln!(out, "    a race that did not show");
        }
    }
}
