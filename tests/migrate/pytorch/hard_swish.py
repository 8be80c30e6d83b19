"""x * relu6(x + 3) / 6."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x * torch.clamp(x + 3, 0, 6) / 6


def get_inputs():
    return [torch.randn(25, 40) * 3]


def get_init_inputs():
    return []
