//! Attention and the products that networks spell out around it.

use super::{F, check, ints, roll, select};
use crate::dtype::DType;
use crate::graph::Arg;

/// Attention over these shapes of queries, and of keys and values.
#[track_caller]
fn attention(query: &[i64], key: &[i64], mask: Option<(&[i64], DType)>, flags: &[(&'static str, bool)]) {
    check("attention", |g| {
        let query = g.input("query", F, query.to_vec());
        let (k, v) = (g.input("key", F, key.to_vec()), g.input("value", F, key.to_vec()));
        let mut all: Vec<(&str, Arg)> = vec![("query", query.into()), ("key", k.into()), ("value", v.into())];
        if let Some((shape, dtype)) = mask {
            all.push(("attn_mask", g.input("mask", dtype, shape.to_vec()).into()));
        }
        all.extend(flags.iter().map(|(name, flag)| (*name, (*flag).into())));
        g.call("scaled_dot_product_attention.default", all).map(|y| y[0])
    });
}

#[test]
fn attention_sees_what_it_may() {
    attention(&[2, 3, 10, 8], &[2, 3, 12, 8], None, &[]);
    attention(&[2, 3, 10, 8], &[2, 3, 10, 8], None, &[("is_causal", true)]);
    attention(&[2, 10, 8], &[2, 12, 8], Some((&[10, 12], F)), &[]);
    // With so few keys some rows see none.
    attention(
        &[2, 3, 10, 8],
        &[2, 3, 2, 8],
        Some((&[2, 1, 10, 2], DType::Bool)),
        &[],
    );
    attention(&[2, 6, 10, 8], &[2, 2, 12, 8], None, &[("enable_gqa", true)]);
}

#[test]
fn heads_are_cut_from_one_projection() {
    check("heads", |g| {
        let x = g.input("x", F, [2, 10, 12]);
        let w = g.input("w", F, [36, 12]);
        let y = g.call("linear.default", [("input", x.into()), ("weight", w.into())])?[0];
        let parts = g.split(y, 12, 2)?;
        let mut heads = Vec::new();
        for part in parts {
            let part = g.reshape(part, [2, 10, 3, 4])?;
            heads.push(g.transpose(part, 1, 2)?);
        }
        let keys = g.transpose(heads[1], 2, 3)?;
        let scores = g.matmul(heads[0], keys)?;
        let weights = g.softmax(scores, -1)?;
        let y = g.matmul(weights, heads[2])?;
        let y = g.transpose(y, 1, 2)?;
        g.reshape(y, [2, 10, 12])
    });
}

#[test]
fn sums_of_several_products() {
    check("sums_of_several_products", |g| {
        let (a, b) = (g.input("a", F, [2, 5, 3, 4]), g.input("b", F, [2, 6, 3, 4]));
        let (c, d) = (g.input("c", F, [2, 3, 5, 6]), g.input("d", F, [2, 6, 3, 7]));
        let operands: Vec<_> = [a, b, c, d].into_iter().map(Some).collect();
        let equation = Arg::Str("blhn,bshn,bhls,bshp->blhp".into());
        g.call(
            "einsum.default",
            [("equation", equation), ("tensors", Arg::Values(operands))],
        )
        .map(|y| y[0])
    });
}

#[test]
fn heads_of_windows_of_an_image_are_masked() {
    check("windows", |g| {
        let x = g.input("x", F, [2, 4, 4, 6]);
        let x = roll(g, x, &[-1, -1], &[1, 2])?;
        let w = g.input("w", F, [18, 6]);
        let mask = g.input("mask", F, [1, 4, 1, 4, 4]);
        let x = g.reshape(x, [2, 2, 2, 2, 2, 6])?;
        let x = g.permute(x, &[0, 1, 3, 2, 4, 5])?;
        let x = g.reshape(x, [8, 4, 6])?;
        let y = g.call("linear.default", [("input", x.into()), ("weight", w.into())])?[0];
        let y = g.reshape(y, [8, 4, 3, 2, 3])?;
        let y = g.permute(y, &[2, 0, 3, 1, 4])?;
        let (q, k) = (select(g, y, 0)?, select(g, y, 1)?);
        let squares = g.mul(q, q)?;
        let args: [(&str, Arg); 3] = [
            ("self", squares.into()),
            ("dim", ints(&[-1])),
            ("keepdim", true.into()),
        ];
        let length = g.call("sum.dim_IntList", args)?[0];
        let q = g.div(q, length)?;
        let k = g.transpose(k, -2, -1)?;
        let scores = g.matmul(q, k)?;
        let scores = g.reshape(scores, [2, 4, 2, 4, 4])?;
        let scores = g.add(scores, mask)?;
        let scores = g.reshape(scores, [8, 2, 4, 4])?;
        let weights = g.softmax(scores, -1)?;
        let v = select(g, y, 2)?;
        let y = g.matmul(weights, v)?;
        let y = g.transpose(y, 1, 2)?;
        let y = g.reshape(y, [8, 4, 6])?;
        let p = g.input("p", F, [6, 6]);
        let y = g.call("linear.default", [("input", y.into()), ("weight", p.into())])?[0];
        let y = g.reshape(y, [2, 2, 2, 2, 2, 6])?;
        let y = g.permute(y, &[0, 1, 3, 2, 4, 5])?;
        let y = g.reshape(y, [2, 4, 4, 6])?;
        roll(g, y, &[1, 1], &[1, 2])
    });
}

#[test]
fn heads_are_made_of_length_one() {
    check("lengths", |g| {
        let x = g.input("x", F, [2, 4, 12]);
        let w = g.input("w", F, [36, 12]);
        let y = g.call("linear.default", [("input", x.into()), ("weight", w.into())])?[0];
        let y = g.reshape(y, [2, 4, 3, 3, 4])?;
        let y = g.permute(y, &[2, 0, 3, 1, 4])?;
        let q = select(g, y, 0)?;
        let args: [(&str, Arg); 4] = [
            ("self", q.into()),
            ("ord", 2.0.into()),
            ("dim", ints(&[-1])),
            ("keepdim", true.into()),
        ];
        let length = g.call("linalg_vector_norm.default", args)?[0];
        let args: [(&str, Arg); 2] = [("self", length.into()), ("min", 1e-12.into())];
        let length = g.call("clamp_min.default", args)?[0];
        g.div(q, length)
    });
}
