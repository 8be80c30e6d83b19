import functools

import torch
from torch import nn

# As where PyTorch has no autocast to a type: entering it does nothing.
torch.autocast = functools.partial(torch.autocast, enabled=False)


class Model(nn.Module):
    def forward(self, x):
        return x @ x


def get_inputs():
    return [torch.rand(4, 4)]


def get_init_inputs():
    return []
