//! The family of a problem, told from the operators of its graph.

use std::collections::BTreeSet;
use std::fmt;

use akg::Graph;
use akg::expr::{Bindings, Expr};
use akg::graph::ValueId;
use serde::{Deserialize, Serialize};

/// What a problem is mostly about: of all that its graph does, what comes first in this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Family {
    Attention,
    Recurrent,
    Convolution,
    /// Matrix products in every form. A graph that does nothing but multiply once is the product with a diagonal matrix.
    Matmul,
    Pooling,
    Scan,
    /// Several tensors become one number, or an operator is called a loss.
    Loss,
    /// A norm operator, or a reduction whose result is applied to what was reduced.
    Norm,
    Reduction,
    /// Each element by itself, softmax included.
    ElementWise,
}

impl Family {
    /// The name in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Family::Attention => "attention",
            Family::Recurrent => "recurrent",
            Family::Convolution => "convolution",
            Family::Matmul => "matmul",
            Family::Pooling => "pooling",
            Family::Scan => "scan",
            Family::Loss => "loss",
            Family::Norm => "norm",
            Family::Reduction => "reduction",
            Family::ElementWise => "element-wise",
        }
    }

    /// The family of a graph.
    pub(super) fn of(graph: &Graph) -> Self {
        let names = graph.nodes().iter().map(|n| n.op.name());
        let operators: BTreeSet<&str> = names
            .map(|name| name.split_once('.').map_or(name, |(base, _)| base))
            .filter(|name| !VIEWS.contains(name))
            .collect();
        let any = |words: &[&str]| operators.iter().any(|o| words.iter().any(|w| o.contains(w)));
        let is = |names: &[&str]| names.iter().any(|n| operators.contains(n));
        let reduces = is(REDUCTIONS);
        if any(&["attention"]) {
            Family::Attention
        } else if is(&["lstm", "gru", "rnn_relu", "rnn_tanh"]) {
            Family::Recurrent
        } else if operators.iter().any(|o| o.starts_with("conv")) {
            Family::Convolution
        } else if is(PRODUCTS) || operators.len() == 1 && is(&["mul"]) {
            Family::Matmul
        } else if any(&["pool"]) {
            Family::Pooling
        } else if any(&["cumsum", "cumprod"]) {
            Family::Scan
        } else if any(&["_loss", "kl_div", "cross_entropy"]) || reduces && makes_one_number_of_many(graph) {
            Family::Loss
        } else if any(&[
            "batch_norm",
            "instance_norm",
            "group_norm",
            "layer_norm",
            "rms_norm",
        ]) || reduces && keeps_the_size(graph)
        {
            Family::Norm
        } else if reduces {
            Family::Reduction
        } else {
            Family::ElementWise
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

const PRODUCTS: &[&str] = &[
    "mm", "bmm", "matmul", "mv", "dot", "addmm", "baddbmm", "linear", "einsum", "outer",
];

const REDUCTIONS: &[&str] = &[
    "sum",
    "mean",
    "prod",
    "amax",
    "amin",
    "max",
    "min",
    "argmax",
    "argmin",
    "any",
    "all",
    "var",
    "std",
    "var_mean",
    "std_mean",
    "norm",
    "linalg_vector_norm",
    "logsumexp",
];

/// Operators that compute nothing.
const VIEWS: &[&str] = &[
    "view",
    "_unsafe_view",
    "reshape",
    "permute",
    "transpose",
    "t",
    "squeeze",
    "unsqueeze",
    "expand",
    "clone",
    "alias",
    "detach",
];

fn elements(graph: &Graph, value: ValueId) -> usize {
    // Symbols count as 2: more than one, and less than any extent that a problem is about.
    let extent = |dim: &Expr| dim.eval(&Bindings::new()).map_or(2, |n| n.max(0) as usize);
    graph.ty(value).shape.iter().map(extent).product()
}

fn makes_one_number_of_many(graph: &Graph) -> bool {
    let inputs = graph.inputs().iter();
    let tensors = inputs.filter(|i| elements(graph, i.value) > 1).count();
    tensors > 1 && graph.outputs().iter().all(|o| elements(graph, o.value) == 1)
}

fn keeps_the_size(graph: &Graph) -> bool {
    let inputs = graph.inputs().iter().map(|i| elements(graph, i.value));
    let outputs = graph.outputs().iter().map(|o| elements(graph, o.value));
    outputs.max() == inputs.max()
}

#[cfg(test)]
mod tests {
    use akg::{DType, Result};

    use super::*;

    fn family(build: impl FnOnce(&mut Graph) -> Result<ValueId>) -> Family {
        let mut graph = Graph::new("problem");
        let y = build(&mut graph).unwrap();
        graph.output(y);
        Family::of(&graph)
    }

    fn input(graph: &mut Graph) -> ValueId {
        graph.input("x", DType::F32, [64, 32])
    }

    #[test]
    fn the_operators_decide() {
        let found = family(|g| {
            let (x, w) = (input(g), g.weight("w", DType::F32, [16, 32]));
            let y = g.linear(x, w, None)?;
            g.gelu(y)
        });
        assert_eq!(found, Family::Matmul);
        let softmax = family(|g| {
            let x = input(g);
            g.softmax(x, -1)
        });
        assert_eq!(softmax, Family::ElementWise);
        let sum = family(|g| {
            let x = input(g);
            g.sum(x, &[1], false)
        });
        assert_eq!(sum, Family::Reduction);
    }

    #[test]
    fn what_becomes_of_a_reduction_decides() {
        let scaled = family(|g| {
            let x = input(g);
            let total = g.sum(x, &[1], true)?;
            g.div(x, total)
        });
        assert_eq!(scaled, Family::Norm);
        let distance = family(|g| {
            let (x, t) = (input(g), g.input("t", DType::F32, [64, 32]));
            let difference = g.sub(x, t)?;
            let square = g.mul(difference, difference)?;
            g.sum(square, &[0, 1], false)
        });
        assert_eq!(distance, Family::Loss);
    }

    #[test]
    fn one_multiplication_is_a_product_with_a_diagonal_matrix() {
        let scale = |more: bool| {
            family(|g| {
                let (x, d) = (input(g), g.input("d", DType::F32, [64, 1]));
                let y = g.mul(x, d)?;
                if more { g.relu(y) } else { Ok(y) }
            })
        };
        assert_eq!(scale(false), Family::Matmul);
        assert_eq!(scale(true), Family::ElementWise);
    }
}
