"""The decompositions of akg's own, by operator: each file of this directory registers its family."""

import torch

aten = torch.ops.aten
prims = torch.ops.prims

OWN = {}


def of(*ops):
    """Registers a function as the decomposition of operators, or of those of that name, which PyTorch may define later."""

    def register(function):
        for op in ops:
            OWN[str(op)] = function
        return function

    return register
