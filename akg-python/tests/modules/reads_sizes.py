import torch
from torch import nn


class Model(nn.Module):
    """Sizes that the module reads, computes with and returns."""

    def forward(self, x):
        batch, length, width = x.shape
        rows = x.view(batch * length, width)
        parts = rows.reshape(batch, length, 2, width // 2).transpose(1, 2)
        return parts / length, torch.full((batch + 1,), 2.0), batch * length


def get_inputs():
    return [torch.randn(3, 5, 6)]


def get_init_inputs():
    return []
