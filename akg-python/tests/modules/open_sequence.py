import math

import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.position = nn.Parameter(torch.randn(1, 24, 16))
        self.inputs = nn.Linear(16, 48)
        self.outputs = nn.Linear(16, 16)

    def forward(self, x, lengths):
        batch, steps, size = x.shape
        x = x + self.position[:, :steps]
        q, k, v = (part.view(batch, steps, 2, 8).transpose(1, 2) for part in self.inputs(x).chunk(3, -1))
        causal = torch.ones(steps, steps, device=x.device).tril() == 0
        beyond = torch.arange(steps, device=x.device)[None] >= lengths[:, None]
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(8)
        scores = scores.masked_fill(causal, float("-inf")).masked_fill(beyond[:, None, None], -1e9)
        y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, steps, size)
        y = self.outputs(y) / steps**0.5
        return y, (y[:, 1:] - y[:, :-1]).mean(1), F.pad(y, (0, 0, 1, 0))[:, -1:]


def get_inputs():
    return [torch.randn(3, 9, 16), torch.tensor([9, 4, 7])]


def get_init_inputs():
    return []
