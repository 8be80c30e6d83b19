//! Bundles to test with.

use std::path::PathBuf;

use akg::bundle::Evidence;
use akg::cpp::{CppConfig, CppDsl};
use akg::source::{Artifact, LaunchPlan, Source, SourceForm};
use akg::task::SizeRange;
use akg::verdict::Verdict;
use akg::{Accuracy, Bundle, Candidate, DType, Dsl as _, ErrorKind, Expr, Graph, Target, Task, Tensor};

/// This machine, as far as the compiler must know.
pub(crate) fn host() -> Target {
    let mut target = Target::new("cpu", std::env::consts::ARCH);
    target.features = akg::worker::features().into_iter().map(str::to_owned).collect();
    target
}

/// Two kernels with a scratch tensor between: `y = 2 x + w`.
const SCALE_AND_SHIFT: &str = r#"// akg-launch: {"dims": ["N"], "tensors": [
// {"name": "x", "dtype": "f32", "shape": ["N", 4], "role": "input", "align": 16},
// {"name": "w", "dtype": "f32", "shape": [4], "role": "input", "align": 4},
// {"name": "t", "dtype": "f32", "shape": ["N", 4], "role": "scratch", "align": 256},
// {"name": "y", "dtype": "f32", "shape": ["N", 4], "role": "output", "align": 4}],
// "launches": [{"kernel": "scale", "grid": ["N"], "tensors": [0, 2]},
// {"kernel": "shift", "grid": ["N"], "tensors": [2, 1, 3]}]}
#include <cstdint>
extern "C" void scale(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *x = static_cast<const float *>(tensors[0]);
  float *t = static_cast<float *>(tensors[1]);
  if (reinterpret_cast<uintptr_t>(t) % 256 != 0) return;
  for (int64_t i = 4 * first; i < 4 * last; ++i) t[i] = 2 * x[i];
}
extern "C" void shift(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *t = static_cast<const float *>(tensors[0]);
  const float *w = static_cast<const float *>(tensors[1]);
  float *y = static_cast<float *>(tensors[2]);
  for (int64_t i = 4 * first; i < 4 * last; ++i) y[i] = t[i] + w[i % 4];
}
"#;

/// The task of [`SCALE_AND_SHIFT`], for N up to 1000.
pub(crate) fn scale_and_shift() -> (Task, &'static str) {
    let mut graph = Graph::new("scale_and_shift");
    let x = graph.input("x", DType::F32, [Expr::symbol("N"), 4.into()]);
    let w = graph.weight("w", DType::F32, [4]);
    let t = graph.add(x, x).unwrap();
    let y = graph.add(t, w).unwrap();
    graph.output(y);
    let mut task = Task::new("scale_and_shift", graph);
    task.contract.hints.insert("N".into(), 100);
    task.contract
        .ranges
        .insert("N".into(), SizeRange { lo: 1, hi: 1000 });
    (task, SCALE_AND_SHIFT)
}

/// Programs that wait for each other, a constant, and element types other than f32: `y = x[::-1] < c`.
const REVERSE: &str = r#"// akg-launch: {"tensors": [
// {"name": "x", "dtype": "i64", "shape": [8], "role": "input", "align": 8},
// {"name": "c", "dtype": "f64", "shape": [8], "role": "input", "align": 8},
// {"name": "t", "dtype": "i64", "shape": [8], "role": "scratch", "align": 8},
// {"name": "y", "dtype": "bool", "shape": [8], "role": "output", "align": 1}],
// "launches": [{"kernel": "reverse", "grid": [8], "tensors": [0, 1, 2, 3], "cooperative": true}]}
#include <cstdint>
struct akg_team { void (*barrier)(void *context); void *context; };
extern "C" void reverse(void *const *tensors, const int64_t *, int64_t program, const akg_team *team) {
  volatile int64_t *t = static_cast<int64_t *>(tensors[2]);
  for (int round = 0; round < 3; ++round) {
    t[program] = static_cast<const int64_t *>(tensors[0])[program];
    team->barrier(team->context);
    static_cast<uint8_t *>(tensors[3])[program] = t[7 - program] < static_cast<const double *>(tensors[1])[program];
    team->barrier(team->context);
  }
}
"#;

/// The task of [`REVERSE`].
pub(crate) fn reverse(constant: &[f64]) -> (Task, &'static str) {
    let mut graph = Graph::new("reverse");
    let x = graph.input("x", DType::I64, [8]);
    let c = graph.constant("c", Tensor::from_slice([8], constant).unwrap());
    let flipped = graph.call(
        "aten.flip.default",
        [("self", x.into()), ("dims", (&[0i64]).into())],
    );
    let flipped = flipped.unwrap()[0];
    let y = graph
        .call("aten.lt.Tensor", [("self", flipped.into()), ("other", c.into())])
        .unwrap()[0];
    graph.output(y);
    (Task::new("reverse", graph), REVERSE)
}

/// The source of a text, built by the C++ DSL, whose compiler runs below the `akg` program; `None`, said on the terminal,
/// without a compiler.
pub(crate) fn build(text: &str) -> Option<Candidate> {
    let mut config = CppConfig::default();
    config.worker = Some(PathBuf::from(env!("CARGO_BIN_EXE_akg")));
    let dsl = CppDsl::new(config);
    let source = dsl.parse(text).unwrap();
    match dsl.build(&source, &host()) {
        Ok(artifact) => Some(Candidate {
            source,
            artifact: artifact.unwrap(),
        }),
        Err(e) => {
            assert_eq!(e.kind(), ErrorKind::ToolMissing, "{e}");
            eprintln!("SKIPPED: {e}");
            None
        }
    }
}

/// A bundle of a task and a text.
pub(crate) fn bundle((task, text): (Task, &str)) -> Option<Bundle> {
    Some(Bundle::new(&task, &host(), build(text)?, "", passed()).unwrap())
}

/// A candidate that nobody can run.
pub(crate) fn inert(plan: LaunchPlan) -> Candidate {
    Candidate {
        source: Source {
            dsl: "cpp".into(),
            text: String::new(),
            form: SourceForm::Lowered { plan: plan.clone() },
            knobs: [].into(),
        },
        artifact: Artifact {
            format: "elf-so".into(),
            bytes: b"\x7fELF".to_vec(),
            plan,
            metadata: [].into(),
        },
    }
}

/// Evidence of a pass that rests on nothing.
pub(crate) fn passed() -> Evidence {
    Evidence {
        verdict: Verdict::new(Accuracy::Fp32),
        timing: None,
        bound_seconds: None,
        kernels: Vec::new(),
    }
}
