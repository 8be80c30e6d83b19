//! The phases of transposed convolutions lie between each other.

use super::{F, check, design, many_threads};
use crate::graph::{Conv, Graph, ValueId};
use crate::task::Task;

/// A transposed convolution of a line, or of an image if `more` has the taps along its other dimension.
fn transposed(
    g: &mut Graph,
    [taps, stride, padding, output]: [i64; 4],
    more: Option<i64>,
) -> crate::Result<ValueId> {
    let dims = 1 + usize::from(more.is_some());
    let (mut shape, mut of_weights) = (vec![2, 6], vec![6, 5]);
    shape.extend([[7, 9].as_slice()[dims - 1], 9].into_iter().take(dims));
    of_weights.extend(more.into_iter().chain([taps]));
    let (x, w) = (g.input("x", F, shape), g.weight("w", F, of_weights));
    let b = g.weight("b", F, [5]);
    let window = Conv {
        stride: vec![stride; dims],
        padding: vec![padding; dims],
        ..Conv::default()
    };
    g.conv_transpose(x, w, Some(b), &window, &vec![output; dims])
}

#[test]
fn every_stride_padding_and_number_of_taps() {
    for stride in 2..=3 {
        for taps in 2..=6 {
            for padding in 0..=taps.min(3) {
                let output = padding % stride;
                check(&format!("{taps}_{stride}_{padding}"), |g| {
                    transposed(g, [taps, stride, padding, output], None)
                });
            }
        }
    }
    check("image", |g| transposed(g, [3, 2, 1, 1], Some(5)));
    check("other_image", |g| transposed(g, [4, 2, 1, 0], Some(3)));
}

/// Where the first result is that of the first phase, what follows is part of the product.
#[test]
fn what_follows_is_done_where_results_are_made() {
    let kernels = |geometry| {
        let mut g = Graph::new("layer");
        let y = transposed(&mut g, geometry, None).unwrap();
        let y = g.relu(y).unwrap();
        g.output(y);
        let text = design(&Task::new("layer".to_owned(), g), &many_threads()).unwrap();
        text.sketch.to_string().matches("kernel k1").count()
    };
    for geometry in [[3, 2, 1, 1], [4, 2, 0, 0], [2, 2, 2, 0], [4, 3, 1, 1]] {
        assert_eq!(kernels(geometry), 0, "{geometry:?}");
    }
    assert_eq!(kernels([3, 2, 1, 0]), 1);
}

/// Phases are the last dimensions of weights, and no rows of their factors.
#[test]
fn a_tap_for_each_phase() {
    check("pointwise", |g| {
        let (x, w) = (g.input("x", F, [2, 40, 5, 6]), g.weight("w", F, [40, 9, 2, 2]));
        let window = Conv {
            stride: vec![2, 2],
            padding: vec![0, 0],
            ..Conv::default()
        };
        g.conv_transpose(x, w, None, &window, &[0, 0])
    });
}
