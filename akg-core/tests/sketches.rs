//! The example sketches, run by the interpreter, against PyTorch's results.

use akg_core::sketch::{Sketch, examples};

#[test]
fn examples_parse() {
    for (name, text) in examples() {
        let sketch = Sketch::parse(text).unwrap_or_else(|d| panic!("{name}:\n{}", d.render(text)));
        assert_eq!(sketch.tree().name.node, *name);
    }
}
