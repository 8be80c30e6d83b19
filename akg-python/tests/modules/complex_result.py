import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x)


def get_inputs():
    return [torch.randn(2, 8)]


def get_init_inputs():
    return []
