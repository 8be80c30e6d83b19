"""Runs printed Triton modules in Triton's interpreter, without a GPU.

    python harness.py < jobs.json > results.json

A job is {module, tensors: [{dtype, shape, role, data}], launches: [{kernel, programs, tensors}], dims}; its result is
{outputs: [data]}, or {error} if it fails. Data is base64 of little-endian elements.
"""

import base64
import importlib.util
import json
import os
import sys
import tempfile
import traceback

# Gone when the program ends.
CACHE = tempfile.TemporaryDirectory(prefix="akg-triton-")
os.environ.setdefault("TRITON_CACHE_DIR", CACHE.name)
os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
from triton.tools.tensor_descriptor import TensorDescriptor


def load(path):
    spec = importlib.util.spec_from_file_location(os.path.basename(path).removesuffix(".py"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def complete_interpreter():
    """Gives the interpreter what it lacks: the functions of libdevice (by PyTorch in f64) and dots of bfloat16."""
    import triton.language as tl
    from triton.language.extra import libdevice
    from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

    def lift(function):
        def call(*arguments):
            data = [torch.from_numpy(np.array(a.handle.data)) for a in arguments]
            data = [d.double() if d.is_floating_point() else d for d in data]
            first = arguments[0]
            result = function(*data).numpy().astype(first.handle.data.dtype)
            return tl.core.tensor(TensorHandle(result, first.handle.dtype), first.type)

        return call

    def inline_asm(asm, constraints, args, dtype, is_pure, pack):
        if asm == "mov.b32 $0, $1;":
            return args[0]
        if asm == "prefetch.global.L2 [$1]; mov.b32 $0, 0;":
            for address in args[0].handle.data.reshape(-1):
                assert any(first <= address < end for first, end in MEMORY), "asks for what no tensor has"
            return None
        assert asm == "cvt.rna.tf32.f32 $0, $1;", asm
        bits = args[0].handle.data.view(np.int32)
        cut = ((bits + 0x1000) & -0x2000).view(np.float32)
        kept = np.where(np.isfinite(args[0].handle.data), cut, args[0].handle.data)
        return tl.core.tensor(TensorHandle(kept, args[0].handle.dtype), args[0].type)

    tl.inline_asm_elementwise = inline_asm

    names = "exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos tanh erf floor ceil trunc pow fmod ldexp copysign"
    for name in names.split():
        setattr(libdevice, name, lift(getattr(torch, name)))
    libdevice.rint = lift(torch.round)
    libdevice.fast_dividef = lambda a, b: a / b
    libdevice.fast_log2f = libdevice.log2
    libdevice.fast_expf = libdevice.exp

    # bfloat16 is kept as its bits, which the interpreter's dot takes for integers.
    create_dot = InterpreterBuilder.create_dot

    def widened(handle):
        if handle.dtype.scalar != tl.bfloat16:
            return handle
        return TensorHandle((handle.data.astype(np.uint32) << 16).view(np.float32), tl.float32)

    def dot(self, a, b, *rest):
        return create_dot(self, widened(a), widened(b), *rest)

    InterpreterBuilder.create_dot = dot

    # Compiled code rounds to nearest; the interpreter cuts the bits of bfloat16 off.
    create_fp_trunc = InterpreterBuilder.create_fp_trunc

    def fp_trunc(self, src, dst_type):
        if dst_type.scalar != tl.bfloat16:
            return create_fp_trunc(self, src, dst_type)
        rounded = torch.from_numpy(np.array(src.data)).to(torch.bfloat16)
        return TensorHandle(rounded.view(torch.int16).numpy().view(np.uint16), dst_type.scalar)

    InterpreterBuilder.create_fp_trunc = fp_trunc


# Where the tensors of the job are.
MEMORY = []

DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "i32": torch.int32,
    "i64": torch.int64, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
}  # fmt: skip


def described(tensor, box):
    """What the copy engine is told of a tensor that a kernel sees in these extents."""
    return TensorDescriptor.from_tensor(tensor.view(box["shape"]), box["block_shape"])


def run(job):
    module = load(job["module"])
    tensors = []
    MEMORY.clear()
    for tensor in job["tensors"]:
        data = DTYPES[tensor["dtype"]], tensor["shape"]
        # Memory that nothing wrote yet holds bytes that are NaN in f32 and far from plausible elsewhere.
        storage = torch.full((int(np.prod(data[1])) * data[0].itemsize,), 0xFF, dtype=torch.uint8)
        if tensor["data"] is not None:
            storage = torch.frombuffer(bytearray(base64.b64decode(tensor["data"])), dtype=torch.uint8)
        MEMORY.append((storage.data_ptr(), storage.data_ptr() + storage.numel()))
        tensors.append(storage.view(data[0]).reshape(data[1]))
    for launch in job["launches"]:
        kernel = getattr(module, launch["kernel"])
        boxes = module.LAUNCH[launch["kernel"]].get("descriptors", {})
        arguments = [
            described(tensors[i], boxes[name]) if name in boxes else tensors[i]
            for i, name in zip(launch["tensors"], kernel.arg_names)
        ]
        kernel[(launch["programs"],)](*arguments, *job["dims"])
    outputs = [t for t, given in zip(tensors, job["tensors"]) if given["role"] == "output"]
    data = [t.reshape(-1).view(torch.uint8).numpy().tobytes() for t in outputs]
    return {"outputs": [base64.b64encode(d).decode() for d in data]}


def main():
    complete_interpreter()
    results = []
    for job in json.load(sys.stdin):
        try:
            results.append(run(job))
        except Exception:
            results.append({"error": f"{job['module']}: {traceback.format_exc()}"})
    json.dump(results, sys.stdout)


main()
