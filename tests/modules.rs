//! Python modules with host code of their own, on their road to the judge: names of parameters, the rules of backends, exported
//! modules. Honest and hostile ones are in the corpus. The test is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, reason = "this is a test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use akg::conformance::{self, Probe};
use akg::python::{Config, Environment, ModuleBackend};
use akg::session::Attempt;
use akg::source::{Artifact, ModuleInterface};
use akg::timing::{ContestPolicy, Disturbance};
use akg::verdict::FailureKind::{LoadFailed, NoWork};
use akg::{DType, Graph, Session, Task, blocking};
use common::{Place, expect, has_compiler};
use futures::executor::block_on;
use libtest_mimic::{Arguments, Failed, Trial};

/// relu(x) * scale + 1, whose scale the class has as a parameter of another name than the task.
const MISNAMED: &str = r"
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.stage = nn.Module()
        self.stage.scale = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return torch.relu(x) * self.stage.scale + 1
";

fn main() {
    akg::worker::init();
    let has_pytorch = Environment::find(&Config::default()).is_ok();
    if !has_pytorch {
        eprintln!("SKIPPED: there is no Python with PyTorch; `akg doctor --fix` installs one");
    }
    let trial = |name: &str, test: fn() -> Result<(), Failed>, is_absent: bool| {
        Trial::test(name, test).with_ignored_flag(is_absent)
    };
    let trials = vec![
        trial("a parameter of another name", misnamed, !has_pytorch),
        trial(
            "the rules of backends hold",
            the_rules_of_backends_hold,
            !has_pytorch,
        ),
        trial(
            "a kernel that copies claims no speed",
            a_kernel_that_copies_claims_no_speed,
            !has_pytorch,
        ),
        trial(
            "an exported module passes",
            an_exported_module_passes,
            !has_pytorch || !has_compiler(),
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

fn task() -> Task {
    let mut graph = Graph::new("scaled_relu");
    let x = graph.input("x", DType::F32, [48, 40]);
    let scale = graph.weight("layer_scale", DType::F32, [1]);
    let y = graph.relu(x).and_then(|y| graph.mul(y, scale));
    let y = y.and_then(|y| graph.add(y, 1.0)).unwrap();
    graph.output(y);
    Task::new("scaled_relu", graph)
}

/// What is said to who gives a parameter another name than the task does.
fn misnamed() -> Result<(), Failed> {
    let registry = akg::registry();
    let (dsl, backend) = (registry.dsl("cpp")?, registry.backend("cpu")?);
    let source = dsl.parse(MISNAMED)?;
    let backend = Arc::new(ModuleBackend::new(backend, &Config::default()));
    let session = Session::new(dsl, backend).with_timing(None);
    let (attempt, _) = blocking::judge(&session, source, &task())?;
    let failure = attempt.verdict.failure.unwrap();
    assert_eq!(failure.kind, LoadFailed);
    for word in ["x, layer_scale", "stage_scale"] {
        assert!(failure.evidence.contains(word), "{}", failure.evidence);
    }
    Ok(())
}

/// A module whose kernel, which copies, is all that is not PyTorch's.
fn copying(before: &str, elements: usize) -> String {
    format!(
        "
import ctypes
import torch


class ModelNew:
    def __call__(self, x):
        {before}
        result = torch.empty({elements})
        ctypes.memmove(result.data_ptr(), y.data_ptr(), 4 * {elements})
        return result.reshape(x.shape[0], -1)
"
    )
}

/// Speed is PyTorch's where its operators take the time, and the module's where its kernels do.
fn a_kernel_that_copies_claims_no_speed() -> Result<(), Failed> {
    let mut policy = ContestPolicy::default();
    (policy.least_rounds, policy.most_rounds) = (4, 8);
    policy.budget = Duration::from_secs(1);
    let judged = |graph: Graph, text: &str| -> akg::Result<Attempt> {
        let registry = akg::registry();
        let (dsl, backend) = (registry.dsl("cpp")?, registry.backend("cpu")?);
        let source = dsl.parse(text)?;
        let backend = Arc::new(ModuleBackend::new(backend, &Config::default()));
        let session = Session::new(dsl, backend).with_timing(Some(policy.clone()));
        let (attempt, _) = blocking::judge(&session, source, &Task::new("copied", graph))?;
        Ok(attempt)
    };
    let borrows = |attempt: &Attempt| {
        let contest = attempt.timing.as_ref().unwrap();
        let disturbances = contest.disturbances.iter();
        disturbances
            .filter(|d| matches!(d, Disturbance::Borrowed { .. }))
            .count()
            == 1
    };
    let mut relu = Graph::new("relu");
    let x = relu.input("x", DType::F32, [256, 256]);
    let y = relu.relu(x)?;
    relu.output(y);
    let open = "y = torch.relu(x); x.repeat(8, 1).sort()";
    let copied = judged(relu.clone(), &copying(open, 256 * 256))?;
    assert_eq!(copied.verdict.failure.map(|f| f.kind), Some(NoWork));
    // Where no mode sees what PyTorch computes, the clock does.
    let hidden = format!("with torch._C._DisableTorchDispatch(): {open}");
    let borrowed = judged(relu, &copying(&hidden, 256 * 256))?;
    assert!(
        borrowed.verdict.passed() && borrows(&borrowed),
        "{:?}",
        borrowed.verdict
    );

    let mut copy = Graph::new("copy");
    let x = copy.input("x", DType::F32, [256, 256]);
    let y = copy.cat(&[x], 0)?;
    copy.output(y);
    let own = judged(copy, &copying("y = x", 256 * 256))?;
    assert!(own.verdict.framework_share.is_some(), "{:?}", own.verdict);
    assert!(!borrows(&own), "{:?}", own.verdict.framework_share);
    Ok(())
}

/// A backend keeps the rules that all are held to when it executes modules.
fn the_rules_of_backends_hold() -> Result<(), Failed> {
    let backend = ModuleBackend::new(akg::registry().backend("cpu")?, &Config::default());
    let report = block_on(conformance::backend(&backend, &probe));
    report.assert_held();
    assert!(report.held() > report.skipped(), "{report}");
    Ok(())
}

/// A probe as a module; none where a probe has scratch or several kernels, or leaves memory as it was.
fn probe(probe: Probe) -> akg::Result<Option<Artifact>> {
    let body = match probe {
        Probe::Double => "return 2 * x",
        Probe::OverwriteInput => "y = 2 * x; x.zero_(); return y",
        Probe::Crash => "ctypes.string_at(16)",
        Probe::Hang => "while True: pass",
        Probe::TakeMemory => "while True: taken.append(bytearray(1 << 24))",
        _ => return Ok(None),
    };
    let text =
        format!("import ctypes\ntaken = []\nclass probe:\n    def __call__(self, x):\n        {body}\n");
    let plan = probe.plan();
    let interface = ModuleInterface {
        tensors: plan.tensors.clone(),
        inputs: vec!["x".to_owned()],
        ..ModuleInterface::default()
    };
    let artifact = interface.artifact(&text)?;
    Ok(Some(Artifact { plan, ..artifact }))
}

/// A network with weights, and with states that a call changes.
const MODEL: &str = "
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(24, width)
        self.norm = nn.BatchNorm1d(width)

    def forward(self, x):
        return torch.relu(self.norm(self.fc(x)))


def get_inputs():
    return [torch.rand(32, 24)]


def get_init_inputs():
    return [16]
";

/// A network whose arguments are transposed, expanded and sliced.
const STRIDED: &str = "
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(24, 16)

    def forward(self, x, scale, mask):
        return torch.softmax(self.fc(x) * scale, -1) * mask


def get_inputs():
    return [torch.rand(24, 32).t(), torch.rand(16).expand(32, 16), (torch.rand(32, 40) > 0.5)[:, 3:19]]


def get_init_inputs():
    return []
";

/// What akg exports as a module in KernelBench's form is judged and timed like what somebody else wrote.
fn an_exported_module_passes() -> Result<(), Failed> {
    let place = Place::with(&[("model.py", MODEL), ("strided.py", STRIDED)]);
    for name in ["model", "strided"] {
        for arguments in [
            "run NAME.py --tune 0s --no-baseline --bundle NAME.akg",
            "export NAME.akg --form modelnew --out kernel.py",
            "verify kernel.py --task NAME.py --no-baseline --contest-seconds 1s",
        ] {
            let mut akg = place.akg();
            let arguments = arguments.replace("NAME", name);
            let akg = akg.current_dir(place.path("")).args(arguments.split(' '));
            expect(&akg.output()?, 0, &[]);
        }
    }
    Ok(())
}
