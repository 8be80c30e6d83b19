//! A verdict follows from the candidate, the task and the secret: a busy machine takes longer, and finds the same.
//!
//! The test is its own worker, hence a `main` of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use akg::backend::Limits;
use akg::cpp::{CppConfig, CppDsl};
use akg::cpu::CpuBackend;
use akg::source::{Held, Knobs, Launch, LaunchPlan, PlanTensor, Source, SourceForm, TensorRole};
use akg::verify::Judge;
use akg::{
    Backend as _, Candidate, DType, Dsl as _, Error, Expr, Graph, Result, Target, Task, Verdict,
    Verifier as _,
};
use futures::executor::block_on;
use libtest_mimic::{Arguments, Trial};

/// Threads beside a verdict that never rest.
const BUSY: usize = 8;

const ROWS: i64 = 96;
const DEPTH: i64 = 1024;
const COLUMNS: i64 = 1536;

/// `relu(x * w)` in two kernels; `TERM` is what each element of a row adds.
const TEXT: &str = r#"
#include <stdint.h>
extern "C" void product(void *const *tensors, const int64_t *, int64_t first, int64_t last) {
    const float *x = (const float *)tensors[0], *w = (const float *)tensors[1];
    float *h = (float *)tensors[2];
    for (int64_t i = first; i < last; i++) {
        float *row = h + i * 1536;
        for (int64_t j = 0; j < 1536; j++) row[j] = 0;
        for (int64_t k = 0; k < 1024; k++)
            for (int64_t j = 0; j < 1536; j++) row[j] += TERM;
    }
}
extern "C" void relu(void *const *tensors, const int64_t *, int64_t first, int64_t last) {
    const float *h = (const float *)tensors[0];
    float *y = (float *)tensors[1];
    for (int64_t i = first * 1536; i < last * 1536; i++) y[i] = h[i] > 0 ? h[i] : 0;
}
"#;

const RIGHT: &str = "x[i * 1024 + k] * w[k * 1536 + j]";

/// Wrong in the last columns of one row.
const WRONG: &str = "(i == 77 && j > 1500 ? 0.5f : 1.0f) * x[i * 1024 + k] * w[k * 1536 + j]";

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
        assert!(idle.work.data_sets > 10 && idle.work.repetitions > 0 && idle.work.ablations == 2);
        assert_eq!(idle.checks.len() as u64, idle.work.data_sets);
    }
    Ok(())
}

/// The verdict, whatever contained the candidate.
fn judge(candidate: &Candidate, task: &Task, target: &Target, backend: &CpuBackend) -> Result<Verdict> {
    let judge = Judge::standard(3, Some(11), &Limits::default());
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
