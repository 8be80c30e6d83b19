"""Decompositions that PyTorch lacks, or has in terms that a functional graph of ATen's operators cannot hold."""

import torch

aten = torch.ops.aten
prims = torch.ops.prims

OWN = {}


def of(*ops):
    """Registers a function as the decomposition of operators."""

    def register(function):
        for op in ops:
            OWN[op] = function
        return function

    return register


@of(prims.convert_element_type.default)
def convert_element_type(a, dtype):
    return aten._to_copy(a, dtype=dtype)


@of(prims.iota.default)
def iota(length, *, start, step, dtype, device, requires_grad):
    return aten.arange.start_step(start, start + length * step, step, dtype=dtype, device=device)


@of(aten.signbit.default)
def signbit(self):
    if not self.dtype.is_floating_point:
        return self < 0
    # The reciprocal of a zero has its sign.
    return (self < 0) | ((self == 0) & (self.reciprocal() < 0))


@of(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(self, other):
    sign = signbit(other if isinstance(other, torch.Tensor) else torch.full_like(self, other))
    magnitude = self.abs()
    return torch.where(sign, -magnitude, magnitude)


@of(aten.fmax.default)
def fmax(self, other):
    return torch.where(self.isnan(), other, torch.where(other.isnan(), self, torch.maximum(self, other)))


@of(aten.fmin.default)
def fmin(self, other):
    return torch.where(self.isnan(), other, torch.where(other.isnan(), self, torch.minimum(self, other)))


@of(aten.hypot.default)
def hypot(self, other):
    # Squares of large and small numbers leave the range of their type; those of ratios do not.
    a, b = self.abs(), other.abs()
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    ratio = torch.where((large == 0) | large.isinf(), 0.0, small / large)
    return large * (1 + ratio * ratio).sqrt()


@of(aten.__lshift__.Scalar, aten.__lshift__.Tensor, aten.bitwise_left_shift.Tensor, aten.bitwise_left_shift.Tensor_Scalar)
def shift_left(self, other):
    return self * powers_of_two(self, other)


@of(aten.__rshift__.Scalar, aten.__rshift__.Tensor, aten.bitwise_right_shift.Tensor, aten.bitwise_right_shift.Tensor_Scalar)
def shift_right(self, other):
    return torch.div(self, powers_of_two(self, other), rounding_mode="floor")


def powers_of_two(like, exponent):
    """`2 ** exponent` in the type of `like`, for a number or a tensor."""
    if isinstance(exponent, torch.Tensor):
        return torch.pow(2, exponent.to(like.dtype))
    return 1 << int(exponent)


@of(aten._cdist_forward.default, aten.cdist.default)
def cdist(x1, x2, p=2.0, compute_mode=None):
    difference = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).abs()
    return torch.linalg.vector_norm(difference, p, dim=-1)


@of(aten._pdist_forward.default, aten.pdist.default)
def pdist(self, p=2.0):
    distances = cdist(self, self, p)
    return torch.cat([distances[row, row + 1 :] for row in range(self.shape[0])])


@of(aten.bilinear.default)
def bilinear(input1, input2, weight, bias=None):
    outputs, width1, width2 = weight.shape
    left = input1.reshape(-1, width1) @ weight.permute(1, 0, 2).reshape(width1, outputs * width2)
    product = left.reshape(-1, outputs, width2) * input2.reshape(-1, 1, width2)
    result = product.sum(-1).reshape(*input1.shape[:-1], outputs)
    return result if bias is None else result + bias


@of(aten.one_hot.default)
def one_hot(self, num_classes=-1):
    if num_classes < 0:
        raise NotImplementedError("the number of classes follows from values")
    classes = torch.arange(num_classes, device=self.device)
    return (self.unsqueeze(-1) == classes).to(torch.int64)


@of(aten.empty.memory_format)
def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    # Whatever reads it before it is written reads anything.
    return aten.full(size, 0, dtype=dtype or torch.get_default_dtype(), device=device)
