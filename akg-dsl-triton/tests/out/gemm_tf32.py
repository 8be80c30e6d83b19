# Lowered from this sketch:
#
#   # A product in TF32 whose operands the copy engine moves.
#   sketch gemm_tf32(x: f32[1024, 512], w: f32[2048, 512], b: f32[2048]) -> y: f32[1024, 2048]
#   knob BM in {128, 64}
#   knob BN in {128, 256}
#   hint P in {3, 4}
#
#   kernel main over (m in ceildiv(1024, BM), n in ceildiv(2048, BN)) grouped m by 8 {
#     acc = zeros f32[BM, BN]
#     for k in 0..512 step 32 pipeline(P) {
#       a = load x[m*BM :+ BM, k :+ 32] else 0
#       c = load w[n*BN :+ BN, k :+ 32] else 0
#       acc = dot(a, trans(c), acc) tf32
#     }
#     t = acc + (load b[n*BN :+ BN] else 0)[None, :]
#     store y[m*BM :+ BM, n*BN :+ BN] = max(t, 0)
#   }
#
# Knobs: BM = 128, BN = 128, P = 3
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "gemm_tf32_main": {"descriptors": {"w_desc": {"block_shape": [128, 32], "shape": [2048, 512]}, "x_desc": {"block_shape": [128, 32], "shape": [1024, 512]}}, "num_stages": 3, "num_warps": 8},
}


# Rounds to 10 mantissa bits, ties away from zero; a product in TF32 cuts them off.
@triton.jit
def akg_tf32(x):
    return tl.inline_asm_elementwise(
        "cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1
    )


# A sum once it is complete. Triton 3.6 leaves a product under way whose left factor is in registers while it fills them
# with the next factor, unless something reads the sum first.
@triton.jit
def akg_settled(sum):
    return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [sum], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def gemm_tf32_main(x_desc, w_desc, b_ptr, y_ptr):
    program = tl.program_id(0)
    m = (program // 128) * 8 + ((program % 128) % tl.minimum(8, 8 - (program // 128) * 8))
    n = (program % 128) // tl.minimum(8, 8 - (program // 128) * 8)
    acc = tl.zeros((128, 128), tl.float32)
    for k in tl.range(0, 512, 32, num_stages=3):
        a = x_desc.load([m * 128, k])
        c = w_desc.load([n * 128, k])
        acc = akg_settled(tl.dot(akg_tf32(a), akg_tf32(tl.trans(c)), acc, input_precision="tf32"))
    offs_n = n * 128 + tl.arange(0, 128)
    b_tile = tl.load(b_ptr + offs_n)
    t = acc + b_tile[None, :]
    offs_m = m * 128 + tl.arange(0, 128)
    tl.store(
        y_ptr + offs_m[:, None] * 2048 + offs_n[None, :],
        tl.maximum(t, 0.0, propagate_nan=tl.PropagateNan.ALL),
    )
