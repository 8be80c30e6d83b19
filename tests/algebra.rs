//! Rewritten graphs on the whole road: what is made of them is judged against the graph as given, in class `fp32`. The test
//! is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

use akg::graph::{Conv, ValueId};
use akg::source::{Held, SourceForm};
use akg::{DType, Graph, Result, Session, Task, blocking};
use libtest_mimic::{Arguments, Trial};

const F: DType = DType::F32;

type Build = fn(&mut Graph) -> Result<ValueId>;

/// Graphs, and the rule that must be among those that rewrite them.
const GRAPHS: &[(&str, &str, Build)] = &[
    ("sum_of_product", "sum-of-product-columns", |g| {
        let x = g.input("x", F, [700, 513]);
        let w = g.weight("w", F, [513, 514]);
        let y = g.matmul(x, w)?;
        let y = g.div(y, 2.0)?;
        g.sum(y, &[1], true)
    }),
    ("mean_of_linear", "sum-of-linear-features", |g| {
        let x = g.input("x", F, [700, 513]);
        let w = g.weight("w", F, [514, 513]);
        let (b, s) = (g.weight("b", F, [514]), g.weight("s", F, [514]));
        let y = g.linear(x, w, Some(b))?;
        let y = g.sub(y, s)?;
        let y = g.mean(y, &[1], true)?;
        let y = g.logsumexp(y, &[1], true)?;
        let y = g.gelu(y)?;
        g.add(y, x)
    }),
    (
        "mean_of_transposed_convolution",
        "sum-through-transposed-convolution",
        |g| {
            let x = g.input("x", F, [4, 32, 64, 64]);
            let w = g.weight("w", F, [32, 64, 3, 3]);
            let b = g.weight("b", F, [64]);
            let window = Conv {
                stride: vec![2],
                padding: vec![1],
                ..Conv::default()
            };
            let y = g.conv_transpose(x, w, Some(b), &window, &[1])?;
            let y = g.mul(y, 0.5)?;
            let y = g.mean(y, &[2, 3], true)?;
            g.mean(y, &[2, 3], true)
        },
    ),
    (
        "mean_of_one_axis_of_three",
        "sum-through-transposed-convolution",
        |g| {
            let x = g.input("x", F, [2, 16, 32, 32, 32]);
            let w = g.weight("w", F, [16, 32, 3, 3, 3]);
            let window = Conv {
                padding: vec![1],
                ..Conv::default()
            };
            let y = g.conv_transpose(x, w, None, &window, &[0])?;
            let y = g.mean(y, &[2], true)?;
            let y = g.softmax(y, 1)?;
            g.tanh(y)
        },
    ),
];

fn main() {
    akg::worker::init();
    let trials = GRAPHS.iter().map(|(name, rule, build)| {
        Trial::test(*name, || {
            verify(name, rule, *build);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn verify(name: &str, rule: &str, build: Build) {
    let mut graph = Graph::new(name);
    let y = build(&mut graph).unwrap();
    graph.output(y);
    let registry = akg::registry();
    let session = Session::new(registry.dsl("cpp").unwrap(), registry.backend("cpu").unwrap())
        .with_algebra(true)
        .with_timing(None);
    let outcome = blocking::run(&session, &Task::new(name, graph)).unwrap();
    let Some(best) = outcome.best() else {
        panic!("{:?}\n{}", outcome.failure(), outcome.sketch);
    };
    assert!(
        outcome.rules.iter().any(|r| r.name == rule),
        "{:?}",
        outcome.rules
    );
    let SourceForm::Lowered { plan } = &best.source.form else {
        panic!("a module has no plan");
    };
    let mut held = plan.tensors.iter().filter_map(|t| t.holds.as_ref());
    assert!(held.all(|h| matches!(h, Held::Rewritten { .. })));
}
