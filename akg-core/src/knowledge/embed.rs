//! Texts as vectors, near each other where texts mean the like.

use std::fmt;

use async_trait::async_trait;

use super::{Article, words};
use crate::digest::Digest;
use crate::error::{Error, Result};

/// Turns texts into vectors: an endpoint, or something of one's own.
#[async_trait]
pub trait Embedder: Send + Sync + fmt::Debug {
    /// Its name. Vectors of embedders with other names cannot be compared.
    fn name(&self) -> &str;

    /// One vector for each text, all of the same length.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>>;
}

/// Gives articles the embeddings of their texts.
///
/// # Errors
/// If the embedder fails, or does not give a vector for each text.
pub async fn embed(embedder: &dyn Embedder, articles: &mut [Article]) -> Result<()> {
    let texts: Vec<String> = articles.iter().map(Article::text).collect();
    let vectors = embedder.embed(&texts).await?;
    if vectors.len() != articles.len() {
        return Err(
            Error::invalid("the embedder does not give a vector for each text")
                .with("embedder", embedder.name())
                .with("texts", texts.len())
                .with("vectors", vectors.len()),
        );
    }
    for (article, vector) in articles.iter_mut().zip(vectors) {
        article.card.embedding = Some(vector);
    }
    Ok(())
}

/// The cosine of the angle between two vectors; 0 if they cannot be compared.
pub fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| {
        a.iter()
            .zip(b)
            .map(|(a, b)| f64::from(*a) * f64::from(*b))
            .sum::<f64>()
    };
    let norms = (dot(a, a) * dot(b, b)).sqrt();
    if a.len() == b.len() && norms > 0.0 {
        dot(a, b) / norms
    } else {
        0.0
    }
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
