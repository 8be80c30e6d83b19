//! The corpus of sketches: what is accepted, what is rejected and what is said about it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::fs;
use std::path::{Path, PathBuf};

use akg_core::expr::Bindings;
use akg_core::sketch::{Sketch, validate};
use akg_core::{Diagnostics, Target};

fn corpus(folder: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/sketch")
        .join(folder);
    let mut files: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "sketch"))
        .collect();
    files.sort();
    assert!(!files.is_empty());
    files
        .into_iter()
        .map(|p| (p.clone(), fs::read_to_string(p).unwrap()))
        .collect()
}

/// The values that a file asks for in a first line `# bind M=4 N=5`.
fn bindings(text: &str) -> Bindings {
    let first = text.lines().next().unwrap_or_default();
    let pairs = first
        .strip_prefix("# bind ")
        .unwrap_or_default()
        .split_whitespace();
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap();
            (name.into(), value.parse().unwrap())
        })
        .collect()
}

#[test]
fn accepted_sketches_elaborate_at_every_legal_point() {
    for (path, text) in corpus("accept") {
        let sketch =
            Sketch::parse(&text).unwrap_or_else(|e| panic!("{}:\n{}", path.display(), e.render(&text)));
        let bindings = bindings(&text);
        let mut points = 0;
        for knobs in sketch.legal_points(&bindings) {
            if let Err(e) = sketch.elaborate(&knobs, &bindings) {
                panic!("{} with {knobs:?}:\n{}", path.display(), e.render(&text));
            }
            points += 1;
        }
        assert!(points > 0, "{} has no legal point", path.display());
    }
}

#[test]
fn the_validator_has_no_objection_to_accepted_sketches() {
    for (path, text) in corpus("accept") {
        let sketch = Sketch::parse(&text).unwrap();
        let bindings = bindings(&text);
        for knobs in sketch.legal_points(&bindings) {
            let findings = validate(&sketch.elaborate(&knobs, &bindings).unwrap(), None);
            assert!(
                findings.is_empty(),
                "{} with {knobs:?}:\n{}",
                path.display(),
                findings.render(&text)
            );
        }
    }
}

/// What is said about a sketch at its default knobs.
fn verdict(text: &str) -> Diagnostics {
    let bindings = bindings(text);
    let sketch = match Sketch::parse(text) {
        Ok(sketch) => sketch,
        Err(diagnostics) => return diagnostics,
    };
    match sketch.elaborate(&sketch.default_knobs(), &bindings) {
        Ok(program) => validate(&program, Some(&Target::new("cpu", "x86_64"))),
        Err(diagnostics) => diagnostics,
    }
}

/// The messages stand beside the sketches; `BLESS=1 cargo test` rewrites them for review.
#[test]
fn rejected_sketches_get_these_messages() {
    for (path, text) in corpus("reject") {
        let verdict = verdict(&text);
        assert!(verdict.has_errors(), "{} is accepted", path.display());
        let (golden, found) = (path.with_extension("txt"), verdict.render(&text));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&golden, &found).unwrap();
        }
        let expected = fs::read_to_string(&golden).unwrap_or_default();
        assert_eq!(found, expected, "{}", path.display());
    }
}

#[test]
fn accepted_sketches_are_canonical_texts() {
    for (path, text) in corpus("accept") {
        let printed = Sketch::parse(&text).unwrap().to_string();
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, &printed).unwrap();
        } else {
            assert_eq!(printed, text, "{}", path.display());
        }
    }
}

/// Texts cut off anywhere, or with a piece missing, are parsed or refused without harm.
#[test]
fn broken_texts_are_refused_with_a_message() {
    for (_, text) in corpus("accept") {
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            let cut = text.get(..at).unwrap();
            let missing = format!("{cut}{}", text.get(at + 1..).unwrap_or_default());
            for broken in [cut, missing.as_str()] {
                if let Err(diagnostics) = Sketch::parse(broken) {
                    assert!(!diagnostics.render(broken).is_empty());
                }
            }
        }
    }
    for deep in ["(", "-", "f(", "!", "[", "a + "] {
        let text = format!(
            "sketch s(x: f32[M]) -> y: f32[M] kernel k over () {{ t = {} }}",
            deep.repeat(20_000)
        );
        assert!(Sketch::parse(&text).is_err());
    }
}
