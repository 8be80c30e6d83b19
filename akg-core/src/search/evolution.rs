//! Evolution on islands whose members live in niches.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::draw::Draw;
use super::ranking::{Ranked, Ranking, last_rank};
use super::{Cell, Measured, Member, Move, Population, Stop, Strategy, scaled};

/// Evolution: each [cell](Cell) keeps its fastest member (MAP-Elites: Mouret & Clune, Illuminating search spaces by mapping
/// elites, 2015), so that what is slow today but of another kind is not lost. Islands evolve apart and send their fastest
/// members on to the next in a ring (Tanese, Distributed genetic algorithms, ICGA 1989). Parents are drawn by rank and by
/// what became of their children, failures included (the curiosity score of Cully & Demiris, Quality and diversity
/// optimization, IEEE TEVC 22, 2018).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Evolution {
    /// What draws follow from.
    pub seed: u64,
    /// Moves at most.
    pub most: usize,
    /// Islands. Member `i` belongs to island `i` modulo this.
    pub islands: usize,
    /// Members of each island that are begun from nothing before any other.
    pub initial: usize,
    /// The probability of a move from nothing later on.
    pub fresh: f64,
    /// The probability of a cross, where an island has two elites.
    pub cross: f64,
    /// How much likelier the fastest elite is drawn than the slowest of many, as a power of e.
    pub pressure: f64,
    /// Members that are settled between migrations.
    pub migration: usize,
    /// Members that an island sends on.
    pub migrants: usize,
    /// Members to take ideas from.
    pub inspirations: usize,
    /// Members that may be settled without a faster one; `None` for any number.
    pub patience: Option<usize>,
}

impl Evolution {
    /// The usual settings. A search of few moves begins few members from nothing, and its islands meet early.
    pub fn new(seed: u64, most: usize) -> Self {
        Self {
            seed,
            most,
            islands: 2,
            initial: scaled(4, most),
            fresh: 0.05,
            cross: 0.4,
            pressure: 8.0,
            migration: scaled(8, most).max(2),
            migrants: 2,
            inspirations: 3,
            patience: None,
        }
    }

    /// The island that a member is born on.
    pub fn island(&self, number: usize) -> usize {
        number % self.islands.max(1)
    }

    /// The members of each island that passed, immigrants included, in the order in which they came.
    fn islands<'a>(&self, population: &'a Population) -> Vec<Vec<(&'a Member, Measured)>> {
        let mut islands: Vec<Vec<(&Member, Measured)>> = vec![Vec::new(); self.islands.max(1)];
        for (member, count) in population.settled().zip(1..) {
            let home = self.island(member.number);
            if let (Some(island), Some(measured)) = (islands.get_mut(home), member.measured()) {
                island.push((member, measured));
            }
            if count % self.migration.max(1) == 0 {
                self.migrate(&mut islands);
            }
        }
        islands
    }

    fn migrate(&self, islands: &mut [Vec<(&Member, Measured)>]) {
        let leaving = |island: &Vec<(_, _)>| -> Vec<_> {
            let ranking = Ranking::new(island.iter().copied());
            let first = ranking.members().iter().take(self.migrants);
            first.map(|ranked| (ranked.member, ranked.measured)).collect()
        };
        let mut leaving: Vec<Vec<(&Member, Measured)>> = islands.iter().map(leaving).collect();
        // The last island's go to the first.
        leaving.rotate_right(1);
        for (island, arriving) in islands.iter_mut().zip(leaving) {
            for migrant in arriving {
                if !island.iter().any(|(member, _)| member.number == migrant.0.number) {
                    island.push(migrant);
                }
            }
        }
    }

    /// What drawing a parent depends on: its rank among elites, and what became of its children.
    fn weights(&self, population: &Population, elites: &Ranking<'_>) -> Vec<f64> {
        let last = last_rank(elites.members().len());
        let weight = |(rank, elite): (usize, &Ranked<'_>)| {
            let (mut tried, mut fruitful) = (1.0, 1.0);
            for child in population.children(elite.member.number) {
                tried += 1.0;
                let faster = child.measured().is_some_and(|m| m.is_faster(&elite.measured));
                fruitful += f64::from(u8::from(faster));
            }
            (-self.pressure * rank as f64 / last).exp() * f64::sqrt(fruitful / tried)
        };
        elites.members().iter().enumerate().map(weight).collect()
    }
}

/// The elites of an island: the first member of each cell, or one that came later and is faster beyond the noise.
fn elites<'a>(island: &[(&'a Member, Measured)]) -> Ranking<'a> {
    let mut cells: BTreeMap<Option<Cell>, (&Member, Measured)> = BTreeMap::new();
    for (member, measured) in island {
        let cell = member.features.as_ref().map(|features| features.cell());
        let elite = cells.entry(cell).or_insert((member, *measured));
        if measured.is_faster(&elite.1) {
            *elite = (member, *measured);
        }
    }
    Ranking::new(cells.into_values())
}

impl Strategy for Evolution {
    fn name(&self) -> &'static str {
        "evolution"
    }

    fn next(&self, population: &Population) -> ControlFlow<Stop, Move> {
        let number = population.members().len();
        if let Some(stop) = population.over(self.most, self.patience) {
            return ControlFlow::Break(stop);
        }
        let mut draw = Draw::new(self.seed, number);
        let home = self.island(number);
        let mut islands = self.islands(population);
        let elites = elites(&islands.swap_remove(home));
        let born = number / self.islands.max(1);
        let mut weights = self.weights(population, &elites);
        let parent = draw.weighted(&weights).filter(|_| born >= self.initial);
        let Some(parent) = parent.filter(|_| !draw.chance(self.fresh)) else {
            let inspirations = elites.inspirations(&mut draw, &[], self.inspirations);
            return ControlFlow::Continue(Move::Fresh { inspirations });
        };
        let cross = draw.chance(self.cross);
        if let Some(weight) = weights.get_mut(parent) {
            *weight = 0.0;
        }
        let other = draw.weighted(&weights).filter(|_| cross);
        let named = |rank: usize| elites.members().get(rank).map(|ranked| ranked.member.number);
        let parents: Vec<usize> = [Some(parent), other]
            .into_iter()
            .flatten()
            .filter_map(named)
            .collect();
        let inspirations = elites.inspirations(&mut draw, &parents, self.inspirations);
        ControlFlow::Continue(Move::from_parents(&parents, inspirations))
    }
}
