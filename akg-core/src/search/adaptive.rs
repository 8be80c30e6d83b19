//! Search that shares its moves between lineages by what they are worth.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::draw::Draw;
use super::ranking::{Ranked, Ranking};
use super::{Move, Population, Stop, Strategy, scaled};

/// Adaptive search over the tree of candidates. A lineage (all that descends from one member from nothing) deserves a share
/// of the moves by the quality of its best member, and the one that lacks most of its share comes first; to found a new one
/// is worth what lineages are on average. Within a lineage, the parent is chosen by an upper confidence bound (UCB1: Auer,
/// Cesa-Bianchi & Fischer, Finite-time analysis of the multiarmed bandit problem, Machine Learning 47, 2002) on its quality,
/// where moves under way count as made (virtual loss: Chaslot, Winands & van den Herik, Parallel Monte-Carlo tree search,
/// 2008). Temperature and exploration are annealed (Kirkpatrick, Gelatt & Vecchi, Optimization by simulated annealing,
/// Science 220, 1983), and rise again while nothing faster comes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adaptive {
    /// What draws follow from.
    pub seed: u64,
    /// Moves at most, over which the temperature falls.
    pub most: usize,
    /// Members that are begun from nothing before any other.
    pub initial: usize,
    /// The temperature of shares at the first move and at the last.
    pub temperature: [f64; 2],
    /// The weight of exploration at the first move and at the last.
    pub exploration: [f64; 2],
    /// The probability of a cross, where there are two lineages.
    pub cross: f64,
    /// Members to take ideas from.
    pub inspirations: usize,
    /// Members that are settled without a faster one before temperature and exploration rise.
    pub plateau: usize,
    /// Members that may be settled without a faster one; `None` for any number.
    pub patience: Option<usize>,
}

/// What a plateau multiplies temperature and exploration by.
const REHEAT: f64 = 1.5;

impl Adaptive {
    /// The usual settings. A search of few moves begins few members from nothing.
    pub fn new(seed: u64, most: usize) -> Self {
        Self {
            seed,
            most,
            initial: scaled(8, most),
            temperature: [0.1, 0.05],
            exploration: [0.2, 0.2],
            cross: 0.25,
            inspirations: 3,
            plateau: 32,
            patience: None,
        }
    }

    /// A value between that of the first move and that of the last.
    fn annealed(&self, ends: [f64; 2], population: &Population) -> f64 {
        let progress = population.members().len() as f64 / self.most.max(1) as f64;
        let [first, last] = ends;
        let value = first * (last / first).powf(progress);
        if population.stalled() >= self.plateau {
            value * REHEAT
        } else {
            value
        }
    }

    /// The lineage whose turn it is; `None` for a new one.
    fn lineage(&self, population: &Population, ranking: &Ranking<'_>) -> Option<usize> {
        let mut best: BTreeMap<usize, f64> = BTreeMap::new();
        for ranked in ranking.members() {
            let quality = best.entry(ranked.member.lineage).or_default();
            *quality = quality.max(ranked.quality);
        }
        let mut sizes: BTreeMap<usize, f64> = BTreeMap::new();
        for member in population.members() {
            *sizes.entry(member.lineage).or_default() += 1.0;
        }
        let average = best.values().sum::<f64>() / best.len().max(1) as f64;
        let temperature = self.annealed(self.temperature, population);
        let deserves = |quality: f64| (quality / temperature).exp();
        let total = deserves(average) + best.values().map(|quality| deserves(*quality)).sum::<f64>();
        let all = population.members().len() as f64;
        let lineages = best.iter().map(|(lineage, quality)| {
            let has = sizes.get(lineage).copied().unwrap_or_default() / all;
            (Some(*lineage), deserves(*quality) / total - has)
        });
        // Founders that failed are what founding has cost, too.
        let founded = sizes.len() as f64 / all;
        let new = std::iter::once((None, deserves(average) / total - founded));
        // Where they lack the same, what is there comes before what may come.
        let neediest = new.chain(lineages).max_by(|a, b| a.1.total_cmp(&b.1));
        neediest.and_then(|(lineage, _)| lineage)
    }

    /// The member of a lineage with the highest upper confidence bound.
    fn parent<'a>(
        &self,
        population: &Population,
        ranking: &Ranking<'a>,
        lineage: usize,
    ) -> Option<Ranked<'a>> {
        let exploration = self.annealed(self.exploration, population);
        let inside = || ranking.members().iter().filter(|r| r.member.lineage == lineage);
        let tries = |ranked: &Ranked<'_>| population.children(ranked.member.number).count() as f64;
        let all: f64 = inside().map(tries).sum();
        let bound = |ranked: &Ranked<'_>| {
            ranked.quality + exploration * ((1.0 + all).ln() / (1.0 + tries(ranked))).sqrt()
        };
        let bounds = inside().map(|ranked| (*ranked, bound(ranked)));
        let highest = bounds.reduce(|best, other| if other.1 > best.1 { other } else { best });
        highest.map(|(ranked, _)| ranked)
    }
}

impl Strategy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn next(&self, population: &Population) -> ControlFlow<Stop, Move> {
        let number = population.members().len();
        if let Some(stop) = population.over(self.most, self.patience) {
            return ControlFlow::Break(stop);
        }
        let mut draw = Draw::new(self.seed, number);
        let ranking = Ranking::new(population.passed());
        let lineage = self
            .lineage(population, &ranking)
            .filter(|_| number >= self.initial);
        let parent = lineage.and_then(|lineage| self.parent(population, &ranking, lineage));
        let Some(parent) = parent else {
            let inspirations = ranking.inspirations(&mut draw, &[], self.inspirations);
            return ControlFlow::Continue(Move::Fresh { inspirations });
        };
        let mut parents = vec![parent.member.number];
        if draw.chance(self.cross) {
            // Drawn by quality from the other lineages.
            let temperature = self.annealed(self.temperature, population);
            let weight = |ranked: &Ranked<'_>| {
                let is_other = ranked.member.lineage != parent.member.lineage;
                f64::from(u8::from(is_other)) * (ranked.quality / temperature).exp()
            };
            let weights: Vec<f64> = ranking.members().iter().map(weight).collect();
            let other = draw.weighted(&weights).and_then(|at| ranking.members().get(at));
            parents.extend(other.map(|ranked| ranked.member.number));
        }
        let inspirations = ranking.inspirations(&mut draw, &parents, self.inspirations);
        ControlFlow::Continue(Move::from_parents(&parents, inspirations))
    }
}
