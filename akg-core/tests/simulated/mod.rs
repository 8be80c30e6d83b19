//! A simulated world: a device whose time is known for every configuration of a kernel, a DSL that writes the knobs, and a judge.
#![allow(dead_code, reason = "each test uses a part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use akg_core::analyst::{AnalyseContext, Analyst, Place, Recommendation};
use akg_core::backend::{BackendCapability, Cache, Call, Limits, Loaded, RunOutput};
use akg_core::designer::{Design, DesignContext, Designer};
use akg_core::dsl::{DslCapability, Stage};
use akg_core::expr::Bindings;
use akg_core::isolation::Isolation;
use akg_core::search::Syntax;
use akg_core::source::{Artifact, Knobs, Launch, LaunchPlan, Source, SourceForm};
use akg_core::store::{MemoryStore, Store};
use akg_core::timing::{Usage, Witness};
use akg_core::tuner::TuningPolicy;
use akg_core::verdict::{Failure, FailureKind};
use akg_core::{
    Agent, Backend, Candidate, DType, Diagnostic, Digest, Dsl, Error, Graph, Result, Session, Sketch, Target,
    Task, Tensor, Verdict, Verifier,
};
use async_trait::async_trait;

/// Two kernels with three knobs; the second has one that changes nothing.
pub(crate) const SKETCH: &str = "sketch relu(x: f32[4096]) -> y: f32[4096]
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
pub(crate) struct World {
    now: f64,
    pub(crate) builds: Vec<String>,
    pub(crate) verdicts: Vec<String>,
    pub(crate) executions: usize,
    pub(crate) loads: usize,
    /// The same for each device, by its position.
    pub(crate) loads_of: BTreeMap<usize, usize>,
    /// The device that is lost from the beginning.
    pub(crate) lost_device: Option<usize>,
    /// The load at which the device is lost.
    pub(crate) lost_at: Option<usize>,
    /// The device that is of another kind.
    pub(crate) odd_device: Option<usize>,
    /// Whether others use the machine.
    pub(crate) crowded: bool,
    /// The part of a call's time that is left to chance.
    pub(crate) noise: f64,
    /// Whether nothing can be built, judged or executed.
    pub(crate) closed: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<World>>);

impl Shared {
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut World) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }

    fn enter(&self) -> Result<()> {
        if self.with(|w| w.closed) {
            return Err(Error::unexpected("the simulated world is closed"));
        }
        Ok(())
    }
}

pub(crate) fn value(text: &str, knob: &str) -> i64 {
    let words: Vec<&str> = text.split_whitespace().collect();
    let at = words.iter().position(|w| *w == knob).unwrap();
    words[at + 2].parse().unwrap()
}

/// The time of one call. A = 256 and B = 128 is the fastest configuration that is right; each kernel takes half the time of
/// the two of [`SKETCH`].
pub(crate) fn seconds(text: &str) -> f64 {
    let octaves = |n: i64, best: f64| 1.0 + 0.3 * ((n as f64).log2() - best).abs();
    let (a, b) = (value(text, "A"), value(text, "B"));
    // Those that are wrong are faster than all others.
    let cheats = if a == 512 || (b == 512 && a == 256) {
        0.5
    } else {
        1.0
    };
    0.5e-3 * value(text, "K") as f64 * cheats * (octaves(a, 8.0) + octaves(b, 7.0))
}

/// A design of so many kernels, which copy what the first one computes. Each kernel takes as long as another.
pub(crate) fn kernels(count: usize) -> String {
    designed(count, "A in {64, 128}", "B in {64, 256}")
}

/// The same with these knobs.
pub(crate) fn designed(count: usize, a: &str, b: &str) -> String {
    let mut text = format!("sketch relu(x: f32[4096]) -> y: f32[4096]\nknob {a}\nknob {b}\n");
    for buffer in 1..count {
        text += &format!("buffer h{buffer}: f32[4096]\n");
    }
    for kernel in 0..count {
        let (knob, value) = if kernel == 0 {
            ("A", "max(a, 0.0)")
        } else {
            ("B", "a")
        };
        let from = if kernel == 0 {
            "x".to_owned()
        } else {
            format!("h{kernel}")
        };
        let to = if kernel + 1 == count {
            "y".to_owned()
        } else {
            format!("h{}", kernel + 1)
        };
        text += &format!(
            "\nkernel k{kernel} over (p in ceildiv(4096, {knob})) {{\n  a = load {from}[p*{knob} :+ {knob}]\n  \
             store {to}[p*{knob} :+ {knob}] = {value}\n}}\n"
        );
    }
    text
}

/// The design that a sketch says.
pub(crate) fn design(text: &str) -> Design {
    let sketch = Sketch::parse(text).unwrap_or_else(|d| unreachable!("{}", d.render(text)));
    Design {
        knobs: sketch.default_knobs(),
        sketch,
        kernels: Vec::new(),
        intermediates: [].into(),
        rules: Vec::new(),
    }
}

/// Recommends something else each time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Adviser(pub(crate) Place);

#[async_trait]
impl Agent<Analyst> for Adviser {
    fn name(&self) -> &str {
        "adviser"
    }

    async fn step(&self, context: &AnalyseContext) -> Result<Option<Recommendation>> {
        assert!(context.profile.measured && context.profile.seconds > 0.0);
        Ok(Some(Recommendation {
            what: format!("Idea {}.", context.passes.len()),
            why: "It is slow.".to_owned(),
            gain: 2.0,
            place: self.0,
        }))
    }
}

#[derive(Debug)]
pub(crate) struct Author;

#[async_trait]
impl Agent<Designer> for Author {
    fn name(&self) -> &str {
        "author"
    }

    async fn step(&self, context: &DesignContext) -> Result<Design> {
        let n = context.task.graph.ty(context.task.graph.inputs()[0].value).shape[0].to_string();
        Ok(design(&SKETCH.replace("4096", &n)))
    }
}

/// Writes the knobs that matter; the word of a configuration is its program.
#[derive(Debug)]
pub(crate) struct Words(Shared, DslCapability);

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
            text: format!(
                "K = {} A = {} B = {}",
                program.kernels.len(),
                knobs["A"],
                knobs["B"]
            ),
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
        self.0.enter()?;
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

    /// A text for 4096 elements.
    fn parse(&self, text: &str) -> Result<Source> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let ["K", "=", _, "A", "=", _, "B", "=", _] = words[..] else {
            return Err(Error::invalid("a text says what K, A and B are"));
        };
        let sketch = Sketch::parse(SKETCH).unwrap();
        let source = self.lower(
            &sketch,
            &sketch.default_knobs(),
            &Target::new("simulated", "none"),
        )?;
        Ok(Source {
            text: text.trim().to_owned(),
            knobs: Knobs::new(),
            ..source
        })
    }

    fn export(&self, _: &Source, _: &str) -> Result<String> {
        Err(Error::unsupported("nobody reads words"))
    }
}

/// How many devices the machine has.
const DEVICES: usize = 3;

/// One of the machine's devices. The first shares its processors with whoever prepares kernels.
#[derive(Debug)]
pub(crate) struct Device {
    world: Shared,
    capability: BackendCapability,
    position: usize,
}

impl Device {
    pub(crate) fn new(world: &Shared, position: usize) -> Self {
        let mut capability = BackendCapability::default();
        capability.times = true;
        capability.own_processors = position > 0;
        let world = world.clone();
        Self {
            world,
            capability,
            position,
        }
    }
}

#[async_trait]
impl Backend for Device {
    fn name(&self) -> &str {
        "simulated"
    }

    fn capability(&self) -> &BackendCapability {
        &self.capability
    }

    fn position(&self) -> usize {
        self.position
    }

    async fn devices(&self) -> Result<Vec<Target>> {
        let mut target = Target::new("simulated", "none");
        target.cores = 4;
        let mut all = vec![target; DEVICES];
        if let Some(odd) = self.world.with(|w| w.odd_device) {
            "an odd one".clone_into(&mut all[odd].name);
            all[odd].cores = 5;
        }
        Ok(all)
    }

    async fn load(
        &self,
        artifact: Artifact,
        _: Limits,
    ) -> Result<std::result::Result<Box<dyn Loaded>, Failure>> {
        self.world.enter()?;
        let lost = self.world.with(|w| {
            w.loads += 1;
            *w.loads_of.entry(self.position).or_default() += 1;
            w.lost_at.is_some_and(|at| w.loads >= at) || w.lost_device == Some(self.position)
        });
        if lost {
            return Err(Error::new(akg_core::ErrorKind::WorkerLost, "the device is lost"));
        }
        Ok(Ok(Box::new(Program {
            world: self.world.clone(),
            text: String::from_utf8(artifact.bytes).unwrap(),
            isolation: Isolation::default(),
            bound: Vec::new(),
        })))
    }
}

#[derive(Debug)]
pub(crate) struct Program {
    world: Shared,
    text: String,
    isolation: Isolation,
    bound: Vec<Call>,
}

#[async_trait]
impl Loaded for Program {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    async fn bind(&mut self, call: Call) -> Result<std::result::Result<(), Failure>> {
        self.bind_slots(vec![call]).await
    }

    fn slots(&self, _: &Bindings) -> Result<usize> {
        Ok(1000)
    }

    async fn bind_slots(&mut self, calls: Vec<Call>) -> Result<std::result::Result<(), Failure>> {
        self.bound = calls;
        Ok(Ok(()))
    }

    async fn execute(&mut self, calls: u32, _: Cache) -> Result<std::result::Result<Duration, Failure>> {
        let noise = 1.0 + self.world.with(|w| w.noise) * rand::random::<f64>();
        let taken = 1e-5 + f64::from(calls) * seconds(&self.text) * noise;
        self.world.with(|w| {
            w.executions += 1;
            w.now += taken;
        });
        Ok(Ok(Duration::from_secs_f64(taken)))
    }

    async fn take(&mut self) -> Result<std::result::Result<RunOutput, Failure>> {
        let taken = self.take_slots(&[0]).await?;
        Ok(taken.map(|mut outputs| outputs.remove(0)))
    }

    async fn take_slots(&mut self, slots: &[usize]) -> Result<std::result::Result<Vec<RunOutput>, Failure>> {
        // A = 512 forgets to compute.
        let forgets = value(&self.text, "A") == 512;
        let bound = std::mem::take(&mut self.bound);
        let output = |slot: &usize| {
            let x = bound[*slot].inputs[0].as_slice::<f32>()?;
            let y: Vec<f32> = x.iter().map(|v| if forgets { 0.5 } else { v.max(0.0) }).collect();
            Ok(RunOutput {
                outputs: vec![Tensor::from_slice([y.len()], &y)?],
                inputs_unchanged: true,
            })
        };
        Ok(Ok(slots.iter().map(output).collect::<Result<_>>()?))
    }
}

/// Knows what no contest sees: A = 256 with B = 512 is wrong.
#[derive(Debug)]
pub(crate) struct Sage(Shared);

#[async_trait]
impl Verifier for Sage {
    fn name(&self) -> &str {
        "sage"
    }

    fn identity(&self) -> Digest {
        Digest::of(b"sage")
    }

    async fn verify(
        &self,
        candidate: &Candidate,
        task: &Task,
        _: &Target,
        _: &dyn Backend,
    ) -> Result<Verdict> {
        self.0.enter()?;
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

pub(crate) struct Clock(Shared);

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

pub(crate) fn task(n: usize) -> Task {
    let mut graph = Graph::new("relu");
    let x = graph.input("x", DType::F32, [n]);
    let y = graph.relu(x).unwrap();
    graph.output(y);
    Task::new("relu", graph)
}

pub(crate) fn policy(budget: Duration) -> TuningPolicy {
    let mut policy = TuningPolicy::default();
    policy.budget = budget;
    policy.patience = 100;
    policy
}

pub(crate) const PLENTY: Duration = Duration::from_secs(3600);

pub(crate) fn session(world: &Shared, store: &Arc<MemoryStore>, budget: Duration) -> Session {
    let mut dsl = DslCapability::default();
    dsl.backends = vec!["simulated".to_owned()];
    dsl.syntax = Some(Syntax::Braces);
    dsl.lowers = true;
    let clock = world.clone();
    let store: Arc<dyn Store> = store.clone();
    Session::new(
        Arc::new(Words(world.clone(), dsl)),
        Arc::new(Device::new(world, 0)),
    )
    .with_designer(Author)
    .with_verifier(Sage(world.clone()))
    .with_witness(move || Box::new(Clock(clock.clone())))
    .with_tuning(Some(policy(budget)))
    .with_store(store)
}
