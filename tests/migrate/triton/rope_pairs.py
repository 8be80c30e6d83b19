"""Rotary positions: neighbours are turned against each other."""

import torch
import triton
import triton.language as tl


@triton.jit
def rope_pairs_kernel(x, cosine, sine, out, PAIRS: tl.constexpr):
    token = tl.program_id(0)
    pair = tl.arange(0, PAIRS)
    c, s = tl.load(cosine + token * PAIRS + pair), tl.load(sine + token * PAIRS + pair)
    even = tl.load(x + token * 2 * PAIRS + 2 * pair)
    odd = tl.load(x + token * 2 * PAIRS + 2 * pair + 1)
    tl.store(out + token * 2 * PAIRS + 2 * pair, even * c - odd * s)
    tl.store(out + token * 2 * PAIRS + 2 * pair + 1, odd * c + even * s)


def rope_pairs(x, cosine, sine):
    out = torch.empty_like(x)
    rope_pairs_kernel[(x.shape[0],)](x, cosine, sine, out, PAIRS=x.shape[1] // 2)
    return out
