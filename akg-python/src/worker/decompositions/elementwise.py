"""Elementwise functions that are exact: signs, bits, and whole numbers."""

import math

import torch

from akg_worker.decompositions.registry import aten, of, prims


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
    magnitude = as_floating(self).abs()
    if isinstance(other, torch.Tensor):
        magnitude = magnitude.to(torch.result_type(magnitude, other))
    return torch.where(sign, -magnitude, magnitude)


def as_floating(x):
    return x if x.is_floating_point() else x.to(torch.get_default_dtype())


@of(aten.angle.default)
def angle(self):
    x = as_floating(self)
    return torch.where(x.isnan(), x, torch.where(x < 0, math.pi, 0.0).to(x.dtype))


@of(aten.round.decimals)
def round_decimals(self, *, decimals=0):
    if not self.is_floating_point():
        return self.clone()
    # A power above 1 is exact, its reciprocal is not.
    x = self.to(working(self.dtype))
    power = 10.0 ** abs(decimals)
    x = (x * power).round() / power if decimals > 0 else (x / power).round() * power if decimals < 0 else x.round()
    return x.to(self.dtype)


def working(dtype):
    """The type in which PyTorch computes functions of elements of a type."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


# Powers of two whose sums reach the exponent of every double, subnormal ones too.
EXPONENTS = (512, *(1 << bit for bit in range(9, -1, -1)))


def normalized(magnitude):
    """Numbers in [1/2, 1) and exponents `e`, with `magnitude` their product with 2^e, for positive finite numbers.

    Products with powers of two are exact as long as they stay in range, which logarithms and powers need not be. A power that is
    out of the type's range compares like infinity or zero, and is not chosen.
    """
    exponent = torch.zeros_like(magnitude, dtype=torch.int32)
    for power in EXPONENTS:
        large, small = magnitude >= 2.0**power, magnitude < 2.0**-power
        # In two steps: the reciprocal of a subnormal number can be infinite.
        raised = magnitude * 2.0 ** (power - power // 2) * 2.0 ** (power // 2)
        magnitude = torch.where(large, magnitude * 2.0**-power, torch.where(small, raised, magnitude))
        exponent = torch.where(large, exponent + power, torch.where(small, exponent - power, exponent))
    above = magnitude >= 1
    return torch.where(above, magnitude * 0.5, magnitude), torch.where(above, exponent + 1, exponent)


@of(aten.frexp.Tensor)
def frexp(self):
    x = self.to(working(self.dtype))
    special = (x == 0) | ~x.isfinite()
    mantissa, exponent = normalized(torch.where(special, 1.0, x.abs()))
    mantissa = torch.where(special, x, torch.where(x < 0, -mantissa, mantissa))
    return mantissa.to(self.dtype), torch.where(special, 0, exponent)


@of(aten.nextafter.default)
def nextafter(self, other):
    """Moves by the unit of the last place: exact in the element type that the module has, whatever else it is computed in."""
    info = torch.finfo(self.dtype)
    a, b = torch.broadcast_tensors(self, other)
    mantissa, exponent = normalized(torch.where((a == 0) | ~a.isfinite(), 1.0, a.abs()))
    outward = (a < b) == (a > 0)
    # Towards zero, the number below a power of two is half as far.
    exponent = torch.where(~outward & (mantissa == 0.5), exponent - 1, exponent) - 1
    least = info.smallest_normal * info.eps
    unit = torch.exp2(exponent.to(a.dtype).clamp(min=math.log2(info.smallest_normal))) * info.eps
    unit = torch.where(a == 0, least, unit)
    moved = torch.where(a < b, a + unit, a - unit)
    # From infinity, to the largest number.
    moved = torch.where(a.isinf(), torch.where(a > 0, info.max, -info.max).to(a.dtype), moved)
    return torch.where(a.isnan() | b.isnan(), float("nan"), torch.where(a == b, b, moved))


def steps_of_euclid(dtype):
    """The most steps of Euclid's algorithm with the least remainder, each of which divides by 1 + sqrt(2) or more in the mean."""
    return math.ceil(torch.iinfo(dtype).bits * math.log(2) / math.log(1 + math.sqrt(2))) + 1


@of(aten.gcd.default)
def gcd(self, other):
    dtype = torch.result_type(self, other)
    a, b = self.to(dtype).abs(), other.to(dtype).abs()
    a, b = torch.broadcast_tensors(a, b)
    for _ in range(steps_of_euclid(dtype)):
        done = b == 0
        rest = a.remainder(torch.where(done, 1, b))
        rest = torch.minimum(rest, b - rest)
        a, b = torch.where(done, a, b), torch.where(done, 0, rest)
    return a


@of(aten.lcm.default)
def lcm(self, other):
    divisor = gcd(self, other)
    part = self.to(divisor.dtype).div(torch.where(divisor == 0, 1, divisor), rounding_mode="trunc")
    return (part * other).abs()


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
    return shifted(self, other, lambda x, factor: x * factor)


@of(aten.__rshift__.Scalar, aten.__rshift__.Tensor, aten.bitwise_right_shift.Tensor, aten.bitwise_right_shift.Tensor_Scalar)
def shift_right(self, other):
    return shifted(self, other, lambda x, factor: torch.div(x, factor, rounding_mode="floor"))


def shifted(x, count, step):
    """`step` by 2, 4, 16, and so on, for each bit that `count` has: such factors are numbers of the type."""
    bits = torch.iinfo(x.dtype).bits.bit_length() - 1
    for bit in range(bits):
        factor = 1 << (1 << bit)
        if isinstance(count, torch.Tensor):
            x = torch.where((count & (1 << bit)) != 0, step(x, factor), x)
        elif int(count) >> bit & 1:
            x = step(x, factor)
    return x
