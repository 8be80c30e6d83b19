//! Migration: kernels in other languages are lifted with recorded replies of a model, checked against what the original computes, and
//! lowered to another language, whose results are checked again. The test is its own worker, hence a `main` of its own.
//!
//! Each kernel in `tests/migrate` has its text, its interface and what the model replied (`NAME.md`, then `NAME.2.md` if that was wrong).
//! The recordings hold the whole conversations; `AKG_BLESS=1 cargo test --test migrate` records them anew with the same replies.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use akg::agent::Agent as _;
use akg::backend::Limits;
use akg::chat::{ChatCapability, ChatModel, ChatReply, ChatRequest};
use akg::cpp::CppDsl;
use akg::designer::{Design, DesignContext, ModelDesigner, SketchDesigner};
use akg::expr::Bindings;
use akg::lift::{CompiledOriginal, Interface, Language, LiftContext, ModelLifter, Original, disagreement};
use akg::llm::{Cassette, Record, Recorder, Replay};
use akg::python::{FunctionOriginal, ImportOptions, ModuleOriginal, Python, PythonOptions};
use akg::source::Source;
use akg::task::Generator;
use akg::triton::TritonDsl;
use akg::verify::{Distribution, make_inputs};
use akg::{Accuracy, Backend, Dsl, Error, Graph, Result, Session, Target, Task, Tensor, blocking, registry};
use async_trait::async_trait;
use futures::executor::block_on;
use libtest_mimic::{Arguments, Failed, Trial};

#[path = "../akg-dsl-triton/tests/support/mod.rs"]
mod triton;

#[path = "migrate/relower.rs"]
mod relower;

fn main() {
    akg::worker::init();
    let trials = vec![
        Trial::test("cuda_kernels_are_lifted_and_run_as_triton", || {
            migrate(Language::Cuda)
        }),
        Trial::test("triton_kernels_are_lifted_and_run_as_cpp", || {
            migrate(Language::Triton)
        }),
        Trial::test("pytorch_modules_become_sketches", || migrate(Language::PyTorch)),
        Trial::test("cpp_kernels_are_executed_and_compared", cpp_kernels),
        Trial::test("cuda_kernels_are_executed_as_cuda_does", cuda_words),
        Trial::test("sketches_mean_the_same_in_every_language", relower::all),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// A kernel of the corpus.
struct Foreign {
    name: String,
    path: PathBuf,
    replies: Vec<String>,
}

fn folder(language: Language) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/migrate")
        .join(language.name())
}

fn corpus(language: Language) -> Vec<Foreign> {
    let extension = if language == Language::Cuda { "cu" } else { "py" };
    let entries = std::fs::read_dir(folder(language)).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == extension));
    paths.sort();
    let kernel = |path: PathBuf| {
        let reply = |n: usize| match n {
            1 => path.with_extension("md"),
            n => path.with_extension(format!("{n}.md")),
        };
        let replies = (1..)
            .map_while(|n| std::fs::read_to_string(reply(n)).ok())
            .collect();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        Foreign { name, path, replies }
    };
    paths.into_iter().map(kernel).collect()
}

/// A model that says what it was told to say.
#[derive(Debug)]
struct Scripted(Mutex<std::vec::IntoIter<String>>);

#[async_trait]
impl ChatModel for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn capability(&self) -> ChatCapability {
        ChatCapability::default()
    }

    async fn chat(&self, _request: &ChatRequest) -> Result<ChatReply> {
        let reply = self.0.lock().unwrap().next();
        reply
            .map(ChatReply::text)
            .ok_or_else(|| Error::unexpected("the model has no further reply"))
    }
}

/// What answers for the model: the recording, or what makes it.
struct Recording {
    cassette: Option<Arc<Cassette>>,
    recorder: Option<Arc<Recorder>>,
}

impl Recording {
    fn of(language: Language) -> Self {
        let path = folder(language).with_extension("jsonl");
        if std::env::var_os("AKG_BLESS").is_some() {
            let _ = std::fs::remove_file(&path);
            let recorder = Some(Arc::new(Recorder::open(&path).unwrap()));
            return Self {
                cassette: None,
                recorder,
            };
        }
        Self {
            cassette: Some(Cassette::open(&path).unwrap()),
            recorder: None,
        }
    }

    /// That every reply was asked for: those that are wrong were caught.
    fn is_complete(&self, language: Language, kernels: &[Foreign]) {
        let left = self.cassette.as_ref().map_or(0, |cassette| cassette.remaining());
        assert_eq!(left, 0, "recorded replies that nobody asked for");
        let text = std::fs::read_to_string(folder(language).with_extension("jsonl")).unwrap();
        let replies: usize = kernels.iter().map(|kernel| kernel.replies.len()).sum();
        assert_eq!(text.lines().count(), replies, "replies that nobody asked for");
    }

    fn model(&self, kernel: &Foreign) -> Arc<dyn ChatModel> {
        match (&self.cassette, &self.recorder) {
            (Some(cassette), _) => Arc::new(Replay::new("scripted", cassette.clone())),
            (None, recorder) => {
                let model = Arc::new(Scripted(Mutex::new(kernel.replies.clone().into_iter())));
                Arc::new(Record::new(model, recorder.clone().unwrap()))
            }
        }
    }
}

/// What a kernel became.
struct Migrated {
    name: String,
    task: Task,
    design: Design,
}

/// Who runs the kernels and what becomes of them.
struct Bench {
    recording: Recording,
    python: Option<Arc<Mutex<Python>>>,
    cpu: Arc<dyn Backend>,
    host: Target,
    gpu: Target,
}

fn migrate(language: Language) -> std::result::Result<(), Failed> {
    let kernels = corpus(language);
    assert!(kernels.len() >= 20, "{} kernels", kernels.len());
    let wrong = kernels.iter().filter(|kernel| kernel.replies.len() > 1).count();
    assert!(wrong >= 3, "the checks have nothing to catch");
    let python = triton::python().is_some().then(|| {
        let environment = akg::python::Environment::find(&akg::python::Config::default()).unwrap();
        Arc::new(Mutex::new(Python::new(environment, PythonOptions::default())))
    });
    if language != Language::Cuda && python.is_none() {
        return Ok(());
    }
    if !has_compiler() {
        return Ok(());
    }
    let cpu = registry().backend("cpu")?;
    let bench = Bench {
        recording: Recording::of(language),
        python,
        host: blocking::devices(&*cpu)?.remove(0),
        cpu,
        gpu: serde_json::from_str(include_str!("../examples/devices/nvidia-h200.json"))?,
    };
    let mut migrated = Vec::new();
    let mut failed = Vec::new();
    for kernel in &kernels {
        let result = bench.lift(language, kernel).and_then(|lifted| {
            bench.judge(&lifted)?;
            Ok(lifted)
        });
        match result {
            Ok(lifted) => migrated.push(lifted),
            Err(error) => failed.push(format!("{}: {error:?}", kernel.name)),
        }
    }
    if failed.is_empty() {
        bench.recording.is_complete(language, &kernels);
    }
    failed.extend(bench.triton(language, &migrated));
    if failed.is_empty() {
        return Ok(());
    }
    Err(format!("{} failed\n{}", failed.len(), failed.join("\n\n")).into())
}

/// Says on the terminal if there is no C++ compiler.
fn has_compiler() -> bool {
    let found = CppDsl::default()
        .toolchain(&Target::new("cpu", std::env::consts::ARCH))
        .is_ok();
    if !found {
        let _ = writeln!(std::io::stderr(), "SKIPPED: no C++ compiler");
    }
    found
}

impl Bench {
    fn lift(&self, language: Language, kernel: &Foreign) -> Result<Migrated> {
        let name = kernel.name.clone();
        let model = self.recording.model(kernel);
        if language == Language::PyTorch {
            let python = self.python.clone().unwrap();
            let module =
                python
                    .lock()
                    .unwrap()
                    .import(&kernel.path, &ImportOptions::default(), &mut |_| {})?;
            let mut task = Task::new(name.clone(), module.graph.clone());
            let generators = module.inputs.iter().map(|input| match input.generator {
                akg::python::Generator::Randint { low, high } => Generator::Integers { lo: low, hi: high },
                _ => Generator::Normal,
            });
            task.contract.generators = generators.collect();
            let original = ModuleOriginal::new(python, &module)?;
            if let Some(wrong) = block_on(disagreement(&original, &task))? {
                return Err(Error::unexpected(wrong));
            }
            let context = DesignContext::new(task.clone(), self.host.clone());
            let design = block_on(ModelDesigner::new(model)?.step(&described(context)))?;
            return Ok(Migrated { name, task, design });
        }
        let text = std::fs::read_to_string(&kernel.path).unwrap();
        let interface = std::fs::read_to_string(kernel.path.with_extension("json")).unwrap();
        let interface = Interface::from_json(&interface)?;
        let context = LiftContext {
            name: name.clone(),
            language,
            original: self.original(language, kernel, &text, &interface)?,
            text,
            interface,
            accuracy: Accuracy::Fp32,
            // The same on every machine, as the recording is.
            target: self.gpu.clone(),
        };
        let lift = block_on(ModelLifter::new(model)?.step(&context))?;
        Ok(Migrated {
            name,
            task: lift.task,
            design: lift.design,
        })
    }

    fn original(
        &self,
        language: Language,
        kernel: &Foreign,
        text: &str,
        interface: &Interface,
    ) -> Result<Arc<dyn Original>> {
        if language == Language::Triton {
            let python = self.python.clone().unwrap();
            return Ok(Arc::new(FunctionOriginal::new(python, &kernel.path, interface)?));
        }
        let source = akg::cpp::original(language, text, interface)?;
        let (dsl, cpu) = (CppDsl::default(), self.cpu.clone());
        let original = CompiledOriginal::build(&source, &dsl, cpu, &self.host, Limits::default())?;
        Ok(Arc::new(original))
    }

    /// Re-lowers a sketch to C++ for this machine, where the judge judges it.
    fn judge(&self, migrated: &Migrated) -> Result<()> {
        let session = Session::new(Arc::new(CppDsl::default()), self.cpu.clone())
            .with_designer(SketchDesigner::new(migrated.design.sketch.clone()))
            .with_timing(None);
        let outcome = blocking::run(&session, &migrated.task)?;
        match outcome.failure() {
            Some(failure) => Err(Error::unexpected(format!(
                "as C++ it fails: {}: {}",
                failure.kind.name(),
                failure.evidence
            ))),
            None => Ok(()),
        }
    }

    /// Re-lowers sketches to Triton for a GPU: builds machine code, and executes them by Triton's interpreter. What fails.
    fn triton(&self, language: Language, migrated: &[Migrated]) -> Vec<String> {
        let Some(python) = triton::python() else {
            return Vec::new();
        };
        let dsl = TritonDsl::default();
        let (mut failed, mut jobs, mut checks) = (Vec::new(), Vec::new(), Vec::new());
        for kernel in migrated {
            match self.build(&dsl, kernel) {
                Ok((source, inputs)) => {
                    let hints = &kernel.task.contract.hints;
                    let label = format!("migrated_{language}_{}", kernel.name);
                    jobs.push(triton::run_job(&label, &source, hints, &inputs));
                    checks.push((kernel, source, inputs));
                }
                Err(error) => failed.push(format!("{} as Triton: {error:?}", kernel.name)),
            }
        }
        for ((kernel, source, inputs), result) in checks.iter().zip(triton::interpret(python, &jobs)) {
            let outputs = triton::outputs(source, &kernel.task.contract.hints, &result);
            if let Some(wrong) = relower::differs(&kernel.task, inputs, &outputs) {
                failed.push(format!("{} as Triton: {wrong}\n{}", kernel.name, source.text));
            }
        }
        failed
    }

    fn build(&self, dsl: &TritonDsl, kernel: &Migrated) -> Result<(Source, Vec<Tensor>)> {
        let context = DesignContext::new(kernel.task.clone(), self.gpu.clone());
        let design = SketchDesigner::new(kernel.design.sketch.clone()).design(&context)?;
        let source = dsl.lower(&design.sketch, &design.knobs, &self.gpu)?;
        if let Err(failure) = dsl.build(&source, &self.gpu)? {
            return Err(Error::unexpected(failure.evidence));
        }
        let hints: &Bindings = &kernel.task.contract.hints;
        let inputs = make_inputs(&kernel.task, &*self.cpu, Distribution::Signed, 1, hints)?;
        Ok((source, inputs))
    }
}

/// A context for a device that is the same on every machine, as the recording is.
fn described(mut context: DesignContext) -> DesignContext {
    context.target = Target::new("cpu", "x86_64");
    context
}

/// Half of each element, or of its opposite where the row begins with a negative one.
const SIGNED_ROWS: &str = "
static float sign(float v) { return v < 0 ? -1.0f : 1.0f; }

void signed_rows(const float *x, float *y, long rows, int columns, float scale) {
  for (long r = 0; r < rows; ++r)
    for (int c = 0; c < columns; ++c) y[r * columns + c] = x[r * columns + c] * sign(x[r * columns]) * scale;
}
";

const SIGNED_ROWS_INTERFACE: &str = r#"{
  "inputs": [{"name": "x", "dtype": "f32", "shape": ["N", 20]}],
  "outputs": [{"name": "y", "dtype": "f32", "shape": ["N", 20]}],
  "dims": {"N": 7},
  "calls": [{"function": "signed_rows", "arguments": ["x", "y", "N", 20, 0.5]}]}"#;

/// A graph of it, unless its constant is another.
fn signed_rows(scale: &str) -> String {
    r#"{"akg_graph": 1, "name": "signed_rows",
        "inputs": [{"name": "x", "dtype": "f32", "shape": ["N", 20]}],
        "nodes": [{"op": "aten.narrow.default", "args": {"self": "x", "dim": 1, "start": 0, "length": 1}, "outputs": ["first"]},
                  {"op": "aten.lt.Scalar", "args": {"self": "first", "other": 0}, "outputs": ["negative"]},
                  {"op": "aten.mul.Scalar", "args": {"self": "x", "other": -0.5}, "outputs": ["minus"]},
                  {"op": "aten.mul.Scalar", "args": {"self": "x", "other": SCALE}, "outputs": ["plus"]},
                  {"op": "aten.where.self", "args": {"condition": "negative", "self": "minus", "other": "plus"}, "outputs": ["y"]}],
        "outputs": [{"value": "y"}]}"#
        .replace("SCALE", scale)
}

fn cpp_kernels() -> std::result::Result<(), Failed> {
    if !has_compiler() {
        return Ok(());
    }
    let cpu = registry().backend("cpu")?;
    let host = blocking::devices(&*cpu)?.remove(0);
    let interface = Interface::from_json(SIGNED_ROWS_INTERFACE)?;
    let build = |text: &str| {
        let source = akg::cpp::original(Language::Cpp, text, &interface)?;
        let (dsl, cpu) = (CppDsl::default(), cpu.clone());
        CompiledOriginal::build(&source, &dsl, cpu, &host, Limits::default())
    };
    let original = build(SIGNED_ROWS)?;
    let wrong = |graph: &str| -> Result<Option<String>> {
        let task = interface.task("signed_rows", Graph::from_json(graph)?, Accuracy::Fp32);
        block_on(disagreement(&original, &task))
    };
    assert_eq!(wrong(&signed_rows("0.5"))?, None);
    for scale in ["-0.5", "0.50001"] {
        let found = wrong(&signed_rows(scale))?.unwrap_or_default();
        assert!(
            found.contains("not what the original computes"),
            "{scale}: {found}"
        );
    }
    let error = build("void signed_rows(const float *x) {}")
        .unwrap_err()
        .to_string();
    assert!(error.contains("does not compile"), "{error}");
    Ok(())
}

/// Words of CUDA's that the corpus lacks: blocks whose last warp is not full, threads that leave while others go on to meet.
const WORDS: &str = "
__global__ void words(const int *x, int *scan, int *votes, int *extremes, int *turned) {
  __shared__ int shared[40];
  int t = threadIdx.x + 10 * threadIdx.y, i = blockIdx.x * 40 + t, lane = t % 32, v = x[i];
  for (int step = 1; step < 32; step *= 2) {
    int other = __shfl_up_sync(~0u, v, step);
    if (lane >= step) v += other;
  }
  scan[i] = v;
  votes[i] = 4 * __popc(__ballot_sync(~0u, x[i] > 0)) + 2 * __any_sync(~0u, x[i] > 90) + __all_sync(~0u, x[i] > -95);
  atomicMax(&extremes[0], x[i]);
  atomicMin(&extremes[1], x[i]);
  shared[t] = x[i];
  __syncthreads();
  turned[i] = 0;
  if (t >= 35) return;
  int before = shared[t];
  __syncthreads();
  shared[34 - t] = before;
  __syncthreads();
  turned[i] = shared[t];
}
";

const WORDS_INTERFACE: &str = r#"{
  "inputs": [{"name": "x", "dtype": "i32", "shape": [80]}],
  "outputs": [{"name": "scan", "dtype": "i32", "shape": [80]}, {"name": "votes", "dtype": "i32", "shape": [80]},
              {"name": "extremes", "dtype": "i32", "shape": [2], "zeroed": true}, {"name": "turned", "dtype": "i32", "shape": [80]}],
  "calls": [{"function": "words", "grid": [2], "block": [10, 4], "arguments": ["x", "scan", "votes", "extremes", "turned"]}]}"#;

fn cuda_words() -> std::result::Result<(), Failed> {
    if !has_compiler() {
        return Ok(());
    }
    let cpu = registry().backend("cpu")?;
    let host = blocking::devices(&*cpu)?.remove(0);
    let interface = Interface::from_json(WORDS_INTERFACE)?;
    let source = akg::cpp::original(Language::Cuda, WORDS, &interface)?;
    let original = CompiledOriginal::build(&source, &CppDsl::default(), cpu, &host, Limits::default())?;
    let x: Vec<i32> = (0..80).map(|i| (i * 37 + 5) % 199 - 99).collect();
    let outputs = block_on(original.run(&[Tensor::from_slice([80], &x)?], &Bindings::new()))?;
    let outputs = outputs.map_err(|failure| failure.evidence)?;
    let (mut scan, mut votes, mut turned) = (Vec::new(), Vec::new(), Vec::new());
    for block in x.chunks(40) {
        for warp in block.chunks(32) {
            scan.extend(warp.iter().scan(0, |sum, v| {
                *sum += v;
                Some(*sum)
            }));
            let ballot = warp.iter().filter(|v| **v > 0).count() as i32;
            let (any, all) = (warp.iter().any(|v| *v > 90), warp.iter().all(|v| *v > -95));
            votes.extend(
                warp.iter()
                    .map(|_| 4 * ballot + 2 * i32::from(any) + i32::from(all)),
            );
        }
        turned.extend(block.iter().take(35).rev().copied().chain([0; 5]));
    }
    let extremes = vec![*x.iter().max().unwrap(), *x.iter().min().unwrap()];
    for (got, want) in outputs.iter().zip([scan, votes, extremes, turned]) {
        let want: Vec<f64> = want.into_iter().map(f64::from).collect();
        assert_eq!(got.to_f64()?, want);
    }
    Ok(())
}
