//! Views, joins, rearrangements, indexing, creation, reductions and scans.

use akg_core::DType;
use akg_core::graph::Operator;
use akg_core::graph::ops::ParameterKind;
use serde_json::{Map, Value as Json, json};

use crate::draw::{Draw, Values};
use crate::pointwise::{any_type, scalar};

/// Draws a call of an operator of these families; `false` if `op` is in none.
pub(crate) fn draw(op: &'static Operator, d: &mut Draw) -> bool {
    let mut results = op.schema().results.unwrap_or(1);
    let drawn = view(op.name(), d)
        .or_else(|| join(op.name(), d, &mut results))
        .or_else(|| rearrange(op.name(), d))
        .or_else(|| index(op.name(), d))
        .or_else(|| create(op.name(), d))
        .or_else(|| reduce(op, d));
    let Some(Json::Object(args)) = drawn else {
        return false;
    };
    d.finish(op.name(), args, results);
    true
}

/// An operand of any type and shape.
fn any(d: &mut Draw, shape: &[usize]) -> String {
    let dtype = any_type(d);
    d.operand(dtype, shape, Values::Wild)
}

/// An axis of `shape`, counted from the front, and the shape, which has one.
fn with_axis(d: &mut Draw) -> (Vec<usize>, usize) {
    let shape = d.shape(1..=4);
    let axis = d.size(0..=shape.len() - 1);
    (shape, axis)
}

/// The same elements in other extents.
fn regroup(d: &mut Draw, shape: &[usize]) -> Vec<i64> {
    let mut new: Vec<i64> = shape.iter().map(|e| *e as i64).collect();
    if new.len() > 1 && d.chance(50) {
        let at = d.size(0..=new.len() - 2);
        let merged = new[at] * new[at + 1];
        new.splice(at..at + 2, [merged]);
    }
    let at = d.size(0..=new.len());
    new.insert(at, 1);
    let count: usize = shape.iter().product();
    if count > 0 && d.chance(40) {
        let at = d.size(0..=new.len() - 1);
        new[at] = -1;
    }
    new
}

fn view(name: &str, d: &mut Draw) -> Option<Json> {
    let shape = d.shape(0..=4);
    let rank = shape.len();
    Some(match name {
        "view.default" | "_unsafe_view.default" => {
            json!({"self": any(d, &shape), "size": regroup(d, &shape)})
        }
        "reshape.default" => json!({"self": any(d, &shape), "shape": regroup(d, &shape)}),
        "flatten.using_ints" => {
            let start = d.size(0..=rank.max(1) - 1);
            let end = d.size(start..=rank.max(1) - 1);
            json!({"self": any(d, &shape), "start_dim": start, "end_dim": end})
        }
        "unflatten.int" => {
            let (mut shape, dim) = with_axis(d);
            let (a, b) = (d.size(1..=3), d.size(1..=3));
            shape[dim] = a * b;
            let first = if d.chance(30) { -1 } else { a as i64 };
            json!({"self": any(d, &shape), "dim": dim, "sizes": [first, b as i64]})
        }
        "permute.default" => {
            let mut dims: Vec<_> = (0..rank).collect();
            for at in (1..rank).rev() {
                let other = d.size(0..=at);
                dims.swap(at, other);
            }
            json!({"self": any(d, &shape), "dims": dims})
        }
        "transpose.int" => json!({"self": any(d, &shape), "dim0": d.axis(rank), "dim1": d.axis(rank)}),
        "t.default" | "numpy_T.default" => {
            let shape = d.shape(0..=2);
            json!({"self": any(d, &shape)})
        }
        "squeeze.dim" => json!({"self": any(d, &shape), "dim": d.axis(rank)}),
        "squeeze.dims" => json!({"self": any(d, &shape), "dim": d.axes(rank)}),
        "unsqueeze.default" => json!({"self": any(d, &shape), "dim": d.axis(rank + 1)}),
        "expand.default" | "broadcast_to.default" => {
            let mut size: Vec<i64> = shape.iter().map(|e| *e as i64).collect();
            for extent in &mut size {
                *extent = match (*extent, d.chance(50)) {
                    (1, true) => 3,
                    (_, true) => -1,
                    (kept, false) => kept,
                };
            }
            if d.chance(40) {
                size.insert(0, 2);
            }
            json!({"self": any(d, &shape), "size": size})
        }
        "expand_as.default" => {
            let mut small = shape.clone();
            for extent in &mut small {
                if d.chance(40) {
                    *extent = 1;
                }
            }
            json!({"self": any(d, &small), "other": any(d, &shape)})
        }
        "slice.Tensor" => {
            let (shape, dim) = with_axis(d);
            let bound = |d: &mut Draw| {
                if d.chance(25) {
                    Json::Null
                } else {
                    json!(d.int(-7..=7))
                }
            };
            json!({"self": any(d, &shape), "dim": dim, "start": bound(d), "end": bound(d), "step": d.int(1..=3)})
        }
        "select.int" => {
            let (mut shape, dim) = with_axis(d);
            shape[dim] = shape[dim].max(1);
            json!({"self": any(d, &shape), "dim": dim, "index": d.axis(shape[dim])})
        }
        "narrow.default" => {
            let (shape, dim) = with_axis(d);
            let start = d.size(0..=shape[dim]);
            let length = d.size(0..=shape[dim] - start);
            json!({"self": any(d, &shape), "dim": dim, "start": start, "length": length})
        }
        "unfold.default" => {
            let (shape, dim) = with_axis(d);
            let size = d.size(0..=shape[dim]);
            json!({"self": any(d, &shape), "dimension": dim, "size": size, "step": d.int(1..=3)})
        }
        "as_strided.default" => {
            let input = d.input(DType::F32, &[30], Values::Wild);
            json!({"self": input, "size": [3, 2], "stride": [d.int(0..=5), d.int(0..=5)], "storage_offset": d.int(0..=9)})
        }
        "squeeze.default"
        | "alias.default"
        | "detach.default"
        | "clone.default"
        | "contiguous.default"
        | "lift_fresh_copy.default" => json!({"self": any(d, &shape)}),
        "_assert_tensor_metadata.default" => return None,
        _ => return None,
    })
}

fn join(name: &str, d: &mut Draw, results: &mut usize) -> Option<Json> {
    let (mut shape, dim) = with_axis(d);
    Some(match name {
        "broadcast_tensors.default" => {
            let shapes = d.broadcastable(3);
            *results = 3;
            json!({"tensors": shapes.iter().map(|s| any(d, s)).collect::<Vec<_>>()})
        }
        "cat.default" => {
            let tensors: Vec<_> = (0..d.size(1..=3))
                .map(|_| {
                    let mut shape = shape.clone();
                    shape[dim] = d.size(0..=3);
                    any(d, &shape)
                })
                .collect();
            json!({"tensors": tensors, "dim": dim})
        }
        "stack.default" => {
            let tensors: Vec<_> = (0..d.size(1..=3)).map(|_| any(d, &shape)).collect();
            json!({"tensors": tensors, "dim": d.axis(shape.len() + 1)})
        }
        "split.Tensor" => {
            let size = d.size(1..=3);
            *results = shape[dim].div_ceil(size).max(1);
            json!({"self": any(d, &shape), "split_size": size, "dim": dim})
        }
        "split_with_sizes.default" => {
            let sizes: Vec<_> = (0..d.size(1..=3)).map(|_| d.size(0..=3)).collect();
            shape[dim] = sizes.iter().sum();
            *results = sizes.len();
            json!({"self": any(d, &shape), "split_sizes": sizes, "dim": dim})
        }
        "chunk.default" => {
            let chunks = d.size(1..=4);
            shape[dim] = shape[dim].max(1);
            *results = shape[dim].div_ceil(shape[dim].div_ceil(chunks));
            json!({"self": any(d, &shape), "chunks": chunks, "dim": dim})
        }
        "unbind.int" => {
            shape[dim] = shape[dim].max(1);
            *results = shape[dim];
            json!({"self": any(d, &shape), "dim": dim})
        }
        _ => return None,
    })
}

fn rearrange(name: &str, d: &mut Draw) -> Option<Json> {
    let shape = d.shape(0..=4);
    let rank = shape.len();
    Some(match name {
        "flip.default" => json!({"self": any(d, &shape), "dims": d.axes(rank)}),
        "roll.default" => {
            let dims = d.axes(rank);
            let shifts: Vec<_> = dims.iter().map(|_| d.int(-6..=6)).collect();
            let shifts = if dims.is_empty() {
                vec![d.int(-6..=6)]
            } else {
                shifts
            };
            json!({"self": any(d, &shape), "shifts": shifts, "dims": dims})
        }
        "tril.default" | "triu.default" => {
            let shape = d.shape(2..=4);
            json!({"self": any(d, &shape), "diagonal": d.int(-4..=4)})
        }
        "constant_pad_nd.default" => {
            let pairs = d.size(0..=rank);
            let pad: Vec<_> = (0..2 * pairs).map(|_| d.int(-1..=3)).collect();
            json!({"self": any(d, &shape), "pad": pad, "value": scalar(d)})
        }
        "pad.default" => {
            let mode = d.pick(&["constant", "reflect", "replicate", "circular"]);
            let pairs = d.size(1..=2);
            let shape: Vec<_> = (0..pairs + 2).map(|_| d.size(2..=5)).collect();
            let pad: Vec<_> = (0..2 * pairs).map(|_| d.int(0..=1)).collect();
            let value = if mode == "constant" {
                json!(1.5)
            } else {
                Json::Null
            };
            json!({"self": d.operand(DType::F32, &shape, Values::Wild), "pad": pad, "mode": mode, "value": value})
        }
        "repeat.default" => {
            let repeats: Vec<_> = (0..rank + d.size(0..=1)).map(|_| d.size(0..=3)).collect();
            json!({"self": any(d, &shape), "repeats": repeats})
        }
        _ => return None,
    })
}

fn index(name: &str, d: &mut Draw) -> Option<Json> {
    let (mut shape, dim) = with_axis(d);
    for extent in &mut shape {
        *extent = (*extent).max(1);
    }
    let below = Values::Below(shape[dim]);
    let smaller = |d: &mut Draw| shape.iter().map(|e| d.size(1..=*e)).collect::<Vec<_>>();
    Some(match name {
        "index.Tensor" => {
            let [a, b] = [d.broadcastable(2), d.broadcastable(2)].map(|mut s| s.remove(0));
            let first = d.operand(DType::I64, &a, Values::Below(shape[0]));
            let mut indices = vec![json!(first)];
            if shape.len() > 1 && d.chance(50) {
                indices = vec![
                    Json::Null,
                    json!(d.operand(DType::I64, &b, Values::Below(shape[1]))),
                ];
            }
            if shape.len() > 2 && d.chance(50) {
                indices = vec![
                    json!(first),
                    Json::Null,
                    json!(d.operand(DType::I64, &a, Values::Below(shape[2]))),
                ];
            }
            json!({"self": any(d, &shape), "indices": indices})
        }
        "index_select.default" => {
            let index = [d.size(0..=4)];
            json!({"self": any(d, &shape), "dim": dim, "index": d.operand(DType::I64, &index, below)})
        }
        // PyTorch copies few elements in the order of the index, so that the last slice to a place stays there, too.
        "index_copy.default" => {
            let dtype = any_type(d);
            let mut extents = shape.clone();
            extents[dim] = d.size(0..=4);
            let index = d.operand(DType::I64, &[extents[dim]], below);
            let values = d.operand(dtype, &shape, Values::Wild);
            let source = d.operand(dtype, &extents, Values::Wild);
            json!({"self": values, "dim": dim, "index": index, "source": source})
        }
        "gather.default" => {
            let mut extents = smaller(d);
            extents[dim] = d.size(1..=6);
            json!({"self": any(d, &shape), "dim": dim, "index": d.operand(DType::I64, &extents, below)})
        }
        "embedding.default" => {
            let (table, ids) = ([d.size(1..=5), d.size(1..=4)], d.shape(0..=3));
            let weight = d.operand(DType::F32, &table, Values::Wild);
            json!({"weight": weight, "indices": d.operand(DType::I64, &ids, Values::Below(table[0]))})
        }
        "scatter.value" => {
            let extents = smaller(d);
            let values = d.operand(DType::F32, &shape, Values::Wild);
            json!({"self": values, "dim": dim, "index": d.operand(DType::I64, &extents, below), "value": 1.5})
        }
        // One index along the axis, because which of several writers wins is not defined.
        "scatter.src" => {
            let mut extents = smaller(d);
            extents[dim] = 1;
            let values = d.operand(DType::F32, &shape, Values::Wild);
            let index = d.operand(DType::I64, &extents, below);
            json!({"self": values, "dim": dim, "index": index, "src": d.operand(DType::F32, &extents, Values::Wild)})
        }
        _ => return None,
    })
}

fn create(name: &str, d: &mut Draw) -> Option<Json> {
    let shape = d.shape(0..=3);
    let dtype = if d.chance(50) {
        Json::Null
    } else {
        json!(any_type(d).name())
    };
    Some(match name {
        "full.default" => json!({"size": shape, "fill_value": scalar(d), "dtype": dtype}),
        "full_like.default" => json!({"self": any(d, &shape), "fill_value": scalar(d), "dtype": dtype}),
        "zeros_like.default" | "ones_like.default" => json!({"self": any(d, &shape), "dtype": dtype}),
        "zeros.default" | "ones.default" => json!({"size": shape, "dtype": dtype}),
        "scalar_tensor.default" => json!({"s": scalar(d), "dtype": dtype}),
        "arange.default" => json!({"end": d.int(0..=6)}),
        "arange.start" => json!({"start": d.int(-3..=0), "end": 4.5}),
        "arange.start_step" => {
            json!({"start": d.int(-3..=0), "end": d.int(1..=5), "step": d.pick(&[0.5, 1.0, 0.75])})
        }
        _ => return None,
    })
}

fn reduce(op: &'static Operator, d: &mut Draw) -> Option<Json> {
    const FAMILIES: &str = " sum prod mean amax amin max min argmax argmin any all var std var_mean std_mean logsumexp \
        linalg_vector_norm norm softmax log_softmax _softmax _log_softmax cumsum cumprod cosine_similarity ";
    let base = op.name().split('.').next()?;
    if !FAMILIES.split_whitespace().any(|f| f == base) {
        return None;
    }
    let shape = d.shape(0..=4);
    let rank = shape.len();
    // Extreme values where nothing is added up, so that nothing depends on the order.
    let exact = matches!(
        base,
        "amax" | "amin" | "max" | "min" | "argmax" | "argmin" | "any" | "all"
    );
    let values = if exact { Values::Wild } else { Values::Tame };
    let dtype = match base {
        _ if exact || matches!(base, "sum" | "prod" | "cumsum" | "cumprod") => any_type(d),
        _ => d.pick(&[DType::F32, DType::F64, DType::F16]),
    };
    let mut args = Map::new();
    for parameter in &op.schema().parameters {
        let value = match (parameter.kind, parameter.name.as_str()) {
            (ParameterKind::Tensor, _) => json!(d.operand(dtype, &shape, values)),
            (ParameterKind::Int, "dim") if parameter.optional && d.chance(30) => Json::Null,
            (ParameterKind::Int, _) => json!(d.axis(rank)),
            (ParameterKind::Ints, _) if parameter.optional && d.chance(20) => Json::Null,
            (ParameterKind::Ints, _) => json!(d.axes(rank)),
            (ParameterKind::Bool, "half_to_float") => json!(false),
            (ParameterKind::Bool, _) => json!(d.chance(50)),
            (ParameterKind::Scalar, "correction") => json!(d.int(0..=1)),
            (ParameterKind::Scalar, "ord" | "p") => {
                d.pick(&[json!(0), json!(1), json!(2), json!(3.5), json!("inf")])
            }
            (ParameterKind::DType, _) if d.chance(70) => continue,
            // A narrower type would round, which double precision throughout would hide.
            (ParameterKind::DType, _) => json!(if dtype == DType::F64 {
                "f64"
            } else {
                d.pick(&["f32", "f64"])
            }),
            _ => continue,
        };
        args.insert(parameter.name.clone(), value);
    }
    Some(args.into())
}
