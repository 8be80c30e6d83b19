//! Losses.

use super::array::{Array, broadcast, zip_in_place, zip3};
use super::fold::{sum, sum_of_pairs, sum_over};
use super::invocation::{Invocation, Kernel, Results};
use super::pointwise::combine;
use super::real::Real;
use super::softmax::{along, log_softmax_row};
use super::strided::Strided;
use super::view::position;
use crate::error::Result;

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "mse_loss.default" => |c| elementwise(c, |x, y| (x - y) * (x - y)),
        "l1_loss.default" => |c| elementwise(c, |x, y| (x - y).abs()),
        "smooth_l1_loss.default" => |c| {
            let (beta, half) = (c.number("beta")?, T::of(0.5));
            elementwise(c, |x, y| {
                let z = (x - y).abs();
                if z < beta {
                    half * z * z / beta
                } else {
                    z - half * beta
                }
            })
        },
        "huber_loss.default" => |c| {
            let (delta, half) = (c.number("delta")?, T::of(0.5));
            elementwise(c, |x, y| {
                let z = (x - y).abs();
                if z <= delta {
                    half * z * z
                } else {
                    delta * (z - half * delta)
                }
            })
        },
        "kl_div.default" => |c| {
            if c.flag("log_target")? {
                return elementwise(c, |x, y| y.exponential() * (y - x));
            }
            elementwise(c, |x, y| {
                let own = if y == T::zero() { y } else { y * y.ln() };
                own - y * x
            })
        },
        "binary_cross_entropy.default" => |c| {
            let (least, one) = (T::of(-100.0), T::one());
            let loss = pairs(c, |x, y| {
                (y - one) * (-x).ln_1p().maximum(least) - y * x.ln().maximum(least)
            })?;
            weighted(c, loss)
        },
        "binary_cross_entropy_with_logits.default" => logits,
        "triplet_margin_loss.default" => triplet_margin,
        "cosine_similarity.default" => cosine_similarity,
        "nll_loss.default" => |c| {
            let scores = c.float("self")?;
            nll(c, scores, T::zero())
        },
        "cross_entropy_loss.default" => cross_entropy,
        _ => return None,
    };
    Some(kernel)
}

/// ATen's `reduction`: what is left of element-wise losses.
const NONE: i64 = 0;
const MEAN: i64 = 1;

/// What the operator's `reduction` leaves of element-wise losses.
fn reduce<T: Real>(c: &Invocation<'_, T>, losses: Strided<T>) -> Results<T> {
    if c.int("reduction")? == NONE {
        return Ok(vec![Array::float(c.dtype(0)?, losses)]);
    }
    let (count, axes) = (losses.len(), (0..losses.rank()).collect::<Vec<_>>());
    let total = sum(&mut sum_over(&losses, &axes, |e, _| e));
    reduced(c, total, count)
}

/// The mean or the sum of so many losses, from their sum.
fn reduced<T: Real>(c: &Invocation<'_, T>, total: T, count: usize) -> Results<T> {
    let divisor = if c.int("reduction")? == MEAN {
        T::of_int(count as i64)
    } else {
        T::one()
    };
    let out = Strided::full([], total / divisor);
    Ok(vec![Array::float(c.dtype(0)?, out)])
}

/// The operands `self` and `target`, and the shape that they broadcast to.
fn operands<T: Real>(c: &mut Invocation<'_, T>) -> Result<(Strided<T>, Strided<T>, Vec<usize>)> {
    let (x, y) = (c.float("self")?, c.float("target")?);
    let shape = broadcast([x.shape(), y.shape()])?;
    Ok((x, y, shape))
}

/// `f` of the broadcast operands `self` and `target`.
fn pairs<T: Real>(c: &mut Invocation<'_, T>, f: impl Fn(T, T) -> T + Sync) -> Result<Strided<T>> {
    let (x, y, shape) = operands(c)?;
    combine(x, y, &shape, f)
}

fn elementwise<T: Real>(c: &mut Invocation<'_, T>, f: impl Fn(T, T) -> T + Sync) -> Results<T> {
    if c.int("reduction")? == NONE {
        let losses = pairs(c, f)?;
        return reduce(c, losses);
    }
    let (x, y, shape) = operands(c)?;
    let (x, y) = (x.expand(&shape)?, y.expand(&shape)?);
    reduced(c, sum_of_pairs(&x, &y, f), x.len())
}

fn weighted<T: Real>(c: &mut Invocation<'_, T>, losses: Strided<T>) -> Results<T> {
    let losses = match c.opt_float("weight")? {
        None => losses,
        Some(weight) => {
            let shape = broadcast([losses.shape(), weight.shape()])?;
            combine(losses, weight, &shape, |l, w| l * w)?
        }
    };
    reduce(c, losses)
}

fn log_sigmoid<T: Real>(x: T) -> T {
    x.minimum(T::zero()) - (-x.abs()).exponential().ln_1p()
}

fn logits<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let (x, y) = (c.float("self")?, c.float("target")?);
    let positive = c
        .opt_float("pos_weight")?
        .unwrap_or_else(|| Strided::full([], T::one()));
    let shape = broadcast([x.shape(), y.shape(), positive.shape()])?;
    let one = T::one();
    let losses = zip3(
        x.expand(&shape)?,
        &y.expand(&shape)?,
        &positive.expand(&shape)?,
        |x, y, p| (one - y) * x - (one + (p - one) * y) * log_sigmoid(x),
    );
    weighted(c, losses)
}

/// Norms of order `p` along the last axis.
fn norms<T: Real>(x: &Strided<T>, p: T) -> Vec<T> {
    let powers = sum_over(x, &[x.rank() - 1], |e, _| {
        if p == T::of(2.0) { e * e } else { e.abs().powf(p) }
    });
    let root = |s: T| {
        if p == T::of(2.0) {
            s.sqrt()
        } else {
            s.powf(p.recip())
        }
    };
    powers.into_iter().map(root).collect()
}

fn triplet_margin<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let (margin, p, eps) = (c.number("margin")?, c.number("p")?, c.number("eps")?);
    let swap = c.flag("swap")?;
    let (a, b, n) = (c.float("anchor")?, c.float("positive")?, c.float("negative")?);
    let shape = broadcast([a.shape(), b.shape(), n.shape()])?;
    let distance = |x: &Strided<T>, y: &Strided<T>| -> Result<Vec<T>> {
        Ok(norms(
            &combine(x.clone(), y.clone(), &shape, |x, y| x - y + eps)?,
            p,
        ))
    };
    let near = distance(&a, &b)?;
    let mut far = distance(&a, &n)?;
    if swap {
        let other = distance(&b, &n)?;
        far.iter_mut()
            .zip(other)
            .for_each(|(far, other)| *far = far.minimum(other));
    }
    let losses = near
        .into_iter()
        .zip(far)
        .map(|(near, far)| (margin + near - far).maximum(T::zero()));
    reduce(c, Strided::new(&shape[..shape.len() - 1], losses.collect()))
}

fn cosine_similarity<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let eps = c.number("eps")?;
    let (a, b) = (c.float("x1")?, c.float("x2")?);
    let mut shape = broadcast([a.shape(), b.shape()])?;
    if shape.is_empty() {
        shape.push(1);
    }
    let axis = c.axis("dim", shape.len())?;
    let lines = |x: Strided<T>| -> Result<(Strided<T>, Vec<T>)> {
        let x = x.expand(&shape)?.move_last(axis);
        let lengths = norms(&x, T::of(2.0))
            .into_iter()
            .map(|n| n.maximum(eps))
            .collect();
        Ok((x, lengths))
    };
    let ((a, a_lengths), (b, b_lengths)) = (lines(a)?, lines(b)?);
    let products = zip_in_place(a, &b, |a, b| a * b);
    let dots = sum_over(&products, &[shape.len() - 1], |e, _| e);
    let lengths = a_lengths.into_iter().zip(b_lengths);
    let out = dots
        .into_iter()
        .zip(lengths)
        .map(|(dot, (a, b))| dot / (a * b))
        .collect();
    Ok(vec![Array::float(c.dtype(0)?, Strided::new(c.shape(0)?, out))])
}

fn cross_entropy<T: Real>(c: &mut Invocation<'_, T>) -> Results<T> {
    let scores = c.float("self")?;
    let axis = usize::from(scores.rank() > 1);
    let logs = along(scores, axis, log_softmax_row);
    let smoothing = c.number("label_smoothing")?;
    if c.operand_dtype("target")?.is_float() {
        return probabilities(c, logs, smoothing);
    }
    nll(c, logs, smoothing)
}

/// Cross entropy with a distribution over the classes as target.
fn probabilities<T: Real>(c: &mut Invocation<'_, T>, logs: Strided<T>, smoothing: T) -> Results<T> {
    let axis = usize::from(logs.rank() > 1);
    let classes = logs.shape()[axis];
    let target = c.float("target")?.move_last(axis);
    let weight = c.opt_float("weight")?.map(Strided::into_vec);
    let logs = logs.move_last(axis);
    let samples = logs.shape()[..logs.rank() - 1].to_vec();
    let floor = smoothing / T::of_int(classes as i64);
    let terms = zip_in_place(logs, &target, |log, t| {
        -log * (t * (T::one() - smoothing) + floor)
    });
    let terms = match weight {
        None => terms,
        Some(weight) => {
            let shape = terms.shape().to_vec();
            combine(terms, Strided::new([classes], weight), &shape, |t, w| t * w)?
        }
    };
    let losses = sum_over(&terms, &[terms.rank() - 1], |e, _| e);
    reduce(c, Strided::new(samples, losses))
}

/// Negative log likelihood of class indices, mixed with the mean over all classes by `smoothing`. Means are weighted.
fn nll<T: Real>(c: &mut Invocation<'_, T>, logs: Strided<T>, smoothing: T) -> Results<T> {
    let axis = usize::from(logs.rank() > 1);
    let classes = logs.shape()[axis];
    let ignored = c.int("ignore_index")?;
    let target = c.array("target")?.into_int();
    let samples = target.shape().to_vec();
    let weight = match c.opt_float("weight")? {
        Some(weight) => weight.into_vec(),
        None => vec![T::one(); classes],
    };
    let rows = logs.move_last(axis).into_vec();
    let (mut losses, mut smooth, mut weights) = (Vec::new(), Vec::new(), Vec::new());
    for (row, class) in rows.chunks(classes.max(1)).zip(target.into_vec()) {
        if class == ignored {
            losses.push(T::zero());
            smooth.push(T::zero());
            weights.push(T::zero());
            continue;
        }
        let class = position(class, classes)?;
        losses.push(-weight[class] * row[class]);
        let mut all: Vec<T> = row.iter().zip(&weight).map(|(log, w)| -*w * *log).collect();
        smooth.push(sum(&mut all));
        weights.push(weight[class]);
    }
    let share = smoothing / T::of_int(classes as i64);
    let mixed = losses.into_iter().zip(smooth).map(|(loss, all)| {
        if smoothing == T::zero() {
            loss
        } else {
            (T::one() - smoothing) * loss + share * all
        }
    });
    let mut losses: Vec<T> = mixed.collect();
    let out = match c.int("reduction")? {
        0 => Strided::new(samples, losses),
        1 => Strided::full([], sum(&mut losses) / sum(&mut weights)),
        _ => Strided::full([], sum(&mut losses)),
    };
    Ok(vec![Array::float(c.dtype(0)?, out)])
}
