//! The whole road for each family that the rules know: graph, sketch, C++, verdict in class `fp32`. Shapes are small and
//! awkward. The test is its own worker, hence a `main` of its own.
#![expect(clippy::unwrap_used, clippy::panic, reason = "this is a test")]

use akg::graph::ValueId;
use akg::{DType, Graph, Result, Session, Task, blocking};
use libtest_mimic::{Arguments, Trial};

const F: DType = DType::F32;

type Build = fn(&mut Graph) -> Result<ValueId>;

const FAMILIES: &[(&str, Build)] = &[
    ("activations", |g| {
        let x = g.input("x", F, [33, 257]);
        let parts = [
            g.sigmoid(x)?,
            g.tanh(x)?,
            g.gelu(x)?,
            g.softplus(x)?,
            g.silu(x)?,
            g.elu(x, 1.0)?,
        ];
        parts
            .into_iter()
            .skip(1)
            .try_fold(parts[0], |sum, part| g.add(sum, part))
    }),
    ("clamps", |g| {
        let x = g.input("x", F, [1000]);
        let a = g.hardtanh(x, -1.0, 1.0)?;
        let b = g.leaky_relu(x, 0.01)?;
        let y = g.mul(a, b)?;
        g.relu(y)
    }),
    ("half_precision", |g| {
        let x = g.input("x", DType::F16, [40, 100]);
        let y = g.mul(x, 0.5)?;
        g.exp(y)
    }),
    ("broadcast", |g| {
        let x = g.input("x", F, [7, 5, 40]);
        let b = g.input("b", F, [5, 1]);
        let y = g.mul(x, b)?;
        g.transpose(y, 0, 2)
    }),
    ("sum_inner", |g| {
        let x = g.input("x", F, [9, 10007]);
        g.sum(x, &[1], false)
    }),
    ("mean_middle", |g| {
        let x = g.input("x", F, [6, 130, 77]);
        g.mean(x, &[1], true)
    }),
    ("max_outer", |g| {
        let x = g.input("x", F, [130, 77]);
        Ok(g.max_dim(x, 0, false)?.0)
    }),
    ("argmax", |g| {
        let x = g.input("x", F, [6, 130, 77]);
        g.argmax(x, 1)
    }),
    ("argmin_long", |g| {
        let x = g.input("x", F, [3, 10007]);
        g.argmin(x, 1)
    }),
    ("softmax", |g| {
        let x = g.input("x", F, [19, 1003]);
        g.softmax(x, 1)
    }),
    ("log_softmax_long", |g| {
        let x = g.input("x", F, [3, 10007]);
        g.log_softmax(x, 1)
    }),
    ("layer_norm", |g| {
        let x = g.input("x", F, [12, 300]);
        let w = g.weight("w", F, [300]);
        let b = g.weight("b", F, [300]);
        g.layer_norm(x, [300], Some(w), Some(b), 1e-5)
    }),
    ("group_norm", |g| {
        let x = g.input("x", F, [3, 8, 15, 6]);
        let w = g.weight("w", F, [8]);
        let b = g.weight("b", F, [8]);
        g.group_norm(x, 4, Some(w), Some(b), 1e-5)
    }),
    ("linear_with_tail", |g| {
        let x = g.input("x", F, [67, 530]);
        let w = g.weight("w", F, [101, 530]);
        let b = g.weight("b", F, [101]);
        let y = g.linear(x, w, Some(b))?;
        g.gelu(y)
    }),
    ("long_product", |g| {
        let a = g.input("a", F, [33, 20011]);
        let b = g.input("b", F, [20011, 17]);
        g.matmul(a, b)
    }),
    ("batched_product", |g| {
        let a = g.input("a", F, [3, 65, 130]);
        let b = g.input("b", F, [3, 130, 70]);
        g.bmm(a, b)
    }),
    ("transposed_product", |g| {
        let a = g.input("a", F, [130, 65]);
        let b = g.input("b", F, [70, 130]);
        let (a, b) = (g.transpose(a, 0, 1)?, g.transpose(b, 0, 1)?);
        let y = g.matmul(a, b)?;
        g.tril(y, 0)
    }),
    ("matrix_vector", |g| {
        let a = g.input("a", F, [65, 10007]);
        let b = g.input("b", F, [10007, 1]);
        g.matmul(a, b)
    }),
    ("several_kernels", |g| {
        let x = g.input("x", F, [33, 64]);
        let w = g.weight("w", F, [64, 64]);
        let h = g.linear(x, w, None)?;
        let h = g.softmax(h, -1)?;
        let y = g.linear(h, w, None)?;
        g.add(y, x)
    }),
];

fn main() {
    akg::worker::init();
    let trials = FAMILIES.iter().map(|(name, build)| {
        Trial::test(*name, || {
            verify(name, *build);
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit();
}

fn verify(name: &str, build: Build) {
    let mut graph = Graph::new(name);
    let y = build(&mut graph).unwrap();
    graph.output(y);
    let registry = akg::registry();
    let session =
        Session::new(registry.dsl("cpp").unwrap(), registry.backend("cpu").unwrap()).with_timing(None);
    let outcome = blocking::run(&session, &Task::new(name, graph)).unwrap();
    if let Some(failure) = outcome.failure() {
        panic!("{failure:?}\n{}", outcome.sketch);
    }
    let first = outcome.attempts.first().and_then(|a| a.verdict.failure.as_ref());
    assert_eq!(
        first, None,
        "the designer's choice failed first\n{}",
        outcome.sketch
    );
}
