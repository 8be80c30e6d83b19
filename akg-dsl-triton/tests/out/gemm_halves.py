# Lowered from this sketch:
#
#   # A product with the accuracy of f32 from halves that were split before.
#   sketch gemm_halves(xh: f16[4096, 4096], xl: f16[4096, 4096], wh: f16[4096, 4096], wl: f16[4096, 4096]) -> y: f32[4096, 4096]
#
#   kernel main over (m in 32, n in 32) grouped m by 8 {
#     acc = zeros f32[128, 128]
#     for k in 0..4096 step 64 pipeline(3) {
#       ah = load xh[m*128 :+ 128, k :+ 64]
#       al = load xl[m*128 :+ 128, k :+ 64]
#       ch = load wh[n*128 :+ 128, k :+ 64]
#       cl = load wl[n*128 :+ 128, k :+ 64]
#       small = dot(ah, trans(cl)) f16
#       small = dot(al, trans(ch), small) f16
#       acc = acc + (dot(ah, trans(ch), ldexp(small, -11)) f16)
#     }
#     store y[m*128 :+ 128, n*128 :+ 128] = acc
#   }
#
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "gemm_halves_main": {"descriptors": {"wh_desc": {"block_shape": [128, 64], "shape": [4096, 4096]}, "wl_desc": {"block_shape": [128, 64], "shape": [4096, 4096]}, "xh_desc": {"block_shape": [128, 64], "shape": [4096, 4096]}, "xl_desc": {"block_shape": [128, 64], "shape": [4096, 4096]}}, "num_stages": 3, "num_warps": 8},
}


@triton.jit
def gemm_halves_main(xh_desc, xl_desc, wh_desc, wl_desc, y_ptr):
    program = tl.program_id(0)
    m = (program // 256) * 8 + ((program % 256) % tl.minimum(8, 32 - (program // 256) * 8))
    n = (program % 256) // tl.minimum(8, 32 - (program // 256) * 8)
    acc = tl.zeros((128, 128), tl.float32)
    for k in tl.range(0, 4096, 64, num_stages=3):
        ah = xh_desc.load([m * 128, k])
        al = xl_desc.load([m * 128, k])
        ch = wh_desc.load([n * 128, k])
        cl = wl_desc.load([n * 128, k])
        small = tl.dot(ah, tl.trans(cl))
        small_2 = tl.dot(al, tl.trans(ch), small)
        product = tl.dot(ah, tl.trans(ch), small_2 * 0.00048828125)
        acc = acc + product
    offs_m = m * 128 + tl.arange(0, 128)
    offs_n = n * 128 + tl.arange(0, 128)
    tl.store(y_ptr + offs_m[:, None] * 4096 + offs_n[None, :], acc)
