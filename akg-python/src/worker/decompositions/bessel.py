"""Bessel functions of orders 0 and 1, modified and spherical ones, and Airy's function.

Each is a power series' sum up to a limit, and a wave or an exponential with a slowly changing amplitude behind it.
"""

import math

import torch

from akg_worker.decompositions.fit import fitted, of_elements
from akg_worker.decompositions.registry import aten

# Where the asymptotic forms begin.
FAR, FAR_OF_K, FAR_OF_AIRY = 8, 2, 2


def scaled_i(order):
    """exp(-x) I(x), and for order 1 divided by x, for x >= 0."""

    def function(x):
        import mpmath

        return mpmath.exp(-x) * mpmath.besseli(order, x) / x**order

    def far(u):
        import mpmath

        x = 1 / u
        return mpmath.sqrt(x) * mpmath.exp(-x) * mpmath.besseli(order, x)

    return function, far


SCALED_I = [scaled_i(order) for order in (0, 1)]


def ie(order, x):
    """exp(-|x|) I(x)."""
    near, far = SCALED_I[order]
    size = x.abs()
    at_near = fitted(near, 0, FAR)(size)
    at_far = fitted(far, 0, 1 / FAR)(1 / size) / size.sqrt()
    if order == 1:
        at_near = at_near * x
        at_far = torch.where(x < 0, -at_far, at_far)
    return torch.where(size < FAR, at_near, at_far)


@of_elements(aten.special_i0e.default)
def i0e(x):
    return ie(0, x)


@of_elements(aten.special_i1e.default)
def i1e(x):
    return ie(1, x)


@of_elements(aten.i0.default, aten.special_modified_bessel_i0.default)
def i0(x):
    return x.abs().exp() * ie(0, x)


@of_elements(aten.special_i1.default, aten.special_modified_bessel_i1.default)
def i1(x):
    return x.abs().exp() * ie(1, x)


def parts_of_k(order):
    """I(x) by x^order, what is left of K(x) without its logarithm, by x^-order, and the amplitude far from 0."""

    def regular(square):
        import mpmath

        x = mpmath.sqrt(square)
        return mpmath.besseli(order, x) / x**order

    def rest(square):
        import mpmath

        x = mpmath.sqrt(square)
        logarithm = (-1) ** (order + 1) * mpmath.log(x / 2) * mpmath.besseli(order, x)
        return (mpmath.besselk(order, x) - logarithm) * x**order

    def far(u):
        import mpmath

        x = 1 / u
        return mpmath.sqrt(x) * mpmath.exp(x) * mpmath.besselk(order, x)

    return regular, rest, far


PARTS_OF_K = [parts_of_k(order) for order in (0, 1)]


def k(order, x, scaled):
    """K(x), or exp(x) K(x): Abramowitz & Stegun 9.6.11 and 9.7.2."""
    regular, rest, far = PARTS_OF_K[order]
    square = x * x
    sign = (-1) ** (order + 1)
    i = fitted(regular, 0, FAR_OF_K**2)(square)
    left = fitted(rest, 0, FAR_OF_K**2)(square)
    near = sign * (x * 0.5).log() * (i if order == 0 else i * x) + (left if order == 0 else left / x)
    behind = fitted(far, 0, 1 / FAR_OF_K)(1 / x) / x.sqrt()
    near, behind = (near * x.exp(), behind) if scaled else (near, behind * (-x).exp())
    result = torch.where(x < FAR_OF_K, near, behind)
    return torch.where(x == 0, float("inf"), torch.where(x < 0, float("nan"), result))


@of_elements(aten.special_modified_bessel_k0.default)
def k0(x):
    return k(0, x, False)


@of_elements(aten.special_modified_bessel_k1.default)
def k1(x):
    return k(1, x, False)


@of_elements(aten.special_scaled_modified_bessel_k0.default)
def scaled_k0(x):
    return k(0, x, True)


@of_elements(aten.special_scaled_modified_bessel_k1.default)
def scaled_k1(x):
    return k(1, x, True)


def parts_of_j(order):
    """J(x) by x^order, what is left of Y(x) without its logarithm and its pole, and the amplitudes of the waves far from 0."""

    def regular(square):
        import mpmath

        x = mpmath.sqrt(square)
        return mpmath.besselj(order, x) / x**order

    def rest(square):
        import mpmath

        x = mpmath.sqrt(square)
        pole = 1 / x if order else 0
        singular = 2 / mpmath.pi * (mpmath.log(x) * mpmath.besselj(order, x) - pole)
        return (mpmath.bessely(order, x) - singular) / x**order

    def wave(u):
        import mpmath

        x = 1 / mpmath.sqrt(u)
        with mpmath.extradps(10):
            phase = mpmath.exp(-1j * (x - (2 * order + 1) * mpmath.pi / 4))
            return x, mpmath.sqrt(mpmath.pi * x / 2) * (mpmath.besselj(order, x) + 1j * mpmath.bessely(order, x)) * phase

    def even(u):
        return wave(u)[1].real

    def odd(u):
        x, amplitude = wave(u)
        return amplitude.imag * x

    return regular, rest, even, odd


PARTS_OF_J = [parts_of_j(order) for order in (0, 1)]


def waves(order, x):
    """J(x) and Y(x) far from 0: Abramowitz & Stegun 9.2.5 and 9.2.6."""
    _, _, even, odd = PARTS_OF_J[order]
    u = 1 / (x * x)
    p = fitted(even, 0, 1 / FAR**2)(u)
    q = fitted(odd, 0, 1 / FAR**2)(u) / x
    # Sums of the sine and the cosine of x itself, which need no rounded phase.
    sine, cosine = x.sin(), x.cos()
    both, difference = sine + cosine, sine - cosine
    cosine, sine = (both, difference) if order == 0 else (difference, -both)
    amplitude = 1 / (x * math.pi).sqrt()
    return amplitude * (p * cosine - q * sine), amplitude * (p * sine + q * cosine)


def regular_j(order, x):
    value = fitted(PARTS_OF_J[order][0], 0, FAR**2)(x * x)
    return value if order == 0 else value * x


def j(order, x):
    size = x.abs()
    behind = waves(order, size)[0]
    behind = torch.where(x < 0, -behind, behind) if order else behind
    return torch.where(size <= FAR, regular_j(order, x), behind)


def y(order, x):
    rest = fitted(PARTS_OF_J[order][1], 0, FAR**2)(x * x)
    singular = x.log() * regular_j(order, x) - (1 / x if order else 0)
    near = 2 / math.pi * singular + (rest * x if order else rest)
    result = torch.where(x <= FAR, near, waves(order, x)[1])
    return torch.where(x == 0, -float("inf"), torch.where(x < 0, float("nan"), result))


@of_elements(aten.special_bessel_j0.default)
def j0(x):
    return j(0, x)


@of_elements(aten.special_bessel_j1.default)
def j1(x):
    return j(1, x)


@of_elements(aten.special_bessel_y0.default)
def y0(x):
    return y(0, x)


@of_elements(aten.special_bessel_y1.default)
def y1(x):
    return y(1, x)


def sine_by_argument(square):
    import mpmath

    x = mpmath.sqrt(square)
    return mpmath.sin(x) / x


@of_elements(aten.special_spherical_bessel_j0.default)
def spherical_j0(x):
    near = fitted(sine_by_argument, 0, 1)(x * x)
    result = torch.where(x.abs() < 1, near, x.sin() / x)
    return torch.where(x.isinf(), 0.0, result)


def airy_near(x):
    import mpmath

    return mpmath.airyai(x)


def airy_decay(v):
    """The amplitude of Airy's function where it falls, for v = 1/zeta and zeta = 2/3 x^(3/2): Abramowitz & Stegun 10.4.59."""
    import mpmath

    zeta = 1 / v
    x = (1.5 * zeta) ** (mpmath.mpf(2) / 3)
    return 2 * mpmath.sqrt(mpmath.pi) * mpmath.root(x, 4) * mpmath.exp(zeta) * mpmath.airyai(x)


def airy_wave(u):
    """The amplitudes of Airy's function where it swings, for u = 1/zeta^2: Abramowitz & Stegun 10.4.60."""
    import mpmath

    zeta = 1 / mpmath.sqrt(u)
    with mpmath.extradps(10):
        x = (1.5 * zeta) ** (mpmath.mpf(2) / 3)
        phase = zeta + mpmath.pi / 4
        ai, bi, scale = mpmath.airyai(-x), mpmath.airybi(-x), mpmath.sqrt(mpmath.pi) * mpmath.root(x, 4)
        sine, cosine = mpmath.sin(phase), mpmath.cos(phase)
        return scale * (ai * sine + bi * cosine), scale * (bi * sine - ai * cosine) * zeta


def airy_even(u):
    return airy_wave(u)[0]


def airy_odd(u):
    return airy_wave(u)[1]


@of_elements(aten.special_airy_ai.default)
def airy_ai(x):
    size = x.abs()
    zeta = 2 / 3 * size * size.sqrt()
    v = 1 / zeta
    least = 1.5 / FAR_OF_AIRY**1.5
    quarter = size.sqrt().sqrt()
    falling = fitted(airy_decay, 0, least)(v) * (-zeta).exp() / (quarter * (2 * math.sqrt(math.pi)))
    u = v * v
    even, odd = fitted(airy_even, 0, least**2)(u), fitted(airy_odd, 0, least**2)(u) * v
    sine, cosine = zeta.sin(), zeta.cos()
    swinging = (even * (sine + cosine) - odd * (cosine - sine)) / (quarter * math.sqrt(2 * math.pi))
    near = fitted(airy_near, -FAR_OF_AIRY, FAR_OF_AIRY)(x)
    result = torch.where(size < FAR_OF_AIRY, near, torch.where(x > 0, falling, swinging))
    return torch.where(x.isinf(), float("nan"), result)
