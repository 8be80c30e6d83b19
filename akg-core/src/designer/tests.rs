//! The sketches that the rules write, as golden texts.

use super::draft;
use crate::graph::Graph;
use crate::{DType, Result};

const F: DType = DType::F32;

fn text(name: &str, build: impl FnOnce(&mut Graph) -> Result<()>) -> String {
    let mut g = Graph::new(name);
    build(&mut g).unwrap();
    draft(&g).map_or_else(|e| format!("{e:?}"), |d| d.0)
}

fn unary(
    shape: &[i64],
    f: impl FnOnce(&mut Graph, crate::graph::ValueId) -> Result<crate::graph::ValueId>,
) -> String {
    text("unary", |g| {
        let x = g.input("x", F, shape.iter().copied());
        let y = f(g, x)?;
        g.output(y);
        Ok(())
    })
}

#[test]
fn show() {
    println!("{}", unary(&[4096, 393216], |g, x| g.gelu(x)));
    println!("{}", unary(&[64, 1000], |g, x| g.softmax(x, -1)));
    println!("{}", unary(&[64, 100000], |g, x| g.softmax(x, -1)));
    println!("{}", unary(&[64, 100003], |g, x| g.softmax(x, -1)));
    println!("{}", unary(&[16, 256, 300], |g, x| g.softmax(x, 1)));
    println!("{}", unary(&[16, 256, 300], |g, x| g.sum(x, &[1], true)));
    println!("{}", unary(&[16, 256, 300], |g, x| g.mean(x, &[2], false)));
    println!("{}", unary(&[16, 256, 300], |g, x| g.argmax(x, 1)));
    println!("{}", unary(&[16, 30000], |g, x| g.argmax(x, 1)));
    println!("{}", unary(&[16, 256, 30], |g, x| Ok(g.max_dim(x, 1, false)?.0)));
    println!(
        "{}",
        unary(&[128, 768], |g, x| {
            let y = g.transpose(x, 0, 1)?;
            g.relu(y)
        })
    );
    println!(
        "{}",
        unary(&[8, 64, 32, 32], |g, x| {
            let w = g.weight("w", F, [64]);
            let b = g.weight("b", F, [64]);
            g.group_norm(x, 8, Some(w), Some(b), 1e-5)
        })
    );
    println!(
        "{}",
        text("mlp", |g| {
            let x = g.input("x", F, [100, 200]);
            let w = g.weight("w", F, [300, 200]);
            let b = g.weight("b", F, [300]);
            let y = g.linear(x, w, Some(b))?;
            let y = g.gelu(y)?;
            let y = g.softmax(y, -1)?;
            g.output(y);
            Ok(())
        })
    );
    println!(
        "{}",
        text("einsum", |g| {
            let x = g.input("x", F, [8, 16, 20, 32]);
            let w = g.weight("w", F, [32, 48]);
            let y = g.einsum("bijl,lk->bijk", &[x, w])?;
            g.output(y);
            Ok(())
        })
    );
    println!(
        "{}",
        text("matmuls", |g| {
            let x = g.input("x", F, [4, 64, 128]);
            let w = g.weight("w", F, [4, 128, 96]);
            let v = g.weight("v", F, [96, 128]);
            let y = g.matmul(x, w)?;
            let y = g.triu(y, 0)?;
            let z = g.transpose(v, 0, 1)?;
            let z = g.matmul(x, z)?;
            let z = g.add(z, y)?;
            g.output(z);
            Ok(())
        })
    );
}
