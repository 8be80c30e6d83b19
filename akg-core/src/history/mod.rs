//! What agents did in a run, read back from a store: the tree of their steps, the conversations, and what can be learned
//! from both.

mod trajectory;

pub use trajectory::{Trajectory, reward, trajectories};

use crate::chat::{ChatReply, Message, Usage};
use crate::digest::Digest;
use crate::error::{Error, ErrorKind, Result};
use crate::store::{Answer, ExchangeRecord, RunRecord, StepRecord, Store, StoreExt as _};

/// Digits of a run's key that are shown, and enough to name it.
const SHOWN: usize = 12;

/// A run with all that is kept of it.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// The run.
    pub run: RunRecord,
    /// Its steps, by number.
    pub steps: Vec<StepRecord>,
    /// Its exchanges with models, by number.
    pub exchanges: Vec<ExchangeRecord>,
}

impl History {
    /// What a store has of a run.
    pub fn load(store: &(impl Store + ?Sized), run: RunRecord) -> Result<Self> {
        let mut steps: Vec<StepRecord> = store.all(Some(run.key))?;
        steps.sort_by_key(|step| step.number);
        let mut exchanges: Vec<ExchangeRecord> = store.all(Some(run.key))?;
        exchanges.sort_by_key(|exchange| exchange.number);
        Ok(Self {
            run,
            steps,
            exchanges,
        })
    }

    /// The run that `name` means: the beginning of a run's key, or the name of a task, of whose runs it is the latest.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is none, [`ErrorKind::InvalidInput`] if several keys begin so.
    pub fn find(store: &(impl Store + ?Sized), name: &str) -> Result<Self> {
        let runs: Vec<RunRecord> = store.all(None)?;
        let of_task = runs.iter().filter(|run| run.name == name);
        if let Some(latest) = of_task.max_by_key(|run| run.at) {
            return Self::load(store, latest.clone());
        }
        let begins = |run: &&RunRecord| !name.is_empty() && run.key.to_string().starts_with(name);
        let mut found = runs.iter().filter(begins);
        match (found.next(), found.next()) {
            (Some(run), None) => Self::load(store, run.clone()),
            (Some(one), Some(other)) => Err(Error::invalid(
                "several runs have keys that begin so; give more digits",
            )
            .with("run", name)
            .with("one", one.key)
            .with("another", other.key)),
            _ => Err(Error::new(
                ErrorKind::NotFound,
                "the store has no such run; `akg trace` lists those it has",
            )
            .with("run", name)),
        }
    }

    /// The step with this number.
    pub fn step(&self, number: usize) -> Option<&StepRecord> {
        let at = self
            .steps
            .binary_search_by_key(&number, |step| step.number)
            .ok()?;
        self.steps.get(at)
    }

    /// The step that a step hangs from in the tree: the first of its parents.
    pub fn parent(&self, step: &StepRecord) -> Option<&StepRecord> {
        let mut earlier = step.parents.iter().filter(|parent| **parent < step.number);
        earlier.find_map(|parent| self.step(*parent))
    }

    /// The steps that hang from this one, or with `None` from nothing, in order.
    pub fn children(&self, number: Option<usize>) -> impl Iterator<Item = &StepRecord> {
        let hangs = move |step: &&StepRecord| self.parent(step).map(|parent| parent.number) == number;
        self.steps.iter().filter(hangs)
    }

    /// The steps that led to this one, from the first on, with it.
    pub fn lineage(&self, number: usize) -> Vec<&StepRecord> {
        let mut lineage: Vec<_> =
            std::iter::successors(self.step(number), |step| self.parent(step)).collect();
        lineage.reverse();
        lineage
    }

    /// The step with the best candidate: that which the run names, else the fastest.
    pub fn best(&self) -> Option<&StepRecord> {
        let named = self.run.best.and_then(|number| self.step(number));
        let timed = self.steps.iter().filter(|step| passed(step));
        let timed = timed.filter_map(|step| Some((step, step.seconds?)));
        named.or_else(|| Some(timed.min_by(|a, b| a.1.total_cmp(&b.1))?.0))
    }

    /// The exchanges of a step, in order.
    pub fn exchanges_of<'a>(&'a self, step: &'a StepRecord) -> impl Iterator<Item = &'a ExchangeRecord> {
        let of_step = |exchange: &&ExchangeRecord| {
            let key = ExchangeRecord::key_of(exchange.run, exchange.number);
            step.exchanges.contains(&key)
        };
        self.exchanges.iter().filter(of_step)
    }

    /// The tokens of all replies whose server said how many they were.
    pub fn usage(&self) -> Usage {
        let replies = self
            .exchanges
            .iter()
            .filter_map(|exchange| reply(exchange)?.usage);
        replies.sum()
    }

    /// The messages of an exchange that no earlier one of the run had in the same place: what was said anew.
    pub fn news<'a>(&'a self, exchange: &'a ExchangeRecord) -> &'a [Message] {
        let messages = exchange.request.messages.as_slice();
        let earlier = self.exchanges.iter().take_while(|e| e.number < exchange.number);
        let known = earlier.map(|earlier| {
            let said = reply(earlier).map(ChatReply::message);
            let before = earlier.request.messages.iter().chain(said.as_ref());
            before.zip(messages).take_while(|(a, b)| a == b).count()
        });
        messages.get(known.max().unwrap_or(0)..).unwrap_or_default()
    }
}

/// Whether a step led to a verified candidate.
pub fn passed(step: &StepRecord) -> bool {
    step.candidate.is_some() && step.failure.is_none()
}

/// What a model answered, if it did.
pub fn reply(exchange: &ExchangeRecord) -> Option<&ChatReply> {
    match &exchange.answer {
        Answer::Reply(reply) => Some(reply),
        Answer::Error { .. } => None,
    }
}

/// The digits of a run's key that are shown.
pub fn short(key: Digest) -> String {
    key.to_string().chars().take(SHOWN).collect()
}
