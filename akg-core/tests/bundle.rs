//! The file form of bundles, packed by hand as the documentation says, and with content that its hash fits but nothing
//! else does.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

use std::io::Read as _;

use akg_core::bundle::Evidence;
use akg_core::source::{Artifact, Launch, LaunchPlan, PlanTensor, Source, SourceForm, TensorRole};
use akg_core::verdict::Verdict;
use akg_core::{Accuracy, Bundle, Candidate, DType, ErrorKind, Graph, Target, Task};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A bundle of `y = x + x`, whose artifact nobody can run.
fn bundle() -> Bundle {
    let mut graph = Graph::new("double");
    let x = graph.input("x", DType::F32, [8]);
    let y = graph.add(x, x).unwrap();
    graph.output(y);
    let tensor = |name: &str, role| PlanTensor {
        name: name.into(),
        dtype: DType::F32,
        shape: vec![8.into()],
        role,
        align: 16,
        holds: None,
        updates: None,
    };
    let plan = LaunchPlan {
        dims: Vec::new(),
        tensors: vec![tensor("x", TensorRole::Input), tensor("y", TensorRole::Output)],
        launches: vec![Launch {
            kernel: "double".into(),
            grid: vec![1.into()],
            tensors: vec![0, 1],
            cooperative: false,
            doc: String::new(),
        }],
    };
    let candidate = Candidate {
        source: Source {
            dsl: "none".into(),
            text: "text".into(),
            form: SourceForm::Lowered { plan: plan.clone() },
            knobs: [("B".to_owned(), akg_core::source::KnobValue::Int(8))].into(),
        },
        artifact: Artifact {
            format: "none".into(),
            bytes: (0..=255).collect(),
            plan,
            metadata: [].into(),
        },
    };
    let evidence = Evidence {
        verdict: Verdict::new(Accuracy::Fp32),
        timing: None,
        bound_seconds: Some(0.1 + 0.2),
        kernels: Vec::new(),
    };
    let task = Task::new("double", graph);
    Bundle::new(
        &task,
        &Target::new("cpu", "x86_64"),
        candidate,
        "sketch",
        evidence,
    )
    .unwrap()
}

type Members = Vec<(String, Vec<u8>)>;

fn unpack(bytes: &[u8]) -> Members {
    let mut archive = tar::Archive::new(bytes);
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        (entry.path().unwrap().display().to_string(), content)
    });
    entries.collect()
}

fn member(name: &str, content: &[u8], archive: &mut tar::Builder<Vec<u8>>) {
    let mut header = tar::Header::new_ustar();
    header.set_mode(0o644);
    header.set_size(content.len() as u64);
    archive.append_data(&mut header, name, content).unwrap();
}

/// A file with this after the header, and a header that fits.
fn with_header(rest: &[u8]) -> Vec<u8> {
    let header = format!(
        "{{\"akg_bundle\":1,\"blake3\":\"{}\"}}\n",
        blake3::hash(rest).to_hex()
    );
    let mut archive = tar::Builder::new(Vec::new());
    member("akg-bundle", header.as_bytes(), &mut archive);
    let mut file = archive.into_inner().unwrap();
    file.truncate(1024);
    file.extend(rest);
    file
}

fn pack(members: &Members) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in members {
        member(name, content, &mut archive);
    }
    with_header(&archive.into_inner().unwrap())
}

/// The file of [`bundle`] with one member changed.
fn changed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut members = unpack(&bundle().to_bytes().unwrap());
    members.remove(0);
    let (_, content) = members.iter_mut().find(|(n, _)| n == name).unwrap();
    change(content);
    pack(&members)
}

#[track_caller]
fn refused(bytes: &[u8], words: &[&str]) {
    let error = Bundle::from_bytes(bytes).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{word}` is not in: {error}");
    }
}

#[test]
fn the_file_is_what_the_documentation_says() {
    let bytes = bundle().to_bytes().unwrap();
    let mut members = unpack(&bytes);
    let names: Vec<&str> = members.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "akg-bundle",
            "manifest.json",
            "evidence.json",
            "graph.json",
            "sketch.txt",
            "source.txt",
            "artifact.bin"
        ]
    );
    assert_eq!(members[6].1, (0..=255).collect::<Vec<u8>>());
    members.remove(0);
    assert_eq!(pack(&members), bytes);
    let back = Bundle::from_bytes(&bytes).unwrap();
    assert_eq!(back.evidence().bound_seconds, Some(0.1 + 0.2));
    assert_eq!(back.manifest(), bundle().manifest());
    assert_eq!(
        (back.sketch(), back.candidate().source.text.as_str()),
        ("sketch", "text")
    );
}

#[test]
fn members_that_are_missing_or_wrong_are_named() {
    let all = unpack(&bundle().to_bytes().unwrap());
    for (name, _) in all.iter().skip(1) {
        let without: Members = all.iter().skip(1).filter(|(n, _)| n != name).cloned().collect();
        refused(&pack(&without), &[name, "no member"]);
    }
    for name in ["manifest.json", "evidence.json", "graph.json"] {
        refused(&changed(name, Vec::clear), &[name]);
        refused(&changed(name, |text| text.truncate(text.len() / 2)), &[name]);
    }
    refused(
        &changed("source.txt", |text| text.push(0xff)),
        &["source.txt", "no text"],
    );
}

#[test]
fn parts_that_contradict_each_other_are_refused() {
    let manifest = |change: &dyn Fn(&mut Value)| {
        changed("manifest.json", |text| {
            let mut value = serde_json::from_slice(text).unwrap();
            change(&mut value);
            *text = serde_json::to_vec(&value).unwrap();
        })
    };
    Bundle::from_bytes(&manifest(&|_| {})).unwrap();
    refused(
        &manifest(&|m| m["inputs"][0]["align"] = json!(1)),
        &["inputs and outputs"],
    );
    refused(
        &manifest(&|m| m["inputs"][0]["name"] = json!("z")),
        &["inputs and outputs"],
    );
    refused(&manifest(&|m| m["outputs"] = json!([])), &["inputs and outputs"]);
    refused(
        &manifest(&|m| m["contract"]["accuracy"] = json!("half")),
        &["class fp32", "half"],
    );
    refused(
        &manifest(&|m| m["plan"]["tensors"][0]["shape"] = json!([i64::MAX])),
        &["`x`"],
    );
    refused(
        &manifest(&|m| m["plan"]["tensors"][1]["align"] = json!(3)),
        &["inputs and outputs"],
    );
    refused(
        &manifest(&|m| m["plan"]["launches"][0]["tensors"] = json!([0, 1u64 << 40])),
        &["1099511627776"],
    );
    refused(
        &manifest(&|m| m["plan"]["launches"][0]["grid"] = json!(["N"])),
        &["`N`"],
    );
    refused(
        &manifest(&|m| m["module"] = json!([{"argument": 0}])),
        &["module"],
    );
    let failed = changed("evidence.json", |text| {
        let mut value: Value = serde_json::from_slice(text).unwrap();
        value["verdict"]["failure"] = json!({"kind": "crashed", "evidence": "signal 11"});
        *text = serde_json::to_vec(&value).unwrap();
    });
    refused(&failed, &["crashed", "signal 11"]);
}

#[test]
fn sizes_in_the_archive_are_only_claims() {
    let bytes = bundle().to_bytes().unwrap();
    for size in [1u64 << 40, u64::MAX >> 3, 5000] {
        let mut rest = bytes[1024..].to_vec();
        let mut header = tar::Header::from_byte_slice(&rest[..512]).clone();
        header.set_size(size);
        header.set_cksum();
        rest[..512].copy_from_slice(header.as_bytes());
        assert!(Bundle::from_bytes(&with_header(&rest)).is_err());
    }
    refused(&with_header(&bytes[1024..4096]), &[]);
    refused(&with_header(&[]), &["manifest.json"]);
}

proptest! {
    #[test]
    fn no_bytes_do_harm(rest in prop::collection::vec(any::<u8>(), 0..3000), position in 0usize..20_000, byte: u8) {
        prop_assert!(Bundle::from_bytes(&rest).is_err());
        prop_assert!(Bundle::from_bytes(&with_header(&rest)).is_err());
        let mut content = bundle().to_bytes().unwrap()[1024..].to_vec();
        let length = content.len();
        content[position % length] = byte;
        // What is still a bundle is one that fits together, and comes back as it is.
        if let Ok(bundle) = Bundle::from_bytes(&with_header(&content)) {
            let again = Bundle::from_bytes(&bundle.to_bytes().unwrap()).unwrap();
            prop_assert_eq!(again.manifest(), bundle.manifest());
        }
    }
}
