//! The sketches that every DSL must get right. `AKG_ONLY=NAME` runs one of them, `AKG_SHOW=1` prints the C++.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by a panic")]

mod support;

use akg_core::Sketch;
use akg_core::conformance::sketch_cases;

#[test]
fn example_sketches_agree_with_pytorch() {
    if support::compiler_missing() {
        return;
    }
    let only = std::env::var("AKG_ONLY").ok();
    let mut failures = Vec::new();
    for case in sketch_cases().unwrap() {
        if only.as_ref().is_some_and(|only| only != case.name) {
            continue;
        }
        let sketch = Sketch::parse(case.text).unwrap();
        let mut knobs = sketch.default_knobs();
        knobs.extend(case.knobs.clone());
        for dims in [case.dims.clone(), case.fixed_dims()] {
            let outcome = sketch
                .elaborate(&knobs, &dims)
                .map_err(akg_core::Error::from)
                .and_then(|program| case.check(&support::run(&program, &case.inputs, &case.dims)));
            if let Err(e) = outcome {
                failures.push(format!("{} {knobs:?}: {e}", case.name));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
