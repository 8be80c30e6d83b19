

# What follows was made by akg @AKG@: @NAME@ in accuracy class @ACCURACY@, as Triton kernels.
# The evidence that they are right is in the bundle @HASH@.

import base64 as _akg_base64
import functools as _akg_functools

import torch
import torch.nn as nn
from triton.tools.tensor_descriptor import TensorDescriptor as _akg_descriptor

@KERNELS@


_akg_constants = [
@CONSTANTS@]


@_akg_functools.cache
def _akg_constant(number, device):
    text, dtype, shape = _akg_constants[number]
    data = torch.frombuffer(bytearray(_akg_base64.b64decode(text)) or bytearray(1), dtype=torch.uint8)
    tensor = data.view(dtype).reshape(shape) if text else torch.empty(shape, dtype=dtype)
    return tensor.to(device)


def _akg_attribute(module, path):
    return _akg_functools.reduce(getattr, path.split("."), module)


def _akg_input(name, tensor, dtype, align):
    if not isinstance(tensor, torch.Tensor) or tensor.dtype != dtype or tensor.device.type != "cuda":
        raise ValueError(f"`{name}` must be a {dtype} tensor on a GPU")
    tensor = tensor.detach().contiguous()
    return tensor.clone() if tensor.data_ptr() % align else tensor


def _akg_dim(name, tensor, axis, low, high):
    value = tensor.shape[axis] if axis < tensor.dim() else -1
    if not low <= value <= high:
        raise ValueError(f"the dim `{name}` is {value}, and the contract holds from {low} to {high}")
    return value


def _akg_check(name, tensor, shape):
    if tuple(tensor.shape) != shape:
        raise ValueError(f"`{name}` must have the shape {shape}, not {tuple(tensor.shape)}")


def _akg_launch(kernel, programs, arguments, **options):
    options = {"enable_fp_fusion": False, **LAUNCH.get(kernel.__name__, {}), **options}
    boxes = options.pop("descriptors", {})
    arguments = [
        _akg_descriptor.from_tensor(argument, boxes[name]) if name in boxes else argument
        for name, argument in zip(kernel.arg_names, arguments)
    ]
    if programs > 0:
        kernel[(programs,)](*arguments, **options)


def ceildiv(a, b):
    return -(-a // b)


class ModelNew(@BASE@):
@INIT@    def forward(self, *arguments):
        leaves = torch.utils._pytree.tree_leaves(arguments)
@FORWARD@
