"""A gated linear unit."""

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return F.glu(x, dim=-1)


def get_inputs():
    return [torch.randn(16, 40)]


def get_init_inputs():
    return []
