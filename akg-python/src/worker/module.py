"""A user's module in KernelBench's form: `Model`, `get_inputs` and `get_init_inputs` in one file."""

import contextlib
import os
import random
import sys
import types

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten

from akg_worker import tensors
from akg_worker.backward import with_cotangents
from akg_worker.errors import CallError, first_line, is_out_of_memory, needs_device, no_device, place
from akg_worker.held import places, reached, split

# Seeds are non-negative integers below this.
SEEDS = 2**63 - 1

REQUIRED = {"Model": "class", "get_inputs": "function", "get_init_inputs": "function"}


@contextlib.contextmanager
def user_code(what, path):
    """Turns whatever the user's code raises into an error that says what was running and where it stopped."""
    try:
        yield
    except CallError:
        raise
    except (Exception, SystemExit) as error:
        where = place(error, path)
        context = {"at": where} if where else {"file": path}
        if needs_device(error, where):
            raise no_device(what, **context) from error
        kind = "out-of-resources" if is_out_of_memory(error) else "invalid-input"
        raise CallError(kind, f"{what} raised {first_line(error)}", **context) from error


def load(path, required=REQUIRED):
    """Executes the file at `path` as a module of its own, which must define what is required."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        kind = "not-found" if isinstance(error, FileNotFoundError) else "io"
        raise CallError(kind, f"cannot read {path}: {error.strerror}") from error
    try:
        code = compile(source, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        at = f"{os.path.basename(path)}:{line}: {(getattr(error, 'text', None) or '').strip()}"
        raise CallError("invalid-input", f"syntax error: {getattr(error, 'msg', error)}", at=at) from None
    module = types.ModuleType("akg_user_module")
    module.__file__ = path
    sys.modules[module.__name__] = module
    directory = os.path.dirname(path)
    if directory not in sys.path:
        sys.path.append(directory)
    with user_code("the module", path):
        exec(code, module.__dict__)
    missing = [f"{kind} `{name}`" for name, kind in required.items() if not callable(getattr(module, name, None))]
    if missing:
        raise CallError("invalid-input", f"{os.path.basename(path)} does not define the {', the '.join(missing)}")
    return module


def seed_all(seed):
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def construct(module, seed=0):
    """A fresh `Model`, as its constructor leaves it (so in training mode)."""
    seed_all(seed)
    with user_code("`get_init_inputs`", module.__file__):
        arguments = module.get_init_inputs()
    with user_code("the constructor of `Model`", module.__file__):
        model = module.Model(*arguments)
    if not isinstance(model, torch.nn.Module):
        raise CallError("invalid-input", f"`Model` must be a torch.nn.Module, not {type(model).__name__}")
    return model


SIZED = (torch.rand, torch.randn, torch.randint, torch.zeros, torch.ones, torch.empty, torch.full)


class InputObserver(TorchFunctionMode):
    """While `get_inputs` runs, notes which tensors come straight from a generator and makes leading dimensions smaller.

    `shrink` is `{"halvings", "leading", "only_first"}`: factory calls whose leading dimension is `leading` make it
    `leading >> halvings`, all of them or only the first.
    """

    def __init__(self, shrink=None):
        super().__init__()
        self._shrink = shrink
        self._made = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func not in SIZED:
            return func(*args, **kwargs)
        if self._shrink:
            args, kwargs = self._smaller(args, kwargs)
        made = func(*args, **kwargs)
        generator = generator_of(func, args, kwargs)
        if generator:
            self._made[id(made)] = (made, made._version, generator)
        return made

    def generator(self, tensor):
        """How `tensor` was made, if nothing happened to it afterwards."""
        made, version, generator = self._made.get(id(tensor), (None, 0, None))
        untouched = made is tensor and tensor._version == version
        return generator if untouched else {"kind": "captured"}

    def _smaller(self, args, kwargs):
        def lead(size):
            return len(size) > 0 and size[0] == self._shrink["leading"]

        def cut(size):
            if self._shrink["only_first"]:
                self._shrink = None
                return (leading, *size[1:])
            return (leading, *size[1:])

        leading = self._shrink["leading"] >> self._shrink["halvings"]
        if "size" in kwargs:
            size = kwargs["size"]
            return (args, {**kwargs, "size": cut(size)}) if lead(size) else (args, kwargs)
        for at, value in enumerate(args):
            if isinstance(value, (tuple, list)):
                return ((*args[:at], cut(value), *args[at + 1 :]), kwargs) if lead(value) else (args, kwargs)
        return (cut(args), kwargs) if lead(args) else (args, kwargs)


def generator_of(func, args, kwargs):
    if func is torch.rand:
        return {"kind": "uniform01"}
    if func is torch.randn:
        return {"kind": "normal"}
    if func is torch.randint:
        bounds = [value for value in args if isinstance(value, int)]
        high = kwargs.get("high", bounds[-1] if bounds else None)
        low = kwargs.get("low", bounds[0] if len(bounds) > 1 or "high" in kwargs and bounds else 0)
        return {"kind": "randint", "low": int(low), "high": int(high)}
    return None


def make_inputs(module, seed=0, shrink=None):
    """The arguments of `forward` and the observer that watched `get_inputs` make them."""
    seed_all(seed)
    observer = InputObserver(dict(shrink) if shrink else None)
    with observer, user_code("`get_inputs`", module.__file__):
        inputs = module.get_inputs()
    if not isinstance(inputs, (list, tuple)):
        raise CallError("invalid-input", f"`get_inputs` must return a list, not {type(inputs).__name__}")
    return tuple(inputs), observer


def argument_structure(module, shrink):
    """The arguments of `forward` with tensors that have no storage, where `get_inputs` allows that."""
    try:
        with torch.device("meta"):
            return make_inputs(module, shrink=shrink)[0]
    except CallError:
        return make_inputs(module, shrink=shrink)[0]


def attribute(model, path):
    """The tensor at a path below `model`, a complex one as pairs of real numbers."""
    tensor = reached(model, path)
    return torch.view_as_real(tensor) if isinstance(tensor, torch.Tensor) and tensor.is_complex() else tensor


class Attributes:
    """The tensors of a model by their paths. A tensor that stands in several places is one."""

    def __init__(self, model):
        self._model = model
        self._places = {}
        for place in places(model) if isinstance(model, torch.nn.Module) else []:
            self._places.setdefault(id(place.get()), []).append(place)
        self._others = {}

    def get(self, path):
        return attribute(self._model, path)

    def set(self, path, tensor):
        """Replaces the tensor at a path, and wherever else the model held it from the beginning; a parameter stays the same object,
        so that ties survive."""
        before = reached(self._model, path)
        if path not in self._others:
            self._others[path] = self._places.get(id(before), [])
        if before.is_complex():
            tensor = torch.view_as_complex(tensor)
        if isinstance(before, torch.nn.Parameter):
            before.data = tensor
            return
        holder, name, key = split(path)
        holder = reached(self._model, holder)
        if name is None:
            holder[key] = tensor
        else:
            setattr(holder, name, tensor)
        for place in self._others[path]:
            place.set(tensor)


def materialize(message):
    """Makes the real tensors behind graph inputs and writes each to its slot of `outputs`."""
    module = load(message["path"])
    wanted = message["inputs"]
    model, arguments = None, []
    with torch.no_grad():
        if any("attribute" in wish["source"] for wish in wanted):
            model = construct(module, message["weights_seed"])
        if any("argument" in wish["source"] for wish in wanted):
            made = make_inputs(module, message["inputs_seed"], message["shrink"])[0]
            arguments = tree_flatten(with_cotangents(made, message["cotangents"]))[0]
    types = []
    for wish, slot in zip(wanted, message["outputs"]):
        source = wish["source"]
        if "attribute" in source:
            made = attribute(model, source["attribute"])
        elif "seed" in source:
            made = torch.randint(SEEDS, (), generator=torch.Generator().manual_seed(message["inputs_seed"]))
        else:
            made, arguments[source["argument"]] = arguments[source["argument"]], None
        if wish.get("layout"):
            made = tensors.storage_of(made, wish["layout"])
        types.append(tensors.write(slot, wish["name"], made))
    return {"types": types}
