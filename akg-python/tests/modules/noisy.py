import os
import sys

import torch
from torch import nn

print("printed while loading")
os.write(1, b"\xff\xff\xff\xff written to descriptor 1")


class Model(nn.Module):
    def forward(self, x):
        print("printed in forward", flush=True)
        return x + len(sys.stdin.read())


def get_inputs():
    return [torch.rand(2)]


def get_init_inputs():
    return []
