//! The text that sketches become. `AKG_BLESS=1 cargo test -p akg-dsl-triton --test golden` accepts a new text.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use std::fs;
use std::path::Path;

use akg_core::conformance::sketch_cases;
use akg_core::image::Images;
use akg_core::sketch::examples;
use akg_core::source::{KnobValue, Knobs};
use akg_core::{Dsl, Sketch, Target};
use akg_dsl_triton::TritonDsl;

/// A name, that of a sketch, and values of the DSL's own knobs.
type Style = (&'static str, &'static str, &'static [(&'static str, i64)]);

/// Other ways to print a sketch.
const STYLES: [Style; 3] = [
    (
        "gemm_blocks",
        "gemm_tf32",
        &[("main.descriptors", 0), ("main.blocks", 1)],
    ),
    ("gemm_persistent", "gemm_tf32", &[("main.persistent", 1)]),
    (
        "gemm_specialised",
        "gemm_tf32",
        &[("main.persistent", 1), ("main.specialised", 1)],
    ),
];

/// The device that a text is for.
fn target(name: &str) -> Target {
    match name {
        "gemm_specialised" => Target::new("cuda", "sm_100a"),
        _ => support::h100(),
    }
}

/// A sketch with the name of its file.
fn sketches(folder: &Path) -> Vec<(String, Sketch, Knobs)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join("in")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let sketch = Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)));
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        found.push((name, sketch, Knobs::new()));
    }
    for (style, base, values) in STYLES {
        let (_, sketch, _) = found.iter().find(|(name, ..)| name == base).unwrap();
        let knobs = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), KnobValue::Int(*value)));
        found.push((style.to_owned(), sketch.clone(), knobs.collect()));
    }
    let cases = sketch_cases().unwrap();
    for (name, _) in examples() {
        let case = cases.iter().find(|c| c.name == *name).unwrap();
        found.push((
            format!("example_{name}"),
            case.sketch(&case.dims).unwrap(),
            case.knobs.clone(),
        ));
    }
    found
}

#[test]
fn texts_are_as_reviewed_and_compile() {
    let bless = std::env::var_os("AKG_BLESS").is_some();
    let compiles = support::python().is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let dsl = TritonDsl::default();
    let mut changed = Vec::new();
    let sketches = sketches(&folder);
    for (name, sketch, knobs) in &sketches {
        let source = dsl.lower(sketch, knobs, &target(name)).unwrap();
        let golden = folder.join("out").join(name).with_extension("py");
        if bless {
            fs::write(&golden, &source.text).unwrap();
        }
        if source.text != fs::read_to_string(&golden).unwrap_or_default() {
            changed.push(name.as_str());
        }
    }
    let build = |(name, sketch, knobs): &(String, Sketch, Knobs)| {
        let mut targets = vec![support::h100(), Target::new("hip", "gfx942")];
        if name.starts_with("gemm") || name.starts_with("conv") {
            targets.extend(["sm_80", "sm_100a"].map(|arch| Target::new("cuda", arch)));
        }
        for target in targets {
            let source = dsl.lower(sketch, knobs, &target).unwrap();
            let built = dsl.build(&source, &target).unwrap();
            let artifact = built
                .unwrap_or_else(|f| panic!("{name} for {}: {}\n{}", target.arch, f.evidence, source.text));
            for image in Images::decode(&artifact).unwrap().kernels {
                assert_eq!(&image.code[..4], b"\x7fELF");
                assert!(
                    image.report.registers.is_some_and(|n| n > 0),
                    "{name} for {}",
                    target.arch
                );
            }
        }
    };
    if compiles {
        std::thread::scope(|scope| {
            for part in sketches.chunks(sketches.len().div_ceil(4)) {
                scope.spawn(|| part.iter().for_each(build));
            }
        });
    }
    assert!(
        changed.is_empty(),
        "the texts of {} changed; look at them and accept them with AKG_BLESS=1",
        changed.join(", ")
    );
}
