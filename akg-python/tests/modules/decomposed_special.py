import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, n, k):
        special, inside, size = torch.special, x.tanh(), x.abs() + 0.5
        gamma = size.lgamma(), x.digamma(), size.polygamma(1), torch.igamma(size, size + 1), size.mvlgamma(2)
        errors = inside.erfinv(), special.erfcx(x), special.ndtri(inside.abs()), special.log_ndtr(x)
        bessel = x.i0(), special.i0e(x), special.i1(x), special.modified_bessel_k0(size)
        degrees = special.chebyshev_polynomial_t(inside, 5), special.hermite_polynomial_h(x, 3)
        numbers = n.gcd(k), n.lcm(k), *x.frexp(), x.ldexp(n), x.round(decimals=2), x.angle()
        order = *n.mode(1), *x.nanmedian(1), x.nanmedian()
        return (*gamma, *errors, *bessel, *degrees, *numbers, *order, special.zeta(size + 1, 2.0))


def get_inputs():
    return [torch.randn(4, 6) * 2, torch.randint(1, 12, (4, 6)), torch.randint(1, 12, (6,))]


def get_init_inputs():
    return []
