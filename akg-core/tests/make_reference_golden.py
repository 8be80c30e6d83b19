#!/usr/bin/env python3
"""Makes the golden files of tests/reference.rs: graphs, inputs, and what PyTorch computes for them.

Usage: python akg-core/tests/make_reference_golden.py   (needs PyTorch)

Each case is one operator call. Floating tensors are widened to float64 before PyTorch computes, which is what the
reference interpreter means by exact; cases made by `native` (conversions, comparisons with numbers) run in their own
types instead.
"""

import itertools
import json
import math
import pathlib
import random

import torch

OUT = pathlib.Path(__file__).parent / "data" / "reference"
TYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}
NAMES = {v: k for k, v in TYPES.items()}
NAN, INF = math.nan, math.inf
CORNERS = [NAN, INF, -INF, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 20.5, -30.0]

families = {}
family = None
rng = random.Random(7)


def begin(name):
    global family
    family = families.setdefault(name, [])


def t(values, dtype="f32"):
    return torch.tensor(values, dtype=TYPES[dtype])


def r(*shape, dtype="f32", scale=2.0):
    """Random numbers that every floating type holds exactly."""
    count = math.prod(shape)
    if dtype == "bool":
        values = [rng.random() < 0.5 for _ in range(count)]
    elif TYPES[dtype].is_floating_point:
        values = [round(rng.uniform(-scale, scale) * 32) / 32 for _ in range(count)]
    else:
        low = 0 if dtype == "u8" else -9
        values = [rng.randint(low, 9) for _ in range(count)]
    return torch.tensor(values, dtype=TYPES[dtype]).reshape(shape)


def p(*shape, dtype="f32"):
    """Positive random numbers."""
    return r(*shape, dtype=dtype).abs() + 0.25


CORNER = t(CORNERS)


class DType(str):
    """An element type as an argument."""


def number(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def plain(tensor):
    return {
        "dtype": NAMES[tensor.dtype],
        "shape": list(tensor.shape),
        "data": [number(v) for v in tensor.detach().reshape(-1).tolist()],
    }


def widen(value):
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype.is_floating_point else value
    if isinstance(value, list):
        return [widen(v) for v in value]
    if isinstance(value, DType):
        return torch.float64 if TYPES[value].is_floating_point else TYPES[value]
    return value


def own(value):
    return TYPES[value] if isinstance(value, DType) else value


def results(out):
    if isinstance(out, torch.Tensor):
        return [out]
    return [o for part in out for o in results(part)]


def call(op, args, convert):
    packet, overload = op.split(".")
    with torch.no_grad():
        return results(getattr(getattr(torch.ops.aten, packet), overload)(**{k: convert(v) for k, v in args.items()}))


def case(op, native=False, **args):
    inputs = []

    def describe(value):
        if isinstance(value, torch.Tensor):
            inputs.append(value)
            return f"x{len(inputs) - 1}"
        if isinstance(value, list):
            return [describe(v) for v in value]
        return number(value)

    described = {name: describe(value) for name, value in args.items()}
    # What an operator writes to must not change the recorded inputs.
    fresh = lambda convert: lambda v: convert(v.clone() if isinstance(v, torch.Tensor) else v)
    try:
        types = call(op, args, fresh(own))
    except (RuntimeError, NotImplementedError) as error:
        if native or "not implemented" not in str(error):
            raise RuntimeError(f"{op} {args}") from error
        types = None
    torch.set_default_dtype(torch.float64)
    wanted = types if native else call(op, args, fresh(widen))
    torch.set_default_dtype(torch.float32)
    outputs = [plain(w) for w in wanted]
    if types is not None:
        for output, typed in zip(outputs, types):
            output["dtype"] = NAMES[typed.dtype]
    names = [f"y{i}" for i in range(len(outputs))]
    graph = {
        "akg_graph": 1,
        "name": op.replace(".", "_"),
        "inputs": [
            {"name": f"x{i}", "dtype": NAMES[x.dtype], "shape": list(x.shape)} for i, x in enumerate(inputs)
        ],
        "nodes": [{"op": f"aten.{op}", "args": described, "outputs": names}],
        "outputs": [{"value": name} for name in names],
    }
    family.append({"graph": graph, "inputs": [plain(x) for x in inputs], "outputs": outputs})


def pointwise():
    begin("unary")
    for op in """exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh
                 asinh acosh atanh sigmoid erf erfc""".split():
        case(f"{op}.default", self=CORNER)
        case(f"{op}.default", self=r(2, 3))
        case(f"{op}.default", self=p(3, dtype="bf16"))
        case(f"{op}.default", self=r(2, 2, dtype="i32"))
        case(f"{op}.default", self=t([True, False], "bool"))
    for op in "neg relu ceil floor round trunc abs sign square".split():
        case(f"{op}.default", self=CORNER)
        case(f"{op}.default", self=r(2, 3, dtype="f64"))
        for dtype in ("i8", "u8", "i64"):
            extremes = torch.iinfo(TYPES[dtype])
            case(f"{op}.default", self=t([extremes.min, extremes.max, 3, 7, 0], dtype))
    case("abs.default", self=t([-5, 5], "i16"))
    case("sign.default", self=t([True, False], "bool"))
    case("square.default", self=t([True, False], "bool"))
    case("round.default", self=t([0.5, 1.5, 2.5, -0.5, -1.5, 3.49, 1e20], "f64"))
    for op in "silu mish hardswish hardsigmoid selu log_sigmoid relu6 gelu leaky_relu elu celu softplus hardtanh".split():
        case(f"{op}.default", self=CORNER)
        case(f"{op}.default", self=r(3, 4, scale=5.0))
        case(f"{op}.default", self=r(4, dtype="f16"))
        case(f"{op}.default", self=r(0, 2))
    case("gelu.default", self=CORNER, approximate="tanh")
    case("gelu.default", self=r(7, scale=8.0), approximate="tanh")
    case("leaky_relu.default", self=CORNER, negative_slope=-0.5)
    case("leaky_relu.default", self=r(4), negative_slope=2)
    case("elu.default", self=CORNER, alpha=1.5, scale=2.0, input_scale=0.5)
    case("elu.default", self=r(5), alpha=-0.25)
    case("celu.default", self=CORNER, alpha=0.5)
    case("softplus.default", self=r(6, scale=30.0), beta=2.0, threshold=3.0)
    case("softplus.default", self=CORNER, beta=0.5, threshold=1.0)
    case("hardtanh.default", self=CORNER, min_val=-0.5, max_val=2.0)
    case("hardtanh.default", self=t([-3, 0, 9], "i32"), min_val=-2, max_val=4)
    case("relu6.default", self=t([-3, 4, 9], "i32"))
    for op in "isnan isinf isfinite logical_not".split():
        case(f"{op}.default", self=CORNER)
        case(f"{op}.default", self=t([0, 1, -3], "i8"))
        case(f"{op}.default", self=t([True, False], "bool"))
    for x in (t([True, False], "bool"), t([0, 255, 9], "u8"), t([0, -1, 127], "i8")):
        case("bitwise_not.default", self=x)

    begin("binary")
    grid = list(itertools.product([NAN, INF, -INF, 0.0, -0.0, 1.0, -2.5, 0.5], repeat=2))
    a, b = t([g[0] for g in grid]), t([g[1] for g in grid])
    whole = list(itertools.product([-7, -2, -1, 1, 3, 100], repeat=2))
    m, n = t([g[0] for g in whole], "i8"), t([g[1] for g in whole], "i8")
    for op in "add sub rsub mul maximum minimum max.other min.other div atan2 remainder fmod floor_divide".split():
        base, _, named = op.partition(".")
        overload = named or {"maximum": "default", "minimum": "default", "atan2": "default",
                             "floor_divide": "default"}.get(op, "Tensor")
        case(f"{base}.{overload}", self=a, other=b)
        case(f"{base}.{overload}", self=m, other=n)
        case(f"{base}.{overload}", self=r(2, 1, 3), other=p(4, 1))
        case(f"{base}.{overload}", self=r(3, dtype="i32"), other=p(2, 3, dtype="f16"))
        case(f"{base}.{overload}", self=r(2, 3, dtype="u8"), other=t(3, "i64"))
        case(f"{base}.{overload}", self=r(0, 3), other=p(3))
    for op in "add sub rsub".split():
        case(f"{op}.Tensor", self=r(4), other=r(4), alpha=-1.5)
        case(f"{op}.Tensor", self=t([100, -100], "i8"), other=t([5, 50], "i8"), alpha=3)
        case(f"{op}.Scalar", self=r(3), other=2)
        case(f"{op}.Scalar", self=r(3, dtype="i64"), other=0.5)
        case(f"{op}.Scalar", self=r(3), other=INF, alpha=-1)
    for op in ("add.Tensor", "mul.Tensor", "maximum.default", "minimum.default"):
        case(op, self=t([True, True, False, False], "bool"), other=t([True, False, True, False], "bool"))
    case("multiply.Tensor", self=r(3, 1), other=r(2))
    for other in (2, -0.5, NAN, True):
        case("mul.Scalar", self=r(3), other=other)
        case("div.Scalar", self=r(3), other=other)
    case("div.Scalar", self=t([7, -7], "i32"), other=2)
    case("div.Tensor", self=t([True, False], "bool"), other=t([True, True], "bool"))
    for mode in ("floor", "trunc"):
        case("div.Tensor_mode", self=a, other=b, rounding_mode=mode)
        case("div.Tensor_mode", self=m, other=n, rounding_mode=mode)
        case("div.Scalar_mode", self=r(5), other=0.3, rounding_mode=mode)
        case("div.Scalar_mode", self=t([-7, 7], "i64"), other=-2, rounding_mode=mode)
    case("div.Tensor_mode", self=m, other=n, rounding_mode=None)
    case("div.Scalar_mode", self=r(2), other=4, rounding_mode=None)
    case("div.Tensor_mode", self=t([1.0, 0.6, 6.0], "f64"), other=t([0.1, 0.2, 0.3], "f64"), rounding_mode="floor")
    for op in "remainder fmod floor_divide".split():
        case(f"{op}.Scalar", self=r(6, scale=9.0), other=-1.25)
        case(f"{op}.Scalar", self=t([-7, 7, 6], "i16"), other=3)
    case("pow.Tensor_Tensor", self=a, exponent=b)
    case("pow.Tensor_Tensor", self=t([-2, -1, 1, 2, 0], "i32"), exponent=t([3, 5, 9, 31, 0], "i32"))
    case("pow.Tensor_Tensor", self=t([2, 1, -1, 0], "i8"), exponent=t([9, 3, 3, 0], "i8"))
    for e in (0, 1, 2, 3, -1, -2, 0.5, -0.5, 2.5, INF, NAN):
        case("pow.Tensor_Scalar", self=CORNER, exponent=e)
    case("pow.Tensor_Scalar", self=t([-3, 2, 11], "i8"), exponent=3)
    case("pow.Tensor_Scalar", self=t([3, 2], "i8"), exponent=0.5)
    for base in (2, 1, 0, -2.0, 0.5):
        case("pow.Scalar", self=base, exponent=CORNER)
    case("pow.Scalar", self=3, exponent=t([0, 1, 4], "i64"))
    for op in "and or xor".split():
        case(f"bitwise_{op}.Tensor", self=t([True, True, False, False], "bool"), other=t([True, False, True, False], "bool"))
        case(f"bitwise_{op}.Tensor", self=t([12, -5, 127], "i8"), other=t([10, 3, -128], "i8"))
        case(f"bitwise_{op}.Scalar", self=t([12, 5, 255], "u8"), other=6)
        case(f"logical_{op}.default", self=a, other=b)
        case(f"logical_{op}.default", self=t([1, 0], "i8"), other=t([[True], [False]], "bool"))
    for op in "eq ne lt le gt ge".split():
        case(f"{op}.Tensor", self=a, other=b)
        case(f"{op}.Tensor", self=m, other=n)
        case(f"{op}.Tensor", self=r(3, 1), other=r(2, dtype="i32"))
        case(f"{op}.Tensor", self=t([True, False], "bool"), other=t([True, True], "bool"))
        case(f"{op}.Scalar", native=True, self=t([0.1, 0.2, NAN]), other=0.1)
        case(f"{op}.Scalar", native=True, self=t([0.1, 0.2, 7.0], "f16"), other=0.1)
        case(f"{op}.Scalar", self=t([1, 2, 3], "i64"), other=2)
        case(f"{op}.Scalar", self=t([1, 2, 3], "i64"), other=1.5)

    begin("selection")
    mask = r(3, 4, dtype="bool")
    case("where.self", condition=mask, self=r(4), other=r(3, 1))
    case("where.self", condition=mask, self=r(3, 4, dtype="i32"), other=r(4, dtype="f16"))
    case("where.self", condition=t([True, False], "bool"), self=t([NAN, 1.0]), other=t([1.0, NAN]))
    case("where.ScalarOther", condition=mask, self=r(4), other=-INF)
    case("where.ScalarSelf", condition=mask, self=2, other=r(4))
    case("where.Scalar", condition=mask, self=1, other=0)
    case("where.Scalar", condition=mask, self=1.5, other=0)
    case("where.self", condition=t([True, False], "bool"), self=t([True, True], "bool"), other=t([False, False], "bool"))
    for low, high in ((-1, 1), (0.5, None), (None, 0.5), (2.0, -2.0), (NAN, 1.0), (-INF, 0)):
        case("clamp.default", self=CORNER, min=low, max=high)
    case("clamp.default", self=t([-5, 0, 5], "i8"), min=-2, max=3)
    case("clamp.default", self=t([-5, 0, 5], "i8"), min=-2.5)
    case("clamp.Tensor", self=r(3, 4), min=r(4), max=r(3, 1))
    case("clamp.Tensor", self=CORNER, min=t(NAN))
    case("clamp.Tensor", self=r(2, 3, dtype="i32"), max=t([1, 2, 3], "i32"))
    case("clamp_min.default", self=CORNER, min=0)
    case("clamp_max.default", self=CORNER, max=0.25)
    case("clamp_min.Tensor", self=r(2, 3), min=r(3))
    case("clamp_max.Tensor", self=r(2, 3), max=r(2, 1))
    case("masked_fill.Scalar", self=r(3, 4), mask=mask, value=-INF)
    case("masked_fill.Scalar", self=r(4), mask=mask, value=1)
    case("masked_fill.Scalar", self=r(3, 4, dtype="i64"), mask=mask, value=-7)
    case("masked_fill.Scalar", self=r(3, 4, dtype="bool"), mask=mask, value=True)
    case("masked_fill.Tensor", self=r(3, 4), mask=mask, value=t(2.5))
    case("addcmul.default", self=r(3, 1), tensor1=r(4), tensor2=r(3, 4), value=-0.5)
    case("addcmul.default", self=r(3, dtype="i32"), tensor1=r(3, dtype="i32"), tensor2=r(3, dtype="i32"), value=2)
    case("addcdiv.default", self=r(3, 1), tensor1=r(4), tensor2=p(3, 4), value=3)
    case("addcdiv.default", self=t([1.0, NAN]), tensor1=t([1.0, 0.0]), tensor2=t([0.0, 0.0]))
    for weight in (0.25, 0.5, 0.75, -1, NAN):
        case("lerp.Scalar", self=r(4), end=r(2, 4), weight=weight)
    case("lerp.Tensor", self=r(4), end=r(2, 4), weight=r(2, 1))
    case("prelu.default", self=CORNER, weight=t([0.25]))
    case("prelu.default", self=r(2, 3, 2), weight=r(3))
    case("glu.default", self=r(3, 4))
    case("glu.default", self=r(4, 3, dtype="f64"), dim=0)
    case("dropout.default", input=r(4), p=0.0, train=True)
    case("dropout.default", input=r(4), p=0.5, train=False)
    case("dropout.default", input=t([1.0, INF]), p=1.0, train=True)
    case("native_dropout.default", input=r(2, 3), p=0.0, train=True)
    case("native_dropout.default", input=r(2, 3), p=0.4, train=False)

    begin("conversion")
    for dtype in TYPES:
        case("to.dtype", native=True, self=t([0.1, -0.1, 65504.0, 1e-7, 3.5, -3.5, 200.7, -0.0], "f64"), dtype=DType(dtype)) \
            if dtype not in ("u8",) else case("to.dtype", native=True, self=t([0.1, 3.5, 200.7], "f64"), dtype=DType(dtype))
        case("_to_copy.default", native=True, self=t([0, 1, -1, 127, 300, -70000, 1 << 40], "i64"), dtype=DType(dtype))
        case("to.dtype_layout", native=True, self=t([True, False], "bool"), dtype=DType(dtype))
    for dtype in ("f16", "bf16", "f32"):
        ties = t([1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-24, 1e-8, 6e-8, 70000.0, 1e39, NAN, INF], "f64")
        case("to.dtype", native=True, self=ties, dtype=DType(dtype))
    case("to.dtype", native=True, self=t([NAN, INF, 0.0, 2.0, 1e-40]), dtype=DType("bool"))
    case("type_as.default", native=True, self=t([1.7, -1.7]), other=t([0], "i32"))
    case("type_as.default", native=True, self=t([0.1, 300.0], "f32"), other=t([0.0], "bf16"))
    case("copy.default", native=True, self=r(2, 3), src=r(3, dtype="f64"))
    case("copy.default", native=True, self=r(2, 2, dtype="i8"), src=t([300.0, -1.5], "f32"))


def views():
    begin("views")
    x, y = r(2, 3, 4), r(2, 3, 4, dtype="i32")
    for op in ("view", "_unsafe_view", "reshape"):
        name = "shape" if op == "reshape" else "size"
        case(f"{op}.default", self=x, **{name: [4, 6]})
        case(f"{op}.default", self=y, **{name: [-1, 2]})
        case(f"{op}.default", self=r(1), **{name: []})
    case("flatten.using_ints", self=x)
    case("flatten.using_ints", self=x, start_dim=1)
    case("flatten.using_ints", self=x, start_dim=0, end_dim=-2)
    case("flatten.using_ints", self=t(1.0))
    case("unflatten.int", self=x, dim=-1, sizes=[2, -1])
    case("unflatten.int", self=r(6, dtype="bool"), dim=0, sizes=[3, 2])
    for dims in ([2, 0, 1], [0, -1, 1], [0, 1, 2]):
        case("permute.default", self=x, dims=dims)
    case("permute.default", self=r(2, 3, dtype="bool"), dims=[1, 0])
    case("transpose.int", self=x, dim0=0, dim1=-1)
    case("transpose.int", self=y, dim0=1, dim1=2)
    case("transpose.int", self=t(1.0), dim0=0, dim1=-1)
    case("t.default", self=r(2, 3))
    case("t.default", self=r(3))
    case("numpy_T.default", self=r(3, 2))
    case("squeeze.default", self=r(1, 3, 1))
    case("squeeze.dim", self=r(1, 3, 1), dim=-1)
    case("squeeze.dim", self=r(1, 3, 1), dim=1)
    case("squeeze.dims", self=r(1, 3, 1, 1), dim=[0, -1, 1])
    for dim in (0, 1, -1):
        case("unsqueeze.default", self=r(2, 3), dim=dim)
    case("unsqueeze.default", self=t(1, "i64"), dim=0)
    case("expand.default", self=r(3, 1), size=[2, -1, 4])
    case("expand.default", self=t(2.0), size=[2, 2])
    case("broadcast_to.default", self=r(3, 1, dtype="i8"), size=[2, 3, 2])
    case("expand_as.default", self=r(3, 1), other=r(2, 3, 2))
    for start, end, step in ((1, 3, 1), (None, None, 2), (-2, None, 1), (0, -1, 2), (3, 1, 1), (-9, 9, 3), (1, 2**63 - 1, 1)):
        case("slice.Tensor", self=x, dim=2, start=start, end=end, step=step)
    case("slice.Tensor", self=y, dim=-2, start=1)
    for dim, index in ((0, 1), (1, -1), (-1, 2)):
        case("select.int", self=x, dim=dim, index=index)
    case("narrow.default", self=x, dim=1, start=1, length=2)
    case("narrow.default", self=x, dim=-1, start=-2, length=1)
    case("narrow.default", self=x, dim=0, start=2, length=0)
    case("unfold.default", self=r(2, 7), dimension=1, size=3, step=2)
    case("unfold.default", self=r(5, 2), dimension=0, size=2, step=1)
    case("unfold.default", self=t(3.0), dimension=0, size=1, step=1)
    case("as_strided.default", self=r(12), size=[3, 2], stride=[1, 4])
    case("as_strided.default", self=r(3, 4), size=[2, 2, 2], stride=[4, 1, 2], storage_offset=1)
    for op in ("alias", "detach", "clone", "contiguous", "lift_fresh_copy"):
        case(f"{op}.default", self=r(2, 2))

    begin("join")
    case("cat.default", tensors=[r(2, 3), r(1, 3)])
    case("cat.default", tensors=[r(2, 3), r(2, 1), r(2, 2)], dim=-1)
    case("cat.default", tensors=[r(0), r(2, 3), r(0, 3)], dim=0)
    case("cat.default", tensors=[r(2, dtype="i32"), r(3, dtype="f16"), r(1, dtype="bool")])
    case("cat.default", tensors=[r(2, dtype="bool"), r(1, dtype="bool")])
    case("cat.default", tensors=[r(2, dtype="u8"), r(1, dtype="i8")])
    case("stack.default", tensors=[r(2, 3), r(2, 3)])
    case("stack.default", tensors=[r(2, 3), r(2, 3)], dim=-1)
    case("stack.default", tensors=[r(2, dtype="bool"), r(2, dtype="bool")], dim=1)
    case("stack.default", tensors=[t(1.0), t(2.0)])
    case("broadcast_tensors.default", tensors=[r(3, 1), r(2, 1, 4), t(1.0)])
    case("split.Tensor", self=r(5, 2), split_size=2)
    case("split.Tensor", self=r(2, 6, dtype="i64"), split_size=3, dim=-1)
    case("split_with_sizes.default", self=r(2, 6), split_sizes=[1, 0, 5], dim=1)
    case("chunk.default", self=r(7, 2), chunks=3)
    case("chunk.default", self=r(2, 4), chunks=2, dim=-1)
    case("unbind.int", self=r(3, 2))
    case("unbind.int", self=r(3, 2), dim=-1)

    begin("rearrange")
    x = r(3, 4)
    for dims in ([0], [1, -2], []):
        case("flip.default", self=x, dims=dims)
    case("flip.default", self=r(2, 0, 3), dims=[1])
    case("roll.default", self=x, shifts=[1], dims=[0])
    case("roll.default", self=x, shifts=[-2, 5], dims=[1, 0])
    case("roll.default", self=x, shifts=[3])
    case("roll.default", self=r(2, 3, dtype="bool"), shifts=[1], dims=[-1])
    for op in ("tril", "triu"):
        for diagonal in (0, 1, -2, 9):
            case(f"{op}.default", self=r(2, 3, 4), diagonal=diagonal)
        case(f"{op}.default", self=t([[NAN, INF], [NAN, 1.0]]))
        case(f"{op}.default", self=r(3, 3, dtype="bool"))
    case("constant_pad_nd.default", self=x, pad=[1, 2], value=1.5)
    case("constant_pad_nd.default", self=x, pad=[-1, 2, 1, -1], value=-INF)
    case("constant_pad_nd.default", self=r(2, 2, dtype="i32"), pad=[0, 1, 2, 0], value=7)
    case("pad.default", self=x, pad=[1, 1, 0, 2])
    case("pad.default", self=x, pad=[2, 0], mode="constant", value=3.0)
    for mode in ("reflect", "replicate", "circular"):
        case("pad.default", self=r(1, 2, 5), pad=[2, 3], mode=mode)
        case("pad.default", self=r(1, 3, 4, 3), pad=[1, 2, 2, 1], mode=mode)
        case("pad.default", self=r(1, 1, 3, 3, 3), pad=[1, 1, 0, 2, 2, 1], mode=mode)
    case("pad.default", self=r(1, 5), pad=[-1, 2], mode="replicate")
    case("repeat.default", self=r(2, 3), repeats=[2, 2])
    case("repeat.default", self=r(3, dtype="i8"), repeats=[2, 1, 3])
    case("repeat.default", self=t(1.5), repeats=[3])

    begin("index")
    x = r(4, 3, 5)
    i, j = t([0, -1, 2], "i64"), t([[1], [-3]], "i64")
    case("index.Tensor", self=x, indices=[i])
    case("index.Tensor", self=x, indices=[None, j])
    case("index.Tensor", self=x, indices=[i, None, t([1, 2, 0], "i64")])
    case("index.Tensor", self=x, indices=[None, j, t([0, 4, 2], "i32")])
    case("index.Tensor", self=r(4, dtype="bool"), indices=[t([[0, 1], [2, 3]], "i64")])
    case("index_select.default", self=x, dim=1, index=t([2, 0, 0], "i64"))
    case("index_select.default", self=x, dim=-1, index=t(3, "i32"))
    case("index_select.default", self=r(3, dtype="u8"), dim=0, index=t([], "i64"))
    case("gather.default", self=x, dim=1, index=torch.randint(0, 3, (2, 4, 5), generator=torch.Generator().manual_seed(1)))
    case("gather.default", self=x, dim=-1, index=t([[[4, 0]], [[1, 1]]], "i64"))
    case("gather.default", self=r(3, dtype="i32"), dim=0, index=t([2, 2, 0, 1], "i64"))
    case("gather.default", self=t(2.0), dim=0, index=t(0, "i64"))
    case("embedding.default", weight=r(5, 2), indices=t([[0, 4], [2, 2]], "i64"))
    case("embedding.default", weight=r(5, 2), indices=t(3, "i32"), padding_idx=0)
    case("scatter.src", self=r(3, 4), dim=0, index=t([[0, 1, 2, 0]], "i64"), src=r(2, 5))
    case("scatter.src", self=r(3, 4, dtype="i64"), dim=1, index=t([[3, 1], [0, 2]], "i64"), src=r(2, 2, dtype="i64"))
    case("scatter.value", self=r(3, 4), dim=-1, index=t([[1], [0], [3]], "i64"), value=9.5)
    case("scatter.value", self=r(2, 3, 2, dtype="bool"), dim=1, index=t([[[1, 2]]], "i64"), value=True)


def creation():
    begin("create")
    case("full.default", native=True, size=[2, 3], fill_value=0.1)
    case("full.default", native=True, size=[2], fill_value=3)
    case("full.default", native=True, size=[2], fill_value=0.1, dtype=DType("f16"))
    case("full.default", native=True, size=[], fill_value=True)
    case("full.default", native=True, size=[2], fill_value=-1, dtype=DType("f64"))
    case("full_like.default", native=True, self=r(2, 2), fill_value=INF)
    case("full_like.default", native=True, self=r(2, dtype="i32"), fill_value=7, dtype=DType("i8"))
    for op in ("zeros", "ones"):
        case(f"{op}.default", native=True, size=[2, 0])
        case(f"{op}.default", native=True, size=[3], dtype=DType("bool"))
        case(f"{op}_like.default", native=True, self=r(2, 3))
        case(f"{op}_like.default", native=True, self=r(3, dtype="f16"), dtype=DType("i64"))
    case("scalar_tensor.default", native=True, s=0.1)
    case("scalar_tensor.default", native=True, s=7, dtype=DType("i64"))
    case("arange.default", native=True, end=5)
    case("arange.default", native=True, end=2.5)
    case("arange.start", native=True, start=-2, end=3)
    case("arange.start", native=True, start=1, end=4, dtype=DType("f32"))
    case("arange.start_step", native=True, start=5, end=-4, step=-2)
    case("arange.start_step", native=True, start=0.0, end=1.0, step=0.1)
    case("arange.start_step", native=True, start=1, end=9, step=3, dtype=DType("i32"))


def reductions():
    begin("reduce")
    x = r(3, 4, 5)
    awkward = t([[NAN, 1.0, 2.0], [INF, -INF, 0.0], [-INF, -INF, -INF], [INF, 1.0, INF], [-0.0, 0.0, 0.0]])
    for op in ("sum", "mean"):
        overload = "dim_IntList" if op == "sum" else "dim"
        case(f"{op}.default", self=x)
        for dim in ([0], [-1], [0, 2], [1, 0], [], None):
            case(f"{op}.{overload}", self=x, dim=dim, keepdim=dim == [0, 2])
        case(f"{op}.{overload}", self=awkward, dim=[1])
        case(f"{op}.{overload}", self=r(2, 0, 3), dim=[1])
        case(f"{op}.default", self=r(3, dtype="i32"), dtype=DType("f64"))
        case(f"{op}.default", self=t(2.5))
        case(f"{op}.{overload}", self=r(70, 3), dim=[0])
        case(f"{op}.{overload}", self=r(3, 130, dtype="bf16"), dim=[0])
    for dtype in ("bool", "u8", "i8", "i32"):
        case("sum.default", self=r(4, dtype=dtype))
        case("prod.default", self=r(4, dtype=dtype))
    case("sum.default", self=t([100, 100], "i8"), dtype=DType("i8"))
    case("prod.default", self=r(2, 3))
    case("prod.dim_int", self=x, dim=1)
    case("prod.dim_int", self=awkward, dim=-1, keepdim=True)
    case("prod.dim_int", self=r(2, 0), dim=1)
    for op in ("amax", "amin"):
        for dim in ([0], [1, 2], []):
            case(f"{op}.default", self=x, dim=dim, keepdim=dim == [0])
        case(f"{op}.default", self=awkward, dim=[1])
        case(f"{op}.default", self=r(2, 3, dtype="i8"), dim=[0])
        case(f"{op}.default", self=r(2, 3, dtype="bool"), dim=[0])
    for op in ("max", "min"):
        case(f"{op}.default", self=x)
        case(f"{op}.default", self=awkward)
        case(f"{op}.default", self=r(4, dtype="i64"))
        case(f"{op}.dim", self=x, dim=1)
        case(f"{op}.dim", self=awkward, dim=-1, keepdim=True)
        case(f"{op}.dim", self=t([[3, 1, 3], [2, 2, 0]], "i32"), dim=1)
        case(f"{op}.dim", self=t([[True, False], [False, True]], "bool"), dim=0)
        case(f"{op}.dim", self=t(1.5), dim=0)
        case(f"arg{op}.default", self=x)
        case(f"arg{op}.default", self=x, dim=0)
        case(f"arg{op}.default", self=awkward, dim=1, keepdim=True)
        case(f"arg{op}.default", self=awkward)
        case(f"arg{op}.default", self=t([3, 1, 3, 1], "u8"))
        case(f"arg{op}.default", self=t([[1.0] * 90] * 2), dim=1)
    for op in ("any", "all"):
        for y in (r(2, 3, dtype="bool"), awkward, r(2, 3, dtype="u8"), r(0, 3, dtype="i32")):
            case(f"{op}.default", self=y)
            case(f"{op}.dim", self=y, dim=-1, keepdim=True)
            case(f"{op}.dim", self=y, dim=0)
        case(f"{op}.dims", self=r(2, 3, 2, dtype="bool"), dim=[0, 2])
        case(f"{op}.dims", self=r(2, 3, dtype="bool"))
    for op in ("var", "std"):
        case(f"{op}.default", self=x)
        case(f"{op}.default", self=x, unbiased=False)
        case(f"{op}.dim", self=x, dim=[0, 2])
        case(f"{op}.dim", self=x, dim=[1], unbiased=False, keepdim=True)
        for correction in (0, 1, 2.5, 5, None):
            case(f"{op}.correction", self=x, dim=[1], correction=correction)
        case(f"{op}.correction", self=r(3, 1), dim=[1])
        case(f"{op}_mean.correction", self=x, dim=[2], correction=1, keepdim=True)
        case(f"{op}_mean.correction", self=t([[NAN, 1.0, 2.0], [INF, -INF, 0.0]]), dim=[1], correction=0)
    case("logsumexp.default", self=x, dim=[1])
    case("logsumexp.default", self=x * 200, dim=[0, 2], keepdim=True)
    case("logsumexp.default", self=awkward, dim=[1])
    case("logsumexp.default", self=t([1, 2, -3], "i32"), dim=[0])
    case("logsumexp.default", self=r(2, 0), dim=[1])
    for order in (2, 1, 0, INF, -INF, 3, 0.5, -1):
        case("linalg_vector_norm.default", self=x, ord=order, dim=[1])
    case("linalg_vector_norm.default", self=x)
    case("linalg_vector_norm.default", self=awkward, dim=[1], keepdim=True)
    case("linalg_vector_norm.default", self=awkward, ord=INF, dim=[1])
    case("linalg_vector_norm.default", self=r(4, dtype="f16"), dtype=DType("f32"))
    case("norm.ScalarOpt_dim", self=x, p=2, dim=[1], keepdim=True)
    case("norm.ScalarOpt_dim", self=x, p=None, dim=[0])
    case("norm.ScalarOpt_dim", self=x, p=1, dim=[-1])
    case("norm.Scalar", self=x)
    case("norm.Scalar", self=x, p=3)

    begin("softmax")
    for op in ("softmax", "log_softmax"):
        for dim in (0, 1, -1):
            case(f"{op}.int", self=x, dim=dim)
            case(f"_{op}.default", self=x, dim=dim, half_to_float=False)
        case(f"{op}.int", self=awkward, dim=1)
        case(f"{op}.int", self=x * 300, dim=2)
        case(f"{op}.int", self=r(4, dtype="i32"), dim=0, dtype=DType("f32"))
        case(f"{op}.int", self=t(1.5), dim=0)
        case(f"{op}.int", self=r(2, 0), dim=1)

    begin("scan")
    for op in ("cumsum", "cumprod"):
        for dim in (0, 1, -1):
            case(f"{op}.default", self=x, dim=dim)
        case(f"{op}.default", self=awkward, dim=1)
        case(f"{op}.default", self=r(2, 37, scale=1.0), dim=1)
        case(f"{op}.default", self=r(5, dtype="i8"), dim=0)
        case(f"{op}.default", self=t([100, 100, 2], "i8"), dim=0, dtype=DType("i8"))
        case(f"{op}.default", self=t([True, True, False], "bool"), dim=0)
        case(f"{op}.default", self=t(3.0), dim=0)
        case(f"{op}.default", self=r(3, dtype="i32"), dim=0, dtype=DType("f32"))


def products():
    begin("matmul")
    case("mm.default", self=r(3, 4), mat2=r(4, 2))
    case("mm.default", self=r(2, 3, dtype="i8"), mat2=r(3, 2, dtype="i8"))
    case("mm.default", self=r(2, 0), mat2=r(0, 3))
    case("mm.default", self=r(3, 40), mat2=r(40, 35))
    case("mm.default", self=t([[INF, 1.0], [NAN, 0.0]]), mat2=t([[0.0, 1.0], [1.0, 2.0]]))
    case("bmm.default", self=r(2, 3, 4), mat2=r(2, 4, 2))
    case("bmm.default", self=r(0, 3, 4), mat2=r(0, 4, 2))
    for a, b in (((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
                 ((2, 3, 4), (4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((3, 4), (2, 4, 5))):
        case("matmul.default", self=r(*a), other=r(*b))
    case("linear.default", input=r(2, 3, 4), weight=r(5, 4), bias=r(5))
    case("linear.default", input=r(3, 4), weight=r(2, 4))
    case("linear.default", input=r(4), weight=r(2, 4), bias=r(2))
    case("linear.default", input=r(3, 4), weight=r(4))
    case("addmm.default", self=r(2), mat1=r(3, 4), mat2=r(4, 2))
    case("addmm.default", self=r(3, 1), mat1=r(3, 4), mat2=r(4, 2), beta=0.5, alpha=-2)
    case("addmm.default", self=t([[NAN] * 2] * 3), mat1=r(3, 4), mat2=r(4, 2), beta=0)
    case("baddbmm.default", self=r(2, 1, 3), batch1=r(2, 3, 4), batch2=r(2, 4, 3), beta=2, alpha=0.5)
    case("mv.default", self=r(3, 4), vec=r(4))
    case("dot.default", self=r(5), tensor=r(5))
    case("outer.default", self=r(3), vec2=r(2))
    case("outer.default", self=r(3, dtype="i32"), vec2=r(2))
    for equation, *shapes in (
        ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)), ("ii->i", (3, 3)), ("ii", (3, 3)),
        ("ij->ji", (2, 3)), ("ij->", (2, 3)), ("i,j->ij", (2,), (3,)), ("bl,bk,blk->b", (2, 3), (2, 4), (2, 3, 4)),
        ("...ij,...jk->...ik", (2, 3, 4), (4, 5)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 3, 4)), ("ij,jk", (2, 3), (3, 2)),
        ("bclh,bsh,bhcs,bcshp->bclhp", (1, 2, 3, 2), (1, 4, 2), (1, 2, 2, 4), (1, 2, 4, 2, 3)),
        ("ik,jk->i", (2, 3), (4, 3)), ("bi,bj->bij", (3, 2), (1, 4)), ("iij,jk->ik", (2, 2, 3), (3, 2)),
    ):
        case("einsum.default", equation=equation, tensors=[r(*s) for s in shapes])

    begin("conv")
    ones, twos, threes = r(2, 4, 9), r(2, 4, 7, 6), r(1, 4, 5, 6, 4)
    for n, x in ((1, ones), (2, twos), (3, threes)):
        k = [3, 2, 3][-n:]
        case(f"conv{n}d.default", input=x, weight=r(6, 4, *k), bias=r(6))
        case(f"conv{n}d.default", input=x, weight=r(6, 2, *k), stride=[2] * n, padding=[1] * n, groups=2)
        case(f"conv{n}d.default", input=x, weight=r(4, 1, *k), bias=r(4), padding=[2, 1, 2][-n:], dilation=[1, 2, 2][-n:], groups=4)
        case(f"conv{n}d.default", input=x[0], weight=r(3, 4, *([1] * n)))
        case(f"conv{n}d.padding", input=x, weight=r(2, 4, *k), padding="same")
        case(f"conv{n}d.padding", input=x, weight=r(2, 4, *([2] * n)), bias=r(2), padding="same", dilation=[1] * n)
        case(f"conv{n}d.padding", input=x, weight=r(2, 4, *k), padding="valid", stride=[2] * n)
        op = "conv_transpose1d.default" if n == 1 else f"conv_transpose{n}d.input"
        case(op, input=x, weight=r(4, 3, *k), bias=r(3))
        case(op, input=x, weight=r(4, 3, *k), stride=[2] * n, padding=[1] * n, output_padding=[1] * n, groups=2)
        case(op, input=x, weight=r(4, 2, *k), stride=[3, 2, 1][-n:], dilation=[1, 2, 2][-n:], padding=[0, 1, 1][-n:])
        case(op, input=x[0], weight=r(4, 1, *([1] * n)), stride=[2] * n, bias=r(1))
        case(op, input=x, weight=r(4, 1, *k), stride=[2] * n, dilation=[2] * n, groups=4)
    case("convolution.default", input=twos, weight=r(6, 4, 3, 3), bias=r(6), stride=[2, 1], padding=[1, 0], dilation=[1, 1],
         transposed=False, output_padding=[0, 0], groups=1)
    case("convolution.default", input=twos, weight=r(4, 6, 3, 3), bias=None, stride=[2, 1], padding=[1, 0], dilation=[1, 1],
         transposed=True, output_padding=[1, 0], groups=1)
    case("convolution.default", input=ones, weight=r(4, 1, 3), bias=None, stride=[1], padding=[1], dilation=[1],
         transposed=False, output_padding=[0], groups=4)
    case("conv2d.default", input=t([[[[INF, 0.0], [NAN, 1.0]]]]), weight=r(1, 1, 2, 2), padding=[1, 1])

    begin("attention")
    sdpa = "scaled_dot_product_attention.default"
    q, k, v = r(2, 3, 4, 8), r(2, 3, 5, 8), r(2, 3, 5, 6)
    case(sdpa, query=q, key=k, value=v)
    case(sdpa, query=q, key=k, value=v, is_causal=True)
    case(sdpa, query=q, key=k, value=v, attn_mask=r(4, 5))
    case(sdpa, query=q, key=k, value=v, attn_mask=r(2, 1, 4, 5, dtype="bool"), scale=0.5)
    case(sdpa, query=q, key=k, value=v, attn_mask=t([[False] * 5, [True] * 5, [False] * 5, [True, False] * 2 + [True]], "bool"))
    case(sdpa, query=r(2, 6, 4, 4), key=r(2, 2, 5, 4), value=r(2, 2, 5, 4), enable_gqa=True)
    case(sdpa, query=r(4, 8), key=r(5, 8), value=r(5, 3))


def norms():
    begin("norm")
    x = r(2, 6, 3, 2)
    w, b, m, v = r(6), r(6), r(6), p(6)
    case("layer_norm.default", input=r(2, 3, 5), normalized_shape=[5], weight=r(5), bias=r(5))
    case("layer_norm.default", input=r(2, 3, 5), normalized_shape=[3, 5])
    case("layer_norm.default", input=r(2, 3, 5), normalized_shape=[5], weight=r(5), eps=0.5)
    case("layer_norm.default", input=t([[1.0, NAN, 2.0], [INF, 0.0, 1.0], [2.0, 2.0, 2.0]]), normalized_shape=[3])
    case("native_layer_norm.default", input=r(4, 3, 5), normalized_shape=[3, 5], weight=r(3, 5), bias=r(3, 5), eps=1e-3)
    case("native_layer_norm.default", input=r(4, 5), normalized_shape=[5], weight=None, bias=None, eps=1e-5)
    case("rms_norm.default", input=r(2, 3, 5), normalized_shape=[5], weight=r(5), eps=1e-6)
    case("rms_norm.default", input=r(2, 5, dtype="f64"), normalized_shape=[5])
    case("rms_norm.default", input=r(2, 3, 5), normalized_shape=[3, 5], eps=0.1)
    case("group_norm.default", input=x, num_groups=3, weight=w, bias=b)
    case("group_norm.default", input=x, num_groups=1)
    case("group_norm.default", input=r(3, 6), num_groups=2, eps=0.1)
    case("native_group_norm.default", input=x, weight=w, bias=b, N=2, C=6, HxW=6, group=2, eps=1e-5)
    case("native_group_norm.default", input=x, weight=None, bias=None, N=2, C=6, HxW=6, group=6, eps=1e-2)
    case("instance_norm.default", input=x, weight=w, bias=b, running_mean=None, running_var=None, use_input_stats=True,
         momentum=0.1, eps=1e-5, cudnn_enabled=True)
    case("instance_norm.default", input=x, weight=None, bias=None, running_mean=m, running_var=v, use_input_stats=False,
         momentum=0.1, eps=1e-5, cudnn_enabled=True)
    case("batch_norm.default", input=x, weight=w, bias=b, running_mean=m, running_var=v, training=False, momentum=0.1,
         eps=1e-5, cudnn_enabled=True)
    case("batch_norm.default", input=x, weight=w, bias=b, running_mean=None, running_var=None, training=True,
         momentum=0.1, eps=1e-3, cudnn_enabled=True)
    case("batch_norm.default", input=r(4, 3), weight=None, bias=None, running_mean=None, running_var=None, training=True,
         momentum=0.1, eps=1e-5, cudnn_enabled=False)
    case("_native_batch_norm_legit.no_stats", input=x, weight=w, bias=b, training=True, momentum=0.1, eps=1e-5)
    for training in (True, False):
        case("_native_batch_norm_legit_functional.default", input=x, weight=w, bias=b, running_mean=m, running_var=v,
             training=training, momentum=0.25, eps=1e-5)
        case("_native_batch_norm_legit_functional.default", input=r(5, 3), weight=None, bias=None, running_mean=r(3),
             running_var=p(3), training=training, momentum=0.1, eps=1e-3)


def pools():
    begin("pool")
    xs = {1: r(2, 3, 9), 2: r(2, 2, 7, 6), 3: r(1, 2, 5, 6, 4)}
    awkward = t([[[[1.0, NAN, 2.0], [-INF, -INF, NAN], [-INF, -INF, 0.0]]]])
    for n, x in xs.items():
        ops = [f"max_pool{n}d.default"] + ([f"max_pool{n}d_with_indices.default"] if n > 1 else [])
        for op in ops:
            case(op, self=x, kernel_size=[2] * n)
            case(op, self=x, kernel_size=[3] * n, stride=[2] * n, padding=[1] * n)
            case(op, self=x, kernel_size=[3, 2, 2][-n:], stride=[2] * n, ceil_mode=True)
            case(op, self=x[0], kernel_size=[2] * n, stride=[1] * n, dilation=[2] * n)
            case(op, self=x, kernel_size=[2] * n, stride=[3] * n, padding=[1] * n, ceil_mode=True)
        op = f"avg_pool{n}d.default"
        case(op, self=x, kernel_size=[2] * n)
        for count, ceil in itertools.product((True, False), repeat=2):
            case(op, self=x, kernel_size=[3] * n, stride=[2] * n, padding=[1] * n, ceil_mode=ceil, count_include_pad=count)
        case(op, self=x[0], kernel_size=[2] * n, stride=[3] * n, ceil_mode=True)
        if n > 1:
            case(op, self=x, kernel_size=[2] * n, divisor_override=3)
        for size in ([1] * n, [2, 3, 2][-n:], [5, 7, 3][-n:]):
            case(f"adaptive_avg_pool{n}d.default", self=x, output_size=size)
            case(f"adaptive_max_pool{n}d.default", self=x, output_size=size)
            if n > 1:
                case(f"_adaptive_avg_pool{n}d.default", self=x, output_size=size)
        case(f"adaptive_max_pool{n}d.default", self=x[0], output_size=[2] * n)
    case("max_pool2d_with_indices.default", self=awkward, kernel_size=[2, 2], stride=[1, 1])
    case("adaptive_max_pool2d.default", self=awkward, output_size=[2, 2])
    case("avg_pool2d.default", self=awkward, kernel_size=[2, 2], stride=[1, 1])


def losses():
    begin("loss")
    x, y = r(3, 4), r(3, 4)
    q = torch.softmax(p(3, 4).double(), 1).float()
    for reduction in (0, 1, 2):
        for op in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
            case(f"{op}.default", self=x, target=y, reduction=reduction)
        case("smooth_l1_loss.default", self=x, target=y, reduction=reduction, beta=0.5)
        case("huber_loss.default", self=x, target=y, reduction=reduction, delta=0.5)
        case("kl_div.default", self=x, target=q, reduction=reduction)
        case("kl_div.default", self=x, target=y, reduction=reduction, log_target=True)
        unit = torch.sigmoid(x.double()).float()
        case("binary_cross_entropy.default", self=unit, target=q, reduction=reduction)
        case("binary_cross_entropy.default", self=t([0.0, 1.0, 0.5]), target=t([1.0, 0.0, 0.25]), weight=t([1.0, 2.0, 0.5]), reduction=reduction)
        case("binary_cross_entropy_with_logits.default", self=x, target=q, reduction=reduction)
        case("binary_cross_entropy_with_logits.default", self=x, target=q, weight=r(4), pos_weight=p(4), reduction=reduction)
        target = t([1, 3, -100], "i64")
        for w in (None, p(4)):
            case("cross_entropy_loss.default", self=x, target=target, weight=w, reduction=reduction)
            case("cross_entropy_loss.default", self=x, target=target, weight=w, reduction=reduction, label_smoothing=0.2)
            case("cross_entropy_loss.default", self=x, target=q, weight=w, reduction=reduction, label_smoothing=0.1)
            case("nll_loss.default", self=x, target=target, weight=w, reduction=reduction)
        case("triplet_margin_loss.default", anchor=x, positive=y, negative=r(3, 4), reduction=reduction)
    case("mse_loss.default", self=t([NAN, 1.0]), target=t([1.0, INF]), reduction=0)
    case("kl_div.default", self=x, target=t([[0.0, 1.0, 0.0, 0.0]] * 3), reduction=0)
    case("cross_entropy_loss.default", self=r(2, 3, 4), target=t([[0, 1, 2, 0], [2, 2, 1, 1]], "i64"))
    case("cross_entropy_loss.default", self=r(2, 3, 2), target=p(2, 3, 2), reduction=1)
    case("cross_entropy_loss.default", self=r(4), target=t(2, "i64"))
    case("cross_entropy_loss.default", self=r(3, 4), target=t([1, 1, 0], "i64"), ignore_index=1)
    case("triplet_margin_loss.default", anchor=x, positive=y, negative=r(3, 4), margin=0.5, p=1.0, swap=True, reduction=0)
    case("triplet_margin_loss.default", anchor=x, positive=r(1, 4), negative=r(3, 4), margin=3.0, p=2.0, swap=True)
    case("cosine_similarity.default", x1=x, x2=y)
    case("cosine_similarity.default", x1=r(2, 3, 4), x2=r(3, 1), dim=0)
    case("cosine_similarity.default", x1=t([[0.0, 0.0], [1.0, 2.0]]), x2=r(2, 2), dim=-1, eps=0.5)


def recurrent():
    begin("rnn")

    def build(gates, inputs, hidden, layers, directions, biases, projected=None):
        params = []
        out = projected or hidden
        for layer in range(layers):
            for _ in range(directions):
                width = inputs if layer == 0 else out * directions
                params += [r(gates * hidden, width, scale=0.5), r(gates * hidden, out, scale=0.5)]
                if biases:
                    params += [r(gates * hidden), r(gates * hidden)]
                if projected:
                    params += [r(projected, hidden, scale=0.5)]
        return params

    for op, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1)):
        for layers, bi, biases, first in ((1, False, True, False), (2, True, True, True), (2, False, False, True)):
            d = 2 if bi else 1
            h = r(layers * d, 2, 3)
            hx = [h, r(layers * d, 2, 3)] if op == "lstm" else h
            case(f"{op}.input", input=r(2, 4, 5) if first else r(4, 2, 5), hx=hx,
                 params=build(gates, 5, 3, layers, d, biases), has_biases=biases, num_layers=layers, dropout=0.0,
                 train=False, bidirectional=bi, batch_first=first)
    case("lstm.input", input=r(3, 2, 4), hx=[r(2, 2, 2), r(2, 2, 3)], params=build(4, 4, 3, 1, 2, True, 2), has_biases=True,
         num_layers=1, dropout=0.0, train=False, bidirectional=True, batch_first=False)


def moments():
    """Variances with their means; last, so that the numbers of the other families stay what they are."""
    begin("reduce")
    x = r(2, 3, 4)
    for op in ("var_mean", "std_mean"):
        case(f"{op}.default", self=x)
        case(f"{op}.default", self=x, unbiased=False)
        case(f"{op}.dim", self=x, dim=[0, 2])
        case(f"{op}.dim", self=x, dim=[1], unbiased=False, keepdim=True)
        case(f"{op}.dim", self=r(3, 1), dim=[-1])


def replacements():
    """Slices at the places of an index, after the other families for the same reason."""
    begin("index")
    x = r(4, 3, 5)
    case("index_copy.default", self=x, dim=0, index=t([2, 0], "i64"), source=r(2, 3, 5))
    case("index_copy.default", self=x, dim=1, index=t([1, 2, 1, 1], "i64"), source=r(4, 4, 5))
    case("index_copy.default", self=x, dim=-1, index=t(3, "i64"), source=r(4, 3, 1))
    case("index_copy.default", self=x, dim=2, index=t([], "i64"), source=r(4, 3, 0))
    case("index_copy.default", self=r(4, 2, dtype="bool"), dim=0, index=t([3, 1, 3], "i64"), source=r(3, 2, dtype="bool"))
    case("index_copy.default", self=r(2, 5, dtype="i8"), dim=1, index=t([4], "i64"), source=r(2, 1, dtype="i8"))
    case("index_copy.default", self=r(3, dtype="bf16"), dim=0, index=t([2], "i64"), source=t(1.5, "bf16"))
    case("index_copy.default", self=t(1.5), dim=0, index=t([0, 0], "i64"), source=t([2.5, -3.5]))
    case("index_copy.default", self=t(7, "i64"), dim=-1, index=t(0, "i64"), source=t(9, "i64"))


def main():
    for make in (pointwise, views, creation, reductions, products, norms, pools, losses, recurrent, moments, replacements):
        make()
    for name, cases in families.items():
        path = OUT / f"{name}.json"
        lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases)
        path.write_text(f"[\n{lines}\n]\n")
        print(f"{path.name}: {len(cases)} cases, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
