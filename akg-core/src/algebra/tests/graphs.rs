//! What the rules make of whole graphs.

use super::{Random, compare, same_ports};
use crate::algebra::{COMMON_CALLS, DEAD_CODE, Kind, rewrite};
use crate::dtype::DType;
use crate::expr::{Bindings, Expr};
use crate::graph::{Arg, Conv, Graph, Rewritten};
use crate::task::{Accuracy, Contract, Generator};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

fn names(rewritten: &Rewritten) -> Vec<&str> {
    rewritten.rules.iter().map(|r| r.name.as_str()).collect()
}

/// The rows of a large problem; what is computed has few.
fn rows() -> Expr {
    Expr::symbol("N")
}

/// Rewrites for many rows, and checks for few that both graphs are the same function.
fn rewritten(graph: &Graph) -> Rewritten {
    let contract = Contract {
        hints: Bindings::from([("N".into(), 1 << 16)]),
        ..Contract::default()
    };
    let found = rewrite(graph, &contract).unwrap();
    same_ports(graph, &found.graph);
    let mut random = Random(ChaCha8Rng::seed_from_u64(7));
    let kind = Kind::Reassociating(Accuracy::Fp32);
    assert_eq!(
        compare(graph, &found.graph, &mut random, false, kind),
        None,
        "{}",
        found.graph
    );
    found
}

/// The shapes of the results of an operator's calls.
fn results(graph: &Graph, prefix: &str) -> Vec<String> {
    let nodes = graph.nodes().iter().filter(|n| n.op.name().starts_with(prefix));
    nodes.map(|n| graph.ty(n.outputs[0]).to_string()).collect()
}

#[test]
fn a_sum_over_a_product_makes_it_a_matrix_vector_product() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [rows(), 160.into()]);
    let w = g.weight("w", DType::F32, [144, 160]);
    let w = g.transpose(w, 0, 1).unwrap();
    let y = g.matmul(x, w).unwrap();
    let y = g.div(y, 4.0).unwrap();
    let y = g.sum(y, &[1], true).unwrap();
    let y = g.mul(y, 2.5).unwrap();
    g.output(y);
    let found = rewritten(&g);
    assert_eq!(results(&found.graph, "matmul"), ["f32[N, 1]"]);
    assert!(names(&found).contains(&"sum-of-product-columns"));
    assert!(names(&found).contains(&"scale-out-of-sum"));
}

#[test]
fn reductions_of_one_element_go_away_behind_a_layer() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [rows(), 160.into()]);
    let w = g.weight("w", DType::F32, [144, 160]);
    let b = g.weight("b", DType::F32, [144]);
    let y = g.linear(x, w, Some(b)).unwrap();
    let y = g.sum(y, &[1], true).unwrap();
    let (y, _) = g.max_dim(y, 1, true).unwrap();
    let y = g.mean(y, &[1], true).unwrap();
    let y = g.logsumexp(y, &[1], true).unwrap();
    g.output(y);
    let found = rewritten(&g);
    assert_eq!(results(&found.graph, "linear"), ["f32[N, 1]"]);
    assert_eq!(results(&found.graph, "max"), [""; 0]);
    assert_eq!(results(&found.graph, "logsumexp"), [""; 0]);
}

#[test]
fn a_mean_goes_through_a_layer_and_what_is_taken_off() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [rows(), 160.into()]);
    let (w, b) = (
        g.weight("w", DType::F32, [160, 160]),
        g.weight("b", DType::F32, [160]),
    );
    let s = g.weight("s", DType::F32, [160]);
    let y = g.linear(x, w, Some(b)).unwrap();
    let y = g.sub(y, s).unwrap();
    let y = g.mean(y, &[1], true).unwrap();
    let y = g.gelu(y).unwrap();
    let y = g.add(y, x).unwrap();
    g.output(y);
    let found = rewritten(&g);
    assert_eq!(results(&found.graph, "linear"), ["f32[N, 1]"]);
    assert!(names(&found).contains(&"term-into-bias"));
}

/// The mean over positions of a transposed convolution in two dimensions, after a scale.
fn pooled(stride: i64, padding: i64, extra: i64) -> Graph {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [rows(), 8.into(), 12.into(), 12.into()]);
    let (w, b) = (
        g.weight("w", DType::F32, [8, 12, 3, 3]),
        g.weight("b", DType::F32, [12]),
    );
    let window = Conv {
        stride: vec![stride],
        padding: vec![padding],
        ..Conv::default()
    };
    let y = g.conv_transpose(x, w, Some(b), &window, &[extra]).unwrap();
    let y = g.mul(y, 0.5).unwrap();
    let y = g.mean(y, &[2, 3], true).unwrap();
    let y = g.mean(y, &[2, 3], true).unwrap();
    g.output(y);
    g
}

#[test]
fn a_mean_goes_through_a_transposed_convolution() {
    for (stride, padding, extra) in [(1, 0, 0), (2, 1, 1), (1, 1, 0)] {
        let g = pooled(stride, padding, extra);
        let found = rewritten(&g);
        assert_eq!(results(&found.graph, "conv"), ["f32[N, 12, 1, 1]"]);
        assert!(names(&found).contains(&"sum-through-transposed-convolution"));
    }
}

#[test]
fn one_axis_of_three_goes_through_a_transposed_convolution() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [rows(), 4.into(), 12.into(), 6.into(), 6.into()]);
    let w = g.weight("w", DType::F32, [4, 6, 3, 3, 3]);
    let window = Conv {
        padding: vec![1],
        ..Conv::default()
    };
    let y = g.conv_transpose(x, w, None, &window, &[0]).unwrap();
    let y = g.mean(y, &[2], true).unwrap();
    let y = g.softmax(y, 1).unwrap();
    g.output(y);
    let found = rewritten(&g);
    assert_eq!(results(&found.graph, "conv"), ["f32[N, 6, 1, 6, 6]"]);
}

#[test]
fn what_nothing_needs_and_what_is_computed_twice_goes_away() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [4, 4]);
    g.exp(x).unwrap();
    let (a, b) = (g.tanh(x).unwrap(), g.tanh(x).unwrap());
    let y = g.add(a, b).unwrap();
    g.output(y);
    let found = rewritten(&g);
    assert_eq!(names(&found), [DEAD_CODE, COMMON_CALLS]);
    assert_eq!(found.graph.nodes().len(), 2);
}

#[test]
fn random_calls_stay_apart() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [4, 4]);
    let (a, b) = (g.dropout(x, 0.5, true).unwrap(), g.dropout(x, 0.5, true).unwrap());
    let y = g.add(a, b).unwrap();
    g.output(y);
    let found = rewrite(&g, &Contract::default()).unwrap();
    assert_eq!(found.graph.nodes().len(), 3);
    assert!(found.rules.is_empty());
}

#[test]
fn seeded_calls_are_functions_of_their_seed() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [4, 4]);
    let seed = g.input("seed", DType::I64, [0i64; 0]);
    let a = g.seeded_dropout(x, seed, 0.5, 0).unwrap();
    let b = g.seeded_dropout(x, seed, 0.5, 16).unwrap();
    let y = g.add(a, b).unwrap();
    g.output(y);
    assert_eq!(rewritten(&g).graph.nodes().len(), 3);
}

#[test]
fn outputs_keep_their_names_when_they_are_inputs_or_one_another() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [4, 4]);
    let state = g.state("count", DType::F32, [4, 4]);
    let same = g.mul(x, 1.0).unwrap();
    let (a, b) = (g.exp(x).unwrap(), g.exp(same).unwrap());
    let next = g.add(state, 0.0).unwrap();
    [same, a, b, x].into_iter().for_each(|v| g.output(v));
    g.update(state, next).unwrap();
    let found = rewritten(&g);
    assert_eq!(results(&found.graph, "exp").len(), 1);
}

#[test]
fn several_results_of_a_call_stay_together() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [4, 6]);
    let x = g.mul(x, 1.0).unwrap();
    let parts = g.split(x, 2, 1).unwrap();
    parts.iter().rev().for_each(|v| g.output(*v));
    let found = rewritten(&g);
    assert_eq!(found.graph.nodes().len(), 1);
}

#[test]
fn symbols_stay_symbols() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [rows(), 256.into()]);
    let w = g.weight("w", DType::F32, [256, 256]);
    let y = g.linear(x, w, None).unwrap();
    let y = g.mean(y, &[-1], false).unwrap();
    g.output(y);
    let found = rewritten(&g);
    assert_eq!(results(&found.graph, "linear"), ["f32[N, 1]"]);
}

#[test]
fn what_special_values_or_a_class_forbid_is_left_alone() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [4096, 512]);
    let w = g.weight("w", DType::F32, [512, 512]);
    let y = g.matmul(x, w).unwrap();
    let y = g.sum(y, &[1], true).unwrap();
    g.output(y);
    let contract = Contract {
        special_values: true,
        ..Contract::default()
    };
    assert!(rewrite(&g, &contract).unwrap().rules.is_empty());
    assert!(!rewrite(&g, &Contract::default()).unwrap().rules.is_empty());

    let mut chain = Graph::new("chain");
    let a = chain.input("a", DType::F32, [512, 512]);
    let b = chain.input("b", DType::F32, [512, 512]);
    let c = chain.input("c", DType::F32, [512, 1]);
    let y = chain.matmul(a, b).unwrap();
    let y = chain.matmul(y, c).unwrap();
    chain.output(y);
    assert!(rewritten(&chain).rules.is_empty());
    let contract = Contract {
        accuracy: Accuracy::Tf32,
        ..Contract::default()
    };
    assert_eq!(names(&rewrite(&chain, &contract).unwrap()), ["product-of-three"]);
}

#[test]
fn what_is_not_sound_is_not_done() {
    let mut g = Graph::new("g");
    let (x, y) = (g.input("x", DType::F32, [8, 8]), g.input("y", DType::F32, [8, 8]));
    let sum = g.add(x, y).unwrap();
    let back = g.sub(sum, y).unwrap();
    let one = g.div(x, x).unwrap();
    let nothing = g.sub(x, x).unwrap();
    let zero = g.mul(x, 0.0).unwrap();
    let root = g.mul(x, x).unwrap();
    let root = g.sqrt(root).unwrap();
    let log = g.exp(x).unwrap();
    let log = g.log(log).unwrap();
    let cancelled = g.add(x, 1e8).unwrap();
    let cancelled = g.sub(cancelled, 1e8).unwrap();
    [back, one, nothing, zero, root, log, cancelled]
        .into_iter()
        .for_each(|v| g.output(v));
    assert_eq!(rewrite(&g, &Contract::default()).unwrap().rules, []);
}

#[test]
fn narrow_types_round_at_each_operator_and_stay() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F16, [4096, 512]);
    let w = g.weight("w", DType::F16, [512, 512]);
    let y = g.matmul(x, w).unwrap();
    let y = g.sum(y, &[1], true).unwrap();
    g.output(y);
    for accuracy in Accuracy::ALL {
        let contract = Contract {
            accuracy,
            ..Contract::default()
        };
        assert_eq!(rewrite(&g, &contract).unwrap().rules, []);
    }
}

#[test]
fn inputs_of_any_generator_prove_nothing() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::F32, [64, 512]);
    let y = g.relu(x).unwrap();
    g.output(y);
    let contract = Contract {
        generators: vec![Generator::Uniform01],
        ..Contract::default()
    };
    assert_eq!(rewrite(&g, &contract).unwrap().rules, []);
}

#[test]
fn rewriting_is_deterministic() {
    let text = |g: &Graph| rewrite(g, &Contract::default()).unwrap().graph.to_json().unwrap();
    let g = pooled(2, 1, 1);
    assert_eq!(text(&g), text(&g.clone()));
}

#[test]
fn integers_are_not_floats() {
    let mut g = Graph::new("g");
    let x = g.input("x", DType::I64, [8, 8]);
    let y = g.mul(x, 3i64).unwrap();
    let y = g.sum(y, &[1], true).unwrap();
    let y = g
        .call(
            "clamp.default",
            [("self", y.into()), ("min", 0.into()), ("max", Arg::None)],
        )
        .unwrap()[0];
    g.output(y);
    assert!(rewritten(&g).rules.is_empty());
}
