//! Sessions that tune and remember, on a simulated device whose fastest configuration is known.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use akg_core::backend::{BackendCapability, Cache, Call, Limits, Loaded, RunOutput};
use akg_core::designer::{Design, DesignContext, Designer};
use akg_core::dsl::{DslCapability, Stage};
use akg_core::expr::Bindings;
use akg_core::isolation::Isolation;
use akg_core::session::Outcome;
use akg_core::source::{Artifact, KnobValue, Knobs, Launch, LaunchPlan, Source, SourceForm};
use akg_core::store::{Measurement, MemoryStore, Store, StoreExt as _, TuningRecord};
use akg_core::timing::{Usage, Witness};
use akg_core::tuner::{Origin, TuningPolicy};
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{
    Agent, Backend, Candidate, DType, Diagnostic, Dsl, Error, Graph, Result, Session, Sketch, Target, Task,
    Tensor, Verdict, Verifier,
};
use async_trait::async_trait;
use futures::executor::block_on;

/// Two kernels with three knobs; the second has one that changes nothing.
const SKETCH: &str = "sketch relu(x: f32[4096]) -> y: f32[4096]
knob A in {64, 128, 256, 512}
knob B in {64, 128, 256, 512}
hint C in {1, 2}
buffer h: f32[4096]

kernel k0 over (p in ceildiv(4096, A)) {
  a = load x[p*A :+ A]
  b = max(a, 0.0)
  store h[p*A :+ A] = b
}

kernel k1 over (p in ceildiv(4096, B)) {
  a = load h[p*B :+ B]
  store y[p*B :+ B] = a
}
";

/// What happened in the simulated world.
#[derive(Debug, Default)]
struct World {
    now: f64,
    builds: Vec<String>,
    verdicts: Vec<String>,
    executions: usize,
    loads: usize,
    /// The load at which the device is lost.
    lost_at: Option<usize>,
    /// Whether others use the machine.
    crowded: bool,
}

#[derive(Debug, Clone, Default)]
struct Shared(Arc<Mutex<World>>);

impl Shared {
    fn with<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }
}

fn value(text: &str, knob: &str) -> i64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|w| *w == knob).unwrap();
    words[at + 2].parse().unwrap()
}

/// The time of one call. A = 256 and B = 128 is the fastest configuration that is right.
fn seconds(text: &str) -> f64 {
    let octaves = |n: i64, best: f64| 1.0 + 0.3 * ((n as f64).log2() - best).abs();
    let (a, b) = (value(text, "A"), value(text, "B"));
    // Those that are wrong are faster than all others.
    let cheats = if a == 512 || (b == 512 && a == 256) {
        0.5
    } else {
        1.0
    };
    1e-3 * cheats * (octaves(a, 8.0) + octaves(b, 7.0))
}

#[derive(Debug)]
struct Author;

#[async_trait]
impl Agent<Designer> for Author {
    fn name(&self) -> &str {
        "author"
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        let n = context.task.graph.ty(context.task.graph.inputs()[0].value).shape[0].to_string();
        let sketch = Sketch::parse(&SKETCH.replace("4096", &n)).unwrap();
        Ok(Design {
            knobs: sketch.default_knobs(),
            sketch,
            kernels: Vec::new(),
            intermediates: [].into(),
            rules: Vec::new(),
        })
    }
}

/// Writes the knobs that matter; the word of a configuration is its program.
#[derive(Debug)]
struct Words(Shared, DslCapability);

impl Dsl for Words {
    fn name(&self) -> &str {
        "words"
    }

    fn capability(&self) -> &DslCapability {
        &self.1
    }

    fn lower(&self, sketch: &Sketch, knobs: &Knobs, _: &Target) -> Result<Source> {
        let program = sketch.elaborate(knobs, &Bindings::new())?;
        let launches = program.kernels.iter().map(|kernel| Launch {
            kernel: kernel.name.clone(),
            grid: Vec::new(),
            tensors: Vec::new(),
            cooperative: false,
            doc: String::new(),
        });
        Ok(Source {
            dsl: "words".to_owned(),
            text: format!("A = {} B = {}", knobs["A"], knobs["B"]),
            form: SourceForm::Lowered {
                plan: LaunchPlan {
                    dims: Vec::new(),
                    launches: launches.collect(),
                    tensors: program.tensors,
                },
            },
            knobs: knobs.clone(),
        })
    }

    fn build(&self, source: &Source, _: &Target) -> Result<std::result::Result<Artifact, Failure>> {
        self.0.with(|w| w.builds.push(source.text.clone()));
        if value(&source.text, "A") == 64 && value(&source.text, "B") == 128 {
            return Ok(Err(Failure::new(FailureKind::CompileFailed, "no")));
        }
        let SourceForm::Lowered { plan } = &source.form else {
            return Err(Error::unsupported("no plan"));
        };
        Ok(Ok(Artifact {
            format: "words".to_owned(),
            bytes: source.text.clone().into_bytes(),
            plan: plan.clone(),
            metadata: [].into(),
        }))
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

    fn parse(&self, _: &str) -> Result<Source> {
        Err(Error::unsupported("nobody writes words"))
    }

    fn export(&self, _: &Source, _: &str) -> Result<String> {
        Err(Error::unsupported("nobody reads words"))
    }
}

#[derive(Debug)]
struct Device(Shared, BackendCapability);

#[async_trait]
impl Backend for Device {
    fn name(&self) -> &str {
        "simulated"
    }

    fn capability(&self) -> &BackendCapability {
        &self.1
    }

    async fn devices(&self) -> Result<Vec<Target>> {
        let mut target = Target::new("simulated", "none");
        target.cores = 4;
        Ok(vec![target])
    }

    async fn load(
        &self,
        artifact: Artifact,
        _: Limits,
    ) -> Result<std::result::Result<Box<dyn Loaded>, Failure>> {
        let lost = self.0.with(|w| {
            w.loads += 1;
            w.lost_at.is_some_and(|at| w.loads >= at)
        });
        if lost {
            return Err(Error::new(akg_core::ErrorKind::WorkerLost, "the device is lost"));
        }
        Ok(Ok(Box::new(Program {
            world: self.0.clone(),
            text: String::from_utf8(artifact.bytes).unwrap(),
            isolation: Isolation::default(),
            bound: None,
        })))
    }
}

#[derive(Debug)]
struct Program {
    world: Shared,
    text: String,
    isolation: Isolation,
    bound: Option<Call>,
}

#[async_trait]
impl Loaded for Program {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    async fn bind(&mut self, call: Call) -> Result<std::result::Result<(), Failure>> {
        self.bound = Some(call);
        Ok(Ok(()))
    }

    async fn execute(&mut self, calls: u32, _: Cache) -> Result<std::result::Result<Duration, Failure>> {
        let taken = 1e-5 + f64::from(calls) * seconds(&self.text);
        self.world.with(|w| {
            w.executions += 1;
            w.now += taken;
        });
        Ok(Ok(Duration::from_secs_f64(taken)))
    }

    async fn take(&mut self) -> Result<std::result::Result<RunOutput, Failure>> {
        let x = self.bound.take().unwrap().inputs.remove(0);
        // A = 512 forgets to compute.
        let forgets = value(&self.text, "A") == 512;
        let y: Vec<f32> = x
            .as_slice::<f32>()?
            .iter()
            .map(|v| if forgets { 0.5 } else { v.max(0.0) })
            .collect();
        Ok(Ok(RunOutput {
            outputs: vec![Tensor::from_slice([y.len()], &y)?],
            inputs_unchanged: true,
        }))
    }
}

/// Knows what no contest sees: A = 256 with B = 512 is wrong.
#[derive(Debug)]
struct Sage(Shared);

#[async_trait]
impl Verifier for Sage {
    fn name(&self) -> &str {
        "sage"
    }

    fn identity(&self) -> String {
        "sage".to_owned()
    }

    async fn verify(
        &self,
        candidate: &Candidate,
        task: &Task,
        _: &Target,
        _: &dyn Backend,
    ) -> Result<Verdict> {
        let text = candidate.source.text.clone();
        let wrong = value(&text, "A") == 256 && value(&text, "B") == 512;
        self.0.with(|w| w.verdicts.push(text));
        let failure = wrong.then(|| Failure::new(FailureKind::WrongValues, "seen through"));
        Ok(Verdict {
            failure,
            ..Verdict::new(task.contract.accuracy)
        })
    }
}

struct Clock(Shared);

impl Witness for Clock {
    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.0.with(|w| w.now))
    }

    fn reference(&mut self) -> Duration {
        Duration::from_micros(100)
    }

    fn stolen(&mut self) -> Option<Duration> {
        None
    }

    fn others(&mut self) -> Option<Usage> {
        let used = |w: &mut World| if w.crowded { 100.0 * w.now } else { 0.0 };
        Some(Usage {
            seconds: self.0.with(used),
            processors: 1,
        })
    }
}

fn task(n: usize) -> Task {
    let mut graph = Graph::new("relu");
    let x = graph.input("x", DType::F32, [n]);
    let y = graph.relu(x).unwrap();
    graph.output(y);
    Task::new("relu", graph)
}

fn policy(budget: Duration) -> TuningPolicy {
    let mut policy = TuningPolicy::default();
    policy.budget = budget;
    policy.patience = 100;
    policy
}

const PLENTY: Duration = Duration::from_secs(3600);

fn session(world: &Shared, store: &Arc<MemoryStore>, budget: Duration) -> Session {
    let mut dsl = DslCapability::default();
    dsl.backends = vec!["simulated".to_owned()];
    let mut backend = BackendCapability::default();
    backend.times = true;
    let clock = world.clone();
    let store: Arc<dyn Store> = store.clone();
    Session::new(
        Arc::new(Words(world.clone(), dsl)),
        Arc::new(Device(world.clone(), backend)),
    )
    .with_designer(Author)
    .with_verifier(Sage(world.clone()))
    .with_witness(move || Box::new(Clock(clock.clone())))
    .with_tuning(Some(policy(budget)))
    .with_store(store)
}

fn run(world: &Shared, store: &Arc<MemoryStore>, n: usize, budget: Duration) -> Outcome {
    block_on(session(world, store, budget).run(&task(n))).unwrap()
}

fn best(outcome: &Outcome) -> (KnobValue, KnobValue) {
    let knobs = &outcome.best().unwrap().source.knobs;
    (knobs["A"], knobs["B"])
}

const FASTEST: (KnobValue, KnobValue) = (KnobValue::Int(256), KnobValue::Int(128));

#[test]
fn the_fastest_configuration_that_is_right_is_found_and_nothing_is_done_twice() {
    let (world, store) = (Shared::default(), Arc::default());
    let outcome = run(&world, &store, 4096, PLENTY);
    assert_eq!(best(&outcome), FASTEST);
    let tuning = outcome.tuning.as_ref().unwrap();
    assert_eq!(tuning.origin, Origin::Ranking);
    let expected = seconds("A = 256 B = 128") / seconds("A = 64 B = 64");
    assert!((tuning.relative / expected - 1.0).abs() < 0.02, "{tuning:?}");
    assert!(!tuning.cut_short);
    // What was wrong in its duel, and what only the judge saw through.
    let failures: Vec<FailureKind> = tuning
        .trials
        .iter()
        .filter_map(|t| Some(t.failure.as_ref()?.kind))
        .collect();
    assert!(failures.contains(&FailureKind::WrongValues), "{failures:?}");
    let all: Vec<TuningRecord> = store.all(None).unwrap();
    let of = |a: i64, b: i64| {
        let mut matching = all
            .iter()
            .filter(move |r| r.knobs["A"] == KnobValue::Int(a) && r.knobs["B"] == KnobValue::Int(b));
        matching.next().unwrap()
    };
    assert_eq!(of(256, 512).failure.as_ref().unwrap().evidence, "seen through");
    assert!(of(512, 64).failure.is_some());
    assert!(of(256, 128).chosen);
    assert_eq!(all.iter().filter(|r| r.chosen).count(), 1);
    world.with(|w| {
        let distinct: HashSet<&String> = w.builds.iter().collect();
        assert_eq!(distinct.len(), w.builds.len(), "{:?}", w.builds);
        let distinct: HashSet<&String> = w.verdicts.iter().collect();
        assert_eq!(distinct.len(), w.verdicts.len(), "{:?}", w.verdicts);
    });
}

#[test]
fn a_second_run_does_nothing_again() {
    let (world, store) = (Shared::default(), Arc::default());
    let first = run(&world, &store, 4096, PLENTY);
    let again = Shared::default();
    let second = run(&again, &store, 4096, PLENTY);
    assert_eq!(best(&second), FASTEST);
    let tuning = second.tuning.as_ref().unwrap();
    assert_eq!((tuning.origin, tuning.trials.len()), (Origin::Record, 0));
    let (a, b) = (first.best().unwrap(), second.best().unwrap());
    assert_eq!((a.key, &a.verdict, &a.timing), (b.key, &b.verdict, &b.timing));
    assert!(b.recalled && !a.recalled && b.timing.is_some());
    again.with(|w| assert_eq!((w.builds.len(), w.verdicts.len(), w.loads), (0, 0, 0)));
}

#[test]
fn what_was_disturbed_is_measured_again_only_if_asked() {
    let (world, store) = (Shared::default(), Arc::default());
    world.with(|w| w.crowded = true);
    let first = run(&world, &store, 4096, PLENTY);
    assert_eq!(best(&first), (KnobValue::Int(64), KnobValue::Int(64)));
    assert!(!first.best().unwrap().timing.as_ref().unwrap().is_stable());
    let calm = Shared::default();
    let second = run(&calm, &store, 4096, PLENTY);
    assert_eq!(second.best().unwrap().timing, first.best().unwrap().timing);
    assert!(second.tuning.unwrap().stopped.contains("others used the machine"));
    calm.with(|w| assert_eq!((w.builds.len(), w.verdicts.len(), w.loads), (0, 0, 0)));
    let session = session(&calm, &store, PLENTY).with_retry(true);
    let retried = block_on(session.run(&task(4096))).unwrap();
    assert_eq!(best(&retried), FASTEST);
    assert!(retried.best().unwrap().timing.as_ref().unwrap().is_stable());
}

#[test]
fn a_run_that_ended_early_is_taken_up_where_it_was() {
    let mut ended = 0;
    for lost_at in (3..200).step_by(20) {
        let (world, store) = (Shared::default(), Arc::default());
        world.with(|w| w.lost_at = Some(lost_at));
        ended += usize::from(block_on(session(&world, &store, PLENTY).run(&task(4096))).is_err());
        world.with(|w| w.lost_at = None);
        let outcome = run(&world, &store, 4096, PLENTY);
        assert_eq!(best(&outcome), FASTEST, "lost at {lost_at}");
        world.with(|w| {
            let distinct: HashSet<&String> = w.verdicts.iter().collect();
            assert_eq!(
                distinct.len(),
                w.verdicts.len(),
                "lost at {lost_at}: {:?}",
                w.verdicts
            );
            let distinct: HashSet<&String> = w.builds.iter().collect();
            assert_eq!(
                distinct.len(),
                w.builds.len(),
                "lost at {lost_at}: {:?}",
                w.builds
            );
        });
        let duels: Vec<Measurement> = store.all(None).unwrap();
        let duels: Vec<_> = duels.iter().filter(|m| m.challenged.is_some()).collect();
        let challengers: HashSet<_> = duels.iter().map(|m| m.candidate).collect();
        assert_eq!(challengers.len(), duels.len(), "lost at {lost_at}");
    }
    assert!(ended > 3, "{ended}");
}

#[test]
fn a_larger_budget_goes_on_and_another_shape_starts_from_the_record() {
    let (world, store) = (Shared::default(), Arc::default());
    let outcome = run(&world, &store, 4096, Duration::ZERO);
    assert_eq!(best(&outcome), (KnobValue::Int(64), KnobValue::Int(64)));
    assert!(outcome.tuning.unwrap().cut_short);
    // The same budget is no reason to tune again, a larger one is.
    let outcome = run(&world, &store, 4096, Duration::ZERO);
    assert_eq!(outcome.tuning.unwrap().trials.len(), 0);
    let outcome = run(&world, &store, 4096, PLENTY);
    assert_eq!(best(&outcome), FASTEST);
    let near = run(&world, &store, 8192, PLENTY);
    assert_eq!(best(&near), FASTEST);
    let tuning = near.tuning.unwrap();
    assert_eq!(
        (tuning.origin, tuning.trials[0].origin),
        (Origin::NearRecord, Origin::NearRecord)
    );
    assert!(tuning.trials[0].faster);
}
