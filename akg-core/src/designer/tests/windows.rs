//! Sliding windows: pools and convolutions.

use super::{F, check, ints};
use crate::Result;
use crate::graph::{Arg, Graph, ValueId};

/// A pool with these arguments, by name.
#[track_caller]
fn pool(
    op: &'static str,
    shape: &[i64],
    arguments: &[(&'static str, &[i64])],
    flags: &[(&'static str, bool)],
) {
    check(op, |g| {
        let x = g.input("x", F, shape.to_vec());
        let mut all: Vec<(&str, Arg)> = vec![("self", x.into())];
        all.extend(arguments.iter().map(|(name, list)| (*name, (*list).into())));
        all.extend(flags.iter().map(|(name, flag)| (*name, (*flag).into())));
        g.call(op, all).map(|y| y[0])
    });
}

#[test]
fn maxima_of_windows_that_overlap_or_leave_gaps() {
    pool(
        "max_pool1d.default",
        &[3, 4, 50],
        &[("kernel_size", &[3]), ("stride", &[1])],
        &[],
    );
    pool(
        "max_pool1d.default",
        &[2, 3, 60],
        &[
            ("kernel_size", &[4]),
            ("stride", &[2]),
            ("padding", &[2]),
            ("dilation", &[3]),
        ],
        &[],
    );
    pool(
        "max_pool2d.default",
        &[2, 3, 17, 40],
        &[
            ("kernel_size", &[3, 2]),
            ("stride", &[2, 5]),
            ("padding", &[1, 0]),
        ],
        &[],
    );
    pool(
        "max_pool3d.default",
        &[2, 9, 8, 7],
        &[
            ("kernel_size", &[3, 3, 3]),
            ("stride", &[2, 1, 3]),
            ("padding", &[1, 1, 1]),
            ("dilation", &[2, 1, 1]),
        ],
        &[],
    );
}

#[test]
fn windows_that_reach_beyond_the_end() {
    for op in ["max_pool2d.default", "avg_pool2d.default"] {
        pool(
            op,
            &[2, 3, 10, 13],
            &[("kernel_size", &[3, 3]), ("stride", &[2, 4])],
            &[("ceil_mode", true)],
        );
        pool(
            op,
            &[1, 2, 9, 12],
            &[
                ("kernel_size", &[3, 4]),
                ("stride", &[3, 3]),
                ("padding", &[1, 2]),
            ],
            &[("ceil_mode", true)],
        );
    }
}

/// On processors rows are added as they are before what is in them is combined.
#[test]
fn rows_of_some_elements_under_a_loop() {
    for op in ["max_pool2d.default", "avg_pool2d.default"] {
        for extents in [[36, 48], [40, 53]] {
            let shape = [&[2, 3][..], &extents].concat();
            pool(op, &shape, &[("kernel_size", &[12, 12])], &[]);
        }
    }
    for (op, len) in [("sum.dim_IntList", 11), ("amax.default", 24), ("prod.dim_int", 9)] {
        check(op, |g| {
            let x = g.input("x", F, [5, 37, 70, len]);
            let dim: Arg = match op {
                "prod.dim_int" => 3.into(),
                _ => [1i64, 3][..].into(),
            };
            g.call(op, [("self", x.into()), ("dim", dim)]).map(|y| y[0])
        });
    }
}

#[test]
fn averages_count_padding_or_not() {
    for counts in [true, false] {
        let flags = [("count_include_pad", counts)];
        pool(
            "avg_pool1d.default",
            &[2, 3, 40],
            &[("kernel_size", &[5]), ("stride", &[3]), ("padding", &[2])],
            &flags,
        );
        pool(
            "avg_pool2d.default",
            &[2, 3, 9, 14],
            &[
                ("kernel_size", &[3, 4]),
                ("stride", &[1, 2]),
                ("padding", &[1, 2]),
            ],
            &flags,
        );
        pool(
            "avg_pool3d.default",
            &[2, 6, 7, 8],
            &[
                ("kernel_size", &[2, 3, 3]),
                ("stride", &[2, 1, 1]),
                ("padding", &[0, 1, 1]),
            ],
            &flags,
        );
    }
}

#[test]
fn windows_over_a_dimension_of_one_element() {
    pool(
        "max_pool2d.default",
        &[2, 3, 1, 20],
        &[
            ("kernel_size", &[3, 3]),
            ("stride", &[1, 1]),
            ("padding", &[1, 1]),
        ],
        &[],
    );
    pool(
        "avg_pool2d.default",
        &[2, 3, 5, 6],
        &[("kernel_size", &[5, 3]), ("stride", &[1, 1])],
        &[],
    );
}

#[test]
fn pools_of_pools_and_of_what_kernels_compute() {
    check("pools_of_pools", |g| {
        let x = g.input("x", F, [2, 3, 20, 22]);
        let x = g.relu(x)?;
        let window = |g: &mut Graph, x: ValueId| {
            let (kernel, stride): (&[i64], &[i64]) = (&[3, 3], &[2, 2]);
            g.call(
                "max_pool2d.default",
                [
                    ("self", x.into()),
                    ("kernel_size", kernel.into()),
                    ("stride", stride.into()),
                ],
            )
            .map(|y| y[0])
        };
        let y = window(g, x)?;
        let y = window(g, y)?;
        g.tanh(y)
    });
}

/// A convolution with these arguments, and a bias.
#[track_caller]
fn conv(
    op: &'static str,
    x: &[i64],
    weight: &[i64],
    channels: i64,
    arguments: &[(&'static str, &[i64])],
    groups: i64,
) {
    check(op, |g| {
        let x = g.input("x", F, x.to_vec());
        let weight = g.input("weight", F, weight.to_vec());
        let bias = g.input("bias", F, [channels]);
        let mut all: Vec<(&str, Arg)> = vec![
            ("input", x.into()),
            ("weight", weight.into()),
            ("bias", bias.into()),
        ];
        all.extend(arguments.iter().map(|(name, list)| (*name, (*list).into())));
        all.push(("groups", groups.into()));
        g.call(op, all).map(|y| y[0])
    });
}

#[test]
fn convolutions_of_every_geometry() {
    conv(
        "conv1d.default",
        &[2, 6, 40],
        &[5, 6, 3],
        5,
        &[("padding", &[1])],
        1,
    );
    conv(
        "conv1d.default",
        &[2, 6, 40],
        &[5, 6, 4],
        5,
        &[("stride", &[3]), ("dilation", &[2])],
        1,
    );
    conv(
        "conv2d.default",
        &[2, 5, 12, 17],
        &[7, 5, 3, 3],
        7,
        &[("padding", &[1, 1])],
        1,
    );
    conv(
        "conv2d.default",
        &[2, 5, 13, 17],
        &[4, 5, 3, 2],
        4,
        &[("stride", &[2, 1]), ("padding", &[2, 0]), ("dilation", &[1, 3])],
        1,
    );
    conv(
        "conv3d.default",
        &[2, 3, 6, 7, 8],
        &[4, 3, 3, 2, 3],
        4,
        &[("padding", &[1, 0, 1])],
        1,
    );
    conv(
        "conv2d.default",
        &[5, 12, 17],
        &[7, 5, 3, 3],
        7,
        &[("stride", &[2, 2])],
        1,
    );
}

#[test]
fn convolutions_of_many_channels_and_few_places() {
    for rows in [48, 100, 128] {
        conv(
            "conv2d.default",
            &[2, 32, 5, 5],
            &[rows, 32, 3, 3],
            rows,
            &[("padding", &[1, 1])],
            1,
        );
    }
}

#[test]
fn taps_that_miss_the_image_are_left_out() {
    let x = [1, 32, 3, 5, 6];
    let wide: [&[(&str, &[i64])]; 4] = [
        &[("padding", &[2, 1, 1])],
        &[("padding", &[2, 2, 0]), ("stride", &[2, 1, 1])],
        &[("padding", &[3, 1, 1]), ("dilation", &[2, 1, 1])],
        &[
            ("padding", &[4, 2, 2]),
            ("dilation", &[3, 2, 1]),
            ("stride", &[3, 1, 2]),
        ],
    ];
    for arguments in wide {
        conv("conv3d.default", &x, &[20, 32, 3, 3, 3], 20, arguments, 1);
    }
    let transposed: [&[(&str, &[i64])]; 4] = [
        &[],
        &[("padding", &[1, 1, 0])],
        &[("dilation", &[2, 1, 1])],
        &[
            ("stride", &[2, 1, 1]),
            ("dilation", &[2, 1, 1]),
            ("padding", &[1, 0, 0]),
        ],
    ];
    for arguments in transposed {
        let weight = [32, 20, 5, 3, 3];
        conv("conv_transpose3d.input", &x, &weight, 20, arguments, 1);
    }
}

#[test]
fn convolutions_by_group_and_by_channel() {
    conv(
        "conv2d.default",
        &[2, 6, 9, 10],
        &[8, 3, 3, 3],
        8,
        &[("padding", &[1, 1])],
        2,
    );
    conv(
        "conv2d.default",
        &[2, 6, 9, 10],
        &[6, 1, 3, 3],
        6,
        &[("padding", &[1, 1])],
        6,
    );
    conv(
        "conv2d.default",
        &[2, 6, 9, 10],
        &[12, 1, 3, 2],
        12,
        &[("stride", &[2, 1])],
        6,
    );
    conv("conv2d.default", &[2, 1, 9, 10], &[5, 1, 3, 3], 5, &[], 1);
    conv(
        "conv2d.default",
        &[2, 5, 9, 10],
        &[1, 5, 3, 3],
        1,
        &[("padding", &[1, 0])],
        1,
    );
}

#[test]
fn convolutions_wider_than_their_image() {
    let arguments: [(&str, &[i64]); 2] = [("padding", &[2]), ("dilation", &[2])];
    conv("conv1d.default", &[2, 6, 4], &[5, 6, 4], 5, &arguments, 1);
}

#[test]
fn convolutions_of_single_points() {
    conv("conv2d.default", &[2, 6, 9, 10], &[8, 6, 1, 1], 8, &[], 1);
    conv(
        "conv2d.default",
        &[2, 6, 9, 10],
        &[8, 6, 1, 1],
        8,
        &[("stride", &[2, 3])],
        1,
    );
    conv(
        "conv2d.default",
        &[2, 6, 9, 10],
        &[8, 6, 1, 3],
        8,
        &[("padding", &[0, 1])],
        1,
    );
    conv("conv2d.default", &[2, 6, 1, 10], &[8, 6, 1, 3], 8, &[], 1);
}

#[test]
fn convolutions_of_a_dimension_of_one_element() {
    for op in ["conv2d.default", "conv_transpose2d.input"] {
        conv(op, &[2, 6, 1, 10], &[6, 6, 3, 3], 6, &[("padding", &[1, 1])], 1);
        conv(
            op,
            &[2, 6, 1, 1],
            &[6, 6, 3, 3],
            6,
            &[("stride", &[2, 2]), ("padding", &[1, 1])],
            1,
        );
    }
}

#[test]
fn convolutions_padded_by_name() {
    for padding in ["same", "valid"] {
        check("named", |g| {
            let x = g.input("x", F, [2, 4, 11, 12]);
            let weight = g.input("weight", F, [5, 4, 3, 4]);
            g.call(
                "conv2d.padding",
                [
                    ("input", x.into()),
                    ("weight", weight.into()),
                    ("padding", Arg::Str(padding.into())),
                ],
            )
            .map(|y| y[0])
        });
    }
}

#[test]
fn transposed_convolutions_of_every_geometry() {
    conv("conv_transpose1d.default", &[2, 6, 20], &[6, 5, 3], 5, &[], 1);
    conv(
        "conv_transpose1d.default",
        &[2, 6, 20],
        &[6, 5, 5],
        5,
        &[("stride", &[3]), ("padding", &[1])],
        1,
    );
    conv(
        "conv_transpose1d.default",
        &[2, 6, 20],
        &[6, 5, 4],
        5,
        &[
            ("stride", &[2]),
            ("dilation", &[3]),
            ("padding", &[2]),
            ("output_padding", &[1]),
        ],
        1,
    );
    // Some results meet no tap: the kernel is shorter than the stride, or both are even.
    conv(
        "conv_transpose1d.default",
        &[2, 6, 20],
        &[6, 5, 2],
        5,
        &[("stride", &[4])],
        1,
    );
    conv(
        "conv_transpose1d.default",
        &[2, 6, 20],
        &[6, 5, 3],
        5,
        &[("stride", &[2]), ("dilation", &[2])],
        1,
    );
    conv(
        "conv_transpose2d.input",
        &[2, 4, 7, 8],
        &[4, 3, 3, 4],
        3,
        &[
            ("stride", &[2, 3]),
            ("padding", &[1, 0]),
            ("output_padding", &[1, 2]),
        ],
        1,
    );
    conv(
        "conv_transpose2d.input",
        &[2, 4, 7, 8],
        &[4, 3, 3, 3],
        6,
        &[("stride", &[2, 1])],
        2,
    );
    conv(
        "conv_transpose2d.input",
        &[2, 4, 7, 8],
        &[4, 1, 3, 3],
        4,
        &[("stride", &[2, 2]), ("padding", &[1, 1])],
        4,
    );
    conv(
        "conv_transpose2d.input",
        &[2, 4, 7, 8],
        &[4, 3, 3, 3],
        3,
        &[("stride", &[5, 5]), ("padding", &[1, 1]), ("dilation", &[2, 2])],
        1,
    );
    conv(
        "conv_transpose3d.input",
        &[1, 3, 4, 5, 6],
        &[3, 4, 3, 2, 3],
        4,
        &[
            ("stride", &[2, 1, 2]),
            ("padding", &[1, 0, 1]),
            ("output_padding", &[1, 0, 1]),
        ],
        1,
    );
}

#[test]
fn convolutions_with_what_follows() {
    check("convolutions_with_what_follows", |g| {
        let x = g.input("x", F, [2, 4, 12, 12]);
        let (w, v) = (g.input("w", F, [6, 4, 3, 3]), g.input("v", F, [5, 6, 3, 3]));
        let pad: &[i64] = &[1, 1];
        let call = [("input", x.into()), ("weight", w.into()), ("padding", pad.into())];
        let y = g.call("conv2d.default", call)?[0];
        let y = g.relu(y)?;
        let (kernel, stride): (&[i64], &[i64]) = (&[2, 2], &[2, 2]);
        let call = [
            ("self", y.into()),
            ("kernel_size", kernel.into()),
            ("stride", stride.into()),
        ];
        let y = g.call("max_pool2d.default", call)?[0];
        let call = [("input", y.into()), ("weight", v.into()), ("padding", pad.into())];
        let y = g.call("conv2d.default", call)?[0];
        g.tanh(y)
    });
}

/// What `follow` makes of a convolution, some channels of which there are few places for, and of one that sees single points.
#[track_caller]
fn of_channels(name: &str, follow: impl Fn(&mut Graph, ValueId) -> Result<ValueId>) {
    for (taps, channels) in [(3, 128), (3, 20), (1, 48)] {
        check(name, |g| {
            let x = g.input("x", F, [2, 32, 7, 6]);
            let w = g.input("w", F, [channels, 32, taps, taps]);
            let y = g.call("conv2d.default", [("input", x.into()), ("weight", w.into())])?[0];
            follow(g, y)
        });
    }
}

#[test]
fn channels_of_convolutions_are_combined() {
    of_channels("min", |g, y| {
        let call = [("self", y.into()), ("dim", ints(&[1])), ("keepdim", true.into())];
        let least = g.call("amin.default", call)?[0];
        g.tanh(least)
    });
    of_channels("softmax", |g, y| {
        let y = g.relu(y)?;
        let call = [("self", y.into()), ("dim", 1.into())];
        let y = g.call("softmax.int", call)?[0];
        g.sigmoid(y)
    });
    of_channels("variance", |g, y| {
        let call = [("self", y.into()), ("other", 1000.0.into())];
        let y = g.call("add.Scalar", call)?[0];
        let call = [("self", y.into()), ("dim", ints(&[1]))];
        g.call("var.correction", call).map(|y| y[0])
    });
    of_channels("mean", |g, y| {
        let call = [("self", y.into()), ("dim", ints(&[1]))];
        g.call("mean.dim", call).map(|y| y[0])
    });
}

#[test]
fn shuffled_channels_are_copied() {
    check("shuffled_channels", |g| {
        let x = g.input("x", F, [2, 12, 5, 6]);
        let w = g.input("w", F, [8, 3, 1, 1]);
        let x = g.reshape(x, [2, 3, 4, 5, 6])?;
        let x = g.transpose(x, 1, 2)?;
        let x = g.reshape(x, [2, 12, 5, 6])?;
        let call = [("input", x.into()), ("weight", w.into()), ("groups", 4i64.into())];
        let y = g.call("conv2d.default", call)?[0];
        let y = g.reshape(y, [2, 2, 4, 5, 6])?;
        let y = g.transpose(y, 1, 2)?;
        let y = g.reshape(y, [2, 8, 5, 6])?;
        let v = g.input("v", F, [6, 4, 3, 3]);
        let call = [("input", y.into()), ("weight", v.into()), ("groups", 2i64.into())];
        g.call("conv2d.default", call).map(|y| y[0])
    });
}

#[test]
fn sums_of_long_parts_leave_the_rest_out() {
    check("sums_of_long_parts", |g| {
        let x = g.input("x", F, [3, 40_000]);
        let part = g.slice(x, 1, 100, 30_001, 1)?;
        g.sum(part, &[1], false)
    });
}

#[test]
fn patches_are_cut_and_mixed() {
    // Convolutions whose windows lie side by side.
    conv(
        "conv2d.default",
        &[2, 3, 12, 16],
        &[5, 3, 4, 4],
        5,
        &[("stride", &[4, 4])],
        1,
    );
    // Channels and places become rows that no factor of either divides.
    check("patches", |g| {
        let x = g.input("x", F, [2, 3, 8, 10]);
        let w = g.input("w", F, [7, 12]);
        let mut x = x;
        for (dim, size) in [(2i64, 2i64), (3, 2)] {
            let call = [
                ("self", x.into()),
                ("dimension", dim.into()),
                ("size", size.into()),
                ("step", size.into()),
            ];
            x = g.call("unfold.default", call)?[0];
        }
        let x = g.reshape(x, [2, 20, 12])?;
        g.call("linear.default", [("input", x.into()), ("weight", w.into())])
            .map(|y| y[0])
    });
}
