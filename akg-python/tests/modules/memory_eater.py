import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        with torch.device("cpu"):
            self.weight = nn.Parameter(torch.ones(1 << 40))

    def forward(self, x):
        return x * self.weight


def get_inputs():
    return [torch.rand(2)]


def get_init_inputs():
    return []
