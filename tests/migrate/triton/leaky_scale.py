"""A scale and a shift for each column, then a leaky ReLU."""

import torch
import triton
import triton.language as tl


@triton.jit
def leaky_scale_kernel(x, scale, shift, out, columns, slope, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    v = tl.load(x + row * columns + column, mask=inside)
    v = v * tl.load(scale + column, mask=inside) + tl.load(shift + column, mask=inside)
    tl.store(out + row * columns + column, tl.where(v >= 0, v, slope * v), mask=inside)


def leaky_scale(x, scale, shift):
    out = torch.empty_like(x)
    rows, columns = x.shape
    leaky_scale_kernel[(rows,)](x, scale, shift, out, columns, 0.125, BLOCK=triton.next_power_of_2(columns))
    return out
