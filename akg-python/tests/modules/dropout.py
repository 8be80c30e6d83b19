import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(p=0.0)

    def forward(self, x):
        return self.drop(torch.exp(x))


def get_inputs():
    return [torch.rand(3, 2)]


def get_init_inputs():
    return []
