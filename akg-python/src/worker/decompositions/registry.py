"""The decompositions of akg's own, by operator: each file of this directory registers its family."""

import torch

aten = torch.ops.aten
prims = torch.ops.prims

OWN = {}


def of(*ops):
    """Registers a function as the decomposition of operators."""

    def register(function):
        for op in ops:
            OWN[op] = function
        return function

    return register
