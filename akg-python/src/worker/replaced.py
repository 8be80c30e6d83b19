"""Functions and classes that were there before a module was loaded, and what the module put in their places.

Names that libraries add later are none of this.
"""

import builtins
import operator
import os
import sys
import types

import torch

# Modules whose names are compared: those of Python that others use, PyTorch's for computing, and the worker's.
STANDARD = (
    "atexit builtins cmath collections contextlib copy ctypes faulthandler functools gc importlib inspect io itertools json locale"
    " math operator os pickle posix posixpath random re select shutil signal socket struct subprocess sys tempfile threading time"
    " traceback types warnings weakref"
).split()
PYTORCH = (
    "torch._C._nn torch._C._linalg torch._C._fft torch._C._special torch._ops torch._tensor torch._tensor_str torch.autograd"
    " torch.backends torch.cuda torch.fft torch.functional torch.library torch.linalg torch.nn torch.overrides torch.random"
    " torch.serialization torch.special torch.storage torch.utils._python_dispatch torch.utils._pytree torch.utils.dlpack"
).split()
ALONE = {"__main__", "numpy", "numpy.linalg", "torch", "torch._C", *STANDARD}
WITH_BELOW = ("akg_worker", *PYTORCH)

# Attributes of classes that do something when they are used.
ACTIVE = (staticmethod, classmethod, property)

# What a function does, which can be changed in its place.
BODIES = operator.attrgetter("__code__"), operator.attrgetter("__defaults__"), operator.attrgetter("__kwdefaults__")

# The bit of a class whose attributes can be set.
HEAP_TYPE = 1 << 9

# What TorchDynamo wraps when it is loaded or first used, and the directory and file of what wraps.
WRAPPED = {"torch.manual_seed", "torch.random.manual_seed", "torch.nn.Module.__init__", "torch.nn.Module.__setstate__"}
WRAPPERS = tuple(os.path.join(os.path.dirname(torch.__file__), name) for name in ("_dynamo" + os.sep, "_compile.py"))

# The class that PyTorch sets with its default type.
FOLLOWING = {"torch.Storage"}

# How kernels of an operator are named that change only what is computed for shapes.
SHAPES = "/Meta"


class Names:
    """The names of all that is compared, with what they stand for."""

    def __init__(self):
        self._modules = {name: module for name, module in sys.modules.items() if is_compared(name)}
        self._spaces, functions, classes = [], {}, set()
        for name, module in self._modules.items():
            space = vars(module)
            held = {
                key: value
                for key, value in space.items()
                if (callable(value) or isinstance(value, types.ModuleType)) and f"{name}.{key}" not in FOLLOWING
            }
            self._note(name, space, held, functions)
            for value in held.values():
                if isinstance(value, type) and value.__module__ == name and value.__flags__ & HEAP_TYPE:
                    classes.add(value)
        for kind in classes:
            space = vars(kind)
            held = {key: value for key, value in space.items() if callable(value) or isinstance(value, ACTIVE)}
            self._note(path_of(kind), space, held, functions)
        self._functions = list(functions.values())
        self._inherited = [(path_of(kind), vars(kind), set(vars(kind)), kind.__mro__[1:]) for kind in classes]
        self._shadows = {name for name, value in vars(builtins).items() if callable(value) and not name.startswith("_")}
        self._shadowed = {name: self._shadows & vars(module).keys() for name, module in self._modules.items()}
        self._bodies = [(read, list(map(read, self._functions))) for read in BODIES]
        self._kernels = set(torch.library._impls)

    def _note(self, where, space, held, functions):
        self._spaces.append((where, space, list(held), list(held.values())))
        for value in held.values():
            function = getattr(value, "__func__", value)
            if isinstance(function, types.FunctionType):
                functions[id(function)] = function

    def _hidden(self, len=len, any=any):
        """Says what new names hide: those of classes below, and those of Python where modules use them."""
        for where, space, before, bases in self._inherited:
            if len(space) != len(before):
                for name in space.keys() - before:
                    if any(callable(vars(base).get(name)) for base in bases):
                        yield f"`{where}.{name}` replaced"
        for name, module in self._modules.items():
            space = vars(module)
            for shadow in space.keys() & self._shadows:
                if shadow not in self._shadowed[name]:
                    yield f"`{shadow}` replaced in `{name}`"

    def differences(self, all=all, map=map, same=operator.is_, zip=zip, sorted=sorted):
        """Says what other objects stand for names."""
        found = []
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                found.append(f"the module `{name}` replaced")
        for where, space, names, values in self._spaces:
            if not all(map(same, values, map(space.get, names))):
                for name, value in zip(names, values):
                    now = space.get(name)
                    if now is not value and not is_wrapped(f"{where}.{name}", value, now):
                        found.append(f"`{where}.{name}` {'replaced' if name in space else 'removed'}")
        found += self._hidden()
        for read, bodies in self._bodies:
            if not all(map(same, bodies, map(read, self._functions))):
                changed = zip(self._functions, bodies)
                found += [f"`{path_of(each)}` with another body" for each, body in changed if read(each) is not body]
        for kernel in sorted(torch.library._impls.difference(self._kernels)):
            if kernel.startswith("aten/") and not kernel.endswith(SHAPES):
                found.append(f"a kernel for PyTorch's operator `{kernel}`")
        return found


def is_compared(name):
    return name in ALONE or any(name == each or name.startswith(f"{each}.") for each in WITH_BELOW)


def is_wrapped(name, before, now):
    """Whether TorchDynamo has put a function of its own around another, as it does for few."""
    code = getattr(now, "__code__", None)
    if name not in WRAPPED or code is None or not code.co_filename.startswith(WRAPPERS):
        return False
    return any(cell.cell_contents is before for cell in now.__closure__ or ())


def path_of(thing):
    """The name by which people know a class or function."""
    module = thing.__module__
    # Classes of layers and the like have their public names in the package.
    for public in ("torch", "torch.nn"):
        if getattr(sys.modules[public], thing.__qualname__, None) is thing:
            module = public
    return f"{module}.{thing.__qualname__}"
