# Lowered from this sketch:
#
#   # y = leaky_relu(x w^T + b): a matrix product with its element-wise tail in the same kernel.
#   sketch gemm_tail(x: f32[M, K], w: f32[N, K], b: f32[N]) -> y: f32[M, N]
#   param K = 70
#   param M = 37
#   param N = 50
#   param SLOPE: f32 = 0.01
#   knob BM in {32, 16, 64, 128}
#   knob BN in {32, 16, 64, 128}
#   knob BK in {32, 16, 64}
#   hint STAGES in {2, 3, 4}
#   hint GROUP in {8, 1}
#   require BM*BN <= 8192
#
#   kernel main over (m in ceildiv(M, BM), n in ceildiv(N, BN)) grouped m by GROUP {
#     acc = zeros f32[BM, BN]
#     for k in 0..K step BK pipeline(STAGES) {
#       a = load x[m*BM :+ BM, k :+ BK] else 0
#       c = load w[n*BN :+ BN, k :+ BK] else 0
#       acc = dot(a, trans(c), acc) ieee
#     }
#     t = acc + (load b[n*BN :+ BN] else 0)[None, :]
#     store y[m*BM :+ BM, n*BN :+ BN] = select(t > 0, t, SLOPE*t)
#   }
#
# Knobs: BK = 32, BM = 32, BN = 32, GROUP = 8, STAGES = 2
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "gemm_tail_main": {"num_stages": 3, "num_warps": 4},
}


@triton.jit
def gemm_tail_main(x_ptr, w_ptr, b_ptr, y_ptr):
    program = tl.program_id(0)
    m = (program // 16) * 8 + ((program % 16) % tl.minimum(2 - (program // 16) * 8, 8))
    n = (program % 16) // tl.minimum(2 - (program // 16) * 8, 8)
    acc = tl.zeros((32, 32), tl.float32)
    offs_m = m * 32 + tl.arange(0, 32)
    offs_n = n * 32 + tl.arange(0, 32)
    for k in tl.range(0, 70, 32, num_stages=2):
        offs_k = k + tl.arange(0, 32)
        a = tl.load(
            x_ptr + offs_m[:, None] * 70 + offs_k[None, :],
            mask=(offs_m[:, None] < 37) & (offs_k[None, :] < 70),
            other=0.0,
        )
        c = tl.load(
            w_ptr + offs_n[:, None] * 70 + offs_k[None, :],
            mask=(offs_n[:, None] < 50) & (offs_k[None, :] < 70),
            other=0.0,
        )
        acc = tl.dot(a, tl.trans(c), acc, input_precision="ieee")
    b_tile = tl.load(b_ptr + offs_n, mask=offs_n < 50, other=0.0)
    t = acc + b_tile[None, :]
    tl.store(
        y_ptr + offs_m[:, None] * 50 + offs_n[None, :],
        tl.where(t > 0.0, t, 0.01 * t),
        mask=(offs_m[:, None] < 37) & (offs_n[None, :] < 50),
    )
