//! The corpus of sketches: what is accepted, what is rejected and what is said about it.

use std::fs;
use std::path::{Path, PathBuf};

use akg_core::expr::Bindings;
use akg_core::sketch::Sketch;

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
fn the_validator_accepts_the_corpus_and_the_examples() {
    let examples = akg_core::sketch::examples()
        .iter()
        .map(|(n, t)| ((*n).to_owned(), (*t).to_owned()));
    for (name, text) in examples.chain(
        corpus("accept")
            .into_iter()
            .map(|(p, t)| (p.display().to_string(), t)),
    ) {
        println!("{name}");
        let sketch = Sketch::parse(&text).unwrap();
        let mut b = bindings(&text);
        if name == "attention" {
            b.insert("D".into(), 64);
        }
        if name == "rnn" {
            b.insert("B".into(), 3);
            b.insert("H".into(), 40);
        }
        if name == "softmax_fits" {
            b.insert("L".into(), 40);
        }
        if name == "maxpool2d" || name == "conv2d" {
            for n in ["KH", "KW", "SH", "SW", "PH", "PW", "DH", "DW"] {
                b.insert(
                    n.into(),
                    if n.starts_with('P') {
                        1
                    } else if n.starts_with('K') {
                        3
                    } else {
                        2
                    },
                );
            }
        }
        let program = sketch
            .elaborate(&sketch.default_knobs(), &b)
            .unwrap_or_else(|e| panic!("{name}\n{}", e.render(&text)));
        println!("{}", akg_core::sketch::validate(&program, None).render(&text));
    }
}
