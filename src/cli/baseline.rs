//! PyTorch on the same inputs, and the bound.

use akg::backend::Timing;
use akg::expr::Bindings;
use akg::python::{BaselineOptions, BaselineTask, Config, Environment, Python, PythonOptions};
use akg::verify::{Distribution, NumericVerifier, make_inputs};
use akg::{Result, Target, Task};

use super::progress::Progress;
use super::report::{Baseline, Time};
use super::task::Loaded;

/// Runs PyTorch eager on the inputs of the first check. `None` without a Python that has PyTorch.
pub(super) fn measure(loaded: &mut Loaded, seed: u64, progress: &Progress) -> Result<Option<Baseline>> {
    let mut python = match loaded.python.take() {
        Some(python) => python,
        None => match Environment::find(&Config::default()) {
            Ok(environment) => Python::new(environment, PythonOptions::default()),
            Err(_) => return Ok(None),
        },
    };
    progress.step("running PyTorch on the same inputs");
    let task = &loaded.task;
    let registry = akg::registry();
    let backend = registry.backend("cpu")?;
    let mut inputs = make_inputs(task, &*backend, Distribution::Contract, seed, &Bindings::new())?;
    inputs.truncate(task.graph.inputs().len());
    let what = match &loaded.module {
        Some(module) => BaselineTask::Module(module),
        None => BaselineTask::Graph(&task.graph),
    };
    let options = BaselineOptions::default();
    let ran = python.baseline(what, &inputs, &options, &mut |text| progress.step(text))?;
    let judged = NumericVerifier::default().measure(task, &inputs, &ran.outputs, seed)?;
    let timing = Timing { seconds: ran.samples };
    Ok(Some(Baseline {
        name: "PyTorch eager".to_owned(),
        threads: ran.threads,
        error: judged,
        time: Time::of(&timing),
    }))
}

/// Seconds below which no program can compute the task: every input read and every output written once at the device's
/// bandwidth. `None` if the bandwidth is unknown.
pub(super) fn bound(task: &Task, target: &Target) -> Option<f64> {
    if target.bandwidth <= 0.0 {
        return None;
    }
    let graph = &task.graph;
    let inputs = graph.inputs().iter().map(|i| i.value);
    let outputs = graph.outputs().iter().map(|o| o.value);
    let bytes = |value| {
        let ty = graph.ty(value);
        let shape = ty.concrete_shape(&task.contract.hints).ok()?;
        akg::tensor::byte_len(ty.dtype, &shape).ok()
    };
    let total: usize = inputs.chain(outputs).map(bytes).sum::<Option<usize>>()?;
    let memory = total as f64 / target.bandwidth;
    let peak = target.peak.get(&akg::DType::F32).copied().unwrap_or(0.0);
    let compute = if peak > 0.0 { product_flops(task)? / peak } else { 0.0 };
    Some(memory.max(compute))
}

/// Floating-point operations of the graph's products.
fn product_flops(task: &Task) -> Option<f64> {
    let graph = &task.graph;
    let mut total = 0.0;
    for node in graph.nodes() {
        let name = node.op.name();
        if !["matmul", "mm.", "bmm", "linear", "addmm", "baddbmm", "einsum"].iter().any(|p| name.starts_with(p)) {
            continue;
        }
        let count = |value| -> Option<f64> {
            let shape = graph.ty(value).concrete_shape(&task.contract.hints).ok()?;
            Some(shape.iter().map(|d| *d as f64).product())
        };
        // For [.., M, K] x [.., K, N] the product of the operands' and the result's sizes is (M*N*K*batch)^2 up to the
        // batch, which the larger operand shares with the result.
        let operands: Vec<f64> = node.inputs().take(2).map(count).collect::<Option<_>>()?;
        let [a, b] = operands[..] else { continue };
        let y = count(*node.outputs.first()?)?;
        total += 2.0 * (a * b * y).sqrt();
    }
    Some(total)
}
