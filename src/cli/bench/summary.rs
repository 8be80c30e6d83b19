//! What all records say together. The JSON form is documented in `docs/bench.md`.

use std::collections::BTreeMap;

use akg::timing::{Claim, median};
use serde::{Deserialize, Serialize};

use super::family::Family;
use super::record::{Against, Record};

/// What all records say together. Ratios are warm: the time of the faster of eager and compiled PyTorch over the
/// candidate's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Summary {
    /// Of the problems whose speed counts.
    pub(super) counting: Group,
    /// Of all problems.
    pub(super) all: Group,
    /// Of all problems, by family.
    pub(super) families: BTreeMap<Family, Group>,
    /// The problems that were lost, the worst first.
    pub(super) lost: Vec<Named>,
    /// Those whose contest was disturbed.
    pub(super) unclear: Vec<Named>,
    /// Those without a verified kernel.
    pub(super) failed: Vec<Named>,
}

/// Some problems together.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Group {
    pub(super) problems: usize,
    pub(super) verified: usize,
    /// Those with a ratio, of which all that follows is made.
    pub(super) compared: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) geomean: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) median: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lowest: Option<f64>,
    pub(super) wins: usize,
    /// No difference beyond the noise.
    pub(super) parity: usize,
    pub(super) losses: usize,
    /// Without a claim.
    pub(super) unclear: usize,
}

/// One problem in short.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Named {
    pub(super) problem: String,
    pub(super) name: String,
    pub(super) status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rival: Option<String>,
}

impl Group {
    fn of<'a>(records: impl Iterator<Item = &'a Record>) -> Self {
        let mut group = Self::default();
        let mut ratios = Vec::new();
        for record in records {
            group.problems += 1;
            if !record.passed() {
                continue;
            }
            group.verified += 1;
            let Some(against) = &record.warm else { continue };
            ratios.push(against.ratio);
            *match against.claim {
                Some(Claim::Faster) => &mut group.wins,
                Some(Claim::Noise) => &mut group.parity,
                Some(Claim::Slower) => &mut group.losses,
                None => &mut group.unclear,
            } += 1;
        }
        group.compared = ratios.len();
        if !ratios.is_empty() {
            let logarithms: f64 = ratios.iter().map(|r| r.ln()).sum();
            group.geomean = Some((logarithms / ratios.len() as f64).exp());
        }
        group.median = median(&ratios);
        group.lowest = ratios.iter().copied().min_by(f64::total_cmp);
        group
    }
}

impl Summary {
    /// The summary of some records.
    pub(super) fn of(records: &[Record]) -> Self {
        let mut families = BTreeMap::<Family, Vec<&Record>>::new();
        for record in records {
            if let Some(family) = record.family {
                families.entry(family).or_default().push(record);
            }
        }
        let ratio = |r: &Record| r.warm.as_ref().map_or(f64::INFINITY, |w| w.ratio);
        let named = |wanted: &dyn Fn(&Record) -> bool| {
            let mut chosen: Vec<&Record> = records.iter().filter(|r| wanted(r)).collect();
            chosen.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            chosen.into_iter().map(Named::of).collect()
        };
        let claims = |r: &Record, claim| r.passed() && r.warm.as_ref().is_some_and(|w| w.claim == claim);
        Self {
            counting: Group::of(records.iter().filter(|r| r.work.speed_counts)),
            all: Group::of(records.iter()),
            families: families
                .into_iter()
                .map(|(family, records)| (family, Group::of(records.into_iter())))
                .collect(),
            lost: named(&|r| claims(r, Some(Claim::Slower))),
            unclear: named(&|r| claims(r, None)),
            failed: named(&|r| !r.passed()),
        }
    }
}

impl Named {
    fn of(record: &Record) -> Self {
        let against: Option<&Against> = record.warm.as_ref();
        Self {
            problem: record.problem.clone(),
            name: record.name.clone(),
            status: record.status.clone(),
            ratio: against.map(|a| a.ratio),
            rival: against.map(|a| a.rival.clone()),
        }
    }
}
