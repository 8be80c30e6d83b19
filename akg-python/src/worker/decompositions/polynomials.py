"""Orthogonal polynomials whose degree is a tensor.

Up to a small degree they follow from their recurrence, beyond it from what they are of angles, where they are such.
"""

import torch

from akg_worker.decompositions.elementwise import as_floating
from akg_worker.decompositions.fit import of_pairs
from akg_worker.decompositions.registry import aten, of

# The degree up to which a recurrence is more accurate than functions of angles.
LOW = 8


def up_to(x, n, first, second, step, highest):
    """The polynomial of degree `n` by a recurrence up to a degree; `step` makes the next one of its degree and the two before."""
    before, current = first, second
    result = torch.where(n <= 0, first, second)
    for degree in range(2, highest + 1):
        before, current = current, step(degree, before, current)
        result = torch.where(n == degree, current, result)
    return result


def chebyshev(x, n, second, angles, at_one, at_minus_one):
    """Chebyshev's polynomials: `angles` has them inside [-1, 1] as functions of the angle, and beside of a hyperbolic one."""
    n = n.trunc()
    odd = n - 2 * (n / 2).floor() == 1
    low = up_to(x, n, torch.ones_like(x), second, lambda _, before, current: 2 * x * current - before, LOW)
    inside, outside = angles
    turn = x.clamp(-1, 1).acos()
    stretch = x.abs().clamp(min=1).acosh()
    # Of a negative number, the value is that of a related polynomial of its opposite.
    grown = outside(n, stretch, x < 0)
    high = torch.where(x.abs() < 1, inside(n, turn), torch.where((x < 0) & odd, -grown, grown))
    result = torch.where(n <= LOW, low, high)
    result = torch.where(x == 1, at_one(n), torch.where(x == -1, torch.where(odd, -1, 1) * at_minus_one(n), result))
    return torch.where(n < 0, 0.0, result)


def ones(n):
    return torch.ones_like(n)


def first_kind(x, n):
    angles = (lambda n, t: (n * t).cos(), lambda n, s, negative: (n * s).cosh())
    return chebyshev(x, n, x, angles, ones, ones)


def second_kind(x, n):
    # The angles of 1 and -1 have no sine, and the result is not read there.
    angles = (
        lambda n, t: ((n + 1) * t).sin() / t.sin(),
        lambda n, s, negative: ((n + 1) * s).sinh() / s.sinh(),
    )
    return chebyshev(x, n, 2 * x, angles, lambda n: n + 1, lambda n: n + 1)


def even_part(n, s):
    return ((n + 0.5) * s).cosh() / (s * 0.5).cosh()


def odd_part(n, s):
    return ((n + 0.5) * s).sinh() / (s * 0.5).sinh()


def third_kind(x, n):
    angles = (
        lambda n, t: ((n + 0.5) * t).cos() / (t * 0.5).cos(),
        lambda n, s, negative: torch.where(negative, odd_part(n, s), even_part(n, s)),
    )
    return chebyshev(x, n, 2 * x - 1, angles, ones, lambda n: 2 * n + 1)


def fourth_kind(x, n):
    angles = (
        lambda n, t: ((n + 0.5) * t).sin() / (t * 0.5).sin(),
        lambda n, s, negative: torch.where(negative, even_part(n, s), odd_part(n, s)),
    )
    return chebyshev(x, n, 2 * x + 1, angles, lambda n: 2 * n + 1, ones)


KINDS = {"t": first_kind, "u": second_kind, "v": third_kind, "w": fourth_kind}


def overloads(name):
    packet = getattr(aten, name)
    return packet.default, packet.n_scalar, packet.x_scalar


for letter, kind in KINDS.items():
    of_pairs(*overloads(f"special_chebyshev_polynomial_{letter}"))(kind)
    shifted = of_pairs(*overloads(f"special_shifted_chebyshev_polynomial_{letter}"))
    shifted(lambda x, n, kind=kind: kind(2 * x - 1, n))

# PyTorch has no Hermite polynomials of higher degrees in single precision.
HIGHEST = 128


def hermite(x, n, second, step):
    n = n.trunc()
    result = up_to(x, n, torch.ones_like(x), second, step, HIGHEST)
    return torch.where(n < 0, 0.0, torch.where(n > HIGHEST, float("nan"), result))


@of_pairs(*overloads("special_hermite_polynomial_h"))
def hermite_h(x, n):
    return hermite(x, n, 2 * x, lambda degree, before, current: 2 * (x * current - (degree - 1) * before))


@of_pairs(*overloads("special_hermite_polynomial_he"))
def hermite_he(x, n):
    return hermite(x, n, x, lambda degree, before, current: x * current - (degree - 1) * before)


def of_number(name, factor):
    """Registers polynomials whose recurrence has a factor `(2 k + 1) x` or the like, for a degree that is known."""

    def polynomial(x, n):
        x = as_floating(x)
        before, current = torch.zeros_like(x), torch.ones_like(x)
        for degree in range(int(n)):
            before, current = current, (factor(degree, x) * current - degree * before) / (degree + 1)
        return current if n >= 0 else before

    of(getattr(aten, name).n_scalar)(polynomial)


# Of degrees in a tensor, the largest is not known.
of_number("special_legendre_polynomial_p", lambda degree, x: (2 * degree + 1) * x)
of_number("special_laguerre_polynomial_l", lambda degree, x: 2 * degree + 1 - x)
