"""A table looked up by indices."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(25, 12)

    def forward(self, ids):
        return self.table(ids)


def get_inputs():
    return [torch.randint(0, 25, (18,))]


def get_init_inputs():
    return []
