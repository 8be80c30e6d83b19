"""The product of a transposed matrix."""

import torch
from torch import nn


class Model(nn.Module):
    def forward(self, a, b):
        return a.t() @ b


def get_inputs():
    return [torch.randn(30, 20), torch.randn(30, 24)]


def get_init_inputs():
    return []
