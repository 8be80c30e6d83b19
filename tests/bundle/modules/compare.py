"""Calls a module and the module that was exported for it, and looks for differences in what they return and change."""

import copy
import importlib.util
import sys

import torch
from torch.utils import _pytree


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


old, new = load("old", sys.argv[1]), load("new", sys.argv[2])


def construct(module, name):
    torch.manual_seed(3)
    return getattr(module, name)(*module.get_init_inputs())


def same(a, b, path="result"):
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and torch.allclose(a, b, 1e-5, 1e-5, equal_nan=True), (path, a, b)
        return
    assert type(a).__name__ == type(b).__name__, (path, type(a), type(b))
    if isinstance(a, dict):
        assert list(a) == list(b), (path, a, b)
        pairs = [(a[key], b[key]) for key in a]
    elif hasattr(a, "__dataclass_fields__"):
        pairs = [(getattr(a, name), getattr(b, name)) for name in a.__dataclass_fields__]
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), (path, a, b)
        pairs = list(zip(a, b))
    else:
        assert a == b, (path, a, b)
        return
    for at, (left, right) in enumerate(pairs):
        same(left, right, f"{path}[{at}]")


with torch.no_grad():
    model, exported = construct(old, "Model"), construct(new, "ModelNew")
    for call in range(3):
        torch.manual_seed(call)
        arguments = old.get_inputs()
        others = copy.deepcopy(arguments)
        results, made = model(*arguments), exported(*others)
        same(results, made)
        same(arguments, others, "arguments")
        same(dict(model.named_buffers()), dict(exported.named_buffers()), "buffers")
        mine = [at for at, leaf in enumerate(_pytree.tree_leaves(arguments)) if leaf is _pytree.tree_leaves(results)[0]]
        its = [at for at, leaf in enumerate(_pytree.tree_leaves(others)) if leaf is _pytree.tree_leaves(made)[0]]
        assert mine == its, "an argument that is returned is the caller's own"


def refuses(words, *arguments, **keywords):
    try:
        exported(*arguments, **keywords)
    except ValueError as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
