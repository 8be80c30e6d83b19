//! Products: everything becomes a batched contraction.

use super::{Step, pointwise, view};
use crate::designer::prim::{Prim, PrimId, broadcast};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::ops::Einsum;
use crate::sketch::ir::{CompareOp, ReduceOp};

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let result = match name {
        "matmul" => {
            let (a, b) = (s.tensor("self")?, s.tensor("other")?);
            matmul(s, a, b)?
        }
        "mm" | "bmm" => {
            let (a, b) = (s.tensor("self")?, s.tensor("mat2")?);
            matmul(s, a, b)?
        }
        "mv" => {
            let (a, b) = (s.tensor("self")?, s.tensor("vec")?);
            matmul(s, a, b)?
        }
        "dot" => {
            let (a, b) = (s.tensor("self")?, s.tensor("tensor")?);
            matmul(s, a, b)?
        }
        "linear" => {
            let (x, w) = (s.tensor("input")?, s.tensor("weight")?);
            let w = s
                .prims
                .permute(w, if s.prims.rank(w) == 2 { vec![1, 0] } else { vec![0] });
            let y = matmul(s, x, w)?;
            match s.opt_tensor("bias")? {
                Some(bias) => s.prims.add(y, bias)?,
                None => y,
            }
        }
        "addmm" | "baddbmm" => {
            let (a, b) = match name {
                "addmm" => (s.tensor("mat1")?, s.tensor("mat2")?),
                _ => (s.tensor("batch1")?, s.tensor("batch2")?),
            };
            let (alpha, beta) = (s.call.number("alpha")?, s.call.number("beta")?);
            let mut y = matmul(s, a, b)?;
            if alpha != 1.0 {
                y = s.prims.mul_number(y, alpha)?;
            }
            // Without a part in the result, it may hold anything.
            if beta == 0.0 {
                y
            } else {
                let mut term = s.tensor("self")?;
                if beta != 1.0 {
                    term = s.prims.mul_number(term, beta)?;
                }
                s.prims.add(y, term)?
            }
        }
        "outer" => {
            let (a, b) = (s.tensor("self")?, s.tensor("vec2")?);
            let (rows, dtype) = (s.prims.extent(a, 0), s.dtype()?);
            let column = s.prims.reshape(a, vec![rows, Expr::constant(1)]);
            let (column, row) = (s.prims.cast(column, dtype), s.prims.cast(b, dtype));
            pointwise::product(s, column, row)?
        }
        "einsum" => einsum(s)?,
        _ => return Ok(None),
    };
    let shape = s.result(0)?.shape.clone();
    Ok(Some(vec![s.prims.reshape(result, shape)]))
}

/// `torch.matmul`: vectors are padded, batch dimensions broadcast.
fn matmul(s: &mut Step<'_>, a: PrimId, b: PrimId) -> Result<PrimId> {
    let one = Expr::constant(1);
    let (sa, sb) = (s.prims.shape(a).to_vec(), s.prims.shape(b).to_vec());
    let a = if sa.len() == 1 {
        s.prims.reshape(a, vec![one.clone(), sa[0].clone()])
    } else {
        a
    };
    let b = if sb.len() == 1 {
        s.prims.reshape(b, vec![sb[0].clone(), one])
    } else {
        b
    };
    let product = contract(s, a, b)?;
    // The caller reshapes to the result type, which drops padded dimensions.
    Ok(product)
}

/// The matrices `[batch.., M, K]` as `[batch.., K, M]`.
pub(super) fn turned(s: &mut Step<'_>, x: PrimId) -> PrimId {
    let rank = s.prims.rank(x);
    let perm = (0..rank - 2).chain([rank - 1, rank - 2]);
    s.prims.permute(x, perm.collect())
}

/// Multiplies `[batch.., M, K]` by `[batch.., K, N]` after broadcasting the batch dimensions.
pub(super) fn contract(s: &mut Step<'_>, a: PrimId, b: PrimId) -> Result<PrimId> {
    let (sa, sb) = (s.prims.shape(a).to_vec(), s.prims.shape(b).to_vec());
    let ([batch_a @ .., m, k], [batch_b @ .., kb, n]) = (sa.as_slice(), sb.as_slice()) else {
        return Err(Error::invalid("a product needs matrices"));
    };
    if k != kb {
        return Err(Error::invalid(format!(
            "cannot prove that the contracted extents `{k}` and `{kb}` are equal"
        )));
    }
    let batch = broadcast(batch_a, batch_b)?;
    let dtype = s.prims.dtype(a);
    let with = |tail: [&Expr; 2]| batch.iter().chain(tail).cloned().collect::<Vec<_>>();
    // The product with a matrix of one number is that number times sums of the other, and no kernel reads it from memory.
    for (id, other, axis) in [(a, b, sb.len() - 2), (b, a, sa.len() - 1)] {
        if let Some(number) = s.prims.constant(id) {
            let sums = s.prims.reduce(ReduceOp::Sum, other, &[axis], true);
            let scaled = s.prims.mul_number(sums, number)?;
            return Ok(s.prims.expand(scaled, with([m, n])));
        }
    }
    if m.is(1) || n.is(1) {
        // A matrix times a vector is bound by memory: rows of products and a sum.
        let b = if n.is(1) {
            s.prims
                .reshape(b, batch_b.iter().chain([n, k]).cloned().collect())
        } else {
            turned(s, b)
        };
        let products = s.prims.mul(a, b)?;
        let rank = s.prims.rank(products);
        let sums = s.prims.reduce(ReduceOp::Sum, products, &[rank - 1], false);
        return Ok(s.prims.reshape(sums, with([m, n])));
    }
    if k.is(1) {
        return s.prims.mul(a, b);
    }
    if !dtype.is_float() {
        // Units that multiply matrices have floats.
        let (rows, columns) = (s.prims.rank(a) - 1, s.prims.rank(b) - 2);
        let mut wide = sa.clone();
        wide.insert(rows, Expr::constant(1));
        let a = s.prims.reshape(a, wide);
        let b = turned(s, b);
        let mut wide = s.prims.shape(b).to_vec();
        wide.insert(columns, Expr::constant(1));
        let b = s.prims.reshape(b, wide);
        let products = s.prims.mul(a, b)?;
        let last = s.prims.rank(products) - 1;
        return Ok(s.prims.reduce(ReduceOp::Sum, products, &[last], false));
    }
    let (ea, eb) = (s.prims.expand(a, with([m, k])), s.prims.expand(b, with([k, n])));
    Ok(s.prims.push(Prim::Contract(ea, eb), dtype, with([m, n])))
}

/// Einsum: by products of matrices where it consists of them, else by sums of products.
fn einsum(s: &mut Step<'_>) -> Result<PrimId> {
    match einsum_by_products(s)? {
        Some(result) => Ok(result),
        None => einsum_by_sums(s),
    }
}

/// Einsum of two operands or more without repeated labels, multiplied from left to right.
fn einsum_by_products(s: &mut Step<'_>) -> Result<Option<PrimId>> {
    let equation = s.call.str("equation")?.replace(' ', "");
    let operands = s.tensors("tensors")?;
    let Some((terms, result)) = equation.split_once("->") else {
        return Ok(None);
    };
    let terms: Vec<&str> = terms.split(',').collect();
    let distinct = |t: &&str| {
        t.chars()
            .enumerate()
            .all(|(i, c)| c.is_ascii_alphabetic() && t.find(c) == Some(i))
    };
    if terms.len() < 2 || terms.len() != operands.len() || !terms.iter().chain([&result]).all(distinct) {
        return Ok(None);
    }
    let mut factors = terms.iter().zip(operands);
    let Some((first, mut so_far)) = factors.next() else {
        return Ok(None);
    };
    let mut labels = (*first).to_owned();
    for (i, (term, factor)) in (2..).zip(factors) {
        // What later factors or the result need.
        let later = terms[i..].concat() + result;
        let all = labels
            .chars()
            .chain(term.chars().filter(|c| !labels.contains(*c)));
        let kept: String = if i == terms.len() {
            result.to_owned()
        } else {
            all.filter(|c| later.contains(*c)).collect()
        };
        let Some(product) = multiply(s, (so_far, &labels), (factor, term), &kept)? else {
            return Ok(None);
        };
        so_far = product;
        labels = kept;
    }
    Ok(Some(so_far))
}

/// Any einsum: the product of all operands, each with a dimension for every label, summed over the labels that the result
/// lacks.
fn einsum_by_sums(s: &mut Step<'_>) -> Result<PrimId> {
    let operands = s.tensors("tensors")?;
    let ranks: Vec<usize> = operands.iter().map(|x| s.prims.rank(*x)).collect();
    let Einsum {
        operands: terms,
        result,
    } = Einsum::parse(s.call.str("equation")?, &ranks)?;
    let mut all = result.clone();
    for label in terms.iter().flatten() {
        if !all.contains(label) {
            all.push(*label);
        }
    }
    let mut product: Option<PrimId> = None;
    for (mut x, mut term) in operands.into_iter().zip(terms) {
        while let Some((first, second)) = repeated(&term) {
            x = on_diagonal(s, x, first, second)?;
            term.remove(second);
        }
        let place = |label: &char| term.iter().position(|own| own == label);
        let perm: Vec<usize> = all.iter().filter_map(place).collect();
        let extents = all.iter().map(|label| match place(label) {
            Some(dim) => s.prims.extent(x, dim),
            None => Expr::constant(1),
        });
        let shape: Vec<Expr> = extents.collect();
        let arranged = s.prims.permute(x, perm);
        let arranged = s.prims.reshape(arranged, shape);
        product = Some(match product {
            Some(others) => s.prims.mul(others, arranged)?,
            None => arranged,
        });
    }
    let product = product.ok_or_else(|| Error::invalid("an einsum needs an operand"))?;
    let summed: Vec<usize> = (result.len()..all.len()).collect();
    if summed.is_empty() {
        return Ok(product);
    }
    Ok(s.prims.reduce(ReduceOp::Sum, product, &summed, false))
}

/// The first two places of a label that a term has more than once.
fn repeated(term: &[char]) -> Option<(usize, usize)> {
    let mut places = (0..term.len()).flat_map(|second| (0..second).map(move |first| (first, second)));
    places.find(|(first, second)| term.get(*first) == term.get(*second))
}

/// The elements whose coordinates along two dimensions are equal, without the second of them.
fn on_diagonal(s: &mut Step<'_>, x: PrimId, first: usize, second: usize) -> Result<PrimId> {
    let shape = s.prims.shape(x).to_vec();
    let [row, column] = view::coordinates(s, shape, [first, second]);
    let is_on = s.prims.compare(CompareOp::Eq, row, column)?;
    let zero = s.prims.number(0.0);
    let kept = s.prims.select(is_on, x, zero)?;
    Ok(s.prims.reduce(ReduceOp::Sum, kept, &[second], false))
}

/// Labels in both operands and the result are batch, in both operands only are contracted, in one operand only are rows or
/// columns; `None` if some of those are not in the result.
fn multiply(
    s: &mut Step<'_>,
    (a, ta): (PrimId, &str),
    (b, tb): (PrimId, &str),
    result: &str,
) -> Result<Option<PrimId>> {
    let batch: Vec<char> = ta
        .chars()
        .filter(|c| tb.contains(*c) && result.contains(*c))
        .collect();
    let inner: Vec<char> = ta
        .chars()
        .filter(|c| tb.contains(*c) && !result.contains(*c))
        .collect();
    let rows: Vec<char> = ta.chars().filter(|c| !tb.contains(*c)).collect();
    let columns: Vec<char> = tb.chars().filter(|c| !ta.contains(*c)).collect();
    if rows.iter().chain(&columns).any(|c| !result.contains(*c)) {
        return Ok(None);
    }
    let extent =
        |term: &str, id: PrimId, c: char| term.find(c).and_then(|i| s.prims.shape(id).get(i).cloned());
    let size = |c: &char| extent(ta, a, *c).or_else(|| extent(tb, b, *c));
    let sizes = |labels: &[char]| labels.iter().filter_map(size).collect::<Vec<Expr>>();
    let product = |dims: &[Expr]| dims.iter().fold(Expr::constant(1), |n, d| &n * d);
    let (db, di, dr, dc) = (sizes(&batch), sizes(&inner), sizes(&rows), sizes(&columns));
    let shape = |x: &[Expr], y: &[Expr]| {
        db.iter()
            .cloned()
            .chain([product(x), product(y)])
            .collect::<Vec<_>>()
    };
    let (shape_a, shape_b) = (shape(&dr, &di), shape(&di, &dc));
    let mut arrange = |id: PrimId, term: &str, order: Vec<char>, shape: Vec<Expr>| {
        let perm = order.iter().filter_map(|c| term.find(*c)).collect();
        let permuted = s.prims.permute(id, perm);
        s.prims.reshape(permuted, shape)
    };
    let a = arrange(a, ta, [&batch[..], &rows, &inner].concat(), shape_a);
    let b = arrange(b, tb, [&batch[..], &inner, &columns].concat(), shape_b);
    let y = contract(s, a, b)?;
    let order = [&batch[..], &rows, &columns].concat();
    let full = db.iter().chain(&dr).chain(&dc).cloned().collect();
    let y = s.prims.reshape(y, full);
    let perm = result
        .chars()
        .filter_map(|c| order.iter().position(|o| *o == c))
        .collect();
    Ok(Some(s.prims.permute(y, perm)))
}
