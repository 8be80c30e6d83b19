//! What goes wrong, and hand-written sources.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use std::path::PathBuf;
use std::time::Duration;

use akg_core::error::ErrorKind;
use akg_core::expr::Bindings;
use akg_core::source::{Artifact, Knobs, ModuleInterface, Source, SourceForm};
use akg_core::verdict::FailureKind;
use akg_core::{Dsl, Sketch, Target, Tensor};
use akg_dsl_cpp::{CppConfig, CppDsl};

const DOUBLE: &str = "sketch double(x: f32[5]) -> y: f32[5]
kernel main over (i in 1) { store y[0 :+ 5] = 2 * (load x[0 :+ 5]) }";

fn lowered() -> Source {
    let sketch = Sketch::parse(DOUBLE).unwrap();
    let source = CppDsl::default().lower(&sketch, &Knobs::new(), &support::host());
    source.unwrap()
}

fn double(artifact: &Artifact) -> Vec<f64> {
    let x = Tensor::from_slice([5], &[1f32, -2.0, 0.5, 0.0, 8.0]).unwrap();
    let y = support::execute(artifact, &[x], &Bindings::new());
    y[0].to_f64().unwrap()
}

#[test]
fn a_missing_compiler_is_named_with_a_remedy() {
    let mut config = CppConfig::default();
    config.compiler = Some(PathBuf::from("no-such-compiler-anywhere"));
    let error = CppDsl::new(config)
        .build(&lowered(), &support::host())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ToolMissing);
    assert!(error.message().contains("no-such-compiler-anywhere"));
    assert!(error.message().contains("apt install g++"));
}

#[test]
fn a_compiler_that_hangs_is_stopped() {
    let mut config = CppConfig::default();
    config.time_limit = Duration::from_millis(200);
    // A script that ignores its arguments stands for the compiler.
    let script = tempfile::Builder::new().suffix(".sh").tempfile().unwrap();
    std::fs::write(script.path(), "#!/bin/sh\nsleep 100\n").unwrap();
    let path = script.into_temp_path();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    config.compiler = Some(path.to_path_buf());
    let error = CppDsl::new(config)
        .build(&lowered(), &support::host())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
}

#[test]
fn a_full_disk_is_not_the_sources_fault() {
    let script = tempfile::Builder::new().suffix(".sh").tempfile().unwrap();
    let text = "#!/bin/sh\necho 'fatal error: error writing to a.s: No space left on device' >&2\nexit 1\n";
    std::fs::write(script.path(), text).unwrap();
    let path = script.into_temp_path();
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut config = CppConfig::default();
    config.compiler = Some(path.to_path_buf());
    let error = CppDsl::new(config)
        .build(&lowered(), &support::host())
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutOfResources, "{error}");
}

#[test]
fn a_rejected_text_is_a_failure_with_the_compilers_words() {
    if support::compiler_missing() {
        return;
    }
    let dsl = CppDsl::default();
    let mut source = lowered();
    source.text.push_str("int broken = \"text\" + ;\n");
    let failure = dsl.build(&source, &support::host()).unwrap().unwrap_err();
    assert_eq!(failure.kind, FailureKind::CompileFailed);
    assert!(failure.evidence.contains("error:"), "{}", failure.evidence);
    let found = dsl.check(&source);
    assert_eq!(found.len(), 1);
    assert!(source.text[..found[0].span.start].ends_with("int broken = \"text\" + "));
}

#[test]
fn check_accepts_what_is_lowered_and_misses_entry_functions() {
    if support::compiler_missing() {
        return;
    }
    let dsl = CppDsl::default();
    let mut source = lowered();
    assert_eq!(dsl.check(&source), []);
    source.text = source.text.replace("double_main(", "double_other(");
    let SourceForm::Lowered { plan } = &mut source.form else {
        panic!("{source:?}");
    };
    let launch = plan.launches[0].clone();
    plan.launches.push(launch);
    let found = dsl.check(&source);
    let missing = found.iter().filter(|found| found.message.contains("double_main"));
    assert_eq!(missing.count(), 1, "{found:?}");
}

#[test]
fn a_stub_filled_in_runs() {
    if support::compiler_missing() {
        return;
    }
    let dsl = CppDsl::default();
    let stub = dsl.export(&lowered(), "stub").unwrap();
    let hole = "// Compute the part of `program` here.";
    assert!(stub.contains(hole), "{stub}");
    let text = stub.replace(hole, "for (int i = 0; i < 5; ++i) y[i] = x[i] + x[i];");
    let source = dsl.parse(&text).unwrap();
    assert_eq!(dsl.check(&source), []);
    let artifact = dsl.build(&source, &support::host()).unwrap().unwrap();
    assert_eq!(artifact.format, "elf-so");
    assert!(artifact.metadata["flags"].contains("-O3"));
    assert!(!artifact.metadata["compiler"].is_empty());
    assert_eq!(double(&artifact), [2.0, -4.0, 1.0, 0.0, 16.0]);
}

#[test]
fn hostile_texts_read_nothing_and_exhaust_nothing() {
    if support::compiler_missing() {
        return;
    }
    let mut config = CppConfig::default();
    config.time_limit = Duration::from_secs(60);
    let dsl = CppDsl::new(config);
    let artifact = dsl.build(&lowered(), &support::host()).unwrap().unwrap();
    if artifact.metadata["isolation"] != "strict" {
        eprintln!(
            "SKIPPED: the compiler's isolation is {}",
            artifact.metadata["isolation"]
        );
        return;
    }
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "int the_secret = 42;\n").unwrap();
    let path = secret.path().display();
    for text in [
        format!("#include \"{path}\"\n"),
        format!("#if __has_include(\"{path}\")\n#include \"{path}\"\n#endif\nint x = the_secret;\n"),
        format!("asm(\".incbin \\\"{path}\\\"\");\n"),
        "#include \"/etc/shadow\"\n".to_owned(),
        "asm(\".rept 2000000000\\n.quad 1\\n.endr\");\n".to_owned(),
        "template<int n> struct A { char x[1 << 20]; A<n + 1> *next() { return new A<n + 1>; } };\n\
         int x = sizeof(A<0>().next()->next());\n#include __FILE__\n"
            .to_owned(),
    ] {
        let mut source = lowered();
        source.text.push_str(&text);
        let failure = dsl.build(&source, &support::host()).unwrap().unwrap_err();
        assert_eq!(failure.kind, FailureKind::CompileFailed, "{text}");
        assert!(!failure.evidence.contains("42"), "{}", failure.evidence);
    }
}

#[test]
fn a_source_survives_its_text_form() {
    let dsl = CppDsl::default();
    let source = lowered();
    let text = dsl.export(&source, "source").unwrap();
    let back = dsl.parse(&text).unwrap();
    assert_eq!(back.form, source.form);
    assert!(back.text.ends_with(&source.text));
    let error = dsl.export(&source, "poem").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

#[test]
fn headers_are_read_with_clear_errors() {
    let dsl = CppDsl::default();
    let cases = [
        ("int x;", "begins with its launch plan"),
        ("// akg-launch: {\"tensors\": [}", "is wrong"),
        ("// akg-launch:\nint x;", "nothing follows"),
        ("// akg-launch: {\"tensors\":[],\"launches\":[]}", "no launches"),
        (
            "// akg-launch: {\"tensors\":[],\"launches\":[{\"kernel\":\"k\",\"grid\":[],\"tensors\":[3]}]}",
            "tensor number 3",
        ),
        (
            "// akg-launch: {\"tensors\":[],\"launches\":[{\"kernel\":\"a b\",\"grid\":[],\"tensors\":[]}]}",
            "not a C identifier",
        ),
    ];
    for (text, expected) in cases {
        let error = dsl.parse(text).unwrap_err();
        assert!(error.message().contains(expected), "{error}");
    }
}

#[test]
fn a_python_module_is_its_own_artifact() {
    let text = "import torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n";
    let dsl = CppDsl::default();
    let source = dsl.parse(text).unwrap();
    let built = dsl
        .build(&source, &Target::new("cpu", "x86_64"))
        .unwrap()
        .unwrap();
    assert_eq!(
        (built.format.as_str(), built.bytes.as_slice()),
        (ModuleInterface::FORMAT, text.as_bytes())
    );
    assert_eq!(dsl.export(&source, "source").unwrap(), text);
    assert_eq!(
        dsl.export(&source, "stub").unwrap_err().kind(),
        ErrorKind::Unsupported
    );
}

#[test]
fn teams_that_meet_by_themselves_are_refused() {
    let text = |along: &str| {
        format!(
            "sketch s(x: f32[2, 2]) -> y: f32[2, 2]
buffer b: f32[2, 2]
kernel main over (g in 2, q in 2) cooperative{along} {{
  store b[g, q] = load x[g, q]
  barrier
  store y[g, q] = load b[g, 1 - q]
}}"
        )
    };
    let lower = |along: &str| {
        let sketch = Sketch::parse(&text(along)).unwrap();
        CppDsl::default().lower(&sketch, &Knobs::new(), &support::host())
    };
    assert!(lower("").is_ok());
    assert!(lower(" along g, q").is_ok());
    let error = lower(" along q").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("leave out `along`"), "{error}");
}

/// Two statements that load at the same place name it once.
#[test]
fn places_that_several_statements_load_at() {
    if support::compiler_missing() {
        return;
    }
    let text = "sketch picks(p: f32[130], place: i64[], x: f32[130]) -> y: f32[]\nkernel main over (p0 in 1) {\n  x1 = load \
                place[]\n  t2 = i32(x1)\n  x3 = load x[t2] else 0.0\n  x4 = load p[t2] else 0.0\n  t5 = f64(x3) * f64(x4)\n  \
                t6 = f64(x4)\n  store y[] = f32(t5 / t6 * f64(t2 != -100))\n}\n";
    let sketch = Sketch::parse(text).unwrap();
    let dims = Bindings::new();
    let program = sketch.elaborate(&sketch.default_knobs(), &dims).unwrap();
    let values: Vec<f32> = (0..130).map(|i| i as f32 + 0.5).collect();
    let inputs = [
        Tensor::from_slice([130], &values).unwrap(),
        Tensor::from_slice([], &[7i64]).unwrap(),
        Tensor::from_slice([130], &values).unwrap(),
    ];
    let outputs = support::run(&program, &inputs, &dims);
    assert_eq!(outputs[0].to_f64().unwrap(), [7.5]);
}

#[test]
fn kernels_that_differ_in_names_alone_share_a_function() {
    if support::compiler_missing() {
        return;
    }
    let text = "sketch chain(x: f32[5]) -> y: f32[5]
buffer a: f32[5]
buffer b: f32[5]
kernel first over (i in 1) { store a[0 :+ 5] = 2 * (load x[0 :+ 5]) + 1 }
kernel second over (i in 1) { store b[0 :+ 5] = 2 * (load a[0 :+ 5]) + 1 }
kernel third over (i in 1) { store y[0 :+ 5] = 3 * (load b[0 :+ 5]) + 1 }";
    let sketch = Sketch::parse(text).unwrap();
    let dsl = CppDsl::default();
    let source = dsl.lower(&sketch, &Knobs::new(), &support::host()).unwrap();
    let SourceForm::Lowered { plan } = &source.form else {
        panic!("{:?}", source.form);
    };
    let kernels: Vec<&str> = plan.launches.iter().map(|l| l.kernel.as_str()).collect();
    assert_eq!(kernels, ["chain_first", "chain_first", "chain_third"]);
    assert_ne!(plan.launches[0].tensors, plan.launches[1].tensors);
    let artifact = dsl.build(&source, &support::host()).unwrap().unwrap();
    let x = Tensor::from_slice([5], &[1f32, -2.0, 0.5, 0.0, 8.0]).unwrap();
    let y = support::execute(&artifact, &[x], &Bindings::new());
    assert_eq!(y[0].to_f64().unwrap(), [22.0, -14.0, 16.0, 10.0, 106.0]);
    let stub = dsl.export(&source, "stub").unwrap();
    assert_eq!(stub.matches("extern \"C\"").count(), 2, "{stub}");
    assert_eq!(dsl.check(&dsl.parse(&stub).unwrap()), []);
}
