import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3).cuda()

    def forward(self, x):
        return self.layer(x)


def get_inputs():
    return [torch.randn(3).cuda()]


def get_init_inputs():
    return []
