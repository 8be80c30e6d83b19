//! What became of the attempts to make a verified kernel faster.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::analyst::Recommendation;
use crate::verdict::Failure;

/// An attempt to make the fastest kernel so far faster.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pass {
    /// What was advised.
    pub recommendation: Option<Recommendation>,
    /// The [role](crate::agent::Role::NAME) of the agent that proposed something.
    pub role: String,
    /// How it ended.
    pub ending: Ending,
}

/// How a [`Pass`] ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Ending {
    /// What was proposed is faster beyond the noise: so many times as fast as the fastest before. It is the fastest now.
    Faster(f64),
    /// It is right, but so many times as fast, which is not faster beyond the noise. It was rolled back.
    NotFaster(f64),
    /// It is right, and seemed so many times as fast, but the duel was disturbed, so that nothing is shown. It was rolled back.
    Disturbed(f64),
    /// It failed.
    Failed(Failure),
    /// Nothing came of it, for this reason.
    Nothing(String),
}

impl Pass {
    pub(crate) fn new(recommendation: Option<Recommendation>, role: &str, ending: Ending) -> Self {
        let role = role.to_owned();
        Self {
            recommendation,
            role,
            ending,
        }
    }
}

impl fmt::Display for Pass {
    /// What was tried and what came of it, in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.recommendation {
            Some(advice) => write!(f, "{}: ", advice.what.trim().trim_end_matches(['.', ':']))?,
            None => f.write_str("another idea: ")?,
        }
        match &self.ending {
            Ending::Faster(ratio) => write!(f, "{ratio:.2} times as fast"),
            Ending::NotFaster(ratio) => write!(f, "rolled back, {ratio:.2} times as fast"),
            Ending::Disturbed(ratio) => write!(
                f,
                "rolled back, since the duel was disturbed, in which it seemed {ratio:.2} times as fast"
            ),
            Ending::Failed(failure) => {
                let evidence = failure.evidence.lines().next().unwrap_or_default();
                write!(f, "{}, {evidence}", failure.kind.name())
            }
            Ending::Nothing(why) => write!(f, "nothing came of it, {why}"),
        }
    }
}
