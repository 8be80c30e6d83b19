//! Recurrent networks in all their forms.

use super::{F, check};
use crate::graph::{Arg, Graph, ValueId};

/// A network and what it is asked for.
#[derive(Clone, Copy)]
struct Network {
    op: &'static str,
    /// Steps, samples, elements of the input and of the hidden vectors.
    extents: [i64; 4],
    layers: i64,
    bidirectional: bool,
    batch_first: bool,
    has_biases: bool,
    /// The result that is an output.
    result: usize,
}

const LSTM: Network = Network {
    op: "lstm.input",
    extents: [5, 3, 6, 8],
    layers: 1,
    bidirectional: false,
    batch_first: false,
    has_biases: true,
    result: 0,
};

/// The network's gates for each hidden element.
fn gates(op: &str) -> i64 {
    match op {
        "lstm.input" => 4,
        "gru.input" => 3,
        _ => 1,
    }
}

#[track_caller]
fn network(n: Network) {
    check(n.op, |g| {
        let [steps, batch, columns, size] = n.extents;
        let shape = if n.batch_first {
            [batch, steps, columns]
        } else {
            [steps, batch, columns]
        };
        let x = g.input("x", F, shape);
        let directions = if n.bidirectional { 2 } else { 1 };
        let count = n.layers * directions;
        let state = |g: &mut Graph, name: &str| g.input(name, F, [count, batch, size]);
        let hidden = state(g, "h0");
        let states: Arg = if n.op == "lstm.input" {
            vec![hidden, state(g, "c0")].into()
        } else {
            hidden.into()
        };
        let rows = gates(n.op) * size;
        let mut params: Vec<ValueId> = Vec::new();
        for layer in 0..count {
            let read = if layer < directions {
                columns
            } else {
                size * directions
            };
            params.push(g.input(&format!("w{layer}"), F, [rows, read]));
            params.push(g.input(&format!("u{layer}"), F, [rows, size]));
            if n.has_biases {
                params.extend(["a", "b"].map(|name| g.input(&format!("{name}{layer}"), F, [rows])));
            }
        }
        let results = g.call(
            n.op,
            [
                ("input", x.into()),
                ("hx", states),
                ("params", params.into()),
                ("has_biases", n.has_biases.into()),
                ("num_layers", n.layers.into()),
                ("dropout", 0.0.into()),
                ("train", true.into()),
                ("bidirectional", n.bidirectional.into()),
                ("batch_first", n.batch_first.into()),
            ],
        )?;
        Ok(results[n.result])
    });
}

#[test]
fn cells_go_from_step_to_step() {
    for op in ["lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input"] {
        network(Network { op, ..LSTM });
        network(Network {
            op,
            has_biases: false,
            ..LSTM
        });
    }
}

#[test]
fn layers_read_each_other_in_both_directions() {
    for op in ["lstm.input", "gru.input"] {
        for bidirectional in [false, true] {
            network(Network {
                op,
                layers: 2,
                bidirectional,
                batch_first: true,
                ..LSTM
            });
        }
    }
}

#[test]
fn last_states_are_results_too() {
    for (op, result) in [("lstm.input", 1), ("lstm.input", 2), ("gru.input", 1)] {
        network(Network {
            op,
            result,
            layers: 2,
            bidirectional: true,
            ..LSTM
        });
    }
}

#[test]
fn one_sample_many_samples_and_odd_sizes() {
    for extents in [[4, 1, 3, 5], [2, 130, 3, 4], [1, 2, 3, 4], [3, 2, 1, 33]] {
        for op in ["lstm.input", "gru.input"] {
            network(Network { op, extents, ..LSTM });
        }
    }
}
