//! Recurrent networks.

use super::array::Array;
use super::invocation::{Invocation, Kernel, Results};
use super::pointwise::sigmoid;
use super::real::Real;
use super::semantics::Rounder;
use super::strided::{Matrix, Strided};
use crate::error::{Error, Result};

pub(super) fn kernel<T: Real>(name: &str) -> Option<Kernel<T>> {
    let kernel: Kernel<T> = match name {
        "lstm.input" => |c| {
            let state = c.arrays("hx")?;
            let states = state.into_iter().map(Array::into_float).collect();
            network(c, states, lstm)
        },
        "gru.input" => |c| single(c, gru),
        "rnn_tanh.input" => |c| single(c, |x, h, _| plain(x, h, T::tanh)),
        "rnn_relu.input" => |c| single(c, |x, h, _| plain(x, h, |v| v.maximum(T::zero()))),
        _ => return None,
    };
    Some(kernel)
}

/// What a cell computes for one sample: from the input's and the hidden state's share of the gates and the carried
/// vector (the cell state of an LSTM, else the hidden state), which it updates, the new hidden vector.
type Cell<T> = fn(&[T], &[T], &mut [T]) -> Vec<T>;

fn single<T: Real>(c: &mut Invocation<'_, T>, cell: Cell<T>) -> Results<T> {
    let state = c.float("hx")?;
    network(c, vec![state], cell)
}

/// The `index`-th of the gates side by side in `gates`.
fn gate<T>(gates: &[T], index: usize, size: usize) -> &[T] {
    &gates[index * size..(index + 1) * size]
}

fn lstm<T: Real>(x: &[T], h: &[T], carried: &mut [T]) -> Vec<T> {
    let size = carried.len();
    let sum = |index: usize, i: usize| gate(x, index, size)[i] + gate(h, index, size)[i];
    let mut out = Vec::with_capacity(size);
    for (i, carried) in carried.iter_mut().enumerate() {
        let (input, forget, output) = (sigmoid(sum(0, i)), sigmoid(sum(1, i)), sigmoid(sum(3, i)));
        *carried = forget * *carried + input * sum(2, i).tanh();
        out.push(output * carried.tanh());
    }
    out
}

fn gru<T: Real>(x: &[T], h: &[T], carried: &mut [T]) -> Vec<T> {
    let size = carried.len();
    let part = |gates: &[T], index: usize, i: usize| gate(gates, index, size)[i];
    for (i, carried) in carried.iter_mut().enumerate() {
        let reset = sigmoid(part(x, 0, i) + part(h, 0, i));
        let update = sigmoid(part(x, 1, i) + part(h, 1, i));
        let fresh = (part(x, 2, i) + reset * part(h, 2, i)).tanh();
        *carried = fresh + update * (*carried - fresh);
    }
    carried.to_vec()
}

fn plain<T: Real>(x: &[T], h: &[T], f: impl Fn(T) -> T) -> Vec<T> {
    x.iter().zip(h).map(|(x, h)| f(*x + *h)).collect()
}

/// The parameters of one layer in one direction.
struct Parameters<T> {
    input: Strided<T>,
    hidden: Strided<T>,
    input_bias: Option<Vec<T>>,
    hidden_bias: Option<Vec<T>>,
    projection: Option<Strided<T>>,
}

/// Rows of `x` times the transpose of `weight`, plus `bias`.
fn affine<T: Real>(x: &[T], weight: &Strided<T>, bias: Option<&Vec<T>>) -> Vec<T> {
    let weight = weight.clone().swap(0, 1);
    let weight = weight.matrix(&[]);
    let rows = x.len() / weight.rows.max(1);
    let mut out = vec![T::zero(); rows * weight.cols];
    T::product(None, &Matrix::dense(x, rows, weight.rows), &weight, &mut out);
    if let Some(bias) = bias {
        for row in out.chunks_mut(weight.cols.max(1)) {
            row.iter_mut().zip(bias).for_each(|(v, b)| *v += *b);
        }
    }
    out
}

/// Runs all layers. `states` are the initial hidden states and, for an LSTM, the cell states: `[layers, batch, size]`.
fn network<T: Real>(c: &mut Invocation<'_, T>, states: Vec<Strided<T>>, cell: Cell<T>) -> Results<T> {
    let layers = c.int("num_layers")? as usize;
    if c.flag("train")? && c.number("dropout")? != T::zero() && layers > 1 {
        return Err(Error::unsupported(
            "dropout between layers is random and has no reference; set dropout = 0",
        ));
    }
    let directions = if c.flag("bidirectional")? { 2 } else { 1 };
    let batch_first = c.flag("batch_first")?;
    let rounder = c.rounder()?;
    let mut parameters = parameters(c, &states)?.into_iter();
    let x = c.float("input")?;
    let x = if batch_first { x.swap(0, 1) } else { x };
    let (steps, batch) = (x.shape()[0], x.shape()[1]);
    let mut sequence = x.into_vec();
    let mut finals: Vec<Vec<T>> = vec![Vec::new(); states.len()];
    for layer in 0..layers {
        let mut outputs = Vec::with_capacity(directions);
        for direction in 0..directions {
            let Some(parameters) = parameters.next() else {
                return Err(Error::invalid("params has too few entries"));
            };
            let start =
                |state: &Strided<T>| state.clone().select(0, layer * directions + direction).into_vec();
            let mut state: Vec<Vec<T>> = states.iter().map(start).collect();
            outputs.push(run(
                &sequence,
                [steps, batch],
                &parameters,
                &mut state,
                Steps {
                    cell,
                    backward: direction == 1,
                    rounder,
                },
            ));
            finals
                .iter_mut()
                .zip(state)
                .for_each(|(all, last)| all.extend(last));
        }
        sequence = side_by_side(&outputs, steps * batch);
    }
    let width = sequence.len() / (steps * batch).max(1);
    let sequence = Strided::new([steps, batch, width], sequence);
    let sequence = if batch_first {
        sequence.swap(0, 1)
    } else {
        sequence
    };
    let mut results = vec![Array::float(c.dtype(0)?, sequence.reshape(c.shape(0)?)?)];
    for (index, state) in finals.into_iter().enumerate() {
        results.push(Array::float(
            c.dtype(index + 1)?,
            Strided::new(c.shape(index + 1)?, state),
        ));
    }
    Ok(results)
}

fn parameters<T: Real>(c: &mut Invocation<'_, T>, states: &[Strided<T>]) -> Result<Vec<Parameters<T>>> {
    let biased = c.flag("has_biases")?;
    let sizes: Vec<usize> = states.iter().map(|s| s.shape()[2]).collect();
    let projected = sizes.first() != sizes.last();
    let mut rest = c.arrays("params")?.into_iter().map(Array::into_float);
    let mut out = Vec::new();
    while let (Some(input), Some(hidden)) = (rest.next(), rest.next()) {
        let mut bias = || {
            if biased {
                rest.next().map(Strided::into_vec)
            } else {
                None
            }
        };
        let (input_bias, hidden_bias) = (bias(), bias());
        let projection = if projected { rest.next() } else { None };
        out.push(Parameters {
            input,
            hidden,
            input_bias,
            hidden_bias,
            projection,
        });
    }
    Ok(out)
}

/// How a layer takes its steps.
#[derive(Clone, Copy)]
struct Steps<T> {
    cell: Cell<T>,
    backward: bool,
    /// The rounding of what PyTorch keeps in tensors between the operators of a step.
    rounder: Option<Rounder>,
}

impl<T: Real> Steps<T> {
    fn round(self, values: &mut [T]) {
        if let Some(rounder) = self.rounder {
            let places = (0..).zip(values);
            places.for_each(|(place, v)| *v = rounder.round(*v, place));
        }
    }
}

/// One layer in one direction: the hidden vectors of every step. `state` becomes the last one.
fn run<T: Real>(
    sequence: &[T],
    [steps, batch]: [usize; 2],
    parameters: &Parameters<T>,
    state: &mut [Vec<T>],
    way: Steps<T>,
) -> Vec<T> {
    let mut inputs = affine(sequence, &parameters.input, parameters.input_bias.as_ref());
    way.round(&mut inputs);
    let gates = parameters.input.shape()[0];
    let Some((hidden, cells)) = state.split_first_mut() else {
        return Vec::new();
    };
    let mut out = vec![T::zero(); steps * hidden.len()];
    for step in 0..steps {
        let at = if way.backward { steps - 1 - step } else { step };
        let mut recurrent = affine(hidden, &parameters.hidden, parameters.hidden_bias.as_ref());
        way.round(&mut recurrent);
        let inputs = &inputs[at * batch * gates..(at + 1) * batch * gates];
        let mut fresh = Vec::with_capacity(hidden.len());
        {
            let carried = cells.first_mut().unwrap_or(hidden);
            let size = (carried.len() / batch.max(1)).max(1);
            let shares = inputs.chunks(gates.max(1)).zip(recurrent.chunks(gates.max(1)));
            for (carried, (x, h)) in carried.chunks_mut(size).zip(shares) {
                fresh.extend((way.cell)(x, h, carried));
            }
            way.round(carried);
        }
        way.round(&mut fresh);
        *hidden = match &parameters.projection {
            Some(projection) => affine(&fresh, projection, None),
            None => fresh,
        };
        way.round(hidden);
        out[at * hidden.len()..(at + 1) * hidden.len()].copy_from_slice(hidden);
    }
    out
}

/// The rows of several matrices next to each other.
fn side_by_side<T: Copy>(parts: &[Vec<T>], rows: usize) -> Vec<T> {
    let mut out = Vec::new();
    for row in 0..rows {
        for part in parts {
            let width = part.len() / rows.max(1);
            out.extend_from_slice(&part[row * width..(row + 1) * width]);
        }
    }
    out
}
