//! A shelf that ends with the process.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use super::{Article, Card, Embedding, Kind, Knowledge, words};
use crate::digest::Digest;
use crate::error::Result;

/// The saturation of a word's count, the weight of a text's length, and what a word of the name counts for.
const SATURATION: f64 = 1.2;
const LENGTH: f64 = 0.75;
const OF_NAME: usize = 4;

/// Keeps articles in memory.
#[derive(Debug, Default)]
pub struct MemoryKnowledge {
    articles: RwLock<Vec<Article>>,
}

impl MemoryKnowledge {
    /// An empty shelf.
    pub fn new() -> Self {
        Self::default()
    }

    /// Does something with the articles.
    fn with<T>(&self, work: impl FnOnce(&[Article]) -> T) -> T {
        // No operation leaves the list half changed.
        work(&self.articles.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Knowledge for MemoryKnowledge {
    fn shelve(&self, article: &Article) -> Result<()> {
        let mut articles = self.articles.write().unwrap_or_else(PoisonError::into_inner);
        match articles.iter_mut().find(|old| old.card.key == article.card.key) {
            Some(old) => old.clone_from(article),
            None => articles.push(article.clone()),
        }
        Ok(())
    }

    fn withdraw(&self, key: Digest) -> Result<()> {
        let mut articles = self.articles.write().unwrap_or_else(PoisonError::into_inner);
        articles.retain(|article| article.card.key != key);
        Ok(())
    }

    fn article(&self, key: Digest) -> Result<Option<Article>> {
        Ok(self.with(|articles| articles.iter().find(|article| article.card.key == key).cloned()))
    }

    fn cards(&self, kinds: &[Kind]) -> Result<Vec<Card>> {
        let wanted = |card: &&Card| kinds.contains(&card.kind);
        Ok(self.with(|articles| articles.iter().map(|a| &a.card).filter(wanted).cloned().collect()))
    }

    fn matches(&self, wanted: &[String]) -> Result<Vec<(Digest, f64)>> {
        let texts: Vec<(Digest, BTreeMap<String, usize>, usize)> = self.with(|articles| {
            articles
                .iter()
                .map(|article| {
                    let mut counts = BTreeMap::new();
                    let name = words(&article.card.name);
                    let text = words(&article.text());
                    let length = name.len() + text.len();
                    for word in name {
                        *counts.entry(word).or_default() += OF_NAME;
                    }
                    for word in text {
                        *counts.entry(word).or_default() += 1;
                    }
                    (article.card.key, counts, length)
                })
                .collect()
        });
        let all = texts.len() as f64;
        let mean = texts.iter().map(|(_, _, length)| *length).sum::<usize>() as f64 / all.max(1.0);
        let mut wanted = wanted.to_vec();
        wanted.sort();
        wanted.dedup();
        let rarity = |word: &String| {
            let with = texts
                .iter()
                .filter(|(_, counts, _)| counts.contains_key(word))
                .count() as f64;
            ((all - with + 0.5) / (with + 0.5) + 1.0).ln()
        };
        let weights: Vec<(String, f64)> = wanted
            .into_iter()
            .map(|word| (word.clone(), rarity(&word)))
            .collect();
        let fits = texts.iter().filter_map(|(key, counts, length)| {
            let size = 1.0 - LENGTH + LENGTH * *length as f64 / mean.max(1.0);
            let of_word = |(word, weight): &(String, f64)| {
                let count = counts.get(word).copied().unwrap_or(0) as f64;
                weight * count * (SATURATION + 1.0) / (count + SATURATION * size)
            };
            let fit: f64 = weights.iter().map(of_word).sum();
            (fit > 0.0).then_some((*key, fit))
        });
        Ok(fits.collect())
    }

    fn near(&self, embedding: &Embedding) -> Result<Vec<(Digest, f64)>> {
        let near =
            |article: &Article| Some((article.card.key, article.embedding.as_ref()?.cosine(embedding)?));
        Ok(self.with(|articles| articles.iter().filter_map(near).collect()))
    }
}
