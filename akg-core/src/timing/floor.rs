//! The time below which a measurement is disbelieved.

use serde::{Deserialize, Serialize};

use super::outcome::SideTimes;
use super::statistics::median;
use crate::error::Result;
use crate::expr::Bindings;
use crate::graph::ops::Call;
use crate::graph::{Graph, Node, TensorType, ValueId};
use crate::target::Target;
use crate::tensor::byte_len;
use crate::verdict::{Failure, FailureKind};

/// The time below which a measurement is disbelieved: whoever is faster did not do the work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Floor {
    /// Seconds of a call that finds as much of its data in the caches as they hold.
    pub warm_seconds: f64,
    /// Seconds of a call that finds none.
    pub cold_seconds: f64,
}

/// A target's bandwidth and peak are measured by the best of a few short loops and not theoretical, so they may be low:
/// another could have the machine at that time, the clock rises when fewer cores work, and a copy loop reaches 60 to 90 %
/// of what memory can deliver. Twice the measured rates, and the 5 % that theoretical rates get.
const MARGIN: f64 = 2.0 * 1.05;

impl Floor {
    /// The floor of a graph whose symbols have the values in `dims`; nothing where the target's rates are unknown.
    ///
    /// Counted is what no kernel can avoid: outputs are written, of those that update a state [what changes](Graph::written), inputs are read unless the operators that take them
    /// might skip elements, and products are formed at the target's highest rate of any element type. Products that
    /// algebra could save are left out: those that only linear operators and sums connect to another product, to a sum
    /// or to an average; and convolutions count one multiplication for each output position and pair of channels,
    /// because Winograd's and Fourier methods get near that. `graph` is the graph after the rewrites that were proven.
    pub fn new(graph: &Graph, dims: &Bindings, target: &Target) -> Result<Floor> {
        let need = needs(graph);
        let of = |value: ValueId| need.get(value.index()).copied().unwrap_or(Need::Nothing);
        let mut bytes = 0.0;
        for output in graph.outputs() {
            bytes += size(graph.ty(graph.written(output)), dims)?;
        }
        for input in graph.inputs().iter().filter(|i| of(i.value) != Need::Nothing) {
            bytes += size(graph.ty(input.value), dims)?;
        }
        let mut flops = 0.0;
        for node in graph.nodes() {
            if node.outputs.iter().any(|v| of(*v) == Need::Each) {
                let (all, saved) = product(graph, node, dims)?;
                flops += all / saved;
            }
        }
        let rate = |amount: f64, rate: f64| if rate > 0.0 { amount / (rate * MARGIN) } else { 0.0 };
        let peak = target.peak.values().copied().fold(0.0, f64::max);
        let cached = target.caches.last().map_or(0.0, |c| *c as f64);
        let compute = rate(flops, peak);
        Ok(Floor {
            warm_seconds: rate((bytes - cached).max(0.0), target.bandwidth).max(compute),
            cold_seconds: rate(
                bytes - cached.min(size_of_outputs(graph, dims)?),
                target.bandwidth,
            )
            .max(compute),
        })
    }

    /// The failure of a side whose median time is below the floor, also if the constant that was subtracted is all too much.
    pub fn judge(&self, side: &SideTimes) -> Option<Failure> {
        let batch = side.batches.iter().copied().max().unwrap_or(1).max(1);
        let below = |what: &str, seconds: &[f64], floor: f64, calls: u32| {
            let constant = side.constant_seconds / f64::from(calls);
            let time = median(seconds).filter(|t| *t + constant < floor)?;
            Some(Failure::new(
                FailureKind::Implausible,
                format!(
                    "a {what} call takes {:.3} µs, but the device cannot move the task's bytes and form its products in \
                     less than {:.3} µs: the timed calls did not do the work",
                    time * 1e6,
                    floor * 1e6
                ),
            ))
        };
        below("warm", &side.warm.seconds, self.warm_seconds, batch)
            .or_else(|| below("cold", &side.cold.seconds, self.cold_seconds, 1))
    }
}

/// Floating operations of a node's products, two for each multiplication with its addition: matrix products, linear
/// layers and convolutions as their definition writes them. 0 for all other operators.
pub fn product_flops(graph: &Graph, node: &Node, dims: &Bindings) -> Result<f64> {
    Ok(product(graph, node, dims)?.0)
}

/// Floating operations of a node's products, and by which factor an algorithm may save of them.
fn product(graph: &Graph, node: &Node, dims: &Bindings) -> Result<(f64, f64)> {
    let call = Call::new(node.op, &node.args, graph.values());
    let elements =
        |ty: &TensorType| Ok::<f64, crate::Error>(ty.concrete_shape(dims)?.iter().product::<usize>() as f64);
    let Some(result) = node.outputs.first().map(|v| graph.ty(*v)) else {
        return Ok((0.0, 1.0));
    };
    // Each result element sums over the last axis of the operand with this name.
    let depth_of = |operand: &str| {
        let shape = call.tensor(operand)?.concrete_shape(dims)?;
        Ok::<f64, crate::Error>(shape.last().copied().unwrap_or(1) as f64)
    };
    let depth = match node.op.name() {
        "mm.default" | "bmm.default" | "matmul.default" | "mv.default" | "dot.default" => depth_of("self")?,
        "linear.default" => depth_of("input")?,
        "addmm.default" => depth_of("mat1")?,
        "baddbmm.default" => depth_of("batch1")?,
        name if name.starts_with("conv") => {
            let weight = call.tensor("weight")?.concrete_shape(dims)?;
            let transposed = name.starts_with("conv_transpose")
                || call
                    .opt_arg("transposed")
                    .is_some_and(|a| matches!(a, crate::graph::Arg::Bool(true)));
            // A weight is [out, in / groups, window…]; transposed, [in, out / groups, window…].
            let taps: f64 = weight.iter().skip(1).map(|n| *n as f64).product();
            let window: f64 = weight.iter().skip(2).map(|n| *n as f64).product();
            let positions = if transposed {
                elements(call.tensor("input")?)?
            } else {
                elements(result)?
            };
            return Ok((2.0 * positions * taps, window.max(1.0)));
        }
        _ => return Ok((0.0, 1.0)),
    };
    Ok((2.0 * depth * elements(result)?, 1.0))
}

/// How much of a value the outputs need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// Perhaps nothing.
    Nothing,
    /// Sums that every element has a part in.
    Sums,
    /// Each element by itself.
    Each,
}

/// How an operator uses the elements of its operands.
enum Use {
    /// Each result element is a linear function of one element of each operand, and every element is used.
    Linear,
    /// Each element goes through a function that is not linear, by itself or with others.
    NonLinear,
    /// Elements are only summed, perhaps with weights.
    Summing,
    /// Some elements might not be looked at.
    Unknown,
}

/// How much of each value the outputs need, by its index.
fn needs(graph: &Graph) -> Vec<Need> {
    let mut needs = vec![Need::Nothing; graph.values().len()];
    let raise = |needs: &mut Vec<Need>, value: ValueId, need: Need| {
        if let Some(place) = needs.get_mut(value.index()) {
            *place = need.max(*place);
        }
    };
    for output in graph.outputs() {
        raise(&mut needs, output.value, Need::Each);
    }
    for node in graph.nodes().iter().rev() {
        let results = node.outputs.iter().filter_map(|v| needs.get(v.index()).copied());
        let wanted = results.max().unwrap_or(Need::Nothing);
        let need = match usage(graph, node) {
            _ if wanted == Need::Nothing => Need::Nothing,
            Use::Linear => wanted,
            Use::NonLinear => Need::Each,
            Use::Summing => Need::Sums,
            Use::Unknown => Need::Nothing,
        };
        node.inputs().for_each(|v| raise(&mut needs, v, need));
    }
    needs
}

fn usage(graph: &Graph, node: &Node) -> Use {
    match node.op.base_name() {
        "add" | "sub" | "rsub" | "neg" | "mul" | "multiply" | "div" | "clone" | "contiguous" | "detach"
        | "alias" | "view" | "_unsafe_view" | "reshape" | "flatten" | "unflatten" | "permute"
        | "transpose" | "t" | "squeeze" | "unsqueeze" | "flip" | "cat" | "stack" | "to" | "_to_copy"
        | "type_as" | "roll" => Use::Linear,
        "abs" | "exp" | "expm1" | "log" | "log1p" | "sqrt" | "rsqrt" | "square" | "reciprocal" | "relu"
        | "relu6" | "leaky_relu" | "gelu" | "silu" | "elu" | "selu" | "celu" | "mish" | "softplus"
        | "sigmoid" | "tanh" | "hardtanh" | "hardswish" | "hardsigmoid" | "erf" | "sin" | "cos" | "clamp"
        | "clamp_min" | "clamp_max" | "softmax" | "_softmax" | "log_softmax" | "_log_softmax"
        | "logsumexp" | "layer_norm" | "rms_norm" | "group_norm" | "instance_norm" | "amax" | "amin"
        | "var" | "std" | "linalg_vector_norm" => Use::NonLinear,
        "sum" | "mean" | "mm" | "bmm" | "matmul" | "mv" | "dot" | "linear" | "addmm" | "baddbmm" => {
            Use::Summing
        }
        "conv1d" | "conv2d" | "conv3d" | "convolution" if touches_everything(graph, node) => Use::Summing,
        _ => Use::Unknown,
    }
}

/// Whether a convolution's windows leave out no element between them.
fn touches_everything(graph: &Graph, node: &Node) -> bool {
    let call = Call::new(node.op, &node.args, graph.values());
    let Some((strides, weight)) = call.arg("stride").ok().zip(call.tensor("weight").ok()) else {
        return false;
    };
    let crate::graph::Arg::Ints(strides) = strides else {
        return false;
    };
    strides.iter().all(|s| s.as_const() == Some(1)) && weight.rank() > 2
}

fn size(ty: &TensorType, dims: &Bindings) -> Result<f64> {
    Ok(byte_len(ty.dtype, &ty.concrete_shape(dims)?)? as f64)
}

fn size_of_outputs(graph: &Graph, dims: &Bindings) -> Result<f64> {
    graph
        .outputs()
        .iter()
        .map(|o| size(graph.ty(o.value), dims))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::Conv;

    fn target() -> Target {
        let mut target = Target::new("cpu", "x86_64");
        target.bandwidth = 1e9;
        target.caches = vec![1000];
        target.peak.insert(DType::F32, 1e9);
        target
    }

    fn flops(graph: &Graph) -> f64 {
        let of = |node| product_flops(graph, node, &Bindings::new()).unwrap();
        graph.nodes().iter().map(of).sum()
    }

    /// Seconds at the target's rates, without the margin.
    fn floor(graph: &Graph) -> (f64, f64) {
        let floor = Floor::new(graph, &Bindings::new(), &target()).unwrap();
        (floor.warm_seconds * MARGIN, floor.cold_seconds * MARGIN)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9 * b.abs().max(1e-12)
    }

    #[test]
    fn products_are_counted_as_by_hand() {
        let mut g = Graph::new("g");
        let x = g.input("x", DType::F32, [2, 3, 5]);
        let w = g.weight("w", DType::F32, [7, 5]);
        let b = g.weight("b", DType::F32, [7]);
        let y = g.linear(x, w, Some(b)).unwrap();
        g.output(y);
        assert_eq!(flops(&g), 2.0 * (2 * 3 * 7 * 5) as f64);

        let call = |op: &str, shapes: &[(&str, &[usize])]| {
            let mut g = Graph::new("g");
            let args: Vec<_> = shapes
                .iter()
                .map(|(name, shape)| (*name, g.input(name, DType::F32, shape.iter().copied()).into()))
                .collect();
            let y = g.call(op, args).unwrap()[0];
            g.output(y);
            flops(&g)
        };
        assert_eq!(
            call("aten.mm.default", &[("self", &[3, 4]), ("mat2", &[4, 5])]),
            120.0
        );
        assert_eq!(
            call("aten.bmm.default", &[("self", &[2, 3, 4]), ("mat2", &[2, 4, 5])]),
            240.0
        );
        assert_eq!(
            call("aten.matmul.default", &[("self", &[2, 3, 4]), ("other", &[4, 5])]),
            240.0
        );
        assert_eq!(
            call("aten.matmul.default", &[("self", &[4]), ("other", &[4])]),
            8.0
        );
        let addmm: &[(&str, &[usize])] = &[("self", &[5]), ("mat1", &[3, 4]), ("mat2", &[4, 5])];
        assert_eq!(call("aten.addmm.default", addmm), 120.0);
        assert_eq!(call("aten.mul.Tensor", &[("self", &[9]), ("other", &[9])]), 0.0);
        // 8 outputs of [2, 6, 6] positions, each from 4 / 2 channels of a 3 by 3 window.
        let mut g = Graph::new("g");
        let x = g.input("x", DType::F32, [2, 4, 8, 8]);
        let w = g.weight("w", DType::F32, [8, 2, 3, 3]);
        let window = Conv {
            groups: 2,
            ..Conv::default()
        };
        let y = g.conv(x, w, None, &window).unwrap();
        g.output(y);
        assert_eq!(flops(&g), 2.0 * (2 * 8 * 6 * 6) as f64 * (2 * 3 * 3) as f64);
        // Every input element meets every tap of 6 outputs.
        let transposed = call(
            "aten.conv_transpose2d.input",
            &[("input", &[2, 4, 8, 8]), ("weight", &[4, 6, 3, 3])],
        );
        assert_eq!(transposed, 2.0 * (2 * 4 * 8 * 8) as f64 * (6 * 3 * 3) as f64);
    }

    #[test]
    fn bytes_beyond_the_caches_take_their_time() {
        let mut g = Graph::new("g");
        let x = g.input("x", DType::F32, [1000]);
        let y = g.relu(x).unwrap();
        g.output(y);
        let (warm, cold) = floor(&g);
        assert!(near(warm, 7000e-9), "{warm}");
        // Outputs may stay in the caches and be written back later.
        assert!(near(cold, 7000e-9), "{cold}");
        let mut unused = g.clone();
        unused.input("unused", DType::F32, [1 << 20]);
        assert_eq!(floor(&unused), (warm, cold));
    }

    #[test]
    fn what_algebra_could_save_is_not_counted() {
        let mut mlp = Graph::new("mlp");
        let x = mlp.input("x", DType::F32, [64, 64]);
        let w = mlp.weight("w", DType::F32, [64, 64]);
        let h = mlp.linear(x, w, None).unwrap();
        let product = 2.0 * 64f64.powi(3) * 1e-9;

        let mut summed = mlp.clone();
        let args = [
            ("self", h.into()),
            ("dim", crate::graph::Arg::Ints(vec![1.into()])),
        ];
        let y = summed.call("aten.sum.dim_IntList", args).unwrap()[0];
        summed.output(y);
        assert!(floor(&summed).0 < product);

        let mut chained = mlp.clone();
        let y = chained.linear(h, w, None).unwrap();
        chained.output(y);
        assert!(near(floor(&chained).0, product));

        let h = mlp.relu(h).unwrap();
        let y = mlp.linear(h, w, None).unwrap();
        mlp.output(y);
        assert!(near(floor(&mlp).0, 2.0 * product));
    }

    #[test]
    fn a_gathered_table_need_not_be_read() {
        let mut g = Graph::new("g");
        let table = g.weight("table", DType::F32, [1 << 20, 4]);
        let rows = g.input("rows", DType::I64, [3]);
        let args = [("weight", table.into()), ("indices", rows.into())];
        let y = g.call("aten.embedding.default", args).unwrap()[0];
        g.output(y);
        assert_eq!(floor(&g), (0.0, 0.0));
    }

    #[test]
    fn times_below_the_floor_are_implausible() {
        let floor = Floor {
            warm_seconds: 1e-3,
            cold_seconds: 2e-3,
        };
        let side = |warm: f64, cold: f64| SideTimes {
            warm: super::super::Timing { seconds: vec![warm] },
            cold: super::super::Timing { seconds: vec![cold] },
            ..SideTimes::default()
        };
        assert_eq!(floor.judge(&side(1.1e-3, 2.1e-3)), None);
        for times in [side(0.9e-3, 3e-3), side(1.1e-3, 1.1e-3)] {
            assert_eq!(floor.judge(&times).unwrap().kind, FailureKind::Implausible);
        }
        let at_once = SideTimes {
            constant_seconds: 1e-2,
            batches: vec![5, 10],
            ..side(1e-12, 1e-12)
        };
        assert_eq!(floor.judge(&at_once), None);
        let many = SideTimes {
            batches: vec![10, 20],
            ..at_once
        };
        assert_eq!(floor.judge(&many).unwrap().kind, FailureKind::Implausible);
        assert_eq!(floor.judge(&SideTimes::default()), None);
    }
}
