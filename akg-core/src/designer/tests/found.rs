//! What random graphs found.

use super::{F, check_all, check_on, check_within, ints, many_threads};
use crate::designer::design;
use crate::graph::{Arg, Conv, Graph, ValueId};
use crate::task::Task;
use crate::{DType, ErrorKind, Result};

fn call(g: &mut Graph, op: &str, args: &[(&str, Arg)]) -> Result<Vec<ValueId>> {
    g.call(op, args.iter().cloned())
}

/// The places count through all dimensions, although another kernel keeps them apart.
#[test]
fn places_of_extremes_in_all_dimensions() {
    for op in ["argmax.default", "argmin.default"] {
        check_all(op, |g| {
            let x = g.input("x", F, [6, 40, 3]);
            let place = call(g, op, &[("self", x.into())])?;
            Ok(vec![place[0], g.sum(x, &[1], false)?])
        });
        check_all(op, |g| {
            let x = g.input("x", F, [2, 4, 12]);
            let x = g.permute(x, &[2, 0, 1])?;
            let part = g.slice(x, 0, 1, 12, 3)?;
            let (all, some) = (
                call(g, op, &[("self", x.into())])?,
                call(g, op, &[("self", part.into())])?,
            );
            Ok(vec![all[0], some[0]])
        });
        // The first of equal ones, in the order of places.
        check_all(op, |g| {
            let x = g.input("x", DType::Bool, [5, 7, 3]);
            let x = g.to_dtype(x, F)?;
            let x = g.permute(x, &[2, 1, 0])?;
            Ok(vec![call(g, op, &[("self", x.into())])?[0]])
        });
    }
}

/// Of several NaN, the first in the order of places, whichever the walk comes to first.
#[test]
fn places_of_several_nan() {
    for op in ["argmax.default", "argmin.default"] {
        check_all(op, |g| {
            let x = g.input("x", F, [5, 7, 3]);
            // Negative elements have no root.
            let x = call(g, "sqrt.default", &[("self", x.into())])?[0];
            let x = g.permute(x, &[2, 1, 0])?;
            let along = call(g, op, &[("self", x.into()), ("dim", 1.into())])?[0];
            Ok(vec![call(g, op, &[("self", x.into())])?[0], along])
        });
    }
}

/// Sums of truth values are truth values, which have one bit on some machines; other numbers than 0 and 1 are none.
#[test]
fn arithmetic_of_truth_values() {
    check_all("truth_values", |g| {
        let (a, b) = (
            g.input("a", DType::Bool, [9, 5]),
            g.input("b", DType::Bool, [9, 5]),
        );
        let mut results = vec![g.add(a, b)?, g.mul(a, b)?];
        for (op, other) in [
            ("eq.Scalar", 2),
            ("gt.Scalar", -1),
            ("lt.Scalar", 1),
            ("ne.Scalar", 0),
        ] {
            results.extend(call(g, op, &[("self", a.into()), ("other", other.into())])?);
        }
        for op in ["square.default", "sum.default", "prod.default"] {
            results.extend(call(g, op, &[("self", a.into())])?);
        }
        for op in ["maximum.default", "minimum.default"] {
            results.extend(call(g, op, &[("self", a.into()), ("other", b.into())])?);
        }
        Ok(results)
    });
}

/// A variance that f32 cannot hold has a root that it can, and digits do not cancel however far the mean is from zero.
#[test]
fn deviations_of_large_numbers() {
    check_within("deviations", 1e-6, |g| {
        let x = g.input("x", F, [6, 300]);
        let (large, small, steps) = (g.mul(x, 1e25)?, g.mul(x, 1e-25)?, g.mul(x, 4.0)?);
        // All of these are exact.
        let steps = call(g, "floor.default", &[("self", steps.into())])?[0];
        let far = g.add(steps, 3e5)?;
        let mut results = Vec::new();
        for (x, scale) in [(large, 1e-25), (small, 1e25), (far, 1.0)] {
            let args = [("self", x.into()), ("dim", ints(&[1])), ("correction", 1.into())];
            let deviation = g.call("std.correction", args)?[0];
            results.push(g.mul(deviation, scale)?);
        }
        Ok(results)
    });
}

/// Statistics are f32 beside an input of halves, and far from zero.
#[test]
fn statistics_of_halves() {
    check_all("batch_norm", |g| {
        let x = g.input("x", DType::F16, [7, 3, 20]);
        let x = g.add(x, 8.0)?;
        let (mean, variance) = (g.weight("mean", F, [3]), g.weight("variance", F, [3]));
        let variance = g.exp(variance)?;
        let args = [
            ("input", x.into()),
            ("weight", Arg::None),
            ("bias", Arg::None),
            ("running_mean", mean.into()),
            ("running_var", variance.into()),
            ("training", true.into()),
            ("momentum", 0.1.into()),
            ("eps", 1e-5.into()),
        ];
        let results = call(g, "_native_batch_norm_legit_functional.default", &args)?;
        Ok(vec![results[3], results[4]])
    });
}

/// The only place along a dimension of one element is its first.
#[test]
fn places_along_a_single_element() {
    check_all("places_along_a_single_element", |g| {
        let x = g.input("x", F, [1, 5, 1]);
        let (_, place) = g.max_dim(x, 0, true)?;
        Ok(vec![place, g.argmin(x, 2)?])
    });
    check_all("a_single_place", |g| {
        let x = g.input("x", F, [1, 1]);
        Ok(vec![g.argmax(x, -1)?])
    });
}

/// Windows that one tile holds see nothing beyond the tensor, not zeros.
#[test]
fn windows_that_one_tile_holds() {
    for (kernel, padding, shape) in [([1, 3], [0, 1], [3i64, 1, 1, 3]), ([2, 2], [1, 1], [1, 1, 2, 1])] {
        check_all("max_pool2d", |g| {
            let x = g.input("x", F, shape);
            let x = g.sub(x, 5.0)?;
            let args = [
                ("self", x.into()),
                ("kernel_size", kernel.into()),
                ("padding", padding.into()),
                ("ceil_mode", true.into()),
            ];
            call(g, "max_pool2d.default", &args)
        });
    }
}

/// What a kernel repeated before another reader needed it in memory is stored once.
#[test]
fn what_is_repeated_and_stored() {
    check_all("repeated", |g| {
        let x = g.input("x", F, [3, 4]);
        let y = g.silu(x)?;
        let whole = g.to_dtype(y, DType::I64)?;
        let turned = call(
            g,
            "flip.default",
            &[("self", y.into()), ("dims", [0i64, 1].into())],
        )?;
        Ok(vec![whole, turned[0]])
    });
}

#[test]
fn deviations_beside_their_means() {
    check_all("std_mean", |g| {
        let x = g.input("x", F, [5, 70]);
        call(
            g,
            "std_mean.correction",
            &[("self", x.into()), ("dim", [1i64].into())],
        )
    });
}

/// Elements are combined as often as they are repeated.
#[test]
fn what_is_repeated_along_a_reduced_dimension() {
    for dim in [-2, -1] {
        check_all("softmax", |g| {
            let x = g.input("x", F, if dim == -2 { [1i64, 48] } else { [48, 1] });
            let y = g.expand(x, if dim == -2 { [4i64, 48] } else { [48, 4] })?;
            Ok(vec![g.log_softmax(y, dim)?, g.sum(y, &[dim], false)?])
        });
    }
    check_all("of_all", |g| {
        let x = g.input("x", F, [3, 1]);
        let y = g.expand(x, [3i64, 9000])?;
        let y = g.reshape(y, [27_000i64])?;
        Ok(vec![g.mean(y, &[], false)?, g.cumsum(y, 0)?])
    });
    check_all("of_a_number", |g| {
        let y = g.full([5i64, 7], 0.75, F)?;
        Ok(vec![g.sum(y, &[1], false)?])
    });
}

#[test]
fn functions_of_numbers() {
    check_all("functions_of_numbers", |g| {
        let x = g.input("x", F, [8]);
        let y = call(g, "ones_like.default", &[("self", x.into())])?[0];
        let y = g.tanh(y)?;
        let above = g.gt(y, 0.5)?;
        Ok(vec![y, above, g.add(x, y)?])
    });
    check_all("nan", |g| {
        let x = g.input("x", DType::I64, [8]);
        Ok(vec![g.isnan(x)?])
    });
}

/// Windows of a few elements are summed in f32, also where a maximum scales the terms.
#[test]
fn softmax_over_windows() {
    check_all("softmax_over_windows", |g| {
        let x = g.input("x", F, [8]);
        let args = [
            ("self", x.into()),
            ("dimension", 0.into()),
            ("size", 3.into()),
            ("step", 3.into()),
        ];
        let x = call(g, "unfold.default", &args)?[0];
        let x = g.mul(x, 2.0)?;
        Ok(vec![g.log_softmax(x, 0)?])
    });
}

/// Windows and weights that meet the only element of a dimension at several places.
#[test]
fn windows_over_a_single_element() {
    check_all("max_pool3d", |g| {
        let x = g.input("x", F, [2, 1, 1, 1, 1]);
        let args = [
            ("self", x.into()),
            ("kernel_size", [1i64, 4, 4].into()),
            ("stride", [3i64, 3, 1].into()),
            ("padding", [0i64, 2, 2].into()),
        ];
        call(g, "max_pool3d.default", &args)
    });
    check_all("beside_windows", |g| {
        let x = g.input("x", F, [2, 2, 6, 1, 2]);
        let x = g.sub(x, 5.0)?;
        let args = [
            ("self", x.into()),
            ("kernel_size", [2i64, 4, 2].into()),
            ("stride", [2i64, 1, 2].into()),
            ("padding", [0i64, 2, 1].into()),
            ("dilation", [2i64, 1, 2].into()),
            ("ceil_mode", true.into()),
        ];
        call(g, "max_pool3d.default", &args)
    });
    for channels in [1, 3] {
        check_all("convolution", |g| {
            let (x, w) = (
                g.input("x", F, [2, channels, 1]),
                g.weight("w", F, [2, channels, 3]),
            );
            let window = Conv {
                padding: vec![2],
                ..Conv::default()
            };
            Ok(vec![g.conv(x, w, None, &window)?, {
                let w = g.weight("v", F, [channels, 2, 3]);
                g.conv_transpose(x, w, None, &Conv::default(), &[0])?
            }])
        });
    }
}

/// A factor of a product that is a view of a buffer, and shorter than the tile that it is split in.
#[test]
fn split_factors_seen_through_views() {
    check_all("split_factors", |g| {
        let (a, b) = (g.input("a", F, [3, 3, 2]), g.weight("b", F, [2, 2]));
        let c = g.weight("c", F, [3, 3, 3]);
        let y = g.einsum("abc,cd->adb", &[a, b])?;
        Ok(vec![g.bmm(y, c)?])
    });
}

/// What stands beyond the last row of whole numbers is not combined.
#[test]
fn rows_of_whole_numbers_beyond_the_last() {
    check_all("rows_of_whole_numbers", |g| {
        let (x, y) = (
            g.input("x", DType::Bool, [50, 3]),
            g.input("y", DType::I64, [50, 3]),
        );
        let y = g.sub(y, 9i64)?;
        Ok(vec![
            g.all(x, &[0], false)?,
            g.any(x, &[0], true)?,
            g.amax(y, &[0], false)?,
        ])
    });
}

#[test]
fn extremes_of_booleans() {
    check_all("extremes_of_booleans", |g| {
        let x = g.input("inf", DType::Bool, [5, 40]);
        let (largest, place) = g.max_dim(x, 1, false)?;
        Ok(vec![largest, place, g.amin(x, &[0], true)?])
    });
}

/// Rows of a view that its tile reaches beyond are not in one piece: designs say so, or find another way.
#[test]
fn split_factors_of_another_shape() {
    let mut g = Graph::new("split_factors_of_another_shape");
    let (x, w) = (g.input("x", F, [35, 68]), g.weight("w", F, [20, 3]));
    let x = g.layer_norm(x, [68i64], None, None, 1e-3).unwrap();
    let x = g.reshape(x, [119i64, 20]).unwrap();
    let y = g.matmul(x, w).unwrap();
    g.output(y);
    match design(&Task::new("split", g.clone()), &many_threads()) {
        Ok(_) => check_on(&[many_threads()], g, 1e-5),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}"),
    }
}

#[test]
fn scans_of_windows_and_of_what_varies_along_nothing_else() {
    check_all("of_windows", |g| {
        let x = g.input("x", F, [7]);
        let args = [
            ("self", x.into()),
            ("dimension", 0.into()),
            ("size", 4.into()),
            ("step", 1.into()),
        ];
        let x = call(g, "unfold.default", &args)?[0];
        Ok(vec![g.cumsum(x, 1)?])
    });
    check_all("before_a_product", |g| {
        let (x, w) = (g.input("x", F, [8]), g.weight("w", F, [2, 8]));
        let sums = g.cumsum(x, -1)?;
        Ok(vec![g.linear(sums, w, None)?])
    });
}

#[test]
fn exponentials_of_booleans() {
    check_all("logsumexp", |g| {
        let x = g.input("x", DType::Bool, [3, 9]);
        Ok(vec![g.logsumexp(x, &[1], false)?])
    });
}

/// What stands beyond the last row meets itself: the infinity that a maximum ignores may turn into another, or into NaN.
#[test]
fn rows_that_meet_themselves_beyond_the_last() {
    check_all("rows_that_meet_themselves", |g| {
        let (x, y) = (g.input("x", F, [65, 3]), g.input("y", F, [0i64; 0]));
        let scaled = g.mul(x, y)?;
        let sum = g.add(x, scaled)?;
        Ok(vec![g.softmax(sum, 0)?])
    });
}

#[test]
fn places_of_a_single_element_take_the_type_of_the_graph() {
    let mut g = Graph::new("place_of_one");
    let w = g.input("w", F, [1]);
    let place = call(&mut g, "argmin.default", &[("self", w.into())]).unwrap()[0];
    let y = g.to_dtype(place, DType::BF16).unwrap();
    g.output(y);
    let design = design(
        &Task::new("place_of_one", g),
        &super::Target::new("cpu", "x86_64"),
    )
    .unwrap();
    assert!(
        design.sketch.to_string().contains("-> to: bf16[]"),
        "{}",
        design.sketch
    );
}

/// What has some of the axes of a combination cannot be stored while it is combined along the others.
#[test]
fn what_is_repeated_on_the_way_to_a_sum_is_stored_before() {
    check_all("stored_and_repeated", |g| {
        let (x, t) = (g.input("x", F, [31]), g.input("t", F, [31]));
        let y = g.mul(x, t)?;
        let rows = g.unsqueeze(y, 1)?;
        let rows = g.expand(rows, [31, 2])?;
        let z = g.layer_norm(rows, [31, 2], None, None, 1e-3)?;
        Ok(vec![y, z])
    });
    check_all("less_the_mean_of_a_product", |g| {
        let (x, y) = (g.input("x", F, [1, 1, 32]), g.input("y", F, [3, 1, 1]));
        let product = g.matmul(y, x)?;
        let mean = g.mean(product, &[], false)?;
        Ok(vec![g.sub(x, mean)?])
    });
}

/// Of places that are tiled, the number of a tile says nothing about what a window shows.
#[test]
fn taps_that_go_down_from_places() {
    check_all("phases", |g| {
        let (x, w) = (g.input("x", F, [2, 2, 1, 3]), g.weight("w", F, [2, 2, 3, 3]));
        let window = Conv {
            stride: vec![2, 1],
            padding: vec![0, 0],
            dilation: vec![1, 2],
            ..Conv::default()
        };
        Ok(vec![g.conv_transpose(x, w, None, &window, &[0, 0])?])
    });
}

/// A product without taps is no convolution, however few terms it has.
#[test]
fn products_of_few_terms() {
    for depth in [2, 3, 8, 15] {
        check_all("few", |g| {
            let (a, b) = (g.input("a", F, [2, 5, depth]), g.weight("b", F, [depth, 6]));
            let y = g.matmul(a, b)?;
            Ok(vec![g.permute(y, &[0, 2, 1])?])
        });
    }
}
