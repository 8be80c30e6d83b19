import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        return torch.fft.fft(x).abs()


def get_inputs():
    return [torch.randn(2, 8198)]


def get_init_inputs():
    return []
