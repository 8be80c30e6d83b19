import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = bytearray(1 << 45)

    def forward(self, x):
        return x


def get_inputs():
    return [torch.rand(2)]


def get_init_inputs():
    return []
