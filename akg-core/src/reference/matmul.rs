//! Matrix products and tensor contractions.

use std::collections::{BTreeMap, VecDeque};

use super::array::{Array, broadcast, each, map_in_place, wrap};
use super::fold::fold;
use super::invocation::{Invocation, Kernel, Results};
use super::memory::zeros;
use super::parallel::tasks;
use super::pointwise::combine;
use super::product::Products;
use super::real::Real;
use super::strided::{Item, Matrix, Strided};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::ops::Einsum;

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "mm.default" | "bmm.default" => |c| plain(c, "self", "mat2"),
        "matmul.default" => |c| plain(c, "self", "other"),
        "mv.default" => |c| plain(c, "self", "vec"),
        "dot.default" => |c| plain(c, "self", "tensor"),
        "outer.default" => |c| {
            let dtype = c.dtype(0)?;
            let (a, b) = (c.array("self")?.promote(dtype), c.array("vec2")?.promote(dtype));
            let (m, n) = (a.len(), b.len());
            Ok(vec![
                product(None, a.reshape(&[m, 1])?, b.reshape(&[1, n])?)?.carried(),
            ])
        },
        "linear.default" => linear,
        "addmm.default" => |c| scaled(c, "mat1", "mat2"),
        "baddbmm.default" => |c| scaled(c, "batch1", "batch2"),
        "einsum.default" => einsum,
        _ => return None,
    };
    Some(kernel)
}

/// What makes a matrix product, by other means if there are any.
type Product<E> = fn(Option<&dyn Products>, &Matrix<'_, E>, &Matrix<'_, E>, &mut [E]);

/// How elements are multiplied and added: the products of one carrier.
struct Ring<'a, E> {
    product: Product<E>,
    add: fn(E, E) -> E,
    /// Who else can make products.
    by: Option<&'a dyn Products>,
}

impl<E: Item> Ring<'_, E> {
    /// Products of matrices whose leading axes broadcast.
    fn products(&self, a: Strided<E>, b: Strided<E>) -> Result<Strided<E>> {
        let (a_batch, b_batch) = (&a.shape()[..a.rank() - 2], &b.shape()[..b.rank() - 2]);
        let (m, k) = (a.shape()[a.rank() - 2], a.shape()[a.rank() - 1]);
        let n = b.shape()[b.rank() - 1];
        let batch = broadcast([a_batch, b_batch])?;
        let shape = [batch.as_slice(), &[m, n]].concat();
        if batch.len() > b_batch.len() && b_batch.is_empty() {
            let rows = batch.iter().product::<usize>() * m;
            return self.products(a.reshape([rows, k])?, b)?.reshape(shape);
        }
        let a = a.expand(&[batch.as_slice(), &[m, k]].concat())?;
        let b = b.expand(&[batch.as_slice(), &[k, n]].concat())?;
        let mut out = zeros(shape.iter().product());
        tasks(&mut out, m * n, &|at, out| {
            let prefix = unravel(at, &batch);
            (self.product)(self.by, &a.matrix(&prefix), &b.matrix(&prefix), out);
        });
        Ok(Strided::new(shape, out))
    }
}

/// The index of a row-major position.
pub(super) fn unravel(at: usize, shape: &[usize]) -> Vec<usize> {
    let mut rest = at;
    let mut index = vec![0; shape.len()];
    for (slot, extent) in index.iter_mut().zip(shape).rev() {
        *slot = rest % extent;
        rest /= extent;
    }
    index
}

fn reals<T: Real>(by: Option<&dyn Products>) -> Ring<'_, T> {
    Ring {
        product: T::product,
        add: |a, b| a + b,
        by,
    }
}

fn integers() -> Ring<'static, i64> {
    fn product(_: Option<&dyn Products>, a: &Matrix<'_, i64>, b: &Matrix<'_, i64>, out: &mut [i64]) {
        for (at, out) in out.iter_mut().enumerate() {
            let (row, col) = (at / b.cols, at % b.cols);
            *out = (0..a.cols).fold(0, |s: i64, k| {
                s.wrapping_add(a.at(row, k).wrapping_mul(b.at(k, col)))
            });
        }
    }
    Ring {
        product,
        add: i64::wrapping_add,
        by: None,
    }
}

/// The product of matrices, or batches of them, of one element type.
fn product<T: Real>(by: Option<&dyn Products>, a: Array<T>, b: Array<T>) -> Result<Array<T>> {
    let dtype = a.dtype;
    Ok(if dtype.is_float() {
        Array::float(dtype, reals(by).products(a.into_float(), b.into_float())?)
    } else {
        let out = integers().products(a.into_int(), b.into_int())?;
        Array::int(dtype, map_in_place(out, |v| wrap(dtype, v)))
    })
}

/// `matmul` and its special cases: vectors are matrices of one row or column.
fn plain<T: Real>(c: &mut Invocation<'_, T>, a: &str, b: &str) -> Results<T> {
    let (mut a, mut b) = (c.array(a)?, c.array(b)?);
    if a.rank() == 1 {
        a = a.clone().reshape(&[1, a.len()])?;
    }
    if b.rank() == 1 {
        b = b.clone().reshape(&[b.len(), 1])?;
    }
    let shape = c.shape(0)?;
    Ok(vec![product(c.products, a, b)?.reshape(&shape)?])
}

fn linear<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let (x, mut weight) = (c.array("input")?, c.array("weight")?);
    if weight.rank() == 1 {
        weight = weight.clone().reshape(&[1, weight.len()])?;
    }
    let x = if x.rank() == 1 {
        x.clone().reshape(&[1, x.len()])?
    } else {
        x
    };
    let weight = each!(weight, w => w.swap(0, 1));
    let out = product(c.products, x, weight)?.reshape(&shape)?;
    Ok(vec![match c.opt_array("bias")? {
        Some(bias) => sum(dtype, out, bias, &shape)?,
        None => out,
    }])
}

fn sum<T: Real>(dtype: DType, a: Array<T>, b: Array<T>, shape: &[usize]) -> Result<Array<T>> {
    Ok(if dtype.is_float() {
        Array::float(
            dtype,
            combine(a.into_float(), b.into_float(), shape, |a, b| a + b)?,
        )
    } else {
        let add = |a: i64, b: i64| wrap(dtype, a.wrapping_add(b));
        Array::int(dtype, combine(a.into_int(), b.into_int(), shape, add)?)
    })
}

/// `beta self + alpha a b`, where a zero `beta` hides what is in `self`.
fn scaled<T: Real>(c: &mut Invocation<'_, T>, a: &str, b: &str) -> Results<T> {
    let (dtype, shape) = (c.dtype(0)?, c.shape(0)?);
    let (alpha, beta) = (c.operand("alpha")?, c.operand("beta")?);
    let (a, b) = (c.array(a)?, c.array(b)?);
    let out = times(product(c.products, a, b)?, alpha);
    if beta.clone().into_float().first() == T::zero() {
        return Ok(vec![out]);
    }
    let own = times(c.array("self")?, beta);
    Ok(vec![sum(dtype, out, own, &shape)?])
}

fn times<T: Real>(x: Array<T>, factor: Array<T>) -> Array<T> {
    let dtype = x.dtype;
    let real = factor.clone().into_float().first();
    if real == T::one() {
        return x;
    }
    if dtype.is_float() {
        return Array::float(dtype, map_in_place(x.into_float(), |v| v * real));
    }
    let whole = factor.into_int().first();
    Array::int(
        dtype,
        map_in_place(x.into_int(), |v| wrap(dtype, v.wrapping_mul(whole))),
    )
}

fn einsum<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let dtype = c.dtype(0)?;
    let arrays = c.arrays("tensors")?;
    let ranks: Vec<usize> = arrays.iter().map(Array::rank).collect();
    let equation = c.opt_str("equation")?.unwrap_or_default();
    let einsum = Einsum::parse(equation, &ranks)?;
    Ok(vec![if dtype.is_float() {
        let operands = arrays.into_iter().map(Array::into_float).collect();
        Array::float(dtype, contract(&einsum, operands, &reals(c.products))?)
    } else {
        let operands = arrays.into_iter().map(Array::into_int).collect();
        Array::int(
            dtype,
            map_in_place(contract(&einsum, operands, &integers())?, |v| wrap(dtype, v)),
        )
    }])
}

/// A tensor with a label for each axis.
struct Labelled<E> {
    labels: Vec<char>,
    x: Strided<E>,
}

impl<E: Item> Labelled<E> {
    /// Takes the diagonal of axes with the same label, and gives every axis the full extent of its label.
    fn new(labels: &[char], x: Strided<E>, extents: &BTreeMap<char, usize>) -> Result<Self> {
        let shape: Vec<usize> = labels
            .iter()
            .map(|l| extents.get(l).copied().unwrap_or(1))
            .collect();
        let mut this = Self {
            labels: labels.to_vec(),
            x: x.expand(&shape)?,
        };
        while let Some((a, b)) = this.repeated() {
            let label = this.labels[a];
            this.x = this.x.diagonal(a, b, 0);
            this.labels.remove(b);
            this.labels.remove(a);
            this.labels.push(label);
        }
        Ok(this)
    }

    fn repeated(&self) -> Option<(usize, usize)> {
        (0..self.labels.len())
            .flat_map(|b| (0..b).map(move |a| (a, b)))
            .find(|(a, b)| self.labels[*a] == self.labels[*b])
    }

    /// Sums the labels away for which `needed` is false.
    fn reduce(self, needed: impl Fn(char) -> bool, ring: &Ring<'_, E>) -> Self {
        let axes: Vec<usize> = (0..self.labels.len())
            .filter(|a| !needed(self.labels[*a]))
            .collect();
        if axes.is_empty() {
            return self;
        }
        let kept = |axis: &usize| !axes.contains(axis);
        let shape: Vec<usize> = (0..self.labels.len())
            .filter(kept)
            .map(|a| self.x.shape()[a])
            .collect();
        let labels = (0..self.labels.len())
            .filter(kept)
            .map(|a| self.labels[a])
            .collect();
        let sums = fold(&self.x, &axes, |e, _, _| e, ring.add, E::default());
        Self {
            labels,
            x: Strided::new(shape, sums),
        }
    }

    /// The axes in the order of `groups`, each group merged into one axis.
    fn grouped(self, groups: [&[char]; 3]) -> Result<Strided<E>> {
        let at = |label: &char| self.labels.iter().position(|l| l == label);
        let order: Vec<usize> = groups.concat().iter().filter_map(at).collect();
        let x = self.x.permute(&order);
        let mut extents = x.shape().iter();
        let shape = groups.map(|group| extents.by_ref().take(group.len()).product::<usize>());
        x.reshape(shape)
    }
}

/// Contracts the operands from left to right, each step one batched matrix product.
fn contract<E: Item>(einsum: &Einsum, operands: Vec<Strided<E>>, ring: &Ring<'_, E>) -> Result<Strided<E>> {
    let mut extents: BTreeMap<char, usize> = BTreeMap::new();
    for (labels, x) in einsum.operands.iter().zip(&operands) {
        for (label, extent) in labels.iter().zip(x.shape()) {
            let slot = extents.entry(*label).or_insert(*extent);
            if *slot == 1 {
                *slot = *extent;
            }
        }
    }
    let labelled = einsum
        .operands
        .iter()
        .zip(operands)
        .map(|(labels, x)| Labelled::new(labels, x, &extents));
    let mut rest: VecDeque<Labelled<E>> = labelled.collect::<Result<_>>()?;
    let mut left = rest
        .pop_front()
        .ok_or_else(|| Error::invalid("einsum needs at least one operand"))?;
    while let Some(right) = rest.pop_front() {
        let later = |l: char| einsum.result.contains(&l) || rest.iter().any(|o| o.labels.contains(&l));
        let right_labels = right.labels.clone();
        let a = left.reduce(|l| later(l) || right_labels.contains(&l), ring);
        let b = right.reduce(|l| later(l) || a.labels.contains(&l), ring);
        let shared = |l: &&char| b.labels.contains(*l);
        let batch: Vec<char> = a
            .labels
            .iter()
            .filter(shared)
            .filter(|l| later(**l))
            .copied()
            .collect();
        let inner: Vec<char> = a
            .labels
            .iter()
            .filter(shared)
            .filter(|l| !later(**l))
            .copied()
            .collect();
        let rows: Vec<char> = a
            .labels
            .iter()
            .filter(|l| !b.labels.contains(l))
            .copied()
            .collect();
        let cols: Vec<char> = b
            .labels
            .iter()
            .filter(|l| !a.labels.contains(l))
            .copied()
            .collect();
        let out = ring.products(
            a.grouped([&batch, &rows, &inner])?,
            b.grouped([&batch, &inner, &cols])?,
        )?;
        let labels = [batch, rows, cols].concat();
        let shape: Vec<usize> = labels
            .iter()
            .map(|l| extents.get(l).copied().unwrap_or(1))
            .collect();
        left = Labelled {
            labels,
            x: out.reshape(shape)?,
        };
    }
    let left = left.reduce(|l| einsum.result.contains(&l), ring);
    let order: Vec<usize> = einsum
        .result
        .iter()
        .filter_map(|l| left.labels.iter().position(|m| m == l))
        .collect();
    Ok(left.x.permute(&order))
}
