//! Bundles by the `akg` program.

use std::process::{Command, Output};

use akg::cpp::CppDsl;
use akg::cpu::{LoadOptions, LoadedBundle};
use akg::source::SourceForm;
use akg::{Bundle, Dsl as _, Target, Tensor};

use crate::support::{inert, passed, scale_and_shift};

const TINY: &str = r#"{"akg_graph": 1, "name": "tiny",
  "inputs": [{"name": "x", "dtype": "f32", "shape": [6, 40]}],
  "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["r"]},
            {"op": "aten.softmax.int", "args": {"self": "r", "dim": -1}, "outputs": ["y"]}],
  "outputs": [{"value": "y"}]}"#;

#[track_caller]
fn akg(arguments: &[&str], status: i32, words: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_akg");
    // Nothing is remembered from one call to the next.
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.env("AKG_STORE", place.path().join("store.sqlite"));
    let output = command.args(arguments).output().unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(status), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in:\n{text}");
    }
    output
}

#[test]
fn a_run_leaves_a_bundle_that_is_shown_judged_called_and_exported() {
    if Command::new("c++").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no C++ compiler");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name).display().to_string();
    std::fs::write(path("tiny.json"), TINY).unwrap();
    let (task, file) = (path("tiny.json"), path("tiny.akg"));
    akg(
        &["run", "--no-baseline", "--bundle", &file, &task],
        0,
        &["verdict: pass"],
    );
    akg(
        &["show", "--sources", &file],
        0,
        &[
            "content hash",
            "takes x: f32[6, 40]",
            "writes y",
            "pass in class fp32",
            "sketch tiny",
            "extern \"C\"",
        ],
    );
    let bundle = Bundle::read(&file).unwrap();
    assert!(bundle.evidence().verdict.passed() && !bundle.evidence().verdict.checks.is_empty());
    assert!(bundle.evidence().timing.is_some());
    akg(&["verify", &file], 0, &["tiny: pass", "relu + softmax"]);
    let json = akg(&["verify", "--json", &file], 0, &[]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["status"], &json["dsl"]), (&"pass".into(), &"cpp".into()));

    let loaded = unsafe { LoadedBundle::load(&bundle, &LoadOptions::default()) }.unwrap();
    let values: Vec<f32> = (0..240).map(|i| (i % 7) as f32 - 3.0).collect();
    let y = loaded
        .run(&[Tensor::from_slice([6, 40], &values).unwrap()])
        .unwrap();
    for (row, values) in y[0].to_f64().unwrap().chunks(40).zip(values.chunks(40)) {
        let powers: Vec<f64> = values.iter().map(|v| f64::from(v.max(0.0)).exp()).collect();
        let sum: f64 = powers.iter().sum();
        for (y, power) in row.iter().zip(powers) {
            assert!((y - power / sum).abs() < 1e-7);
        }
    }

    akg(
        &["export", &file, "--form", "modelnew"],
        0,
        &["class ModelNew(nn.Module)"],
    );
    let directory = path("c");
    akg(
        &["export", &file, "--form", "c", "--out", &directory],
        0,
        &["tiny.h", "tiny.cpp"],
    );
    assert!(
        std::fs::read_to_string(format!("{directory}/tiny.h"))
            .unwrap()
            .contains("int tiny(const float *x")
    );
    akg(&["export", &file], 2, &["no form `stub`", "modelnew and c"]);

    let mut bytes = std::fs::read(&file).unwrap();
    bytes[2000] ^= 1;
    std::fs::write(&file, &bytes).unwrap();
    for arguments in [
        &["show", &file][..],
        &["verify", &file],
        &["export", &file, "--form", "c"],
    ] {
        akg(arguments, 2, &["hash", "tiny.akg"]);
    }
    akg(&["verify", &task], 2, &["--task"]);
}

#[test]
fn bundles_for_gpus_are_shown_and_judged_where_there_is_one() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("kernel.akg").display().to_string();
    let (task, text) = scale_and_shift();
    let source = CppDsl::default().parse(text).unwrap();
    let SourceForm::Lowered { plan } = source.form else {
        panic!("no plan")
    };
    let mut candidate = inert(plan);
    candidate.source.dsl = "triton".into();
    candidate.artifact.format = "cubin".into();
    let target = Target::new("cuda", "sm_90a");
    let bundle = Bundle::new(&task, &target, candidate, "", passed()).unwrap();
    bundle.write(&file).unwrap();
    akg(
        &["show", &file],
        0,
        &[
            "2 kernels in triton on sm_90a",
            "needs: cuda, sm_90a",
            "dim N: from 1 to 1000",
        ],
    );
    akg(&["export", &file, "--form", "c"], 2, &["`triton`"]);
    if akg::cuda::absence(Some(env!("CARGO_BIN_EXE_akg").as_ref()))
        .unwrap()
        .is_some()
    {
        akg(&["verify", &file], 2, &["`cuda`", "no device on this machine"]);
    }
}
