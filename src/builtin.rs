//! Tasks that need no file: `builtin:softmax`.

use akg_core::error::ErrorKind;
use akg_core::{DType, Error, Graph, Result, Task};

/// A built-in task.
struct Builtin {
    name: &'static str,
    about: &'static str,
    build: fn(&mut Graph) -> Result<()>,
}

const F32: DType = DType::F32;

const BUILTINS: &[Builtin] = &[
    Builtin {
        name: "gelu",
        about: "element-wise GELU of f32[4096, 4096]",
        build: |g| {
            let x = g.input("x", F32, [4096, 4096]);
            let y = g.gelu(x)?;
            g.output(y);
            Ok(())
        },
    },
    Builtin {
        name: "softmax",
        about: "softmax over the last axis of f32[4096, 4096]",
        build: |g| {
            let x = g.input("x", F32, [4096, 4096]);
            let y = g.softmax(x, -1)?;
            g.output(y);
            Ok(())
        },
    },
    Builtin {
        name: "sum",
        about: "sum over the middle axis of f32[64, 1024, 512]",
        build: |g| {
            let x = g.input("x", F32, [64, 1024, 512]);
            let y = g.sum(x, &[1], false)?;
            g.output(y);
            Ok(())
        },
    },
    Builtin {
        name: "layer_norm",
        about: "layer norm over the last axis of f32[8192, 1024], with scale and shift",
        build: |g| {
            let x = g.input("x", F32, [8192, 1024]);
            let scale = g.weight("scale", F32, [1024]);
            let shift = g.weight("shift", F32, [1024]);
            let y = g.layer_norm(x, [1024], Some(scale), Some(shift), 1e-5)?;
            g.output(y);
            Ok(())
        },
    },
    Builtin {
        name: "matmul",
        about: "f32[1024, 1024] times f32[1024, 1024]",
        build: |g| {
            let a = g.input("a", F32, [1024, 1024]);
            let b = g.input("b", F32, [1024, 1024]);
            let y = g.matmul(a, b)?;
            g.output(y);
            Ok(())
        },
    },
    Builtin {
        name: "mlp",
        about: "two linear layers with a GELU between, f32[256, 1024]",
        build: |g| {
            let x = g.input("x", F32, [256, 1024]);
            let w1 = g.weight("w1", F32, [2048, 1024]);
            let b1 = g.weight("b1", F32, [2048]);
            let w2 = g.weight("w2", F32, [1024, 2048]);
            let b2 = g.weight("b2", F32, [1024]);
            let h = g.linear(x, w1, Some(b1))?;
            let h = g.gelu(h)?;
            let y = g.linear(h, w2, Some(b2))?;
            g.output(y);
            Ok(())
        },
    },
];

/// Names of the built-in tasks, each with what it computes.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    BUILTINS.iter().map(|b| (b.name, b.about))
}

/// The built-in task called `name`.
pub fn task(name: &str) -> Result<Task> {
    let builtin = BUILTINS.iter().find(|b| b.name == name).ok_or_else(|| {
        let known: Vec<_> = names().map(|(n, _)| n).collect();
        let message = format!(
            "there is no built-in task `{name}`; known are {}",
            known.join(", ")
        );
        Error::new(ErrorKind::NotFound, message)
    })?;
    let mut graph = Graph::new(builtin.name);
    (builtin.build)(&mut graph)?;
    Ok(Task::new(builtin.name, graph))
}
