"""Complex numbers as pairs of real ones.

akg's graphs have no complex types. Each complex value of a program becomes two: its real and its imaginary part. Complex
parameters, buffers and constants become real tensors with a last dimension of two, which is how they lie in memory.
"""

import operator
from typing import Any, NamedTuple

import torch
from torch.export.graph_signature import InputKind
from torch.utils._pytree import tree_any, tree_map

from akg_worker.errors import CallError, line_of

aten = torch.ops.aten


class Pair(NamedTuple):
    """The real and the imaginary part of a value."""

    re: Any
    im: Any


def is_pair(value):
    return isinstance(value, Pair)


def each(x, change):
    """A real value, or both parts of a pair, changed alike."""
    return Pair(*map(change, x)) if is_pair(x) else change(x)


def real_part_of(x):
    """The real part of a value that may be real."""
    return x.re if is_pair(x) else x


def is_complex(value):
    """Whether a node, or a part of its value, is complex; also a Python number."""
    if isinstance(value, torch.fx.Node):
        value = value.meta.get("val")
    if isinstance(value, (list, tuple)):
        return any(is_complex(part) for part in value)
    return isinstance(value, complex) or isinstance(value, torch.Tensor) and value.is_complex()


def concerns(node):
    """Whether a call reads or makes a complex value."""
    return is_complex(node) or tree_any(is_complex, (node.args, dict(node.kwargs)))


def has_rule(node):
    """Whether a call that concerns complex values has a rule here."""
    return node.target is operator.getitem or rule_of(node.target) is not None


def with_pairs(program, path):
    """The program without complex values. `path` is the user's file, whose lines errors name."""
    if any(is_complex(node) for node in program.graph.nodes):
        Rewriter(program).rewrite(path)
    return program


class Rewriter:
    def __init__(self, program):
        self._program = program
        self._graph = program.graph
        self._pairs = {}  # complex node -> its pair, or a list of pairs
        self._node = None  # the call that is replaced

    def rewrite(self, path):
        nodes = list(self._graph.nodes)
        specs = iter(self._program.graph_signature.input_specs)
        first = next(node for node in nodes if node.op != "placeholder")
        for node in nodes:
            try:
                self._replace(node, specs, first)
            except CallError as error:
                if place := line_of(node.meta.get("stack_trace"), path):
                    error.context.setdefault("at", place)
                raise
        for node in reversed(nodes):
            if node in self._pairs and node.op != "placeholder":
                self._graph.erase_node(node)

    def _replace(self, node, specs, first):
        if node.op == "placeholder":
            self._placeholder(node, next(specs), first)
        elif node.op == "call_function" and concerns(node):
            self._call(node)
        elif node.op == "output" and tree_any(is_complex, node.args):
            raise CallError(
                "unsupported", "a result of the module is complex; return `torch.view_as_real` of it, a pair of real numbers"
            )

    def _placeholder(self, node, spec, first):
        if not is_complex(node):
            return
        if spec.kind == InputKind.CONSTANT_TENSOR:
            constants = self._program.constants
            constants[spec.target] = torch.view_as_real(constants[spec.target])
        elif spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER):
            raise CallError(
                "unsupported",
                f"`{node.name}` is complex; give the module `torch.view_as_real` of it, and make it complex there by "
                "`torch.view_as_complex`",
            )
        node.meta["val"] = torch.view_as_real(node.meta["val"])
        self._node = first
        self._pairs[node] = Pair(self.select(node, 0), self.select(node, 1))

    def _call(self, node):
        self._node = node
        read = lambda value: self._pairs.get(value, value) if isinstance(value, torch.fx.Node) else value
        args, kwargs = (tree_map(read, part) for part in (node.args, dict(node.kwargs)))
        if node.target is operator.getitem:
            result = args[0][args[1]]
        else:
            rule = rule_of(node.target)
            if rule is None:
                raise CallError("unsupported", f"{node.target} of complex numbers is not supported")
            result = rule(self, node.target, *args, **kwargs)
        self._pairs[node] = result
        if not is_complex(node):
            node.replace_all_uses_with(result)

    def emit(self, op, *args, **kwargs):
        """Adds a call before the one that is replaced."""
        value = lambda part: part.meta["val"] if isinstance(part, torch.fx.Node) else part
        with self._graph.inserting_before(self._node):
            node = self._graph.call_function(op, args, kwargs)
        node.meta["val"] = op(*tree_map(value, args), **tree_map(value, kwargs))
        node.meta["stack_trace"] = self._node.meta.get("stack_trace")
        return node

    def constant(self, name, make, beside):
        """The tensor that `make` makes, in the type of the value `beside`, under a name that tells it from others."""
        like, module = beside.meta["val"], self._program.graph_module
        name = f"{name}_{str(like.dtype).removeprefix('torch.')}"
        if not hasattr(module, name):
            module.register_buffer(name, make().to(like.dtype).contiguous(), persistent=False)
        with self._graph.inserting_before(self._node):
            node = self._graph.get_attr(name)
        node.meta["val"] = like.new_empty(getattr(module, name).shape)
        return node

    def result(self):
        """The value of the call that is replaced."""
        return self._node.meta["val"]

    def select(self, x, index):
        return self.emit(aten.select.int, x, -1, index)

    def shape(self, x):
        return list(x.meta["val"].shape)

    def mul(self, x, y):
        return self.emit(aten.mul.Tensor, x, y)

    def add(self, x, y):
        return self.emit(aten.add.Tensor, x, y)

    def sub(self, x, y):
        return self.emit(aten.sub.Tensor, x, y)

    def neg(self, x):
        return self.emit(aten.neg.default, x)

    def pair(self, x):
        """A value as a pair. The imaginary part of a real tensor is zero."""
        if is_pair(x):
            return x
        if isinstance(x, torch.fx.Node):
            return Pair(x, self.emit(aten.zeros_like.default, x))
        return Pair(x.real, x.imag)


RULES = {}

# The largest power that is written out as products.
POWERS = 16


def rule(*names):
    def register(function):
        RULES.update(dict.fromkeys(names, function))
        return function

    return register


def rule_of(target):
    return RULES.get(target._schema.name.removeprefix("aten::")) if isinstance(target, torch._ops.OpOverload) else None


@rule(
    *("view", "reshape", "_unsafe_view", "permute", "transpose", "t", "unsqueeze", "squeeze", "slice", "select", "expand"),
    *("clone", "alias", "detach", "contiguous", "cat", "stack", "split", "split_with_sizes", "unbind", "index_select", "index"),
    *("flip", "roll", "constant_pad_nd", "repeat", "sum", "mean", "neg", "lift_fresh_copy", "where", "gather", "cumsum"),
    "index_copy",
)
def part_by_part(e, op, *args, **kwargs):
    """What does the same to both parts."""
    # Real tensors that take part as complex ones do.
    name = op.overloadpacket.__name__
    operands = args[0] if name in ("cat", "stack") else args[1:] if name == "where" else args[:1]
    if name == "index_copy":
        operands = args[::3]  # not the dimension and the index between them
    reals = [value for value in operands if isinstance(value, torch.fx.Node)]

    def of(number):
        def part(value):
            if isinstance(value, torch.dtype):
                return value.to_real()
            is_operand = is_pair(value) or isinstance(value, complex) or value in reals
            return e.pair(value)[number] if is_operand else value

        return e.emit(op, *tree_map(part, args, is_leaf=is_pair), **tree_map(part, kwargs, is_leaf=is_pair))

    re, im = of(0), of(1)
    several = isinstance(re.meta["val"], (list, tuple))
    if not several:
        return Pair(re, im)
    parts = lambda node: [e.emit(operator.getitem, node, i) for i in range(len(node.meta["val"]))]
    return [Pair(*both) for both in zip(parts(re), parts(im))]


@rule("add", "sub")
def sums(e, op, x, y, alpha=1):
    apply = e.add if op.overloadpacket is aten.add else e.sub
    if alpha != 1:
        y = multiplied(e, op, y, alpha)
    if is_pair(x) and is_pair(y):
        return Pair(apply(x.re, y.re), apply(x.im, y.im))
    if is_pair(x) and not isinstance(y, complex):
        return spread(e, Pair(apply(x.re, y), x.im))
    if is_pair(x):
        return Pair(apply(x.re, y.real), apply(x.im, y.imag))
    if isinstance(y, complex):
        return Pair(apply(x, y.real), e.emit(aten.full_like.default, x, y.imag if apply == e.add else -y.imag))
    return spread(e, Pair(apply(x, y.re), y.im if apply == e.add else e.neg(y.im)))


def spread(e, pair):
    """A pair whose parts have one shape."""
    shape = e.shape(pair.re)
    return pair if e.shape(pair.im) == shape else Pair(pair.re, e.emit(aten.expand.default, pair.im, shape))


@rule("mul")
def multiplied(e, op, x, y):
    if not (is_pair(x) or isinstance(x, complex)):
        x, y = y, x
    x = e.pair(x)
    if not (is_pair(y) or isinstance(y, complex)):
        return Pair(e.mul(x.re, y), e.mul(x.im, y))
    y = e.pair(y)
    if not isinstance(x.re, torch.fx.Node):
        x, y = y, x
    return Pair(e.sub(e.mul(x.re, y.re), e.mul(x.im, y.im)), e.add(e.mul(x.re, y.im), e.mul(x.im, y.re)))


@rule("mm", "bmm", "matmul")
def product(e, op, x, y):
    if not is_pair(y):
        return Pair(e.emit(op, x.re, y), e.emit(op, x.im, y))
    if not is_pair(x):
        return Pair(e.emit(op, x, y.re), e.emit(op, x, y.im))
    re = e.sub(e.emit(op, x.re, y.re), e.emit(op, x.im, y.im))
    return Pair(re, e.add(e.emit(op, x.re, y.im), e.emit(op, x.im, y.re)))


@rule("div")
def divided(e, op, x, y):
    if is_pair(y):
        return multiplied(e, op, x, reciprocal(e, op, y))
    if isinstance(y, complex):
        return multiplied(e, op, x, 1 / y)
    return Pair(e.emit(aten.div.Tensor, x.re, y), e.emit(aten.div.Tensor, x.im, y))


@rule("reciprocal")
def reciprocal(e, op, x):
    size = squared(e, x)
    return Pair(e.emit(aten.div.Tensor, x.re, size), e.neg(e.emit(aten.div.Tensor, x.im, size)))


def squared(e, x):
    return e.add(e.mul(x.re, x.re), e.mul(x.im, x.im))


@rule("abs")
def magnitude(e, op, x):
    return e.emit(aten.sqrt.default, squared(e, x))


@rule("angle")
def angle(e, op, x):
    return e.emit(aten.atan2.default, x.im, x.re)


@rule("_conj", "_conj_physical", "conj_physical")
def conjugate(e, op, x):
    return Pair(x.re, e.neg(x.im))


@rule("resolve_conj", "resolve_neg")
def itself(e, op, x):
    return x


@rule("pow")
def power(e, op, x, exponent):
    if not (is_pair(x) and isinstance(exponent, int) and 1 <= exponent <= POWERS):
        raise CallError("unsupported", f"complex numbers have integer powers from 1 to {POWERS} alone; there is none of {exponent}")
    result = x
    for _ in range(exponent - 1):
        result = multiplied(e, op, result, x)
    return result


@rule("log")
def logarithm(e, op, x):
    return Pair(e.emit(aten.log.default, magnitude(e, op, x)), angle(e, op, x))


@rule("sqrt")
def root(e, op, x):
    return polar(e, op, e.emit(aten.sqrt.default, magnitude(e, op, x)), e.mul(angle(e, op, x), 0.5))


@rule("exp")
def exponential(e, op, x):
    return polar(e, op, e.emit(aten.exp.default, x.re), x.im)


@rule("polar")
def polar(e, op, size, angle):
    return Pair(*(e.mul(size, e.emit(of, angle)) for of in (aten.cos.default, aten.sin.default)))


@rule("complex")
def joined(e, op, re, im):
    return Pair(re, im)


@rule("view_as_complex")
def viewed(e, op, x):
    return Pair(e.select(x, 0), e.select(x, 1))


@rule("view_as_real")
def real_view(e, op, x):
    return e.emit(aten.stack.default, list(x), -1)


@rule("copy")
def copied(e, op, x, source, **kwargs):
    if not e.result().is_complex():
        return e.emit(op, x, e.pair(source).re)
    return Pair(*(e.emit(op, to, part) for to, part in zip(e.pair(x), e.pair(source))))


@rule("real")
def real_part(e, op, x):
    return x.re


@rule("imag")
def imaginary_part(e, op, x):
    return x.im


@rule("full", "zeros", "ones", "empty", "new_full", "new_zeros", "new_ones", "new_empty")
@rule("full_like", "zeros_like", "ones_like", "empty_like", "scalar_tensor")
def created(e, op, *args, **kwargs):
    """A tensor of one number, which stands behind the shape, or behind the tensor whose shape it has."""
    result = e.result()
    name = op.overloadpacket.__name__
    number = next((arg for arg in reversed(args) if isinstance(arg, (bool, int, float, complex))), 0) if "full" in name else 0
    number = args[0] if name == "scalar_tensor" else 1 if "ones" in name else number
    if not result.is_complex():
        return e.emit(aten.full.default, list(result.shape), number, dtype=result.dtype)
    return Pair(*(e.emit(aten.full.default, list(result.shape), part, dtype=result.dtype.to_real()) for part in e.pair(number)))


@rule("_to_copy")
def converted(e, op, x, dtype=None, **kwargs):
    if dtype is None:
        return x
    to = lambda part: e.emit(op, part, dtype=dtype.to_real())
    return each(e.pair(x), to) if dtype.is_complex else to(x.re)


# Fourier transforms, as products with matrices of roots of one.

# The longest side of a matrix, and that for a length which has no divisor.
SIDE = 256
PRIME = 1024


@rule("_fft_c2c")
def transform(e, op, x, dims, normalization, forward):
    for dim in dims:
        x = along(e, x, dim, lambda x: dft(e, x, forward))
    return normalized(e, x, dims, normalization, count(e, x.re, dims))


@rule("_fft_r2c")
def transform_of_real(e, op, x, dims, normalization, onesided):
    elements = count(e, x, dims)
    *others, last = dims
    length = e.shape(x)[last]

    def first(x):
        x = dft(e, x, True)
        return each(x, lambda part: e.emit(aten.slice.Tensor, part, -1, 0, length // 2 + 1)) if onesided else x

    x = along(e, x, last, first)
    for dim in others:
        x = along(e, x, dim, lambda x: dft(e, x, True))
    return normalized(e, x, dims, normalization, elements)


@rule("_fft_c2r")
def transform_to_real(e, op, x, dims, normalization, length):
    *others, last = dims
    for dim in others:
        x = along(e, x, dim, lambda x: dft(e, x, False))
    elements = count(e, x.re, others) * length
    x = along(e, x, last, lambda x: real_signal(e, x, length))
    return normalized(e, x, dims, normalization, elements)


def count(e, x, dims):
    """The elements along dimensions."""
    elements = 1
    for dim in dims:
        elements *= e.shape(x)[dim]
    if not isinstance(elements, int):
        raise CallError("unsupported", "a Fourier transform along a dimension of an open size is not supported")
    return elements


def normalized(e, x, dims, normalization, elements):
    scale = {0: None, 1: elements**-0.5, 2: 1 / elements}[normalization]
    return x if scale is None else each(x, lambda part: e.mul(part, scale))


def along(e, x, dim, transform):
    """What a transform of the last dimension makes of another."""
    swap = lambda x: each(x, lambda part: e.emit(aten.transpose.int, part, dim, -1))
    rank = len(e.shape(real_part_of(x)))
    return transform(x) if dim % rank == rank - 1 else swap(transform(swap(x)))


def turns(rows, columns, length):
    """Products of two places in parts of a length, without whole turns."""
    rows, columns = (torch.arange(count, dtype=torch.float64) for count in (rows, columns))
    return torch.outer(rows, columns) % length / length


def roots(e, name, rows, columns, length, x, weights=1):
    """Cosines and sines of the `turns`, in the type of a value, with their rows multiplied by weights."""
    angles = lambda: 2 * torch.pi * turns(rows, columns, length)
    cosines = e.constant(f"cosines_{name}", lambda: weights * torch.cos(angles()), x)
    return cosines, e.constant(f"sines_{name}", lambda: weights * torch.sin(angles()), x)


def dft(e, x, forward):
    """The discrete Fourier transform of the last dimension. Long ones are made of those of two factors of their length (Cooley and
    Tukey, 1965)."""
    length = count(e, real_part_of(x), [-1])
    factor = next((side for side in range(min(SIDE, length), 1, -1) if length % side == 0), 1)
    if length <= SIDE or factor == 1:
        if length > PRIME:
            raise CallError("unsupported", f"a Fourier transform of length {length}, which is prime, is not supported")
        return turn(e, x, length, forward)
    p, q = factor, length // factor
    shape = e.shape(real_part_of(x))[:-1]
    swap = lambda x: each(x, lambda part: e.emit(aten.transpose.int, part, -1, -2))
    x = swap(each(x, lambda part: e.emit(aten.reshape.default, part, [*shape, p, q])))
    x = dft(e, x, forward)
    cosines, sines = roots(e, f"{p}_by_{q}", q, p, length, x.re)
    sign = e.neg(sines) if forward else sines
    x = swap(multiplied(e, None, x, Pair(cosines, sign)))
    x = swap(dft(e, x, forward))
    return each(x, lambda part: e.emit(aten.reshape.default, part, [*shape, length]))


def turn(e, x, length, forward):
    """The product with a matrix of roots."""
    cosines, sines = roots(e, str(length), length, length, length, real_part_of(x))
    product = lambda part, matrix: e.emit(aten.matmul.default, part, matrix)
    if not is_pair(x):
        im = product(x, sines)
        return Pair(product(x, cosines), e.neg(im) if forward else im)
    re, im = [product(x.re, cosines), product(x.im, sines)], [product(x.im, cosines), product(x.re, sines)]
    return Pair(e.add(*re), e.sub(*im)) if forward else Pair(e.sub(*re), e.add(*im))


def real_signal(e, x, length):
    """The real signal of a length, of which the first half of the spectrum is known; the other half is its conjugate."""
    half = length // 2 + 1
    known = e.shape(x.re)[-1]
    if known > half:
        x = each(x, lambda part: e.emit(aten.slice.Tensor, part, -1, 0, half))
    if length > PRIME:
        return dft(e, mirrored(e, x, length), False).re
    weights = torch.full((half,), 2.0, dtype=torch.float64)
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    cosines, sines = roots(e, f"of_half_{length}", half, length, length, x.re, weights[:, None])
    return e.sub(e.emit(aten.matmul.default, x.re, cosines), e.emit(aten.matmul.default, x.im, sines))


def mirrored(e, x, length):
    """A whole spectrum, of its first half."""
    last = (length + 1) // 2
    behind = lambda part: e.emit(aten.flip.default, e.emit(aten.slice.Tensor, part, -1, 1, last), [-1])
    re = e.emit(aten.cat.default, [x.re, behind(x.re)], -1)
    return Pair(re, e.emit(aten.cat.default, [x.im, e.neg(behind(x.im))], -1))
