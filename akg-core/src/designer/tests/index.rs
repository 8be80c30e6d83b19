//! Elements that indices name, and those that change places.

use super::{F, check, roll};
use crate::dtype::DType;
use crate::graph::{Arg, ValueId};

#[test]
fn indices_name_what_stands_along_a_dimension() {
    let shapes: [&[i64]; 3] = [&[7], &[3, 4], &[2, 1, 5]];
    for shape in shapes {
        check("embedding", |g| {
            let (table, index) = (
                g.input("table", F, [9, 6]),
                g.input("index", DType::I64, shape.to_vec()),
            );
            let args = [("weight", table.into()), ("indices", index.into())];
            g.call("embedding.default", args).map(|y| y[0])
        });
        for dim in 0..3 {
            check("index", |g| {
                let table = g.input("table", F, [8, 9, 10]);
                let index = g.input("index", DType::I64, shape.to_vec());
                let mut indices = vec![None; dim];
                indices.push(Some(index));
                let args: [(&str, Arg); 2] = [("self", table.into()), ("indices", indices.into())];
                g.call("index.Tensor", args).map(|y| y[0])
            });
        }
    }
    check("index_select", |g| {
        let (table, index) = (g.input("table", F, [4, 9, 3]), g.input("index", DType::I64, [11]));
        let args = [("self", table.into()), ("dim", 1.into()), ("index", index.into())];
        g.call("index_select.default", args).map(|y| y[0])
    });
}

#[test]
fn negative_indices_count_from_the_end() {
    check("index", |g| {
        let (table, index) = (g.input("table", F, [9, 6]), g.input("index", DType::I64, [5]));
        let index = g.call("neg.default", [("self", index.into())])?[0];
        let indices = vec![Some(index)];
        g.call(
            "index.Tensor",
            [("self", table.into()), ("indices", indices.into())],
        )
        .map(|y| y[0])
    });
}

/// Compares the design of slices of `shape`, but for `count` along `dim`, that replace those of a table, with the reference.
#[track_caller]
fn check_replaced(dtype: DType, shape: &[i64], dim: usize, count: i64, turned: bool) {
    check("index_copy", |g| {
        let mut slices = shape.to_vec();
        slices[dim] = count;
        let (table, source) = (
            g.input("table", dtype, shape.to_vec()),
            g.input("source", dtype, slices),
        );
        let mut index = g.input("index", DType::I64, [count]);
        if turned {
            index = g.call("neg.default", [("self", index.into())])?[0];
        }
        g.index_copy(table, dim as i64, index, source)
    });
}

#[test]
fn slices_replace_those_that_an_index_names() {
    // The inputs' indices have the numbers 0 to 4, the longer ones each several times.
    for dim in 0..3 {
        for count in [1, 4, 11] {
            check_replaced(F, &[8, 9, 10], dim, count, dim == 1);
        }
    }
    for dtype in [DType::F16, DType::BF16, DType::I64, DType::Bool] {
        for count in [1, 6] {
            check_replaced(dtype, &[3, 7, 2], 1, count, false);
        }
    }
    check_replaced(F, &[5], 0, 7, false);
    check_replaced(F, &[2, 5, 3], 1, 0, false);
    // Too many to be searched.
    check_replaced(F, &[2, 6, 3], 1, 1100, true);
}

#[test]
fn the_only_element_of_a_tensor_without_dimensions_is_replaced() {
    check("index_copy", |g| {
        let (x, source) = (g.input("x", F, [0i64; 0]), g.input("source", F, [3]));
        let index = g.full([3], 0.0, DType::I64)?;
        g.index_copy(x, 0, index, source)
    });
    check("index_copy", |g| {
        let (x, source) = (g.input("x", F, [5]), g.input("source", F, [0i64; 0]));
        let index = g.input("index", DType::I64, [0i64; 0]);
        g.index_copy(x, -1, index, source)
    });
}

#[test]
fn replaced_slices_are_read_where_they_are_made() {
    check("index_copy", |g| {
        let cache = g.input("cache", F, [2, 3, 8, 4]);
        let (keys, index) = (
            g.input("keys", F, [2, 3, 2, 4]),
            g.input("index", DType::I64, [2]),
        );
        let keys = g.sigmoid(keys)?;
        let cache = g.index_copy(cache, 2, index, keys)?;
        g.softmax(cache, 2)
    });
}

#[test]
fn rows_of_a_long_table_are_gathered() {
    for (dtype, row) in [(F, 6), (DType::F16, 1), (DType::I64, 700)] {
        check("embedding", |g| {
            let table = g.input("table", dtype, [1100, row]);
            let index = g.input("index", DType::I64, [3, 5]);
            let args = [("weight", table.into()), ("indices", index.into())];
            let rows = g.call("embedding.default", args)?[0];
            g.mul(rows, 2.0)
        });
    }
}

#[test]
fn several_indices_name_elements_together() {
    let given: [[Option<&[i64]>; 3]; 4] = [
        [None, Some(&[3, 1]), Some(&[4])],
        [Some(&[5]), Some(&[2, 5]), None],
        [Some(&[5]), None, Some(&[5])],
        [Some(&[1]), Some(&[2, 1]), Some(&[3, 1, 4])],
    ];
    for given in given {
        check("index", |g| {
            let table = g.input("table", F, [8, 9, 10]);
            let table = g.relu(table)?;
            let mut indices = Vec::new();
            for (dim, shape) in given.iter().enumerate() {
                let name = ["i", "j", "k"][dim];
                indices.push(shape.map(|shape| g.input(name, DType::I64, shape.to_vec())));
            }
            let args: [(&str, Arg); 2] = [("self", table.into()), ("indices", indices.into())];
            let named = g.call("index.Tensor", args)?[0];
            g.sigmoid(named)
        });
    }
}

#[test]
fn an_index_for_each_element_names_it_along_a_dimension() {
    for dim in [0, 1, -1] {
        for turned in [false, true] {
            check("gather", |g| {
                let table = g.input("table", F, [8, 9, 10]);
                // Numbers count rows as they lie in memory.
                let table = if turned {
                    g.permute(table, &[2, 1, 0])?
                } else {
                    table
                };
                let index = g.input("index", DType::I64, [3, 4, 5]);
                let args = [
                    ("self", table.into()),
                    ("dim", dim.into()),
                    ("index", index.into()),
                ];
                let named = g.call("gather.default", args)?[0];
                let named = g.permute(named, &[1, 2, 0])?;
                g.mul(named, 2.0)
            });
        }
    }
}

#[test]
fn an_index_without_elements_may_have_any_shape() {
    check("gather", |g| {
        let table = g.input("table", F, [5]);
        let index = g.input("index", DType::I64, [2, 0]);
        let args = [("self", table.into()), ("dim", 0.into()), ("index", index.into())];
        g.call("gather.default", args).map(|y| y[0])
    });
}

#[test]
fn elements_stand_beyond_the_ends() {
    for mode in ["reflect", "replicate", "circular"] {
        let pads: [(&[i64], &[i64]); 3] = [
            (&[2, 6, 7], &[2, 3]),
            (&[2, 3, 6, 7], &[1, 2, 3, 0]),
            (&[3, 6, 7], &[5, 0, 0, 4]),
        ];
        for (shape, pad) in pads {
            check(mode, |g| {
                let x = g.input("x", F, shape.to_vec());
                let args: [(&str, Arg); 3] = [
                    ("self", x.into()),
                    ("pad", pad.to_vec().into()),
                    ("mode", mode.into()),
                ];
                g.call("pad.default", args).map(|y| y[0])
            });
        }
    }
}

#[test]
fn integers_are_divided_with_each_rounding() {
    for dtype in [DType::I32, DType::I64] {
        let calls: [(&str, Option<&str>); 5] = [
            ("floor_divide.default", None),
            ("remainder.Tensor", None),
            ("fmod.Tensor", None),
            ("div.Tensor_mode", Some("floor")),
            ("div.Tensor_mode", Some("trunc")),
        ];
        for (name, mode) in calls {
            for sign in [1, -1] {
                check(name, |g| {
                    let (x, y) = (g.input("x", DType::I64, [6, 7]), g.input("y", DType::I64, [7]));
                    let (x, y) = (g.to_dtype(x, dtype)?, g.to_dtype(y, dtype)?);
                    let mut step = |name, x: ValueId, other: i64| {
                        let args: [(&str, Arg); 2] = [("self", x.into()), ("other", other.into())];
                        g.call(name, args).map(|y| y[0])
                    };
                    let x = step("sub.Scalar", x, 4)?;
                    let y = step("remainder.Scalar", y, 5)?;
                    let y = step("add.Scalar", y, 1)?;
                    let y = step("mul.Scalar", y, sign)?;
                    let mut args: Vec<(&str, Arg)> = vec![("self", x.into()), ("other", y.into())];
                    args.extend(mode.map(|mode| ("rounding_mode", mode.into())));
                    g.call(name, args).map(|y| y[0])
                });
            }
        }
    }
}

#[test]
fn products_of_vectors_gates_and_steps_between_two_tensors() {
    check("outer", |g| {
        let (x, y) = (g.input("x", F, [6]), g.input("y", F, [7]));
        g.call("outer.default", [("self", x.into()), ("vec2", y.into())])
            .map(|y| y[0])
    });
    for dim in [0, -1] {
        check("glu", |g| {
            let x = g.input("x", F, [6, 4, 8]);
            g.call("glu.default", [("self", x.into()), ("dim", dim.into())])
                .map(|y| y[0])
        });
    }
    check("lerp", |g| {
        let [x, y, w] = ["x", "y", "w"].map(|name| g.input(name, F, [6, 8]));
        let args = [("self", x.into()), ("end", y.into()), ("weight", w.into())];
        g.call("lerp.Tensor", args).map(|y| y[0])
    });
}

#[test]
fn what_rolls_beyond_the_end_comes_first() {
    let rolls: [(&[i64], &[i64]); 4] = [(&[2], &[0]), (&[-3], &[1]), (&[1, -2], &[0, 2]), (&[6], &[0])];
    for (shifts, dims) in rolls {
        check("roll", |g| {
            let x = g.input("x", F, [6, 7, 5]);
            let y = roll(g, x, shifts, dims)?;
            g.relu(y)
        });
    }
}

#[test]
fn a_table_of_biases_is_added_to_scores() {
    check("biases", |g| {
        let (table, index) = (g.input("table", F, [9, 2]), g.input("index", DType::I64, [36]));
        let scores = g.input("scores", F, [4, 2, 6, 6]);
        let indices = vec![Some(index)];
        let args: [(&str, Arg); 2] = [("self", table.into()), ("indices", indices.into())];
        let biases = g.call("index.Tensor", args)?[0];
        let biases = g.reshape(biases, [6, 6, 2])?;
        let biases = g.permute(biases, &[2, 0, 1])?;
        let biases = g.sigmoid(biases)?;
        let y = g.add(scores, biases)?;
        g.softmax(y, -1)
    });
}
