//! Passes that make a verified kernel faster, on a simulated device: what is faster takes the place of the fastest, what is not is
//! rolled back and remembered, and nothing is measured twice.
#![allow(clippy::unwrap_used, reason = "tests")]

mod simulated;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use akg_core::analyst::{AnalyseContext, Analyst, Place, Recommendation};
use akg_core::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest, Message};
use akg_core::designer::{Design, DesignContext, Designer};
use akg_core::fixer::{FixContext, Fixer, Wish};
use akg_core::pass::{Ending, Pass};
use akg_core::search::BestOfN;
use akg_core::session::Outcome;
use akg_core::source::{Knobs, Source};
use akg_core::store::{ExchangeRecord, MemoryStore, Record as _, RunRecord, StepRecord, StoreExt as _};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{Agent, Error, ErrorKind, Result, Role as _, Session, Sketch};
use async_trait::async_trait;
use futures::executor::block_on;
use simulated::{Adviser, PLENTY, SKETCH, Shared, design, policy, session, task};

/// One kernel, which takes half as long as the two of [`SKETCH`].
const ONE: &str = "sketch relu(x: f32[4096]) -> y: f32[4096]
knob A in {64, 128}
knob B in {64, 128}

kernel k0 over (p in ceildiv(4096, A)) {
  a = load x[p*A :+ A]
  b = max(a, 0.0)
  store y[p*A :+ A] = b
}
";

/// Three kernels, which take longer.
fn three() -> String {
    let third = "buffer g: f32[4096]\n\nkernel k2 over (p in ceildiv(4096, B)) {\n  a = load g[p*B :+ B]\n  store y[p*B :+ B] = a\n}\n";
    let [buffers, copy] = third.split("\n\n").collect::<Vec<_>>()[..] else {
        unreachable!("a buffer and a kernel");
    };
    let two = SKETCH.replace("store y[p*B", "store g[p*B");
    two.replace("buffer h", &format!("{buffers}\nbuffer h")) + "\n" + copy
}

/// What agents were told of earlier passes, each time one was asked.
type Told = Arc<Mutex<Vec<Vec<String>>>>;

/// A designer with one sketch after the other for what is to be faster; an empty one is none.
#[derive(Debug, Clone)]
struct Ideas(Vec<String>, Told);

#[async_trait]
impl Agent<Designer> for Ideas {
    fn name(&self) -> &str {
        "ideas"
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        let text = match &context.improve {
            None => SKETCH.to_owned(),
            Some(improve) => {
                let told = improve.passes.iter().map(ToString::to_string);
                let mut all = self.1.lock().unwrap();
                all.push(told.collect());
                let idea = self.0.get(improve.passes.len()).cloned().unwrap_or_default();
                if idea.is_empty() {
                    return Err(Error::unsupported("no other idea"));
                }
                idea
            }
        };
        Ok(design(&text))
    }
}

/// A designer with the next sketch each time that something is to be faster, who asks a model before. It notes how many ended
/// passes it was told of and how many candidates were judged by then.
#[derive(Debug)]
struct InTurn {
    texts: Mutex<VecDeque<String>>,
    world: Shared,
    asked: Arc<Mutex<Vec<(usize, usize)>>>,
}

#[async_trait]
impl Agent<Designer> for InTurn {
    fn name(&self) -> &str {
        "in turn"
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        let mut text = SKETCH.to_owned();
        if let Some(improve) = &context.improve {
            text = self.texts.lock().unwrap().pop_front().unwrap();
            let judged = self.world.with(|world| world.verdicts.len());
            self.asked.lock().unwrap().push((improve.passes.len(), judged));
            let model = context.trace.asking(Designer::NAME, Arc::new(Echo));
            let advice = format!("{:?}", improve.recommendation);
            model.chat(&ChatRequest::new([Message::user(advice)])).await?;
        }
        Ok(design(&text))
    }
}

/// A model that thinks for a while, and says what it was asked.
#[derive(Debug)]
struct Echo;

#[async_trait]
impl ChatModel for Echo {
    fn name(&self) -> &str {
        "echo"
    }

    fn capability(&self) -> ChatCapability {
        ChatCapability::default()
    }

    async fn chat(&self, request: &ChatRequest) -> Result<ChatReply> {
        let mut left = 3;
        poll_fn(|context| {
            left -= 1;
            context.waker().wake_by_ref();
            if left == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        Ok(ChatReply::text(format!("{request:?}")))
    }
}

/// Writes other texts in the place of what is to be faster or repaired.
#[derive(Debug, Clone, Copy)]
struct Writer(&'static [&'static str]);

#[async_trait]
impl Agent<Fixer> for Writer {
    fn name(&self) -> &str {
        "writer"
    }

    async fn step(&self, context: &FixContext) -> Result<Option<Source>> {
        let at = match &context.wish {
            Wish::Faster(_) => 0,
            Wish::Repair(_) => 1 + context.earlier.len(),
        };
        Ok(self.0.get(at).map(|text| Source {
            text: (*text).to_owned(),
            knobs: Knobs::new(),
            ..context.source.clone()
        }))
    }
}

fn run(world: &Shared, store: &Arc<MemoryStore>, staff: impl FnOnce(Session) -> Session) -> Outcome {
    // Each pass goes on from the fastest.
    let climb = BestOfN { most: 100, width: 1 };
    let session = session(world, store, PLENTY)
        .with_tuning(None)
        .with_strategy(climb)
        .with_analyst(Adviser(Place::Sketch));
    block_on(staff(session).run(&task(4096))).unwrap()
}

/// How passes ended, in short.
fn endings(passes: &[Pass]) -> Vec<&'static str> {
    let ending = |pass: &Pass| match &pass.ending {
        Ending::Faster(ratio) if *ratio > 1.1 => "faster",
        Ending::NotFaster(ratio) if *ratio < 1.1 => "not faster",
        Ending::Failed(_) => "failed",
        Ending::Nothing(_) => "nothing",
        other => unreachable!("{other:?}"),
    };
    passes.iter().map(ending).collect()
}

fn ideas(texts: &[&str], told: &Told) -> Ideas {
    Ideas(
        texts.iter().map(|text| (*text).to_owned()).collect(),
        told.clone(),
    )
}

#[test]
fn what_is_faster_stays_and_what_is_slower_is_rolled_back_and_remembered() {
    let (world, store, told) = (Shared::default(), Arc::default(), Told::default());
    let three = three();
    let designer = ideas(&[&three, ONE, "", SKETCH], &told);
    let outcome = run(&world, &store, |s| s.with_designer(designer).with_passes(4));
    assert_eq!(
        endings(&outcome.passes),
        ["not faster", "faster", "nothing", "nothing"]
    );
    let Ending::Faster(ratio) = &outcome.passes[1].ending else {
        unreachable!("it is faster");
    };
    assert!((ratio - 2.0).abs() < 0.05, "{ratio}");
    // The winner is the fastest, not the last, and the sketch is its own.
    assert!(outcome.best().unwrap().source.text.starts_with("K = 1"));
    assert_eq!(outcome.sketch, Sketch::parse(ONE).unwrap().to_string());
    assert_eq!(outcome.stopped, "all passes are made");
    // Each time the designer was told of what was tried before, with what came of it.
    let told = told.lock().unwrap();
    assert_eq!(told.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert!(told[1][0].starts_with("Idea 0: rolled back, 0.6"), "{told:?}");
    assert!(told[2][1].starts_with("Idea 1: 2.0"), "{told:?}");
}

#[test]
fn steps_say_where_each_candidate_comes_from() {
    let (world, store, told) = (Shared::default(), Arc::default(), Told::default());
    let designer = ideas(&[&three(), ONE], &told);
    run(&world, &store, |s| s.with_designer(designer).with_passes(2));
    let runs: Vec<RunRecord> = store.all(None).unwrap();
    let steps: Vec<StepRecord> = store.all(Some(runs[0].key)).unwrap();
    let shape: Vec<(&str, &[usize])> = steps.iter().map(|s| (s.role.as_str(), &s.parents[..])).collect();
    let wanted: [(&str, &[usize]); 10] = [
        ("designer", &[]),
        ("coder", &[0]),
        ("strategy", &[1]),
        ("analyst", &[1, 2]),
        ("designer", &[1, 3]),
        ("coder", &[4]),
        // A climb does not go on from what was slower.
        ("strategy", &[1]),
        ("analyst", &[1, 6]),
        ("designer", &[1, 7]),
        ("coder", &[8]),
    ];
    assert_eq!(shape, wanted);
    assert_eq!(runs[0].best, Some(9));
    let speedup = |step: &StepRecord| step.speedup.unwrap();
    assert!((speedup(&steps[5]) - 2.0 / 3.0).abs() < 0.05 && (speedup(&steps[9]) - 2.0).abs() < 0.1);
    assert_eq!(steps[8].why, "Idea 1.");
    assert!(
        steps[6].agent == "climb" && steps[6].why.contains("the fastest of 2"),
        "{}",
        steps[6].why
    );
}

#[test]
fn agents_are_asked_ahead_and_the_same_run_decides_the_same() {
    let three = three();
    let store = Arc::default();
    let run = |world: &Shared| {
        let asked = Arc::default();
        let designer = InTurn {
            texts: Mutex::new([three.as_str(), ONE, SKETCH, ONE].map(str::to_owned).into()),
            world: world.clone(),
            asked: Arc::clone(&asked),
        };
        let outcome = run(world, &store, |s| {
            s.with_designer(designer).with_passes(4).with_lookahead(1)
        });
        assert_eq!(
            endings(&outcome.passes),
            ["not faster", "faster", "nothing", "nothing"]
        );
        Arc::into_inner(asked).unwrap().into_inner().unwrap()
    };
    // The designer of a pass knows of all passes but the last, whose candidate is not judged yet.
    assert_eq!(run(&Shared::default()), [(0, 1), (0, 1), (1, 2), (2, 3)]);
    let records = || {
        let runs: Vec<RunRecord> = store.all(None).unwrap();
        let steps: Vec<StepRecord> = store.all(Some(runs[0].key)).unwrap();
        let exchanges: Vec<ExchangeRecord> = store.all(Some(runs[0].key)).unwrap();
        (steps, exchanges)
    };
    let (steps, exchanges) = records();
    // What a designer asked belongs to its step, whatever else was asked meanwhile.
    let asked = |step: &StepRecord| {
        let of = |key: &akg_core::Digest| exchanges.iter().find(|e| e.key() == *key).unwrap();
        step.exchanges
            .iter()
            .map(|key| format!("{:?}", of(key).request))
            .collect::<Vec<_>>()
    };
    let designers: Vec<&StepRecord> = steps.iter().filter(|step| step.role == "designer").collect();
    assert_eq!(designers.len(), 3);
    for step in &designers[1..] {
        let asked = asked(step);
        assert!(
            asked.len() == 1 && asked[0].contains(&step.why),
            "{asked:?} for {}",
            step.why
        );
    }
    let other = Shared::default();
    run(&other);
    other.with(|w| assert_eq!((w.builds.len(), w.verdicts.len(), w.loads), (0, 0, 0)));
    let (again, known) = records();
    let shape = |steps: &[StepRecord]| -> Vec<_> {
        steps
            .iter()
            .map(|s| (s.number, s.parents.clone(), s.exchanges.clone(), s.candidate))
            .collect()
    };
    assert_eq!((shape(&again), known.len()), (shape(&steps), exchanges.len()));
}

#[test]
fn the_same_run_again_measures_nothing() {
    for tuning in [None, Some(policy(PLENTY))] {
        let store = Arc::default();
        let again = |world: &Shared| {
            let designer = ideas(&[&three(), ONE], &Told::default());
            let staff = |s: Session| {
                s.with_designer(designer)
                    .with_passes(2)
                    .with_tuning(tuning.clone())
            };
            run(world, &store, staff)
        };
        let first = again(&Shared::default());
        assert_eq!(endings(&first.passes), ["not faster", "faster"]);
        let other = Shared::default();
        let second = again(&other);
        assert_eq!(second.passes, first.passes);
        assert_eq!(second.best().unwrap().timing, first.best().unwrap().timing);
        other.with(|w| assert_eq!((w.builds.len(), w.verdicts.len(), w.loads), (0, 0, 0)));
    }
}

#[test]
fn a_source_is_changed_repaired_and_rolled_back_where_it_fails() {
    // What the fixer writes first is wrong by the judge, what it repairs is right and faster.
    let texts: &[&str] = &["K = 1 A = 256 B = 512", "K = 1 A = 64 B = 64"];
    let (world, store) = (Shared::default(), Arc::default());
    let staff = |texts: &'static [&'static str]| {
        move |session: Session| {
            session
                .with_designer(ideas(&[], &Told::default()))
                .with_analyst(Adviser(Place::Source))
                .with_fixer(Writer(texts))
                .with_passes(1)
        }
    };
    let outcome = run(
        &world,
        &store,
        staff(&["K = 1 A = 256 B = 512", "K = 1 A = 64 B = 64"]),
    );
    assert_eq!(endings(&outcome.passes), ["faster"]);
    assert_eq!(outcome.best().unwrap().source.text, texts[1]);
    // What is never repaired leaves the first one.
    let outcome = run(
        &Shared::default(),
        &Arc::default(),
        staff(&["K = 1 A = 256 B = 512"]),
    );
    assert_eq!(endings(&outcome.passes), ["failed"]);
    assert!(outcome.best().unwrap().source.text.starts_with("K = 2"));
    assert_eq!(
        outcome.passes[0].ending,
        Ending::Failed(Failure::new(FailureKind::WrongValues, "seen through"))
    );
}

#[test]
fn a_disturbed_duel_shows_nothing_and_says_so() {
    let (world, store, told) = (Shared::default(), Arc::default(), Told::default());
    world.with(|w| w.crowded = true);
    let outcome = run(&world, &store, |s| {
        s.with_designer(ideas(&[ONE], &told)).with_passes(1)
    });
    let pass = &outcome.passes[0];
    assert!(
        matches!(pass.ending, Ending::Disturbed(ratio) if ratio > 1.9),
        "{pass:?}"
    );
    assert!(pass.to_string().contains("the duel was disturbed"), "{pass}");
    assert!(outcome.best().unwrap().source.text.starts_with("K = 2"));
}

/// An analyst whose model may not be asked any more.
#[derive(Debug)]
struct Spent;

#[async_trait]
impl Agent<Analyst> for Spent {
    fn name(&self) -> &str {
        "spent"
    }

    async fn step(&self, _: &AnalyseContext) -> Result<Option<Recommendation>> {
        Err(Error::new(ErrorKind::BudgetSpent, "all tokens are spent"))
    }
}

#[test]
fn a_spent_budget_ends_the_passes_and_loses_nothing() {
    let (world, store) = (Shared::default(), Arc::default());
    let outcome = run(&world, &store, |s| {
        s.with_designer(ideas(&[], &Told::default()))
            .with_analyst(Spent)
            .with_passes(3)
    });
    assert!(outcome.best().is_some() && outcome.passes.is_empty());
    assert_eq!(outcome.stopped, "all tokens are spent");
    let outcome = run(&world, &store, |s| {
        s.with_designer(ideas(&[ONE], &Told::default()))
            .with_passes(3)
            .with_budget(Duration::ZERO)
    });
    assert!(outcome.best().is_some() && outcome.passes.is_empty());
    assert_eq!(outcome.stopped, "the budget is spent");
}
