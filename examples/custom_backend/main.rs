//! A device of one's own: a little vector machine, simulated, with its own artifact format.
//!
//! No akg crate knows of it. It implements [`Backend`](akg::Backend), a candidate in its machine language is judged on
//! it, and it keeps the rules that every backend must keep.

mod backend;
mod machine;

use akg::conformance::{self, Probe};
use akg::source::{Artifact, Knobs, Launch, LaunchPlan, PlanTensor, Source, SourceForm, TensorRole};
use akg::verify::NumericVerifier;
use akg::{Backend as _, Candidate, DType, Error, Graph, Task, Verifier as _};
use futures::executor::block_on;

fn main() -> akg::Result<()> {
    let backend = backend::Simulator::default();

    let mut graph = Graph::new("leaky");
    let x = graph.input("x", DType::F32, [64, 100]);
    let y = graph.leaky_relu(x, 0.125)?;
    graph.output(y);
    let text = "kernel leaky\nload a 0 p\nconst s 0.125\nmul b a s\nmax c a b\nstore 1 p c\n";
    let candidate = candidate(text);
    let target = block_on(backend.devices())?.remove(0);
    let verdict = block_on(NumericVerifier::default().verify(
        &candidate,
        &Task::new("leaky", graph),
        &target,
        &backend,
    ))?;
    println!(
        "{text}{} checks, error {:e}",
        verdict.checks.len(),
        verdict.worst_error().max
    );
    if let Some(failure) = verdict.failure {
        return Err(Error::unexpected(failure.evidence));
    }

    let report = block_on(conformance::backend(&backend, &|probe| Ok(artifact(probe))));
    println!("{report}");
    report.assert_held();
    Ok(())
}

/// A hand-written text with one kernel, a program for each of 6400 elements.
fn candidate(text: &str) -> Candidate {
    let tensor = |name: &str, role| PlanTensor {
        name: name.to_owned(),
        dtype: DType::F32,
        shape: vec![64.into(), 100.into()],
        role,
        align: 4,
        holds: None,
        updates: None,
    };
    let launch = Launch {
        kernel: "leaky".to_owned(),
        grid: vec![6400.into()],
        tensors: vec![0, 1],
        cooperative: false,
        doc: String::new(),
    };
    let plan = LaunchPlan {
        dims: Vec::new(),
        tensors: vec![tensor("x", TensorRole::Input), tensor("y", TensorRole::Output)],
        launches: vec![launch],
    };
    let form = SourceForm::Lowered { plan: plan.clone() };
    Candidate {
        source: Source {
            dsl: "machine".to_owned(),
            text: text.to_owned(),
            form,
            knobs: Knobs::new(),
        },
        artifact: Artifact {
            format: backend::FORMAT.to_owned(),
            bytes: text.into(),
            plan,
            metadata: [].into(),
        },
    }
}

/// The probes in machine language; programs cannot take memory.
fn artifact(probe: Probe) -> Option<Artifact> {
    let text = match probe {
        Probe::Double | Probe::WriteHalf => "kernel probe\nload a 0 p\nadd b a a\nstore 1 p b\n",
        Probe::OverwriteInput => "kernel probe\nload a 0 p\nadd b a a\nstore 1 p b\nconst z 0\nstore 0 p z\n",
        Probe::ReadScratch => "kernel probe\nload a 2 p\nstore 1 p a\n",
        Probe::TwoKernels => {
            "kernel probe\nload a 0 p\nadd b a a\nstore 1 p b\nkernel second\ndim n 0\nconst m -1\nadd n n m\nmul q p m\nadd q n \
             q\nload a 0 q\nstore 1 p a\n"
        }
        Probe::Crash => "kernel probe\nconst far 1e9\nload a 0 far\n",
        Probe::Hang => "kernel probe\njump 0\n",
        _ => return None,
    };
    Some(Artifact {
        format: backend::FORMAT.to_owned(),
        bytes: text.into(),
        plan: probe.plan(),
        metadata: [].into(),
    })
}
