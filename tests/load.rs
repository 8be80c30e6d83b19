//! A verdict follows from the candidate, the task and the secret: a busy machine takes longer, and finds the same.
//!
//! The test is its own worker, hence a `main` of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use akg::cpp::{CppConfig, CppDsl};
use akg::cpu::CpuBackend;
use akg::source::{Held, Knobs, Launch, LaunchPlan, PlanTensor, Source, SourceForm, TensorRole};
use akg::verify::{AdversarialVerifier, Judge, NumericVerifier, Operations, PartVerifier};
use akg::{
    Backend as _, Candidate, DType, Dsl as _, Error, Expr, Graph, Result, Target, Task, Verdict,
    Verifier as _,
};
use futures::executor::block_on;
use libtest_mimic::{Arguments, Trial};

/// Threads beside a verdict that never rest.
const BUSY: usize = 8;

const ROWS: i64 = 256;
const DEPTH: i64 = 256;
const COLUMNS: i64 = 256;

/// `relu(x * w)` in two kernels; `TERM` is what each element of a row adds.
const TEXT: &str = r#"
#include <stdint.h>
extern "C" void product(void *const *tensors, const int64_t *, int64_t first, int64_t last) {
    const float *x = (const float *)tensors[0], *w = (const float *)tensors[1];
    float *h = (float *)tensors[2];
    for (int64_t i = first; i < last; i++) {
        double sums[256] = {};
        for (int64_t k = 0; k < 256; k++)
            for (int64_t j = 0; j < 256; j++) sums[j] += TERM;
        for (int64_t j = 0; j < 256; j++) h[i * 256 + j] = sums[j];
    }
}
extern "C" void relu(void *const *tensors, const int64_t *, int64_t first, int64_t last) {
    const float *h = (const float *)tensors[0];
    float *y = (float *)tensors[1];
    for (int64_t i = first * 256; i < last * 256; i++) y[i] = h[i] > 0 ? h[i] : 0;
}
"#;

const RIGHT: &str = "(double)x[i * 256 + k] * w[k * 256 + j]";

/// Wrong in the last columns of one row.
const WRONG: &str = "(i == 177 && j > 250 ? 0.5 : 1.0) * x[i * 256 + k] * w[k * 256 + j]";

fn main() {
    akg::worker::init();
    let trial =
        |name, term, passes| Trial::test(name, move || Ok(same(term, passes).map_err(|e| e.to_string())?));
    let trials = vec![trial("right", RIGHT, true), trial("wrong", WRONG, false)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn task() -> Result<Task> {
    let mut graph = Graph::new("relu of a product");
    let x = graph.input("x", DType::F32, [ROWS, DEPTH]);
    let w = graph.weight("w", DType::F32, [DEPTH, COLUMNS]);
    let h = graph.matmul(x, w)?;
    let y = graph.relu(h)?;
    graph.output(y);
    Ok(Task::new("relu of a product", graph))
}

fn source(task: &Task, term: &str) -> Source {
    let mut tensors = PlanTensor::of(&task.graph);
    let product = task.graph.nodes().iter().flat_map(|node| &node.outputs).next();
    tensors.push(PlanTensor {
        name: "h".into(),
        dtype: DType::F32,
        shape: vec![Expr::constant(ROWS), Expr::constant(COLUMNS)],
        role: TensorRole::Scratch,
        align: 64,
        holds: product.map(|value| Held::Own(task.graph.value_name(*value).to_owned())),
        updates: None,
    });
    let launch = |kernel: &str, tensors: &[usize]| Launch {
        kernel: kernel.into(),
        grid: vec![Expr::constant(ROWS)],
        tensors: tensors.to_vec(),
        cooperative: false,
        doc: String::new(),
    };
    Source {
        dsl: "cpp".into(),
        text: TEXT.replace("TERM", term),
        form: SourceForm::Lowered {
            plan: LaunchPlan {
                dims: Vec::new(),
                tensors,
                launches: vec![launch("product", &[0, 1, 3]), launch("relu", &[3, 2])],
            },
        },
        knobs: Knobs::new(),
    }
}

/// Judges the same candidate with the machine for itself, and beside busy threads.
fn same(term: &str, passes: bool) -> Result<()> {
    let task = task()?;
    let backend = CpuBackend::builder().build();
    let devices = block_on(backend.devices())?;
    let target = devices
        .first()
        .ok_or_else(|| Error::unsupported("there is no device"))?;
    let source = source(&task, term);
    let dsl = CppDsl::new(CppConfig::default());
    let artifact = dsl.build(&source, target)?;
    let artifact = artifact.map_err(|failure| Error::unexpected(failure.evidence))?;
    let candidate = Candidate { source, artifact };
    let idle = judge(&candidate, &task, target, &backend)?;
    let busy = beside_others(|| judge(&candidate, &task, target, &backend))?;
    assert_eq!(idle.passed(), passes, "{:?}", idle.failure);
    let json = |verdict: &Verdict| {
        serde_json::to_string_pretty(verdict).map_err(|e| Error::unexpected("no JSON").caused_by(e))
    };
    assert_eq!(json(&idle)?, json(&busy)?);
    if passes {
        let work = idle.work;
        assert_eq!(idle.checks.len() as u64, work.data_sets);
        assert!(work.repetitions > 0 && work.ablations > 0, "{work:?}");
        // The budgets cut off something, so that a clock in their place would show.
        assert!(
            work.rows < work.data_sets * ROWS as u64 && work.data_sets < 40,
            "{work:?}"
        );
    }
    Ok(())
}

/// The verdict of a judge with small budgets, whatever contained the candidate.
fn judge(candidate: &Candidate, task: &Task, target: &Target, backend: &CpuBackend) -> Result<Verdict> {
    let mut numeric = NumericVerifier::default();
    (numeric.seed, numeric.secret) = (3, Some(11));
    numeric.work = Operations::of_milliseconds(60);
    numeric.sample_work = Operations::of_milliseconds(4);
    let mut adversarial = AdversarialVerifier::default();
    adversarial.secret = Some(11);
    adversarial.work = Operations::of_milliseconds(100);
    adversarial.sample_work = Operations::of_milliseconds(2);
    let mut parts = PartVerifier::default();
    parts.secret = Some(11);
    parts.sample_work = Operations::of_milliseconds(2);
    let judge = Judge::new().with(numeric).with(adversarial).with(parts);
    let verdict = block_on(judge.verify(candidate, task, target, backend))?;
    Ok(Verdict {
        isolation: None,
        ..verdict
    })
}

fn beside_others<R>(work: impl FnOnce() -> R) -> R {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..BUSY {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        done.store(true, Ordering::Relaxed);
        result
    })
}
