import collections
import dataclasses
from typing import NamedTuple, Optional

import torch
import torch.nn as nn


@dataclasses.dataclass
class Output:
    hidden: torch.Tensor
    extra: Optional[torch.Tensor] = None


class Pair(NamedTuple):
    low: torch.Tensor
    high: torch.Tensor


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(6, 4)

    def forward(self, x, mask: Optional[torch.Tensor] = None, scale: float = 1.5, parts={}):
        h = torch.tanh(self.map(x)) * scale
        if mask is not None:
            h = h * mask
        h = h + parts["shift"][0] ** parts["power"]
        ordered = collections.OrderedDict(first=h.sum(1), last=[h * 2, "text", 7])
        return {
            "output": Output(h + 1),
            "pair": Pair(h - 1, h.abs()),
            3: (None, ordered),
            "extremes": h.max(1),
        }


def get_inputs():
    return [torch.randn(5, 6), None, 0.5, {"shift": [torch.randn(4)], "power": 2}]


def get_init_inputs():
    return []
