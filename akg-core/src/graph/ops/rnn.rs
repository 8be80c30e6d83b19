//! Recurrent networks.

use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::TensorType;

pub(super) const ROWS: &[Row] = &[
    Row::new(
        "lstm.input(Tensor input, Tensor[] hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor, Tensor)",
        lstm,
    ),
    Row::new(
        "gru.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
        gru,
    ),
    Row::new(
        "rnn_tanh.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
        rnn,
    ),
    Row::new(
        "rnn_relu.input(Tensor input, Tensor hx, Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first) -> (Tensor, Tensor)",
        rnn,
    ),
];

/// What the cells of a recurrent network have in common.
struct Layers {
    /// The type of the sequence of outputs.
    output: TensorType,
    /// The shape of the hidden state.
    state: Vec<Expr>,
}

/// Checks input and parameters of a network whose cells have `gates` gates and whose hidden state is `hidden`.
///
/// The parameters come layer by layer and, within a layer, forward before backward: input weights
/// `[gates * H, in]`, hidden weights `[gates * H, H]` and, with biases, two vectors `[gates * H]`. An LSTM with
/// projections has hidden weights `[4 * H, P]` and a further matrix `[P, H]`.
fn layers(call: &Call<'_>, gates: i64, hidden: &TensorType, cell: Option<&TensorType>) -> Result<Layers> {
    let input = call.tensor("input")?;
    require_float("input", input.dtype)?;
    require_rank("input", &input.shape, &[3])?;
    require_rank("the hidden state", &hidden.shape, &[3])?;
    require_same("input", input.dtype, "the hidden state", hidden.dtype)?;
    let directions = if call.bool("bidirectional")? { 2 } else { 1 };
    let count = call.int("num_layers")? * directions;
    let batch_at = usize::from(!call.bool("batch_first")?);
    let (batch, output_size) = (extent(&input.shape, batch_at), extent(&hidden.shape, 2));
    let hidden_size = cell.map_or(output_size.clone(), |c| extent(&c.shape, 2));
    let projected = hidden_size != output_size;
    let state = vec![Expr::constant(count), batch.clone(), output_size.clone()];
    require_shape("the hidden state", &hidden.shape, &state)?;
    if let Some(cell) = cell {
        require_same("input", input.dtype, "the cell state", cell.dtype)?;
        require_shape(
            "the cell state",
            &cell.shape,
            &[Expr::constant(count), batch, hidden_size.clone()],
        )?;
    }

    let rows = hidden_size.clone() * gates;
    let layer_output = output_size.clone() * directions;
    let mut expected = Vec::new();
    for index in 0..count {
        let columns = if index < directions {
            extent(&input.shape, 2)
        } else {
            layer_output.clone()
        };
        expected.push(vec![rows.clone(), columns]);
        expected.push(vec![rows.clone(), output_size.clone()]);
        if call.bool("has_biases")? {
            expected.extend([vec![rows.clone()], vec![rows.clone()]]);
        }
        if projected {
            expected.push(vec![output_size.clone(), hidden_size.clone()]);
        }
    }
    let params = call.tensors("params")?;
    if params.len() != expected.len() {
        return Err(Error::invalid(format!(
            "{} params are given, expected {}",
            params.len(),
            expected.len()
        )));
    }
    for (at, (ty, shape)) in params.iter().zip(&expected).enumerate() {
        require_shape(&format!("params[{at}]"), &ty.shape, shape)?;
        require_same("input", input.dtype, "a parameter", ty.dtype)?;
    }
    let output = TensorType {
        dtype: input.dtype,
        shape: with_extent(&input.shape, 2, layer_output),
    };
    Ok(Layers { output, state })
}

fn hidden_only(call: &Call<'_>, gates: i64) -> Inferred {
    let layers = layers(call, gates, call.tensor("hx")?, None)?;
    let hidden = TensorType {
        dtype: layers.output.dtype,
        shape: layers.state,
    };
    Ok(vec![layers.output, hidden])
}

fn lstm(call: &Call<'_>) -> Inferred {
    let state = call.tensors("hx")?;
    let [hidden, cell] = state.as_slice() else {
        return Err(Error::invalid(format!(
            "hx must be [hidden, cell], not {} tensors",
            state.len()
        )));
    };
    require_rank("the cell state", &cell.shape, &[3])?;
    let layers = layers(call, 4, hidden, Some(cell))?;
    let hidden = TensorType {
        dtype: layers.output.dtype,
        shape: layers.state,
    };
    Ok(vec![layers.output, hidden, (*cell).clone()])
}

fn gru(call: &Call<'_>) -> Inferred {
    hidden_only(call, 3)
}

fn rnn(call: &Call<'_>) -> Inferred {
    hidden_only(call, 1)
}
