//! Element-wise operators.

use super::extents::*;
use super::promotion::*;
use super::{Call, Inferred, Row, one};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::graph::Arg;

pub(super) const ROWS: &[Row] = &[
    Row::new("exp.default(Tensor self) -> Tensor", float_unary),
    Row::new("exp2.default(Tensor self) -> Tensor", float_unary),
    Row::new("expm1.default(Tensor self) -> Tensor", float_unary),
    Row::new("log.default(Tensor self) -> Tensor", float_unary),
    Row::new("log1p.default(Tensor self) -> Tensor", float_unary),
    Row::new("log2.default(Tensor self) -> Tensor", float_unary),
    Row::new("log10.default(Tensor self) -> Tensor", float_unary),
    Row::new("sqrt.default(Tensor self) -> Tensor", float_unary),
    Row::new("rsqrt.default(Tensor self) -> Tensor", float_unary),
    Row::new("reciprocal.default(Tensor self) -> Tensor", float_unary),
    Row::new("sin.default(Tensor self) -> Tensor", float_unary),
    Row::new("cos.default(Tensor self) -> Tensor", float_unary),
    Row::new("tan.default(Tensor self) -> Tensor", float_unary),
    Row::new("asin.default(Tensor self) -> Tensor", float_unary),
    Row::new("acos.default(Tensor self) -> Tensor", float_unary),
    Row::new("atan.default(Tensor self) -> Tensor", float_unary),
    Row::new("sinh.default(Tensor self) -> Tensor", float_unary),
    Row::new("cosh.default(Tensor self) -> Tensor", float_unary),
    Row::new("tanh.default(Tensor self) -> Tensor", float_unary),
    Row::new("asinh.default(Tensor self) -> Tensor", float_unary),
    Row::new("acosh.default(Tensor self) -> Tensor", float_unary),
    Row::new("atanh.default(Tensor self) -> Tensor", float_unary),
    Row::new("sigmoid.default(Tensor self) -> Tensor", float_unary),
    Row::new("erf.default(Tensor self) -> Tensor", float_unary),
    Row::new("erfc.default(Tensor self) -> Tensor", float_unary),
    Row::new("neg.default(Tensor self) -> Tensor", numeric_unary),
    Row::new("relu.default(Tensor self) -> Tensor", numeric_unary),
    Row::new(
        "hardtanh.default(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor",
        numeric_unary,
    ),
    Row::new("relu6.default(Tensor self) -> Tensor", numeric_unary),
    Row::new("ceil.default(Tensor self) -> Tensor", numeric_unary),
    Row::new("floor.default(Tensor self) -> Tensor", numeric_unary),
    Row::new("round.default(Tensor self) -> Tensor", numeric_unary),
    Row::new("trunc.default(Tensor self) -> Tensor", numeric_unary),
    Row::new("abs.default(Tensor self) -> Tensor", numeric_unary),
    Row::new("sign.default(Tensor self) -> Tensor", any_unary),
    Row::new("square.default(Tensor self) -> Tensor", square),
    Row::new(
        "gelu.default(Tensor self, *, str approximate='none') -> Tensor",
        activation,
    ),
    Row::new("silu.default(Tensor self) -> Tensor", activation),
    Row::new("mish.default(Tensor self) -> Tensor", activation),
    Row::new("hardswish.default(Tensor self) -> Tensor", activation),
    Row::new("hardsigmoid.default(Tensor self) -> Tensor", activation),
    Row::new(
        "leaky_relu.default(Tensor self, Scalar negative_slope=0.01) -> Tensor",
        activation,
    ),
    Row::new(
        "elu.default(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor",
        activation,
    ),
    Row::new("selu.default(Tensor self) -> Tensor", activation),
    Row::new(
        "celu.default(Tensor self, Scalar alpha=1.0) -> Tensor",
        activation,
    ),
    Row::new(
        "softplus.default(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor",
        activation,
    ),
    Row::new("log_sigmoid.default(Tensor self) -> Tensor", activation),
    Row::new("bitwise_not.default(Tensor self) -> Tensor", bitwise_not),
    Row::new("logical_not.default(Tensor self) -> Tensor", predicate),
    Row::new("isnan.default(Tensor self) -> Tensor", predicate),
    Row::new("isinf.default(Tensor self) -> Tensor", predicate),
    Row::new("isfinite.default(Tensor self) -> Tensor", predicate),
    Row::new(
        "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        scaled,
    ),
    Row::new(
        "add.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        scaled,
    ),
    Row::new(
        "sub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        subtraction,
    ),
    Row::new(
        "sub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        subtraction,
    ),
    Row::new(
        "rsub.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        subtraction,
    ),
    Row::new(
        "rsub.Scalar(Tensor self, Scalar other, Scalar alpha=1) -> Tensor",
        subtraction,
    ),
    Row::new("mul.Tensor(Tensor self, Tensor other) -> Tensor", arithmetic),
    Row::new("mul.Scalar(Tensor self, Scalar other) -> Tensor", arithmetic),
    Row::new("multiply.Tensor(Tensor self, Tensor other) -> Tensor", arithmetic),
    Row::new("maximum.default(Tensor self, Tensor other) -> Tensor", arithmetic),
    Row::new("minimum.default(Tensor self, Tensor other) -> Tensor", arithmetic),
    Row::new("max.other(Tensor self, Tensor other) -> Tensor", arithmetic),
    Row::new("min.other(Tensor self, Tensor other) -> Tensor", arithmetic),
    Row::new("remainder.Tensor(Tensor self, Tensor other) -> Tensor", numeric),
    Row::new("remainder.Scalar(Tensor self, Scalar other) -> Tensor", numeric),
    Row::new("fmod.Tensor(Tensor self, Tensor other) -> Tensor", numeric),
    Row::new("fmod.Scalar(Tensor self, Scalar other) -> Tensor", numeric),
    Row::new(
        "floor_divide.default(Tensor self, Tensor other) -> Tensor",
        numeric,
    ),
    Row::new(
        "floor_divide.Scalar(Tensor self, Scalar other) -> Tensor",
        numeric,
    ),
    Row::new("pow.Tensor_Tensor(Tensor self, Tensor exponent) -> Tensor", power),
    Row::new("pow.Tensor_Scalar(Tensor self, Scalar exponent) -> Tensor", power),
    Row::new("pow.Scalar(Scalar self, Tensor exponent) -> Tensor", power),
    Row::new("bitwise_and.Tensor(Tensor self, Tensor other) -> Tensor", bitwise),
    Row::new("bitwise_or.Tensor(Tensor self, Tensor other) -> Tensor", bitwise),
    Row::new("bitwise_xor.Tensor(Tensor self, Tensor other) -> Tensor", bitwise),
    Row::new("bitwise_and.Scalar(Tensor self, Scalar other) -> Tensor", bitwise),
    Row::new("bitwise_or.Scalar(Tensor self, Scalar other) -> Tensor", bitwise),
    Row::new("bitwise_xor.Scalar(Tensor self, Scalar other) -> Tensor", bitwise),
    Row::new("div.Tensor(Tensor self, Tensor other) -> Tensor", division),
    Row::new("div.Scalar(Tensor self, Scalar other) -> Tensor", division),
    Row::new("atan2.default(Tensor self, Tensor other) -> Tensor", division),
    Row::new(
        "div.Tensor_mode(Tensor self, Tensor other, *, str? rounding_mode) -> Tensor",
        rounded_division,
    ),
    Row::new(
        "div.Scalar_mode(Tensor self, Scalar other, *, str? rounding_mode) -> Tensor",
        rounded_division,
    ),
    Row::new("eq.Tensor(Tensor self, Tensor other) -> Tensor", comparison),
    Row::new("ne.Tensor(Tensor self, Tensor other) -> Tensor", comparison),
    Row::new("lt.Tensor(Tensor self, Tensor other) -> Tensor", comparison),
    Row::new("le.Tensor(Tensor self, Tensor other) -> Tensor", comparison),
    Row::new("gt.Tensor(Tensor self, Tensor other) -> Tensor", comparison),
    Row::new("ge.Tensor(Tensor self, Tensor other) -> Tensor", comparison),
    Row::new("eq.Scalar(Tensor self, Scalar other) -> Tensor", comparison),
    Row::new("ne.Scalar(Tensor self, Scalar other) -> Tensor", comparison),
    Row::new("lt.Scalar(Tensor self, Scalar other) -> Tensor", comparison),
    Row::new("le.Scalar(Tensor self, Scalar other) -> Tensor", comparison),
    Row::new("gt.Scalar(Tensor self, Scalar other) -> Tensor", comparison),
    Row::new("ge.Scalar(Tensor self, Scalar other) -> Tensor", comparison),
    Row::new(
        "logical_and.default(Tensor self, Tensor other) -> Tensor",
        comparison,
    ),
    Row::new(
        "logical_or.default(Tensor self, Tensor other) -> Tensor",
        comparison,
    ),
    Row::new(
        "logical_xor.default(Tensor self, Tensor other) -> Tensor",
        comparison,
    ),
    Row::new(
        "where.self(Tensor condition, Tensor self, Tensor other) -> Tensor",
        select,
    ),
    Row::new(
        "where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor",
        select,
    ),
    Row::new(
        "where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor",
        select,
    ),
    Row::new(
        "where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor",
        select,
    ),
    Row::new(
        "clamp.default(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor",
        clamp,
    ),
    Row::new(
        "clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor",
        clamp,
    ),
    Row::new("clamp_min.default(Tensor self, Scalar min) -> Tensor", clamp),
    Row::new("clamp_min.Tensor(Tensor self, Tensor min) -> Tensor", clamp),
    Row::new("clamp_max.default(Tensor self, Scalar max) -> Tensor", clamp),
    Row::new("clamp_max.Tensor(Tensor self, Tensor max) -> Tensor", clamp),
    Row::new(
        "masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor",
        masked_fill,
    ),
    Row::new(
        "masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor",
        masked_fill,
    ),
    Row::new(
        "addcmul.default(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
        fused_product,
    ),
    Row::new(
        "addcdiv.default(Tensor self, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
        fused_quotient,
    ),
    Row::new(
        "lerp.Scalar(Tensor self, Tensor end, Scalar weight) -> Tensor",
        lerp,
    ),
    Row::new(
        "lerp.Tensor(Tensor self, Tensor end, Tensor weight) -> Tensor",
        lerp,
    ),
    Row::new(
        "to.dtype(Tensor self, ScalarType dtype, bool non_blocking=False, bool copy=False, \
         MemoryFormat? memory_format=None) -> Tensor",
        convert,
    ),
    Row::new(
        "to.dtype_layout(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None, bool non_blocking=False, bool copy=False, \
         MemoryFormat? memory_format=None) -> Tensor",
        convert,
    ),
    Row::new(
        "_to_copy.default(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, \
         Device? device=None, bool? pin_memory=None, bool non_blocking=False, \
         MemoryFormat? memory_format=None) -> Tensor",
        convert,
    ),
    Row::new(
        "type_as.default(Tensor self, Tensor other) -> Tensor",
        convert_like,
    ),
    Row::new(
        "copy.default(Tensor self, Tensor src, bool non_blocking=False) -> Tensor",
        copy,
    ),
    Row::new("prelu.default(Tensor self, Tensor weight) -> Tensor", prelu),
    Row::new("glu.default(Tensor self, int dim=-1) -> Tensor", glu),
];

/// The shape that all tensor arguments broadcast to.
fn broadcast_operands(call: &Call<'_>) -> Result<Vec<Expr>> {
    let types: Vec<_> = call.operands().map(|v| call.ty(v)).collect::<Result<_>>()?;
    broadcast(types.iter().map(|t| t.shape.as_slice()))
}

fn float_unary(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    one(to_float(ty.dtype), ty.shape.clone())
}

fn any_unary(call: &Call<'_>) -> Inferred {
    Ok(vec![call.tensor("self")?.clone()])
}

fn numeric_unary(call: &Call<'_>) -> Inferred {
    reject_bool("self", call.tensor("self")?.dtype)?;
    any_unary(call)
}

fn square(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    let dtype = if ty.dtype == DType::Bool {
        DType::I64
    } else {
        ty.dtype
    };
    one(dtype, ty.shape.clone())
}

fn activation(call: &Call<'_>) -> Inferred {
    require_float("self", call.tensor("self")?.dtype)?;
    any_unary(call)
}

fn bitwise_not(call: &Call<'_>) -> Inferred {
    reject_float(call.tensor("self")?.dtype)?;
    any_unary(call)
}

fn reject_float(dtype: DType) -> Result<DType> {
    if dtype.is_float() {
        return Err(Error::invalid(format!(
            "bits of {dtype} cannot be combined; convert to an integer type"
        )));
    }
    Ok(dtype)
}

fn predicate(call: &Call<'_>) -> Inferred {
    one(DType::Bool, call.tensor("self")?.shape.clone())
}

fn arithmetic(call: &Call<'_>) -> Inferred {
    one(result_type(call, &["self", "other"])?, broadcast_operands(call)?)
}

/// `add` and `sub`, whose `alpha` must be exact in the result type.
fn scaled(call: &Call<'_>) -> Inferred {
    let dtype = result_type(call, &["self", "other"])?;
    let alpha = scalar_dtype(call.arg("alpha")?).unwrap_or(DType::I64);
    if alpha.is_float() && !dtype.is_float() || alpha == DType::Bool && dtype != DType::Bool {
        return Err(Error::invalid(format!(
            "alpha must be an integer for a {dtype} result"
        )));
    }
    one(dtype, broadcast_operands(call)?)
}

fn subtraction(call: &Call<'_>) -> Inferred {
    for name in ["self", "other"] {
        reject_bool(name, result_type(call, &[name])?)?;
    }
    scaled(call)
}

/// Arithmetic that has no meaning for booleans.
fn numeric(call: &Call<'_>) -> Inferred {
    reject_bool(
        "the common type of the operands",
        result_type(call, &["self", "other"])?,
    )?;
    arithmetic(call)
}

fn power(call: &Call<'_>) -> Inferred {
    let dtype = reject_bool(
        "the common type of the operands",
        result_type(call, &["self", "exponent"])?,
    )?;
    if let (false, Arg::Int(exponent)) = (dtype.is_float(), call.arg("exponent")?)
        && exponent.as_const().is_some_and(|e| e < 0)
    {
        return Err(Error::invalid(
            "integers have no negative powers; convert to a floating type",
        ));
    }
    one(dtype, broadcast_operands(call)?)
}

fn bitwise(call: &Call<'_>) -> Inferred {
    reject_float(result_type(call, &["self", "other"])?)?;
    arithmetic(call)
}

fn division(call: &Call<'_>) -> Inferred {
    one(
        to_float(result_type(call, &["self", "other"])?),
        broadcast_operands(call)?,
    )
}

fn rounded_division(call: &Call<'_>) -> Inferred {
    if !call.has("rounding_mode")? {
        return division(call);
    }
    match call.str("rounding_mode")? {
        "floor" | "trunc" => numeric(call),
        other => Err(Error::invalid(format!(
            "rounding_mode is `{other}`, expected `floor`, `trunc` or none"
        ))),
    }
}

fn comparison(call: &Call<'_>) -> Inferred {
    one(DType::Bool, broadcast_operands(call)?)
}

fn select(call: &Call<'_>) -> Inferred {
    let condition = call.tensor("condition")?.dtype;
    if !matches!(condition, DType::Bool | DType::U8) {
        return Err(Error::invalid(format!("condition must be bool, not {condition}")));
    }
    arithmetic(call)
}

fn clamp(call: &Call<'_>) -> Inferred {
    let given = |name: &&str| call.has(name).unwrap_or(false);
    let mut names = vec!["self"];
    names.extend(["min", "max"].iter().filter(|n| given(n)));
    if names.len() == 1 {
        return Err(Error::invalid("at least one of min and max must be given"));
    }
    let dtype = result_type(call, &names)?;
    // PyTorch takes booleans where the other operand is a tensor.
    let is_by_tensor = ["min", "max"]
        .iter()
        .any(|name| call.opt_tensor(name).is_ok_and(|found| found.is_some()));
    if !is_by_tensor {
        reject_bool("the common type of the operands", dtype)?;
    }
    one(dtype, broadcast_operands(call)?)
}

fn masked_fill(call: &Call<'_>) -> Inferred {
    let (ty, mask) = (call.tensor("self")?, call.tensor("mask")?);
    if mask.dtype != DType::Bool {
        return Err(Error::invalid(format!("mask must be bool, not {}", mask.dtype)));
    }
    if let Arg::Value(v) = call.arg("value")? {
        require_rank("value", &call.ty(*v)?.shape, &[0])?;
    }
    one(ty.dtype, broadcast([ty.shape.as_slice(), mask.shape.as_slice()])?)
}

fn fused_product(call: &Call<'_>) -> Inferred {
    let dtype = result_type(call, &["self", "tensor1", "tensor2"])?;
    one(
        reject_bool("the common type of the operands", dtype)?,
        broadcast_operands(call)?,
    )
}

fn fused_quotient(call: &Call<'_>) -> Inferred {
    for name in ["tensor1", "tensor2"] {
        if call.tensor(name)?.dtype.is_float() {
            return fused_product(call);
        }
    }
    Err(Error::invalid(
        "an integer division is not supported; convert tensor1 or tensor2 to a floating type",
    ))
}

fn lerp(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    require_float("self", ty.dtype)?;
    for value in call.operands() {
        require_same("self", ty.dtype, "another operand", call.ty(value)?.dtype)?;
    }
    one(ty.dtype, broadcast_operands(call)?)
}

fn convert(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    one(call.opt_dtype("dtype")?.unwrap_or(ty.dtype), ty.shape.clone())
}

fn convert_like(call: &Call<'_>) -> Inferred {
    one(call.tensor("other")?.dtype, call.tensor("self")?.shape.clone())
}

fn copy(call: &Call<'_>) -> Inferred {
    let (ty, src) = (call.tensor("self")?, call.tensor("src")?);
    let shape = broadcast([ty.shape.as_slice(), src.shape.as_slice()])?;
    require_shape("self", &ty.shape, &shape)?;
    Ok(vec![ty.clone()])
}

fn prelu(call: &Call<'_>) -> Inferred {
    let (ty, weight) = (call.tensor("self")?, call.tensor("weight")?);
    require_float("self", ty.dtype)?;
    require_same("self", ty.dtype, "weight", weight.dtype)?;
    require_rank("weight", &weight.shape, &[0, 1])?;
    let count = extent(&weight.shape, 0);
    if !count.is(1) {
        require_equal(
            "the number of weights",
            &count,
            "the number of channels",
            &extent(&ty.shape, 1),
        )?;
    }
    Ok(vec![ty.clone()])
}

fn glu(call: &Call<'_>) -> Inferred {
    let ty = call.tensor("self")?;
    require_float("self", ty.dtype)?;
    let at = axis(call.int("dim")?, ty.rank())?;
    let half = extent(&ty.shape, at)
        .exact_div(&Expr::constant(2))
        .filter(|_| ty.rank() > 0);
    let half = half.ok_or_else(|| Error::invalid(format!("dimension {at} of {ty} cannot be halved")))?;
    one(ty.dtype, with_extent(&ty.shape, at, half))
}
