"""The mean absolute difference of rows."""

import torch
import triton
import triton.language as tl


@triton.jit
def l1_rows_kernel(a, b, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    at = row * columns + column
    d = tl.load(a + at, mask=inside, other=0.0) - tl.load(b + at, mask=inside, other=0.0)
    tl.store(out + row, tl.sum(tl.abs(d), axis=0) / columns)


def l1_rows(a, b):
    rows, columns = a.shape
    out = torch.empty((rows,), dtype=a.dtype)
    l1_rows_kernel[(rows,)](a, b, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out
