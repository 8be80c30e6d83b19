"""The error function's family: inverses, and what is left of exponentials in its tails."""

import math

import torch

from akg_worker.decompositions.fit import fitted, of_elements
from akg_worker.decompositions.registry import aten

ROOT = math.sqrt(2)

# Probabilities below this belong to a tail of the normal distribution.
TAIL = math.exp(-2)


def quantile_by_logarithm(v):
    """The normal quantile of exp(-s^2 / 2), divided by -s, where v = 1/s: the root of a concave function by Newton's method."""
    import mpmath

    s = 1 / v
    root = mpmath.sqrt(2)
    z = s - mpmath.log(2 * mpmath.pi * s * s) / (2 * s) if s > 4 else s / 2
    for _ in range(60):
        tail = mpmath.erfc(z / root) / 2
        slope = -mpmath.exp(-z * z / 2) / mpmath.sqrt(2 * mpmath.pi) / tail
        step = (mpmath.log(tail) + s * s / 2) / slope
        z -= step
        if abs(step) < mpmath.mpf(10) ** -25:
            break
    return z / s


def inverse_by_argument(square):
    import mpmath

    x = mpmath.sqrt(square)
    return mpmath.erfinv(x) / x


def upper_quantile(p):
    """How far from its mean the normal distribution has a tail of probability p <= `TAIL`, in standard deviations."""
    s = (-2 * p.log()).sqrt()
    # As far as the smallest double has it.
    return s * fitted(quantile_by_logarithm, 1 / 39, 1 / 2)(1 / s)


def inner_inverse(x):
    """The inverse error function where the tails of the normal distribution are larger than `TAIL`."""
    return x * fitted(inverse_by_argument, 0, (1 - 2 * TAIL) ** 2)(x * x)


@of_elements(aten.erfinv.default)
def erfinv(x):
    size = x.abs()
    tail = (1 - size) * 0.5
    far = upper_quantile(tail) / ROOT
    far = torch.where(x < 0, -far, far)
    result = torch.where(tail > TAIL, inner_inverse(x), far)
    end = torch.where(size == 1, x * float("inf"), float("nan"))
    return torch.where(size < 1, result, end)


@of_elements(aten.special_ndtri.default)
def ndtri(p):
    upper = p > 0.5
    # Exact where a probability is large.
    tail = torch.where(upper, 1 - p, p)
    far = upper_quantile(tail)
    far = torch.where(upper, far, -far)
    result = torch.where(tail > TAIL, ROOT * inner_inverse(2 * (p - 0.5)), far)
    result = torch.where(p == 0, -float("inf"), torch.where(p == 1, float("inf"), result))
    return torch.where((p >= 0) & (p <= 1), result, float("nan"))


def exp_of_square(x):
    """exp(x^2) without the rounding of the square, which an exponential makes large: that of a number of few bits is exact."""
    near = (x * 16).round() / 16
    return (near * near).exp() * ((x - near) * (x + near)).exp()


def scaled_complement(x):
    import mpmath

    return mpmath.exp(x * x) * mpmath.erfc(x)


def scaled_complement_far(u):
    """x erfcx(x), where u = 1/x^2: Abramowitz & Stegun 7.1.23."""
    import mpmath

    x = 1 / mpmath.sqrt(u)
    if x > 1000:
        # Of the asymptotic series, as many terms as matter.
        terms = [(-1) ** m * mpmath.fac2(2 * m - 1) * (u / 2) ** m for m in range(1, 8)]
        return (1 + mpmath.fsum(terms)) / mpmath.sqrt(mpmath.pi)
    return x * scaled_complement(x)


@of_elements(aten.special_erfcx.default)
def erfcx(x):
    size = x.abs()
    near = fitted(scaled_complement, 0, 2)(size)
    inverse = 1 / size
    far = inverse * fitted(scaled_complement_far, 0, 1 / 4)(inverse * inverse)
    above = torch.where(size < 2, near, far)
    # The exponential of a large square is no number, even of one that is not read.
    below = 2 * exp_of_square(x.clamp(min=-30, max=0)) - above
    return torch.where(x < 0, below, above)


@of_elements(aten.special_log_ndtr.default)
def log_ndtr(x):
    scaled = x / ROOT
    # What the half square loses, an addition of the smaller logarithm does not.
    below = (erfcx(-scaled.clamp(max=0)) * 0.5).log() - scaled * scaled
    return torch.where(x < -1, below, torch.log1p(-torch.erfc(scaled) * 0.5))
