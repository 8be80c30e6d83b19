"""The gamma function's family: its logarithm, the derivatives of that, and Hurwitz's zeta function."""

import math

import torch

from akg_worker.decompositions.fit import fitted, of_elements, of_pairs
from akg_worker.decompositions.registry import aten, of


def above_one(x):
    """`z`, exact, such that 1 + z is where a function of the gamma family is known: x, 1 + x for small, 1 - x for negative x."""
    return torch.where(x < 0, -x, torch.where(x < 1, x, x - 1))


def from_integer(x):
    """The distance from the nearest integer, of which functions of period 1 are exact functions."""
    return x - x.round()


def log_gamma_by_zeros(t):
    import mpmath

    return mpmath.loggamma(t + 2) / ((t + 1) * t)


def stirlings_rest(u):
    """What Stirling's formula leaves, Abramowitz & Stegun 6.1.40, times y, where u = 1/y^2."""
    import mpmath

    y = 1 / mpmath.sqrt(u)
    return y * (mpmath.loggamma(y) - (y - 0.5) * mpmath.log(y) + y - mpmath.log(2 * mpmath.pi) / 2)


def log_gamma_above_one(z):
    """The logarithm of gamma(1 + z) for z >= 0, with its zeros at 0 and 1 as factors."""
    near = z * (z - 1) * fitted(log_gamma_by_zeros, -1, 1)(z - 1)
    y = z + 1
    rest = fitted(stirlings_rest, 0, 1 / 9)(1 / (y * y)) / y
    # Written so that its parts do not cancel at 3.
    far = (y - 0.5) * (y.log() - 1) + ((math.log(2 * math.pi) - 1) / 2 + rest)
    return torch.where(z < 2, near, far)


@of_elements(aten.lgamma.default)
def lgamma(x):
    above = log_gamma_above_one(above_one(x))
    # Abramowitz & Stegun 6.1.15 and 6.1.17.
    small = above - x.log()
    reflected = (math.pi / (from_integer(x) * math.pi).sin().abs()).log() - above
    result = torch.where(x < 0, reflected, torch.where(x < 1, small, above))
    return torch.where(x.isinf(), float("inf"), result)


# The zero of digamma, less 1, as a number of few bits and the rest.
ZERO = 1890 / 4096
ZERO_REST = 0.46163214496836234126 - ZERO


def digamma_by_zero(t):
    import mpmath

    zero = mpmath.mpf("1.461632144968362341262659542325721328468196204")
    return mpmath.digamma(t + 2) / (t + 2 - zero)


def digamma_rest(u):
    """What the logarithm leaves of digamma, Abramowitz & Stegun 6.3.18, divided by u = 1/y^2."""
    import mpmath

    y = 1 / mpmath.sqrt(u)
    return (mpmath.log(y) - 1 / (2 * y) - mpmath.digamma(y)) * y * y


@of_elements(aten.digamma.default)
def digamma(x):
    z = above_one(x)
    near = ((z - ZERO) - ZERO_REST) * fitted(digamma_by_zero, -1, 1)(z - 1)
    y = z + 1
    u = 1 / (y * y)
    far = y.log() - 0.5 / y - u * fitted(digamma_rest, 0, 1 / 9)(u)
    above = torch.where(z < 2, near, far)
    # Abramowitz & Stegun 6.3.7 and 6.3.5.
    reflected = above - math.pi / (from_integer(x) * math.pi).tan()
    result = torch.where(x < 0, reflected, torch.where(x < 1, above - 1 / x, above))
    result = torch.where((x < 0) & (x == x.round()), float("nan"), result)
    return torch.where(x == float("inf"), x, result)


# How many terms of a zeta function are added up before the rest is approximated, and by how many terms.
DIRECT, CORRECTIONS = 10, 9


def zeta_of_positive(s, q):
    """Hurwitz's zeta function for s > 1 and q > 0 by the sum formula of Euler and Maclaurin; `s` may be a number."""
    import mpmath

    direct = sum((q + k) ** -s for k in range(1, DIRECT)) + q**-s
    w = q + DIRECT
    power = w**-s
    # Bernoulli's numbers by factorials, and s (s + 1) .. by powers of 1/w, from the last term to the first.
    inverse = 1 / w
    square = inverse * inverse
    rest = 0
    for j in range(CORRECTIONS, 0, -1):
        ratio = float(mpmath.bernoulli(2 * j) / mpmath.factorial(2 * j))
        factor = s if j == 1 else (s + (2 * j - 3)) * (s + (2 * j - 2)) * square
        rest = factor * (rest + ratio)
    # Where the power vanishes, what it is multiplied by may have no value.
    return direct + torch.where(power == 0, 0.0, power * (w / (s - 1) + 0.5 + inverse * rest))


def zeta_of(s, q, sign):
    """Hurwitz's zeta function for s > 1 and any q, where `sign` is (-1)^s.

    The terms whose base is negative are those of two zeta functions of positive arguments.
    """
    negative = q < 0
    # Exact, each from its side.
    above, below = q - q.floor(), q.ceil() - q
    arguments = [torch.where(negative, above, q), torch.where(negative, below, 1.0), torch.where(negative, 1 - q, 1.0)]
    first, second, third = zeta_of_positive(s, torch.stack(arguments)).unbind()
    return torch.where(negative, first + sign * (second - third), first)


@of_pairs(aten.special_zeta.default, aten.special_zeta.other_scalar, aten.special_zeta.self_scalar)
def zeta(s, q):
    whole = s == s.floor()
    odd = s - 2 * (s / 2).floor() == 1
    result = zeta_of(torch.where(s > 1, s, 2.0), q, torch.where(odd, -1.0, 1.0).to(s.dtype))
    # The powers of an infinite exponent.
    limit = torch.where((q < 0) | (q.abs() < 1), float("inf"), torch.where(q == 1, 1.0, 0.0))
    result = torch.where(s == float("inf"), limit, torch.where(q.isnan() | s.isnan(), float("nan"), result))
    pole = (q <= 0) & (q == q.floor())
    result = torch.where(pole, float("inf"), torch.where((q < 0) & ~whole, float("nan"), result))
    return torch.where(s == 1, float("inf"), torch.where(s < 1, float("nan"), result))


@of(aten.polygamma.default, aten.special_polygamma.default)
def polygamma(n, self):
    if n == 0:
        return aten.digamma(self)

    @of_elements()
    def derivative(x):
        # Abramowitz & Stegun 6.4.10.
        sign = (-1.0) ** (n + 1)
        factor = sign * math.factorial(n)
        result = factor * zeta_of(n + 1, x, sign)
        return torch.where((x <= 0) & (x == x.floor()), factor * float("inf"), result)

    return derivative.of_any(self)
