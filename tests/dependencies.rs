//! What a program that embeds akg does not get with it.
#![expect(clippy::unwrap_used, reason = "this is a test")]

use std::collections::BTreeSet;
use std::process::Command;

/// Crates that would bring an HTTP client, a database, CUDA, Python or an async runtime. A name that ends in `*` stands
/// for all that begin with it. `blocking` and `async-task` are a thread pool without a reactor, used by the CPU backend,
/// and not in `akg-core`.
#[rustfmt::skip]
const UNWANTED: &[(&str, &[&str])] = &[
    ("an HTTP client", &[
        "reqwest", "hyper*", "ureq", "curl*", "isahc", "attohttpc", "surf", "h2", "http", "rustls*", "native-tls",
        "openssl*",
    ]),
    ("a database", &[
        "rusqlite", "libsqlite3-sys", "sqlx*", "diesel*", "sled", "redb", "heed*", "rocksdb", "postgres*", "redis",
        "lmdb*",
    ]),
    ("CUDA", &["cuda*", "cudarc", "cust*", "rustacuda*", "nvml*", "nvidia*", "cublas*", "nccl*"]),
    ("Python", &["pyo3*", "cpython", "python3-sys", "rustpython*", "inline-python", "numpy"]),
    ("an async runtime", &[
        "tokio*", "async-std", "smol", "async-executor", "async-io", "async-global-executor", "actix*", "glommio",
        "monoio", "mio", "compio*",
    ]),
];

/// Names of the crates that are linked into or run to build `package` on this platform, without those for its tests.
fn dependencies(package: &str, features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--package",
            package,
        ])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .filter_map(|line| line.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// Each unwanted crate among `names` with what it would bring.
fn unwanted(names: &BTreeSet<String>) -> Vec<String> {
    let is = |name: &str, pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    let groups = UNWANTED
        .iter()
        .flat_map(|(what, patterns)| patterns.iter().map(move |p| (what, p)));
    groups
        .flat_map(|(what, pattern)| {
            names
                .iter()
                .filter(|name| is(name, pattern))
                .map(move |name| format!("{name} brings {what}"))
        })
        .collect()
}

#[test]
fn the_core_is_light() {
    let names = dependencies("akg-core", &["--all-features"]);
    assert!(names.contains("akg-core") && names.contains("serde"), "{names:?}");
    assert_eq!(unwanted(&names), [""; 0]);
}

#[test]
fn the_facade_without_features_is_the_core() {
    let names = dependencies("akg", &["--no-default-features"]);
    assert!(names.contains("akg-core"), "{names:?}");
    assert_eq!(unwanted(&names), [""; 0]);
    let others: Vec<_> = names
        .iter()
        .filter(|n| n.starts_with("akg-") && *n != "akg-core")
        .collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn only_language_models_bring_http() {
    let network = |names: &BTreeSet<String>| -> Vec<String> {
        let mut all = unwanted(names);
        all.retain(|what| what.ends_with("an HTTP client") || what.ends_with("an async runtime"));
        all
    };
    let others = "algebra,cpp,cpu,cuda,draw,python,sqlite,triton";
    let without = dependencies("akg", &["--no-default-features", "--features", others]);
    assert_eq!(network(&without), [""; 0]);
    let with = dependencies("akg", &["--no-default-features", "--features", "llm"]);
    assert!(with.contains("reqwest") && with.contains("tokio"), "{with:?}");
    let files = dependencies("akg-llm", &["--no-default-features", "--features", "files"]);
    assert!(!files.contains("reqwest"), "{files:?}");
}

#[test]
fn unwanted_crates_are_recognised() {
    let names = ["serde", "hyper-util", "tokio", "pyo3-ffi", "http"]
        .map(str::to_owned)
        .into();
    assert_eq!(unwanted(&names).len(), 4);
}
