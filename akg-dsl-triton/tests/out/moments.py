# Lowered from this sketch:
#
#   # Half precision in; two reductions in one pass; a maximum pool with a halo.
#   sketch moments(x: f16[64, 64]) -> (mean: f32[64], square: f32[64], pooled: f16[32, 32])
#
#   kernel sums over (i in 16) {
#     t = f32(load x[i*4 :+ 4, 0 :+ 64])
#     s = reduce_sum(t, 1)
#     q = reduce_sum(t*t, 1)
#     store mean[i*4 :+ 4] = s / 64
#     store square[i*4 :+ 4] = q / 64
#   }
#
#   kernel pool over (i in 32) {
#     acc = full f16[32] -inf
#     for a in 0..3, b in 0..3 {
#       acc = max(acc, load x[2*i + a - 1, b - 1 :+ 32 by 2] else -inf)
#     }
#     store pooled[i, 0 :+ 32] = acc
#   }
#
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "moments_sums": {"num_stages": 3, "num_warps": 1},
    "moments_pool": {"num_stages": 3, "num_warps": 1},
}


@triton.jit
def moments_sums(x_ptr, mean_ptr, square_ptr):
    i = tl.program_id(0)
    offs_i = i * 4 + tl.arange(0, 4)
    offs = tl.arange(0, 64)
    x_tile = tl.load(x_ptr + offs_i[:, None] * 64 + offs[None, :])
    t = x_tile.to(tl.float32)
    s = tl.sum(t, 1)
    q = tl.sum(t * t, 1)
    tl.store(mean_ptr + offs_i, s * 0.015625)
    tl.store(square_ptr + offs_i, q * 0.015625)


@triton.jit
def moments_pool(x_ptr, pooled_ptr):
    i = tl.program_id(0)
    acc = tl.full((32,), float("-inf"), tl.float16)
    for a_b in range(9):
        a = a_b // 3
        b = a_b % 3
        offs_b = b - 1 + tl.arange(0, 32) * 2
        x_tile = tl.load(
            x_ptr + a * 64 + i * 128 - 64 + offs_b,
            mask=((a + i * 2 - 1) >= 0) & (offs_b >= 0),
            other=float("-inf"),
        )
        acc = tl.maximum(acc.to(tl.float32), x_tile.to(tl.float32), propagate_nan=tl.PropagateNan.ALL).to(
            tl.float16,
        )
    offs = tl.arange(0, 32)
    tl.store(pooled_ptr + i * 32 + offs, acc)
