import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return F.dropout(x * 1.5, 0.25)


def get_inputs():
    return [torch.randn(8, 16)]


def get_init_inputs():
    return []
