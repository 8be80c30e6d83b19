import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return x.add_(1).sum(dim=0)


def get_inputs():
    return [torch.rand(2, 3)]


def get_init_inputs():
    return []
