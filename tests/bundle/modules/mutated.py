import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(8))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, lists, rate):
        self.calls += 1
        self.mean.mul_(0.9).add_(x.mean(0), alpha=rate)
        lists[0].add_(x)
        lists[1].mul_(2.5)
        return lists[0], x * 2 - self.mean, self.calls.float()


def get_inputs():
    return [torch.randn(6, 8), [torch.randn(6, 8), torch.randn(6, 8)], 0.25]


def get_init_inputs():
    return []
