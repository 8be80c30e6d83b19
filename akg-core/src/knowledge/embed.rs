//! Texts as vectors, near each other where texts mean the like.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::{Article, Kind, Knowledge, Query, words};
use crate::digest::Digest;
use crate::error::{Error, Result};

/// How many texts are embedded in one call, and how many bytes of each; servers refuse what is too long.
const AT_ONCE: usize = 32;
const LONGEST: usize = 16 << 10;

/// Turns texts into vectors: an endpoint, or something of one's own.
#[async_trait]
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Its name. Vectors of embedders with other names cannot be compared.
    fn name(&self) -> &str;

    /// One vector for each text, all of the same length.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>>;
}

/// A text as a vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Embedding {
    /// The [name](Embedder::name) of who made it.
    pub embedder: String,
    /// The vector.
    pub vector: Vec<f32>,
}

impl Embedding {
    /// The cosine of the angle between two embeddings; `None` if they cannot be compared, and 0 if a vector has no direction.
    pub fn cosine(&self, other: &Self) -> Option<f64> {
        if self.embedder != other.embedder || self.vector.len() != other.vector.len() {
            return None;
        }
        let dot = |a: &[f32], b: &[f32]| {
            let products = a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
            products.sum::<f64>()
        };
        let norms = (dot(&self.vector, &self.vector) * dot(&other.vector, &other.vector)).sqrt();
        Some(if norms > 0.0 {
            dot(&self.vector, &other.vector) / norms
        } else {
            0.0
        })
    }
}

/// Gives the articles of a shelf that have no embedding by this embedder the embeddings of their texts; says how many those
/// were. What is too long for an embedder is embedded by its beginning.
///
/// # Errors
/// If the embedder fails, or does not give a vector for each text. What was embedded before that stays.
pub async fn embed(embedder: &dyn Embedder, shelf: &(impl Knowledge + ?Sized)) -> Result<usize> {
    let mut open: Vec<Article> = Vec::new();
    for card in shelf.cards(&Kind::ALL)? {
        // Somebody else may have taken it off the shelf since.
        open.extend(shelf.article(card.key)?.filter(|article| {
            let known = article.embedding.as_ref();
            known.is_none_or(|known| known.embedder != embedder.name())
        }));
    }
    for some in open.chunks_mut(AT_ONCE) {
        let texts = some.iter().map(|article| {
            let name = &article.card.name;
            beginning(&format!("{name}\n{}", article.text()))
        });
        let embeddings = embeddings(embedder, texts.collect()).await?;
        for (article, embedding) in some.iter_mut().zip(embeddings) {
            article.embedding = Some(embedding);
            shelf.shelve(article)?;
        }
    }
    Ok(open.len())
}

/// Gives the queries that [mean](Query::meaning) something the embedding of that.
///
/// # Errors
/// As [`embed`].
pub async fn understand(embedder: &dyn Embedder, queries: &mut [Query]) -> Result<()> {
    let mut meant: Vec<&mut Query> = queries.iter_mut().filter(|q| !q.meaning.is_empty()).collect();
    if meant.is_empty() {
        return Ok(());
    }
    let texts = meant.iter().map(|query| beginning(&query.meaning)).collect();
    let embeddings = embeddings(embedder, texts).await?;
    for (query, embedding) in meant.iter_mut().zip(embeddings) {
        query.embedding = Some(embedding);
    }
    Ok(())
}

/// As much of a text as is embedded.
fn beginning(text: &str) -> String {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default().to_owned()
}

async fn embeddings(embedder: &dyn Embedder, texts: Vec<String>) -> Result<Vec<Embedding>> {
    let vectors = embedder.embed(&texts).await?;
    let wrong = |what: &str| Error::invalid(what).with("embedder", embedder.name());
    if vectors.len() != texts.len() {
        return Err(wrong("the embedder does not give a vector for each text")
            .with("texts", texts.len())
            .with("vectors", vectors.len()));
    }
    let length = vectors.first().map_or(0, Vec::len);
    if vectors
        .iter()
        .any(|vector| vector.is_empty() || vector.len() != length)
    {
        return Err(wrong(
            "the embedder gives vectors without entries, or of several lengths",
        ));
    }
    if vectors.iter().flatten().any(|entry| !entry.is_finite()) {
        return Err(wrong(
            "the embedder gives vectors with entries that are no numbers",
        ));
    }
    let of = |vector| Embedding {
        embedder: embedder.name().to_owned(),
        vector,
    };
    Ok(vectors.into_iter().map(of).collect())
}

/// The embedder that counts words: each word adds to one place of the vector, which its hash chooses with the sign
/// (Weinberger and others 2009). Texts with the same words are near; it knows nothing of meaning, needs no network, and gives
/// the same vectors everywhere.
#[derive(Debug, Clone, Copy)]
pub struct HashedWords {
    /// Entries of a vector.
    pub length: usize,
}

impl Default for HashedWords {
    fn default() -> Self {
        Self { length: 256 }
    }
}

#[async_trait]
impl Embedder for HashedWords {
    fn name(&self) -> &str {
        "hashed-words"
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>> {
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }
}

impl HashedWords {
    fn vector(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.0; self.length];
        for word in words(text) {
            // The first digits of the hash choose the place, the next one the sign.
            let hash = Digest::of(word.as_bytes()).to_string();
            let place = hash
                .get(..8)
                .and_then(|digits| usize::from_str_radix(digits, 16).ok());
            let is_negative = hash.as_bytes().get(8).is_some_and(|digit| digit % 2 == 0);
            if let Some(entry) = place.and_then(|place| vector.get_mut(place % self.length.max(1))) {
                *entry += if is_negative { -1.0 } else { 1.0 };
            }
        }
        vector
    }
}
