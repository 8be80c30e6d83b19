//! What is known about writing kernels, and finding what helps with a task.
//!
//! [`Knowledge`] is a shelf of [`Article`]s: kernels that were verified, failures and what mended them, guides to languages,
//! sheets of devices. [`learn`](mine::learn) makes the first two from what a [store](crate::store) remembers;
//! [`pages`](pages::pages) has the others, which are part of the library. [`KnowledgeExt::search`] finds what is near a
//! [`Query`] by the structure of the computation, by words and by embeddings, and leaves out what answers the very problem
//! that is asked about.
//!
//! [`MemoryKnowledge`] ends with the process; the crate `akg-store` keeps articles in the store's file. A shelf of one's own
//! has six methods, and `conformance::knowledge` says whether it keeps the rules.

pub mod embed;
mod features;
mod memory;
pub mod mine;
pub mod pages;
#[cfg(feature = "models")]
mod questions;
mod rank;
mod text;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use embed::{Embedder, Embedding};
pub use features::Features;
pub use memory::MemoryKnowledge;
#[cfg(feature = "models")]
pub(crate) use questions::questions;
pub use rank::{Found, Query};
pub use text::words;

use crate::digest::Digest;
use crate::error::Result;
use crate::source::Knobs;
use crate::task::Accuracy;
use crate::verdict::Failure;

/// What an article is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A kernel that was verified.
    Kernel,
    /// A failure and what mended it.
    Fix,
    /// How to write a kernel language.
    Guide,
    /// What a device is like.
    Hardware,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 4] = [Kind::Kernel, Kind::Fix, Kind::Guide, Kind::Hardware];

    /// The name on the command line and in [`Retrieved`](crate::store::Retrieved).
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Kernel => "kernel",
            Kind::Fix => "fix",
            Kind::Guide => "guide",
            Kind::Hardware => "hardware",
        }
    }
}

/// What an article is found by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// What distinguishes articles; a later one with the same key takes the place of the earlier.
    pub key: Digest,
    /// What it is about.
    pub kind: Kind,
    /// Its name, for people.
    pub name: String,
    /// The only DSL that it holds for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dsl: Option<String>,
    /// The only backend that it holds for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The only architecture that it holds for, as [`Target::arch`](crate::Target::arch) names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// The problem that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
    /// Of a kernel, what it is whatever its extents: [`tuner::kernel_of`](crate::tuner::kernel_of).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skeleton: Option<Digest>,
}

/// A task as articles refer to it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// [`Task::fingerprint`](crate::Task::fingerprint).
    pub task: Digest,
    /// What the computation looks like.
    pub features: Features,
}

impl Problem {
    /// A task as articles refer to it.
    ///
    /// # Errors
    /// If an extent of the task has no value.
    pub fn of(task: &crate::Task) -> Result<Self> {
        Ok(Self {
            task: task.fingerprint()?,
            features: Features::of(task)?,
        })
    }

    /// Whether both are one problem, perhaps under other names or in another accuracy class.
    pub fn is_same(&self, other: &Self) -> bool {
        self.task == other.task || self.features.is_same_problem(&other.features)
    }
}

/// Something known, and what it is found by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Article {
    /// What it is found by.
    pub card: Card,
    /// What it says.
    pub body: Body,
    /// The embedding of its text; [`embed::embed`] gives it one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedding: Option<Embedding>,
}

/// What an article says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "form")]
pub enum Body {
    /// A kernel that was verified.
    Kernel(KernelBody),
    /// A failure and what mended it.
    Fix(FixBody),
    /// Markdown.
    Page {
        /// The text.
        text: String,
    },
}

/// A kernel that was verified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelBody {
    /// The graph, as people read it.
    pub graph: String,
    /// The sketch's text.
    pub sketch: String,
    /// Values of its knobs, and the DSL's own.
    pub knobs: Knobs,
    /// The DSL that it was lowered to.
    pub dsl: String,
    /// The device's name.
    pub device: String,
    /// The class in which it was verified.
    pub accuracy: Accuracy,
    /// Seconds of a call with warm caches: the median of the latest contest; `None` if it was never timed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Time of its fastest rival over its own; `None` without rivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speedup: Option<f64>,
    /// Configurations of the sketch that tuning tried for this shape on this device.
    pub tried: usize,
}

/// A failure and what mended it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FixBody {
    /// What failed.
    pub before: String,
    /// How.
    pub failure: Failure,
    /// What passed instead.
    pub after: String,
    /// Why that was proposed, in the agent's words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A shelf of articles.
///
/// Shared by threads, and where it outlives the process, by processes.
pub trait Knowledge: Send + Sync + fmt::Debug {
    /// Puts an article on the shelf. It replaces one with the same key, in that one's place.
    fn shelve(&self, article: &Article) -> Result<()>;

    /// Takes an article off the shelf; nothing happens if it is not there.
    fn withdraw(&self, key: Digest) -> Result<()>;

    /// The article with this key.
    fn article(&self, key: Digest) -> Result<Option<Article>>;

    /// The cards of all articles of these kinds, in the order in which their keys were first shelved.
    fn cards(&self, kinds: &[Kind]) -> Result<Vec<Card>>;

    /// The articles whose name or [text](Article::text) has one of these [words], each with how well it fits: more for rare
    /// words, for words that are often in it, and for words of the name (BM25; Robertson and Zaragoza 2009).
    fn matches(&self, words: &[String]) -> Result<Vec<(Digest, f64)>>;

    /// The articles with embeddings that can be compared with this one, each with the [cosine](Embedding::cosine) of the angle
    /// between both.
    fn near(&self, embedding: &Embedding) -> Result<Vec<(Digest, f64)>>;
}

/// Conveniences for [`Knowledge`].
pub trait KnowledgeExt: Knowledge {
    /// Puts an article on the shelf unless it is there already, whose embedding then stays.
    fn renew(&self, article: &Article) -> Result<()> {
        let known = self.article(article.card.key)?;
        if known.is_some_and(|known| known.card == article.card && known.body == article.body) {
            return Ok(());
        }
        self.shelve(article)
    }

    /// What helps most with what is asked, best first.
    fn search(&self, query: &Query) -> Result<Vec<Found>> {
        rank::search(self, query)
    }
}

impl<K: Knowledge + ?Sized> KnowledgeExt for K {}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        impl<K: Knowledge + ?Sized> Knowledge for $pointer<K> {
            fn shelve(&self, article: &Article) -> Result<()> {
                (**self).shelve(article)
            }

            fn withdraw(&self, key: Digest) -> Result<()> {
                (**self).withdraw(key)
            }

            fn article(&self, key: Digest) -> Result<Option<Article>> {
                (**self).article(key)
            }

            fn cards(&self, kinds: &[Kind]) -> Result<Vec<Card>> {
                (**self).cards(kinds)
            }

            fn matches(&self, words: &[String]) -> Result<Vec<(Digest, f64)>> {
                (**self).matches(words)
            }

            fn near(&self, embedding: &Embedding) -> Result<Vec<(Digest, f64)>> {
                (**self).near(embedding)
            }
        }
    )*};
}
forward!(Arc, Box);
