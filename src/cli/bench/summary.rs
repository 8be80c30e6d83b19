//! What all records say together. The JSON form is documented in `docs/bench.md`.

use std::collections::{BTreeMap, BTreeSet};

use akg::Accuracy;
use akg::timing::{Claim, median};
use serde::{Deserialize, Serialize};

use super::family::Family;
use super::record::{Against, Record};

/// What all records say together. Ratios are warm: the time of the fastest of eager and compiled PyTorch over the
/// candidate's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Summary {
    /// Over the fastest.
    #[serde(flatten)]
    pub(super) groups: Groups,
    /// Over the faster of eager and compiled PyTorch at each precision, if there are several.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) against: BTreeMap<Accuracy, Groups>,
    /// The problems that were lost, the worst first.
    pub(super) lost: Vec<Named>,
    /// Those whose contest was disturbed.
    pub(super) unclear: Vec<Named>,
    /// Those without a verified kernel.
    pub(super) failed: Vec<Named>,
}

/// Problems in groups.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Groups {
    /// The problems whose speed counts.
    pub(super) counting: Group,
    /// All problems.
    pub(super) all: Group,
    /// All problems, by family.
    pub(super) families: BTreeMap<Family, Group>,
    /// Those whose graphs algebra rewrote, and the others, if there are any of the former: what algebra saves is not the
    /// speed of kernels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) algebra: Option<Algebra>,
}

/// Problems by whether algebra rewrote their graphs.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Algebra {
    pub(super) rewritten: Group,
    pub(super) as_given: Group,
}

/// Some problems together.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
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

/// The geometric mean, if there is anything to take it of.
pub(super) fn geomean(ratios: &[f64]) -> Option<f64> {
    let logarithms: f64 = ratios.iter().map(|r| r.ln()).sum();
    (!ratios.is_empty()).then(|| (logarithms / ratios.len() as f64).exp())
}

impl Groups {
    fn of(records: &[Record], against: impl Fn(&Record) -> Option<&Against>) -> Self {
        let group = |wanted: &dyn Fn(&Record) -> bool| {
            let chosen = records.iter().filter(|r| wanted(r));
            Group::of(chosen.map(|r| (r, against(r))))
        };
        let families: BTreeSet<Family> = records.iter().filter_map(|r| r.family).collect();
        Self {
            counting: group(&|r| r.work.speed_counts),
            all: group(&|_| true),
            families: families
                .into_iter()
                .map(|family| (family, group(&|r| r.family == Some(family))))
                .collect(),
            algebra: records.iter().any(Record::is_rewritten).then(|| Algebra {
                rewritten: group(&Record::is_rewritten),
                as_given: group(&|r| !r.is_rewritten()),
            }),
        }
    }
}

impl Group {
    fn of<'a>(records: impl Iterator<Item = (&'a Record, Option<&'a Against>)>) -> Self {
        let mut group = Self::default();
        let mut ratios = Vec::new();
        for (record, against) in records {
            group.problems += 1;
            if !record.passed() {
                continue;
            }
            group.verified += 1;
            let Some(against) = against else { continue };
            ratios.push(against.ratio);
            *match against.claim {
                Some(Claim::Faster) => &mut group.wins,
                Some(Claim::Noise) => &mut group.parity,
                Some(Claim::Slower) => &mut group.losses,
                None => &mut group.unclear,
            } += 1;
        }
        group.compared = ratios.len();
        group.geomean = geomean(&ratios);
        group.median = median(&ratios);
        group.lowest = ratios.iter().copied().min_by(f64::total_cmp);
        group
    }
}

impl Summary {
    /// The summary of some records.
    pub(super) fn of(records: &[Record]) -> Self {
        let precisions: BTreeSet<Accuracy> = records.iter().flat_map(|r| r.against.keys().copied()).collect();
        let at = |precision| {
            let groups = Groups::of(records, |r| r.warm_at(precision));
            (precision, groups)
        };
        let ratio = |r: &Record| r.warm.as_ref().map_or(f64::INFINITY, |w| w.ratio);
        let named = |wanted: &dyn Fn(&Record) -> bool| {
            let mut chosen: Vec<&Record> = records.iter().filter(|r| wanted(r)).collect();
            chosen.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
            chosen.into_iter().map(Named::of).collect()
        };
        let claims = |r: &Record, claim| r.passed() && r.warm.as_ref().is_some_and(|w| w.claim == claim);
        Self {
            groups: Groups::of(records, |r| r.warm.as_ref()),
            against: precisions.into_iter().map(at).collect(),
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn against(rival: &str, ratio: f64, claim: &str) -> Value {
        let interval = json!({"low": ratio, "high": ratio});
        json!({"rival": rival, "ratio": ratio, "interval": interval, "claim": claim, "noise": 0.01})
    }

    fn record(number: u32, more: &Value) -> Record {
        let mut record = json!({
            "problem": format!("2-{number}"), "name": "problem", "family": "matmul", "status": "pass", "accuracy": "half",
            "inputs": [], "outputs": [], "sides": [], "kernels": [], "knobs": {}, "bytes": 1, "speed_counts": number != 3,
            "candidates": 1, "seconds": 1.0, "recalled": false, "date": "2026-01-01T00:00:00Z",
        });
        let more = more.as_object().unwrap().clone();
        record.as_object_mut().unwrap().extend(more);
        serde_json::from_value(record).unwrap()
    }

    #[test]
    fn ratios_over_each_precision_are_summed_up_by_themselves() {
        let records = [
            record(
                1,
                &json!({
                    "warm": against("PyTorch eager (half)", 2.0, "faster"),
                    "against": {
                        "fp32": {"warm": against("torch.compile", 8.0, "faster")},
                        "half": {"warm": against("PyTorch eager (half)", 2.0, "faster")},
                    },
                }),
            ),
            record(
                2,
                &json!({
                    "warm": against("torch.compile (half)", 0.5, "slower"),
                    "against": {
                        "fp32": {"warm": against("PyTorch eager", 2.0, "faster")},
                        "half": {"warm": against("torch.compile (half)", 0.5, "slower")},
                    },
                }),
            ),
            // PyTorch's values were beyond float16.
            record(
                3,
                &json!({
                    "warm": against("PyTorch eager", 4.0, "faster"),
                    "against": {"fp32": {"warm": against("PyTorch eager", 4.0, "faster")}, "half": {}},
                }),
            ),
            record(4, &json!({"status": "wrong-values"})),
        ];
        let summary = Summary::of(&records);
        let of = |group: &Group| {
            let numbers = (
                group.problems,
                group.verified,
                group.compared,
                group.wins,
                group.losses,
            );
            (
                numbers,
                group.geomean.unwrap(),
                group.median.unwrap(),
                group.lowest.unwrap(),
            )
        };
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        let (numbers, geomean, median, lowest) = of(&summary.groups.all);
        assert_eq!((numbers, median, lowest), ((4, 3, 3, 2, 1), 2.0, 0.5));
        assert!(close(geomean, 4f64.cbrt()), "{geomean}");
        let (numbers, geomean, median, lowest) = of(&summary.against[&Accuracy::Fp32].all);
        assert_eq!((numbers, median, lowest), ((4, 3, 3, 3, 0), 4.0, 2.0));
        assert!(close(geomean, 4.0), "{geomean}");
        let (numbers, geomean, median, lowest) = of(&summary.against[&Accuracy::Half].all);
        assert_eq!((numbers, median, lowest), ((4, 3, 2, 1, 1), 1.25, 0.5));
        assert!(close(geomean, 1.0), "{geomean}");
        assert_eq!(summary.against[&Accuracy::Half].counting.problems, 3);
        assert_eq!(
            summary.against[&Accuracy::Half].families[&Family::Matmul],
            summary.against[&Accuracy::Half].all
        );
        assert_eq!(summary.groups.algebra, None);
        let lost: Vec<_> = summary.lost.iter().map(|l| l.problem.as_str()).collect();
        assert_eq!(lost, ["2-2"]);

        let written = serde_json::to_value(&summary).unwrap();
        assert_eq!(written["all"]["wins"], 2);
        assert_eq!(
            written["against"]["fp32"]["all"]["geomean"]
                .as_f64()
                .map(f64::round),
            Some(4.0)
        );
        let read: Summary = serde_json::from_value(written.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), written);
    }

    #[test]
    fn one_precision_needs_no_groups_of_its_own() {
        let records = [record(
            1,
            &json!({"warm": against("torch.compile", 2.0, "faster")}),
        )];
        let written = serde_json::to_value(Summary::of(&records)).unwrap();
        assert_eq!(written.get("against"), None);
        assert_eq!(written["counting"]["compared"], 1);
    }

    #[test]
    fn what_algebra_saves_is_apart_from_the_speed_of_kernels() {
        let rules = json!([{"name": "sum-of-product-columns", "count": 1}]);
        let records = [
            record(
                1,
                &json!({"warm": against("torch.compile", 50.0, "faster"), "rules": rules}),
            ),
            record(2, &json!({"warm": against("torch.compile", 1.25, "faster")})),
        ];
        let algebra = Summary::of(&records).groups.algebra.unwrap();
        assert_eq!(algebra.rewritten.lowest, Some(50.0));
        assert_eq!(algebra.as_given.lowest, Some(1.25));
    }
}
