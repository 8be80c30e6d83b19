# Lowered from this sketch:
#
#   # A product in TF32 of an operand that a kernel rounded before, and of one that is rounded where it is multiplied.
#   sketch gemm_rounded(x: f32[128, 4096], w: f32[4096, 4096]) -> y: f32[128, 4096]
#   buffer X: f32[128, 4096] align 16
#
#   kernel round over (m in 128) {
#     a = load x[m, 0 :+ 4096]
#     store X[m, 0 :+ 4096] = f32(f16(a))
#   }
#
#   kernel main over (n in 32) {
#     acc = zeros f32[128, 128]
#     for k in 0..4096 step 32 pipeline(3) {
#       c = load w[n*128 :+ 128, k :+ 32]
#       a = trans(load X[0 :+ 128, k :+ 32])
#       acc = dot(c, a, acc) tf32
#     }
#     store y[0 :+ 128, n*128 :+ 128] = trans(acc)
#   }
#
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "gemm_rounded_round": {"num_stages": 3, "num_warps": 8},
    "gemm_rounded_main": {"descriptors": {"X_desc": {"block_shape": [128, 32], "shape": [128, 4096]}, "w_desc": {"block_shape": [128, 32], "shape": [4096, 4096]}}, "num_stages": 3, "num_warps": 8},
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
def gemm_rounded_round(x_ptr, X_ptr):
    m = tl.program_id(0)
    offs = tl.arange(0, 4096)
    a = tl.load(x_ptr + m * 4096 + offs)
    tl.store(X_ptr + m * 4096 + offs, a.to(tl.float16).to(tl.float32))


@triton.jit
def gemm_rounded_main(w_desc, X_desc, y_ptr):
    n = tl.program_id(0)
    acc = tl.zeros((128, 128), tl.float32)
    for k in tl.range(0, 4096, 32, num_stages=3):
        c = w_desc.load([n * 128, k])
        X_tile = X_desc.load([0, k])
        a = tl.trans(X_tile)
        acc = akg_settled(tl.dot(akg_tf32(c), a, acc, input_precision="tf32"))
    offs = tl.arange(0, 128)
    offs_n = n * 128 + tl.arange(0, 128)
    tl.store(y_ptr + offs[:, None] * 4096 + offs_n[None, :], tl.trans(acc))
