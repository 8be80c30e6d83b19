"""Sizes that are open: what PyTorch knows of them, as the text of akg's expressions."""

import sympy
import torch
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils._sympy import functions

from akg_worker.errors import CallError

# PyTorch's own functions of sizes.
FLOOR = tuple(getattr(functions, name) for name in ("FloorDiv", "CleanDiv") if hasattr(functions, name))
REMAINDER = tuple(getattr(functions, name) for name in ("Mod", "PythonMod") if hasattr(functions, name))
EXTREMES = {functions.Min: "min", functions.Max: "max", sympy.Min: "min", sympy.Max: "max"}


def dynamic_shapes(inputs, wishes):
    """The specification for `torch.export` of the dimensions that stay open: `wishes` has the position of a flattened
    argument, its dimension, and the symbol with its least and greatest value."""
    leaves, tree = tree_flatten(inputs)
    specification = [{} if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
    dims = {}
    for wish in wishes:
        symbol = wish["symbol"]
        if symbol not in dims:
            dims[symbol] = open_dim(wish)
        specification[wish["argument"]][wish["dim"]] = dims[symbol]
    return tuple(tree_unflatten(specification, tree))


def open_dim(wish):
    """The dimension of an open size, under a name that means nothing to sympy, as `N` does."""
    return torch.export.Dim(f"size_{wish['symbol']}", min=wish["low"], max=wish["high"])


def related(size, dims):
    """The specification of a size that follows from open ones, which `dims` has by their expressions."""
    expression = size.node.expr
    for symbol, dim in dims.items():
        slope, offset = expression.coeff(symbol, 1), expression.subs(symbol, 0)
        if slope.is_Integer and offset.is_Integer and slope > 0 and expression == slope * symbol + offset:
            dim = dim * int(slope) if slope != 1 else dim
            return dim + int(offset) if offset != 0 else dim
    return torch.export.Dim.AUTO


class Sizes:
    """The texts of sizes in one exported program."""

    def __init__(self):
        self._names = {}

    def name(self, size, symbol):
        """Says how the size of an input is called."""
        if isinstance(size, int):
            raise CallError("unsupported", f"`forward` works for one size of `{symbol}` only, which is {size}")
        self._names[size.node.expr] = symbol

    def value(self, size):
        """A size as an integer, or as text if it is open."""
        if isinstance(size, int):
            return size
        expression = size.node.expr
        if not expression.free_symbols <= set(self._names):
            raise CallError("unsupported", f"the size {size} depends on the values of tensors")
        return int(expression) if expression.is_Integer else self._text(expression)

    def _text(self, expression):
        if expression in self._names:
            return self._names[expression]
        if expression.is_Integer:
            return f"({expression})"
        parts = [self._text(part) for part in expression.args]
        if isinstance(expression, sympy.Add):
            return f"({' + '.join(parts)})"
        if isinstance(expression, sympy.Mul):
            return f"({' * '.join(parts)})"
        if isinstance(expression, sympy.Pow) and expression.exp.is_Integer and 0 < expression.exp <= 8:
            return f"({' * '.join(parts[:1] * int(expression.exp))})"
        if isinstance(expression, FLOOR):
            return f"({parts[0]} // {parts[1]})"
        if isinstance(expression, REMAINDER):
            return f"({parts[0]} % {parts[1]})"
        if type(expression) in EXTREMES and len(parts) == 2:
            return f"{EXTREMES[type(expression)]}({', '.join(parts)})"
        raise CallError("unsupported", f"`forward` computes the size `{expression}`, which is no expression of akg's")
