//! Fingerprints.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::Syntax;
use super::super::fingerprint::{of_sketch, of_source};
use super::super::words::{renamed, words};
use crate::sketch::{Sketch, examples};
use crate::source::{Knobs, ModuleInterface, Source, SourceForm};

const CPP: &str = r#"#include <cstdint>
// A product.
static float twice(float v) { return v + v; }
extern "C" void kernel(void *const *tensors, const int64_t *dims, int64_t first, int64_t last) {
  const float *x = static_cast<const float *>(tensors[0]);
  for (int64_t program = first; program < last; ++program) {
    float acc = 0.0f;
    for (int i = 0; i < 16; ++i) acc += twice(x[program * 16 + i]); /* sum */
    const char *name = "row";
    static_cast<float *>(tensors[1])[program] = acc - -1e-3f;
  }
}
"#;

const PYTHON: &str = r#"import triton
import triton.language as tl

# A product.
@triton.jit
def kernel(x_ptr, y_ptr, BLOCK: tl.constexpr):
    """Adds."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    for k in range(4):
        value = tl.load(x_ptr + offsets, mask=offsets < 100, other=0.0)
        tl.store(y_ptr + offsets, value // 2)
"#;

fn print(text: &str, syntax: Syntax) -> String {
    let source = Source {
        dsl: "any".into(),
        text: text.into(),
        form: SourceForm::Module {
            interface: ModuleInterface::default(),
        },
        knobs: Knobs::new(),
    };
    of_source(&source, Some(syntax)).unwrap().to_string()
}

#[test]
fn comments_space_and_names_of_locals_do_not_matter() {
    let cpp = CPP
        .replace("acc", "sum_of_all")
        .replace("// A product.\n", "\n\n/* Other\n words */ // more\n");
    let cpp = cpp
        .replace("float twice(float v) {", "float twice( float v )\n{")
        .replace("program", "p");
    assert_eq!(print(CPP, Syntax::Braces), print(&cpp, Syntax::Braces));
    let python = PYTHON
        .replace("    ", "  ")
        .replace("offsets", "at")
        .replace("# A product.\n", "\n");
    let python = python
        .replace("pid * BLOCK", "pid  *  BLOCK")
        .replace("value", "v");
    let python = python.replace("range(4):", "range(4):  # steps");
    assert_eq!(print(PYTHON, Syntax::Indented), print(&python, Syntax::Indented));
}

#[test]
fn what_may_matter_does() {
    let cpp: [(&str, &str); 9] = [
        ("- -1e-3f", "--1e-3f"),
        ("i < 16", "i < 15"),
        ("acc +=", "acc -="),
        ("\"row\"", "\"acc\""),
        ("\"row\"", "\"// row\""),
        ("twice(x", "thrice(x"),
        ("1e-3f", "1e-3"),
        ("#include <cstdint>\n", ""),
        ("tensors[0]", "dims[0]"),
    ];
    for (before, after) in cpp {
        assert!(CPP.contains(before));
        assert_ne!(
            print(CPP, Syntax::Braces),
            print(&CPP.replacen(before, after, 1), Syntax::Braces),
            "{after}"
        );
    }
    let python: [(&str, &str); 7] = [
        ("value // 2", "value / 2"),
        ("mask=", "other_mask="),
        ("BLOCK: tl", "SIZE: tl"),
        ("\"\"\"Adds.\"\"\"", "\"\"\"value\"\"\""),
        ("        tl.store", "    tl.store"),
        ("tl.load", "tl.loads"),
        ("offsets < 100", "pid < 100"),
    ];
    for (before, after) in python {
        assert!(PYTHON.contains(before));
        let other = PYTHON.replacen(before, after, 1);
        assert_ne!(
            print(PYTHON, Syntax::Indented),
            print(&other, Syntax::Indented),
            "{after}"
        );
    }
    // A division is no comment where it is not one.
    assert_ne!(
        print("a = b // 2\n", Syntax::Indented),
        print("a = b // 3\n", Syntax::Indented)
    );
    assert_eq!(
        print("a = b; // 2\n", Syntax::Braces),
        print("a = b; // 3\n", Syntax::Braces)
    );
}

/// Names that a sketch gives inside of its kernels, by what they are assigned or run over.
fn inner_names(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let mut of_line = words(line);
        match (of_line.next(), of_line.next()) {
            (Some("for"), Some(index)) => _ = names.insert(index.to_owned()),
            (Some(name), Some(_)) if line.get(name.len()..).is_some_and(|rest| rest.starts_with(" = ")) => {
                names.insert(name.to_owned());
            }
            _ => {}
        }
    }
    names
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever the inner names of an example become, and whatever is said about it, it is the same sketch.
    #[test]
    fn sketches_are_the_same_whatever_their_names(which in 0usize..100, salt in 1u32..9999) {
        let (_, text) = examples()[which % examples().len()];
        let sketch = Sketch::parse(text).unwrap();
        let text = sketch.to_string();
        let taken: BTreeSet<&str> = words(&text).collect();
        let names: BTreeMap<String, String> = inner_names(&text)
            .into_iter()
            .zip(0..)
            .map(|(name, at)| (name, format!("q{salt}_{at}")))
            .filter(|(_, fresh)| !taken.contains(fresh.as_str()))
            .collect();
        let other = format!("# Said before.\n{}", renamed(&text, &names));
        if let Ok(other) = Sketch::parse(&other) {
            prop_assert_eq!(of_sketch(&sketch), of_sketch(&other));
        }
    }
}

/// A number or an operator that is another makes another sketch.
#[test]
fn sketches_differ_that_compute_something_else() {
    for (name, text) in examples() {
        let sketch = Sketch::parse(text).unwrap();
        let print = of_sketch(&sketch);
        let text = sketch.to_string();
        for (place, c) in text.char_indices() {
            let with = match c {
                '1'..='8' if !in_name(&text, place) => "9",
                '+' => "-",
                '*' => "+",
                '<' => ">",
                _ => continue,
            };
            let mut changed = text.clone();
            changed.replace_range(place..=place, with);
            if let Ok(changed) = Sketch::parse(&changed)
                && without_comments(&changed) != without_comments(&sketch)
            {
                assert_ne!(of_sketch(&changed), print, "{name}, {place}: {c} {with}\n{text}");
            }
        }
    }
}

/// Whether what stands at a place belongs to a name, as the 2 of `conv2d` does.
fn in_name(text: &str, place: usize) -> bool {
    let word = text[..place]
        .rfind(|c: char| !c.is_alphanumeric() && c != '_')
        .map_or(0, |before| before + 1);
    text[word..].starts_with(|c: char| c.is_alphabetic() || c == '_')
}

fn without_comments(sketch: &Sketch) -> String {
    let text = sketch.to_string();
    text.lines()
        .filter(|line| !line.trim_start().starts_with('#'))
        .collect()
}
