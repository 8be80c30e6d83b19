"""What reads settings of a process that a module must leave as they were: PyTorch's, Python's, variables and random generators.

All of it is bound when this file is loaded, which is before any module.
"""

import ctypes
import faulthandler
import functools
import gc
import locale
import os
import random
import signal
import sys
import threading

import torch
from torch.nn.modules import module as torch_module

# Settings of PyTorch, and what reads them.
PYTORCH = (
    ("PyTorch's default type", torch.get_default_dtype),
    ("PyTorch's default device", torch.get_default_device),
    ("PyTorch's number of threads", torch.get_num_threads),
    ("PyTorch's number of threads between operators", torch.get_num_interop_threads),
    ("PyTorch's mode for deterministic algorithms", torch.get_deterministic_debug_mode),
    ("PyTorch's precision of products in f32", torch.get_float32_matmul_precision),
    ("PyTorch's mode for gradients", torch.is_grad_enabled),
    ("PyTorch's inference mode", torch.is_inference_mode_enabled),
    ("PyTorch's detection of anomalies", torch.is_anomaly_enabled),
    ("PyTorch's repeated warnings", torch.is_warn_always_enabled),
    ("the cache of autocast", torch.is_autocast_cache_enabled),
    *(
        (f"{what} on `{device}`", functools.partial(read, device))
        for device in ("cpu", "cuda")
        for what, read in (("autocast", torch.is_autocast_enabled), ("the type for autocast", torch.get_autocast_dtype))
    ),
    ("the number of PyTorch's modes for functions", torch._C._len_torch_function_stack),
    ("the number of PyTorch's modes for operators", torch._C._len_torch_dispatch_stack),
)

# Switches of `torch.backends` and the like, by the functions that read them. Versions of PyTorch lack some.
SWITCHES = {
    "_get_cudnn_enabled": "cudnn.enabled",
    "_get_cudnn_benchmark": "cudnn.benchmark",
    "_get_cudnn_deterministic": "cudnn.deterministic",
    "_get_cudnn_allow_tf32": "cudnn.allow_tf32",
    "_get_cublas_allow_tf32": "cuda.matmul.allow_tf32",
    "_get_cublas_allow_fp16_reduced_precision_reduction": "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "_get_cublas_allow_bf16_reduced_precision_reduction": "cuda.matmul.allow_bf16_reduced_precision_reduction",
    "_get_cublas_allow_fp16_accumulation": "cuda.matmul.allow_fp16_accumulation",
    "_get_linalg_preferred_backend": "cuda.preferred_linalg_library",
    "_get_blas_preferred_backend": "cuda.preferred_blas_library",
    "_get_flash_sdp_enabled": "cuda.flash_sdp_enabled",
    "_get_mem_efficient_sdp_enabled": "cuda.mem_efficient_sdp_enabled",
    "_get_math_sdp_enabled": "cuda.math_sdp_enabled",
    "_get_cudnn_sdp_enabled": "cuda.cudnn_sdp_enabled",
    "_get_mkldnn_enabled": "mkldnn.enabled",
    "_get_mkldnn_deterministic": "mkldnn.deterministic",
    "_get_onednn_allow_tf32": "mkldnn.allow_tf32",
    "_get_nnpack_enabled": "nnpack.enabled",
}

# Products whose precision is set by itself.
PRECISIONS = (
    ("generic", "all"),
    *((backend, of) for backend in ("cuda", "mkldnn") for of in ("all", "conv", "matmul", "rnn")),
)

TIMERS = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")

# Settings of Python.
PYTHON = (
    ("the collection of garbage", gc.isenabled),
    ("the thresholds for the collection of garbage", gc.get_threshold),
    ("the function of `sys.settrace`", sys.gettrace),
    ("the function of `sys.setprofile`", sys.getprofile),
    ("the function of `threading.settrace`", threading.gettrace),
    ("the function of `threading.setprofile`", threading.getprofile),
    ("Python's switch interval", sys.getswitchinterval),
    ("the flags for loading libraries", sys.getdlopenflags),
    ("the most digits of an integer's text", sys.get_int_max_str_digits),
    ("the size of new threads' stacks", threading.stack_size),
    ("the handler of faults", faulthandler.is_enabled),
    ("the locale", functools.partial(locale.setlocale, locale.LC_ALL)),
    ("the processors of the main thread", functools.partial(os.sched_getaffinity, 0)),
    *((f"the timer {name}", functools.partial(signal.getitimer, getattr(signal, name))) for name in TIMERS),
)

# Where the C library has its list of variables.
ENVIRONMENT = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")


def all_settings():
    """Each setting with what reads it."""
    yield from PYTORCH
    for function, name in SWITCHES.items():
        if hasattr(torch._C, function):
            yield f"`torch.backends.{name}`", getattr(torch._C, function)
    if hasattr(torch._C, "_get_fp32_precision_getter"):
        for backend, of in PRECISIONS:
            read = functools.partial(torch._C._get_fp32_precision_getter, backend, of)
            yield f"the precision in f32 of `{backend}` for `{of}`", read
    yield "PyTorch's options for printing", lambda: {**vars(torch._tensor_str.PRINT_OPTS)}
    for name, hooks in vars(torch_module).items():
        if name.startswith("_global_") and isinstance(hooks, dict):
            yield f"the hooks of all modules (`{name}`)", functools.partial(list, hooks)
    if "numpy" in sys.modules:
        yield "NumPy's treatment of errors", sys.modules["numpy"].geterr
    yield from PYTHON


def value_of(read):
    """A setting's value; what is wrong, where it cannot be read."""
    try:
        return read()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def variables():
    """The environment's variables, as the C library has them."""
    found, at = {}, 0
    while ENVIRONMENT and (entry := ENVIRONMENT[at]) is not None:
        name, _, value = entry.partition(b"=")
        found[os.fsdecode(name)] = os.fsdecode(value)
        at += 1
    return found


def generators():
    """PyTorch's global generators, with what reads their seed and their state."""
    yield "PyTorch's random generator", torch.default_generator.initial_seed, torch.default_generator.get_state
    if torch.cuda.is_initialized():
        for index, generator in enumerate(torch.cuda.default_generators):
            yield f"PyTorch's random generator of `cuda:{index}`", generator.initial_seed, generator.get_state


def other_generators():
    """The global generators of others, with what reads their state. What it gives can be compared."""
    yield "Python's random generator", random.getstate
    if "numpy" in sys.modules:
        try:
            from numpy.random import get_state
        except ImportError:
            return

        def read():
            kind, words, *rest = get_state()
            return kind, words.tobytes(), rest

        yield "NumPy's random generator", read
