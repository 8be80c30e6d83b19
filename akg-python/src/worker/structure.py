"""The structure of what a module takes and returns: tensors in containers, beside Python values.

A structure is JSON that `akg_core::bundle::structure` reads: `{"tensor": 0}` is a tensor by its number, `{"argument": 0}` an
argument of the call that is returned as it is, `{"literal": "1.5"}` a value as Python text.
"""

import dataclasses
import functools
import inspect
import math

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

LITERALS = (type(None), bool, int, str)


class Leaf:
    """A tensor among the flattened arguments, in whose place it stands."""

    def __init__(self, position):
        self.position = position


def tensors_in(value):
    """The tensors of a value, in the order of its structure."""
    found = []
    describe(value, lambda tensor: found.append(tensor) or {})
    return found


def describe_arguments(forward, inputs):
    """The parameters of `forward` with the structure of what they are given; None if they do not say what they take."""
    leaves, tree = tree_flatten(inputs)
    placed = [Leaf(at) if isinstance(leaf, torch.Tensor) else leaf for at, leaf in enumerate(leaves)]
    try:
        signature = inspect.signature(forward)
        bound = signature.bind(*tree_unflatten(placed, tree))
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    parameters = signature.parameters
    named = [(stars.get(parameters[name].kind, "") + name, value) for name, value in bound.arguments.items()]
    return [[name, describe(value, None)] for name, value in named]


def returning_tensors(forward):
    """A function in the place of `forward` that returns the tensors alone, and a dictionary in which it leaves the `structure`
    that they were in."""
    kept = {"structure": None}

    @functools.wraps(forward)
    def flat(*arguments, **keywords):
        given = tree_flatten((arguments, keywords))[0]
        returned = forward(*arguments, **keywords)
        found = []

        def number(tensor):
            found.append(tensor)
            same = next((at for at, leaf in enumerate(given) if leaf is tensor), None)
            return {"tensor": len(found) - 1} if same is None else {"argument": same}

        kept["structure"] = describe(returned, number)
        return tuple(found)

    return flat, kept


def describe(value, tensor):
    """The structure of a value; `tensor` gives that of a tensor. What cannot be built again is `opaque`."""
    if isinstance(value, Leaf):
        return {"tensor": value.position}
    if isinstance(value, torch.Tensor) and tensor:
        return tensor(value)
    if type(value) in LITERALS or isinstance(value, torch.dtype):
        return {"literal": repr(value)}
    if type(value) is float:
        return {"literal": repr(value) if math.isfinite(value) else f'float("{value}")'}
    if type(value) in (list, tuple):
        return {type(value).__name__: [describe(item, tensor) for item in value]}
    if type(value) is dict:
        return {"dict": items_of(value, tensor)}
    made = describe_object(value, tensor)
    if made is not None:
        return made
    if tensor:
        for leaf in tree_flatten(value)[0]:
            if isinstance(leaf, torch.Tensor):
                tensor(leaf)
    return {"opaque": type(value).__name__}


def describe_object(value, tensor):
    """The structure of an object that its class builds again; None if it is no such object."""
    kind = type(value)
    if dataclasses.is_dataclass(value) and all(field.init for field in dataclasses.fields(value)):
        fields = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
        form, items = "fields", [[name, describe(item, tensor)] for name, item in fields]
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        form, items = "fields", [[name, describe(item, tensor)] for name, item in zip(value._fields, value)]
    elif isinstance(value, (tuple, list)):
        form, items = "sequence", [["", describe(item, tensor)] for item in value]
    elif isinstance(value, dict) and not hasattr(value, "default_factory"):
        form, items = "mapping", items_of(value, tensor)
    else:
        return None
    return {"object": {"module": kind.__module__, "class": kind.__qualname__, "form": form, "items": items}}


def items_of(mapping, tensor):
    return [[repr(key), describe(item, tensor)] for key, item in mapping.items()]
