"""The regularized incomplete gamma functions: a series, a continued fraction, and an expansion that is uniform at x = a."""

import functools
import math

import torch

from akg_worker.decompositions.fit import fitted, horner, of_pairs
from akg_worker.decompositions.gamma import log_gamma_above_one, stirlings_rest
from akg_worker.decompositions.registry import aten

# From here on, and where x is at most so far from a in proportion, the uniform expansion holds.
LARGE, AROUND = 20, 0.45
# Terms that reach double precision where each form is used.
SERIES, FRACTION, SMALL = 56, 64, 20
# Coefficients of the expansion by powers of 1/a, each of which is a series in powers of eta.
ORDERS, POWERS = 8, 20


def logarithms_rest(m):
    """(m - log(1 + m)) / m^2."""
    import mpmath

    return (m - mpmath.log1p(m)) / m**2


@functools.cache
def uniform_coefficients():
    """The coefficients of Temme's expansion (DLMF 8.12.7) by powers of eta, from exact recurrences.

    With m = x/a - 1 as a series in eta, the first is 1/m - 1/eta. Each next one is the derivative of the one before, divided by
    eta, and the multiple of 1/m that cancels the pole.
    """
    from fractions import Fraction

    count = POWERS + 2 * ORDERS + 2
    # From m m' = eta (1 + m).
    m = [Fraction(0), Fraction(1)]
    for power in range(2, count + 2):
        known = sum(i * m[i] * m[power + 1 - i] for i in range(2, power))
        m.append((m[power - 1] - known) / (power + 1))
    # eta / m.
    inverse = [Fraction(1)]
    for power in range(1, count + 1):
        inverse.append(-sum(m[1 + i] * inverse[power - i] for i in range(1, power + 1)))
    current = inverse[1:]
    rows = []
    for _ in range(ORDERS):
        rows.append([float(c) for c in current[:POWERS]])
        pole = current[1]
        current = [(n + 2) * current[n + 2] - pole * inverse[n + 1] for n in range(len(current) - 2)]
    return rows


def uniform(a, m, eta, minus_log):
    """Q(a, x) or 1 - Q(a, x), of the two what `eta` asks for by its sign, for large a: DLMF 8.12.3 and 8.12.4."""
    inverse = 1 / a
    rest = None
    for row in reversed(uniform_coefficients()):
        value = horner(row, eta)
        rest = value if rest is None else rest * inverse + value
    rest = rest * (-minus_log).exp() / (2 * math.pi * a).sqrt()
    half = torch.erfc(eta * (a * 0.5).sqrt()) * 0.5
    other = torch.erfc(-eta * (a * 0.5).sqrt()) * 0.5
    return other - rest, half + rest


def both(a, x):
    """P(a, x) and Q(a, x) for positive finite numbers."""
    m = (x - a) / a
    close = m.abs() <= AROUND
    inside = torch.where(close, m, 0.0)
    shape = fitted(logarithms_rest, -AROUND, AROUND)(inside)
    minus_log = a * torch.where(close, inside * inside * shape, m - (x / a).log())
    uniform_p, uniform_q = uniform(a, inside, inside * (2 * shape).sqrt(), minus_log)
    # x^a exp(-x) / gamma(a + 1), by Stirling's formula where no large numbers shall cancel.
    log_gamma = log_gamma_above_one(a)
    small_power = a * x.log() - log_gamma
    stirling = fitted(stirlings_rest, 0, 1 / 9)((1 / (a * a)).clamp(max=1)) / a
    factor = torch.where(a < 3, (small_power - x).exp(), (-minus_log - stirling).exp() / (2 * math.pi * a).sqrt())
    # Abramowitz & Stegun 6.5.29, from the last term to the first, where x is at most a or 1.1.
    series_x = torch.where(x > a.clamp(min=1.1), 0.0, x)
    series = torch.ones_like(x)
    for n in range(SERIES, 0, -1):
        series = 1 + series * (series_x / (a + n))
    p = factor * series
    # Abramowitz & Stegun 6.5.31 in the form with half the terms, for x > 1 above a.
    start = torch.where((x > 1) & (x >= a), x, a + 1) - a
    fraction = start + (2 * FRACTION + 1)
    for n in range(FRACTION, 0, -1):
        fraction = start + (2 * n - 1) - n * (n - a) / fraction
    q = factor * a / fraction
    # What remains of 1 for small a: 6.5.29 with the first term apart.
    alternating = torch.zeros_like(x)
    short = x.clamp(max=1.5)
    for n in range(SMALL, 0, -1):
        alternating = -short / n * (1 / (a + n) + alternating)
    little = -torch.expm1(small_power) - small_power.exp() * a * alternating
    by_fraction = (x > 1.1) & (x >= a)
    is_little = ~by_fraction & (a < 1) & (x <= 1.1)
    p_result = torch.where(by_fraction, 1 - q, p)
    q_result = torch.where(by_fraction, q, torch.where(is_little, little, 1 - p))
    is_uniform = (a > LARGE) & close
    return torch.where(is_uniform, uniform_p, p_result), torch.where(is_uniform, uniform_q, q_result)


def regularized(a, x, which):
    """P for 0 or Q for 1, with the limits at the ends of its arguments."""
    good = (a > 0) & (x > 0) & a.isfinite() & x.isfinite()
    value = both(torch.where(good, a, 1.0), torch.where(good, x, 1.0))[which]
    # P is 1 where a is 0 or x is infinite, and 0 where x is 0 or a is infinite, and what the other is, if not negative, does not
    # matter then: it may be NaN.
    is_one = (x > 0) & (a == 0) | (x == float("inf")) & ~(a < 0) & ~a.isinf()
    is_zero = (x == 0) & (a != 0) & ~(a < 0) | (a == float("inf")) & ~(x < 0) & ~x.isinf()
    one, zero = (1.0, 0.0) if which == 0 else (0.0, 1.0)
    ends = torch.where(is_one, one, torch.where(is_zero, zero, float("nan")))
    return torch.where(good, value, ends)


@of_pairs(aten.igamma.default)
def igamma(a, x):
    return regularized(a, x, 0)


@of_pairs(aten.igammac.default)
def igammac(a, x):
    return regularized(a, x, 1)
