//! What was tried and how it went.

use std::collections::BTreeMap;
use std::fmt;

use crate::error::Error;

/// How a rule stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    /// It holds.
    Held,
    /// It does not apply, for this reason.
    Skipped(String),
    /// It does not hold, for this reason.
    Broken(String),
}

/// Something that an implementation must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// What must hold.
    pub name: String,
    /// Whether it does.
    pub standing: Standing,
}

/// How an implementation keeps the rules. `Display` counts, and lists those that are skipped, by reason, and those that
/// are broken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// What was judged.
    pub subject: String,
    /// The rules in the order they were tried.
    pub rules: Vec<Rule>,
}

impl Report {
    pub(super) fn new(subject: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            rules: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, name: impl Into<String>, tried: Tried) {
        let standing = match tried {
            Ok(()) => Standing::Held,
            Err(Deviation::Skipped(why)) => Standing::Skipped(why),
            Err(Deviation::Broken(why)) => Standing::Broken(why),
        };
        let name = name.into();
        self.rules.push(Rule { name, standing });
    }

    /// The number of rules that hold.
    pub fn held(&self) -> usize {
        self.count(|s| *s == Standing::Held)
    }

    /// The number of rules that do not apply.
    pub fn skipped(&self) -> usize {
        self.count(|s| matches!(s, Standing::Skipped(_)))
    }

    /// The number of rules that do not hold.
    pub fn broken(&self) -> usize {
        self.count(|s| matches!(s, Standing::Broken(_)))
    }

    fn count(&self, is: impl Fn(&Standing) -> bool) -> usize {
        self.rules.iter().filter(|r| is(&r.standing)).count()
    }

    /// For tests.
    ///
    /// # Panics
    /// If a rule is broken, or none holds; the message is the report.
    #[track_caller]
    pub fn assert_held(&self) {
        assert!(self.broken() == 0 && self.held() > 0, "{self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, broken, skipped) = (self.held(), self.broken(), self.skipped());
        write!(
            f,
            "{}: {held} rules hold, {broken} are broken, {skipped} do not apply",
            self.subject
        )?;
        let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for rule in &self.rules {
            if let Standing::Skipped(why) = &rule.standing {
                reasons.entry(why).or_default().push(&rule.name);
            }
        }
        for (why, names) in reasons {
            let first = names.first().copied().unwrap_or_default();
            let more = match names.len() - 1 {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            write!(f, "\nskipped: {first}{more}{}", indented(why))?;
        }
        for rule in &self.rules {
            if let Standing::Broken(why) = &rule.standing {
                write!(f, "\nBROKEN: {}{}", rule.name, indented(why))?;
            }
        }
        Ok(())
    }
}

fn indented(text: &str) -> String {
    format!("\n{}", text.trim_end()).replace('\n', "\n    ")
}

/// What trying a rule gives.
pub(super) type Tried<T = ()> = Result<T, Deviation>;

/// Why a rule does not stand.
pub(super) enum Deviation {
    Skipped(String),
    Broken(String),
}

impl From<Error> for Deviation {
    fn from(error: Error) -> Self {
        Deviation::Broken(format!("{error:?}"))
    }
}

pub(super) fn skipped<T>(why: impl Into<String>) -> Tried<T> {
    Err(Deviation::Skipped(why.into()))
}

pub(super) fn broken<T>(why: impl Into<String>) -> Tried<T> {
    Err(Deviation::Broken(why.into()))
}

/// Broken, for the reason that `why` gives, unless `holds`.
pub(super) fn demand(holds: bool, why: impl FnOnce() -> String) -> Tried {
    if holds { Ok(()) } else { broken(why()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tried: Vec<Tried>) -> Report {
        let mut report = Report::new("DSL `x`");
        for (i, tried) in tried.into_iter().enumerate() {
            report.add(format!("rule {i}"), tried);
        }
        report
    }

    #[test]
    fn the_report_says_what_is_broken_and_why() {
        let report = report(vec![
            Ok(()),
            skipped("no dot"),
            broken("got 1\nnot 2"),
            skipped("no dot"),
        ]);
        let expected = "DSL `x`: 1 rules hold, 1 are broken, 2 do not apply\nskipped: rule 1 and 1 more\n    no \
                        dot\nBROKEN: rule 2\n    got 1\n    not 2";
        assert_eq!(report.to_string(), expected);
    }

    #[test]
    #[should_panic(expected = "BROKEN: rule 1")]
    fn a_broken_rule_fails_the_test() {
        report(vec![Ok(()), broken("no")]).assert_held();
    }

    #[test]
    #[should_panic(expected = "0 rules hold")]
    fn skipping_everything_fails_the_test() {
        report(vec![skipped("no")]).assert_held();
    }

    #[test]
    fn what_does_not_apply_is_fine() {
        report(vec![Ok(()), skipped("no")]).assert_held();
    }
}
