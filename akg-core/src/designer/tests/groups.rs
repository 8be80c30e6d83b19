//! Neighbouring columns of products are combined where they are computed.

use super::classes::in_class;
use super::{F, check_task, design, many_threads};
use crate::Result;
use crate::graph::{Graph, ValueId};
use crate::task::Accuracy;

/// A linear layer with what `rest` makes of its `columns`: in its kernel, or of what that stores. Results of all classes are
/// right.
#[track_caller]
fn check(together: bool, columns: i64, rest: impl Fn(&mut Graph, ValueId) -> Result<Vec<ValueId>>) {
    for (accuracy, error) in [
        (Accuracy::Fp32, 1e-5),
        (Accuracy::Tf32, 1e-2),
        (Accuracy::Half, 0.1),
    ] {
        let mut g = Graph::new("groups");
        let (x, w) = (g.input("x", F, [150, 70]), g.weight("w", F, [columns, 70]));
        let b = g.weight("b", F, [columns]);
        let y = g.linear(x, w, Some(b)).unwrap();
        for y in rest(&mut g, y).unwrap() {
            g.output(y);
        }
        let task = in_class(g, accuracy);
        let text = design(&task, &many_threads()).unwrap().sketch.to_string();
        assert_eq!(!text.contains("linear_out"), together, "{text}");
        check_task(&[many_threads()], &task, error);
    }
}

fn norm(groups: i64) -> impl Fn(&mut Graph, ValueId) -> Result<Vec<ValueId>> {
    move |g, y| {
        let columns = g.ty(y).shape[1].as_const().unwrap();
        let (weight, bias) = (g.weight("weight", F, [columns]), g.weight("bias", F, [columns]));
        Ok(vec![g.group_norm(y, groups, Some(weight), Some(bias), 1e-5)?])
    }
}

#[test]
fn norms_of_groups() {
    check(true, 256, norm(32));
    // The last tile has fewer groups.
    check(true, 320, norm(10));
    check(true, 320, norm(20));
}

/// What a kernel before computed, or what another output reads too, may be on the right.
#[test]
fn weights_that_others_read() {
    check(true, 256, |g, y| {
        let (x, w) = (g.inputs()[0].value, g.inputs()[1].value);
        let y = g.reshape(y, [150, 16, 16])?;
        let top = g.amax(y, &[2], false)?;
        let other = g.mul(w, 2.0)?;
        Ok(vec![top, g.relu(x)?, other])
    });
}

#[test]
fn groups_of_other_lengths_are_left_to_kernels_of_their_own() {
    check(false, 240, norm(20));
    check(false, 512, norm(2));
}

#[test]
fn what_groups_are_combined_to_is_stored() {
    let grouped = |g: &mut Graph, y| g.reshape(y, [150, 20, 16]);
    check(true, 320, |g, y| {
        let y = grouped(g, y)?;
        let y = g.relu(y)?;
        Ok(vec![g.amax(y, &[2], false)?])
    });
    // And what they are combined of, too.
    check(true, 320, |g, y| {
        let y = grouped(g, y)?;
        let (sum, least) = (g.sum(y, &[2], true)?, g.amin(y, &[2], true)?);
        let scaled = g.mul(y, least)?;
        Ok(vec![y, sum, scaled])
    });
}

#[test]
fn groups_that_another_kernel_combines_further_are_read_by_it() {
    check(true, 320, |g, y| {
        let y = g.reshape(y, [150, 20, 16])?;
        let top = g.amax(y, &[2], false)?;
        Ok(vec![g.sum(top, &[1], false)?])
    });
}
