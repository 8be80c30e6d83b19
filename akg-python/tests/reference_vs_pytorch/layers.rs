//! Products, convolutions, pooling, norms, losses, attention and recurrent layers.

use akg_core::DType;
use akg_core::graph::Operator;
use serde_json::{Map, Value as Json, json};

use crate::draw::{Draw, Values};

/// Draws a call of an operator of these families; `false` if `op` is in none.
pub(crate) fn draw(op: &'static Operator, d: &mut Draw) -> bool {
    let name = op.name();
    let drawn = product(name, d)
        .or_else(|| convolution(name, d))
        .or_else(|| pool(name, d))
        .or_else(|| norm(name, d))
        .or_else(|| loss(name, d))
        .or_else(|| sequence(name, d));
    let Some(Json::Object(args)) = drawn else {
        return false;
    };
    d.finish(name, args, op.schema().results.unwrap_or(1));
    true
}

fn real(d: &mut Draw, shape: &[usize]) -> String {
    d.operand(DType::F32, shape, Values::Tame)
}

/// A tensor or nothing.
fn maybe(d: &mut Draw, shape: &[usize], values: Values) -> Json {
    if d.chance(50) {
        json!(d.operand(DType::F32, shape, values))
    } else {
        Json::Null
    }
}

fn product(name: &str, d: &mut Draw) -> Option<Json> {
    let extents = d.shape(4..=4);
    let [b, m, n, k] = extents[..] else { return None };
    Some(match name {
        "mm.default" => json!({"self": real(d, &[m, k]), "mat2": real(d, &[k, n])}),
        "bmm.default" => json!({"self": real(d, &[b, m, k]), "mat2": real(d, &[b, k, n])}),
        "mv.default" => json!({"self": real(d, &[m, k]), "vec": real(d, &[k])}),
        "dot.default" => json!({"self": real(d, &[k]), "tensor": real(d, &[k])}),
        "outer.default" => json!({"self": real(d, &[m]), "vec2": real(d, &[n])}),
        "matmul.default" => {
            let left = d.pick(&[
                vec![k],
                vec![m, k],
                vec![b, m, k],
                vec![1, m, k],
                vec![2, 1, m, k],
            ]);
            let right = d.pick(&[vec![k], vec![k, n], vec![b, k, n], vec![1, k, n]]);
            json!({"self": real(d, &left), "other": real(d, &right)})
        }
        "linear.default" => {
            let input = d.pick(&[vec![k], vec![m, k], vec![b, m, k]]);
            let weight = if d.chance(85) { vec![n, k] } else { vec![k] };
            let bias = if weight.len() == 2 {
                maybe(d, &[n], Values::Tame)
            } else {
                Json::Null
            };
            json!({"input": real(d, &input), "weight": real(d, &weight), "bias": bias})
        }
        "addmm.default" | "baddbmm.default" => {
            let batch: &[usize] = if name == "addmm.default" { &[] } else { &[b] };
            let whole = [batch, &[m, n]].concat();
            let own = d.pick(&[whole, vec![n], vec![m, 1]]);
            let (first, second) = if batch.is_empty() {
                ("mat1", "mat2")
            } else {
                ("batch1", "batch2")
            };
            let (beta, alpha) = (
                d.pick(&[json!(1), json!(0), json!(0.5)]),
                d.pick(&[json!(1), json!(-2)]),
            );
            json!({
                "self": real(d, &own), first: real(d, &[batch, &[m, k]].concat()),
                second: real(d, &[batch, &[k, n]].concat()), "beta": beta, "alpha": alpha
            })
        }
        "einsum.default" => {
            let (equation, shapes) = d.pick(&[
                ("ij,jk->ik", vec![vec![m, k], vec![k, n]]),
                ("bij,bjk->bik", vec![vec![b, m, k], vec![b, k, n]]),
                ("ij,ij", vec![vec![m, k], vec![m, k]]),
                ("i,j->ji", vec![vec![m], vec![n]]),
                ("bijl,lk->bijk", vec![vec![b, m, 2, k], vec![k, n]]),
                ("ii->i", vec![vec![m, m]]),
                ("bcn,bdn,cd->bn", vec![vec![b, m, k], vec![b, n, k], vec![m, n]]),
                ("...ij->...ji", vec![vec![b, m, k]]),
            ]);
            json!({"equation": equation, "tensors": shapes.iter().map(|s| real(d, s)).collect::<Vec<_>>()})
        }
        _ => return None,
    })
}

/// The digit before `d` in `conv2d`, `max_pool3d`, …
fn spatial_rank(name: &str) -> Option<usize> {
    ["1d", "2d", "3d"]
        .iter()
        .position(|r| name.contains(r))
        .map(|at| at + 1)
}

/// `rank` numbers from a range.
fn several(d: &mut Draw, rank: usize, from: usize, to: usize) -> Vec<usize> {
    (0..rank).map(|_| d.size(from..=to)).collect()
}

fn convolution(name: &str, d: &mut Draw) -> Option<Json> {
    if !name.starts_with("conv") {
        return None;
    }
    let rank = spatial_rank(name).unwrap_or(2);
    let transposed = name.contains("transpose") || (name == "convolution.default" && d.chance(50));
    let groups = d.size(1..=3);
    let (inputs, outputs) = (groups * d.size(1..=2), groups * d.size(1..=2));
    let kernel = several(d, rank, 1, 3);
    let (stride, dilation) = (several(d, rank, 1, 3), several(d, rank, 1, 2));
    let padding = several(d, rank, 0, 1);
    let output_padding: Vec<_> = stride.iter().map(|s| d.size(0..=s - 1)).collect();
    let space = several(d, rank, 5, 7);
    let channels = if transposed {
        [inputs, outputs / groups]
    } else {
        [outputs, inputs / groups]
    };
    let batch = d.size(1..=2);
    let input = real(d, &[&[batch, inputs][..], &space].concat());
    let weight = real(d, &[&channels[..], &kernel].concat());
    let bias = maybe(d, &[outputs], Values::Tame);
    let mut args = json!({
        "input": input, "weight": weight, "bias": bias, "stride": stride, "padding": padding, "dilation": dilation,
        "groups": groups
    });
    if name.ends_with(".padding") {
        args["padding"] = json!(d.pick(&["valid", "same"]));
        if args["padding"] == "same" {
            args["stride"] = json!(vec![1; rank]);
        }
    }
    if name == "convolution.default" {
        args["transposed"] = json!(transposed);
    }
    if transposed || name == "convolution.default" {
        args["output_padding"] = json!(if transposed { output_padding } else { vec![0; rank] });
    }
    Some(args)
}

fn pool(name: &str, d: &mut Draw) -> Option<Json> {
    if !name.contains("pool") {
        return None;
    }
    let rank = spatial_rank(name)?;
    let space = several(d, rank, 4, 8);
    let batch = if d.chance(80) { vec![2, 3] } else { vec![3] };
    // Average pooling adds values up; maximum pooling orders them.
    let values = if name.contains("max") {
        Values::Wild
    } else {
        Values::Tame
    };
    let input = d.operand(DType::F32, &[batch, space].concat(), values);
    if name.contains("adaptive") {
        return Some(json!({"self": input, "output_size": several(d, rank, 1, 4)}));
    }
    let kernel = several(d, rank, 1, 3);
    let stride = if d.chance(30) {
        Vec::new()
    } else {
        several(d, rank, 1, 3)
    };
    let padding: Vec<_> = kernel.iter().map(|k| d.size(0..=k / 2)).collect();
    let mut args = json!({
        "self": input, "kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": d.chance(50)
    });
    if name.contains("max") {
        args["dilation"] = json!(several(d, rank, 1, 2));
    } else {
        args["count_include_pad"] = json!(d.chance(50));
        if rank > 1 && d.chance(30) {
            args["divisor_override"] = json!(d.int(1..=5));
        }
    }
    Some(args)
}

fn norm(name: &str, d: &mut Draw) -> Option<Json> {
    let groups = d.size(1..=2);
    let channels = groups * d.size(1..=3);
    let rank = d.size(1..=3);
    let space = several(d, rank, 1, 4);
    let shape = [&[d.size(2..=3), channels][..], &space].concat();
    let training = d.chance(70);
    let per_channel = |d: &mut Draw, args: &mut Json, names: &[&str], values: Values| {
        for name in names {
            args[*name] = maybe(d, &[channels], values);
        }
    };
    Some(match name {
        "batch_norm.default" | "instance_norm.default" => {
            let mut args =
                json!({"input": real(d, &shape), "momentum": 0.1, "eps": 1e-5, "cudnn_enabled": false});
            per_channel(d, &mut args, &["weight", "bias"], Values::Tame);
            if d.chance(50) || !training {
                args["running_mean"] = json!(d.operand(DType::F32, &[channels], Values::Tame));
                args["running_var"] = json!(d.operand(DType::F32, &[channels], Values::Unit));
            }
            let flag = if name == "batch_norm.default" {
                "training"
            } else {
                "use_input_stats"
            };
            args[flag] = json!(training);
            args
        }
        "_native_batch_norm_legit.no_stats" | "_native_batch_norm_legit_functional.default" => {
            let functional = name.contains("functional");
            let mut args = json!({"input": real(d, &shape), "momentum": 0.1, "eps": 1e-5});
            args["training"] = json!(training || !functional);
            per_channel(d, &mut args, &["weight", "bias"], Values::Tame);
            if functional {
                args["running_mean"] = json!(d.operand(DType::F32, &[channels], Values::Tame));
                args["running_var"] = json!(d.operand(DType::F32, &[channels], Values::Unit));
            }
            args
        }
        "group_norm.default" => {
            let mut args = json!({"input": real(d, &shape), "num_groups": groups, "eps": 1e-3});
            per_channel(d, &mut args, &["weight", "bias"], Values::Tame);
            args
        }
        "native_group_norm.default" => {
            // Dense operands: PyTorch takes strided ones for dense or rejects them, depending on its version.
            let size: usize = space.iter().product();
            let mut args = json!({
                "input": d.input(DType::F32, &shape, Values::Tame), "N": shape[0], "C": channels, "HxW": size, "group": groups, "eps": 1e-3
            });
            for name in ["weight", "bias"] {
                let given = d
                    .chance(50)
                    .then(|| d.input(DType::F32, &[channels], Values::Tame));
                args[name] = json!(given);
            }
            args
        }
        "layer_norm.default" | "native_layer_norm.default" | "rms_norm.default" => {
            let kept = d.size(1..=2);
            let normalized = shape[kept..].to_vec();
            let mut args = json!({"input": real(d, &shape), "normalized_shape": normalized, "eps": 1e-5});
            args["weight"] = maybe(d, &normalized, Values::Tame);
            if name != "rms_norm.default" {
                args["bias"] = maybe(d, &normalized, Values::Tame);
            }
            args
        }
        _ => return None,
    })
}

fn loss(name: &str, d: &mut Draw) -> Option<Json> {
    let reduction = d.int(0..=2);
    let mut shapes = d.broadcastable(2);
    let (a, b) = (shapes.remove(0), shapes.remove(0));
    Some(match name {
        "cross_entropy_loss.default" | "nll_loss.default" => {
            let (rows, classes) = (d.size(1..=4), d.size(2..=4));
            let space = if d.chance(30) && name.starts_with("cross") {
                vec![2]
            } else {
                vec![]
            };
            let logits = real(d, &[&[rows, classes][..], &space].concat());
            let target = d.operand(
                DType::I64,
                &[&[rows][..], &space].concat(),
                Values::Below(classes),
            );
            let weight = maybe(d, &[classes], Values::Unit);
            let mut args =
                json!({"self": logits, "target": target, "weight": weight, "reduction": reduction});
            if d.chance(40) {
                args["ignore_index"] = json!(1);
            }
            if name.starts_with("cross") && d.chance(40) {
                args["label_smoothing"] = json!(0.1);
            }
            args
        }
        "kl_div.default" => {
            let target = d.operand(DType::F32, &b, Values::Unit);
            json!({"self": real(d, &a), "target": target, "reduction": reduction, "log_target": d.chance(50)})
        }
        "smooth_l1_loss.default" => {
            let beta = d.pick(&[0.0, 1.0, 0.5]);
            json!({"self": real(d, &a), "target": real(d, &b), "reduction": reduction, "beta": beta})
        }
        "huber_loss.default" => {
            json!({"self": real(d, &a), "target": real(d, &b), "reduction": reduction, "delta": 0.7})
        }
        "mse_loss.default" | "l1_loss.default" => {
            json!({"self": real(d, &a), "target": real(d, &b), "reduction": reduction})
        }
        "binary_cross_entropy.default" => {
            let weight = maybe(d, &b, Values::Unit);
            let [given, target] = [&b, &b].map(|s| d.operand(DType::F32, s, Values::Unit));
            json!({"self": given, "target": target, "weight": weight, "reduction": reduction})
        }
        "binary_cross_entropy_with_logits.default" => {
            let target = d.operand(DType::F32, &b, Values::Unit);
            let (weight, pos_weight) = (maybe(d, &b, Values::Unit), maybe(d, &b, Values::Unit));
            json!({
                "self": real(d, &b), "target": target, "weight": weight, "pos_weight": pos_weight,
                "reduction": reduction
            })
        }
        "triplet_margin_loss.default" => {
            let shape = [d.size(1..=4), d.size(1..=4)];
            let p = d.pick(&[1.0, 2.0]);
            json!({
                "anchor": real(d, &shape), "positive": real(d, &shape), "negative": real(d, &shape), "p": p,
                "margin": 0.5, "swap": d.chance(40), "reduction": reduction
            })
        }
        "cosine_similarity.default" => {
            let mut shapes = d.broadcastable(2);
            for shape in &mut shapes {
                shape.push(3);
            }
            json!({"x1": real(d, &shapes[0]), "x2": real(d, &shapes[1]), "dim": -1})
        }
        _ => return None,
    })
}

fn sequence(name: &str, d: &mut Draw) -> Option<Json> {
    if name == "scaled_dot_product_attention.default" {
        let [b, h, q, k, e, v] = [
            2,
            d.size(1..=2),
            d.size(1..=4),
            d.size(1..=4),
            d.size(1..=4),
            d.size(1..=4),
        ];
        let causal = d.chance(40);
        let mask = match d.int(0..=2) {
            0 if !causal => json!(d.operand(DType::Bool, &[q, k], Values::Tame)),
            1 if !causal => json!(real(d, &[b, 1, q, k])),
            _ => Json::Null,
        };
        let scale = d.pick(&[Json::Null, json!(0.3)]);
        return Some(json!({
            "query": real(d, &[b, h, q, e]), "key": real(d, &[b, h, k, e]), "value": real(d, &[b, h, k, v]),
            "attn_mask": mask, "is_causal": causal, "scale": scale
        }));
    }
    let gates = match name {
        "lstm.input" => 4,
        "gru.input" => 3,
        "rnn_tanh.input" | "rnn_relu.input" => 1,
        _ => return None,
    };
    let (steps, batch, features, hidden) = (d.size(1..=4), d.size(1..=3), d.size(1..=3), d.size(1..=3));
    let (layers, bidirectional, biases, batch_first) =
        (d.size(1..=2), d.chance(50), d.chance(70), d.chance(50));
    let directions = 1 + usize::from(bidirectional);
    let mut params = Vec::new();
    for layer in 0..layers {
        let below = if layer == 0 { features } else { hidden * directions };
        for _ in 0..directions {
            params.push(real(d, &[gates * hidden, below]));
            params.push(real(d, &[gates * hidden, hidden]));
            if biases {
                params.extend([0; 2].map(|_| real(d, &[gates * hidden])));
            }
        }
    }
    let state = [layers * directions, batch, hidden];
    let hx = match name {
        "lstm.input" => json!([real(d, &state), real(d, &state)]),
        _ => json!(real(d, &state)),
    };
    let extents = if batch_first {
        [batch, steps, features]
    } else {
        [steps, batch, features]
    };
    let mut args = Map::new();
    args.insert("input".into(), real(d, &extents).into());
    for (name, value) in [
        ("hx", hx),
        ("params", json!(params)),
        ("has_biases", json!(biases)),
        ("num_layers", json!(layers)),
        ("dropout", json!(0.0)),
        ("train", json!(false)),
        ("bidirectional", json!(bidirectional)),
        ("batch_first", json!(batch_first)),
    ] {
        args.insert(name.into(), value);
    }
    Some(args.into())
}
