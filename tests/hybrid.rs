//! What a model made of kernels of the rules, as recorded in `benches/data/hybrid`: every design is still one of its task, and the
//! sources that a judge can try in seconds still pass. The test is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::fs;
use std::path::{Path, PathBuf};

use akg::designer::{Design, DesignContext};
use akg::expr::Bindings;
use akg::llm::Cassette;
use akg::session::present;
use akg::source::SourceForm;
use akg::tensor::byte_len;
use akg::timing::product_flops;
use akg::{Graph, Result, Session, Task, blocking, registry};
use libtest_mimic::{Arguments, Failed, Trial};

/// Operations of products and bytes of tensors that are judged here.
const MOST_FLOPS: f64 = 2e9;
const MOST_BYTES: usize = 200 << 20;

fn main() {
    akg::worker::init();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/data/hybrid");
    let runs = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let runs: Vec<PathBuf> = runs.filter(|path| path.is_dir()).collect();
    let name = |run: &Path| run.file_name().unwrap().to_string_lossy().into_owned();
    let trials = runs
        .into_iter()
        .map(|run| Trial::test(name(&run), move || holds(&run)));
    let mut arguments = Arguments::from_args();
    // Each takes all processors and much memory.
    arguments.test_threads = Some(1);
    libtest_mimic::run(&arguments, trials.collect()).exit();
}

fn holds(run: &Path) -> Result<(), Failed> {
    let read = |name: &str| fs::read_to_string(run.join(name));
    let task = Task::new("recorded", Graph::from_json(&read("task.json")?)?);
    let registry = registry();
    let (dsl, backend) = (registry.dsl("cpp")?, registry.backend("cpu")?);
    let target = blocking::devices(&*backend)?.remove(0);
    let context = DesignContext::new(task.clone(), target);
    let target = context.target.clone();
    let design = Design::from_text(&read("kernel.sketch")?, &context)??;
    // What nobody changed since it was lowered says nothing about its launches.
    let text = read("kernel.cpp")?;
    let source = if text.contains("// akg-launch:") {
        dsl.parse(&text)?
    } else {
        let mut source = dsl.lower(&design.sketch, &design.knobs, &target)?;
        if let SourceForm::Lowered { plan } = &mut source.form {
            present(plan, &task, &design).map_err(|failure| failure.evidence)?;
        }
        source
    };
    if Cassette::open(&run.join("recording.jsonl"))?.remaining() == 0 {
        return Err("nothing was recorded".into());
    }
    if !is_small(&task.graph)? {
        return Ok(());
    }
    let (attempt, _) = blocking::judge(&Session::new(dsl, backend).with_timing(None), source, &task)?;
    match attempt.verdict.failure {
        None => Ok(()),
        Some(failure) => Err(format!("{failure:?}").into()),
    }
}

fn is_small(graph: &Graph) -> Result<bool> {
    let none = Bindings::new();
    let mut flops = 0.0;
    for node in graph.nodes() {
        flops += product_flops(graph, node, &none)?;
    }
    let mut bytes = 0;
    for input in graph.inputs() {
        let ty = graph.ty(input.value);
        bytes += byte_len(ty.dtype, &ty.concrete_shape(&none)?)?;
    }
    Ok(flops <= MOST_FLOPS && bytes <= MOST_BYTES)
}
