//! The backend: memory for tensors, launches in order, refusals, failures.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use akg::backend::{BackendCapability, Cache, Call, Limits, Loaded, RunOutput};
use akg::expr::Bindings;
use akg::isolation::Isolation;
use akg::source::{Artifact, LaunchPlan, TensorRole};
use akg::verdict::Failure;
use akg::{Backend, DType, Error, Result, Target, Tensor};
use async_trait::async_trait;
use futures::channel::oneshot;

use crate::machine::Code;

/// The format of the machine's artifacts: text.
pub(crate) const FORMAT: &str = "machine-text";

/// The time that a cycle takes.
const CYCLE: Duration = Duration::from_nanos(1);

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

    async fn load(&self, artifact: Artifact, limits: Limits) -> Result<Result<Box<dyn Loaded>, Failure>> {
        if artifact.format != FORMAT {
            return Err(Error::unsupported(format!(
                "the machine does not load `{}`",
                artifact.format
            )));
        }
        let isolation = Isolation::default();
        isolation.demand(limits.isolation)?;
        let code = Code::parse(&String::from_utf8_lossy(&artifact.bytes));
        Ok(code.and_then(|code| {
            code.check(&artifact.plan)?;
            Ok(Box::new(Program {
                code: Arc::new(code),
                plan: Arc::new(artifact.plan),
                limits,
                isolation,
                bound: None,
            }) as Box<dyn Loaded>)
        }))
    }
}

/// Code in the machine.
#[derive(Debug)]
struct Program {
    code: Arc<Code>,
    plan: Arc<LaunchPlan>,
    limits: Limits,
    isolation: Isolation,
    bound: Option<Bound>,
}

/// The device's memory with a call's tensors.
#[derive(Debug)]
struct Bound {
    call: Call,
    memory: Vec<Vec<f32>>,
}

#[async_trait]
impl Loaded for Program {
    fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    async fn bind(&mut self, call: Call) -> Result<Result<(), Failure>> {
        let memory = fill(&self.plan, &call)?;
        self.bound = Some(Bound { call, memory });
        Ok(Ok(()))
    }

    /// Simulates on a thread of its own, so that whoever awaits it can do other things. The machine has no caches.
    async fn execute(&mut self, calls: u32, _: Cache) -> Result<Result<Duration, Failure>> {
        let mut bound = self.bound.take().ok_or_else(nothing_bound)?;
        let (code, plan) = (self.code.clone(), self.plan.clone());
        let deadline = Instant::now() + self.limits.time;
        let (sender, receiver) = oneshot::channel();
        thread::spawn(move || {
            let cycles = execute(&code, &plan, &mut bound, calls, deadline);
            // Nobody may be waiting any more.
            sender.send((bound, cycles))
        });
        let (bound, cycles) = receiver
            .await
            .map_err(|_| Error::unexpected("the simulation ended without a result"))?;
        self.bound = Some(bound);
        Ok(cycles?.map(|cycles| CYCLE * cycles))
    }

    async fn take(&mut self) -> Result<Result<RunOutput, Failure>> {
        let Bound { call, memory } = self.bound.take().ok_or_else(nothing_bound)?;
        let shapes = shapes(&self.plan, &call.dims)?;
        let outputs = self.plan.with_role(TensorRole::Output);
        let outputs = outputs.map(|(i, _)| Tensor::from_slice(shapes[i].clone(), &memory[i]));
        let mut given = self.plan.with_role(TensorRole::Input).zip(&call.inputs);
        Ok(Ok(RunOutput {
            outputs: outputs.collect::<Result<_>>()?,
            inputs_unchanged: given
                .all(|((i, _), input)| input.bytes() == bytemuck::cast_slice::<f32, u8>(&memory[i])),
        }))
    }
}

fn nothing_bound() -> Error {
    Error::invalid("no tensors are bound")
}

/// Executes the plan so many times; gives the number of cycles.
fn execute(
    code: &Code,
    plan: &LaunchPlan,
    bound: &mut Bound,
    calls: u32,
    deadline: Instant,
) -> Result<Result<u32, Failure>> {
    let bindings = &bound.call.dims;
    let dims = dims(plan, bindings)?;
    let mut cycles = 0u32;
    for launch in (0..calls).flat_map(|_| &plan.launches) {
        for program in 0..LaunchPlan::programs(launch, bindings)? {
            match code.execute(launch, program, &mut bound.memory, &dims, deadline) {
                Ok(taken) => cycles = taken.saturating_add(cycles),
                Err(failure) => return Ok(Err(failure)),
            }
        }
    }
    Ok(Ok(cycles))
}

/// The values of the plan's dims.
fn dims(plan: &LaunchPlan, bindings: &Bindings) -> Result<Vec<i64>> {
    let values = plan.dims.iter();
    values
        .map(|name| akg::Expr::symbol(name.clone()).eval(bindings))
        .collect()
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
fn fill(plan: &LaunchPlan, call: &Call) -> Result<Vec<Vec<f32>>> {
    dims(plan, &call.dims)?;
    let shapes = shapes(plan, &call.dims)?;
    let mut given = call.inputs.iter();
    let mut memory = Vec::new();
    for (tensor, shape) in plan.tensors.iter().zip(&shapes) {
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
            _ => vec![f32::from_ne_bytes([call.poison.byte(); 4]); shape.iter().product()],
        });
    }
    match given.next() {
        Some(input) => Err(Error::invalid(format!("{input:?} is an input too many"))),
        None => Ok(memory),
    }
}
