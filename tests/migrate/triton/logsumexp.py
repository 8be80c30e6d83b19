"""log(sum(exp(x))) of each row."""

import torch
import triton
import triton.language as tl


@triton.jit
def logsumexp_kernel(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    v = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf"))
    largest = tl.max(v, axis=0)
    tl.store(out + row, largest + tl.log(tl.sum(tl.exp(v - largest), axis=0)))


def logsumexp(x):
    rows, columns = x.shape
    out = torch.empty((rows,), dtype=x.dtype)
    logsumexp_kernel[(rows,)](x, out, columns, BLOCK=triton.next_power_of_2(columns))
    return out
