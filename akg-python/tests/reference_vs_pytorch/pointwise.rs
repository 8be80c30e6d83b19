//! Element-wise operators: their schemas say nearly everything.

use akg_core::DType;
use akg_core::graph::Operator;
use akg_core::graph::ops::ParameterKind;
use serde_json::{Map, Value as Json, json};

use crate::draw::{Draw, Values};

/// Operators whose floating operands must have one type.
const UNIFORM: [&str; 6] = [
    "addcmul.default",
    "addcdiv.default",
    "lerp.Scalar",
    "lerp.Tensor",
    "prelu.default",
    "atan2.default",
];

const INTEGERS: [DType; 6] = [
    DType::Bool,
    DType::U8,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
];

/// Draws a call of an element-wise operator; `false` if `op` is none.
pub(crate) fn draw(op: &'static Operator, d: &mut Draw) -> bool {
    let name = op.name();
    let mut args = Map::new();
    match name {
        "prelu.default" => {
            let mut shape = d.shape(2..=4);
            shape[1] = shape[1].max(1);
            let channels = if d.chance(50) { 1 } else { shape[1] };
            args.insert("self".into(), d.operand(DType::F32, &shape, Values::Wild).into());
            args.insert(
                "weight".into(),
                d.operand(DType::F32, &[channels], Values::Tame).into(),
            );
        }
        "glu.default" => {
            let mut shape = d.shape(1..=3);
            let dim = d.size(0..=shape.len() - 1);
            shape[dim] *= 2;
            args.insert("self".into(), d.operand(DType::F32, &shape, Values::Wild).into());
            args.insert("dim".into(), dim.into());
        }
        "dropout.default" | "native_dropout.default" => {
            // PyTorch's mask of an empty tensor is not boolean.
            let shape = [d.size(1..=4), d.size(1..=4)];
            args.insert("input".into(), d.operand(DType::F32, &shape, Values::Wild).into());
            args.insert("p".into(), json!(0.5));
            args.insert("train".into(), false.into());
        }
        "copy.default" => {
            let shape = d.shape(0..=3);
            let keep = d.size(0..=shape.len());
            let (to, from) = (any_type(d), any_type(d));
            args.insert("self".into(), d.operand(to, &shape, Values::Tame).into());
            args.insert("src".into(), d.operand(from, &shape[keep..], Values::Tame).into());
        }
        _ if is_pointwise(op) => args = by_schema(op, d),
        _ => return false,
    }
    d.finish(name, args, op.schema().results.unwrap_or(1));
    true
}

/// Every tensor parameter is an operand that broadcasts, and the rest are numbers and flags.
fn is_pointwise(op: &Operator) -> bool {
    const FAMILIES: &str = " exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh \
        cosh tanh asinh acosh atanh sigmoid erf erfc neg relu hardtanh relu6 ceil floor round trunc abs sign square \
        gelu silu mish hardswish hardsigmoid leaky_relu elu selu celu softplus log_sigmoid bitwise_not logical_not \
        isnan isinf isfinite add sub rsub mul multiply maximum minimum remainder fmod floor_divide pow bitwise_and \
        bitwise_or bitwise_xor div atan2 eq ne lt le gt ge logical_and logical_or logical_xor where clamp clamp_min \
        clamp_max masked_fill addcmul addcdiv lerp to _to_copy type_as ";
    let (base, overload) = op.name().split_once('.').unwrap_or_default();
    let pair = matches!((base, overload), ("max" | "min", "other"));
    pair || FAMILIES.split_whitespace().any(|f| f == base)
}

fn by_schema(op: &'static Operator, d: &mut Draw) -> Map<String, Json> {
    let parameters = &op.schema().parameters;
    let conversion = [
        "to.dtype",
        "to.dtype_layout",
        "_to_copy.default",
        "type_as.default",
    ]
    .contains(&op.name());
    let tensors = parameters
        .iter()
        .filter(|p| p.kind == ParameterKind::Tensor)
        .count();
    let shapes = d.broadcastable(tensors);
    let uniform = d.pick(&[DType::F32, DType::F64]);
    let mut shapes = shapes.into_iter();
    let mut args = Map::new();
    for parameter in parameters {
        let name = parameter.name.as_str();
        let value = match parameter.kind {
            ParameterKind::Tensor => {
                let mut shape = shapes.next().unwrap_or_default();
                if op.name() == "masked_fill.Tensor" && name == "value" {
                    shape.clear();
                }
                let dtype = match name {
                    "condition" | "mask" => DType::Bool,
                    _ if op.name().starts_with("bitwise") => d.pick(&INTEGERS),
                    _ if UNIFORM.contains(&op.name()) => uniform,
                    _ => any_type(d),
                };
                // What a bound outside an unsigned type means depends on PyTorch's version.
                let bounded = op.name().starts_with("clamp") || op.name().starts_with("hardtanh");
                let dtype = if bounded && dtype == DType::U8 {
                    DType::I8
                } else {
                    dtype
                };
                let values = if conversion { Values::Tame } else { Values::Wild };
                if parameter.optional && d.chance(30) {
                    continue;
                }
                json!(d.operand(dtype, &shape, values))
            }
            ParameterKind::Scalar if op.name().starts_with("bitwise") => json!(d.int(0..=5)),
            ParameterKind::Scalar | ParameterKind::Float => {
                if parameter.optional && d.chance(30) {
                    continue;
                }
                scalar(d)
            }
            ParameterKind::Str if name == "approximate" => json!(d.pick(&["none", "tanh"])),
            ParameterKind::Str => json!(d.pick(&[None, Some("trunc"), Some("floor")])),
            ParameterKind::DType => json!(any_type(d).name()),
            _ => continue,
        };
        args.insert(name.into(), value);
    }
    args
}

/// A Python number.
pub(crate) fn scalar(d: &mut Draw) -> Json {
    let numbers = [
        json!(0),
        json!(1),
        json!(2),
        json!(-3),
        json!(0.5),
        json!(-1.5),
        json!(3.0),
        json!(true),
    ];
    d.pick(&numbers)
}

/// Every element type, mostly `f32`.
pub(crate) fn any_type(d: &mut Draw) -> DType {
    if d.chance(50) {
        DType::F32
    } else {
        d.pick(&DType::ALL)
    }
}
