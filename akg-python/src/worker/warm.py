"""Imported for its effect: afterwards everything is loaded that the import of a module needs, some of it only at its use."""

import sys

import torch

from akg_worker.capture import MODES, capture
from akg_worker.decompose import exports
from akg_worker.graph import to_graph


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, x):
        return torch.relu(self.linear(x))


def get_inputs():
    return [torch.rand(2, 2)]


def get_init_inputs():
    return []


# In a mode that makes no tensors: no thread of PyTorch's must be there when this process is copied.
known = {"aten.linear.default", "aten.relu.default"}
captured = capture(sys.modules[__name__], MODES[0], shrink=None, wishes=(), operators=known)
to_graph(captured.program, "warm", __file__, wishes=())
exports()
