//! A kernel language of one's own: C99, from the loops that akg maps sketches to, built by the system's C compiler.
//!
//! No akg crate knows of it. It implements [`Dsl`](akg::Dsl), is added to a registry, writes kernels for the CPU backend
//! through a session, and keeps the rules that every DSL must keep.

mod c99;
mod printer;

use akg::{DType, Graph, Session, Task, blocking, conformance};
use futures::executor::block_on;

fn main() -> akg::Result<()> {
    akg::worker::init();
    let mut registry = akg::registry();
    registry.add_dsl(c99::C99::default());
    let (dsl, backend) = (registry.dsl("c99")?, registry.backend("cpu")?);

    let mut graph = Graph::new("head");
    let x = graph.input("x", DType::F32, [64, 300]);
    let w = graph.weight("w", DType::F32, [100, 300]);
    let y = graph.linear(x, w, None)?;
    let y = graph.softmax(y, -1)?;
    graph.output(y);
    let session = Session::new(dsl.clone(), backend.clone());
    let outcome = blocking::run(&session, &Task::new("head", graph))?;
    if let Some(failure) = outcome.failure() {
        return Err(akg::Error::unexpected(format!(
            "{}: {}",
            failure.kind.name(),
            failure.evidence
        )));
    }
    for attempt in &outcome.attempts {
        println!(
            "{}\nchecks passed: {}",
            attempt.source.text,
            attempt.verdict.checks.len()
        );
    }

    let report = block_on(conformance::dsl(&*dsl, &*backend, &outcome.target));
    println!("{report}");
    report.assert_held();
    Ok(())
}
