"""The shares of PyTorch's operators and of a module's kernels in what it returns, and in its time.

The module is called once while every operator of PyTorch is watched. Bytes that differ from what the last operator left there
were written by somebody else, so by a kernel in whatever language, unless they are what an operator left elsewhere. They get
other values before the next operator reads them: outputs that come from kernels are wrong then, and outputs that do not are as
before. Operators that a kernel calls are PyTorch's, too. What was compiled by `torch.compile` counts as a kernel.

On a device it is called then for the time that operators of PyTorch take of its own. On the processor, the judge sees that from
outside.

The module shares this process and can get around that, as it can around anything here. It tells candidates that rely on PyTorch
from those that do not; it is no wall.
"""

import contextlib
import functools
import importlib
import math
import threading
import time

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves

# The libraries of operators that are PyTorch's own.
OWN = {"aten", "prim", "prims", "rngprims", "mkldnn", "mkldnn_prepacked", "onednn", "quantized", "inductor"}

# Operators whose results hold nothing yet.
EMPTY = {"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"}

# What they hold here, so that writing to them is seen even if memory is used again.
POISON = 0xA7

# Kernels write at least this part of an output, or of what it is computed from.
LEAST_SHARE = 1 / 8

# Kernels write at least so many elements, unless there are fewer outputs.
LEAST_WRITTEN = 8

# Smaller results may be a status, with which a module checks its kernels: they keep their values until the end.
STATUS = 64

# Calls that are timed. The smallest times count.
TIMED_CALLS = 3

# Operators by which the cost of watching one is measured.
FREE_OPERATORS = 64

# Bytes that are kept for comparison.
MOST_KEPT = 2 << 30


class Record:
    """What the last operator left in a storage, and the share of elements that come from kernels."""

    def __init__(self, reference, kept, share):
        self.reference, self.kept, self.share = reference, kept, share


class Watch:
    def __init__(self):
        # Why the kernels do no work; None if they do.
        self.verdict = None
        # The part of the module's time that operators of PyTorch take; None if it was not measured.
        self.share = None
        self._tracker = None

    def call(self, forward, given):
        """What `forward` returns with other values in place of what kernels write. `given` are tensors that it starts from."""
        try:
            results = self._tracked(forward, given, scramble=True)
        except Exception:
            # It may check what its kernels write.
            results = self._tracked(forward, given, scramble=False)
        if self.verdict is None and results:
            # What is returned may be overwritten by the next call.
            results = [result.clone() for result in results]
            device = results[0].device
            # The processor's threads are watched from outside.
            self.share = None if device.type == "cpu" else share_of_operators(forward, device)
        return results

    def _tracked(self, forward, given, scramble):
        self._tracker = tracker = Tracker(scramble)
        try:
            tracker.give(given)
            with tracker:
                results = forward()
            results, self.verdict = tracker.end(results)
            return results
        finally:
            self._tracker = None

    def wrap_kernels(self):
        """Makes known what runs kernels by operators of PyTorch that are none of the module's."""
        for path, name in (("triton.runtime.jit", "JITFunction"), ("triton.runtime.interpreter", "InterpretedFunction")):
            with contextlib.suppress(ImportError):
                kind = getattr(importlib.import_module(path), name)
                kind.run = unwatched(kind.run)
        compile = torch.compile

        @functools.wraps(compile)
        def compiling(*arguments, **keywords):
            wrap_compiled()
            return compile(*arguments, **keywords)

        torch.compile = compiling
        run = threading.Thread.run

        def running(thread):
            with self._tracker or contextlib.nullcontext():
                run(thread)

        threading.Thread.run = running


def unwatched(function):
    @functools.wraps(function)
    def call(*arguments, **keywords):
        with _disable_current_modes():
            return function(*arguments, **keywords)

    return call


@functools.cache
def wrap_compiled():
    from torch._dynamo import eval_frame

    compiled = eval_frame._TorchDynamoContext.__call__

    @functools.wraps(compiled)
    def wrapping(context, function):
        made = compiled(context, function)
        return made if isinstance(made, (type, torch.nn.Module)) else unwatched(made)

    eval_frame._TorchDynamoContext.__call__ = wrapping


def share_of_operators(call, device):
    """The part of a call's time that operators of PyTorch take on a device; None for what takes no time."""
    clock = functools.partial(device_time, device)
    free = Timer(clock)
    for _ in range(TIMED_CALLS):
        free.call(lambda: [torch.empty(0, device=device) for _ in range(FREE_OPERATORS)])
    timer = Timer(clock)
    for _ in range(TIMED_CALLS):
        timer.call(call)
    # To watch an operator takes time inside and outside of what is measured of it.
    watched = timer.count / FREE_OPERATORS
    operators = max(timer.operators - watched * free.operators, 0.0)
    own = max(timer.others - watched * free.others, 0.0)
    return operators / (operators + own) if operators + own > 0.0 else None


def device_time(device):
    """The time after all work on a device. The processor's time says nothing there."""
    if not (device.type == "cuda" and torch.cuda.is_current_stream_capturing()):
        torch.accelerator.synchronize(device)
    return time.perf_counter()


class Timer(TorchDispatchMode):
    """Measures the seconds that a call takes in operators of PyTorch and in others, of several calls the fewest."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock
        self.operators, self.others = math.inf, math.inf
        # The operators of one call.
        self.count = 0

    def call(self, function):
        self.count, self._spent = 0, 0.0
        begin = self._clock()
        with self:
            function()
        whole = self._clock() - begin
        self.operators = min(self.operators, self._spent)
        self.others = min(self.others, whole - self._spent)

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        if function.namespace not in OWN:
            return function(*arguments, **(keywords or {}))
        # Kernels that are under way are none of the operator's time.
        begin = self._clock()
        returned = function(*arguments, **(keywords or {}))
        self._spent += self._clock() - begin
        self.count += 1
        return returned


class Tracker(TorchDispatchMode):
    def __init__(self, scramble):
        super().__init__()
        self._scramble = scramble
        # By the address of the storage.
        self._records = {}
        self._bytes = 0
        # Elements that kernels wrote, whether some of these kept their values, and whether there was too much to compare.
        self._written, self._spared, self._over = 0, False, False

    def give(self, given):
        """Takes tensors as none of the kernels', whatever is written to them: the judge looks at inputs itself."""
        for tensor in given:
            storage = storage_of(tensor)
            if storage is not None:
                self._records[storage.data_ptr()] = Record(StorageWeakRef(storage), None, 0.0)

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        keywords = keywords or {}
        if torch.cuda.is_available() and torch.cuda.is_current_stream_capturing():
            return function(*arguments, **keywords)
        name = function._schema.name.split("::")[-1]
        given = [leaf for leaf in tree_leaves((arguments, keywords)) if isinstance(leaf, torch.Tensor)]
        if name == "lift_fresh":
            self.give([tensor for tensor in given if self._record(tensor) is None])
        share = max([self._look(tensor) for tensor in given], default=0.0)
        returned = function(*arguments, **keywords)
        made = [leaf for leaf in tree_leaves(returned) if isinstance(leaf, torch.Tensor)]
        if function.namespace not in OWN:
            # A kernel that has a name of its own. What it made is looked at when it is used.
            return returned
        if name in EMPTY:
            for tensor in made:
                octets_of(tensor).fill_(1 if tensor.dtype == torch.bool else POISON)
        before = {storage_of(tensor).data_ptr() for tensor in given if storage_of(tensor) is not None}
        for tensor in written_by(function, arguments, keywords):
            self._keep(tensor, share)
        for tensor in made:
            storage = storage_of(tensor)
            # Views are none of the operator's work.
            if storage is not None and storage.data_ptr() not in before:
                self._keep(tensor, share)
        return returned

    def _record(self, tensor):
        storage = storage_of(tensor)
        record = None if storage is None else self._records.get(storage.data_ptr())
        return None if record is None or record.reference.expired() else record

    def _keep(self, tensor, share):
        storage = storage_of(tensor)
        if storage is None or not storage.nbytes():
            return
        known = self._record(tensor)
        if known is not None and known.kept is None and not self._over:
            known.share = max(known.share, share)
            return
        self._forget(storage.data_ptr())
        size = storage.nbytes()
        if self._bytes + size > MOST_KEPT:
            for address in [address for address, record in self._records.items() if record.reference.expired()]:
                self._forget(address)
            self._over = self._over or self._bytes + size > MOST_KEPT
        kept = None if self._over else octets_of(tensor).clone()
        self._bytes += 0 if kept is None else size
        self._records[storage.data_ptr()] = Record(StorageWeakRef(storage), kept, share)

    def _forget(self, address):
        record = self._records.pop(address, None)
        if record is not None and record.kept is not None:
            self._bytes -= record.kept.numel()

    def _look(self, tensor, last=False):
        """The share of a tensor's storage that comes from kernels, after a look at what was written since the last operator."""
        storage = storage_of(tensor)
        if storage is None or not storage.nbytes():
            return 0.0
        if tensor.is_cuda:
            torch.cuda.synchronize()
        record = self._record(tensor)
        size = tensor.dtype.itemsize
        elements = storage.nbytes() // size
        if record is None:
            # Made by nobody's operator.
            changed = torch.ones(elements, dtype=torch.bool, device=tensor.device)
        elif record.kept is None:
            return record.share
        else:
            differ = octets_of(tensor)[: elements * size] != record.kept[: elements * size]
            changed = differ.view(elements, size).any(1)
        count = int(changed.sum())
        if not count:
            return record.share
        source = self._source(tensor, changed, record)
        if source is not None:
            # Somebody moved what an operator computed.
            self._keep(tensor, source.share)
            return source.share
        self._written += count
        share = max(record.share if record else 0.0, count / elements)
        if self._scramble and (last or storage.nbytes() >= STATUS):
            scramble(tensor, changed)
        else:
            self._spared = True
        self._forget(storage.data_ptr())
        self._keep(tensor, share)
        return share

    def _source(self, tensor, changed, own):
        """The record of another storage from which all elements that changed are copies; None if they are not."""
        octets = octets_of(tensor)
        size = tensor.dtype.itemsize
        values = octets[: changed.numel() * size].view(-1, size)[changed]
        if bool((values == values[0]).all()):
            # Many may hold the same number, and none of them has it from another.
            return None
        for record in self._records.values():
            kept = record.kept
            if record is own or kept is None or kept.numel() != octets.numel() or kept.device != octets.device:
                continue
            if torch.equal(kept[: changed.numel() * size].view(-1, size)[changed], values):
                return record
        return None

    def end(self, results):
        """What is returned, with other values where it comes from kernels, and why they do no work, if they do none."""
        elements = sum(result.numel() for result in results)
        shares = [self._look(result, last=True) for result in results]
        if self._over or not elements:
            return [changed_copy(result) for result in results], None
        largest = max(shares)
        if largest < LEAST_SHARE:
            part = f"{100 * largest:.2g} %"
            return results, f"operators of PyTorch compute the outputs, of which kernels of the module contribute {part}"
        if self._written < min(LEAST_WRITTEN, elements):
            return results, f"the kernels of the module write {self._written} elements, and PyTorch computes the rest"
        if self._spared:
            results = [changed_copy(each) if share >= LEAST_SHARE else each for each, share in zip(results, shares)]
        return results, None


def storage_of(tensor):
    """The storage of a tensor that lies in memory; None for others."""
    try:
        storage = tensor.untyped_storage()
        return storage if storage.data_ptr() else None
    except (RuntimeError, NotImplementedError):
        return None


def octets_of(tensor):
    """All bytes of a tensor's storage."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),))


def written_by(function, arguments, keywords):
    """The tensors that an operator writes to, by its schema."""
    for at, parameter in enumerate(function._schema.arguments):
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            value = arguments[at] if at < len(arguments) else keywords.get(parameter.name)
            yield from (leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor))


def scramble(tensor, changed):
    """Gives elements of a tensor's storage other values."""
    octets = octets_of(tensor)
    values = octets[: changed.numel() * tensor.dtype.itemsize].view(tensor.dtype)
    values[changed] = other_values(values[changed])


def changed_copy(tensor):
    return other_values(tensor.detach().reshape(-1)).view(tensor.shape)


def other_values(values):
    """Different values of the same kind: integers that may be indices stay among those that there are."""
    if values.dtype == torch.bool:
        return ~values
    if values.is_floating_point():
        return (torch.nan_to_num(values) * -1.5 + 1).to(values.dtype)
    turned = values.flip(0)
    return turned if not torch.equal(turned, values) else values ^ 1
