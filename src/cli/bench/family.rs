//! The family of a problem, told from the operators of its graph.

use std::fmt;

use akg::Graph;
use akg::expr::{Bindings, Expr};
use akg::graph::{Family as OperatorFamily, Operator, ValueId};
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
        let operators = graph.nodes().iter().map(|node| node.op);
        // Views compute nothing, and softmax goes by element for what uses it.
        let operators: Vec<_> = operators
            .filter(|op| op.family() != OperatorFamily::View && !op.base_name().contains("softmax"))
            .collect();
        let any = |family| operators.iter().any(|op| op.family() == family);
        let reduces = any(OperatorFamily::Reduce);
        if any(OperatorFamily::Attention) {
            Family::Attention
        } else if any(OperatorFamily::Rnn) {
            Family::Recurrent
        } else if any(OperatorFamily::Conv) {
            Family::Convolution
        } else if any(OperatorFamily::Matmul) || only_multiplies(graph) {
            Family::Matmul
        } else if any(OperatorFamily::Pool) {
            Family::Pooling
        } else if any(OperatorFamily::Scan) {
            Family::Scan
        } else if any(OperatorFamily::Loss) || reduces && makes_one_number_of_many(graph) {
            Family::Loss
        } else if any(OperatorFamily::Norm) || reduces && keeps_the_size(graph) {
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

/// Whether multiplications are all that a graph computes.
fn only_multiplies(graph: &Graph) -> bool {
    let operators = graph.nodes().iter().map(|node| node.op);
    let mut names = operators
        .filter(|op| op.family() != OperatorFamily::View)
        .map(Operator::base_name)
        .peekable();
    names.peek().is_some() && names.all(|name| name == "mul")
}

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
    fn an_element_wise_maximum_is_no_reduction() {
        let larger = family(|g| {
            let (x, y) = (input(g), g.input("y", DType::F32, [64, 32]));
            let args = [("self", x.into()), ("other", y.into())];
            Ok(g.call("aten.max.other", args)?[0])
        });
        assert_eq!(larger, Family::ElementWise);
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
