import torch
from torch import nn


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Model(nn.Module):
    def forward(self, x):
        return Straight.apply(x)


def get_inputs():
    return [torch.randn(8, 16)]


def get_init_inputs():
    return []
