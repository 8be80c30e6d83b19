"""Maximum pooling over 2 x 2 windows."""

import torch
import triton
import triton.language as tl


@triton.jit
def max_pool2d_kernel(x, out, w, wo, ho, BLOCK: tl.constexpr):
    plane, row = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, BLOCK)
    inside = column < wo
    top = x + (plane * 2 * ho + 2 * row) * w + 2 * column
    first = tl.maximum(tl.load(top, mask=inside), tl.load(top + 1, mask=inside))
    second = tl.maximum(tl.load(top + w, mask=inside), tl.load(top + w + 1, mask=inside))
    tl.store(out + (plane * ho + row) * wo + column, tl.maximum(first, second), mask=inside)


def max_pool2d(x):
    planes, h, w = x.shape
    out = torch.empty((planes, h // 2, w // 2), dtype=x.dtype)
    max_pool2d_kernel[(planes, h // 2)](x, out, w, w // 2, h // 2, BLOCK=triton.next_power_of_2(w // 2))
    return out
