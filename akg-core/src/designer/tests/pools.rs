//! Pools whose windows overlap, differ in length, or say where their maxima are.

use super::{F, check, ints};
use crate::Result;
use crate::graph::{Arg, Graph, ValueId};

/// Result number `result` of a pool.
fn pool(g: &mut Graph, op: &str, shape: &[i64], args: &[(&str, Arg)], result: usize) -> Result<ValueId> {
    let x = g.input("x", F, shape.to_vec());
    let given = [("self", x.into())].into_iter().chain(args.iter().cloned());
    g.call(op, given).map(|y| y[result])
}

#[test]
fn adaptive_pools_see_windows_of_different_lengths() {
    let cases: [(&str, &[i64], &[i64], usize); 6] = [
        ("adaptive_avg_pool1d.default", &[2, 3, 10], &[7], 1),
        ("adaptive_avg_pool2d.default", &[2, 3, 7, 10], &[3, 4], 1),
        ("_adaptive_avg_pool3d.default", &[3, 5, 4, 7], &[2, 3, 5], 1),
        ("adaptive_max_pool1d.default", &[2, 3, 10], &[4], 2),
        ("adaptive_max_pool2d.default", &[2, 3, 7, 10], &[3, 4], 2),
        ("adaptive_max_pool3d.default", &[3, 5, 4, 7], &[2, 3, 5], 2),
    ];
    for (op, shape, sizes, results) in cases {
        for result in 0..results {
            check(op, |g| {
                pool(g, op, shape, &[("output_size", ints(sizes))], result)
            });
        }
    }
}

#[test]
fn pools_say_where_their_maxima_are() {
    /// Kernel, stride, padding and dilation.
    type Geometry = [&'static [i64]; 4];
    let cases: [(&str, &[i64], Geometry); 4] = [
        (
            "max_pool2d_with_indices.default",
            &[2, 3, 9, 12],
            [&[3, 2], &[2, 2], &[1, 1], &[1, 1]],
        ),
        (
            "max_pool2d_with_indices.default",
            &[3, 8, 8],
            [&[2, 2], &[2, 2], &[0, 0], &[1, 1]],
        ),
        (
            "max_pool2d_with_indices.default",
            &[1, 2, 11, 9],
            [&[3, 3], &[1, 2], &[0, 1], &[2, 1]],
        ),
        (
            "max_pool3d_with_indices.default",
            &[2, 5, 6, 7],
            [&[2, 3, 2], &[1, 2, 2], &[0, 1, 1], &[1, 1, 1]],
        ),
    ];
    for (op, shape, [kernel, stride, padding, dilation]) in cases {
        let args = [
            ("kernel_size", ints(kernel)),
            ("stride", ints(stride)),
            ("padding", ints(padding)),
            ("dilation", ints(dilation)),
        ];
        for result in 0..2 {
            check(op, |g| pool(g, op, shape, &args, result));
        }
    }
}
