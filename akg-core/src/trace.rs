//! What agents do in a run, written to the store the moment it is known.
//!
//! A [`Trace`] is handed to agents with their context. A model that is asked [through it](Trace::asking) has each exchange
//! recorded with the run and the role, and what is [looked up](Trace::look_up) is recorded, too. A run that was killed and is started again has the same [key](RunRecord::key):
//! what was answered before is not asked again, what was found before is found again, and steps that are taken again are the same records.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;

use crate::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest, Sink};
use crate::digest::Digest;
use crate::error::Result;
use crate::knowledge::embed::understand;
use crate::knowledge::{Embedder, Found, Knowledge, KnowledgeExt as _, Query};
use crate::store::{
    Answer, ExchangeRecord, LookupRecord, Record as _, Retrieved, RunRecord, StepRecord, Store,
    StoreExt as _, now,
};

/// Where a run's steps and exchanges are written, and where its agents look things up. The default writes nothing and finds
/// nothing.
#[derive(Clone, Default)]
pub struct Trace {
    run: Option<Arc<Run>>,
    shelf: Option<Arc<dyn Knowledge>>,
    embedder: Option<Arc<dyn Embedder>>,
    /// Who is asked for, where several are at a time.
    member: Option<usize>,
    pending: Arc<Mutex<Pending>>,
}

/// What belongs to the next step.
#[derive(Default)]
struct Pending {
    exchanges: Vec<Digest>,
    /// What was looked up.
    shown: Vec<Retrieved>,
}

/// A run that is traced.
struct Run {
    store: Arc<dyn Store>,
    record: RunRecord,
    progress: Mutex<Progress>,
}

#[derive(Default)]
struct Progress {
    steps: Vec<StepRecord>,
    /// The number of the next exchange.
    next: usize,
    /// What was answered before this run was started again, by what was asked: numbers and replies in order.
    answered: HashMap<Digest, VecDeque<(usize, ChatReply)>>,
}

/// What an agent did.
#[derive(Debug, Clone, Copy)]
pub struct Taken<'a> {
    /// The steps whose proposals it began with.
    pub parents: &'a [usize],
    /// The [role](crate::agent::Role::NAME).
    pub role: &'a str,
    /// The agent's name.
    pub agent: &'a str,
    /// Why, in the agent's words or the rules'.
    pub why: &'a str,
    /// What it proposes.
    pub proposal: &'a str,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let run = self.run.as_ref().map(|run| run.record.key);
        f.debug_tuple("Trace").field(&run).finish()
    }
}

impl Trace {
    /// Begins a run, or goes on with one of the same key.
    ///
    /// # Errors
    /// The store's.
    pub fn begin(store: Arc<dyn Store>, mut record: RunRecord) -> Result<Self> {
        if let Some(earlier) = store.load::<RunRecord>(record.key)? {
            record.at = earlier.at;
        }
        let mut progress = Progress::default();
        for exchange in store.all::<ExchangeRecord>(Some(record.key))? {
            progress.next = progress.next.max(exchange.number + 1);
            if let Answer::Reply(reply) = exchange.answer {
                let asked = question(
                    &exchange.role,
                    exchange.member,
                    &exchange.model,
                    &exchange.request,
                )?;
                let replies = progress.answered.entry(asked).or_default();
                replies.push_back((exchange.number, reply));
            }
        }
        store.save(&record)?;
        let run = Run {
            store,
            record,
            progress: Mutex::new(progress),
        };
        Ok(Self {
            run: Some(Arc::new(run)),
            ..Self::default()
        })
    }

    /// The same run for agents that work beside others: what they ask and look up belongs to the next step that is recorded
    /// through what this gives, whatever others record meanwhile. `member` says whom they are asked for where several are at
    /// a time, so that who asks the same again gets the same answer.
    #[must_use]
    pub fn apart(&self, member: Option<usize>) -> Self {
        Self {
            member,
            pending: Arc::default(),
            ..self.clone()
        }
    }

    /// What was asked and looked up [apart](Self::apart) and led to no step belongs to the next step that is recorded here.
    pub fn join(&self, apart: &Self) {
        let Pending { exchanges, shown } = std::mem::take(&mut *apart.pending());
        let mut pending = self.pending();
        pending.exchanges.extend(exchanges);
        pending.shown.extend(shown);
    }

    /// The same run, whose agents may look things up on a shelf.
    #[must_use]
    pub fn with_knowledge(self, shelf: Option<Arc<dyn Knowledge>>) -> Self {
        Self { shelf, ..self }
    }

    /// The same run, which compares what is looked up with the embeddings on the shelf.
    #[must_use]
    pub fn with_embedder(self, embedder: Option<Arc<dyn Embedder>>) -> Self {
        Self { embedder, ..self }
    }

    /// What is on the shelf that these queries find in the language of the run, as far as it is no more than an agent can be
    /// shown. The next step has been shown it. Who asks the same again in this run is told the same, whatever has come to the
    /// shelf since.
    ///
    /// # Errors
    /// The store's, the shelf's and the embedder's.
    pub async fn look_up(&self, queries: &[Query]) -> Result<Vec<Found>> {
        let (Some(run), Some(shelf)) = (&self.run, &self.shelf) else {
            return Ok(Vec::new());
        };
        let question = Digest::of_value(&queries)?;
        let key = LookupRecord::key_of(run.record.key, question);
        let found = match run.store.load::<LookupRecord>(key)? {
            Some(earlier) => earlier.found,
            None => {
                let mut queries = queries.to_vec();
                if let Some(embedder) = &self.embedder {
                    understand(&**embedder, &mut queries).await?;
                }
                let found = bounded(shelf, &queries, &run.record.dsl)?;
                run.store.save(&LookupRecord {
                    run: run.record.key,
                    question,
                    found: found.clone(),
                    at: now(),
                })?;
                found
            }
        };
        let shown = &mut self.pending().shown;
        for article in found.iter().map(Found::retrieved) {
            if !shown.contains(&article) {
                shown.push(article);
            }
        }
        Ok(found)
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        locked(&self.pending)
    }

    /// A model whose exchanges are recorded as those of a role.
    pub fn asking(&self, role: &'static str, model: Arc<dyn ChatModel>) -> Traced {
        let trace = self.clone();
        Traced { trace, role, model }
    }

    /// Records a step with the exchanges since the last one of this trace; gives its number.
    ///
    /// # Errors
    /// The store's.
    pub fn step(&self, taken: &Taken<'_>) -> Result<usize> {
        let Some(run) = &self.run else {
            return Ok(0);
        };
        let Pending { exchanges, shown } = std::mem::take(&mut *self.pending());
        let mut progress = run.progress();
        let number = progress.steps.len();
        let proposal = Some(run.store.put_blob(taken.proposal.as_bytes())?);
        let mut step = StepRecord {
            run: run.record.key,
            number,
            parents: taken.parents.to_vec(),
            role: taken.role.to_owned(),
            agent: taken.agent.to_owned(),
            why: taken.why.to_owned(),
            proposal,
            candidate: None,
            failure: None,
            seconds: None,
            speedup: None,
            exchanges,
            retrieved: shown,
            at: now(),
        };
        // What became of the same step before is known still.
        let earlier: Option<StepRecord> = run.store.load(step.key())?;
        if let Some(earlier) = earlier.filter(|earlier| earlier.proposal == step.proposal) {
            step = StepRecord {
                parents: step.parents,
                why: step.why,
                exchanges: step.exchanges,
                retrieved: step.retrieved,
                ..earlier
            };
        }
        run.store.save(&step)?;
        progress.steps.push(step);
        Ok(number)
    }

    /// Records what became of a step.
    ///
    /// # Errors
    /// The store's.
    pub fn amend(&self, number: usize, change: impl FnOnce(&mut StepRecord)) -> Result<()> {
        let Some(run) = &self.run else {
            return Ok(());
        };
        let mut progress = run.progress();
        match progress.steps.get_mut(number) {
            Some(step) => {
                change(step);
                run.store.save(step)
            }
            None => Ok(()),
        }
    }

    /// Records why the run ended, and the number of the step with its best candidate.
    ///
    /// # Errors
    /// The store's.
    pub fn end(&self, stopped: &str, best: Option<usize>) -> Result<()> {
        let Some(run) = &self.run else {
            return Ok(());
        };
        run.store.save(&RunRecord {
            stopped: Some(stopped.to_owned()),
            best,
            ..run.record.clone()
        })
    }
}

/// What is under a lock: nothing that panics happens there.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Run {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        locked(&self.progress)
    }

    /// What was answered to this before, once for each time that it was, with the key of the exchange.
    fn recall(&self, asked: Digest) -> Option<(Digest, ChatReply)> {
        let mut progress = self.progress();
        let (number, reply) = progress.answered.get_mut(&asked)?.pop_front()?;
        Some((ExchangeRecord::key_of(self.record.key, number), reply))
    }

    /// Records an exchange; gives its key.
    fn record(&self, exchange: impl FnOnce(usize) -> ExchangeRecord) -> Result<Digest> {
        let mut progress = self.progress();
        let record = exchange(progress.next);
        self.store.save(&record)?;
        progress.next += 1;
        Ok(record.key())
    }
}

/// The most bytes of articles that an agent is shown at once.
const MOST_BYTES: usize = 16 << 10;

/// What the queries find for a DSL. Articles that are too long beside those before them are left out.
fn bounded(shelf: &impl Knowledge, queries: &[Query], dsl: &str) -> Result<Vec<Found>> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    for query in queries {
        for mut found in shelf.search(&query.clone().for_dsl(dsl))? {
            // Agents read texts.
            found.article.embedding = None;
            let length = found.article.text().len();
            if bytes + length <= MOST_BYTES {
                bytes += length;
                all.push(found);
            }
        }
    }
    Ok(all)
}

/// What a reply is found by when a run is started again.
fn question(role: &str, member: Option<usize>, model: &str, request: &ChatRequest) -> Result<Digest> {
    let request = Digest::of_value(request)?.to_string();
    let member = member.map(|member| member.to_string());
    let parts = [role, model, request.as_str()]
        .into_iter()
        .chain(member.as_deref());
    Ok(Digest::of_parts(parts))
}

/// A model whose exchanges are recorded in a run.
#[derive(Debug)]
pub struct Traced {
    trace: Trace,
    role: &'static str,
    model: Arc<dyn ChatModel>,
}

impl Traced {
    async fn exchange(&self, request: &ChatRequest, sink: Option<Sink<'_>>) -> Result<ChatReply> {
        let Some(run) = &self.trace.run else {
            return pass(&*self.model, request, sink).await;
        };
        let name = self.model.name();
        if let Some((key, reply)) = run.recall(question(self.role, self.trace.member, name, request)?) {
            self.trace.pending().exchanges.push(key);
            if let Some(sink) = sink {
                reply.events().for_each(sink);
            }
            return Ok(reply);
        }
        let (began, at) = (Instant::now(), now());
        let outcome = pass(&*self.model, request, sink).await;
        let answer = match &outcome {
            Ok(reply) => Answer::Reply(reply.clone()),
            Err(error) => Answer::Error {
                kind: error.kind(),
                message: error.to_string(),
            },
        };
        let key = run.record(|number| ExchangeRecord {
            run: run.record.key,
            number,
            role: self.role.to_owned(),
            member: self.trace.member,
            model: name.to_owned(),
            request: request.clone(),
            answer,
            seconds: began.elapsed().as_secs_f64(),
            at,
        })?;
        self.trace.pending().exchanges.push(key);
        outcome
    }
}

async fn pass(model: &dyn ChatModel, request: &ChatRequest, sink: Option<Sink<'_>>) -> Result<ChatReply> {
    match sink {
        Some(sink) => model.stream(request, sink).await,
        None => model.chat(request).await,
    }
}

#[async_trait]
impl ChatModel for Traced {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn capability(&self) -> ChatCapability {
        self.model.capability()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
        self.exchange(request, None).await
    }

    async fn stream(&self, request: &ChatRequest, sink: Sink<'_>) -> Result<ChatReply> {
        self.exchange(request, Some(sink)).await
    }
}
