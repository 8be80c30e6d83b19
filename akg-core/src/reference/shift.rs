//! Moving values by a little, to see how an evaluation depends on them.

use super::registry;
use crate::graph::{Family, Graph, Operator};

/// The values that a [`Shift`] moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shifted {
    /// The inputs of the graph.
    Inputs,
    /// The results of operators that other arithmetic of the same precision need not make exact even where they are, such as
    /// products of matrices and exponentials. Sums and differences of two numbers are not among them.
    Results,
    /// Those results, and the inputs that are read by sums and products of matrices alone: roundings of a sum's terms move it by a
    /// part of their magnitudes, even where it is zero.
    Arithmetic,
}

impl Shifted {
    fn has_results(self) -> bool {
        matches!(self, Self::Results | Self::Arithmetic)
    }
}

/// Marks the values of a graph that are read by operators that add up many terms and by nothing else, maybe through views.
pub(super) fn summed(graph: &Graph) -> Vec<bool> {
    let mut is_read = vec![false; graph.values().len()];
    let mut is_summed = vec![true; graph.values().len()];
    for output in graph.outputs() {
        is_summed[output.value.index()] = false;
    }
    for node in graph.nodes().iter().rev() {
        let through = matches!(node.op.family(), Family::View | Family::Rearrange);
        let sums = registry::adds_up(node.op)
            || through
                && node
                    .outputs
                    .iter()
                    .all(|v| is_read[v.index()] && is_summed[v.index()]);
        for value in node.inputs() {
            is_read[value.index()] = true;
            is_summed[value.index()] &= sums;
        }
    }
    is_read
        .into_iter()
        .zip(is_summed)
        .map(|(read, summed)| read && summed)
        .collect()
}

/// Moves finite floating values, each by a part of itself that follows from the value: equal elements of a tensor stay equal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// The values that are moved.
    pub of: Shifted,
    /// Decides which element moves how far.
    pub seed: u64,
    /// The largest part of itself that an element is moved by.
    pub size: f64,
    /// Moves all elements by the same part, the largest.
    pub alike: bool,
}

impl Shift {
    /// The shift of one operator's results; `salt` makes its moves its own. `None` if the operator's results stay.
    pub(super) fn of_result(self, operator: &Operator, salt: usize) -> Option<Self> {
        let moves = self.of.has_results() && registry::approximates(operator);
        moves.then_some(Self {
            seed: self.seed ^ (salt as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ..self
        })
    }

    /// The value, moved.
    pub(super) fn apply(self, value: f64) -> f64 {
        let part = if self.alike {
            1.0
        } else {
            fraction(value.to_bits() ^ self.seed)
        };
        let moved = value * (1.0 + self.size * part);
        if moved.is_finite() { moved } else { value }
    }
}

/// A number from -1 to 1 that looks random (the finalizer of SplitMix64).
fn fraction(bits: u64) -> f64 {
    let mut z = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    #[test]
    fn results_move_where_arithmetic_may_be_inexact() {
        let shift = Shift {
            of: Shifted::Results,
            seed: 7,
            size: 1e-3,
            alike: false,
        };
        let moves = |name: &str| shift.of_result(Operator::find(name).unwrap(), 3).is_some();
        assert!(
            [
                "mm.default",
                "exp.default",
                "mul.Tensor",
                "mean.dim",
                "avg_pool2d.default"
            ]
            .into_iter()
            .all(moves)
        );
        let exact = [
            "add.Tensor",
            "relu.default",
            "sum.default",
            "max_pool2d.default",
            "cat.default",
            "view.default",
        ];
        assert!(!exact.into_iter().any(moves));
        let inputs = Shift {
            of: Shifted::Inputs,
            ..shift
        };
        let product = Operator::find("mm.default").unwrap();
        assert_eq!(inputs.of_result(product, 3), None);
        let of = |salt| shift.of_result(product, salt).map(|shift| shift.apply(3.0));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn inputs_that_sums_alone_read_move_with_the_arithmetic() {
        let mut graph = Graph::new("g");
        let size = [4, 4];
        let [x, w, both, compared] =
            ["x", "w", "both", "compared"].map(|name| graph.input(name, DType::F32, size));
        let turned = graph.transpose(w, 0, 1).unwrap();
        let product = graph.matmul(x, turned).unwrap();
        let other = graph.matmul(product, both).unwrap();
        let is_large = graph.ge(compared, 0.5).unwrap();
        let y = graph.where_(is_large, other, both).unwrap();
        graph.output(y);
        let summed = summed(&graph);
        let of = [x, w, turned, product, both, compared, other, y].map(|value| summed[value.index()]);
        assert_eq!(of, [true, true, true, true, false, false, false, false]);
    }

    #[test]
    fn values_move_by_a_part_of_themselves_at_most_and_equal_ones_alike() {
        let shift = Shift {
            of: Shifted::Inputs,
            seed: 7,
            size: 1e-3,
            alike: false,
        };
        let values: Vec<f64> = (1..1000).map(|i| f64::from(i) * 0.37).collect();
        let parts = values.iter().map(|v| shift.apply(*v) / v - 1.0);
        let (down, up): (Vec<f64>, Vec<f64>) = parts.partition(|part| *part < 0.0);
        assert!(down.len() > 400 && up.len() > 400);
        assert!(down.iter().chain(&up).all(|part| part.abs() <= 1.001e-3));
        assert_eq!(shift.apply(3.0), shift.apply(3.0));
        assert_eq!(shift.apply(0.0), 0.0);
        assert_eq!(shift.apply(f64::INFINITY), f64::INFINITY);
        assert_eq!(Shift { alike: true, ..shift }.apply(2.0), 2.002);
    }
}
