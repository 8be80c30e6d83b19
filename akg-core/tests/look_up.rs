//! What agents that ask models are shown of what is known: on a simulated device, with shelves that hold the like, the very
//! problem, and too much.
#![allow(clippy::unwrap_used, reason = "tests")]

mod golden;
mod simulated;

use std::sync::{Arc, Mutex};

use akg_core::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest, Content, Message};
use akg_core::coder::{CodeContext, ModelCoder};
use akg_core::designer::{DesignContext, FailedDesign, ModelDesigner};
use akg_core::dsl::{DslCapability, Stage};
use akg_core::fixer::{FixContext, ModelFixer, Wish};
use akg_core::knowledge::embed::{HashedWords, embed};
use akg_core::knowledge::{
    Article, Body, Card, Embedder, FixBody, KernelBody, Kind, Knowledge, MemoryKnowledge, Problem,
    pages::page,
};
use akg_core::source::{Artifact, Knobs, LaunchPlan, Source, SourceForm};
use akg_core::store::{ExchangeRecord, LookupRecord, MemoryStore, RunRecord, StepRecord, StoreExt as _};
use akg_core::trace::Trace;
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{
    Accuracy, Agent as _, DType, Diagnostic, Digest, Dsl, Error, Graph, Result, Sketch, Target, Task,
};
use async_trait::async_trait;
use futures::executor::block_on;
use golden::Golden;
use simulated::{PLENTY, SKETCH, Shared, session, task};

/// A model that always says the same.
#[derive(Debug, Clone)]
struct Parrot {
    says: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Parrot {
    fn new(says: impl Into<String>) -> Self {
        Self {
            says: says.into(),
            asked: Arc::default(),
        }
    }

    /// The first prompt about a task.
    fn first(&self) -> String {
        self.asked.lock().unwrap()[0].clone()
    }
}

#[async_trait]
impl ChatModel for Parrot {
    fn name(&self) -> &str {
        "parrot"
    }

    fn capability(&self) -> ChatCapability {
        ChatCapability::default()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
        let Some(Message::User { content }) = request.messages.last() else {
            return Err(Error::unexpected("nothing was asked"));
        };
        let texts = content.iter().filter_map(|part| match part {
            Content::Text { text } => Some(text.as_str()),
            Content::Image { .. } => None,
        });
        self.asked.lock().unwrap().push(texts.collect());
        Ok(ChatReply::text(&*self.says))
    }
}

fn unary(name: &str, n: usize) -> Task {
    let mut graph = Graph::new(name);
    let x = graph.input("x", DType::F32, [n]);
    let y = if name == "gelu" {
        graph.gelu(x)
    } else {
        graph.relu(x)
    };
    graph.output(y.unwrap());
    Task::new(name, graph)
}

fn card(kind: Kind, name: &str, task: Option<&Task>) -> Card {
    Card {
        key: Digest::of_parts([kind.name(), name]),
        kind,
        name: name.to_owned(),
        dsl: None,
        backend: None,
        arch: None,
        problem: task.map(|task| Problem::of(task).unwrap()),
        skeleton: None,
    }
}

/// A verified kernel for a task.
fn kernel(name: &str, task: &Task) -> Article {
    Article {
        card: card(Kind::Kernel, name, Some(task)),
        body: Body::Kernel(KernelBody {
            graph: task.graph.to_string(),
            sketch: format!("sketch of_{name}(…)\n"),
            knobs: Knobs::new(),
            dsl: "words".to_owned(),
            device: "some device".to_owned(),
            accuracy: Accuracy::Fp32,
            seconds: Some(2e-5),
            speedup: Some(1.5),
            tried: 7,
        }),
        embedding: None,
    }
}

/// What failed in a task, and what mended it.
fn fix(name: &str, task: &Task, evidence: &str) -> Article {
    Article {
        card: card(Kind::Fix, name, Some(task)),
        body: Body::Fix(FixBody {
            before: "load x[p*A :+ A]".to_owned(),
            failure: Failure::new(FailureKind::OutOfBounds, evidence),
            after: "load x[p*A :+ A] else 0".to_owned(),
            why: "the last program reads beyond the end".to_owned(),
        }),
        embedding: None,
    }
}

fn guide(dsl: &str, text: &str) -> Article {
    page(&format!(
        "---\nkind: guide\nname: fast {dsl}\ndsl: {dsl}\n---\n{text}\n"
    ))
    .unwrap()
}

fn sheet(arch: &str) -> Article {
    let front = format!("kind: hardware\nname: the {arch}\nbackend: simulated\narch: {arch}");
    page(&format!(
        "---\n{front}\n---\n# The {arch}\n\nIt has four cores.\n"
    ))
    .unwrap()
}

/// A shelf for relu of 4096 elements by the DSL `words` on the simulated device.
fn shelf() -> MemoryKnowledge {
    let shelf = MemoryKnowledge::new();
    for article in [
        kernel("very_problem", &unary("relu", 4096)),
        kernel("other_size", &unary("relu", 8192)),
        kernel("gelu", &unary("gelu", 4096)),
        fix("very_fix", &unary("relu", 4096), "it reads beyond the end of `x`"),
        fix(
            "other_fix",
            &unary("relu", 8192),
            "it reads beyond the end of `x`",
        ),
        guide("words", "# Fast words\n\nFew words are fast."),
        guide("songs", "# Fast songs\n\nShort songs are fast."),
        sheet("none"),
        sheet("another"),
    ] {
        shelf.shelve(&article).unwrap();
    }
    shelf
}

/// A trace of a run by the DSL `words` that looks things up there.
fn looking(shelf: MemoryKnowledge) -> Trace {
    let key = Digest::of(b"run");
    let record: RunRecord = serde_json::from_value(serde_json::json!({
        "key": key, "task": key, "name": "relu", "dsl": "words", "device": "d", "agents": "a", "at": 0,
    }))
    .unwrap();
    let trace = Trace::begin(Arc::new(MemoryStore::new()), record).unwrap();
    trace.with_knowledge(Some(Arc::new(shelf)))
}

/// A language that is only told of.
#[derive(Debug, Default)]
struct Words(DslCapability);

impl Dsl for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn capability(&self) -> &DslCapability {
        &self.0
    }

    fn lower(&self, _: &Sketch, _: &Knobs, _: &Target) -> Result<Source> {
        Err(Error::unsupported("nobody lowers to words"))
    }

    fn build(&self, _: &Source, _: &Target) -> Result<std::result::Result<Artifact, Failure>> {
        Err(Error::unsupported("nobody builds words"))
    }

    fn toolchain(&self, _: &Target) -> Result<String> {
        Ok("words 1".to_owned())
    }

    fn check(&self, _: &Source) -> Vec<Diagnostic> {
        Vec::new()
    }

    fn guide(&self, _: Stage, _: &Target) -> String {
        String::new()
    }

    fn parse(&self, text: &str) -> Result<Source> {
        Ok(source(text))
    }

    fn export(&self, source: &Source, _: &str) -> Result<String> {
        Ok(source.text.clone())
    }
}

fn source(text: &str) -> Source {
    Source {
        dsl: "words".to_owned(),
        text: text.to_owned(),
        form: SourceForm::Lowered {
            plan: LaunchPlan::default(),
        },
        knobs: Knobs::new(),
    }
}

/// A failure as one on the shelf.
fn failure() -> Failure {
    Failure::new(FailureKind::OutOfBounds, "it reads beyond the end of `x` by 64")
}

/// `AKG_BLESS=1 cargo test -p akg-core --test look_up` accepts other texts.
#[test]
fn prompts_with_what_is_known_are_as_reviewed() {
    let mut golden = Golden::default();
    let (task, target) = (task(4096), Target::new("simulated", "none"));
    let sketch = Sketch::parse(SKETCH).unwrap();

    let model = Parrot::new(format!("```sketch\n{SKETCH}```\n"));
    let mut context = DesignContext::new(task.clone(), target.clone());
    context.trace = looking(shelf());
    context.failed.push(FailedDesign {
        knobs: sketch.default_knobs(),
        sketch: sketch.clone(),
        failure: failure(),
    });
    block_on(ModelDesigner::new(model.clone()).unwrap().step(&context)).unwrap();
    golden.check("designer/known.md", &model.first());

    let model = Parrot::new("```\nwords\n```");
    let context = CodeContext {
        task: task.clone(),
        knobs: sketch.default_knobs(),
        sketch,
        dsl: Arc::new(Words::default()),
        target: target.clone(),
        trace: looking(shelf()),
    };
    block_on(ModelCoder::new(model.clone()).unwrap().step(&context)).unwrap();
    golden.check("coder/known.md", &model.first());

    let model = Parrot::new("```\nother words\n```");
    let context = FixContext {
        task,
        dsl: Arc::new(Words::default()),
        target,
        source: source("words"),
        wish: Wish::Repair(failure()),
        earlier: Vec::new(),
        trace: looking(shelf()),
    };
    block_on(ModelFixer::new(model.clone()).unwrap().step(&context)).unwrap();
    golden.check("fixer/known.md", &model.first());
    golden.assert();
}

/// A run with a model that designs; gives the model, and the first step.
fn run(store: &Arc<MemoryStore>, shelf: Option<MemoryKnowledge>) -> (Parrot, StepRecord) {
    let model = Parrot::new(format!("```sketch\n{SKETCH}```\n"));
    let mut session = session(&Shared::default(), store, PLENTY)
        .with_tuning(None)
        .with_designer(ModelDesigner::new(model.clone()).unwrap());
    if let Some(shelf) = shelf {
        session = session.with_knowledge(Arc::new(shelf));
    }
    block_on(session.run(&task(4096))).unwrap();
    let steps: Vec<StepRecord> = store.all(None).unwrap();
    (model, steps[0].clone())
}

#[test]
fn the_like_is_shown_and_the_very_problem_never() {
    let (model, step) = run(&Arc::default(), Some(shelf()));
    let told = model.first();
    for word in ["of_other_size", "of_gelu", "four cores", "Few words are fast"] {
        assert!(told.contains(word), "{word}: {told}");
    }
    for word in ["of_very_problem", "very_fix", "The another", "Short songs"] {
        assert!(!told.contains(word), "{word}: {told}");
    }
    // The trace says what was shown and why.
    let shown: Vec<(&str, &str)> = step
        .retrieved
        .iter()
        .map(|shown| (shown.kind.as_str(), shown.name.as_str()))
        .collect();
    let wanted = [
        ("kernel", "other_size"),
        ("kernel", "gelu"),
        ("hardware", "the none"),
        ("guide", "fast words"),
    ];
    assert_eq!(shown, wanted);
    assert!(step.retrieved.iter().all(|shown| !shown.why.is_empty()));
}

/// What is found under other words than the article's, the way in which a session asks.
#[test]
fn what_means_the_like_is_shown() {
    let shown = |embedder: Option<Arc<dyn Embedder>>| {
        let shelf = shelf();
        for text in [
            "# Sums\n\nnothing of that",
            "# Relu\n\nthe relu of x, and relu again",
        ] {
            let name = text.split_whitespace().nth(1).unwrap();
            let text = format!("---\nkind: guide\nname: {name}\ndsl: words\n---\n{text}\n");
            shelf.shelve(&self::page(&text).unwrap()).unwrap();
        }
        if let Some(embedder) = &embedder {
            block_on(embed(&**embedder, &shelf)).unwrap();
        }
        let model = Parrot::new(format!("```sketch\n{SKETCH}```\n"));
        let mut session = session(&Shared::default(), &Arc::default(), PLENTY)
            .with_tuning(None)
            .with_designer(ModelDesigner::new(model.clone()).unwrap())
            .with_knowledge(Arc::new(shelf));
        if let Some(embedder) = embedder {
            session = session.with_embedder(embedder);
        }
        block_on(session.run(&task(4096))).unwrap();
        model.first()
    };
    assert!(!shown(None).contains("and relu again"));
    assert!(shown(Some(Arc::new(HashedWords::default()))).contains("and relu again"));
}

#[test]
fn nothing_is_looked_up_unless_somebody_asks() {
    let store = Arc::default();
    let (model, step) = run(&store, None);
    assert!(!model.first().contains("What was found"));
    assert!(step.retrieved.is_empty());
    // Rules need nothing to be found.
    let ruled = session(&Shared::default(), &store, PLENTY).with_knowledge(Arc::new(shelf()));
    block_on(ruled.run(&task(8192))).unwrap();
    assert!(store.all::<LookupRecord>(None).unwrap().is_empty());
}

#[test]
fn a_run_that_is_started_again_is_shown_what_it_was_shown() {
    let store = Arc::default();
    let (first, step) = run(&store, Some(shelf()));
    let exchanges: Vec<ExchangeRecord> = store.all(None).unwrap();
    // Since then much has been learned.
    let grown = shelf();
    grown.shelve(&kernel("new", &unary("relu", 4100))).unwrap();
    let (again, step_again) = run(&store, Some(grown));
    assert_eq!(first.asked.lock().unwrap().len(), 1);
    assert!(again.asked.lock().unwrap().is_empty());
    assert_eq!(step_again, step);
    assert_eq!(store.all::<ExchangeRecord>(None).unwrap(), exchanges);
}

#[test]
fn what_is_too_long_is_left_out() {
    let shelf = shelf();
    shelf
        .shelve(&guide(
            "words",
            &format!("# Fast words\n\n{}", "word ".repeat(10_000)),
        ))
        .unwrap();
    let (model, step) = run(&Arc::default(), Some(shelf));
    assert!(!model.first().contains("word word"));
    assert_eq!(step.retrieved.len(), 3);
}
