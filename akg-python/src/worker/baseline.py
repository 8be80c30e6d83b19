"""What PyTorch makes of a task: the user's own module, or its graph, as it is or compiled.

Several variants of one task are kept ready, and each is executed as often as the caller asks. Everything runs under
`torch.no_grad()`, as KernelBench does it, each variant at its own precision.
"""

import ctypes
import gc
import importlib
import json
import mmap
import resource
import time

import torch
import torch._inductor.config
from torch.utils._pytree import tree_flatten, tree_unflatten

from akg_worker import tensors
from akg_worker.backward import differentiate, with_cotangents
from akg_worker.errors import CallError
from akg_worker.module import Attributes, argument_structure, construct, load, user_code
from akg_worker.replay import Replay
from akg_worker.structure import tensors_in

# The runs by their variant.
_prepared = {}

# What PyTorch is set to for each precision: how it multiplies float32, and the type that autocast works in, if it is used.
PRECISIONS = {"fp32": ("highest", None), "tf32": ("high", None), "half": ("high", torch.float16)}

# A call may have so many page faults and still count as one without; a result of a megabyte alone has 256.
FEW_FAULTS = 16

# Memory has settled after so many calls in a row without page faults, however small the first holes in it were.
QUIET_CALLS = 3

# Settling is given up after so many seconds.
MOST_SECONDS = 5.0

# Memory is reserved in blocks of at most so many bytes.
MOST_RESERVED = 2 << 30

# What is walked to empty the caches.
_walk = torch.empty(0, dtype=torch.uint8)

# A device is warm after so many calls.
WARM_CALLS = 5


def prepare(message):
    """Makes a variant ready to be bound; compiling happens at its first call."""
    if message["threads"]:
        torch.set_num_threads(message["threads"])
    ((name, task),) = message["task"].items()
    device = torch.device(message["device"])
    if device.type == "cuda":
        # Compiled code, events and streams are those of the current device.
        torch.cuda.set_device(device.index or 0)
    kind = ModuleRun if name == "module" else GraphRun
    run = kind(task, device, message["precision"])
    if message["compiled"]:
        if hasattr(torch._inductor.config, "cpp_cache_precompile_headers"):
            torch._inductor.config.cpp_cache_precompile_headers = message["compiled"]["headers"]
        if device.type == "cpu":
            importlib.import_module("akg_worker.vector")
        run.compile()
    _prepared[message["variant"]] = run
    return {"threads": torch.get_num_threads()}


def prepared(message):
    run = _prepared.get(message["variant"])
    if run is None:
        raise CallError("unexpected", f"the variant `{message['variant']}` is not prepared: the worker was started anew")
    run.enter()
    return run


def bind(message):
    """Gives a variant the inputs of its slots, in memory that no other call has used: of this process, mapped anew, or of its
    device."""
    run = prepared(message)
    files = tensors.Files()
    made = {}

    def value(name, given):
        # Slots share what has the same place in the same file.
        key = name, given["path"], given["offset"]
        if key not in made:
            tensor = files.tensor(given)
            made[key] = tensor if run.device.type == "cpu" else tensor.to(run.device)
        return made[key]

    slots = [{name: value(name, given) for name, given in slot.items()} for slot in message["slots"]]
    if run.device.type == "cpu":
        files.touch()
    run.bind(slots)
    run.reserve()
    return {}


def outputs(message):
    """Calls a variant once, on its first slot, and writes its outputs. What it updates in place is lost to calls after it."""
    run = prepared(message)
    with torch.no_grad():
        typed = [run.returned(result, dtype) for result, dtype in zip(run.outputs(), message["output_dtypes"])]
        named = zip(message["outputs"], message["output_names"], typed)
        return {"types": [tensors.write(slot, name, result) for slot, name, result in named]}


def execute(message):
    """Calls a variant `calls` times, after walking `flush` bytes of memory if there are any, and says what its own clock,
    the device's clock if it has one, and the system's count of page faults saw."""
    run, calls = prepared(message), message["calls"]
    # A collection in between would be on the clock.
    gc.disable()
    try:
        with torch.no_grad():
            if message["flush"]:
                flush(message["flush"], run.device)
            return on_device(run, calls) if run.device.type == "cuda" else on_host(run, calls)
    finally:
        gc.enable()


def on_host(run, calls):
    slots = run.take(calls)
    before, start = page_faults(), time.perf_counter()
    run.call(slots)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "device_seconds": None, "page_faults": page_faults() - before}


def on_device(run, calls):
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    slots = run.take(calls)
    start = time.perf_counter()
    first.record()
    run.call(slots)
    last.record()
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "device_seconds": first.elapsed_time(last) / 1e3, "page_faults": 0}


def settle(message):
    """Calls a variant until its results find memory that is there.

    Freed blocks alone do not do: a small object in one of them, and the next result does not fit. So what a call needs
    is taken from the system twice over, and freed for the allocator to keep.
    """
    run, start, quiet = prepared(message), time.perf_counter(), 0
    if run.device.type != "cpu":
        # PyTorch keeps a device's memory for the calls that follow.
        with torch.no_grad():
            run.call(run.take(WARM_CALLS))
        return {}
    # Gives back what is free, so that the first call shows all that a call needs.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim:
        trim(0)
    with torch.no_grad():
        while quiet < QUIET_CALLS and time.perf_counter() - start < MOST_SECONDS:
            before = page_faults()
            run.call(run.take(1))
            needed = page_faults() - before
            quiet = quiet + 1 if needed <= FEW_FAULTS else 0
            if quiet == 0:
                tensors.reserve(min(2 * needed * mmap.PAGESIZE, MOST_RESERVED))
    return {}


def page_faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def flush(size, device):
    """Empties the caches: all threads walk memory that fills them. A device's are left full of what was written, as those
    of other sides are."""
    global _walk
    if _walk.numel() != size or _walk.device.type != device.type:
        _walk = torch.ones(size, dtype=torch.uint8, device=device)
    if device.type == "cpu":
        _walk.add_(1)
    else:
        _walk.zero_()


class Run:
    """A variant of the task: on a device, at a precision."""

    def __init__(self, device, precision):
        self.device = device
        self._products, self._lower = PRECISIONS[precision]
        self._forward = None
        # What each slot's call is given, the slot of the next call, and what the calls returned. It is kept until others are
        # bound, as what candidates return is.
        self._slots, self._next, self._kept = [], 0, {}
        # Bytes that one call returned, and for which there is memory.
        self._returned, self._reserved = 0, 0
        self.enter()

    def enter(self):
        """Sets PyTorch to the precision, which all variants share and a module may change. What was compiled is compiled
        again where it differs."""
        torch.set_float32_matmul_precision(self._products)

    def take(self, calls):
        """What the next calls are given: they go round the slots."""
        slots = [(self._next + call) % len(self._slots) for call in range(calls)]
        self._next += calls
        return [(slot, self._slots[slot]) for slot in slots]

    def reserve(self):
        """Has memory for what the calls in all slots return, after what earlier calls returned is dropped."""
        results = [result for kept in self._kept.values() for result in tensors_in(kept)]
        self._returned = sum(result.nbytes for result in results) // max(len(self._kept), 1) or self._returned
        self._kept = {}
        needed = min(len(self._slots) * self._returned, MOST_RESERVED)
        if self.device.type == "cpu" and needed > self._reserved:
            tensors.reserve(needed)
            self._reserved = needed

    def at_precision(self, forward):
        """`forward` with autocast, if the precision has it. Every call enters it anew: what it has converted is kept until
        the outermost context ends, and must not outlast the call."""
        if self._lower is None:
            return forward
        autocast = torch.autocast(self.device.type, dtype=self._lower)
        with autocast:
            # Where it lacks the type, it only warns and does nothing.
            if not torch.is_autocast_enabled(self.device.type):
                raise CallError("unsupported", f"this torch ({torch.__version__}) has no autocast to {self._lower} here")

        def autocasting(*arguments):
            with autocast:
                return forward(*arguments)

        return autocasting

    def compile(self):
        """Compiles autocast with what it surrounds: the casts are in the graph either way, and entering it costs nothing."""
        self._forward = torch.compile(self._forward)

    def returned(self, result, dtype):
        """An output in the task's type `dtype`, if autocast chose another."""
        return result.to(tensors.DTYPES[dtype]) if self._lower and result.is_floating_point() else result


class ModuleRun(Run):
    """`Model.forward` over given weights and inputs."""

    def __init__(self, task, device, precision):
        super().__init__(device, precision)
        self._module = load(task["path"])
        with torch.no_grad():
            self._model = self._constructed().to(device)
        self._attributes = Attributes(self._model)
        self._inputs, self._states = task["inputs"], task["states"]
        arguments = argument_structure(self._module, task["shrink"])
        self._leaves, self._tree = tree_flatten(with_cotangents(arguments, task["cotangents"]))
        self._differentiated = task["cotangents"] is not None
        if self._differentiated:
            differentiate(self._model)
        self._forward = self.at_precision(self._model)

    def _constructed(self):
        """Makes parameters on the device, which is faster: what they are does not matter, as `bind` replaces them. Not every
        constructor can work there."""
        try:
            with self.device:
                return construct(self._module)
        except CallError:
            return construct(self._module)

    def compile(self):
        # Compilers derive the backward pass of what they compile themselves.
        if self._differentiated:
            self._model.forward.compile()
        else:
            super().compile()

    def bind(self, slots):
        """Gives the module's own tensors the values of the first slot: all slots share them."""
        self._next = 0
        self._slots = []
        for number, values in enumerate(slots):
            leaves = list(self._leaves)
            for entry in self._inputs:
                source = entry["source"]
                if "seed" in source:
                    continue  # PyTorch draws from its own generator
                value = values[entry["name"]]
                if "argument" in source:
                    leaves[source["argument"]] = tensors.seen(value, entry.get("layout"))
                elif number == 0:
                    self._attributes.set(source["attribute"], value)
            self._slots.append(tree_unflatten(leaves, self._tree))

    def call(self, slots):
        with user_code("`forward`", self._module.__file__):
            for slot, arguments in slots:
                self._kept[slot] = self._forward(*arguments)

    def outputs(self):
        arguments = self._slots[0]
        with user_code("`forward`", self._module.__file__):
            results = self._forward(*arguments)
        results = tensors_in(results)
        leaves = tree_flatten(arguments)[0]
        for source in self._states:
            is_attribute = "attribute" in source
            results.append(self._attributes.get(source["attribute"]) if is_attribute else leaves[source["argument"]])
        return results


class GraphRun(Run):
    """The graph, replayed with torch's operators."""

    def __init__(self, task, device, precision):
        super().__init__(device, precision)
        self._forward = self.at_precision(Replay(json.loads(task), device=device))

    def bind(self, slots):
        self._slots, self._next = slots, 0

    def call(self, slots):
        for slot, values in slots:
            self._kept[slot] = self._forward(values)

    def outputs(self):
        return self._forward(self._slots[0])
