"""A batch of small products, each by one program."""

import torch
import triton
import triton.language as tl


@triton.jit
def bmm_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    batch = tl.program_id(0)
    row, column, inner = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    s = tl.load(
        a + batch * m * k + row[:, None] * k + inner[None, :], mask=(row[:, None] < m) & (inner[None, :] < k), other=0.0
    )
    t = tl.load(
        b + batch * k * n + inner[:, None] * n + column[None, :],
        mask=(inner[:, None] < k) & (column[None, :] < n),
        other=0.0,
    )
    product = tl.dot(s, t, input_precision="ieee")
    tl.store(
        c + batch * m * n + row[:, None] * n + column[None, :], product, mask=(row[:, None] < m) & (column[None, :] < n)
    )


def bmm(a, b):
    (batches, m, k), n = a.shape, b.shape[2]
    c = torch.empty((batches, m, n), dtype=a.dtype)
    bmm_kernel[(batches,)](a, b, c, m, n, k, BM=16, BN=32, BK=32)
    return c
