//! The text that sketches become. `AKG_BLESS=1 cargo test -p akg-dsl-cpp --test golden` accepts a new text.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use std::fs;
use std::path::Path;

use akg_core::source::Knobs;
use akg_core::{Dsl, Sketch, Target};
use akg_dsl_cpp::CppDsl;

/// A machine that is the same everywhere.
fn target() -> Target {
    let mut target = Target::new("cpu", "x86_64");
    target.features = ["avx", "avx2", "fma", "f16c"].map(str::to_owned).into();
    target.vector_bytes = 32;
    target
}

#[test]
fn texts_are_as_reviewed_and_compile() {
    let bless = std::env::var_os("AKG_BLESS").is_some();
    let no_compiler = support::compiler_missing() || !cfg!(target_arch = "x86_64");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut seen = 0;
    for entry in fs::read_dir(folder.join("in")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let sketch = Sketch::parse(&text).unwrap_or_else(|d| panic!("{}", d.render(&text)));
        let dsl = CppDsl::default();
        let source = dsl.lower(&sketch, &Knobs::new(), &target()).unwrap();
        let golden = folder
            .join("out")
            .join(path.file_name().unwrap())
            .with_extension("cpp");
        if bless {
            fs::write(&golden, &source.text).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        assert!(
            source.text == expected,
            "the text of {} changed; look at it and accept it with AKG_BLESS=1\n{}",
            path.display(),
            source.text
        );
        if !no_compiler {
            dsl.build(&source, &target()).unwrap().unwrap();
        }
        seen += 1;
    }
    assert!(seen >= 4);
}
