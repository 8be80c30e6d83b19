

# What follows was made by akg @AKG@: @NAME@ in accuracy class @ACCURACY@, as kernels in a shared object.
# The kernels' text and the evidence that they are right are in the bundle @HASH@.

import base64 as _akg_base64
import concurrent.futures as _akg_futures
import ctypes as _akg_ctypes
import functools as _akg_functools
import importlib
import inspect as _akg_inspect
import platform as _akg_platform
import re as _akg_re
import tempfile as _akg_tempfile

import torch
import torch.nn as nn

_akg_name = @NAME@
_akg_arch = @ARCH@
_akg_features = @FEATURES@

# name, element type, least alignment, where it is: an argument of `forward`, an attribute of the module, or None for a
# seed to draw; and for the storage of a tensor with strides the shape, strides and elements of storage.
_akg_inputs = @INPUTS@

# name, element type, least alignment, and where the argument or attribute is that it is the new content of.
_akg_outputs = @OUTPUTS@

_akg_scratch = @SCRATCH@

# The dims as (name, input, axis, least, greatest).
_akg_dims = @DIMS@

# The kernels in order, with the tensors that they take: inputs, constants, outputs and scratch, as the plan has them.
_akg_launches = @LAUNCHES@

_akg_order = @ORDER@


def _akg_plan(@SYMBOLS@):
    """The extents of the plan's tensors, and the number of programs of each launch."""

    def ceildiv(a, b):
        return -(-a // b)

    return @SHAPES@, @PROGRAMS@


_akg_types = {
    "bool": torch.bool,
    "u8": torch.uint8,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f32": torch.float32,
    "f64": torch.float64,
}


def _akg_tensor_of(text, dtype, shape):
    data = torch.frombuffer(bytearray(_akg_base64.b64decode(text)) or bytearray(1), dtype=torch.uint8)
    return data.view(_akg_types[dtype]).reshape(shape) if text else torch.empty(shape, dtype=_akg_types[dtype])


_akg_constants = [_akg_tensor_of(*constant) for constant in @CONSTANTS@]


def _akg_check_machine():
    arch = _akg_platform.machine()
    if arch != _akg_arch:
        raise RuntimeError(f"`{_akg_name}` is for {_akg_arch}, and this machine is {arch}")
    flags = set()
    if _akg_features:
        with open("/proc/cpuinfo") as lines:
            text = next((line for line in lines if line.startswith("flags")), "")
        flags = {flag.replace("_", "") for flag in text.split()}
    missing = [name for name in _akg_features if name.replace(".", "").replace("_", "") not in flags]
    if missing:
        raise RuntimeError(f"`{_akg_name}` uses {', '.join(missing)}, which this machine's processor lacks")


@_akg_functools.cache
def _akg_kernels():
    """The kernel of each launch. The file that they are loaded from is gone at once."""
    _akg_check_machine()
    with _akg_tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(_akg_base64.b64decode(_akg_object))
        file.flush()
        library = _akg_ctypes.CDLL(file.name)
    kernels = [getattr(library, name) for name, _ in _akg_launches]
    for kernel in kernels:
        kernel.restype = None
    return kernels


@_akg_functools.cache
def _akg_pool(threads):
    return _akg_futures.ThreadPoolExecutor(threads)


def _akg_launch(kernel, tensors, dims, programs):
    """Executes all programs of a kernel, a range on each thread."""
    threads = min(torch.get_num_threads(), programs)
    addresses = (_akg_ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
    values = (_akg_ctypes.c_int64 * max(len(dims), 1))(*dims)

    def work(thread):
        first, last = (programs * t // threads for t in (thread, thread + 1))
        kernel(addresses, values, _akg_ctypes.c_int64(first), _akg_ctypes.c_int64(last))

    if threads == 1:
        work(0)
    elif threads > 1:
        list(_akg_pool(threads).map(work, range(threads)))


def _akg_prepare(tensor, name, dtype, align, place, layout):
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != _akg_types[dtype] or tensor.device.type != "cpu":
        raise ValueError(f"`{name}` must be a {_akg_types[dtype]} tensor on the CPU")
    if layout is None:
        tensor = tensor.detach().contiguous()
    else:
        shape, strides, span = layout
        steps = zip(tensor.shape, tensor.stride(), strides)
        if list(tensor.shape) != shape or any(extent > 1 and have != want for extent, have, want in steps):
            given = f"{list(tensor.shape)} with strides {list(tensor.stride())}"
            raise ValueError(f"`{name}` must have the shape {shape} with strides {strides}, not {given}")
        tensor = tensor.detach().as_strided((span,), (1,), tensor.storage_offset())
    return tensor.clone() if tensor.data_ptr() % align else tensor


def _akg_empty(shape, dtype, align):
    """Memory that begins where the plan wants it."""
    dtype = _akg_types[dtype]
    size = torch.Size(shape).numel() * dtype.itemsize
    memory = torch.empty(size + align, dtype=torch.uint8)
    start = -memory.data_ptr() % align
    return memory[start : start + size].view(dtype).reshape(shape)


def _akg_call(inputs):
    """The outputs of the kernels."""
    inputs = [_akg_prepare(tensor, *port) for tensor, port in zip(inputs, _akg_inputs)]
    dims = []
    for name, position, axis, low, high in _akg_dims:
        shape = inputs[position].shape
        value = shape[axis] if axis < len(shape) else -1
        if not low <= value <= high:
            raise ValueError(f"the dim `{name}` is {value}, and the contract holds from {low} to {high}")
        dims.append(value)
    shapes, programs = _akg_plan(*dims)
    for position, (tensor, (name, *_)) in enumerate(zip(inputs, _akg_inputs)):
        if tuple(tensor.shape) != shapes[_akg_order["inputs"][position]]:
            expected = shapes[_akg_order["inputs"][position]]
            raise ValueError(f"`{name}` must have the shape {expected}, not {tuple(tensor.shape)}")
    tensors = dict(zip(_akg_order["inputs"], inputs))
    # Outputs that stand in the place of an input.
    updated = {output: tensors[input] for output, input in _akg_order["updates"]}
    make = lambda kind, ports: [
        updated[i] if i in updated else _akg_empty(shapes[i], *port[1:3])
        for i, port in zip(_akg_order[kind], ports)
    ]
    outputs, scratch = make("outputs", _akg_outputs), make("scratch", _akg_scratch)
    tensors.update(zip(_akg_order["constants"], _akg_constants))
    tensors.update(zip(_akg_order["outputs"], outputs))
    tensors.update(zip(_akg_order["scratch"], scratch))
    for kernel, (_, taken), count in zip(_akg_kernels(), _akg_launches, programs):
        _akg_launch(kernel, [tensors[index] for index in taken], dims, count)
    return outputs


def _akg_reached(owner, path):
    for key, index, name in _akg_re.findall(r"\['([^']*)'\]|\[(\d+)\]|([^.\[\]]+)", path):
        owner = getattr(owner, name) if name else owner[int(index) if index else key]
    return owner

@ARGUMENTS@

class ModelNew(@BASE@):
@INIT@    def forward(self, *arguments, **keywords):
        @LEAVES@

        def attribute(path):
            tensor = _akg_reached(self, path)
            return torch.view_as_real(tensor) if tensor.is_complex() else tensor

        def find(place):
            if place is None:
                return torch.randint(2**63 - 1, ())
            return leaves[place] if isinstance(place, int) else attribute(place)

        results = []
        for output, (*_, updates) in zip(_akg_call([find(port[3]) for port in _akg_inputs]), _akg_outputs):
            if updates is None:
                results.append(output)
            elif find(updates).data_ptr() != output.data_ptr():
                with torch.no_grad():
                    find(updates).copy_(output)
        return @RESULTS@


_akg_object = (
@OBJECT@
)
