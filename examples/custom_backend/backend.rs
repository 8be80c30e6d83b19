//! The backend: memory for tensors, launches in order, refusals, failures.

use std::thread;
use std::time::Instant;

use akg::backend::{BackendCapability, RunOutput, RunRequest, Timing, TimingPolicy};
use akg::expr::Bindings;
use akg::source::{LaunchPlan, TensorRole};
use akg::verdict::Failure;
use akg::{Backend, DType, Error, Result, Target, Tensor};
use async_trait::async_trait;
use futures::channel::oneshot;

use crate::machine::Code;

/// The format of the machine's artifacts: text.
pub(crate) const FORMAT: &str = "machine-text";

/// Seconds that a cycle takes.
const CYCLE: f64 = 1e-9;

/// The simulated device.
#[derive(Debug)]
pub(crate) struct Simulator {
    capability: BackendCapability,
}

impl Default for Simulator {
    fn default() -> Self {
        let mut capability = BackendCapability::default();
        capability.formats = vec![FORMAT.to_owned()];
        capability.times = true;
        Self { capability }
    }
}

#[async_trait]
impl Backend for Simulator {
    fn name(&self) -> &str {
        "simulator"
    }

    fn capability(&self) -> &BackendCapability {
        &self.capability
    }

    async fn devices(&self) -> Result<Vec<Target>> {
        Ok(vec![Target::new(self.name(), "machine")])
    }

    async fn run(&self, request: RunRequest) -> Result<Result<RunOutput, Failure>> {
        Ok(simulate(request).await?.map(|run| run.output))
    }

    async fn time(&self, request: RunRequest, policy: TimingPolicy) -> Result<Result<Timing, Failure>> {
        // The machine has neither caches nor noise: every sample is the same.
        let run = simulate(request).await?;
        Ok(run.map(|run| Timing {
            seconds: vec![run.cycles as f64 * CYCLE; policy.samples as usize],
        }))
    }
}

/// What a simulation gives.
struct Run {
    output: RunOutput,
    cycles: u64,
}

/// Simulates on a thread of its own, so that whoever awaits it can do other things.
async fn simulate(request: RunRequest) -> Result<Result<Run, Failure>> {
    let (sender, receiver) = oneshot::channel();
    // Nobody may be waiting any more for what is sent.
    thread::spawn(move || sender.send(execute(&request)));
    receiver
        .await
        .map_err(|_| Error::unexpected("the simulation ended without a result"))?
}

fn execute(request: &RunRequest) -> Result<Result<Run, Failure>> {
    let (plan, bindings) = (&request.artifact.plan, &request.dims);
    if request.artifact.format != FORMAT {
        return Err(Error::unsupported(format!(
            "the machine does not load `{}`",
            request.artifact.format
        )));
    }
    let deadline = Instant::now() + request.limits.time;
    let dims = plan
        .dims
        .iter()
        .map(|name| akg::Expr::symbol(name.clone()).eval(bindings))
        .collect::<Result<Vec<_>>>()?;
    let shapes = shapes(plan, bindings)?;
    let mut memory = fill(request, &shapes)?;
    let text = String::from_utf8_lossy(&request.artifact.bytes);
    let code = match Code::parse(&text) {
        Ok(code) => code,
        Err(failure) => return Ok(Err(failure)),
    };
    let mut cycles = 0;
    for launch in &plan.launches {
        for program in 0..LaunchPlan::programs(launch, bindings)? {
            match code.execute(launch, program, &mut memory, &dims, deadline) {
                Ok(taken) => cycles += taken,
                Err(failure) => return Ok(Err(failure)),
            }
        }
    }
    let outputs = plan
        .with_role(TensorRole::Output)
        .map(|(i, _)| Tensor::from_slice(shapes[i].clone(), &memory[i]));
    let mut given = plan.with_role(TensorRole::Input).zip(&request.inputs);
    let inputs_unchanged =
        given.all(|((i, _), input)| input.bytes() == bytemuck::cast_slice::<f32, u8>(&memory[i]));
    Ok(Ok(Run {
        output: RunOutput {
            outputs: outputs.collect::<Result<_>>()?,
            inputs_unchanged,
        },
        cycles,
    }))
}

/// The extents of the plan's tensors.
fn shapes(plan: &LaunchPlan, bindings: &Bindings) -> Result<Vec<Vec<usize>>> {
    let extent = |e: &akg::Expr| {
        let value = e.eval(bindings)?;
        usize::try_from(value).map_err(|_| Error::invalid(format!("extent `{e}` is {value}")))
    };
    plan.tensors
        .iter()
        .map(|t| t.shape.iter().map(extent).collect())
        .collect()
}

/// The device's memory before the first launch: inputs as given, everything else poisoned.
fn fill(request: &RunRequest, shapes: &[Vec<usize>]) -> Result<Vec<Vec<f32>>> {
    let mut given = request.inputs.iter();
    let mut memory = Vec::new();
    for (tensor, shape) in request.artifact.plan.tensors.iter().zip(shapes) {
        if tensor.dtype != DType::F32 {
            return Err(Error::unsupported(format!(
                "`{}` is {}: the machine has only f32",
                tensor.name, tensor.dtype
            )));
        }
        memory.push(match tensor.role {
            TensorRole::Input => {
                let input = given
                    .next()
                    .filter(|t| t.dtype() == tensor.dtype && t.shape() == shape);
                let input = input
                    .ok_or_else(|| Error::invalid(format!("input `{}` is no f32{shape:?}", tensor.name)))?;
                input.as_slice::<f32>()?.to_vec()
            }
            _ => vec![f32::from_ne_bytes([request.poison.byte(); 4]); shape.iter().product()],
        });
    }
    match given.next() {
        Some(input) => Err(Error::invalid(format!("{input:?} is an input too many"))),
        None => Ok(memory),
    }
}
