import torch
from torch import nn

FACTORS = {"highest": 1.0, "high": 2.0, "medium": 4.0}


class Model(nn.Module):
    """Shows to what PyTorch is set, and changes it."""

    def forward(self, x):
        factor = FACTORS[torch.get_float32_matmul_precision()]
        torch.set_float32_matmul_precision("medium")
        return x * factor


def get_inputs():
    return [torch.rand(4, 8)]


def get_init_inputs():
    return []
