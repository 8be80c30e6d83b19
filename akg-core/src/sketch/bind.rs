//! Building values into a sketch.

use super::Sketch;
use super::syntax::{Ex, Expression, Item, Name, SketchTree, Spanned};
use crate::dtype::DType;
use crate::expr::Bindings;

impl Sketch {
    /// This sketch with values for extents and integer parameters built in, as `param NAME = VALUE`. Names that the
    /// sketch does not leave open are passed over.
    pub fn bind(&self, values: &Bindings) -> Self {
        let mut tree = self.tree.clone();
        let mut params = Vec::new();
        for (name, value) in values {
            let value = Some(Ex::new(Box::new(Expression::Int(*value)), 0..0));
            match declaration(&mut tree, name) {
                Some(Item::Param {
                    dtype, value: slot, ..
                }) if !dtype.is_some_and(DType::is_float) => *slot = value,
                None if is_extent(&self.tree, name) => {
                    let name = Name::new(name.to_string(), 0..0);
                    let param = Item::Param {
                        name,
                        dtype: None,
                        value,
                    };
                    params.push(Spanned::new(param, 0..0));
                }
                _ => {}
            }
        }
        tree.items.splice(0..0, params);
        Self { tree }
    }
}

/// The declaration that gives `name` its meaning before the kernels, unless it is an extent.
fn declaration<'a>(tree: &'a mut SketchTree, name: &str) -> Option<&'a mut Item> {
    let mut items = tree.items.iter_mut().map(|item| &mut item.node);
    items.find(|item| match item {
        Item::Param { name: n, .. } | Item::Let { name: n, .. } | Item::Knob { name: n, .. } => {
            n.node == name
        }
        _ => false,
    })
}

fn is_extent(tree: &SketchTree, name: &str) -> bool {
    let mut extents = tree.inputs.iter().flat_map(|tensor| &tensor.shape);
    extents.any(|extent| matches!(&*extent.node, Expression::Name(n) if n == name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sketch::examples;

    #[test]
    fn a_bound_sketch_is_the_sketch_elaborated_with_the_values() {
        let (_, text) = examples().iter().find(|(name, _)| *name == "maxpool2d").unwrap();
        let sketch = Sketch::parse(text).unwrap();
        let names = ["P", "H", "W", "KH", "KW", "SH", "SW", "PH", "PW", "DH", "DW"];
        let mut values: Bindings = names
            .iter()
            .zip([3, 12, 11, 3, 3, 2, 1, 1, 1, 1, 1])
            .map(|(n, v)| ((*n).into(), v))
            .collect();
        let knobs = sketch.default_knobs();
        for symbolic in [false, true] {
            if symbolic {
                values.remove("P");
            }
            let bound = sketch.bind(&values);
            assert_eq!(Sketch::parse(&bound.to_string()).unwrap(), bound);
            let program = bound.elaborate(&knobs, &Bindings::new()).unwrap();
            assert_eq!(program, sketch.elaborate(&knobs, &values).unwrap());
            assert_eq!(program.dims.len(), usize::from(symbolic));
        }
    }

    #[test]
    fn names_that_are_not_open_are_passed_over() {
        let text = "sketch s(x: f32[N]) -> y: f32[N]\nparam A: f32 = 2.0\nknob B in {8, 16}\nlet C = 3\n\nkernel k over (i in ceildiv(N, B)) {\n  store y[i*B :+ B] = A * (load x[i*B :+ B] else 0)\n}\n";
        let sketch = Sketch::parse(text).unwrap();
        let values: Bindings = ["A", "B", "C", "Z"].map(|n| (n.into(), 7)).into();
        assert_eq!(sketch.bind(&values), sketch);
    }
}
