//! Matrix products and attention.

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::ValueId;

use super::grow::{Grower, WORK, closed};

/// A factor of this shape: a value of the graph, the transpose of one, or a new weight.
fn factor(g: &mut Grower, dtype: DType, shape: &[i64], fan_in: i64) -> Result<ValueId> {
    let mut turned = shape.to_vec();
    let rank = turned.len();
    if rank >= 2 {
        turned.swap(rank - 1, rank - 2);
    }
    let old = g.value(|g, v| g.dtype(v) == dtype && (g.shape(v) == shape || g.shape(v) == turned));
    let is_turned = g.chance(0.4);
    let value = match old {
        Ok(old) if g.chance(0.5) => old,
        _ => g.weight(dtype, if is_turned { &turned } else { shape }, fan_in)?,
    };
    if g.shape(value) == shape {
        Ok(value)
    } else {
        g.graph.transpose(value, -1, -2)
    }
}

/// Columns for so many rows of so many elements.
fn columns(g: &mut Grower, rows: i64, inner: i64) -> Result<i64> {
    let most = (WORK / (rows * inner).max(1)).min(3000 / rows.max(1));
    let columns = g.extent();
    if most < 1 { closed() } else { Ok(columns.min(most)) }
}

pub(super) fn product(g: &mut Grower) -> Result<()> {
    let x = g.float(1, 4)?;
    let (shape, dtype) = (g.shape(x), g.dtype(x));
    let Some((inner, before)) = shape.split_last() else {
        return closed();
    };
    let rows: i64 = before.iter().product();
    let n = columns(g, rows, *inner)?;
    match g.below(8) {
        0..3 => {
            let w = factor(g, dtype, &[n, *inner], *inner)?;
            let bias = if g.chance(0.5) {
                Some(g.weight(dtype, &[n], 1)?)
            } else {
                None
            };
            g.graph.linear(x, w, bias).map(drop)
        }
        3 | 4 => {
            let mut right = g.narrower(before);
            if !right.is_empty() {
                right.pop();
            }
            right.extend([*inner, n]);
            let w = factor(g, dtype, &right, *inner)?;
            g.graph.matmul(x, w).map(drop)
        }
        5 => {
            // The product with something turned, such as a Gram matrix.
            let [.., m, k] = shape.as_slice() else {
                return closed();
            };
            // Long sums of squares lose more in plain f32 than the class allows.
            if rows * m * k > WORK || *m.max(k) > 8 {
                return closed();
            }
            let y = g.graph.transpose(x, -1, -2)?;
            if g.chance(0.5) {
                g.graph.matmul(x, y)
            } else {
                g.graph.matmul(y, x)
            }
            .map(drop)
        }
        6 => match before {
            [m] => {
                let (w, c) = (factor(g, dtype, &[*inner, n], *inner)?, g.narrower(&[*m, n]));
                let c = g.weight(dtype, &c, 1)?;
                let args = [
                    ("self", c.into()),
                    ("mat1", x.into()),
                    ("mat2", w.into()),
                    ("beta", g.pick(&[1.0, 0.5])?.into()),
                    ("alpha", g.pick(&[1.0, 2.0])?.into()),
                ];
                g.call("addmm.default", args).map(drop)
            }
            [b, _] => {
                let w = factor(g, dtype, &[*b, *inner, n], *inner)?;
                g.graph.bmm(x, w).map(drop)
            }
            _ => {
                let w = factor(g, dtype, &[*inner], *inner)?;
                g.graph.matmul(x, w).map(drop)
            }
        },
        _ => einsum(g, x, n),
    }
}

fn einsum(g: &mut Grower, x: ValueId, n: i64) -> Result<()> {
    let (shape, dtype) = (g.shape(x), g.dtype(x));
    let (equation, other) = match shape.as_slice() {
        [m, k] => g.pick(&[
            ("ab,bc->ca", vec![*k, n]),
            ("ab,ab->a", vec![*m, *k]),
            ("ab,cb->ac", vec![n, *k]),
            ("ab,c->abc", vec![5]),
        ])?,
        [b, m, k] => g.pick(&[
            ("abc,cd->adb", vec![*k, n]),
            ("abc,abd->acd", vec![*b, *m, n]),
            ("abc,acd->abd", vec![*b, *k, n]),
        ])?,
        [_, h, _, k] => g.pick(&[("abcd,de->abce", vec![*k, n]), ("abcd,bd->ac", vec![*h, *k])])?,
        _ => return closed(),
    };
    let fan_in = shape.last().copied().unwrap_or(1);
    let y = g.weight(dtype, &other, fan_in)?;
    g.graph.einsum(equation, &[x, y]).map(drop)
}

pub(super) fn attention(g: &mut Grower) -> Result<()> {
    let dtype = DType::F32;
    let q = match g.value(|g, v| g.dtype(v) == dtype && (2..=4).contains(&g.rank(v))) {
        Ok(q) if g.chance(0.5) => q,
        _ => {
            let shape = [
                1 + g.below(3),
                1 + g.below(4),
                g.extent().min(33),
                g.pick(&[4, 8, 15, 16, 32])?,
            ];
            g.input("q", dtype, &shape)?
        }
    };
    let shape = g.shape(q);
    let [batch @ .., rows, width] = shape.as_slice() else {
        return closed();
    };
    let causal = g.chance(0.3);
    let columns = if g.chance(0.5) { *rows } else { g.extent().min(65) };
    if batch.iter().product::<i64>() * rows * columns * width > WORK {
        return closed();
    }
    let with = |last: [i64; 2]| [batch, &last].concat();
    let k = g.input("k", dtype, &with([columns, *width]))?;
    let v = if g.chance(0.3) {
        k
    } else {
        g.input("v", dtype, &with([columns, *width]))?
    };
    if causal || g.chance(0.6) {
        return g.graph.attention(q, k, v, causal).map(drop);
    }
    let mask = g.narrower(&with([*rows, columns]));
    let mask = if g.chance(0.5) {
        g.input("m", dtype, &mask)?
    } else {
        g.input("m", DType::Bool, &mask)?
    };
    let args = [
        ("query", q.into()),
        ("key", k.into()),
        ("value", v.into()),
        ("attn_mask", mask.into()),
        ("scale", g.pick(&[0.125, 0.3])?.into()),
    ];
    g.call("scaled_dot_product_attention.default", args).map(drop)
}
