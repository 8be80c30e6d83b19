"""Functions of tensors that somebody wrote, called to see what they compute."""

import torch

from akg_worker import tensors
from akg_worker.errors import CallError
from akg_worker.module import load, user_code

# The modules by their path: what they compile is kept.
_loaded = {}


def apply(message):
    """Calls a function once and writes what it returns."""
    path, name = message["path"], message["function"]
    module = _loaded.get(path)
    if module is None:
        module = _loaded[path] = load(path, {name: "function"})
    files = tensors.Files()
    # Copies: a function may write to what it is given, and kernels look at addresses.
    given = [files.tensor(a["tensor"]).clone() if "tensor" in a else a["number"] for a in message["arguments"]]
    with torch.no_grad(), user_code(f"`{name}`", path):
        returned = getattr(module, name)(*given)
    returned = list(returned) if isinstance(returned, (tuple, list)) else [returned]
    if len(returned) != len(message["outputs"]):
        raise CallError("invalid-input", f"`{name}` returned {len(returned)} values instead of {len(message['outputs'])}")
    for value in returned:
        if not isinstance(value, torch.Tensor):
            raise CallError("invalid-input", f"`{name}` returned a {type(value).__name__}, which is no tensor")
    slots = enumerate(zip(message["outputs"], returned))
    return {"types": [tensors.write(slot, f"output {at}", value) for at, (slot, value) in slots]}
