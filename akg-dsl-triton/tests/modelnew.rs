//! Bundles as PyTorch modules, run in Triton's interpreter.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use std::path::Path;
use std::process::Command;

use akg_core::bundle::structure::Structure;
use akg_core::bundle::{Bundle, Evidence, ModuleCall, ModuleInput};
use akg_core::source::{Artifact, Knobs, SourceForm};
use akg_core::task::SizeRange;
use akg_core::verdict::Verdict;
use akg_core::{Accuracy, Candidate, DType, Dsl, ErrorKind, Expr, Graph, Sketch, Task, Tensor};
use akg_dsl_triton::{TritonDsl, modelnew};

/// `y = 2 x + w + c`, by two kernels with a buffer between.
const SKETCH: &str = "# In one pass.
sketch shift(x: f32[N, 4], w: f32[4], c: f32[4]) -> y: f32[N, 4]
buffer t: f32[N, 4]
kernel scale over (n in ceildiv(N, 8)) {
  store t[n*8 :+ 8, 0 :+ 4] = 2 * (load x[n*8 :+ 8, 0 :+ 4] else 0)
}
kernel shift over (n in ceildiv(N, 8)) {
  s = (load w[0 :+ 4]) + (load c[0 :+ 4])
  store y[n*8 :+ 8, 0 :+ 4] = (load t[n*8 :+ 8, 0 :+ 4] else 0) + s[None, :]
}";

const MODULE: &str = "import torch
import torch.nn as nn


class Model(nn.Module):
    \"\"\"All in one pass.\"\"\"

    def __init__(self):
        super(Model, self).__init__()
        self.unused = nn.Linear(3, 3)
        self.w = nn.Parameter(torch.randn(4))

    def forward(self, x: torch.Tensor, scale: float = 1.0):
        return x + x + self.w + torch.arange(4)
";

fn task() -> Task {
    let mut graph = Graph::new("shift");
    let x = graph.input("x", DType::F32, [Expr::symbol("N"), 4.into()]);
    let w = graph.weight("w", DType::F32, [4]);
    let c = graph.constant("c", Tensor::from_slice([4], &[0f32, 1.0, 2.0, 3.0]).unwrap());
    let t = graph.add(x, x).unwrap();
    let t = graph.add(t, w).unwrap();
    let y = graph.add(t, c).unwrap();
    graph.output(y);
    let mut task = Task::new("shift", graph);
    task.contract.hints.insert("N".into(), 100);
    task.contract
        .ranges
        .insert("N".into(), SizeRange { lo: 1, hi: 1000 });
    task
}

/// A bundle that nobody has built.
fn bundle(dsl: &str) -> Bundle {
    bundle_of(&task(), SKETCH, dsl)
}

fn bundle_of(task: &Task, text: &str, dsl: &str) -> Bundle {
    let target = support::h100();
    let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{}", d.render(text)));
    let mut source = TritonDsl::default()
        .lower(&sketch, &Knobs::new(), &target)
        .unwrap();
    dsl.clone_into(&mut source.dsl);
    let SourceForm::Lowered { plan } = source.form.clone() else {
        panic!("no plan")
    };
    let artifact = Artifact {
        format: "cubin".into(),
        bytes: Vec::new(),
        plan,
        metadata: [].into(),
    };
    let evidence = Evidence {
        verdict: Verdict::new(Accuracy::Fp32),
        timing: None,
        bound_seconds: None,
        kernels: Vec::new(),
    };
    Bundle::new(task, &target, Candidate { source, artifact }, text, evidence).unwrap()
}

/// Runs a script in which `m` is the exported module, made for the CPU, where the interpreter's tensors are.
fn with_module(python: &Path, name: &str, text: &str, script: &str) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.py"));
    std::fs::write(&file, text.replace("not tensor.is_cuda", "tensor.is_cuda")).unwrap();
    let script = format!("import sys, torch\nsys.path.insert(0, sys.argv[1])\nimport {name} as m\n{script}");
    let output = Command::new(python)
        .env("TRITON_INTERPRET", "1")
        .args(["-c", &script, env!("CARGO_TARGET_TMPDIR")])
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}\n{text}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn modelnew_is_the_module_with_other_kernels() {
    let inputs = vec![ModuleInput::Argument(0), ModuleInput::Attribute("w".into())];
    let text = modelnew(&bundle("triton").with_module(MODULE, inputs).unwrap()).unwrap();
    let code: String = text
        .lines()
        .map(|l| l.split('#').next().unwrap_or_default().to_owned() + "\n")
        .collect();
    for word in ["pass", "try:", "except ", "import threading"] {
        assert!(!code.contains(word), "benchmarks refuse files with `{word}`");
    }
    for word in ["@triton.jit", "tl.", "class ModelNew(nn.Module):"] {
        assert!(code.contains(word), "benchmarks want `{word}`");
    }
    let Some(python) = support::python() else { return };
    with_module(
        python,
        "modelnew_of_module",
        &text,
        &format!(
            "
original = {{}}
exec({MODULE:?}, original)
torch.manual_seed(42)
model = original['Model']()
torch.manual_seed(42)
new = m.ModelNew()
assert all(torch.equal(p, q) for p, q in zip(model.parameters(), new.parameters(), strict=True))
def same(x):
    with torch.no_grad():
        assert torch.allclose(model(x), new(x), rtol=1e-6, atol=1e-6)
for n in (1, 7, 100):
    same(torch.randn(n, 4))
same(torch.randn(4, 9).t())
same(torch.randn(101)[1:].reshape(25, 4))
def refuses(words, *x):
    try:
        new(*x)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
refuses('float32', torch.zeros(2, 4, dtype=torch.float64))
refuses('shape', torch.zeros(2, 5))
refuses('from 1 to 1000', torch.zeros(1001, 4))
"
        ),
    );
}

#[test]
fn complex_parameters_are_pairs_to_kernels() {
    const TURN: &str = "sketch turn(x: f32[4], w: f32[4, 2]) -> y: f32[4, 2]
kernel k over (p in 1) {
  store y[p*4 :+ 4, 0 :+ 2] = (load x[p*4 :+ 4])[:, None]*(load w[p*4 :+ 4, 0 :+ 2])
}
";
    const MODULE: &str = "import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.randn(4, dtype=torch.complex64))

    def forward(self, x: torch.Tensor):
        return torch.view_as_real(x * self.w)
";
    let mut graph = Graph::new("turn");
    let x = graph.input("x", DType::F32, [4]);
    let w = graph.weight("w", DType::F32, [4, 2]);
    let column = graph.reshape(x, [4, 1]).unwrap();
    let y = graph.mul(column, w).unwrap();
    graph.output(y);
    let inputs = vec![ModuleInput::Argument(0), ModuleInput::Attribute("w".into())];
    let bundle = bundle_of(&Task::new("turn", graph), TURN, "triton");
    let text = modelnew(&bundle.with_module(MODULE, inputs).unwrap()).unwrap();
    assert!(text.contains("akg_real(self.w)"), "{text}");
    let Some(python) = support::python() else { return };
    let script = format!(
        "
original = {{}}
exec({MODULE:?}, original)
torch.manual_seed(42)
model = original['Model']()
torch.manual_seed(42)
new = m.ModelNew()
x = torch.randn(4)
with torch.no_grad():
    assert torch.allclose(model(x), new(x), rtol=1e-6, atol=1e-6)
"
    );
    with_module(python, "modelnew_of_complex", &text, &script);
}

#[test]
fn seeds_are_drawn_for_each_call() {
    let mut graph = Graph::new("draw");
    let seed = graph.input("seed", DType::I64, [0i64; 0]);
    let x = graph.input("x", DType::I64, [3]);
    let y = graph.add(x, seed).unwrap();
    graph.output(y);
    let text = "sketch draw(seed: i64[], x: i64[3]) -> y: i64[3]
kernel main over (p in 3) { store y[p] = (load x[p]) + load seed[] }";
    let module =
        "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x\n";
    let inputs = vec![ModuleInput::Seed {}, ModuleInput::Argument(0)];
    let bundle = bundle_of(&Task::new("draw", graph), text, "triton");
    let text = modelnew(&bundle.with_module(module, inputs).unwrap()).unwrap();
    let Some(python) = support::python() else { return };
    with_module(
        python,
        "modelnew_draws_seeds",
        &text,
        "
x = torch.tensor([0, -1, -2])
torch.manual_seed(5)
seeds = [torch.randint(2**63 - 1, ()) for _ in range(2)]
torch.manual_seed(5)
assert seeds[0] != seeds[1]
for seed in seeds:
    assert torch.equal(m.ModelNew()(x), x + seed)
",
    );
}

#[test]
fn calls_keep_their_structure_and_change_their_arguments() {
    let mut graph = Graph::new("step");
    let x = graph.input("x", DType::F32, [4]);
    let y = graph.state("y", DType::F32, [4]);
    let doubled = graph.add(x, x).unwrap();
    let next = graph.add(y, x).unwrap();
    graph.output(doubled);
    graph.update(y, next).unwrap();
    let text = "sketch step(x: f32[4], y: f32[4]) -> (z: f32[4], y_new: f32[4])
kernel main over (p in 4) {
  store z[p] = (load x[p]) + load x[p]
  store y_new[p] = (load y[p]) + load x[p]
}";
    let module = "import torch


class Model(torch.nn.Module):
    def forward(self, parts, y, scale=2.0, *rest, power=None):
        y.add_(parts['x'])
        return {'z': parts['x'] * scale, 'y': [y, None]}
";
    let inputs = vec![ModuleInput::Argument(0), ModuleInput::Argument(1)];
    let literal = |text: &str| Structure::Literal(text.to_owned());
    let dict = |items: Vec<(&str, Structure)>| {
        Structure::Dict(
            items
                .into_iter()
                .map(|(key, item)| (key.to_owned(), item))
                .collect(),
        )
    };
    let arguments = vec![
        ("parts".to_owned(), dict(vec![("'x'", Structure::Tensor(0))])),
        ("y".to_owned(), Structure::Tensor(1)),
        ("scale".to_owned(), literal("2.0")),
        ("*rest".to_owned(), Structure::Tuple(Vec::new())),
        ("power".to_owned(), literal("None")),
    ];
    let results = dict(vec![
        ("'z'", Structure::Tensor(0)),
        (
            "'y'",
            Structure::List(vec![Structure::Argument(1), literal("None")]),
        ),
    ]);
    let call = ModuleCall {
        arguments: Some(arguments),
        results,
    };
    let bundle = bundle_of(&Task::new("step", graph), text, "triton");
    let bundle = bundle
        .with_module(module, inputs)
        .unwrap()
        .with_call(call)
        .unwrap();
    let text = modelnew(&bundle).unwrap();
    let Some(python) = support::python() else { return };
    with_module(
        python,
        "modelnew_with_structure",
        &text,
        "
x, y = torch.randn(4), torch.zeros(4, 2)[:, 0]
new = m.ModelNew()
for calls in (1, 2):
    made = new({'x': x}, y)
    assert list(made) == ['z', 'y'] and torch.equal(made['z'], 2 * x)
    assert made['y'][0] is y and made['y'][1] is None and torch.allclose(y, calls * x)
def refuses(words, *arguments, **more):
    try:
        new(*arguments, **more)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
refuses('`scale` is 3.0', {'x': x}, y, 3.0)
refuses('`rest` must have 0 items', {'x': x}, y, 2.0, 1)
refuses('`power` is 2', {'x': x}, y, power=2)
refuses('keys', {}, y)
",
    );
}

#[test]
fn without_a_module_weights_become_parameters() {
    let text = modelnew(&bundle("triton")).unwrap();
    let Some(python) = support::python() else { return };
    with_module(
        python,
        "modelnew_of_graph",
        &text,
        "
torch.manual_seed(1)
new = m.ModelNew()
torch.manual_seed(1)
assert torch.equal(new.w, torch.randn(4))
x = torch.randn(5, 4)
assert torch.allclose(new(x), 2 * x + new.w + torch.arange(4))
",
    );
}

#[test]
fn other_languages_have_no_triton_form() {
    assert_eq!(
        modelnew(&bundle("poem")).unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}
