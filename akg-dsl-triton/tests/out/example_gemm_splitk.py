# Lowered from this sketch:
#
#   # y = x w^T for few rows and columns but a long K: programs share the sum, a second kernel adds their parts.
#   sketch gemm_splitk(x: f32[M, K], w: f32[N, K]) -> y: f32[M, N]
#   param K = 333
#   param M = 9
#   param N = 20
#   knob BM in {16, 32, 64}
#   knob BN in {32, 16, 64}
#   knob BK in {32, 64}
#   knob PARTS in {4, 2, 8, 16}
#   hint STAGES in {2, 3}
#   let CHUNK = roundup(ceildiv(K, PARTS), BK)
#   buffer part: f32[PARTS, M, N]
#
#   kernel partial over (s in PARTS, m in ceildiv(M, BM), n in ceildiv(N, BN)) {
#     acc = zeros f32[BM, BN]
#     for k in s*CHUNK..min(K, (s + 1) * CHUNK) step BK pipeline(STAGES) {
#       a = load x[m*BM :+ BM, k :+ BK] else 0
#       c = load w[n*BN :+ BN, k :+ BK] else 0
#       acc = dot(a, trans(c), acc) ieee
#     }
#     store part[s, m*BM :+ BM, n*BN :+ BN] = acc
#   }
#
#   kernel sum over (m in ceildiv(M, BM), n in ceildiv(N, BN)) {
#     acc = zeros f32[BM, BN]
#     for s in 0..PARTS {
#       acc = acc + (load part[s, m*BM :+ BM, n*BN :+ BN] else 0)
#     }
#     store y[m*BM :+ BM, n*BN :+ BN] = acc
#   }
#
# Knobs: BK = 32, BM = 16, BN = 32, PARTS = 4, STAGES = 2
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "gemm_splitk_partial": {"num_stages": 3, "num_warps": 4},
    "gemm_splitk_sum": {"num_stages": 3, "num_warps": 4},
}


@triton.jit
def gemm_splitk_partial(x_ptr, w_ptr, part_ptr):
    s = tl.program_id(0)
    acc = tl.zeros((16, 32), tl.float32)
    offs = tl.arange(0, 16)
    offs_2 = tl.arange(0, 32)
    for k in tl.range(s * 96, tl.minimum(s * 96 + 96, 333), 32, num_stages=2):
        offs_k = k + tl.arange(0, 32)
        a = tl.load(
            x_ptr + offs[:, None] * 333 + offs_k[None, :],
            mask=(offs[:, None] < 9) & (offs_k[None, :] < 333),
            other=0.0,
        )
        c = tl.load(
            w_ptr + offs_2[:, None] * 333 + offs_k[None, :],
            mask=(offs_2[:, None] < 20) & (offs_k[None, :] < 333),
            other=0.0,
        )
        acc = tl.dot(a, tl.trans(c), acc, input_precision="ieee")
    tl.store(
        part_ptr + s * 180 + offs[:, None] * 20 + offs_2[None, :],
        acc,
        mask=(offs[:, None] < 9) & (offs_2[None, :] < 20),
    )


@triton.jit
def gemm_splitk_sum(part_ptr, y_ptr):
    m = tl.program_id(0)
    acc = tl.zeros((16, 32), tl.float32)
    offs_m = m * 16 + tl.arange(0, 16)
    offs = tl.arange(0, 32)
    for s in range(4):
        part_tile = tl.load(
            part_ptr + s * 180 + offs_m[:, None] * 20 + offs[None, :],
            mask=(offs_m[:, None] < 9) & (offs[None, :] < 20),
            other=0.0,
        )
        acc = acc + part_tile
    tl.store(
        y_ptr + offs_m[:, None] * 20 + offs[None, :],
        acc,
        mask=(offs_m[:, None] < 9) & (offs[None, :] < 20),
    )
