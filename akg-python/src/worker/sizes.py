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
REALS = {
    functions.ToFloat: lambda size: size,
    functions.FloatTrueDiv: lambda a, b: a / b,
    functions.IntTrueDiv: lambda a, b: a / b,
    functions.FloatPow: lambda a, b: a**b,
}


def dynamic_shapes(inputs, wishes):
    """The specification for `torch.export` of the dimensions that stay open: `wishes` has the position of a flattened
    argument, its dimension, and the symbol with its least and greatest value and what it is multiplied by."""
    leaves, tree = tree_flatten(inputs)
    specification = [{} if isinstance(leaf, torch.Tensor) else None for leaf in leaves]
    for wish in wishes:
        multiple, high = wish["multiple"], wish["high"]
        specification[wish["argument"]][wish["dim"]] = torch.export.Dim.DYNAMIC(
            min=wish["low"] * multiple, max=None if high is None else high * multiple
        )
    return tuple(tree_unflatten(specification, tree))


def symbol_of(name):
    """The symbol of akg's for an open size, which is at least 1."""
    return sympy.Symbol(name, integer=True, positive=True)


class Sizes:
    """The sizes in one exported program as expressions of akg's symbols. `examples` are the values of these in the example
    inputs."""

    def __init__(self):
        self._values = {}  # PyTorch's symbols -> expressions
        self.examples = {}

    def name_arguments(self, arguments, wishes):
        """Says how the open sizes of tensors are called."""
        for wish in wishes:
            size, name = arguments[wish["argument"]].shape[wish["dim"]], wish["symbol"]
            self.name(size, wish["multiple"] * symbol_of(name), name)
            self.examples[symbol_of(name)] = example(size) // wish["multiple"]

    def name(self, size, value, name):
        """Says which expression a size of an input is."""
        if isinstance(size, int):
            raise CallError("unsupported", f"`forward` works for one size of `{name}` only, which is {size}")
        expression = size.node.expr
        known = self._values.setdefault(expression, value) if expression.is_Symbol else self.of(expression)
        if known != value:
            raise CallError("unsupported", f"`forward` needs the size `{value}` to be `{known}`; leave both open as that")

    def knows(self, expression):
        """Whether an expression of PyTorch's is one of open sizes."""
        return expression.free_symbols <= set(self._values)

    def of(self, expression):
        """An expression of PyTorch's as one of akg's symbols."""
        if not self.knows(expression):
            raise CallError("unsupported", f"the size {expression} depends on the values of tensors")
        return expression.xreplace(self._values)

    def value(self, size):
        """A size as an integer, or as text if it is open."""
        if isinstance(size, int):
            return size
        expression = self.of(size.node.expr)
        return int(expression) if expression.is_Integer else self.text(expression)

    def real(self, number):
        """A number that PyTorch computes from sizes, in terms of sympy's own operations."""
        expression = self.of(number.node.expr)
        for function, plain in REALS.items():
            expression = expression.replace(function, plain)
        return sympy.nsimplify(expression, rational=True).simplify()

    def text(self, expression):
        """An expression as akg writes it."""
        if expression.is_Symbol:
            return expression.name
        if expression.is_Integer:
            return f"({expression})"
        parts = [self.text(part) for part in expression.args]
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


def example(size):
    """A size, or the one with which an open size was exported."""
    return size if isinstance(size, int) else int(size.node.hint)
