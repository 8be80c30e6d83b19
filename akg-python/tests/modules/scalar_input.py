import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, s, options):
        return x * s + options["offset"] ** options["power"]


def get_inputs():
    return [torch.rand(3, 4), 3.5, {"offset": torch.rand(4), "power": 2}]


def get_init_inputs():
    return []
