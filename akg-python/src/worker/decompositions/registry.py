"""The decompositions of akg's own, by operator: each file of this directory registers its family."""

import functools

import torch

aten = torch.ops.aten
prims = torch.ops.prims

OWN = {}

# Operators that akg may know and that are still decomposed where their first operand is of some types.
TYPES = {}


def of(*ops, where=None):
    """Registers a function as the decomposition of operators, or of those of that name, which PyTorch may define later.

    With `where`, a predicate of the type of the first operand, it applies to those types only, even if akg knows the
    operator for others.
    """

    def register(function):
        chosen = function if where is None else only_where(where, function)
        for op in ops:
            OWN[str(op)] = chosen
            if where is not None:
                TYPES[str(op)] = where
        return function

    return register


def only_where(where, function):
    """A decomposition that leaves a call as it is unless `where` accepts the type of its first operand."""

    @functools.wraps(function)
    def chosen(operand, *arguments, **named):
        return function(operand, *arguments, **named) if where(operand.dtype) else NotImplemented

    return chosen


def applies(op, operand):
    """Whether there is a decomposition for this type of the first operand, a tensor, even if akg knows the operator."""
    return str(op) in TYPES and isinstance(operand, torch.Tensor) and TYPES[str(op)](operand.dtype)


def is_integral(dtype):
    return not dtype.is_floating_point and not dtype.is_complex
