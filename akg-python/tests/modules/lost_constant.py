import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x):
        limit = torch.tensor(0.25, device=x.device)
        table = torch.tensor([1.0, -2.0, 3.0], device=x.device)
        return torch.min(x, limit) * table


def get_inputs():
    return [torch.rand(4, 3)]


def get_init_inputs():
    return []
