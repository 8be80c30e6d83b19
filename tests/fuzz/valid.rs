//! Files that are right, to be damaged.

use std::io::Read as _;

use akg::bundle::Evidence;
use akg::source::{Artifact, Launch, LaunchPlan, PlanTensor, Source, SourceForm, TensorRole};
use akg::sqlite::SqliteStore;
use akg::store::{StoreExt as _, TuningRecord};
use akg::{Accuracy, Bundle, Candidate, DType, Digest, Graph, Target, Task, Verdict};

fn bundle() -> akg::Result<Bundle> {
    let mut graph = Graph::new("double");
    let x = graph.input("x", DType::F32, ["N"]);
    let y = graph.add(x, x)?;
    graph.output(y);
    let tensor = |name: &str, role| PlanTensor {
        name: name.into(),
        dtype: DType::F32,
        shape: vec!["N".into()],
        role,
        align: 16,
        holds: None,
        updates: None,
    };
    let plan = LaunchPlan {
        dims: vec!["N".into()],
        tensors: vec![tensor("x", TensorRole::Input), tensor("y", TensorRole::Output)],
        launches: vec![Launch {
            kernel: "double".into(),
            grid: vec!["N".into()],
            tensors: vec![0, 1],
            cooperative: false,
            doc: String::new(),
        }],
    };
    let candidate = Candidate {
        source: Source {
            dsl: "cpp".into(),
            text: "text".into(),
            form: SourceForm::Lowered { plan: plan.clone() },
            knobs: [].into(),
        },
        artifact: Artifact {
            format: "elf-so".into(),
            bytes: (0..=255).collect(),
            plan,
            metadata: [].into(),
        },
    };
    let evidence = Evidence {
        verdict: Verdict::new(Accuracy::Fp32),
        timing: None,
        bound_seconds: Some(0.5),
        kernels: Vec::new(),
    };
    let mut task = Task::new("double", graph);
    task.contract.hints = [("N".into(), 8)].into();
    Bundle::new(
        &task,
        &Target::new("cpu", "x86_64"),
        candidate,
        "sketch",
        evidence,
    )
}

/// The members of a bundle but for the first.
pub(crate) fn members() -> Vec<(String, Vec<u8>)> {
    let bytes = bundle().and_then(|b| b.to_bytes()).unwrap();
    let mut archive = tar::Archive::new(bytes.as_slice());
    let entries = archive.entries().unwrap().skip(1).map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().display().to_string(), content)
    });
    entries.collect()
}

/// A bundle of these members, whose header fits them.
pub(crate) fn pack(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in members {
        append(&mut archive, name, content);
    }
    let rest = archive.into_inner().unwrap();
    let header = format!("{{\"akg_bundle\":1,\"blake3\":\"{}\"}}\n", Digest::of(&rest));
    let mut archive = tar::Builder::new(Vec::new());
    append(&mut archive, "akg-bundle", header.as_bytes());
    let mut file = archive.into_inner().unwrap();
    file.truncate(1024);
    file.extend(rest);
    file
}

fn append(archive: &mut tar::Builder<Vec<u8>>, name: &str, content: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    archive.append_data(&mut header, name, content).unwrap();
}

fn record() -> TuningRecord {
    TuningRecord {
        kernel: Digest::of(b"kernel"),
        name: "name".into(),
        shape: vec![vec![1, 2]],
        accuracy: Accuracy::Fp32,
        knobs: [].into(),
        device: Digest::of(b"device"),
        device_name: "device".into(),
        dsl: "cpp".into(),
        toolchain: "none".into(),
        source: Digest::of(b"source"),
        failure: None,
        seconds: vec![1.0],
        challenged_seconds: Vec::new(),
        relative: Some(0.5),
        faster: true,
        chosen: true,
        ended_by: None,
        disturbed: false,
        at: 7,
    }
}

/// Tuning records as text.
pub(crate) fn records() -> String {
    let store = akg::store::MemoryStore::default();
    store.save(&record()).unwrap();
    let mut out = Vec::new();
    akg::tuner::export(&store, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The file of a store with a record.
pub(crate) fn store() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    store.save(&record()).unwrap();
    drop(store);
    std::fs::read(&path).unwrap()
}
