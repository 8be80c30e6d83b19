"""Attention with a running maximum and denominator, block after block of keys."""

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(q, k, v, o, length, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1)
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = head * length * D
    query = tl.load(q + base + row[:, None] * D + d[None, :], mask=row[:, None] < length, other=0.0)
    largest = tl.full((BM,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BM,), dtype=tl.float32)
    acc = tl.zeros((BM, D), dtype=tl.float32)
    for start in range(0, length, BN):
        column = start + tl.arange(0, BN)
        inside = column[:, None] < length
        keys = tl.load(k + base + column[:, None] * D + d[None, :], mask=inside, other=0.0)
        values = tl.load(v + base + column[:, None] * D + d[None, :], mask=inside, other=0.0)
        s = tl.dot(query, tl.trans(keys), input_precision="ieee") * scale
        s = tl.where(column[None, :] < length, s, -float("inf"))
        larger = tl.maximum(largest, tl.max(s, axis=1))
        p = tl.exp(s - larger[:, None])
        shrink = tl.exp(largest - larger)
        total = total * shrink + tl.sum(p, axis=1)
        acc = acc * shrink[:, None] + tl.dot(p, values, input_precision="ieee")
        largest = larger
    tl.store(o + base + row[:, None] * D + d[None, :], acc / total[:, None], mask=row[:, None] < length)


def attention(q, k, v):
    o = torch.empty_like(q)
    heads, length, width = q.shape
    grid = (triton.cdiv(length, 16), heads)
    attention_kernel[grid](q, k, v, o, length, width**-0.5, D=width, BM=16, BN=16)
    return o
