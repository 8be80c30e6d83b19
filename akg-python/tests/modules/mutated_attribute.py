import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.randn(2, 3)
        self.mix = nn.Linear(6, 3)

    def forward(self, x):
        self.hidden = torch.tanh(self.mix(torch.cat((x, self.hidden), dim=1)))
        return self.hidden * 2


def get_inputs():
    return [torch.rand(2, 3)]


def get_init_inputs():
    return []
