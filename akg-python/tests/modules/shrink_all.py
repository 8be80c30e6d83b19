import torch
from torch import nn

batch = 64


class Model(nn.Module):
    def forward(self, x, mask):
        return x * mask


def get_inputs():
    x = torch.rand(batch, 3)
    return [x, torch.randint(0, 2, x.shape).bool()]


def get_init_inputs():
    return []
