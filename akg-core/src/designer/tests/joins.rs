//! Tensors that are put side by side.

use super::{F, check_on, design, many_threads};
use crate::Result;
use crate::graph::{Graph, ValueId};
use crate::target::Target;
use crate::task::Task;

/// A layer of a product of `x`, whose columns are normalised over all else.
fn layer(g: &mut Graph, x: ValueId, channels: i64, name: &str) -> Result<ValueId> {
    let w = g.weight(name, F, [30, 30]);
    let mean = g.mean(x, &[0, 2], true)?;
    let square = g.mul(x, x)?;
    let square = g.mean(square, &[0, 2], true)?;
    let variance = g.mul(mean, mean)?;
    let variance = g.sub(square, variance)?;
    let centred = g.sub(x, mean)?;
    let scale = g.add(variance, 0.1)?;
    let scale = g.rsqrt(scale)?;
    let y = g.mul(centred, scale)?;
    let y = g.relu(y)?;
    let y = g.slice(y, 1, channels - 8, channels, 1)?;
    g.linear(y, w, None)
}

/// Layers that read what all layers before computed, side by side.
fn block() -> Graph {
    let mut g = Graph::new("block");
    let x = g.input("x", F, [4, 8, 30]);
    let mut build = || -> Result<ValueId> {
        let y = layer(&mut g, x, 8, "first")?;
        let joined = g.cat(&[x, y], 1)?;
        let z = layer(&mut g, joined, 16, "second")?;
        g.cat(&[x, y, z], 1)
    };
    let joined = build().unwrap();
    g.output(joined);
    g
}

/// Both statistics of joined tensors are taken in one kernel, though it sees those in other extents than they are stored in.
#[test]
fn statistics_share_a_kernel() {
    let text = design(&Task::new("block", block()), &Target::new("cpu", "x86_64"))
        .unwrap()
        .sketch
        .to_string();
    let kernels = text.split("kernel ").skip(1);
    let sums = kernels.map(|kernel| kernel.matches("reduce_sum").count());
    assert_eq!(
        sums.filter(|count| *count > 0).collect::<Vec<_>>(),
        [2, 2],
        "{text}"
    );
}

#[test]
fn results_are_right() {
    check_on(&[Target::new("cpu", "x86_64"), many_threads()], block(), 1e-5);
}

/// Layers that read what all layers before computed, more of them than a kernel should choose among.
fn long_block() -> Graph {
    let mut g = Graph::new("long_block");
    let x = g.input("x", F, [4, 8, 30]);
    let mut build = || -> Result<ValueId> {
        let (mut all, mut joined) = (vec![x], x);
        for i in 1..10 {
            let new = layer(&mut g, joined, 8 * i, &format!("w{i}"))?;
            all.push(new);
            joined = g.cat(&all, 1)?;
        }
        Ok(joined)
    };
    let joined = build().unwrap();
    g.output(joined);
    g.with_growing_joins()
}

/// What many layers read is stored side by side once: no kernel chooses among more than a few tensors.
#[test]
fn what_grows_is_joined_once() {
    for target in [Target::new("cpu", "x86_64"), many_threads()] {
        let text = design(&Task::new("long_block", long_block()), &target)
            .unwrap()
            .sketch
            .to_string();
        let kernels = text.split("\nkernel ").skip(1);
        let choices = kernels.map(|kernel| kernel.matches("select(").count());
        assert!(choices.max() <= Some(2 * 6), "{text}");
    }
    check_on(
        &[Target::new("cpu", "x86_64"), many_threads()],
        long_block(),
        1e-5,
    );
}
