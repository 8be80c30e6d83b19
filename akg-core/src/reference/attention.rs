//! Attention.

use super::array::{Array, Data, broadcast, map};
use super::invocation::{Invocation, Kernel, Results};
use super::matmul::unravel;
use super::memory::zeros;
use super::parallel::tasks;
use super::real::Real;
use super::softmax::softmax_row;
use super::strided::{Matrix, Strided};
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "scaled_dot_product_attention.default" => attention,
        _ => return None,
    };
    Some(kernel)
}

fn attention<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    if c.number("dropout_p")? != T::zero() {
        return Err(Error::unsupported(
            "dropout inside attention is random and has no reference; set dropout_p = 0",
        ));
    }
    let (query, mut key, mut value) = (c.float("query")?, c.float("key")?, c.float("value")?);
    if c.flag("enable_gqa")? {
        let heads = query.shape()[query.rank().saturating_sub(3)];
        key = share_heads(key, heads)?;
        value = share_heads(value, heads)?;
    }
    let (rows, width) = (query.shape()[query.rank() - 2], query.shape()[query.rank() - 1]);
    let (columns, depth) = (value.shape()[value.rank() - 2], value.shape()[value.rank() - 1]);
    let scale = match c.opt_number("scale")? {
        Some(scale) => scale,
        None => T::of_int(width as i64).sqrt().recip(),
    };
    let shape = c.shape(0)?;
    let batch = broadcast([&query, &key, &value].map(|x| &x.shape()[..x.rank() - 2]))?;
    let full = |rows: usize, columns: usize| [batch.as_slice(), &[rows, columns]].concat();
    let query = query.expand(&full(rows, width))?;
    let key = key
        .expand(&full(columns, width))?
        .swap(batch.len(), batch.len() + 1);
    let value = value.expand(&full(columns, depth))?;
    let causal = c.flag("is_causal")?;
    let bias = additive_mask(c.opt_array("attn_mask")?, &full(rows, columns))?;
    let bias = bias.as_ref().map(Strided::reader);

    let mut out = zeros(shape.iter().product());
    // PyTorch's kernels multiply values with probabilities of their type.
    let rounder = c.rounder()?;
    let by = c.products;
    tasks(&mut out, rows * depth, &|at, out| {
        let prefix = unravel(at, &batch);
        let mut scores = vec![T::zero(); rows * columns];
        T::product(by, &query.matrix(&prefix), &key.matrix(&prefix), &mut scores);
        let mut extra = vec![T::zero(); columns];
        for (row, scores) in scores.chunks_mut(columns.max(1)).enumerate() {
            for s in &mut *scores {
                *s *= scale;
            }
            if let Some(bias) = &bias {
                bias.read((at * rows + row) * columns, &mut extra);
                scores.iter_mut().zip(&extra).for_each(|(s, b)| *s += *b);
            }
            if causal {
                scores
                    .iter_mut()
                    .skip(row + 1)
                    .for_each(|s| *s = T::neg_infinity());
            }
            // A row that sees nothing attends to nothing.
            if scores.iter().all(|s| *s == T::neg_infinity()) {
                scores.fill(T::zero());
            } else {
                softmax_row(scores);
            }
            if let Some(rounder) = rounder {
                let places = (0..).zip(&mut *scores);
                places.for_each(|(place, s)| *s = rounder.round(*s, place));
            }
        }
        T::product(
            by,
            &Matrix::dense(&scores, rows, columns),
            &value.matrix(&prefix),
            out,
        );
    });
    Ok(vec![Array::float(c.dtype(0)?, Strided::new(shape, out))])
}

/// Repeats each head for the query heads that share it.
fn share_heads<T: Real>(x: Strided<T>, heads: usize) -> Result<Strided<T>> {
    let mut shape = x.shape().to_vec();
    let axis = shape.len() - 3;
    let repeats = heads / shape[axis].max(1);
    let mut apart = shape.clone();
    apart.insert(axis + 1, repeats);
    shape[axis] *= repeats;
    x.unsqueeze(axis + 1).expand(&apart)?.reshape(shape)
}

/// A mask as numbers to add to scores: booleans say what may be seen.
fn additive_mask<T: Real>(mask: Option<Array<T>>, shape: &[usize]) -> Result<Option<Strided<T>>> {
    let Some(mask) = mask else {
        return Ok(None);
    };
    let bias = match mask.data {
        Data::Bool(seen) => map(&seen, |seen| if seen { T::zero() } else { T::neg_infinity() }),
        _ => mask.into_float(),
    };
    bias.expand(shape).map(Some)
}
