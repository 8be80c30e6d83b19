//! From a graph to a called kernel.

use akg::backend::{Limits, Poison, RunRequest};
use akg::{DType, Error, Graph, Session, Task, Tensor, blocking};

fn main() -> akg::Result<()> {
    akg::worker::init(); // candidates run in a process of their own: this program, started again

    let mut graph = Graph::new("quickstart");
    let x = graph.input("x", DType::F32, [4, 1000]);
    let y = graph.relu(x)?;
    let y = graph.softmax(y, -1)?;
    graph.output(y);

    let registry = akg::registry();
    let (dsl, backend) = (registry.dsl("cpp")?, registry.backend("cpu")?);
    let session = Session::new(dsl.clone(), backend.clone());
    let outcome = blocking::run(&session, &Task::new("quickstart", graph))?;
    let failed = |failure| Error::unexpected(format!("{failure:?}"));
    let kernel = outcome.best().ok_or_else(|| failed(outcome.failure().cloned()))?;
    println!("passed {} checks", kernel.verdict.checks.len());

    let values: Vec<f32> = (0..4000).map(|i| (i % 7) as f32).collect();
    let artifact = dsl
        .build(&kernel.source, &outcome.target)?
        .map_err(|f| failed(Some(f)))?;
    let request = RunRequest {
        artifact,
        inputs: vec![Tensor::from_slice([4, 1000], &values)?],
        dims: [].into(),
        poison: Poison::Ones,
        limits: Limits::default(),
    };
    let output = blocking::run_once(&*backend, request)?.map_err(|f| failed(Some(f)))?;
    println!("y[0, 6] = {}", output.outputs[0].as_slice::<f32>()?[6]);
    Ok(())
}
