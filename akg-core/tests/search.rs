//! A session whose passes are chosen by a strategy, on a simulated device: what is slower can be gone on from, what is known costs
//! nothing, what failed is shown, and a run that was interrupted takes the same decisions.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

mod simulated;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use akg_core::analyst::{AnalyseContext, Analyst, Place, Recommendation};
use akg_core::designer::{Design, DesignContext, Designer, Improve};
use akg_core::digest::Digest;
use akg_core::fixer::{FixContext, Fixer};
use akg_core::pass::{Ending, Pass};
use akg_core::search::{self, BestOfN, Move, Population, STRATEGIES, Stop, Strategy};
use akg_core::session::Outcome;
use akg_core::source::Source;
use akg_core::store::{Entry, MemoryStore, RunRecord, StepRecord, Store, StoreExt as _};
use akg_core::verdict::FailureKind;
use akg_core::{Agent, Error, Result, Session, Sketch};
use async_trait::async_trait;
use futures::executor::block_on;
use simulated::{PLENTY, Shared, design, designed, kernels, session, task};

/// What a designer makes of what it is shown: a sketch, or nothing.
type Idea = fn(&Improve) -> Option<String>;

/// A designer that begins with three kernels and then has ideas. What failed has no other design.
#[derive(Debug, Clone)]
struct Inventor {
    idea: Idea,
    shown: Arc<Mutex<Vec<Improve>>>,
}

impl Inventor {
    fn new(idea: Idea) -> Self {
        Self {
            idea,
            shown: Arc::default(),
        }
    }

    /// What it was shown, each time that something faster was looked for.
    fn shown(&self) -> Vec<Improve> {
        self.shown.lock().unwrap().clone()
    }
}

#[async_trait]
impl Agent<Designer> for Inventor {
    fn name(&self) -> &str {
        "inventor"
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        let text = match &context.improve {
            _ if !context.failed.is_empty() => None,
            None => Some(kernels(3)),
            Some(improve) => {
                self.shown.lock().unwrap().push(improve.clone());
                (self.idea)(improve)
            }
        };
        let text = text.ok_or_else(|| Error::unsupported("no idea"))?;
        Ok(design(&text))
    }
}

/// How many kernels a parent has.
fn size(improve: &Improve, parent: usize) -> Option<usize> {
    Some(improve.parents.get(parent)?.sketch.tree().kernels.len())
}

/// From three kernels there is no way but over five, which are slower: from these, two are found, and from two, one.
fn valley(improve: &Improve) -> Option<String> {
    match size(improve, 0)? {
        3 => Some(kernels(5)),
        5 => Some(kernels(2)),
        _ => Some(kernels(1)),
    }
}

/// From nothing, five kernels are found, and one from three and five together.
fn crossed(improve: &Improve) -> Option<String> {
    match (size(improve, 0), size(improve, 1)) {
        (Some(_), Some(_)) => Some(kernels(1)),
        (Some(_), None) => Some(kernels(4)),
        (None, _) => Some(kernels(5)),
    }
}

/// Recommends what names the kernels of what it sees.
#[derive(Debug, Clone, Default)]
struct Adviser(Arc<Mutex<Vec<usize>>>);

#[async_trait]
impl Agent<Analyst> for Adviser {
    fn name(&self) -> &str {
        "adviser"
    }

    async fn step(&self, context: &AnalyseContext) -> Result<Option<Recommendation>> {
        let kernels = context.sketch.tree().kernels.len();
        // The profile is that of the same kernels.
        assert_eq!(context.profile.launches.len(), kernels);
        self.0.lock().unwrap().push(kernels);
        Ok(Some(Recommendation {
            what: format!("Other than {kernels} kernels."),
            why: "It is slow.".to_owned(),
            gain: 2.0,
            place: Place::Sketch,
        }))
    }
}

/// Makes these moves, one after the other.
#[derive(Debug)]
struct Plan(Vec<Move>);

impl Strategy for Plan {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn next(&self, population: &Population) -> ControlFlow<Stop, Move> {
        // The first member was there before.
        match self.0.get(population.members().len() - 1) {
            Some(next) => ControlFlow::Continue(next.clone()),
            None => ControlFlow::Break(Stop::Done),
        }
    }
}

fn from(parent: usize) -> Move {
    let inspirations = Vec::new();
    Move::Improve { parent, inspirations }
}

/// A session of these agents that makes so many passes.
fn staffed(world: &Shared, store: &Arc<MemoryStore>, designer: &Inventor, passes: usize) -> Session {
    session(world, store, PLENTY)
        .with_tuning(None)
        .with_designer(designer.clone())
        .with_analyst(Adviser::default())
        .with_passes(passes)
}

fn run(session: &Session) -> Outcome {
    block_on(session.run(&task(4096))).unwrap()
}

/// The steps of the only run of a store.
fn steps(store: &MemoryStore) -> Vec<StepRecord> {
    let runs: Vec<RunRecord> = store.all(None).unwrap();
    assert_eq!(runs.len(), 1);
    store.all(Some(runs[0].key)).unwrap()
}

/// How many kernels the fastest has.
fn found(outcome: &Outcome) -> usize {
    Sketch::parse(&outcome.sketch).unwrap().tree().kernels.len()
}

/// How many kernels the fastest has that a strategy finds.
fn searched(name: &str, idea: Idea) -> usize {
    let designer = Inventor::new(idea);
    let session = staffed(&Shared::default(), &Arc::default(), &designer, 24);
    let strategy = search::strategy(name, search::SEED, 25).unwrap();
    found(&run(&session.with_strategy(strategy)))
}

#[test]
fn a_population_goes_on_from_what_is_slower_where_a_climb_is_stuck() {
    assert_eq!(searched("climb", valley), 3, "the fastest stays what it was");
    for name in ["adaptive", "evolution", "random"] {
        assert_eq!(searched(name, valley), 1, "{name}");
    }
}

#[test]
fn two_that_are_slower_have_a_faster_child_that_a_climb_does_not_see() {
    assert_eq!(searched("climb", crossed), 3);
    for name in ["adaptive", "evolution"] {
        assert_eq!(searched(name, crossed), 1, "{name}");
    }
}

#[test]
fn advice_comes_from_the_profile_of_what_is_gone_on_from_and_a_duel_from_the_fastest() {
    let (designer, adviser) = (Inventor::new(valley), Adviser::default());
    let store = Arc::default();
    let plan = Plan(vec![from(0), from(1), from(1), from(2)]);
    let session = staffed(&Shared::default(), &store, &designer, 9)
        .with_analyst(adviser.clone())
        .with_strategy(plan);
    let outcome = run(&session);
    assert_eq!(outcome.stopped, "all moves are made");
    assert_eq!(*adviser.0.lock().unwrap(), [3, 5, 5, 2]);
    let ratio = |pass: &Pass| match &pass.ending {
        Ending::Faster(ratio) | Ending::NotFaster(ratio) => *ratio,
        _ => 0.0,
    };
    let ratios: Vec<f64> = outcome.passes.iter().map(ratio).collect();
    // Five kernels over three; two over three, although they come from five; the same two again; one over two.
    for (ratio, wanted) in ratios.iter().zip([0.6, 1.5, 0.0, 2.0]) {
        assert!((ratio - wanted).abs() < 0.05, "{ratios:?}");
    }
    // What is slower is shown with its time.
    let shown = designer.shown();
    let seconds = |at: usize| shown[at].parents[0].seconds.unwrap();
    assert!((seconds(1) / seconds(0) - 5.0 / 3.0).abs() < 0.05);
    assert_eq!(found(&outcome), 1);
    // The trace says what was chosen and how it stood.
    let steps = steps(&store);
    let choices: Vec<&StepRecord> = steps.iter().filter(|step| step.role == "strategy").collect();
    assert!(choices[0].why.contains("the fastest of 1"), "{}", choices[0].why);
    assert!(
        choices[1].why.contains("1.67 times as long"),
        "{}",
        choices[1].why
    );
    assert!(choices[2].why.contains("1 of 1 are faster"), "{}", choices[2].why);
    let leads_to = |step: usize| steps.iter().filter(|s| s.parents.contains(&step)).count();
    assert!(choices.iter().all(|choice| leads_to(choice.number) == 1));
}

/// Two kernels in the first pass, and then what was there at first, under other names.
fn renamed(improve: &Improve) -> Option<String> {
    let text = kernels(if improve.passes.is_empty() { 2 } else { 3 });
    let text = text.replace("k0", "first").replace("h1", "between");
    Some(text.replace("sketch relu", "# Another.\nsketch other"))
}

#[test]
fn what_was_proposed_before_is_not_judged_again_whatever_its_names_are() {
    let (world, designer) = (Shared::default(), Inventor::new(renamed));
    let fresh = BestOfN { most: 5, width: 5 };
    let outcome = run(&staffed(&world, &Arc::default(), &designer, 4).with_strategy(fresh));
    let known = |pass: &&Pass| pass.ending == Ending::Nothing("what was proposed is known".to_owned());
    assert_eq!(outcome.passes.iter().filter(known).count(), 3);
    world.with(|w| assert_eq!((w.verdicts.len(), w.builds.len()), (2, 2)));
    // Who is asked can tell what is known, although it has other names there.
    let shown = designer.shown();
    let first = Sketch::parse(&kernels(3)).unwrap();
    let second = Sketch::parse(&kernels(2)).unwrap();
    assert!(shown[0].has_tried(&first) && !shown[0].has_tried(&second));
    assert!(shown[1].has_tried(&second));
}

/// Writes what is there with other space, and a comment.
#[derive(Debug)]
struct Copyist;

#[async_trait]
impl Agent<Fixer> for Copyist {
    fn name(&self) -> &str {
        "copyist"
    }

    async fn step(&self, context: &FixContext) -> Result<Option<Source>> {
        Ok(Some(Source {
            text: format!("{} // faster", context.source.text.replace(" = ", "  =  ")),
            ..context.source.clone()
        }))
    }
}

#[test]
fn a_source_that_is_the_same_program_is_not_judged_again() {
    let (world, designer) = (Shared::default(), Inventor::new(valley));
    let session = staffed(&world, &Arc::default(), &designer, 1);
    let outcome = run(&session
        .with_analyst(simulated::Adviser(Place::Source))
        .with_fixer(Copyist));
    assert_eq!(outcome.passes.len(), 1);
    assert_eq!(outcome.passes[0].role, "fixer");
    assert_eq!(
        outcome.passes[0].ending,
        Ending::Nothing("what was proposed is known".to_owned())
    );
    world.with(|w| assert_eq!((w.verdicts.len(), w.builds.len()), (1, 1)));
}

/// Other values than those that are right, a kernel more each time.
fn wrong(improve: &Improve) -> Option<String> {
    Some(designed(4 + improve.passes.len(), "A in {256}", "B in {512}"))
}

#[test]
fn what_failed_is_no_parent_and_is_shown_to_who_goes_on_from_the_same() {
    let designer = Inventor::new(wrong);
    let inspirations = Vec::new();
    let fresh = Move::Fresh { inspirations };
    let plan = Plan(vec![from(0), from(0), fresh, from(0), from(0)]);
    let outcome = run(&staffed(&Shared::default(), &Arc::default(), &designer, 5).with_strategy(plan));
    let kinds = outcome.passes.iter().map(|pass| match &pass.ending {
        Ending::Failed(failure) => failure.kind,
        other => unreachable!("{other:?}"),
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [FailureKind::WrongValues; 5]);
    // The latest two that began with the same, each with what was wrong.
    let shown = designer.shown();
    let failed = |improve: &Improve| -> Vec<usize> {
        let failed = improve.failed.iter();
        let kinds = failed.map(|failed| (failed.failure.kind, failed.sketch.tree().kernels.len()));
        let wrong = kinds.filter(|(kind, _)| *kind == FailureKind::WrongValues);
        wrong.map(|(_, kernels)| kernels).collect()
    };
    let wanted: [&[usize]; 5] = [&[], &[4], &[], &[4, 5], &[5, 7]];
    assert_eq!(shown.iter().map(failed).collect::<Vec<_>>(), wanted);
    assert_eq!(found(&outcome), 3);
}

#[test]
fn two_parents_and_what_gives_ideas_are_shown_with_their_times() {
    let (designer, store) = (Inventor::new(crossed), Arc::default());
    let fresh = Move::Fresh {
        inspirations: vec![1],
    };
    let cross = Move::Cross {
        parents: [0, 1],
        inspirations: vec![],
    };
    let plan = Plan(vec![from(0), fresh, cross]);
    let outcome = run(&staffed(&Shared::default(), &store, &designer, 3).with_strategy(plan));
    assert_eq!(found(&outcome), 1);
    let shown = designer.shown();
    assert_eq!((shown[1].parents.len(), shown[1].inspirations.len()), (0, 1));
    assert_eq!(shown[2].parents.len(), 2);
    assert!(shown[2].recommendation.is_none(), "advice is about one profile");
    assert!(
        shown
            .iter()
            .flat_map(|s| &s.parents)
            .all(|known| known.seconds.is_some())
    );
    // The proposal begins with both candidates, and with the choice.
    let steps = steps(&store);
    let last = steps.iter().rfind(|step| step.role == "designer").unwrap();
    let roles: Vec<&str> = last.parents.iter().map(|at| steps[*at].role.as_str()).collect();
    assert_eq!(roles, ["coder", "coder", "strategy"]);
}

#[test]
fn every_strategy_makes_all_passes_and_returns_the_fastest_that_passed() {
    for name in STRATEGIES {
        let (designer, store) = (Inventor::new(crossed), Arc::default());
        let strategy = search::strategy(name, 3, 13).unwrap();
        let outcome = run(&staffed(&Shared::default(), &store, &designer, 12).with_strategy(strategy));
        assert_eq!(outcome.passes.len(), 12, "{name}");
        assert_eq!(outcome.stopped, "all passes are made");
        let judged = outcome.attempts.iter().filter(|a| a.verdict.passed());
        let least = judged.map(|a| simulated::value(&a.source.text, "K")).min();
        assert_eq!(least, Some(found(&outcome) as i64), "{name}");
    }
}

/// A store whose process dies after so many records.
#[derive(Debug)]
struct Mortal {
    store: Arc<MemoryStore>,
    left: AtomicUsize,
}

impl Store for Mortal {
    fn put_blob(&self, bytes: &[u8]) -> Result<Digest> {
        self.store.put_blob(bytes)
    }

    fn blob(&self, digest: Digest) -> Result<Option<Vec<u8>>> {
        self.store.blob(digest)
    }

    fn put(&self, kind: &str, entry: &Entry) -> Result<()> {
        let alive = |left: usize| left.checked_sub(1);
        match self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, alive)
        {
            Ok(_) => self.store.put(kind, entry),
            Err(_) => Err(Error::unexpected("the process is dead")),
        }
    }

    fn get(&self, kind: &str, key: Digest) -> Result<Option<Entry>> {
        self.store.get(kind, key)
    }

    fn list(&self, kind: &str, group: Option<Digest>) -> Result<Vec<Entry>> {
        self.store.list(kind, group)
    }
}

/// The decisions of a run: who did what with which, why, and what became of it.
fn decisions(store: &MemoryStore) -> Vec<String> {
    let told = |step: StepRecord| {
        let StepRecord {
            number,
            parents,
            role,
            agent,
            why,
            proposal,
            candidate,
            failure,
            ..
        } = step;
        format!("{number} {parents:?} {role} {agent} {why} {proposal:?} {candidate:?} {failure:?}")
    };
    steps(store).into_iter().map(told).collect()
}

#[test]
fn a_run_that_was_killed_takes_the_same_decisions_again() {
    const PASSES: usize = 6;
    let session = |world: &Shared, store: &Arc<MemoryStore>| {
        let strategy = search::strategy("evolution", 4, PASSES + 1).unwrap();
        staffed(world, store, &Inventor::new(valley), PASSES).with_strategy(strategy)
    };
    let calm: Arc<MemoryStore> = Arc::default();
    let whole = Arc::new(Mortal {
        store: calm.clone(),
        left: AtomicUsize::new(usize::MAX),
    });
    let expected = run(&session(&Shared::default(), &calm).with_store(whole.clone()));
    let records = usize::MAX - whole.left.load(Ordering::Relaxed);
    let wanted = decisions(&calm);
    let is_choice = |line: &&String| line.contains(" strategy evolution ");
    assert_eq!(wanted.iter().filter(is_choice).count(), PASSES);
    for left in (0..records).step_by(5) {
        let store: Arc<MemoryStore> = Arc::default();
        let left = AtomicUsize::new(left);
        let mortal = Arc::new(Mortal {
            store: store.clone(),
            left,
        });
        let killed = session(&Shared::default(), &store).with_store(mortal);
        assert!(block_on(killed.run(&task(4096))).is_err());
        let resumed = run(&session(&Shared::default(), &store));
        assert_eq!(decisions(&store), wanted);
        assert_eq!(resumed.sketch, expected.sketch);
        // And a third time, where everything is known.
        let world = Shared::default();
        run(&session(&world, &store));
        world.with(|w| assert_eq!((w.builds.len(), w.verdicts.len(), w.loads), (0, 0, 0)));
        assert_eq!(decisions(&store), wanted);
    }
}
