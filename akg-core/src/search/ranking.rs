//! The order of members by time, as far as it can be told from noise.

use super::draw::Draw;
use super::{Measured, Member};

/// Of members in order of time, the parts that are the first and the second tier. The third is the rest.
const TIERS: [f64; 2] = [0.3, 0.7];

/// Others that a member is ranked among at least: that it is the slower one of two says little.
const FEW: usize = 8;

/// The distance of the last of so many ranks from the first.
pub(super) fn last_rank(count: usize) -> f64 {
    count.saturating_sub(1).max(FEW) as f64
}

/// A member that passed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ranked<'a> {
    pub(super) member: &'a Member,
    pub(super) measured: Measured,
    /// The part of the others, of [a few](FEW) at least, that are not faster beyond the noise: 1 for the fastest, and for those
    /// that cannot be told from it.
    pub(super) quality: f64,
}

/// Members that passed, in order of time. Of equal ones, the earlier comes first.
#[derive(Debug)]
pub(super) struct Ranking<'a>(Vec<Ranked<'a>>);

impl<'a> Ranking<'a> {
    pub(super) fn new(passed: impl IntoIterator<Item = (&'a Member, Measured)>) -> Self {
        let mut ranked: Vec<Ranked<'a>> = passed
            .into_iter()
            .map(|(member, measured)| Ranked {
                member,
                measured,
                quality: 1.0,
            })
            .collect();
        ranked.sort_by(|a, b| {
            let time = a.measured.seconds.total_cmp(&b.measured.seconds);
            time.then(a.member.number.cmp(&b.member.number))
        });
        let mut most: Vec<f64> = ranked.iter().map(|r| r.measured.most()).collect();
        most.sort_by(f64::total_cmp);
        let others = last_rank(most.len());
        for r in &mut ranked {
            let faster = most.partition_point(|most| *most < r.measured.seconds);
            r.quality = 1.0 - faster as f64 / others;
        }
        Self(ranked)
    }

    pub(super) fn members(&self) -> &[Ranked<'a>] {
        &self.0
    }

    /// Up to `count` members other than `parents`, one of each tier in turn, the fastest tier first.
    pub(super) fn inspirations(&self, draw: &mut Draw, parents: &[usize], count: usize) -> Vec<usize> {
        let mut others: Vec<usize> = self.0.iter().map(|r| r.member.number).collect();
        others.retain(|number| !parents.contains(number));
        let [first, second] = TIERS.map(|part| (part * others.len() as f64).ceil() as usize);
        let third = others.split_off(second);
        let second = others.split_off(first);
        let mut tiers = [others, second, third];
        let mut chosen = Vec::new();
        while chosen.len() < count && tiers.iter().any(|tier| !tier.is_empty()) {
            for tier in &mut tiers {
                if chosen.len() < count
                    && let Some(number) = draw.pick(tier).copied()
                {
                    tier.retain(|other| *other != number);
                    chosen.push(number);
                }
            }
        }
        chosen
    }
}
