//! From a graph to a file, and from the file to a call.

use akg::cpu::{LoadOptions, LoadedBundle};
use akg::{Bundle, DType, Error, Graph, Session, Task, TensorView, TensorViewMut, blocking};

fn main() -> akg::Result<()> {
    akg::worker::init(); // candidates run in a process of their own: this program, started again

    let mut graph = Graph::new("relu_softmax");
    let x = graph.input("x", DType::F32, [4, 1000]);
    let y = graph.relu(x)?;
    let y = graph.softmax(y, -1)?;
    graph.output(y);
    let task = Task::new("relu_softmax", graph);

    let registry = akg::registry();
    let (dsl, backend) = (registry.dsl("cpp")?, registry.backend("cpu")?);
    let session = Session::new(dsl, backend);
    let outcome = blocking::run(&session, &task)?;
    let none = || Error::unexpected(format!("no kernel passed: {:?}", outcome.failure()));
    let bundle = session.bundle(&task, &outcome)?.ok_or_else(none)?;
    let file = std::env::temp_dir().join(format!("relu_softmax-{}.akg", std::process::id()));
    bundle.write(&file)?;

    // What follows needs the file alone, and neither a compiler nor a worker.
    let bundle = Bundle::read(&file)?;
    println!(
        "{} in class {}",
        bundle.manifest().name,
        bundle.manifest().contract.accuracy
    );
    // SAFETY: this program has made the bundle.
    let loaded = unsafe { LoadedBundle::load(&bundle, &LoadOptions::threads(1))? };
    let x: Vec<f32> = (0..4000).map(|i| (i % 7) as f32).collect();
    let mut y = vec![0f32; 4000];
    let shape = [4, 1000];
    loaded.call(
        &[TensorView::new(&x, &shape)?.into()],
        &mut [TensorViewMut::new(&mut y, &shape)?.into()],
    )?;
    println!("y[0, 6] = {}", y[6]);
    std::fs::remove_file(&file).map_err(|e| Error::io("cannot remove the bundle", e))
}
