"""Imports only if the process that it was copied from is as it should be and stays closed to it."""

import os

import torch

parent = f"/proc/{os.getppid()}"
assert len(os.listdir(f"{parent}/task")) == 1, "a copy lacks the other threads of its template"
assert not os.listdir("."), f"there are {os.listdir()}"
for secret in ("mem", "environ", "fd/0"):
    try:
        open(f"{parent}/{secret}", "rb")
    except OSError:
        continue
    raise RuntimeError(f"{secret} of the parent can be opened")


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.rand(2, 3)]


def get_init_inputs():
    return []
