"""Approximations of smooth functions by polynomials, found when they are first needed."""

import functools
import math

import torch

from akg_worker.decompositions.elementwise import as_floating, working
from akg_worker.decompositions.registry import of

# What an approximation leaves of the largest value in its interval.
ERROR = 1e-13
# Twice as many points as a piece's polynomial may have terms tell whether it has converged.
TERMS = 28
POINTS = 2 * TERMS
DEPTH = 5


class Piecewise:
    """A function on an interval as polynomials on parts of it, each in a variable that goes from -1 to 1 there.

    The coefficients are numbers in the graph, in double precision whatever the element type.
    """

    def __init__(self, pieces):
        self.pieces = pieces  # (low, high, coefficients of powers, lowest first)

    def __call__(self, x):
        result = None
        for low, high, coefficients in self.pieces:
            middle, half = (low + high) / 2, (high - low) / 2
            # Beside the interval, where the result is not wanted, it shall not overflow either.
            t = ((x - middle) / half).clamp(-1, 1)
            value = horner(coefficients, t)
            result = value if result is None else torch.where(x > low, value, result)
        return result


def horner(coefficients, x):
    """A polynomial with coefficients of rising powers."""
    result = torch.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


@functools.cache
def fitted(function, low, high):
    """`function`, from mpmath's numbers to such, on an interval, which is halved where a polynomial does not converge."""
    return Piecewise(list(pieces(function, low, high, 0)))


def pieces(function, low, high, depth):
    coefficients = interpolated(function, low, high)
    if coefficients is not None:
        yield low, high, coefficients
        return
    if depth == DEPTH:
        raise NotImplementedError("an approximation that does not converge")
    middle = (low + high) / 2
    yield from pieces(function, low, middle, depth + 1)
    yield from pieces(function, middle, high, depth + 1)


def interpolated(function, low, high):
    """Coefficients of powers of the variable from -1 to 1, from Chebyshev's points; None if it takes more than `TERMS`."""
    import mpmath

    middle, half = (low + high) / 2, (high - low) / 2
    angles = [math.pi * (point + 0.5) / POINTS for point in range(POINTS)]
    with mpmath.workdps(30):
        values = [function(mpmath.mpf(middle) + mpmath.mpf(half) * mpmath.cos(angle)) for angle in angles]
        size = max(abs(value) for value in values)
        series = []
        for order in range(TERMS + 4):
            total = mpmath.fsum(v * math.cos(order * angle) for v, angle in zip(values, angles))
            series.append(total * (1 if order == 0 else 2) / POINTS)
        # Terms fall geometrically: what is left is of the size of the last ones.
        while len(series) > 1 and abs(series[-1]) < ERROR * size:
            series.pop()
        if len(series) > TERMS:
            return None
        return [float(c) for c in powers(series)]


def powers(series):
    """A Chebyshev series as coefficients of powers, by the recurrence of the polynomials."""
    total = [0] * len(series)
    before, current = [1], [0, 1]
    for order, factor in enumerate(series):
        polynomial = before if order == 0 else current
        for power, coefficient in enumerate(polynomial):
            total[power] += factor * coefficient
        if order:
            doubled = [0, *(2 * c for c in current)]
            before, current = current, [c - b for c, b in zip(doubled, [*before, 0, 0])]
    return total


def of_elements(*ops):
    """Registers a function of floating elements, computed in single precision or better, for operators on any elements."""

    def register(function):
        def convert(x, *arguments):
            x = as_floating(x)
            return function(x.to(working(x.dtype)), *arguments).to(x.dtype)

        of(*ops)(convert)
        function.of_any = convert
        return function

    return register


def of_pairs(*ops):
    """Registers a function of two floating tensors as `of_elements` does, for overloads of which one may be a number."""

    def register(function):
        def convert(a, b):
            tensor = a if isinstance(a, torch.Tensor) else b
            dtype = torch.result_type(a, b)
            dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
            a, b = (x if isinstance(x, torch.Tensor) else torch.full([], x, dtype=dtype, device=tensor.device) for x in (a, b))
            a, b = torch.broadcast_tensors(a.to(working(dtype)), b.to(working(dtype)))
            return function(a, b).to(dtype)

        of(*ops)(convert)
        return function

    return register
