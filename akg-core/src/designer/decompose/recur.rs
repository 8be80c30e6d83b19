//! Recurrent networks: the input's share of the gates is one product for all steps, then each layer goes through its steps.

use super::{Step, join, matmul};
use crate::designer::prim::{Cell, Prim, PrimId};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;

pub(super) fn decompose(s: &mut Step<'_>, name: &str) -> Result<Option<Vec<PrimId>>> {
    let cell = match name {
        "lstm" => Cell::Lstm,
        "gru" => Cell::Gru,
        "rnn_tanh" => Cell::Tanh,
        "rnn_relu" => Cell::Relu,
        _ => return Ok(None),
    };
    let layers = s.call.int("num_layers")?;
    let drops = s.call.bool("train")? && s.call.number("dropout")? != 0.0 && layers > 1;
    let directions = if s.call.bool("bidirectional")? { 2 } else { 1 };
    let states = match cell {
        Cell::Lstm => s.tensors("hx")?,
        _ => vec![s.tensor("hx")?],
    };
    let width = |state: &PrimId| s.prims.extent(*state, 2);
    let is_projected = states
        .iter()
        .any(|state| width(state) != s.prims.extent(states[0], 2));
    if drops || is_projected || s.dtype()? != DType::F32 {
        return Ok(None);
    }
    let mut parameters = s.tensors("params")?.into_iter();
    let has_biases = s.call.bool("has_biases")?;
    let batch_first = s.call.bool("batch_first")?;
    let mut sequence = s.tensor("input")?;
    if batch_first {
        sequence = s.prims.permute(sequence, vec![1, 0, 2]);
    }
    let mut last: Vec<Vec<PrimId>> = vec![Vec::new(); states.len()];
    for layer in 0..layers {
        let mut outputs = Vec::new();
        for direction in 0..directions {
            let mut next = || {
                let next = parameters.next();
                next.ok_or_else(|| Error::invalid("params has too few entries"))
            };
            let (input, hidden) = (next()?, next()?);
            let biases = if has_biases {
                Some((next()?, next()?))
            } else {
                None
            };
            let at = layer * directions + direction;
            let states: Vec<PrimId> = states
                .iter()
                .map(|state| s.prims.at(*state, 0, at.into()))
                .collect();
            let reverse = direction == 1;
            let results = steps(s, cell, reverse, sequence, [input, hidden], biases, &states)?;
            let end = if reverse {
                Expr::constant(0)
            } else {
                s.prims.extent(sequence, 0) - 1
            };
            for (result, last) in results.iter().zip(&mut last) {
                last.push(s.prims.at(*result, 0, end.clone()));
            }
            outputs.extend(results.first());
        }
        sequence = match outputs.as_slice() {
            [one] => *one,
            several => join::join(s, several, 2)?,
        };
    }
    if batch_first {
        sequence = s.prims.permute(sequence, vec![1, 0, 2]);
    }
    let mut results = vec![sequence];
    for states in last {
        results.push(join::stack(s, &states, 0)?);
    }
    Ok(Some(results))
}

/// A linear recurrence: operands in memory, with all elements of a step side by side.
pub(super) fn linear(s: &mut Step<'_>) -> Result<PrimId> {
    let shape = s.result(0)?.shape.clone();
    let size = shape
        .iter()
        .skip(1)
        .fold(Expr::constant(1), |size, extent| &size * extent);
    let steps: Vec<Expr> = shape.iter().take(1).cloned().collect();
    let mut flat = |name: &str, steps: &[Expr]| -> Result<PrimId> {
        let x = s.tensor(name)?;
        let flat = s.prims.reshape(x, [steps, std::slice::from_ref(&size)].concat());
        // What a view arranges in another way, or a literal fills, has its elements side by side in the copy.
        Ok(s.prims.copy(flat))
    };
    let operands = vec![flat("decay", &steps)?, flat("input", &steps)?, flat("hx", &[])?];
    let recurrence = Prim::Recur {
        cell: Cell::Linear,
        reverse: false,
        operands,
    };
    let hidden = s.prims.push(recurrence, DType::F32, [steps, vec![size]].concat());
    Ok(s.prims.reshape(hidden, shape))
}

/// One layer in one direction: the hidden vectors of every step and, of an LSTM, the cells.
fn steps(
    s: &mut Step<'_>,
    cell: Cell,
    reverse: bool,
    sequence: PrimId,
    [input, hidden]: [PrimId; 2],
    biases: Option<(PrimId, PrimId)>,
    states: &[PrimId],
) -> Result<Vec<PrimId>> {
    let [steps, batch, columns] = s.prims.shape(sequence) else {
        return Err(Error::invalid("a recurrent network reads a sequence of batches"));
    };
    let (steps, batch, columns) = (steps.clone(), batch.clone(), columns.clone());
    let size = s.prims.extent(hidden, 1);
    let gates = Expr::constant(cell.gates());
    let rows = s.prims.reshape(sequence, vec![&steps * &batch, columns]);
    let turned = matmul::turned(s, input);
    let mut shares = matmul::contract(s, rows, turned)?;
    let mut bias = None;
    if let Some((of_input, of_hidden)) = biases {
        shares = s.prims.add(shares, of_input)?;
        bias = Some(s.prims.reshape(of_hidden, vec![gates.clone(), size.clone()]));
    }
    let shape = vec![steps.clone(), batch.clone(), gates.clone(), size.clone()];
    let shares = s.prims.reshape(shares, shape);
    // Kernels keep the whole of a matrix, and read states from memory.
    let hidden = match s.prims.node(hidden).prim {
        Prim::Input(_) => hidden,
        _ => s.prims.copy(hidden),
    };
    let hidden = s.prims.reshape(hidden, vec![gates, size.clone(), size.clone()]);
    let states = states.iter().map(|state| match s.prims.constant(*state) {
        Some(_) => s.prims.copy(*state),
        None => *state,
    });
    let mut operands = vec![shares, hidden];
    operands.extend(states);
    operands.extend(bias);
    let shape = vec![steps, batch, size];
    let recurrence = Prim::Recur {
        cell,
        reverse,
        operands,
    };
    let sequence = s.prims.push(recurrence, DType::F32, shape.clone());
    let mut results = vec![sequence];
    if cell == Cell::Lstm {
        results.push(s.prims.push(Prim::Carried(sequence), DType::F32, shape));
    }
    Ok(results)
}
