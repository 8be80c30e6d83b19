//! Gathering and scattering by index.

use super::array::{Array, Data, broadcast, each};
use super::invocation::{Invocation, Kernel, Results};
use super::real::Real;
use super::rearrange::remap;
use super::strided::{Item, Strided};
use super::view::position;
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "index.Tensor" => index,
        "index_select.default" => |c| {
            let x = c.array("self")?;
            let axis = c.axis("dim", x.rank())?;
            let x = if x.rank() == 0 { x.reshape(&[1])? } else { x };
            let positions = resolve(c.array("index")?.into_int(), x.shape()[axis])?;
            let positions: Vec<_> = positions.into_iter().map(Some).collect();
            let out = each!(x, x => remap(&x, axis, &positions, Default::default()));
            Ok(vec![out.reshape(&c.shape(0)?)?])
        },
        "index_copy.default" => index_copy,
        "embedding.default" => |c| {
            let weight = c.array("weight")?;
            let rows = resolve(c.array("indices")?.into_int(), weight.shape()[0])?;
            let rows: Vec<_> = rows.into_iter().map(Some).collect();
            let out = each!(weight, w => remap(&w, 0, &rows, Default::default()));
            Ok(vec![out.reshape(&c.shape(0)?)?])
        },
        "gather.default" => |c| {
            let x = c.array("self")?;
            let axis = c.axis("dim", x.rank())?;
            let index = c.array("index")?.into_int();
            let shape = c.shape(0)?;
            if index.len() == 0 {
                return Ok(vec![each!(x, _x => Strided::new(shape, Vec::new()))]);
            }
            if x.rank() == 0 || index.rank() == 0 {
                let rows = resolve(index, x.len())?.into_iter().map(Some).collect::<Vec<_>>();
                let x = x.clone().reshape(&[x.len()])?;
                return Ok(vec![
                    each!(x, x => remap(&x, 0, &rows, Default::default())).reshape(&shape)?,
                ]);
            }
            Ok(vec![each!(x, x => gather(x, axis, &index)?)])
        },
        "scatter.src" => |c| {
            let src = c.array("src")?;
            scatter_array(c, src)
        },
        "scatter.value" => |c| {
            let value = c.operand("value")?;
            let index_shape = c.operand_shape("index")?.to_vec();
            let value = value.cast(c.dtype(0)?).expand(&index_shape)?;
            scatter_array(c, value)
        },
        _ => return None,
    };
    Some(kernel)
}

/// Indices as positions along an axis of `extent` elements; negative ones count from the end.
fn resolve(index: Strided<i64>, extent: usize) -> Result<Vec<usize>> {
    index
        .into_vec()
        .into_iter()
        .map(|i| position(i, extent))
        .collect()
}

fn index<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let x = c.array("self")?;
    let indices = c.opt_arrays("indices")?;
    let (mut axes, mut given) = (Vec::new(), Vec::new());
    for (axis, index) in indices.into_iter().enumerate() {
        if let Some(index) = index {
            axes.push(axis);
            given.push(index.into_int());
        }
    }
    let picked = broadcast(given.iter().map(Strided::shape))?;
    let mut rows = vec![0; picked.iter().product()];
    for (axis, index) in axes.iter().zip(given) {
        let extent = x.shape()[*axis];
        for (row, at) in rows.iter_mut().zip(resolve(index.expand(&picked)?, extent)?) {
            *row = *row * extent + at;
        }
    }
    let rest: Vec<usize> = (0..x.rank()).filter(|a| !axes.contains(a)).collect();
    let order: Vec<usize> = axes.iter().chain(&rest).copied().collect();
    let rest_shape: Vec<usize> = rest.iter().map(|&a| x.shape()[a]).collect();
    let count: usize = axes.iter().map(|&a| x.shape()[a]).product();
    let flat = each!(x, x => x.permute(&order)).reshape(&[&[count], rest_shape.as_slice()].concat())?;
    let rows: Vec<_> = rows.into_iter().map(Some).collect();
    let out = each!(flat, x => remap(&x, 0, &rows, Default::default()));
    let out = out.reshape(&[picked.as_slice(), &rest_shape].concat())?;
    // Neighbouring indexed axes are replaced where they are; others moved to the front.
    let neighbours = axes.windows(2).all(|pair| pair[0] + 1 == pair[1]);
    let place = axes.first().copied().filter(|_| neighbours).unwrap_or(0);
    let mut order: Vec<usize> = (picked.len()..out.rank()).collect();
    order.splice(place..place, 0..picked.len());
    Ok(vec![each!(out, x => x.permute(&order))])
}

fn index_copy<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let (x, source) = (c.array("self")?, c.array("source")?);
    let (dtype, shape) = (x.dtype, x.shape().to_vec());
    let axis = c.axis("dim", shape.len())?;
    // A 0-dimensional tensor has one place.
    let extent = shape.get(axis).copied().unwrap_or(1);
    let inner = shape.iter().skip(axis + 1).product();
    let places = resolve(c.array("index")?.into_int(), extent)?;
    let data = match (x.data, source.data) {
        (Data::Float(x), Data::Float(s)) => Data::Float(replace(x, extent, inner, &places, s)),
        (Data::Int(x), Data::Int(s)) => Data::Int(replace(x, extent, inner, &places, s)),
        (Data::Bool(x), Data::Bool(s)) => Data::Bool(replace(x, extent, inner, &places, s)),
        _ => return Err(Error::unexpected("index_copy of different element types")),
    };
    Ok(vec![Array { dtype, data }])
}

/// `x` with other elements at these places of an axis, which has `extent` places of `inner` elements each; the last ones to a
/// place stay.
fn replace<E: Item>(
    x: Strided<E>,
    extent: usize,
    inner: usize,
    places: &[usize],
    source: Strided<E>,
) -> Strided<E> {
    let shape = x.shape().to_vec();
    let (mut out, source) = (x.into_vec(), source.into_vec());
    let slices = out.chunks_mut((extent * inner).max(1));
    for (out, source) in slices.zip(source.chunks((places.len() * inner).max(1))) {
        for (at, values) in places.iter().zip(source.chunks(inner.max(1))) {
            if let Some(out) = out.get_mut(at * inner..(at + 1) * inner) {
                out.copy_from_slice(values);
            }
        }
    }
    Strided::new(shape, out)
}

/// The first elements of the axes other than `axis`, as many as `like` has.
fn trim<E: Item>(mut x: Strided<E>, axis: usize, like: &[usize]) -> Strided<E> {
    for (other, extent) in like.iter().enumerate().filter(|(a, _)| *a != axis) {
        x = x.slice(other, 0, *extent, 1);
    }
    x
}

fn gather<E: Item>(x: Strided<E>, axis: usize, index: &Strided<i64>) -> Result<Strided<E>> {
    let extent = x.shape()[axis];
    let rows = trim(x, axis, index.shape()).move_last(axis).into_vec();
    let index = index.clone().move_last(axis);
    let shape = index.shape().to_vec();
    let per_row = shape.last().copied().unwrap_or(1);
    let at = resolve(index, extent)?;
    let out = at
        .iter()
        .enumerate()
        .map(|(i, at)| rows[i / per_row * extent + at])
        .collect();
    Ok(Strided::new(shape, out).restore_last(axis))
}

fn scatter_array<T: Real>(c: &mut Invocation<'_, T>, src: Array<T>) -> Results<T> {
    let x = c.array("self")?;
    let dtype = x.dtype;
    let axis = c.axis("dim", x.rank())?;
    let index = c.array("index")?.into_int();
    let shape = x.shape().to_vec();
    // A 0-dimensional tensor scatters like one of a single element.
    let raise = |shape: &[usize]| if shape.is_empty() { vec![1] } else { shape.to_vec() };
    let index_shape = raise(index.shape());
    let index = index.reshape(index_shape)?;
    let (x, src) = (
        x.reshape(&raise(&shape))?,
        src.clone().reshape(&raise(src.shape()))?,
    );
    let data = match (x.data, src.data) {
        (Data::Float(x), Data::Float(s)) => Data::Float(scatter(x, axis, &index, s)?),
        (Data::Int(x), Data::Int(s)) => Data::Int(scatter(x, axis, &index, s)?),
        (Data::Bool(x), Data::Bool(s)) => Data::Bool(scatter(x, axis, &index, s)?),
        _ => return Err(Error::unexpected("scatter of different element types")),
    };
    Ok(vec![Array { dtype, data }.reshape(&shape)?])
}

/// `x` with the elements of `src` at the positions along `axis` that `index` names; the last one to a place stays.
fn scatter<E: Item>(x: Strided<E>, axis: usize, index: &Strided<i64>, src: Strided<E>) -> Result<Strided<E>> {
    let extent = x.shape()[axis];
    let src = trim(src, axis, index.shape())
        .slice(axis, 0, index.shape()[axis], 1)
        .move_last(axis)
        .into_vec();
    let x = x.move_last(axis);
    let shape = x.shape().to_vec();
    let index = index.clone().move_last(axis);
    let index_shape = index.shape().to_vec();
    let mut out = x.into_vec();
    for (i, (at, value)) in resolve(index, extent)?.into_iter().zip(src).enumerate() {
        let (mut rest, mut row, mut pitch) = (i / index_shape[index_shape.len() - 1], 0, 1);
        for (own, full) in index_shape.iter().zip(&shape).rev().skip(1) {
            row += rest % own * pitch;
            rest /= own;
            pitch *= full;
        }
        out[row * extent + at] = value;
    }
    Ok(Strided::new(shape, out).restore_last(axis))
}
