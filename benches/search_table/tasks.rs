//! The tasks: small enough for the caches of one core, so that many can be timed beside each other.

use akg::graph::Conv;
use akg::task::Accuracy;
use akg::{DType, Graph, Result, Task};

const F32: DType = DType::F32;

/// A task of the benchmark.
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// The class that results are judged in.
    accuracy: Accuracy,
    build: fn(&mut Graph) -> Result<()>,
}

impl Spec {
    pub(super) fn task(&self) -> Result<Task> {
        let mut graph = Graph::new(self.name);
        (self.build)(&mut graph)?;
        let mut task = Task::new(self.name, graph);
        task.contract.accuracy = self.accuracy;
        Ok(task)
    }
}

const fn spec(name: &'static str, accuracy: Accuracy, build: fn(&mut Graph) -> Result<()>) -> Spec {
    Spec {
        name,
        accuracy,
        build,
    }
}

pub(super) const TASKS: [Spec; 11] = [
    spec("mlp", Accuracy::Fp32, |g| {
        let x = g.input("x", F32, [48, 96]);
        let [w, v] = [g.weight("w", F32, [160, 96]), g.weight("v", F32, [64, 160])];
        let h = g.linear(x, w, None)?;
        let h = g.gelu(h)?;
        let y = g.linear(h, v, None)?;
        g.output(y);
        Ok(())
    }),
    spec("gated_mlp", Accuracy::Tf32, |g| {
        let x = g.input("x", F32, [32, 96]);
        let [u, v] = ["u", "v"].map(|name| g.weight(name, F32, [128, 96]));
        let w = g.weight("w", F32, [96, 128]);
        let [a, b] = [g.linear(x, u, None)?, g.linear(x, v, None)?];
        let a = g.silu(a)?;
        let h = g.mul(a, b)?;
        let y = g.linear(h, w, None)?;
        g.output(y);
        Ok(())
    }),
    spec("linear_softmax", Accuracy::Fp32, |g| {
        let x = g.input("x", F32, [64, 128]);
        let w = g.weight("w", F32, [192, 128]);
        let b = g.weight("b", F32, [192]);
        let h = g.linear(x, w, Some(b))?;
        let y = g.softmax(h, -1)?;
        g.output(y);
        Ok(())
    }),
    spec("linear_layer_norm", Accuracy::Half, |g| {
        let x = g.input("x", F32, [64, 160]);
        let w = g.weight("w", F32, [128, 160]);
        let [scale, shift] = ["scale", "shift"].map(|name| g.weight(name, F32, [128]));
        let h = g.linear(x, w, None)?;
        let y = g.layer_norm(h, [128], Some(scale), Some(shift), 1e-5)?;
        g.output(y);
        Ok(())
    }),
    spec("norm_linear", Accuracy::Fp32, |g| {
        let x = g.input("x", F32, [64, 192]);
        let scale = g.weight("scale", F32, [192]);
        let w = g.weight("w", F32, [96, 192]);
        let h = g.rms_norm(x, [192], Some(scale), 1e-5)?;
        let h = g.linear(h, w, None)?;
        let y = g.relu(h)?;
        g.output(y);
        Ok(())
    }),
    spec("attention", Accuracy::Fp32, |g| {
        let [q, k, v] = ["q", "k", "v"].map(|name| g.input(name, F32, [2, 96, 32]));
        let y = g.attention(q, k, v, true)?;
        g.output(y);
        Ok(())
    }),
    spec("projected_attention", Accuracy::Tf32, |g| {
        let x = g.input("x", F32, [1, 64, 48]);
        let [a, b, c] = ["a", "b", "c"].map(|name| g.weight(name, F32, [48, 48]));
        let [q, k, v] = [
            g.linear(x, a, None)?,
            g.linear(x, b, None)?,
            g.linear(x, c, None)?,
        ];
        let y = g.attention(q, k, v, false)?;
        g.output(y);
        Ok(())
    }),
    spec("chain", Accuracy::Fp32, |g| {
        let a = g.input("a", F32, [64, 128]);
        let b = g.input("b", F32, [128, 64]);
        let c = g.input("c", F32, [64, 128]);
        let h = g.matmul(a, b)?;
        let y = g.matmul(h, c)?;
        g.output(y);
        Ok(())
    }),
    spec("batched_scores", Accuracy::Half, |g| {
        let a = g.input("a", F32, [4, 48, 64]);
        let b = g.input("b", F32, [4, 64, 80]);
        let h = g.matmul(a, b)?;
        let h = g.mul(h, 0.125)?;
        let h = g.tanh(h)?;
        let y = g.sum(h, &[-1], false)?;
        g.output(y);
        Ok(())
    }),
    spec("conv_pool", Accuracy::Fp32, |g| {
        let x = g.input("x", F32, [1, 8, 24, 24]);
        let w = g.weight("w", F32, [16, 8, 3, 3]);
        let b = g.weight("b", F32, [16]);
        let h = g.conv(x, w, Some(b), &Conv::default())?;
        let h = g.relu(h)?;
        let y = g.mean(h, &[2, 3], false)?;
        g.output(y);
        Ok(())
    }),
    spec("conv_conv", Accuracy::Tf32, |g| {
        let x = g.input("x", F32, [1, 6, 20, 20]);
        let w = g.weight("w", F32, [12, 6, 3, 3]);
        let v = g.weight("v", F32, [8, 12, 3, 3]);
        let h = g.conv(x, w, None, &Conv::default())?;
        let h = g.relu(h)?;
        let y = g.conv(h, v, None, &Conv::default())?;
        g.output(y);
        Ok(())
    }),
];
