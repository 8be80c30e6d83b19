import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b, c, d, e, f, g):
        return a + b + c + d + e + f + g


def get_inputs():
    n = 3
    touched = torch.rand(n)
    touched.mul_(2)
    return [
        torch.rand(n),
        torch.randn((n,)),
        torch.randint(7, (n,)),
        torch.randint(low=-2, high=9, size=(n,)),
        torch.rand(n) * 2,
        touched,
        torch.rand(2, n).softmax(dim=1)[0],
    ]


def get_init_inputs():
    return []
