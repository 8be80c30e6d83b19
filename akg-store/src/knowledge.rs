//! The shelf of knowledge in the store's file.

use akg_core::digest::Digest;
use akg_core::error::{Error, Result};
use akg_core::knowledge::{Article, Card, Embedding, Kind, Knowledge, words};
use rusqlite::{Connection, OptionalExtension as _, params, params_from_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::sqlite::SqliteStore;
use crate::vectors::{bytes, entries};

/// What a word of the name counts for, beside one of the text.
const OF_NAME: f64 = 4.0;

impl Knowledge for SqliteStore {
    fn shelve(&self, article: &Article) -> Result<()> {
        let key = article.card.key.to_string();
        let (card, body) = (json(&article.card)?, json(&article.body)?);
        // Words as akg cuts them, which the tables' own tokenizer leaves whole.
        let (name, text) = (
            words(&article.card.name).join(" "),
            words(&article.text()).join(" "),
        );
        self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            let number: i64 = transaction.query_row(
                "INSERT INTO article (key, kind, card, body) VALUES (?1, ?2, ?3, ?4)
                ON CONFLICT (key) DO UPDATE SET kind = excluded.kind, card = excluded.card, body = excluded.body
                RETURNING number",
                params![key, article.card.kind.name(), card, body],
                |row| row.get(0),
            )?;
            transaction.execute("DELETE FROM article_words WHERE rowid = ?1", [number])?;
            transaction.execute(
                "INSERT INTO article_words (rowid, name, text) VALUES (?1, ?2, ?3)",
                params![number, name, text],
            )?;
            transaction.execute("DELETE FROM article_vector WHERE number = ?1", [number])?;
            if let Some(Embedding { embedder, vector }) = &article.embedding {
                transaction.execute(
                    "INSERT INTO article_vector (number, embedder, vector) VALUES (?1, ?2, ?3)",
                    params![number, embedder, bytes(vector)],
                )?;
            }
            transaction.commit()
        })
    }

    fn withdraw(&self, key: Digest) -> Result<()> {
        let key = key.to_string();
        self.with(|connection| {
            let transaction = connection.unchecked_transaction()?;
            for (table, column) in [("article_words", "rowid"), ("article_vector", "number")] {
                let statement = format!(
                    "DELETE FROM {table} WHERE {column} IN (SELECT number FROM article WHERE key = ?1)"
                );
                transaction.execute(&statement, [&key])?;
            }
            transaction.execute("DELETE FROM article WHERE key = ?1", [&key])?;
            transaction.commit()
        })
    }

    fn article(&self, key: Digest) -> Result<Option<Article>> {
        let statement = "SELECT card, body, embedder, vector FROM article
            LEFT JOIN article_vector USING (number) WHERE key = ?1";
        let row: Option<(String, String, Option<Embedding>)> = self.with(|connection| {
            connection
                .prepare(statement)?
                .query_row([key.to_string()], |row| {
                    Ok((row.get(0)?, row.get(1)?, embedding(row.get(2)?, row.get(3)?)))
                })
                .optional()
        })?;
        let Some((card, body, embedding)) = row else {
            return Ok(None);
        };
        let (card, body) = (read(&card)?, read(&body)?);
        Ok(Some(Article {
            card,
            body,
            embedding,
        }))
    }

    fn cards(&self, kinds: &[Kind]) -> Result<Vec<Card>> {
        let places = vec!["?"; kinds.len()].join(", ");
        let statement = format!("SELECT card FROM article WHERE kind IN ({places}) ORDER BY number");
        let cards = self.with(|connection| {
            let names = params_from_iter(kinds.iter().map(|kind| kind.name()));
            texts(connection, &statement, names)
        })?;
        cards.iter().map(|card| read(card)).collect()
    }

    fn matches(&self, wanted: &[String]) -> Result<Vec<(Digest, f64)>> {
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        // Between quotes, words are words and not the operators of FTS5's language.
        let any: Vec<String> = wanted
            .iter()
            .map(|word| format!("\"{}\"", word.replace('"', "")))
            .collect();
        let statement = "SELECT article.key, -bm25(article_words, ?2, 1.0) FROM article_words
            JOIN article ON article.number = article_words.rowid WHERE article_words MATCH ?1 ORDER BY article.number";
        self.numbers(statement, params![any.join(" OR "), OF_NAME])
    }

    fn near(&self, embedding: &Embedding) -> Result<Vec<(Digest, f64)>> {
        if embedding.vector.is_empty() {
            return Ok(Vec::new());
        }
        // A vector without a direction has no angle to others; SQLite knows it as null.
        let statement = "SELECT key, 1 - coalesce(vec_distance_cosine(vector, ?2), 1) FROM article_vector
            JOIN article USING (number) WHERE embedder = ?1 AND length(vector) = length(?2) ORDER BY number";
        self.numbers(statement, params![embedding.embedder, bytes(&embedding.vector)])
    }
}

impl SqliteStore {
    /// The keys and numbers that a statement gives.
    fn numbers(&self, statement: &str, values: impl rusqlite::Params) -> Result<Vec<(Digest, f64)>> {
        let found: Vec<(String, f64)> = self.with(|connection| {
            let mut statement = connection.prepare(statement)?;
            let rows = statement.query_map(values, |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })?;
        found
            .into_iter()
            .map(|(key, number)| Ok((key.parse()?, number)))
            .collect()
    }
}

/// The embedding of a row, if it has one.
fn embedding(embedder: Option<String>, vector: Option<Vec<u8>>) -> Option<Embedding> {
    Some(Embedding {
        embedder: embedder?,
        vector: entries(&vector?),
    })
}

fn texts(
    connection: &Connection,
    statement: &str,
    values: impl rusqlite::Params,
) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(statement)?;
    let rows = statement.query_map(values, |row| row.get(0))?;
    rows.collect()
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value)
        .map_err(|e| Error::unexpected("cannot write an article as JSON").caused_by(e))
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| {
        Error::invalid("an article of the store cannot be read; it was damaged, or another akg wrote it; `akg knowledge build` makes it anew")
            .caused_by(e)
    })
}
