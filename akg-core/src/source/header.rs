//! Launch plans at the head of hand-written sources.

use super::LaunchPlan;
use crate::error::{Error, Result};

/// How a language writes a launch plan at the head of a hand-written source: as JSON, in comments of which the first begins
/// with `akg-launch:`.
#[derive(Debug, Clone, Copy)]
pub struct LaunchHeader {
    /// The language, for people.
    pub language: &'static str,
    /// What begins a comment that ends with its line.
    pub comment: &'static str,
    /// The language whose identifiers the kernels' names must be.
    pub identifiers: &'static str,
    /// The command that prints such a header.
    pub printed_by: &'static str,
}

impl LaunchHeader {
    /// What begins the first line.
    pub fn marker(&self) -> String {
        format!("{} akg-launch:", self.comment)
    }

    /// The launch plan at the head of `text`.
    ///
    /// # Errors
    /// What is missing or wrong about it, and how to get one.
    pub fn read(&self, text: &str) -> Result<LaunchPlan> {
        let Self {
            language, comment, ..
        } = self;
        let (marker, how) = (self.marker(), self.how());
        let mut lines = text.lines().skip_while(|l| l.trim().is_empty());
        let first = lines
            .next()
            .and_then(|l| l.trim().strip_prefix(marker.as_str()))
            .ok_or_else(|| {
                Error::invalid(format!(
                    "a {language} source begins with its launch plan, `{marker} {{...}}`; {how}"
                ))
            })?;
        let mut json = first.to_owned();
        for line in lines.map_while(|l| l.trim().strip_prefix(comment)) {
            json.push('\n');
            json.push_str(line);
        }
        let mut values = serde_json::Deserializer::from_str(&json).into_iter::<LaunchPlan>();
        let plan = match values.next() {
            Some(Ok(plan)) => plan,
            Some(Err(e)) => {
                return Err(Error::invalid(format!(
                    "the launch plan at the head of the {language} source is wrong: {e}; {how}"
                )));
            }
            None => {
                return Err(Error::invalid(format!(
                    "nothing follows `{marker}` at the head of the {language} source; {how}"
                )));
            }
        };
        self.check(&plan)?;
        Ok(plan)
    }

    /// The header for a plan.
    ///
    /// # Errors
    /// If nobody could read it back.
    pub fn write(&self, plan: &LaunchPlan) -> Result<String> {
        self.check(plan)?;
        let json = serde_json::to_string_pretty(plan)
            .map_err(|e| Error::unexpected("cannot write the launch plan as JSON").caused_by(e))?;
        let next = format!("\n{} ", self.comment);
        Ok(format!("{} {}\n", self.marker(), json.replace('\n', &next)))
    }

    fn how(&self) -> String {
        format!("`{}` prints the header that belongs there", self.printed_by)
    }

    /// Whether every launch names tensors that exist and an identifier.
    fn check(&self, plan: &LaunchPlan) -> Result<()> {
        plan.check_size()?;
        if plan.launches.is_empty() {
            return Err(Error::invalid("the launch plan has no launches"));
        }
        for launch in &plan.launches {
            let name = &launch.kernel;
            let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if !starts_well || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(Error::invalid(format!(
                    "the launch plan names a kernel `{name}`, which is not a {} identifier",
                    self.identifiers
                )));
            }
            if let Some(wrong) = launch.tensors.iter().find(|i| **i >= plan.tensors.len()) {
                return Err(Error::invalid(format!(
                    "kernel `{name}` takes tensor number {wrong}, but the launch plan has {} tensors, numbered from 0",
                    plan.tensors.len()
                )));
            }
        }
        Ok(())
    }
}
