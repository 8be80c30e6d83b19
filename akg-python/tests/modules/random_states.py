import torch
from torch import nn


class Model(nn.Module):
    """States drawn at random, unless they are given."""

    def forward(self, x, state=None):
        if state is None:
            state = torch.randn(x.size(0), 100, device=x.device)
        return x + state * 2 + torch.rand_like(x)


def get_inputs():
    return [torch.zeros(60, 100)]


def get_init_inputs():
    return []
