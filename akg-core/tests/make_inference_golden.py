"""Writes data/inference.json: calls of ATen operators and the types of their results according to PyTorch.

Usage: python make_inference_golden.py [--all] > data/inference.json    (torch 2.11 or later, CPU)

Each line is `[operator, arguments, result types]`; tensors are written as their types, `"f32[2,3]"`, and a call that
PyTorch refuses has the result "error". Calls are executed on the CPU, so that kernels that lack a type refuse it too.
Of the many calls that are tried, a sample is written; `--all` writes them all.

Left out is what PyTorch accepts by oversight and akg refuses: weights of the wrong length in batch norms, values that
are fewer than the keys of an attention, empty indices of the wrong rank, transposed convolutions without a result
(which depends on the library that PyTorch calls), random integers as long as there are none; and the other way round,
a logsumexp over the empty list, an index_copy by 32-bit integers.
"""

import itertools
import json
import random
import sys
import warnings

import torch

warnings.simplefilter("ignore")
torch.manual_seed(0)
rng = random.Random(0)

DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}
NAMES = {v: k for k, v in DTYPES.items()}
FLOATS = ["f16", "bf16", "f32", "f64"]
FEW = ["bool", "i32", "i64", "bf16", "f32"]

INDEX_PARAMETERS = {"index", "indices", "target"}


class T:
    """The type of a tensor argument."""

    def __init__(self, dtype, *shape):
        self.dtype, self.shape = dtype, shape

    def __str__(self):
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def make(self, parameter):
        dtype = DTYPES[self.dtype]
        if dtype.is_floating_point:
            return (torch.rand(self.shape) * 0.8 + 0.1).to(dtype)
        return torch.full(self.shape, 0 if parameter in INDEX_PARAMETERS else 1, dtype=dtype)


class D(str):
    """The name of an element type as an argument."""


def F(*shape):
    return T("f32", *shape)


def I(*shape):
    return T("i64", *shape)


# How many calls with results, and how many refused ones, are kept of each operator.
SAMPLE = 9

lines = {}


def encode(value):
    if isinstance(value, T):
        return str(value)
    if isinstance(value, list):
        return [encode(v) for v in value]
    return value


def make(parameter, value):
    if isinstance(value, T):
        return value.make(parameter)
    if isinstance(value, D):
        return DTYPES[value]
    if isinstance(value, list):
        return [make(parameter, v) for v in value]
    return value


def describe(tensor):
    return f"{NAMES[tensor.dtype]}[{','.join(map(str, tensor.shape))}]"


def case(name, **args):
    """Runs one call and prints what came of it."""
    args = {k.rstrip("_"): v for k, v in args.items()}
    base, overload = name.split(".")
    op = getattr(getattr(torch.ops.aten, base), overload)
    positional, keywords = [], {}
    for parameter in op._schema.arguments:
        if parameter.name not in args:
            if not parameter.has_default_value():
                raise TypeError(f"{name} needs {parameter.name}")
            value = parameter.default_value
        else:
            value = make(parameter.name, args[parameter.name])
        if parameter.kwarg_only:
            keywords[parameter.name] = value
        else:
            positional.append(value)
    unknown = args.keys() - {p.name for p in op._schema.arguments}
    if unknown:
        raise TypeError(f"{name} has no {unknown}")
    try:
        result = op(*positional, **keywords)
        results = [] if result is None else [result] if isinstance(result, torch.Tensor) else list(result)
        if any(r.dtype not in NAMES for r in results):
            return
        if "conv" in name and any(r.numel() == 0 and r.shape[0] > 0 for r in results):
            return
        results = [describe(r) for r in results]
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        # A half-precision type without a CPU kernel says nothing about the operator.
        if "not implemented for" in str(error) and ("Half" in str(error) or "BFloat16" in str(error)):
            return
        results = "error"
    line = json.dumps([name, {k: encode(v) for k, v in args.items()}, results], separators=(",", ":"))
    group = lines.setdefault((name, results == "error"), [])
    if line not in group:
        group.append(line)


def pointwise():
    unary = """exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh
        acosh atanh sigmoid erf erfc neg relu hardtanh relu6 ceil floor round trunc abs sign square gelu silu mish
        hardswish hardsigmoid leaky_relu elu selu celu softplus log_sigmoid bitwise_not logical_not isnan isinf
        isfinite""".split()
    for op in unary:
        for dtype in DTYPES:
            case(f"{op}.default", self=T(dtype, 2, 3))
        case(f"{op}.default", self=F())
        case(f"{op}.default", self=F(0, 2))
    case("gelu.default", self=F(2), approximate="tanh")
    case("elu.default", self=F(2), alpha=0.5)

    tensor = """add.Tensor mul.Tensor multiply.Tensor sub.Tensor rsub.Tensor maximum.default minimum.default max.other
        min.other remainder.Tensor fmod.Tensor floor_divide.default pow.Tensor_Tensor bitwise_and.Tensor
        bitwise_or.Tensor bitwise_xor.Tensor div.Tensor atan2.default eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor
        ge.Tensor logical_and.default logical_or.default logical_xor.default""".split()
    pairs = [("f32", "f32"), ("i64", "f16"), ("u8", "i8"), ("bool", "bool"), ("bool", "i32"), ("f16", "bf16")]
    shapes = [((2, 1), (3,)), ((2, 3), ()), ((), (2,)), ((2,), (3,)), ((0,), (1,)), ((2, 3), (3, 2)), ((), ())]
    for op in tensor:
        second = "exponent" if op.startswith("pow") else "other"
        for a, b in itertools.product(DTYPES, DTYPES) if op in ("add.Tensor", "div.Tensor") else pairs:
            case(op, self=T(a, 2), **{second: T(b, 2)})
        for a, b in shapes:
            case(op, self=F(*a), **{second: F(*b)})
        # Tensors without dimensions yield to those with.
        for a, b in [("f16", "f64"), ("i32", "f64"), ("bool", "i64"), ("i8", "i64"), ("f32", "i64")]:
            case(op, self=T(a, 2), **{second: T(b)})
    scalar = """add.Scalar mul.Scalar sub.Scalar rsub.Scalar remainder.Scalar fmod.Scalar floor_divide.Scalar
        pow.Tensor_Scalar bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar div.Scalar eq.Scalar ne.Scalar
        lt.Scalar le.Scalar gt.Scalar ge.Scalar""".split()
    for op in scalar:
        second = "exponent" if op.startswith("pow") else "other"
        for dtype, value in itertools.product(FEW if op != "add.Scalar" else DTYPES, [2, 1.5, True]):
            if op == "pow.Tensor_Scalar" and dtype == "bool" and value is True:
                continue  # the only power of booleans that PyTorch computes
            case(op, self=T(dtype, 2), **{second: value})
        case(op, self=T("f16"), **{second: 2.5})
        case(op, self=T("i32"), **{second: 2.5})
    for dtype, value in itertools.product(FEW, [2, 2.0]):
        case("pow.Scalar", self=value, exponent=T(dtype, 2))
    case("pow.Tensor_Scalar", self=T("i32", 2), exponent=-1)
    case("pow.Tensor_Scalar", self=F(2), exponent=-1)
    for op in ["add", "sub", "rsub"]:
        for dtype, alpha in itertools.product(["i32", "f32", "bool"], [2, 0.5, True]):
            case(f"{op}.Tensor", self=T(dtype, 2), other=T(dtype, 2), alpha=alpha)
            case(f"{op}.Scalar", self=T(dtype, 2), other=1, alpha=alpha)
    for dtype, mode in itertools.product(FEW, ["floor", "trunc", None, "up"]):
        case("div.Tensor_mode", self=T(dtype, 2), other=T(dtype, 2), rounding_mode=mode)
        case("div.Scalar_mode", self=T(dtype, 2), other=2, rounding_mode=mode)
        case("div.Scalar_mode", self=T(dtype, 2), other=2.5, rounding_mode=mode)

    for a, b in [("f32", "f32"), ("i64", "f16"), ("bool", "i8"), ("f16", "f32")]:
        case("where.self", condition=T("bool", 2, 1), self=T(a, 3), other=T(b, 2, 3))
        case("where.self", condition=T("bool", 2), self=T(a), other=T(b, 2))
        case("where.ScalarOther", condition=T("bool", 2, 1), self=T(a, 3), other=1.5)
        case("where.ScalarSelf", condition=T("bool", 2, 1), self=1, other=T(b, 3))
    case("where.self", condition=F(2), self=F(2), other=F(2))
    case("where.self", condition=T("u8", 2), self=F(2), other=F(2))
    case("where.self", condition=T("bool", 3), self=F(2), other=F(2))
    case("where.Scalar", condition=T("bool", 3), self=1.0, other=0)
    case("where.Scalar", condition=T("bool", 3), self=1, other=0)
    case("where.Scalar", condition=T("bool", 3), self=True, other=False)
    for dtype in DTYPES:
        case("clamp.default", self=T(dtype, 2), min=0, max=2.5)
        case("clamp.default", self=T(dtype, 2), min=0)
        case("clamp_min.default", self=T(dtype, 2), min=0)
        case("clamp_min.default", self=T(dtype, 2), min=0.5)
        case("clamp_max.default", self=T(dtype, 2), max=0.5)
        case("clamp.Tensor", self=T(dtype, 2), min=T("i64", 2))
        case("clamp_min.Tensor", self=T(dtype, 2), min=F())
        case("clamp_max.Tensor", self=T(dtype, 2, 1), max=F(3))
    case("clamp.default", self=F(2))
    case("clamp.Tensor", self=F(2))
    case("clamp.Tensor", self=F(2, 1), min=F(3), max=F())
    for dtype, value in itertools.product(["i32", "f16", "bool"], [1, 0.5, True]):
        case("masked_fill.Scalar", self=T(dtype, 2, 3), mask=T("bool", 3), value=value)
    case("masked_fill.Scalar", self=F(3), mask=T("bool", 2, 1), value=float("-1e30"))
    case("masked_fill.Scalar", self=F(3), mask=F(3), value=0)
    case("masked_fill.Scalar", self=F(3), mask=T("bool", 2), value=0)
    case("masked_fill.Tensor", self=F(3), mask=T("bool", 3), value=F())
    case("masked_fill.Tensor", self=F(3), mask=T("bool", 3), value=T("f64"))
    case("masked_fill.Tensor", self=F(3), mask=T("bool", 3), value=F(1))
    case("masked_fill.Tensor", self=I(3), mask=T("bool", 3), value=F())
    for dtype, value in itertools.product(["f32", "i64", "bool", "f16"], [1, 0.5]):
        for op in ["addcmul.default", "addcdiv.default"]:
            case(op, self=T(dtype, 2), tensor1=T(dtype, 2, 1), tensor2=T(dtype, 1), value=value)
    case("addcmul.default", self=T("f16", 2), tensor1=F(2), tensor2=I(2))
    case("addcdiv.default", self=T("i64", 2), tensor1=F(2), tensor2=I(2))
    for dtype in FEW:
        case("lerp.Scalar", self=T(dtype, 2, 3), end=T(dtype, 3), weight=0.5)
        case("lerp.Tensor", self=T(dtype, 2, 3), end=T(dtype, 3), weight=T(dtype, 2, 1))
    case("lerp.Scalar", self=F(2), end=T("f64", 2), weight=0.5)
    for a, b in [("f32", "i64"), ("bool", "bf16"), ("f16", "f16")]:
        case("to.dtype", self=T(a, 2), dtype=D(b))
        case("to.dtype_layout", self=T(a, 2), dtype=D(b))
        case("_to_copy.default", self=T(a, 2), dtype=D(b))
        case("type_as.default", self=T(a, 2), other=T(b, 3))
    case("to.dtype_layout", self=I(2))
    case("_to_copy.default", self=I(2))
    case("copy.default", self=F(2, 3), src=T("i8", 3))
    case("copy.default", self=F(3), src=F(2, 3))
    for train in [True, False]:
        case("dropout.default", input=F(2, 3), p=0.5, train=train)
        case("native_dropout.default", input=T("f16", 2, 3), p=0.5, train=train)
        case("dropout.default", input=F(2), p=1.5, train=train)
    case("native_dropout.default", input=F(2), p=0.5, train=None)
    for weight in [F(1), F(3), F(2), F(), F(1, 1), T("f64", 3)]:
        case("prelu.default", self=F(2, 3), weight=weight)
    case("prelu.default", self=F(3), weight=F(3))
    case("prelu.default", self=F(3), weight=F(1))
    for dim in [0, 1, -1, 2]:
        case("glu.default", self=F(4, 3), dim=dim)
    case("glu.default", self=I(4))
    case("glu.default", self=F())


def reduce():
    shapes = [(2, 3, 4), (), (0, 3)]
    dims = [[0], [-1], [0, 2], [], [3], [1, 1], None]
    for op in ["sum", "mean", "prod"]:
        for dtype in DTYPES:
            case(f"{op}.default", self=T(dtype, 2, 3))
        for dtype in ["f64", "i32", "bool", "f16"]:
            case(f"{op}.default", self=T("f32", 2, 3), dtype=D(dtype))
    for op in ["sum.dim_IntList", "mean.dim"]:
        for shape, dim, keep in itertools.product(shapes, dims, [False, True]):
            case(op, self=F(*shape), dim=dim, keepdim=keep)
        for dtype in DTYPES:
            case(op, self=T(dtype, 2, 3), dim=[1])
        case(op, self=I(2, 3), dim=[1], dtype=D("f32"))
    for dim, keep in itertools.product([0, -1, 3], [False, True]):
        case("prod.dim_int", self=T("i32", 2, 3), dim=dim, keepdim=keep)
        case("prod.dim_int", self=F(), dim=dim, keepdim=keep)
    for op in ["amax.default", "amin.default", "any.dims", "all.dims"]:
        for shape, dim, keep in itertools.product(shapes, dims, [False, True]):
            if dim is not None or "." in op and op.endswith("dims"):
                case(op, self=F(*shape), dim=dim, keepdim=keep)
    for op in ["amax.default", "amin.default"]:
        for dtype in DTYPES:
            case(op, self=T(dtype, 2, 3), dim=[1])
        case(op, self=F(0, 3), dim=[1])
    for op in ["max", "min", "any", "all"]:
        for dtype in DTYPES:
            case(f"{op}.default", self=T(dtype, 2, 3))
            case(f"{op}.dim", self=T(dtype, 2, 3), dim=1)
        for shape, dim, keep in itertools.product([*shapes, (2, 0)], [0, -1, 1, 3], [False, True]):
            case(f"{op}.dim", self=F(*shape), dim=dim, keepdim=keep)
        case(f"{op}.default", self=F(0))
        case(f"{op}.default", self=F())
    for op in ["argmax.default", "argmin.default"]:
        for dtype in DTYPES:
            case(op, self=T(dtype, 2, 3), dim=1)
        for shape, dim, keep in itertools.product([*shapes, (2, 0)], [0, -1, 1, 3, None], [False, True]):
            case(op, self=F(*shape), dim=dim, keepdim=keep)
    for op in ["var", "std"]:
        for dtype in DTYPES:
            case(f"{op}.default", self=T(dtype, 2, 3))
            case(f"{op}.correction", self=T(dtype, 2, 3), dim=[1])
        for dim, keep in itertools.product(dims, [False, True]):
            case(f"{op}.dim", self=F(2, 3, 4), dim=dim, keepdim=keep)
            case(f"{op}.correction", self=F(2, 3, 4), dim=dim, keepdim=keep, correction=0)
            case(f"{op}_mean.correction", self=F(2, 3, 4), dim=dim, keepdim=keep, correction=1)
            case(f"{op}_mean.dim", self=F(2, 3, 4), dim=dim, keepdim=keep)
        case(f"{op}.default", self=F())
        case(f"{op}_mean.default", self=F(2, 3))
        case(f"{op}_mean.default", self=F(), unbiased=False)
    for dtype in DTYPES:
        case("logsumexp.default", self=T(dtype, 2, 3), dim=[1])
        case("linalg_vector_norm.default", self=T(dtype, 2, 3))
        case("norm.Scalar", self=T(dtype, 2, 3))
    for shape, dim, keep in itertools.product([(2, 3, 4), ()], dims, [False, True]):
        if dim:
            case("logsumexp.default", self=F(*shape), dim=dim, keepdim=keep)
        if dim is not None:
            case("norm.ScalarOpt_dim", self=F(*shape), p=2, dim=dim, keepdim=keep)
        case("linalg_vector_norm.default", self=F(*shape), ord=1.5, dim=dim, keepdim=keep)
    for dtype in ["f64", "f16", "i32"]:
        case("linalg_vector_norm.default", self=F(2, 3), dtype=D(dtype))
    for op in ["softmax.int", "log_softmax.int", "cumsum.default", "cumprod.default"]:
        for dtype in DTYPES:
            case(op, self=T(dtype, 2, 3), dim=1)
            case(op, self=T(dtype, 2, 3), dim=1, dtype=D("f32"))
        for shape, dim in itertools.product(shapes, [0, 1, -1, 3]):
            case(op, self=F(*shape), dim=dim)
        case(op, self=F(2), dim=0, dtype=D("i32"))
    for op in ["_softmax.default", "_log_softmax.default"]:
        for dtype in DTYPES:
            case(op, self=T(dtype, 2, 3), dim=1, half_to_float=False)
        for shape, dim in itertools.product(shapes, [0, 1, -1, 3]):
            case(op, self=F(*shape), dim=dim, half_to_float=False)


def matmul():
    extents = [(2, 3), (3, 4), (4, 3), (3,), (2,), (), (5, 2, 3), (5, 3, 4), (1, 3, 2), (2, 3, 4), (6, 1, 2, 3), (0, 3)]
    for a, b in itertools.product(extents, extents):
        case("matmul.default", self=F(*a), other=F(*b))
    for a, b in itertools.product([e for e in extents if len(e) in (1, 2, 3)], repeat=2):
        if len(a) + len(b) < 5 or len(a) == len(b) == 3:
            for op, second in [("mm", "mat2"), ("bmm", "mat2"), ("mv", "vec"), ("dot", "tensor"), ("outer", "vec2")]:
                if rng.random() < 0.5 or len(a) == len(b) == (3 if op == "bmm" else 2):
                    case(f"{op}.default", self=F(*a), **{second: F(*b)})
    case("mv.default", self=F(2, 3), vec=F(3))
    case("dot.default", self=F(3), tensor=F(3))
    case("outer.default", self=F(3), vec2=F(2))
    case("outer.default", self=I(3), vec2=F(2))
    for a, b in [("f32", "f32"), ("bf16", "bf16"), ("f64", "f64"), ("i64", "i64"), ("bool", "bool"), ("f32", "f64")]:
        case("mm.default", self=T(a, 2, 3), mat2=T(b, 3, 4))
        case("bmm.default", self=T(a, 2, 2, 3), mat2=T(b, 2, 3, 4))
        case("matmul.default", self=T(a, 2, 3), other=T(b, 3))
        case("mv.default", self=T(a, 2, 3), vec=T(b, 3))
        case("dot.default", self=T(a, 3), tensor=T(b, 3))
        case("linear.default", input=T(a, 2, 3), weight=T(b, 4, 3), bias=T(a, 4))
        case("addmm.default", self=T(a, 4), mat1=T(a, 2, 3), mat2=T(b, 3, 4))
        case("baddbmm.default", self=T(a, 4), batch1=T(a, 2, 2, 3), batch2=T(b, 2, 3, 4))
    for x, w, bias in itertools.product(
        [(2, 3), (3,), (5, 2, 3), (0, 3), (2, 4), ()], [(4, 3), (3,), (1, 4, 3)], [None, (4,), (3,), (1,), (), (2, 4)]
    ):
        if len(w) == 1 and bias == ():
            continue
        args = {} if bias is None else {"bias": F(*bias)}
        case("linear.default", input=F(*x), weight=F(*w), **args)
    case("linear.default", input=F(2, 3), weight=F(4, 3), bias=T("f64", 4))
    for c in [(2, 4), (4,), (1, 4), (2, 1), (), (3,), (1, 2, 4), (5, 4)]:
        case("addmm.default", self=F(*c), mat1=F(2, 3), mat2=F(3, 4))
        case("baddbmm.default", self=F(*c), batch1=F(5, 2, 3), batch2=F(5, 3, 4))
    case("addmm.default", self=T("f64", 4), mat1=F(2, 3), mat2=F(3, 4))
    case("addmm.default", self=F(4), mat1=F(2, 3), mat2=F(4, 4))
    case("baddbmm.default", self=F(5, 2, 4), batch1=F(5, 2, 3), batch2=F(4, 3, 4))
    for equation, operands in [
        ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("bijl,lk->bijk", [(2, 2, 2, 3), (3, 4)]),
        ("...ij,...jk->...ik", [(5, 2, 3), (3, 4)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("ii", [(3, 2)]),
        ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("i,j->ij", [(2,), (3,)]), ("ba", [(2, 3)]),
        ("b...,b->...", [(2, 3, 4), (2,)]), ("ij,kj->ik", [(2, 3), (4, 2)]), ("ij->ik", [(2, 3)]),
        ("ij", [(2, 3, 4)]), ("ij,jk", [(2, 3)]), ("i,ij,j->", [(2,), (2, 3), (3,)]), ("a b , b c -> a c", [(2, 3), (3, 1)]),
        ("ij,jk->ik", [(2, 1), (3, 4)]), ("ij->iji", [(2, 3)]), ("...->...", [(2, 3)]), ("bhwij,bjk->bhik", [(1, 1, 1, 2, 3), (1, 3, 4)]),
        ("...i", [(2, 3)]), ("i...", [(2, 3)]), ("i1,ij", [(2, 3), (2, 3)]), ("...a,...b->...", [(2, 3, 4), (3, 1)]),
    ]:
        case("einsum.default", equation=equation, tensors=[F(*o) for o in operands])
    case("einsum.default", equation="ij,jk->ik", tensors=[F(2, 3), T("f64", 3, 2)])


def random_convolutions():
    for n, count in [(1, 40), (2, 60), (3, 30)]:
        for _ in range(count):
            groups, multiple = rng.choice([1, 1, 1, 2, 3]), rng.choice([1, 2])
            c_in, c_out = groups * rng.choice([1, 2]), groups * multiple
            dtype = rng.choice(["f32", "f32", "f32", "f64", "bf16"])
            spatial = [rng.randrange(1, 9) for _ in range(n)]
            batch = rng.choice([[], [2], [2]])
            pick = lambda values: [rng.choice(values) for _ in range(rng.choice([1, n, n]))]
            geometry = dict(stride=pick([1, 1, 2, 3]), padding=pick([0, 0, 1, 2]), dilation=pick([1, 1, 2]))
            kernel = [rng.choice([1, 2, 3]) for _ in range(n)]
            if rng.random() < 0.08:
                c_in += 1
            bias = rng.choice([None, c_out, c_out, c_out + 1 if rng.random() < 0.2 else c_out])
            bias = {} if bias is None else {"bias": T(dtype, bias)}
            x, w = T(dtype, *batch, c_in, *spatial), T(dtype, c_out, max(c_in // groups, 1), *kernel)
            case(f"conv{n}d.default", input=x, weight=w, groups=groups, **bias, **geometry)
            same = dict(stride=geometry["stride"], dilation=geometry["dilation"], padding=rng.choice(["same", "valid"]))
            case(f"conv{n}d.padding", input=x, weight=w, groups=groups, **bias, **same)
            all_args = dict(bias=None, transposed=False, output_padding=[0] * n, groups=groups) | bias
            case("convolution.default", input=x, weight=w, **all_args, **geometry)
            x = T(dtype, *batch, c_out, *spatial)
            w, extra = T(dtype, c_out, 2, *kernel), pick([0, 0, 1, 2])
            bias = {"bias": T(dtype, 2 * groups)} if bias else {}
            name = "conv_transpose1d.default" if n == 1 else f"conv_transpose{n}d.input"
            case(name, input=x, weight=w, groups=groups, output_padding=extra, **bias, **geometry)
            all_args = dict(bias=None, transposed=True, output_padding=extra, groups=groups) | bias
            case("convolution.default", input=x, weight=w, **all_args, **geometry)
    case("conv2d.default", input=F(1, 2, 4, 4), weight=F(2, 2, 3, 3), stride=[0])
    case("conv2d.default", input=F(1, 2, 4, 4), weight=F(2, 2, 3, 3), padding=[-1])
    case("conv2d.default", input=F(1, 2, 4, 4), weight=F(3, 1, 3, 3), groups=2)
    case("conv2d.default", input=F(1, 2, 4, 4), weight=T("f64", 2, 2, 3, 3))
    case("conv2d.default", input=F(1, 2, 4, 4), weight=F(2, 2, 3))
    case("conv2d.default", input=F(2, 4), weight=F(2, 2, 3, 3))
    case("conv2d.default", input=F(0, 2, 4, 4), weight=F(2, 2, 3, 3))
    case("conv1d.default", input=F(1, 2, 4, 4), weight=F(2, 2, 3, 3))
    case("conv2d.padding", input=F(1, 2, 4, 4), weight=F(2, 2, 3, 3), padding="full")


def random_pools():
    for n, count in [(1, 40), (2, 60), (3, 30)]:
        for _ in range(count):
            spatial = [rng.randrange(1, 10) for _ in range(n)]
            batch = rng.choice([[], [2], [2], [0]])
            dtype = rng.choice(["f32", "f32", "f64", "bf16"])
            x = T(dtype, *batch, rng.choice([1, 3]), *spatial)
            pick = lambda values: [rng.choice(values) for _ in range(rng.choice([1, n]))]
            args = dict(kernel_size=pick([1, 2, 3, 4]), padding=pick([0, 0, 1, 2]), ceil_mode=rng.random() < 0.5)
            if rng.random() < 0.7:
                args["stride"] = pick([1, 2, 3, 5])
            case(f"avg_pool{n}d.default", self=x, **args)
            args["dilation"] = pick([1, 1, 2])
            case(f"max_pool{n}d.default", self=x, **args)
            if n > 1:
                case(f"max_pool{n}d_with_indices.default", self=x, **args)
            size = [rng.randrange(0, 5) for _ in range(n)]
            case(f"adaptive_avg_pool{n}d.default", self=x, output_size=size)
            case(f"adaptive_max_pool{n}d.default", self=x, output_size=size)
            if n > 1:
                case(f"_adaptive_avg_pool{n}d.default", self=x, output_size=size)
    case("max_pool2d.default", self=F(2, 3), kernel_size=[1, 1])
    case("max_pool2d.default", self=F(1, 0, 4, 4), kernel_size=[2, 2])
    case("max_pool2d.default", self=F(1, 2, 4, 4), kernel_size=[2, 2], stride=[0, 1])
    case("avg_pool2d.default", self=F(1, 2, 4, 4), kernel_size=[2, 2], divisor_override=3)
    case("avg_pool2d.default", self=F(1, 2, 4, 4), kernel_size=[2, 2], divisor_override=0)
    case("adaptive_avg_pool2d.default", self=F(1, 2, 4, 4), output_size=[2])
    case("adaptive_avg_pool2d.default", self=F(1, 2, 4, 4), output_size=[-1, 2])


def norm():
    for dtype, shape in itertools.product(["f32", "bf16", "f64", "i64"], [(2, 4), (2, 4, 3), (2, 4, 3, 3), (4,)]):
        c = T(dtype, 4)
        x = T(dtype, *shape)
        wrong = F(3)
        for weight, training in itertools.product([None, c, F(4), wrong], [True, False]):
            statistics = dict(running_mean=weight or c, running_var=weight or c)
            affine = dict(weight=weight, bias=weight)
            case("batch_norm.default", input=x, **affine, **statistics, training=training, momentum=0.1, eps=1e-5, cudnn_enabled=True)
            case("batch_norm.default", input=x, **affine, running_mean=None, running_var=None, training=training, momentum=0.1, eps=1e-5, cudnn_enabled=True)
            if weight is not wrong:
                case("_native_batch_norm_legit_functional.default", input=x, **affine, **statistics, training=training, momentum=0.1, eps=1e-5)
            if training and weight is not wrong:
                case("_native_batch_norm_legit.no_stats", input=x, **affine, training=True, momentum=0.1, eps=1e-5)
            case("instance_norm.default", input=x, **affine, **statistics, use_input_stats=training, momentum=0.1, eps=1e-5, cudnn_enabled=True)
            case("instance_norm.default", input=x, **affine, running_mean=None, running_var=None, use_input_stats=training, momentum=0.1, eps=1e-5, cudnn_enabled=True)
            for groups in [1, 2, 3]:
                case("group_norm.default", input=x, num_groups=groups, **affine)
        for groups in [1, 2, 3]:
            spatial = 1
            for d in shape[2:]:
                spatial *= d
            n = shape[0]
            case("native_group_norm.default", input=x, weight=None, bias=None, N=n, C=4, HxW=spatial, group=groups, eps=1e-5)
            case("native_group_norm.default", input=x, weight=c, bias=c, N=n, C=4, HxW=spatial + 1, group=groups, eps=1e-5)
        for normalized in [[4], [3], [4, 3], [3, 3], list(shape), []]:
            for weight in [None, T(dtype, *normalized), F(*normalized), F(5)]:
                case("layer_norm.default", input=x, normalized_shape=normalized, weight=weight, bias=weight)
                case("native_layer_norm.default", input=x, normalized_shape=normalized, weight=weight, bias=weight, eps=1e-5)
                case("rms_norm.default", input=x, normalized_shape=normalized, weight=weight)


def view():
    for shape, size in itertools.product(
        [(2, 3, 4), (), (0, 3), (6,), (1, 6)], [[24], [-1], [2, -1], [4, 6], [-1, 5], [-1, -1], [], [0, -1], [3, 2], [-2, 3], [1]]
    ):
        case("view.default", self=F(*shape), size=size)
        case("_unsafe_view.default", self=F(*shape), size=size)
        case("reshape.default", self=F(*shape), shape=size)
    for shape, a, b in itertools.product([(2, 3, 4), (), (5,)], [0, 1, -1, -2, 3], [0, 1, -1, -2, 3]):
        case("flatten.using_ints", self=F(*shape), start_dim=a, end_dim=b)
        case("transpose.int", self=F(*shape), dim0=a, dim1=b)
    for dim, sizes in itertools.product([0, 1, -1, 2], [[2, 3], [-1, 2], [3, -1], [6], [], [-1, -1]]):
        case("unflatten.int", self=F(4, 6), dim=dim, sizes=sizes)
    for dims in [[0, 1, 2], [2, 0, 1], [-1, 0, 1], [0, 1], [0, 0, 1], [0, 1, 3]]:
        case("permute.default", self=F(2, 3, 4), dims=dims)
        case("flip.default", self=F(2, 3, 4), dims=dims)
    case("permute.default", self=F(), dims=[])
    case("flip.default", self=F(2), dims=[])
    for shape in [(), (2,), (2, 3), (2, 3, 4), (1, 3, 1), (1,)]:
        x = F(*shape)
        for op in ["t", "numpy_T", "squeeze", "alias", "detach", "clone", "contiguous", "lift_fresh_copy", "tril", "triu"]:
            case(f"{op}.default", self=x)
        for dim in [0, -1, 1, 3, -3]:
            case("squeeze.dim", self=x, dim=dim)
            case("squeeze.dims", self=x, dim=[dim, 0])
            case("unsqueeze.default", self=x, dim=dim)
            case("unbind.int", self=x, dim=dim)
            case("select.int", self=x, dim=dim, index=0)
            case("select.int", self=x, dim=dim, index=-2)
            for start, end, step in [(0, None, 1), (1, -1, 1), (-2, 100, 1), (3, 1, 1), (None, 9223372036854775807, 2), (-9, 2, 3), (0, 2, 0)]:
                case("slice.Tensor", self=x, dim=dim, start=start, end=end, step=step)
            for start, length in [(0, 1), (-1, 1), (1, 1), (0, 2), (1, 2), (0, 0), (2, -1)]:
                case("narrow.default", self=x, dim=dim, start=start, length=length)
            for size, step in [(1, 1), (2, 1), (2, 2), (3, 1), (0, 1), (1, 0)]:
                case("unfold.default", self=x, dimension=dim, size=size, step=step)
            for size in [1, 2, 3, 5, 0, -1]:
                case("split.Tensor", self=x, split_size=size, dim=dim)
                case("chunk.default", self=x, chunks=size, dim=dim)
        for size in [[2, 3], [-1, 3], [3], [4, 2, 3], [], [2, -1, 4], [0, 2, 3], [-1, 2, 3], [5, 1, 3, 7]]:
            case("expand.default", self=x, size=size)
            case("broadcast_to.default", self=x, size=size)
            case("repeat.default", self=x, repeats=size)
            if all(s >= 0 for s in size):
                case("expand_as.default", self=x, other=I(*size))
    case("split.Tensor", self=F(0, 2), split_size=2)
    case("chunk.default", self=F(0, 2), chunks=2)
    case("chunk.default", self=F(5), chunks=4)
    for sizes in [[1, 2], [3], [1, 1], [0, 3], [4, -1]]:
        case("split_with_sizes.default", self=F(3, 2), split_sizes=sizes)
        case("split_with_sizes.default", self=F(2, 3), split_sizes=sizes, dim=-1)
    for size, stride, offset in [([2, 2], [2, 1], None), ([2, 3], [1, 1], 2), ([4], [3], 0), ([2], [1, 1], 0), ([], [], 3), ([3], [0], 5), ([0], [9], 0), ([2], [-1], 2), ([-1], [1], 0)]:
        case("as_strided.default", self=F(6), size=size, stride=stride, storage_offset=offset)
    lists = [
        [F(2, 3), F(2, 3)], [F(2, 3), F(4, 3)], [F(2, 3), F(2, 4)], [F(0), F(2, 3)], [F(0)], [F()], [F(2), F()],
        [F(2, 3), I(2, 3)], [I(2), T("f16", 2)], [T("bool", 2), T("u8", 2), T("i8", 2)], [F(1, 3), F(2, 1)], [F(2, 3), F(3)], [],
    ]
    for tensors, dim in itertools.product(lists, [0, 1, -1, 2]):
        case("cat.default", tensors=tensors, dim=dim)
        case("stack.default", tensors=tensors, dim=dim)
    case("stack.default", tensors=[F(), I()])
    for tensors in lists:
        case("broadcast_tensors.default", tensors=tensors)
    for shifts, dims in [([1], [0]), ([1, 2], [0, 1]), ([1], []), ([1, 2], [0]), ([1], [2]), ([1, 2], []), ([1], [-1]), ([], [])]:
        case("roll.default", self=F(2, 3), shifts=shifts, dims=dims)
    for shape, pad in itertools.product(
        [(3,), (2, 3), (2, 3, 4), (1, 2, 3, 4), (1, 2, 3, 4, 5), ()],
        [[1, 1], [1, 0, 2, 1], [0, 1, 0, 1, 0, 1], [1], [-1, 0], [-4, 0], [], [2, 3], [4, 4, 1, 1]],
    ):
        case("constant_pad_nd.default", self=F(*shape), pad=pad)
        for mode in ["constant", "reflect", "replicate", "circular"]:
            case("pad.default", self=F(*shape), pad=pad, mode=mode)
    case("pad.default", self=F(2, 3), pad=[1, 1], value=1.5)
    case("pad.default", self=F(2, 3), pad=[1, 1], mode="reflect", value=1.5)
    case("pad.default", self=F(2, 3), pad=[1, 1], mode="other")


def index():
    for indices in [
        [I(3)], [None, I(3)], [I(3), I(3)], [I(2, 1), I(3)], [I(), None, I(2)], [None, I(2), I(2)], [I(2), None, I(3)],
        [I(2, 1), None, I(3)], [I(1), I(1), I(1), I(1)], [F(2)], [T("i32", 2)], [T("i16", 2)], [None, None, I(0)],
    ]:
        case("index.Tensor", self=F(2, 3, 4), indices=indices)
    for shape, dim, idx in itertools.product([(2, 3), (4,), ()], [0, 1, -1], [I(3), I(), I(1), I(2, 2), T("i32", 2), F(2)]):
        case("index_select.default", self=F(*shape), dim=dim, index=idx)
    for shape, dim, idx in itertools.product(
        [(2, 3), (4,), ()], [0, 1, -1], [I(2, 3), I(1, 3), I(2, 5), I(5, 2), I(5), I(), T("i32", 2, 3), F(2, 3)]
    ):
        case("gather.default", self=F(*shape), dim=dim, index=idx)
        case("scatter.value", self=F(*shape), dim=dim, index=idx, value=1.0)
        for src in [F(2, 3), F(5, 5), F(1, 3), F(5), T("f64", 2, 3)]:
            case("scatter.src", self=F(*shape), dim=dim, index=idx, src=src)
    for weight, indices in itertools.product([F(4, 3), F(4), T("f16", 4, 2)], [I(2), I(2, 3), I(), T("i32", 2), F(2), T("bool", 2)]):
        case("embedding.default", weight=weight, indices=indices)
    case("embedding.default", weight=F(4, 3), indices=I(2), padding_idx=1)


def create():
    for size in [[2, 3], [], [0], [-1]]:
        for op in ["zeros", "ones", "randn", "rand"]:
            case(f"{op}.default", size=size)
            for dtype in ["f16", "i64", "bool"] if 0 not in size else ["f16"]:
                case(f"{op}.default", size=size, dtype=D(dtype))
        for value in [1, 1.5, True]:
            case("full.default", size=size, fill_value=value)
            case("full.default", size=size, fill_value=value, dtype=D("f16"))
    for dtype in ["f32", "i8", "bool"]:
        for other in [None, "f16", "i64"]:
            args = {} if other is None else {"dtype": D(other)}
            case("full_like.default", self=T(dtype, 2), fill_value=1.5, **args)
            for op in ["zeros_like", "ones_like", "randn_like", "rand_like"]:
                case(f"{op}.default", self=T(dtype, 2), **args)
            case("scalar_tensor.default", s=1, **args)
            case("scalar_tensor.default", s=1.5, **args)
    for end in [5, 0, -1, 2.5, 5.0]:
        for dtype in [None, "f32", "i32", "bool"]:
            args = {} if dtype is None else {"dtype": D(dtype)}
            case("arange.default", end=end, **args)
            case("arange.start", start=1, end=end, **args)
            case("arange.start", start=-1.5, end=end, **args)
            for step in [1, 2, -1, 0.3, 0]:
                case("arange.start_step", start=0, end=end, step=step, **args)
    for args in [{}, {"size": [2, 3]}, {"size": [3, 2]}, {"dtype": D("f32")}, {"dtype": D("f64")}, {"size": [2, 3], "dtype": D("f32")}]:
        case("_assert_tensor_metadata.default", a=F(2, 3), **args)


def loss():
    elementwise = ["kl_div", "smooth_l1_loss", "huber_loss", "mse_loss", "l1_loss"]
    for op, reduction in itertools.product(elementwise, [0, 1, 2]):
        for a, b in [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), (2,)), ((), ())]:
            case(f"{op}.default", self=F(*a), target=F(*b), reduction=reduction)
        for a, b in [("f32", "f64"), ("i64", "i64"), ("bf16", "f32"), ("i64", "f32"), ("f32", "i64")]:
            case(f"{op}.default", self=T(a, 2), target=T(b, 2), reduction=reduction)
    case("kl_div.default", self=F(2), target=F(2), log_target=True)
    for op in ["binary_cross_entropy", "binary_cross_entropy_with_logits"]:
        for reduction, (a, b) in itertools.product([0, 1, 2], [((2, 3), (2, 3)), ((2, 3), (3,)), ((), ())]):
            case(f"{op}.default", self=F(*a), target=F(*b), reduction=reduction)
            case(f"{op}.default", self=F(*a), target=F(*b), weight=F(3), reduction=reduction)
        for a, b in [("f32", "f64"), ("i64", "i64"), ("bf16", "bf16"), ("f32", "i64")]:
            case(f"{op}.default", self=T(a, 2), target=T(b, 2), reduction=0)
    case("binary_cross_entropy_with_logits.default", self=F(2, 3), target=F(2, 3), pos_weight=F(3), reduction=0)
    targets = [I(2), I(), I(2, 4), F(2, 3), F(3), T("f64", 2, 3), T("i32", 2), I(2, 3), T("u8", 2)]
    for x, target, reduction in itertools.product([F(2, 3), F(3), F(2, 3, 4), I(2, 3)], targets, [0, 1]):
        case("cross_entropy_loss.default", self=x, target=target, reduction=reduction)
        if target.dtype != "f64":
            case("nll_loss.default", self=x, target=target, reduction=reduction)
    for weight in [F(3), F(2), T("f64", 3)]:
        case("cross_entropy_loss.default", self=F(2, 3), target=I(2), weight=weight, label_smoothing=0.1)
        case("nll_loss.default", self=F(2, 3), target=I(2), weight=weight)
    for a, p, n, reduction in itertools.product([F(2, 3), F(3)], [F(2, 3), F(1, 3)], [F(2, 3), T("f64", 2, 3)], [0, 1]):
        case("triplet_margin_loss.default", anchor=a, positive=p, negative=n, reduction=reduction)
    case("triplet_margin_loss.default", anchor=F(2, 3), positive=F(2, 4), negative=F(2, 3))
    for a, b, dim in itertools.product([F(2, 3), I(2, 3)], [F(2, 3), F(3), F(2), T("f64", 2, 1), I(2, 3)], [0, 1, -1, 2]):
        case("cosine_similarity.default", x1=a, x2=b, dim=dim)


def rnn():
    def params(gates, inp, hid, layers, directions, biases, proj=None, dtype="f32"):
        out = []
        width = proj or hid
        for layer in range(layers):
            for _ in range(directions):
                out.append(T(dtype, gates * hid, inp if layer == 0 else width * directions))
                out.append(T(dtype, gates * hid, width))
                if biases:
                    out += [T(dtype, gates * hid)] * 2
                if proj:
                    out.append(T(dtype, proj, hid))
        return out

    for layers, two_way, biases, first in itertools.product([1, 2], [False, True], [True, False], [True, False]):
        directions = 2 if two_way else 1
        x = F(5, 2, 3) if not first else F(2, 5, 3)
        common = dict(input=x, has_biases=biases, num_layers=layers, dropout=0.0, train=False, bidirectional=two_way, batch_first=first)
        h, c = F(layers * directions, 2, 4), F(layers * directions, 2, 4)
        case("lstm.input", hx=[h, c], params=params(4, 3, 4, layers, directions, biases), **common)
        case("lstm.input", hx=[F(layers * directions, 2, 2), c], params=params(4, 3, 4, layers, directions, biases, proj=2), **common)
        case("gru.input", hx=h, params=params(3, 3, 4, layers, directions, biases), **common)
        case("rnn_tanh.input", hx=h, params=params(1, 3, 4, layers, directions, biases), **common)
        case("rnn_relu.input", hx=h, params=params(1, 3, 4, layers, directions, biases), **common)
    common = dict(has_biases=True, num_layers=1, dropout=0.0, train=False, bidirectional=False, batch_first=True)
    case("gru.input", input=F(2, 5, 3), hx=F(1, 3, 4), params=params(3, 3, 4, 1, 1, True), **common)
    case("gru.input", input=F(2, 5, 3), hx=F(1, 2, 4), params=params(3, 2, 4, 1, 1, True), **common)
    case("gru.input", input=F(2, 5, 3), hx=F(1, 2, 4), params=params(3, 3, 4, 1, 1, True, dtype="f64"), **common)
    case("lstm.input", input=F(2, 5, 3), hx=[F(1, 2, 4)], params=params(4, 3, 4, 1, 1, True), **common)


def attention():
    op = "scaled_dot_product_attention.default"
    for q, k, v in [
        ((2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 8)), ((2, 4, 5, 8), (2, 4, 6, 8), (2, 4, 6, 3)), ((5, 8), (6, 8), (6, 8)),
        ((2, 5, 8), (2, 6, 8), (2, 6, 8)), ((2, 4, 5, 8), (2, 4, 6, 7), (2, 4, 6, 8)),
        ((2, 4, 5, 8), (1, 4, 6, 8), (2, 1, 6, 8)), ((8,), (8,), (8,)), ((2, 4, 5, 8), (2, 2, 6, 8), (2, 2, 6, 8)),
    ]:
        args = dict(query=F(*q), key=F(*k), value=F(*v))
        case(op, **args)
        case(op, **args, is_causal=True)
        case(op, **args, scale=0.5)
        case(op, **args, enable_gqa=True)
        for mask in [T("bool", 5, 6), F(5, 6), F(2, 1, 5, 6), F(5, 5), T("f64", 5, 6), I(5, 6), F(2, 4, 5, 6)]:
            case(op, **args, attn_mask=mask)
    x = F(2, 2, 4, 8)
    case(op, query=x, key=x, value=x, attn_mask=F(4, 4), is_causal=True)
    case(op, query=x, key=x, value=T("f64", 2, 2, 4, 8))
    case(op, query=T("bf16", 2, 2, 4, 8), key=T("bf16", 2, 2, 4, 8), value=T("bf16", 2, 2, 4, 8))


def index_copy():
    """Last, so that the samples of the other operators stay what they are."""
    op = "index_copy.default"
    for shape, dim, idx, source in itertools.product(
        [(2, 3), (4,), ()], [0, 1, -1], [I(3), I(), I(1), I(0)], [F(3, 3), F(2, 3), F(2, 1), F(0, 3), F(3), F(1), F(), F(3, 2)]
    ):
        case(op, self=F(*shape), dim=dim, index=idx, source=source)
    for dtype in ["bool", "u8", "i64", "f16"]:
        case(op, self=T(dtype, 2, 3, 4), dim=1, index=I(2), source=T(dtype, 2, 2, 4))
    case(op, self=F(2, 3), dim=0, index=I(2), source=T("f64", 2, 3))
    case(op, self=F(2, 3), dim=0, index=I(2, 1), source=F(2, 3))
    case(op, self=F(2, 3), dim=0, index=F(2), source=F(2, 3))


families = [pointwise, reduce, matmul, random_convolutions, random_pools, norm, view, index, create, loss, rnn, attention, index_copy]
for family in families:
    family()
kept = []
for group in lines.values():
    kept += group if "--all" in sys.argv or len(group) <= SAMPLE else rng.sample(group, SAMPLE)
print("[" + "\n,".join(kept) + "\n]")
