"""The sizes for which an exported program holds: PyTorch checks some in the program, and notes the ranges of others."""

import itertools

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from akg_worker.errors import CallError
from akg_worker.sizes import symbol_of

# The greatest size for which a check is tried; beyond it, nothing is claimed.
MOST_TRIED = 1 << 14
# PyTorch takes every open size for at least this, which says nothing of the module.
ASSUMED = 2

check = torch.ops.aten._assert_scalar.default


def ranges(program, sizes, wishes):
    """For each open size its name, its least value, and its greatest or None, for which all that is checked holds."""
    found, conditions = [], sorted({*checks(program, sizes), *limits(program, sizes)} - {sympy.true}, key=str)
    for wish in {wish["symbol"]: wish for wish in wishes}.values():
        symbol = symbol_of(wish["symbol"])
        low, high = wish["low"], wish["high"]
        own = [c for c in conditions if symbol in c.free_symbols]
        if own:
            holds = predicate(own, symbol, sizes.examples)
            size = sizes.examples[symbol]
            if not holds(size):
                raise refusal(own, symbol, sizes.examples)
            tried = high or max(MOST_TRIED, size)
            first = next((v for v in range(size - 1, low - 1, -1) if not holds(v)), low - 1) + 1
            last = next((v for v in range(size + 1, tried + 1) if not holds(v)), tried + 1) - 1
            if first == last and low != high:
                raise narrow(wish, size, holds)
            low, high = first, last
        found.append({"symbol": wish["symbol"], "low": low, "high": high})
    at_corners(conditions, found, sizes.examples)
    return found


def checks(program, sizes):
    """What the program checks of its sizes when it is called."""
    arguments = [node.args[0] for node in program.graph.nodes if node.target is check]
    values = [argument.meta.get("val") for argument in arguments if isinstance(argument, torch.fx.Node)]
    return [sizes.of(value.node.expr) for value in values if isinstance(value, torch.SymBool)]


def limits(program, sizes):
    """The ranges that PyTorch noted, as conditions."""
    for expression, bounds in program.range_constraints.items():
        if not sizes.knows(expression):
            continue  # of an argument that is not dense, or of what values decide
        value = sizes.of(expression)
        if bounds.lower > ASSUMED:
            yield value >= bounds.lower
        if bounds.upper.is_Integer:
            yield value <= bounds.upper


def predicate(conditions, symbol, examples):
    """Whether the conditions hold for a value of a symbol, with the others as in the example inputs."""
    others = {other: value for other, value in examples.items() if other != symbol}
    text = PythonPrinter().doprint(sympy.And(*(condition.xreplace(others) for condition in conditions)))
    return eval(f"lambda {symbol.name}: {text}")  # an expression of PyTorch's, with no names but the symbol


def narrow(wish, size, holds):
    """The error about a size with a neighbour on neither side."""
    name = wish["symbol"]
    steps = (step for step in range(2, size + 1) if size % step == 0 and holds(size + step))
    step = next(steps, None)
    if step is None:
        return CallError("unsupported", f"`forward` works for one size of `{name}` only, which is {size}")
    return CallError(
        "unsupported",
        f"`forward` works only if the size `{name}` is a multiple of {step}; leave open how many times: `{step * wish['multiple']}*{name}`",
    )


def at_corners(conditions, found, examples):
    """Refuses conditions on several sizes that do not hold for all combinations of them."""
    for condition in conditions:
        symbols = sorted(condition.free_symbols, key=str)
        if len(symbols) < 2:
            continue
        ends = {symbol_of(f["symbol"]): (f["low"], f["high"] or MOST_TRIED) for f in found}
        for values in itertools.product(*(ends[symbol] for symbol in symbols)):
            if condition.xreplace(dict(zip(symbols, map(sympy.Integer, values)))) != sympy.true:
                raise refusal([condition], symbols[0], dict(zip(symbols, values)))


def refusal(conditions, symbol, values):
    """The error about a condition that does not hold for some sizes."""
    text = " and ".join(str(condition) for condition in conditions if symbol in condition.free_symbols)
    given = ", ".join(f"{name} = {value}" for name, value in values.items())
    return CallError("unsupported", f"`forward` works only if {text}, which does not hold for {given}; leave fewer sizes open")
