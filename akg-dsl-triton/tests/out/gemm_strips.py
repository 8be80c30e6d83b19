# Lowered from this sketch:
#
#   # A product with a short sum: programs keep a tile of the right operand, and what they store is on its way while the rows of
#   # the next tile arrive. Tiles reach beyond the rows and the columns.
#   sketch gemm_strips(ah: f16[2, 4000, 64], al: f16[2, 4000, 64], bh: f16[64, 8200], bl: f16[64, 8200], scale: f32[2, 4000]) -> y: f32[2, 4000, 8200]
#
#   kernel main over (b in 2, s in ceildiv(4000, 512), n in ceildiv(8200, 64)) {
#     ch = load bh[0 :+ 64, n*64 :+ 64] else 0
#     cl = load bl[0 :+ 64, n*64 :+ 64] else 0
#     for m in 0..8 pipeline(2) {
#       t = load scale[b, (s*8 + m) * 64 :+ 64] else 0
#       xh = load ah[b, (s*8 + m) * 64 :+ 64, 0 :+ 64] else 0
#       xl = load al[b, (s*8 + m) * 64 :+ 64, 0 :+ 64] else 0
#       low = dot(xl, ch) f16
#       low = dot(xh, cl, low) f16
#       product = dot(xh, ch, low) f16
#       store y[b, (s*8 + m) * 64 :+ 64, n*64 :+ 64] = product * t[:, None]
#     }
#   }
#
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "gemm_strips_main": {"descriptors": {"ah_desc": {"block_shape": [1, 64, 64], "shape": [2, 4000, 64]}, "al_desc": {"block_shape": [1, 64, 64], "shape": [2, 4000, 64]}, "y_desc": {"block_shape": [1, 64, 64], "shape": [2, 4000, 8200]}}, "num_stages": 3, "num_warps": 4},
}


@triton.jit
def gemm_strips_main(bh_ptr, bl_ptr, scale_ptr, ah_desc, al_desc, y_desc):
    program = tl.program_id(0)
    b = program // 1032
    s = (program % 1032) // 129
    n = (program % 1032) % 129
    offs = tl.arange(0, 64)
    offs_n = n * 64 + tl.arange(0, 64)
    ch = tl.load(bh_ptr + offs[:, None] * 8200 + offs_n[None, :], mask=offs_n[None, :] < 8200, other=0.0)
    cl = tl.load(bl_ptr + offs[:, None] * 8200 + offs_n[None, :], mask=offs_n[None, :] < 8200, other=0.0)
    for m in tl.range(8, num_stages=2):
        offs_m_s = m * 64 + s * 512 + tl.arange(0, 64)
        t = tl.load(scale_ptr + b * 4000 + offs_m_s, mask=offs_m_s < 4000, other=0.0)
        xh = tl.reshape(ah_desc.load([b, m * 64 + s * 512, 0]), (64, 64))
        xl = tl.reshape(al_desc.load([b, m * 64 + s * 512, 0]), (64, 64))
        low = tl.dot(xl, ch)
        low_2 = tl.dot(xh, cl, low)
        product = tl.dot(xh, ch, low_2)
        y_desc.store([b, m * 64 + s * 512, n * 64], tl.reshape(product * t[:, None], (1, 64, 64)))
