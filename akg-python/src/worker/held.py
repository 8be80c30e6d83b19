"""Tensors that a module holds beside its parameters and buffers: in attributes, and in lists, dicts and objects that are attributes.

Export knows parameters and buffers only. Here every such tensor is the content of one of these: of the one that it is, or of a buffer
that is made for it. So a cache of keys in an object of the module's own is a state like any other.
"""

import enum
import functools
import re
import types
from collections import deque

import torch

# What a module has before anybody gives it attributes.
OWN = frozenset(vars(torch.nn.Module()))
# Objects that hold no tensors of a module, or are too large to be searched.
OPAQUE = (type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType, enum.Enum, torch.nn.Module)
# Objects that are looked into at most.
MOST = 100_000


class Place:
    """A place of a tensor: an entry of a list or dict, or of the attributes of an object, at a path below `owner`, a module with the
    path `prefix`."""

    def __init__(self, prefix, owner, path, holder, key):
        self.owner = owner
        self.path = path
        self.whole_path = f"{prefix}.{path}" if prefix else path
        self._holder = holder
        self._key = key

    @property
    def is_attribute(self):
        """Returns true if the tensor is an attribute of the module itself."""
        return self._holder is vars(self.owner)

    def get(self):
        return self._holder[self._key]

    def set(self, tensor):
        self._holder[self._key] = tensor

    def remove(self):
        del self._holder[self._key]


def places(model):
    """The places of all tensors that a model holds beside its parameters and buffers."""
    found, seen = [], set()
    for prefix, owner in model.named_modules():
        pending = deque((name, vars(owner), name) for name in vars(owner) if name not in OWN)
        while pending and len(seen) < MOST:
            path, holder, key = pending.popleft()
            value = holder[key]
            if isinstance(value, torch.Tensor):
                if not isinstance(holder, tuple):
                    found.append(Place(prefix, owner, path, holder, key))
            elif id(value) not in seen:
                seen.add(id(value))
                pending += [(path + step, holder, key) for step, holder, key in entries(value)]
    return found


def entries(value):
    """How a path goes on to each value that a list, tuple, dict or object holds; its container there, and its key."""
    if isinstance(value, OPAQUE):
        return []
    if isinstance(value, dict):
        keys = [key for key in value if isinstance(key, int) or isinstance(key, str) and not set(key) & set(".[]'\\\n")]
        return [(f"[{key!r}]", value, key) for key in keys]
    if isinstance(value, (list, tuple)):
        return [(f"[{key}]", value, key) for key in range(len(value))]
    return [(f".{key}", vars(value), key) for key in getattr(value, "__dict__", {})]


STEP = re.compile(r"\['([^']*)'\]|\[(\d+)\]|([^.\[\]]+)")


def split(path):
    """The path of what holds a tensor, and how it holds it: the name of an attribute, or the key of an entry and None."""
    *_, last = STEP.finditer(path)
    key, index, name = last.groups()
    before = path[: last.start()].removesuffix(".")
    return before, name, key if index is None else int(index)


def reached(owner, path):
    """What stands at a path below `owner`."""
    for key, index, name in STEP.findall(path):
        owner = getattr(owner, name) if name else owner[int(index) if index else key]
    return owner


def name_of(path):
    """The name that a graph has for the tensor at a path."""
    return re.sub(r"\W+", "_", path).strip("_") if "[" in path else re.sub(r"\W", "_", path)


class Held:
    """The tensors that a model holds, each as one of its parameters or buffers."""

    def __init__(self, model):
        known = {}
        for prefix, owner in model.named_modules():
            for name, tensor in (*owner._parameters.items(), *owner._buffers.items()):
                if tensor is not None:
                    known.setdefault(id(tensor), (owner, name))
        self._followed = []
        self._paths = {}
        for place in places(model):
            tensor = place.get()
            if id(tensor) not in known:
                name = place.path if place.is_attribute else name_of(place.path)
                while not place.is_attribute and hasattr(place.owner, name):
                    name += "_"
                if place.is_attribute:
                    place.remove()
                place.owner.register_buffer(name, tensor, persistent=False)
                known[id(tensor)] = (place.owner, name)
                self._paths[place.whole_path.removesuffix(place.path) + name] = place.whole_path
            if not place.is_attribute or place.path in vars(place.owner):
                self._followed.append((place, *known[id(tensor)]))

    def path(self, name):
        """The path at which the tensor of a parameter or buffer stands in the model as its constructor leaves it."""
        return self._paths.get(name, name)

    def following(self, forward):
        """`forward`, with what the parameters and buffers have at each call in the places of the tensors that are these."""

        @functools.wraps(forward)
        def call(*arguments, **keywords):
            before = [place.get() for place, _, _ in self._followed]
            given = [getattr(owner, name) for _, owner, name in self._followed]
            for (place, _, _), tensor in zip(self._followed, given):
                place.set(tensor)
            try:
                results = forward(*arguments, **keywords)
                for (place, owner, name), tensor in zip(self._followed, given):
                    if place.get() is not tensor:
                        setattr(owner, name, place.get())
                return results
            finally:
                for (place, _, _), tensor in zip(self._followed, before):
                    place.set(tensor)

        return call
