"""A candidate that is a module: `ModelNew`, called on tensors that the judge chose.

The module's code shares this process and may do to it what it likes, so nothing that is said here can make a candidate pass.
What binds it is `run`: before the judge's clock stops, the answer has a digest of every output, which the judge compares
with the outputs that it takes later. What was not computed by then cannot be known by then.
"""

import contextlib
import ctypes
import faulthandler
import importlib
import inspect
import re

import torch

from akg_worker import baseline, tensors
from akg_worker.errors import CallError
from akg_worker.module import attribute, load, set_attribute, user_code
from akg_worker.structure import tensors_in

_candidate = None


def open_module(message):
    """Loads a module and constructs its class."""
    global _candidate
    # Says where it died.
    faulthandler.enable()
    torch.set_num_threads(message["threads"])
    device = torch.device(message["device"])
    if device.type == "cuda":
        torch.cuda.set_device(device.index or 0)
    if message["idle"]:
        leave_out_kernels()
    _candidate = Candidate(message, device)
    return {}


def put(message):
    """Maps the inputs of a placement, slot by slot. On a device they are copied, to the addresses that belong to the placement."""
    _candidate.put(message["placement"], message["slots"], message["fresh"], message["known"])
    return {}


def flush(message):
    """Empties the caches of a device. A candidate that leaves that out is measured with warm ones."""
    baseline.flush(message["bytes"], _candidate.device)
    return {}


def run(message):
    """Calls the module on these slots, and gives digests of what the last call returned. Without a call it only does the
    latter."""
    with torch.no_grad():
        return {"digests": _candidate.run(message["placement"], message["bind"], message["slots"])}


def take(message):
    """Writes what was returned last to the judge's memory."""
    return _candidate.take(message["outputs"])


CALLS = {"open": open_module, "put": put, "flush": flush, "run": run, "take": take}


class Candidate:
    def __init__(self, message, device):
        path, name = message["path"], message["class"]
        module = load(path, {name: "class"})
        initial = getattr(module, "get_init_inputs", list)
        with user_code("`get_init_inputs`", path):
            initial = initial()
        with torch.no_grad(), user_code(f"the constructor of `{name}`", path):
            model = getattr(module, name)(*initial)
            self._model = model.to(device) if isinstance(model, torch.nn.Module) else model
        if not callable(self._model):
            raise CallError("invalid-input", f"`{name}` must be a torch.nn.Module, or have a method `__call__`")
        self._path, self._name, self.device = path, name, device
        self._inputs, self._states = message["inputs"], message["states"]
        self._places = {name: place for name, place in places(self._model).items() if name in self._inputs}
        self._check_arguments()
        # The slots of each placement: their tensors, and what these are copies of.
        self._placed = {}
        # The placement, the number of the bind, the module's own tensors that slots do not share, and what was returned last, for
        # which slot.
        self._bound, self._number, self._own, self._results, self._slot = None, None, [], [], 0

    def _check_arguments(self):
        arguments = [name for name in self._inputs if name not in self._places]
        forward = getattr(self._model, "forward", self._model)
        try:
            inspect.signature(forward).bind(*arguments)
        except TypeError as error:
            own = ", ".join(places(self._model)) or "none"
            message = (
                f"`forward` of `{self._name}` is called with the inputs that are named like none of its tensors ({own}), in their "
                f"order: {', '.join(arguments) or 'none'}; but {error}"
            )
            raise CallError("invalid-input", message) from None
        except ValueError:
            pass  # it does not say what it takes

    def put(self, placement, slots, fresh, known):
        if fresh:
            self._placed.clear()
        self._number, self._results = None, []
        # What the judge wrote, and what the module gets: its writes stay in this process, where they are found later. Slots
        # share what has the same place.
        files, own = tensors.Files(read_only=True), tensors.Files()
        before = self._placed.get(placement, []) if known else []
        placed, made = [], {}
        for number, descriptors in enumerate(slots):
            pair = {}, {}
            for name, descriptor in zip(self._inputs, descriptors):
                key = name, descriptor["offset"]
                if key not in made:
                    given = files.tensor(descriptor)
                    if self.device.type == "cpu":
                        made[key] = own.tensor(descriptor), given
                    elif before:
                        made[key] = before[number][0][name].copy_(given), given
                    else:
                        made[key] = given.to(self.device, copy=True), given
                pair[0][name], pair[1][name] = made[key]
            placed.append(pair)
        own.touch()
        self._placed[placement] = placed

    def run(self, placement, number, slots):
        if self._number != number:
            self._number = number
            self._bind(placement)
        for slot in slots:
            self._results = self._call(slot)
            self._slot = slot
        digests = [digest(result) for result in self._results]
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return digests

    def _bind(self, placement):
        """Gives the module its own tensors. Those that differ between slots are given again with each call."""
        self._bound, self._results = placement, []
        first, *others = [placed for placed, _ in self._placed[placement]]
        names = [name for name in self._places if name not in self._states]
        for name in names:
            set_attribute(self._model, self._places[name], first[name])
        self._own = [name for name in names if any(other[name] is not first[name] for other in others)]

    def _call(self, slot):
        placed, _ = self._placed[self._bound][slot]
        for name in self._own:
            set_attribute(self._model, self._places[name], placed[name])
        # Every call begins with the state that was given, which it may write to.
        states = {name: placed[name].clone() for name in self._states}
        for name in self._states:
            if name in self._places:
                set_attribute(self._model, self._places[name], states[name])
        arguments = [states.get(name, placed[name]) for name in self._inputs if name not in self._places]
        with user_code(f"`forward` of `{self._name}`", self._path):
            returned = self._model(*arguments)
        results = tensors_in(returned)
        for name in self._states:
            results.append(attribute(self._model, self._places[name]) if name in self._places else states[name])
        return results

    def take(self, outputs):
        if len(self._results) != len(outputs):
            count = len(self._results) - len(self._states)
            wanted = len(outputs) - len(self._states)
            raise CallError("invalid-input", f"`forward` of `{self._name}` returned {count} tensors instead of {wanted}")
        written = [tensors.write(room, f"output {at}", value) for at, (room, value) in enumerate(zip(outputs, self._results))]
        return {"types": written, "unchanged": self._unchanged()}

    def _unchanged(self):
        placed, given = self._placed[self._bound][self._slot]
        # Bytes: NaN is equal to itself.
        return all(torch.equal(octets(placed[name].cpu()), octets(given[name])) for name in self._inputs)


def places(model):
    """The dotted paths of a model's tensors, by the names that a graph has for them."""
    if not isinstance(model, torch.nn.Module):
        return {}
    paths = [path for path, _ in [*model.named_parameters(), *model.named_buffers()]]
    for prefix, child in model.named_modules():
        plain = [name for name, value in vars(child).items() if isinstance(value, torch.Tensor)]
        paths += [f"{prefix}.{name}" if prefix else name for name in plain]
    return {re.sub(r"\W", "_", path): path for path in paths}


def octets(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def digest(tensor):
    """The sum of a tensor's bytes as 64-bit words, and of the bytes that are left over, modulo 2^64."""
    found = octets(tensor)
    words = found.numel() // 8
    if words and found.data_ptr() % 8:
        found = found.clone()
    whole = found[: 8 * words].view(torch.int64).sum() if words else 0
    return (int(whole) + int(found[8 * words :].sum())) % 2**64


def nothing(*_, **__):
    """Stands for every kernel that is left out."""


class Idle:
    """A library whose functions do nothing."""

    def __init__(self, *_, **__):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return nothing

    __getitem__ = __getattr__


def leave_out_kernels():
    """From now on, kernels do nothing: those in Triton, C++ extensions, and functions of shared objects."""
    ctypes.CDLL = ctypes.PyDLL = ctypes.cdll.LoadLibrary = Idle
    from torch.utils import cpp_extension

    cpp_extension.load = cpp_extension.load_inline = Idle
    for path, name in (("triton.runtime.jit", "JITFunction"), ("triton.runtime.interpreter", "InterpretedFunction")):
        with contextlib.suppress(ImportError):
            getattr(importlib.import_module(path), name).run = nothing
