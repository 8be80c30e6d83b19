"""silu(gate) * up, element by element."""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate, up, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    g = tl.load(gate + at, mask=inside, other=0.0)
    u = tl.load(up + at, mask=inside, other=0.0)
    tl.store(out + at, g / (1.0 + tl.exp(-g)) * u, mask=inside)


def swiglu(gate, up):
    out = torch.empty_like(gate)
    n = gate.numel()
    swiglu_kernel[(triton.cdiv(n, 256),)](gate, up, out, n, BLOCK=256)
    return out
