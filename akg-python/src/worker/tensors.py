"""Tensors in memory that both sides map: a descriptor is `{"path", "offset", "dtype", "shape"}`."""

import math
import mmap
import os

import torch

from akg_worker.errors import CallError

DTYPES = {
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
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def dtype_name(dtype):
    if dtype not in NAMES:
        raise CallError("unsupported", f"element type {dtype} is not supported; known are {', '.join(DTYPES)}")
    return NAMES[dtype]


class Files:
    """Maps each file once for one call. Writes to these tensors stay private to this process, or are the caller's, too."""

    def __init__(self, shared=False):
        self._access, self._mode = (mmap.ACCESS_WRITE, "r+b") if shared else (mmap.ACCESS_COPY, "rb")
        self._mapped = {}

    def tensor(self, descriptor):
        dtype, shape = DTYPES[descriptor["dtype"]], descriptor["shape"]
        if math.prod(shape) == 0:
            return torch.empty(shape, dtype=dtype)
        path, offset = descriptor["path"], descriptor["offset"]
        if path not in self._mapped:
            with open(path, self._mode) as file:
                self._mapped[path] = mmap.mmap(file.fileno(), 0, access=self._access)
        # Each has a storage of its own: what a module updates in place must not be a view of its other inputs.
        return torch.frombuffer(self._mapped[path], dtype=dtype, count=math.prod(shape), offset=offset).view(shape)

    def touch(self):
        """Reads from every page, so that none is supplied later, on somebody's clock."""
        for mapped in self._mapped.values():
            torch.frombuffer(mapped, dtype=torch.uint8)[:: mmap.PAGESIZE].sum()


def span(layout):
    """The elements from the first of a tensor in a layout to the last."""
    return 1 + sum((extent - 1) * stride for extent, stride in zip(layout["shape"], layout["strides"]))


def storage_of(tensor, layout):
    """The memory from the first element of a tensor to the last, which has the layout of an input: one dimension."""
    shape, strides = list(tensor.shape), list(tensor.stride())
    steps = zip(shape, strides, layout["strides"])
    if shape != layout["shape"] or any(extent > 1 and have != want for extent, have, want in steps):
        wanted = f"{layout['shape']} with strides {layout['strides']}"
        raise CallError("invalid-input", f"the tensor is {shape} with strides {strides}, and was {wanted} at the import")
    return tensor.as_strided((span(layout),), (1,), tensor.storage_offset())


def seen(storage, layout):
    """The tensor in the layout of an input, whose storage this is; the storage itself without a layout."""
    return storage if layout is None else storage.as_strided(layout["shape"], layout["strides"])


def reserve(size):
    """Takes so many bytes from the system, for the allocator to keep: results of that size cause no page faults on the clock."""
    torch.ones(size, dtype=torch.uint8)


def write(slot, name, tensor):
    """Copies `tensor` into the caller's memory at `slot`, `{"path", "offset", "bytes"}`, and returns its type."""
    size = tensor.numel() * tensor.dtype.itemsize
    if size > slot["bytes"]:
        room = slot["bytes"]
        raise CallError("invalid-input", f"`{name}` is {tensor.dtype} {list(tensor.shape)}, more than {room} bytes")
    if size:
        end = slot["offset"] + size
        mapped = torch.from_file(slot["path"], shared=True, size=end, dtype=torch.uint8)
        mapped[slot["offset"] : end].view(tensor.dtype).view(tensor.shape).copy_(tensor.detach())
    return {"dtype": dtype_name(tensor.dtype), "shape": list(tensor.shape)}
