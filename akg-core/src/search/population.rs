//! What was tried.

use serde::{Deserialize, Serialize};

use super::{Features, Move, Stop};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::verdict::FailureKind;

/// The time of a candidate and how far it can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Seconds, as a median.
    pub seconds: f64,
    /// How far the true value may be from it on either side, in seconds: the
    /// [reach](crate::timing::Interval::reach) of its interval. 0 takes the time for exact.
    #[serde(default)]
    pub spread: f64,
}

impl Measured {
    /// Whether it is faster than another beyond its spread: even the most that it may be is less than the other's median. The
    /// spread of the other does not protect it, or what was measured badly would stay in its place.
    pub fn is_faster(&self, other: &Self) -> bool {
        self.most() < other.seconds
    }

    /// The most that it may be, in seconds.
    pub fn most(&self) -> f64 {
        self.seconds + self.spread
    }
}

/// What became of a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Outcome {
    /// It passed and was timed.
    Passed(Measured),
    /// It failed: what was proposed is no sketch, does not compile, computes something else.
    Failed(FailureKind),
    /// Nothing came of it: nobody had something to propose, or what passed could not be timed.
    Nothing,
    /// It is what another member is, and was not measured again.
    Duplicate(usize),
}

/// A candidate of a search.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Its number, from zero in the order in which members were begun.
    pub number: usize,
    /// The members it began with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<usize>,
    /// The members it was to take ideas from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inspirations: Vec<usize>,
    /// The member from nothing that it descends from, through first parents; itself if it is one.
    pub lineage: usize,
    /// What tells it from others: [fingerprints](super::fingerprint) of what was proposed for it, oldest first. Several where what
    /// failed at first was replaced, or where a text was made of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub identities: Vec<Digest>,
    /// What kind of candidate it is; `None` until that is known, and of one that never will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
    /// What became of it; `None` while it is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
}

impl Member {
    /// Its time, if it passed.
    pub fn measured(&self) -> Option<Measured> {
        match self.outcome? {
            Outcome::Passed(measured) => Some(measured),
            Outcome::Failed(_) | Outcome::Nothing | Outcome::Duplicate(_) => None,
        }
    }

    /// Whether it is what another member is.
    pub fn is_duplicate(&self) -> bool {
        matches!(self.outcome, Some(Outcome::Duplicate(_)))
    }
}

/// The candidates of a search, in the order in which they were begun.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Population {
    members: Vec<Member>,
    /// Numbers in the order in which they were settled.
    settled: Vec<usize>,
}

impl Population {
    /// The members in the order in which they were begun.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The member with a number.
    pub fn get(&self, number: usize) -> Option<&Member> {
        self.members.get(number)
    }

    /// Begins a member, and returns its number.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if the move names a member that there is not.
    pub fn begin(&mut self, next: &Move) -> Result<usize> {
        let number = self.members.len();
        let mut named = next.parents().iter().chain(next.inspirations());
        if let Some(unknown) = named.find(|named| **named >= number) {
            return Err(Error::invalid(format!(
                "a move begins with member {unknown} of a population of {number}"
            )));
        }
        let first = next.parents().first().and_then(|parent| self.get(*parent));
        self.members.push(Member {
            number,
            parents: next.parents().to_vec(),
            inspirations: next.inspirations().to_vec(),
            lineage: first.map_or(number, |parent| parent.lineage),
            identities: Vec::new(),
            features: None,
            outcome: None,
        });
        Ok(number)
    }

    /// The members that are not a duplicate and of which this is a fingerprint, settled or under way.
    pub fn like(&self, identity: Digest) -> impl Iterator<Item = &Member> {
        let originals = self.members.iter().filter(|member| !member.is_duplicate());
        originals.filter(move |member| member.identities.contains(&identity))
    }

    /// Says what a member is. If another is the same, settled or under way, the member is settled as its duplicate, and
    /// the number of the other is returned.
    ///
    /// # Errors
    /// As [`settle`](Self::settle).
    pub fn identify(&mut self, number: usize, identity: Digest) -> Result<Option<usize>> {
        self.under_way(number)?.identities.push(identity);
        let mut alike = self.like(identity).map(|member| member.number);
        let twin = alike.find(|other| *other != number);
        drop(alike);
        if let Some(twin) = twin {
            self.settle(number, None, Outcome::Duplicate(twin))?;
        }
        Ok(twin)
    }

    /// Says what became of a member.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if there is no such member, or it is settled already.
    pub fn settle(&mut self, number: usize, features: Option<Features>, outcome: Outcome) -> Result<()> {
        let member = self.under_way(number)?;
        member.features = features;
        member.outcome = Some(outcome);
        self.settled.push(number);
        Ok(())
    }

    /// Says that a member that passed failed after all. Its children stay.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if there is no such member, or it did not pass.
    pub fn fail(&mut self, number: usize, kind: FailureKind) -> Result<()> {
        let passed = self.members.get_mut(number).filter(|m| m.measured().is_some());
        let member = passed
            .ok_or_else(|| Error::invalid(format!("no member {number} of the population passed before")))?;
        member.outcome = Some(Outcome::Failed(kind));
        Ok(())
    }

    fn under_way(&mut self, number: usize) -> Result<&mut Member> {
        let member = self.members.get_mut(number);
        let member =
            member.ok_or_else(|| Error::invalid(format!("the population has no member {number}")))?;
        match member.outcome {
            None => Ok(member),
            Some(_) => Err(Error::invalid(format!(
                "member {number} of the population is settled already"
            ))),
        }
    }

    /// The members that are under way.
    pub fn pending(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.outcome.is_none())
    }

    /// The settled members in the order in which they were settled.
    pub fn settled(&self) -> impl DoubleEndedIterator<Item = &Member> {
        self.settled.iter().filter_map(|number| self.get(*number))
    }

    /// The members that passed, in the order in which they were settled, with their times.
    pub fn passed(&self) -> impl DoubleEndedIterator<Item = (&Member, Measured)> {
        self.settled()
            .filter_map(|member| Some((member, member.measured()?)))
    }

    /// The members that began with one: its children.
    pub fn children(&self, number: usize) -> impl Iterator<Item = &Member> {
        let members = self.members.iter();
        members.filter(move |member| member.parents.contains(&number))
    }

    /// The fastest member. One that was settled later takes the place only if it [is faster](Measured::is_faster)
    /// beyond its spread.
    pub fn best(&self) -> Option<&Member> {
        let best = self.passed().reduce(|best, challenger| {
            if challenger.1.is_faster(&best.1) {
                challenger
            } else {
                best
            }
        });
        best.map(|(member, _)| member)
    }

    /// What the members that a move begins with are, as far as strategies look at it: how fast, and what became of going on
    /// from them.
    pub fn account(&self, next: &Move) -> String {
        let parents: Vec<String> = next
            .parents()
            .iter()
            .map(|parent| self.standing(*parent))
            .collect();
        match parents.as_slice() {
            [] => format!(
                "From nothing: {} of {} passed so far.",
                self.passed().count(),
                self.members.len()
            ),
            parents => format!("From {}.", parents.join("; and from ")),
        }
    }

    /// How a member stands among others.
    fn standing(&self, number: usize) -> String {
        let times = || self.passed().map(|(_, measured)| measured.seconds);
        let own = self.get(number).and_then(Member::measured);
        let speed = match (own, self.best().and_then(Member::measured)) {
            (Some(_), _) if self.best().is_some_and(|best| best.number == number) => {
                format!("the fastest of {} that passed", times().count())
            }
            (Some(own), Some(best)) => format!(
                "one that takes {:.2} times as long as the fastest of {} that passed",
                own.seconds / best.seconds,
                times().count()
            ),
            _ => "one that did not pass".to_owned(),
        };
        let lineage = self.get(number).map(|member| member.lineage);
        let kin = self
            .members
            .iter()
            .filter(|member| Some(member.lineage) == lineage);
        let faster = |child: &&Member| {
            let times = child.measured().zip(own);
            times.is_some_and(|(child, own)| child.is_faster(&own))
        };
        format!(
            "{speed}; {} of {} members are of its lineage, and of those that began with it {} of {} are faster",
            kin.count(),
            self.members.len(),
            self.children(number).filter(faster).count(),
            self.children(number).count()
        )
    }

    /// Why a search ends that makes so many moves at most, and ends before that when so many members in a row brought nothing.
    pub(super) fn over(&self, most: usize, patience: Option<usize>) -> Option<Stop> {
        if self.members.len() >= most {
            return Some(Stop::Done);
        }
        let is_stalled = patience.is_some_and(|patience| self.stalled() >= patience);
        is_stalled.then_some(Stop::Converged)
    }

    /// How many members were settled since one became the [best](Self::best), or were settled at all if none passed.
    pub fn stalled(&self) -> usize {
        let all = self.settled.len();
        let since = |best: &Member| {
            self.settled
                .iter()
                .rev()
                .position(|number| *number == best.number)
        };
        self.best().and_then(since).unwrap_or(all)
    }
}
