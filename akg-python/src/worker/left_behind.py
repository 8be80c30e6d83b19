"""What a module leaves behind in this process: settings, variables, functions, random generators and threads that are not as before.

All is noted before the module's file is loaded, and compared when outputs are taken, never while the clock runs. What compares
is bound before, so that functions that a module replaces do not change what is found. The module shares this process and can get
around that, as it can around anything here. The working directory, signals, limits and the control state of arithmetic are read
from outside.
"""

import atexit
import functools
import os
import signal
import sys
import sysconfig
import threading
import warnings

import torch

from akg_worker.replaced import Names
from akg_worker.settings import all_settings, generators, other_generators, value_of, variables

# Differences that are named at most, and characters of a value.
MOST_NAMED = 8
MOST_SHOWN = 80

# Variables that belong to libraries, which set them for themselves or are told by them what to build, and where.
VARIABLES = {
    "torch._inductor": {
        "KMP_DUPLICATE_LIB_OK",
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCH_WARM_POOL",
        "TRITON_CACHE_DIR",
        "TRITON_LIBDEVICE_PATH",
        "TRITON_PTXAS_PATH",
        "_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR",
    },
    "torch.utils.cpp_extension": {"MAX_JOBS", "TORCH_CUDA_ARCH_LIST", "TORCH_EXTENSIONS_DIR"},
}

# The depth of recursion that Inductor sets.
INDUCTOR, INDUCTOR_DEPTH = "torch._inductor.compile_fx", 2000

# Where installed libraries lie, and the worker.
WORKER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
LIBRARIES = (
    "<frozen ",
    WORKER,
    *{sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")},
)

class LeftBehind:
    """The state of this process before the module in the file at `path` is loaded."""

    def __init__(self, path):
        self._path = path
        self._settings = [(what, read, value_of(read)) for what, read in all_settings()]
        self._variables = variables()
        # The worker adds the module's own directory.
        self._search = list(sys.path), [*sys.path, os.path.dirname(path)]
        self._depth = sys.getrecursionlimit()
        self._filters = list(warnings.filters)
        self._handlers = [(number, signal.getsignal(number)) for number in signal.valid_signals()]
        self._streams = {name: getattr(sys, name) for name in ("stdin", "stdout", "stderr")}
        self._seeds = [(what, seed, seed()) for what, seed, _ in generators()]
        self._others = [(what, read, read()) for what, read in other_generators()]
        self.constructed()
        self._threads = set(sys._current_frames())
        self._started, self._at_exit = {}, {}
        self._note_starts()
        self._note_exits()
        self._names = Names()

    def constructed(self):
        """Takes the states of PyTorch's generators for right: a constructor draws its parameters from them."""
        self._states = [(what, state, state()) for what, _, state in generators()]

    def evidence(self, list=list, dict=dict, len=len):
        """Says what is not as before; None if all is."""
        found = [
            *self._in_settings(),
            *self._in_generators(),
            *self._in_variables(),
            *self._in_python(),
            *self._in_threads(),
            *self._names.differences(),
        ]
        if not found:
            return None
        named = list(dict.fromkeys(found))
        more = f" and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
        return f"the candidate left {', '.join(named[:MOST_NAMED])}{more}"

    def _in_settings(self):
        for what, read, before in self._settings:
            now = value_of(read)
            if now != before:
                yield f"{what} {changed(before, now)}"
        depth = sys.getrecursionlimit()
        by_inductor = INDUCTOR in sys.modules and depth == INDUCTOR_DEPTH > self._depth
        if depth != self._depth and not by_inductor:
            yield f"Python's limit of recursion {changed(self._depth, depth)}"

    def _in_generators(self, equal=torch.equal):
        seeded = set()
        for what, seed, before in self._seeds:
            now = seed()
            if now != before:
                yield f"{what} with the seed {now} (it was {before})"
                seeded.add(what)
        drawn = "in another state: it was seeded, or something was drawn"
        for what, state, before in self._states:
            if what not in seeded and not equal(state(), before):
                yield f"{what} {drawn}"
        for what, read, before in self._others:
            if read() != before:
                yield f"{what} {drawn}"

    def _in_variables(self):
        before, now = self._variables, variables()
        for name in {**before, **now}:
            if name not in now:
                yield f"the environment without the variable `{name}`"
            elif name not in before:
                if not is_owned(name):
                    yield f"the new environment variable `{name}`"
            elif before[name] != now[name]:
                yield f"the environment variable `{name}` {changed(before[name], now[name])}"

    def _in_python(self, signals=signal.getsignal, getattr=getattr, any=any):
        # Libraries add directories of their own.
        searched = [entry for entry in sys.path if entry in self._search[-1] or not entry.startswith(LIBRARIES)]
        if searched not in self._search:
            known = self._search[-1]
            others = [entry for entry in searched if entry not in known] + [entry for entry in known if entry not in searched]
            yield f"`sys.path` changed by {shown(others) if others else 'another order'}"
        now = list(warnings.filters)
        if any(entry not in now for entry in self._filters):
            yield "`warnings` without a filter that was there"
        # Libraries add filters for what they know of. One that raises concerns others.
        if any(entry[0] == "error" and entry not in self._filters for entry in now):
            yield "a filter of `warnings` that raises"
        for number, before in self._handlers:
            if signals(number) is not before:
                yield f"another handler for {name_of_signal(number)}"
        for name, before in self._streams.items():
            if getattr(sys, name) is not before:
                yield f"`sys.{name}` replaced"
        for function in self._at_exit.values():
            yield f"`{getattr(function, '__qualname__', function)}` to be called at the end of the process (atexit)"

    def _in_threads(self, frames=sys._current_frames, threads=threading.enumerate):
        names = {thread.ident: thread.name for thread in threads()}
        for ident, frame in frames().items():
            if ident not in self._threads and (ident in self._started or self._runs_own(frame)):
                yield f"a thread running: `{names.get(ident, ident)}`"

    def _runs_own(self, frame):
        while frame is not None:
            if frame.f_code.co_filename == self._path:
                return True
            frame = frame.f_back
        return False

    def _is_own(self, file):
        """Whether code of a file belongs to no library, so to the module."""
        return file == self._path or not file.startswith(LIBRARIES)

    def _note_starts(self):
        """Notes the threads that the module's code starts. Those of executors are the libraries', as long as they wait."""
        start, started, frame_of = threading.Thread.start, self._started, sys._getframe

        @functools.wraps(start)
        def starting(thread):
            start(thread)
            if self._is_own(frame_of(1).f_code.co_filename):
                started[thread.ident] = thread

        threading.Thread.start = starting

    def _note_exits(self):
        """Notes the functions for the end of the process that the module's code registers."""
        register, unregister, noted, frame_of = atexit.register, atexit.unregister, self._at_exit, sys._getframe

        @functools.wraps(register)
        def registering(function, *arguments, **keywords):
            if self._is_own(frame_of(1).f_code.co_filename):
                noted[id(function)] = function
            return register(function, *arguments, **keywords)

        @functools.wraps(unregister)
        def unregistering(function):
            for key in [key for key, other in noted.items() if other == function]:
                del noted[key]
            return unregister(function)

        atexit.register, atexit.unregister = registering, unregistering


def is_owned(name):
    """Whether a variable belongs to a library that is loaded."""
    return any(name in names and library in sys.modules for library, names in VARIABLES.items())


def changed(before, now):
    return f"as {shown(now)} (it was {shown(before)})"


def shown(value):
    text = str(value)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}…"


def name_of_signal(number):
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
