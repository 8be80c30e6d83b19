//! Convolutions whose images are copied with their channels last.

use super::{F, check_task, design, many_threads};
use crate::Result;
use crate::graph::{Arg, Graph, ValueId};
use crate::target::Target;
use crate::task::{Accuracy, Task};

/// A device that launches further kernels in less time than a large image takes.
fn gpu() -> Target {
    let mut target = many_threads();
    target.launch_seconds = 5e-6;
    target
}

/// A convolution of tensors of these shapes.
fn convolution(
    g: &mut Graph,
    op: &'static str,
    [image, weight]: [&[i64]; 2],
    arguments: &[(&'static str, &[i64])],
    groups: i64,
) -> Result<ValueId> {
    let x = g.input("x", F, image.to_vec());
    let w = g.input("w", F, weight.to_vec());
    let mut all: Vec<(&str, Arg)> = vec![
        ("input", x.into()),
        ("weight", w.into()),
        ("groups", groups.into()),
    ];
    all.extend(arguments.iter().map(|(name, list)| (*name, (*list).into())));
    g.call(op, all).map(|y| y[0])
}

/// The design copies the image `copies` times and computes what the graph means, in every class.
#[track_caller]
fn holds(copies: usize, build: impl Fn(&mut Graph) -> Result<ValueId>) {
    let classes = [
        (Accuracy::Fp32, 1e-5),
        (Accuracy::Tf32, 1e-2),
        (Accuracy::Half, 8e-2),
    ];
    for (accuracy, error) in classes {
        let mut g = Graph::new("convolution");
        let y = build(&mut g).unwrap();
        g.output(y);
        let mut task = Task::new("convolution", g);
        task.contract.accuracy = accuracy;
        let text = design(&task, &gpu()).unwrap().sketch.to_string();
        let copied = text.lines().filter(|l| l.contains("_b over ")).count();
        assert_eq!(copied, copies, "{text}");
        check_task(&[gpu()], &task, error);
    }
}

/// The same for a convolution alone.
#[track_caller]
fn convolves(
    op: &'static str,
    image: &[i64],
    weight: &[i64],
    arguments: &[(&'static str, &[i64])],
    groups: i64,
) {
    holds(1, |g| convolution(g, op, [image, weight], arguments, groups));
}

#[test]
fn along_one_two_and_three_dimensions() {
    convolves(
        "conv1d.default",
        &[2, 9, 21],
        &[18, 9, 3],
        &[("padding", &[1])],
        1,
    );
    convolves(
        "conv2d.default",
        &[2, 17, 9, 11],
        &[70, 17, 3, 5],
        &[("padding", &[1, 2])],
        1,
    );
    convolves("conv3d.default", &[1, 8, 5, 6, 9], &[16, 8, 3, 2, 3], &[], 1);
}

#[test]
fn strides_dilations_and_groups() {
    convolves(
        "conv2d.default",
        &[1, 8, 11, 14],
        &[9, 8, 3, 3],
        &[("stride", &[2, 2]), ("padding", &[1, 1])],
        1,
    );
    convolves(
        "conv2d.default",
        &[2, 8, 13, 14],
        &[8, 8, 3, 2],
        &[("stride", &[3, 1]), ("dilation", &[2, 3])],
        1,
    );
    convolves(
        "conv2d.default",
        &[1, 16, 7, 19],
        &[8, 8, 5, 1],
        &[("stride", &[1, 4]), ("padding", &[4, 2])],
        2,
    );
    convolves(
        "conv1d.default",
        &[3, 24, 30],
        &[36, 8, 4],
        &[("stride", &[3]), ("padding", &[2]), ("dilation", &[2])],
        3,
    );
    convolves(
        "conv3d.default",
        &[1, 8, 5, 6, 7],
        &[8, 8, 2, 3, 2],
        &[("stride", &[2, 1, 2]), ("padding", &[1, 0, 1])],
        1,
    );
}

#[test]
fn few_channels_are_joined_with_taps() {
    convolves(
        "conv1d.default",
        &[2, 3, 40],
        &[20, 3, 5],
        &[("padding", &[2])],
        1,
    );
    convolves(
        "conv2d.default",
        &[2, 3, 17, 18],
        &[70, 3, 7, 7],
        &[("stride", &[2, 2]), ("padding", &[3, 3])],
        1,
    );
    convolves(
        "conv2d.default",
        &[1, 5, 9, 12],
        &[12, 5, 3, 1],
        &[("stride", &[2, 1]), ("dilation", &[2, 1])],
        1,
    );
    convolves(
        "conv2d.default",
        &[1, 8, 9, 12],
        &[12, 4, 3, 4],
        &[("dilation", &[1, 3])],
        2,
    );
    convolves(
        "conv3d.default",
        &[1, 3, 5, 6, 9],
        &[16, 3, 3, 2, 3],
        &[("padding", &[1, 1, 1])],
        1,
    );
    convolves(
        "conv_transpose2d.input",
        &[1, 3, 7, 6],
        &[3, 12, 3, 3],
        &[("padding", &[1, 1])],
        1,
    );
}

#[test]
fn sums_of_many_channels_have_levels() {
    convolves(
        "conv2d.default",
        &[1, 130, 6, 7],
        &[10, 130, 3, 3],
        &[("padding", &[1, 1])],
        1,
    );
}

#[test]
fn transposed_ones() {
    let op = "conv_transpose2d.input";
    convolves(op, &[1, 17, 7, 6], &[17, 12, 3, 3], &[("padding", &[1, 1])], 1);
    convolves(
        op,
        &[2, 16, 5, 6],
        &[16, 12, 4, 3],
        &[("stride", &[2, 2]), ("padding", &[1, 0])],
        1,
    );
    convolves(
        op,
        &[1, 32, 4, 6],
        &[32, 9, 2, 5],
        &[("stride", &[3, 2]), ("padding", &[0, 1])],
        2,
    );
    convolves(
        op,
        &[1, 4, 5, 6],
        &[4, 9, 3, 3],
        &[("stride", &[1, 2]), ("output_padding", &[0, 1])],
        1,
    );
    let op = "conv_transpose3d.input";
    convolves(
        op,
        &[1, 16, 3, 4, 5],
        &[16, 8, 3, 3, 3],
        &[("stride", &[2, 2, 2]), ("padding", &[1, 1, 1])],
        1,
    );
}

#[test]
fn images_that_one_window_sees_whole_are_not_copied() {
    for image in [[3, 17, 3, 5], [1, 17, 3, 5]] {
        holds(0, |g| {
            convolution(g, "conv2d.default", [&image, &[18, 17, 3, 5]], &[], 1)
        });
    }
}

#[test]
fn large_images_are_looked_through_in_parts() {
    convolves("conv1d.default", &[1, 16, 9000], &[16, 16, 3], &[], 1);
}

#[test]
fn phases_that_are_dilated_share_a_copy() {
    let arguments: [(&str, &[i64]); 2] = [("stride", &[3]), ("dilation", &[2])];
    convolves(
        "conv_transpose1d.default",
        &[2, 16, 9],
        &[16, 8, 6],
        &arguments,
        1,
    );
}

#[test]
fn results_may_lie_in_another_order() {
    holds(1, |g| {
        let y = convolution(g, "conv2d.default", [&[2, 8, 9, 10], &[12, 8, 3, 3]], &[], 1)?;
        let y = g.relu(y)?;
        g.permute(y, &[0, 2, 1, 3])
    });
}

#[test]
fn what_follows_is_part_of_it() {
    holds(1, |g| {
        let y = convolution(g, "conv2d.default", [&[2, 8, 9, 10], &[12, 8, 3, 3]], &[], 1)?;
        let bias = g.input("bias", F, [12, 1, 1]);
        let y = g.add(y, bias)?;
        let y = g.relu(y)?;
        let other = g.input("other", F, [2, 12, 7, 8]);
        g.mul(y, other)
    });
}
