//! Python modules with host code of their own meet the same judge as kernels with a launch plan: honest ones pass, and those
//! that cheat fail for the right reason. Kernels are in Triton, executed by its interpreter where there is no GPU. The test is
//! its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, reason = "this is a test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use akg::backend::Limits;
use akg::conformance::{self, Probe};
use akg::cuda::absence;
use akg::python::{Config, Environment, ModuleBackend, Package};
use akg::source::{Artifact, ModuleInterface};
use akg::verdict::Failure;
use akg::verdict::FailureKind::{
    self, ClockMismatch, Crashed, InputChanged, LoadFailed, NoWork, Stale, TimedOut, WrongType, WrongValues,
};
use akg::verify::Judge;
use akg::{DType, Graph, Session, Task, blocking};
use common::{Place, expect, has_compiler};
use futures::executor::block_on;
use libtest_mimic::{Arguments, Failed, Trial};

/// relu(x) * scale + 1, whose scale the class has as a parameter.
const HONEST: &str = r"
import ctypes
import os
import sys
import threading
import time

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, scale_ptr, y_ptr, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < size, other=0.0)
    y = tl.maximum(x, 0.0) * tl.load(scale_ptr) + 1.0
    tl.store(y_ptr + offsets, y, mask=offsets < size)


def compute(x, scale):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 1024),)](x, scale, y, x.numel(), BLOCK=1024)
    return y


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Module()
        self.layer.scale = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return compute(x, self.layer.scale)
";

/// What `forward` returns.
const RETURNED: &str = "        return compute(x, self.layer.scale)\n";

/// What stands in its place, or at the end of the module, and the right reasons to reject that; none for honest ones.
const CASES: &[(&str, &str, &str, &[FailureKind])] = &[
    ("honest", RETURNED, "", &[]),
    (
        "a tuple of one",
        "        return (compute(x, self.layer.scale),)\n",
        "",
        &[],
    ),
    (
        "a view",
        "        return compute(x, self.layer.scale)[:]\n",
        "",
        &[],
    ),
    (
        "a copy of the input is overwritten",
        "        x = x.clone().mul_(1)\n        return compute(x, self.layer.scale)\n",
        "",
        &[],
    ),
    (
        "only PyTorch computes",
        "        return torch.relu(x) * self.layer.scale + 1\n",
        "",
        &[NoWork],
    ),
    (
        "only PyTorch computes, after a slow beginning",
        "        if not hasattr(self, 'begun'): self.begun = time.sleep(2)\n        return torch.relu(x) * self.layer.scale + 1\n",
        "time.sleep(2)\n",
        &[NoWork],
    ),
    (
        "a kernel whose result nobody needs",
        "        compute(x, self.layer.scale)\n        return torch.relu(x) * self.layer.scale + 1\n",
        "",
        &[NoWork],
    ),
    (
        "PyTorch steps in when a kernel does nothing",
        "        y = compute(x, self.layer.scale)\n        right = torch.relu(x) * self.layer.scale + 1\n        return y if torch.equal(y, right) else right\n",
        "",
        &[NoWork],
    ),
    (
        "exits unless a kernel ran",
        "        y = torch.full_like(x[:1], -9.0)\n        kernel[(1,)](x, self.layer.scale, y, y.numel(), BLOCK=1024)\n        if torch.all(y == -9.0): os._exit(1)\n        return torch.relu(x) * self.layer.scale + 1\n",
        "",
        &[NoWork],
    ),
    (
        "wrong in one element",
        "        y = compute(x, self.layer.scale)\n        y[5, 7] += 1e-3\n        return y\n",
        "",
        &[WrongValues],
    ),
    (
        "another type",
        "        return compute(x, self.layer.scale).double()\n",
        "",
        &[WrongType],
    ),
    (
        "another shape",
        "        return compute(x, self.layer.scale).T\n",
        "",
        &[WrongType],
    ),
    (
        "too many results",
        "        return compute(x, self.layer.scale), x\n",
        "",
        &[WrongType],
    ),
    ("no tensor", "        return 1\n", "", &[WrongType]),
    (
        "raises",
        "        raise RuntimeError('no luck')\n",
        "",
        &[Crashed],
    ),
    ("exits", "        os._exit(0)\n", "", &[Crashed]),
    (
        "exits when it is loaded",
        RETURNED,
        "sys.exit(0)\n",
        &[LoadFailed],
    ),
    ("is no Python", RETURNED, "def\n", &[LoadFailed]),
    ("never returns", "        while True: pass\n", "", &[TimedOut]),
    (
        "overwrites its input",
        "        return compute(x.mul_(1.5).div_(1.5).add_(1).sub_(1), self.layer.scale)\n",
        "",
        &[InputChanged, WrongValues],
    ),
    (
        "remembers its first result",
        "        if not hasattr(self, 'y'): self.y = compute(x, self.layer.scale)\n        return self.y\n",
        "",
        &[Stale, WrongValues],
    ),
    (
        "remembers results by address",
        "        self.__dict__.setdefault('known', {})\n        if x.data_ptr() not in self.known: self.known[x.data_ptr()] = compute(x, self.layer.scale)\n        return self.known[x.data_ptr()]\n",
        "",
        &[Stale, WrongValues],
    ),
    (
        "computes in the background",
        "        y = torch.zeros_like(x)\n        def later():\n            time.sleep(0.05)\n            y.copy_(torch.relu(x) * self.layer.scale + 1)\n        threading.Thread(target=later, daemon=True).start()\n        return y\n",
        "",
        &[ClockMismatch, WrongValues],
    ),
    (
        "answers before it computes",
        "        y = torch.zeros_like(x)\n        late.append((y, x, self.layer.scale))\n        return y\n",
        "from akg_worker import candidate\nlate = []\ntake = candidate.take\ndef catch_up(message):\n    for y, x, scale in late: y.copy_(compute(x, scale))\n    return take(message)\ncandidate.CALLS['take'] = catch_up\n",
        // Where results are read, nobody asks for them.
        &[ClockMismatch, WrongValues],
    ),
    (
        "says that digests are what they will be",
        "        return torch.zeros_like(x)\n",
        "from akg_worker import candidate\ncandidate.digest = lambda tensor: torch.zeros(2, dtype=torch.int64)\n",
        &[ClockMismatch, WrongValues],
    ),
    (
        "names memory that is not there",
        RETURNED,
        "from akg_worker import candidate\nlocated = candidate.located\ncandidate.located = lambda called: {**located(called), 'places': [(slot, [2 ** 46]) for slot, _ in called]}\n",
        &[WrongType],
    ),
    (
        "a kernel that calls back",
        "        y = torch.empty_like(x)\n        def back(*_):\n            torch.add(torch.relu(x) * self.layer.scale, 1, out=y)\n            return 0\n        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(back)\n        ctypes.CDLL(None).qsort((ctypes.c_int * 2)(1, 2), ctypes.c_size_t(2), ctypes.c_size_t(4), call)\n        return y\n",
        "",
        &[NoWork],
    ),
    (
        "a kernel for one element",
        "        y = torch.relu(x) * self.layer.scale + 1\n        kernel[(1,)](x, self.layer.scale, y, 1, BLOCK=1024)\n        return y\n",
        "",
        &[NoWork],
    ),
    (
        "memory that is used again",
        "        if not hasattr(self, 'y'): self.y = torch.empty_like(x)\n        return self.y.copy_(compute(x, self.layer.scale))\n",
        "",
        &[],
    ),
];

/// DSLs and backends that take modules.
const HOST: (&str, &str) = ("cpp", "cpu");
const GPU: (&str, &str) = ("triton", "cuda");

fn main() {
    akg::worker::init();
    let environment = Environment::find(&Config::default());
    let has_triton = environment.is_ok_and(|e| e.version_of(Package::Triton).is_ok_and(|v| v.is_some()));
    if !has_triton {
        eprintln!("SKIPPED: there is no Python with PyTorch and Triton; `akg doctor --fix` installs one");
    }
    let no_gpu = absence(None).unwrap_or_else(|error| Some(error.to_string()));
    if let Some(why) = &no_gpu {
        eprintln!("SKIPPED: modules on a GPU: {why}");
    }
    let mut trials = Vec::new();
    for (place, is_absent) in [(HOST, !has_triton), (GPU, !has_triton || no_gpu.is_some())] {
        for (name, returned, end, expected) in CASES {
            let text = HONEST.replace(RETURNED, returned) + end;
            let trial = Trial::test(format!("{}/{name}", place.1), move || {
                rejected(place, &text, expected)
            });
            trials.push(trial.with_ignored_flag(is_absent));
        }
    }
    trials.push(Trial::test("a parameter of another name", misnamed).with_ignored_flag(!has_triton));
    trials.push(
        Trial::test("the rules of backends hold", the_rules_of_backends_hold).with_ignored_flag(!has_triton),
    );
    let exported = Trial::test("an exported module passes", an_exported_module_passes);
    trials.push(exported.with_ignored_flag(!has_triton || !has_compiler()));
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

/// That a module is rejected for one of the reasons, or accepted if there are none.
fn rejected(place: (&str, &str), text: &str, expected: &[FailureKind]) -> Result<(), Failed> {
    match judge(place, text)? {
        None if expected.is_empty() => Ok(()),
        Some(failure) if expected.contains(&failure.kind) => Ok(()),
        other => Err(format!("{other:?}").into()),
    }
}

/// What is said to who gives a parameter another name than the task does.
fn misnamed() -> Result<(), Failed> {
    let failure = judge(HOST, &HONEST.replace("layer", "stage"))?.unwrap();
    assert_eq!(failure.kind, LoadFailed);
    for word in ["x, layer_scale", "stage_scale"] {
        assert!(failure.evidence.contains(word), "{}", failure.evidence);
    }
    Ok(())
}

fn judge((dsl, backend): (&str, &str), text: &str) -> Result<Option<Failure>, Failed> {
    let registry = akg::registry();
    let (dsl, backend) = (registry.dsl(dsl)?, registry.backend(backend)?);
    let source = dsl.parse(text)?;
    let mut limits = Limits::default();
    limits.time = Duration::from_secs(20);
    let backend = Arc::new(ModuleBackend::new(backend, &Config::default()));
    let session = Session::new(dsl, backend)
        .with_verifier(Judge::standard(0, None, &limits))
        .with_timing(None);
    let (attempt, _) = blocking::judge(&session, source, &task())?;
    Ok(attempt.verdict.failure)
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
        states: Vec::new(),
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

/// What akg exports as a module in KernelBench's form is judged and timed like what somebody else wrote.
fn an_exported_module_passes() -> Result<(), Failed> {
    let place = Place::with(&[("model.py", MODEL)]);
    for arguments in [
        "run model.py --tune 0s --no-baseline --bundle model.akg",
        "export model.akg --form modelnew --out kernel.py",
        "verify kernel.py --task model.py --no-baseline --contest-seconds 1s",
    ] {
        let mut akg = place.akg();
        let akg = akg.current_dir(place.path("")).args(arguments.split(' '));
        expect(&akg.output()?, 0, &[]);
    }
    Ok(())
}
