import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, y, i, j):
        signed = x.copysign(y), x.signbit(), torch.hypot(x, y), torch.fmax(x, y), torch.fmin(x, y)
        extreme = torch.nan_to_num(x / 0), torch.hypot(1e20 * x, 1e20 * y), torch.copysign(x, -0.0)
        logarithms = torch.logaddexp(x, y), torch.logaddexp2(x, y), torch.special.entr(x.abs()), torch.xlogy(x, y.abs())
        others = torch.heaviside(x, y), x.frac(), x.sinc(), x.deg2rad(), torch.logit(x.sigmoid()), x.float_power(2)
        shifts = i << 3, i >> 2, i << j, i >> j, torch.ldexp(x, j)
        return (*signed, *extreme, *logarithms, *others, *shifts)


def get_inputs():
    i = torch.tensor([-2147483648, -7, -1, 0, 1, 7, 12345], dtype=torch.int32)
    return [torch.randn(7), torch.randn(7), i, torch.arange(7, dtype=torch.int32)]


def get_init_inputs():
    return []
