//! Recurrent networks in all their forms.

use super::{F, check, check_on, many_threads};
use crate::designer::{Design, design};
use crate::error::Result;
use crate::graph::{Arg, Graph, ValueId};
use crate::target::Target;
use crate::task::Task;

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

/// A network whose steps are written out: `hidden` makes the next hidden vector of an element of the input and the one
/// before, and the results are what `output` makes of the hidden vectors, and the last of these.
#[track_caller]
fn written_out(
    name: &str,
    dim: i64,
    hidden: impl Fn(&mut Graph, ValueId, ValueId) -> Result<ValueId>,
    output: impl Fn(&mut Graph, ValueId) -> Result<ValueId>,
) {
    let mut g = Graph::new(name);
    let x = g.input("x", F, if dim == 0 { [5, 3, 6] } else { [3, 5, 6] });
    let mut state = g.input("h", F, [3, 4]);
    let mut outputs = Vec::new();
    for t in 0..5 {
        let element = g.select(x, dim, t).unwrap();
        state = hidden(&mut g, element, state).unwrap();
        outputs.push(output(&mut g, state).unwrap());
    }
    let stacked = g.stack(&outputs, dim).unwrap();
    g.output(stacked);
    g.output(state);
    let target = Target::new("cpu", "x86_64");
    let design = design(&Task::new(name.to_owned(), g.clone()), &target).unwrap();
    let operators = design.kernels.iter().flat_map(|kernel| &kernel.operators);
    let recurrences = operators.filter(|name| name.starts_with("rnn")).count();
    assert!(recurrences > 0, "{}", design.sketch);
    assert!(design.kernels.len() < 8, "{}", design.sketch);
    check_on(&[target, many_threads()], g, 1e-5);
}

/// A matrix with as many rows and columns, and its bias.
fn layer(g: &mut Graph, name: &str, shape: [i64; 2]) -> (ValueId, ValueId) {
    let find = |g: &mut Graph, name: String, shape: &[i64]| match g.find(&name) {
        Some(value) => value,
        None => g.input(&name, F, shape.to_vec()),
    };
    (
        find(g, format!("{name}w"), &shape),
        find(g, format!("{name}b"), &shape[..1]),
    )
}

#[test]
fn steps_that_are_written_out_become_a_loop() {
    let output = |g: &mut Graph, state: ValueId| {
        let (w, b) = layer(g, "o", [7, 4]);
        g.linear(state, w, Some(b))
    };
    let joined = |g: &mut Graph, x: ValueId, state: ValueId| {
        let (w, b) = layer(g, "j", [4, 10]);
        let both = g.cat(&[x, state], 1)?;
        let sum = g.linear(both, w, Some(b))?;
        g.tanh(sum)
    };
    written_out("joined", 0, joined, output);
    written_out("joined_by_sample", 1, joined, |_, state| Ok(state));
    let turned = |g: &mut Graph, x: ValueId, state: ValueId| {
        let (w, _) = layer(g, "j", [4, 10]);
        let both = g.cat(&[state, x], 1)?;
        let sum = g.linear(both, w, None)?;
        g.relu(sum)
    };
    written_out("turned", 0, turned, |g, state| g.sigmoid(state));
    let added = |g: &mut Graph, x: ValueId, state: ValueId| {
        let ((w, a), (u, b)) = (layer(g, "w", [4, 6]), layer(g, "u", [4, 4]));
        let (of_input, of_state) = (g.linear(x, w, Some(a))?, g.linear(state, u, Some(b))?);
        let sum = g.add(of_input, of_state)?;
        g.tanh(sum)
    };
    written_out("added", 0, added, output);
}

/// Steps of a linear recurrence that are written out: `h = factor * h + term`, with the operands in this order.
#[track_caller]
fn linear_steps(name: &str, steps: i64, dim: i64, product_first: bool, reads_last: bool) -> Design {
    let build = |g: &mut Graph| -> Result<Vec<ValueId>> {
        let shape = if dim == 0 { [steps, 3, 5] } else { [3, steps, 5] };
        let (dt, x) = (g.input("dt", F, shape), g.input("x", F, shape));
        let (scale, c) = (g.weight("scale", F, [5]), g.input("c", F, shape));
        let mut hidden = g.input("h", F, [3, 5]);
        let mut outputs = Vec::new();
        for step in 0..steps {
            let at = |g: &mut Graph, value: ValueId| {
                let args = [
                    ("self", value.into()),
                    ("dim", dim.into()),
                    ("index", step.into()),
                ];
                g.call("select.int", args).map(|y| y[0])
            };
            let (dt, x, c) = (at(g, dt)?, at(g, x)?, at(g, c)?);
            let factor = g.mul(dt, scale)?;
            let factor = g.exp(factor)?;
            let product = if product_first {
                g.mul(factor, hidden)?
            } else {
                g.mul(hidden, factor)?
            };
            hidden = if product_first {
                g.add(product, x)?
            } else {
                g.add(x, product)?
            };
            let weighted = g.mul(hidden, c)?;
            outputs.push(Some(g.sum(weighted, &[-1], false)?));
        }
        let args = [("tensors", Arg::Values(outputs)), ("dim", 1.into())];
        let mut results = vec![g.call("stack.default", args)?[0]];
        results.extend(reads_last.then_some(hidden));
        Ok(results)
    };
    let mut g = Graph::new(name);
    for result in build(&mut g).unwrap() {
        g.output(result);
    }
    let target = Target::new("cpu", "x86_64");
    check_on(&[target.clone(), many_threads()], g.clone(), 1e-4);
    design(&Task::new(name, g), &target).unwrap()
}

#[test]
fn linear_recurrences_become_loops() {
    for (dim, product_first) in [(0, true), (1, false), (1, true)] {
        for reads_last in [false, true] {
            let design = linear_steps("linear", 12, dim, product_first, reads_last);
            assert!(design.kernels.iter().any(|kernel| kernel.rule == "recurrence"));
            assert!(design.kernels.len() < 12, "{}", design.kernels.len());
        }
    }
}

#[test]
fn few_steps_stay_as_they_are() {
    let design = linear_steps("few", 4, 1, true, true);
    assert!(design.kernels.iter().all(|kernel| kernel.rule != "recurrence"));
}
