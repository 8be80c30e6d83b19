//! What helps most with a task.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::{Article, Card, Embedding, Kind, Knowledge, Problem, words};
use crate::digest::Digest;
use crate::error::Result;
use crate::store::Retrieved;
use crate::target::Target;
use crate::task::Task;

/// What the parts of a score count for, where the query has them.
const STRUCTURE: f64 = 0.6;
const WORDS: f64 = 0.25;
const MEANING: f64 = 0.15;

/// Two kernels that differ in more than extents are less alike than their tasks.
const OTHER_SKELETON: f64 = 0.6;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Query {
    /// The task. What answers the same problem is left out.
    pub problem: Option<Problem>,
    /// Whether what answers the same computation at other sizes is left out, too.
    pub strict: bool,
    /// Words: what failed, what is looked for.
    pub text: String,
    /// What is meant, in sentences or code: what an [embedder](super::embed::understand) embeds.
    pub meaning: String,
    /// The embedding of what is meant.
    pub embedding: Option<Embedding>,
    /// What it may be about.
    pub kinds: Vec<Kind>,
    /// The DSL. What holds only for another is left out.
    pub dsl: Option<String>,
    /// The backend. What holds only for another is left out.
    pub backend: Option<String>,
    /// The architecture. What holds only for another is left out.
    pub arch: Option<String>,
    /// How many to find at most.
    pub most: usize,
    /// The least [score](Found::score) of what is found.
    pub least: f64,
    /// How much what is found shall differ from what was found before it, from 0 for not at all to 1.
    pub diversity: f64,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            problem: None,
            strict: false,
            text: String::new(),
            meaning: String::new(),
            embedding: None,
            kinds: Kind::ALL.to_vec(),
            dsl: None,
            backend: None,
            arch: None,
            most: 3,
            least: 0.0,
            diversity: 0.1,
        }
    }
}

impl Query {
    /// What is known that helps with a task on a device.
    ///
    /// # Errors
    /// If an extent of the task has no value.
    pub fn of(task: &Task, target: &Target) -> Result<Self> {
        Ok(Self {
            problem: Some(Problem::of(task)?),
            backend: Some(target.backend.clone()),
            arch: Some(target.arch.clone()),
            ..Self::default()
        })
    }

    /// Only of these kinds.
    #[must_use]
    pub fn about(mut self, kinds: &[Kind]) -> Self {
        self.kinds = kinds.to_vec();
        self
    }

    /// For this DSL.
    #[must_use]
    pub fn for_dsl(mut self, dsl: impl Into<String>) -> Self {
        self.dsl = Some(dsl.into());
        self
    }

    /// With these words.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// With this meaning.
    #[must_use]
    pub fn with_meaning(mut self, meaning: impl Into<String>) -> Self {
        self.meaning = meaning.into();
        self
    }

    /// At most so many.
    #[must_use]
    pub fn at_most(mut self, most: usize) -> Self {
        self.most = most;
        self
    }

    /// Only with at least this score.
    #[must_use]
    pub fn at_least(mut self, least: f64) -> Self {
        self.least = least;
        self
    }

    /// Whether a card may be shown: it holds for what is asked about, and is no answer to the very problem.
    pub fn admits(&self, card: &Card) -> bool {
        let holds = |of_card: &Option<String>, asked: &Option<String>| match (of_card, asked) {
            (Some(of_card), Some(asked)) => of_card == asked,
            _ => true,
        };
        let answers = self.problem.iter().zip(&card.problem).any(|(asked, answered)| {
            asked.is_same(answered)
                || (self.strict && asked.features.structure == answered.features.structure)
        });
        self.kinds.contains(&card.kind)
            && holds(&card.dsl, &self.dsl)
            && holds(&card.backend, &self.backend)
            && holds(&card.arch, &self.arch)
            && !answers
    }

    /// How well a card fits, from 0 to 1, and why. `words` is how well the words fit, from 0 to 1; `near` is how near its meaning
    /// is, from -1 to 1, if both have an embedding.
    fn score(&self, card: &Card, words: f64, near: Option<f64>) -> (f64, String) {
        let mut why = Vec::new();
        let (mut score, mut whole) = (0.0, 0.0);
        let mut add = |weight: f64, part: f64| {
            score += weight * part;
            whole += weight;
        };
        match (&self.problem, &card.problem) {
            (Some(asked), Some(answered)) => {
                add(STRUCTURE, asked.features.likeness(&answered.features));
                why.push(kinship(asked, answered));
            }
            // What answers no problem holds for all of them, the better the more it is made for what is asked about.
            (Some(_), None) => {
                let made_for = [&card.dsl, &card.backend, &card.arch].map(Option::is_some);
                add(
                    STRUCTURE,
                    f64::from(made_for.map(u8::from).iter().sum::<u8>()) / 3.0,
                );
                let made_for: Vec<&str> = [&card.dsl, &card.backend, &card.arch]
                    .into_iter()
                    .filter_map(|name| name.as_deref())
                    .collect();
                if !made_for.is_empty() {
                    why.push(format!("for {}", made_for.join(", ")));
                }
            }
            (None, _) => {}
        }
        if !self.text.is_empty() {
            add(WORDS, words);
            if words > 0.0 {
                why.push(format!("its words fit by {words:.2}"));
            }
        }
        if let Some(near) = near {
            let near = near.max(0.0);
            add(MEANING, near);
            why.push(format!("it means the like by {near:.2}"));
        }
        (if whole > 0.0 { score / whole } else { 0.0 }, why.join("; "))
    }
}

/// What two problems have in common, in words.
fn kinship(asked: &Problem, answered: &Problem) -> String {
    let (asked, answered) = (&asked.features, &answered.features);
    if let Some(octaves) = asked.distance(answered) {
        return format!("the same computation at sizes {octaves:.1} octaves away");
    }
    let shared = asked
        .operators
        .keys()
        .filter(|name| answered.operators.contains_key(*name));
    let shared: Vec<&str> = shared.map(String::as_str).collect();
    match (shared.as_slice(), asked.family == answered.family) {
        ([], true) => format!("it is one of {}, too", asked.family),
        ([], false) => "it has nothing in common with the task".to_owned(),
        (shared, _) => format!(
            "{} of its operators are the task's: {}",
            shared.len(),
            shared.join(", ")
        ),
    }
}

/// Something that was found, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// The article.
    pub article: Article,
    /// How well it fits, from 0 to 1.
    pub score: f64,
    /// Why, for people.
    pub why: String,
}

impl Found {
    /// The same for the trace of a run.
    pub fn retrieved(&self) -> Retrieved {
        Retrieved {
            kind: self.article.card.kind.name().to_owned(),
            name: self.article.card.name.clone(),
            why: self.why.clone(),
        }
    }
}

/// How alike two articles are, from 0 to 1; `near` is how near their meanings are, if both have an embedding.
fn alike(a: &Card, b: &Card, near: Option<f64>) -> f64 {
    if a.kind != b.kind {
        return 0.0;
    }
    match (&a.problem, &b.problem) {
        (Some(p), Some(q)) => {
            let same = a.skeleton == b.skeleton;
            p.features.likeness(&q.features) * if same { 1.0 } else { OTHER_SKELETON }
        }
        _ => near.map_or(0.0, |near| near.max(0.0)),
    }
}

/// The articles that can be compared with an embedding, and how near they are.
fn near_to(shelf: &(impl Knowledge + ?Sized), embedding: Option<&Embedding>) -> Result<HashMap<Digest, f64>> {
    let near = embedding.map(|embedding| shelf.near(embedding)).transpose()?;
    Ok(near.into_iter().flatten().collect())
}

/// What may be found.
struct Open {
    card: Card,
    score: f64,
    /// Why it has this score.
    why: String,
    /// How alike it is to what it is most alike to of what was found.
    alike: f64,
}

/// What fits best, each the less the more it is like one before it: maximal marginal relevance (Carbonell and Goldstein
/// 1998).
pub(super) fn search(shelf: &(impl Knowledge + ?Sized), query: &Query) -> Result<Vec<Found>> {
    let mut fits: HashMap<Digest, f64> = HashMap::new();
    if !query.text.is_empty() {
        fits.extend(shelf.matches(&words(&query.text))?);
    }
    let near = near_to(shelf, query.embedding.as_ref())?;
    let cards = shelf.cards(&query.kinds)?;
    let admitted: Vec<Card> = cards.into_iter().filter(|card| query.admits(card)).collect();
    let fit = |card: &Card| fits.get(&card.key).copied().unwrap_or(0.0);
    let best = admitted.iter().map(fit).fold(0.0, f64::max);
    let words_alone = !query.text.is_empty() && query.problem.is_none() && query.embedding.is_none();
    let mut open: Vec<Open> = admitted
        .into_iter()
        .map(|card| {
            let words = if best > 0.0 { fit(&card) / best } else { 0.0 };
            let (score, why) = query.score(&card, words, near.get(&card.key).copied());
            Open {
                card,
                score,
                why,
                alike: 0.0,
            }
        })
        // Where only words are asked for, what has none of them was not found.
        .filter(|open| open.score >= query.least && (!words_alone || open.score > 0.0))
        .collect();
    let mut found: Vec<Found> = Vec::new();
    while found.len() < query.most {
        let worth = |open: &Open| (1.0 - query.diversity) * open.score - query.diversity * open.alike;
        let worths = open.iter().map(worth).enumerate();
        // Of equals, the first on the shelf.
        let Some((at, _)) = worths.reduce(|a, b| if b.1 > a.1 { b } else { a }) else {
            break;
        };
        let Open { card, score, why, .. } = open.remove(at);
        // Somebody else may have taken it off the shelf since.
        let Some(article) = shelf.article(card.key)? else {
            continue;
        };
        if found.len() + 1 < query.most {
            // Articles about problems are as alike as these are.
            let embedding = article.embedding.as_ref().filter(|_| card.problem.is_none());
            let near = near_to(shelf, embedding)?;
            for other in &mut open {
                let alike = alike(&other.card, &card, near.get(&other.card.key).copied());
                other.alike = other.alike.max(alike);
            }
        }
        found.push(Found { article, score, why });
    }
    Ok(found)
}
