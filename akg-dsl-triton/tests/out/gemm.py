# Lowered from this sketch:
#
#   # A product with sums on three levels.
#   sketch gemm(x: f32[512, 1024], w: f32[1024, 768]) -> y: f32[512, 768]
#   knob BM in {256, 128}
#
#   kernel main over (m in ceildiv(512, BM), n in ceildiv(768, 384)) {
#     acc = zeros f64[BM, 384]
#     for k in 0..1024 step 256 {
#       a = load x[m*BM :+ BM, k :+ 256]
#       b = load w[k :+ 256, n*384 :+ 384]
#       acc = acc + f64(dot(a, b) ieee promote(32))
#     }
#     store y[m*BM :+ BM, n*384 :+ 384] = f32(acc)
#   }
#
# Knobs: BM = 256
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` are the boxes of parameters that are tensor descriptors.
LAUNCH = {
    "gemm_main": {"num_stages": 3, "num_warps": 8},
}


@triton.jit
def gemm_main(x_ptr, w_ptr, y_ptr):
    program = tl.program_id(0)
    # A zero that Triton does not know: it folds what is added to a dot that starts from a known one.
    zero = program >> 31
    m = (program // 2)
    n = (program % 2)
    acc = tl.zeros((256, 512), tl.float64)
    for k in range(0, 1024, 256):
        offs_m = m * 256 + tl.arange(0, 256)
        offs_k = k + tl.arange(0, 256)
        a = tl.load(x_ptr + offs_m[:, None] * 1024 + offs_k[None, :])
        offs_n = n * 384 + tl.arange(0, 512)
        b = tl.load(w_ptr + offs_k[:, None] * 768 + offs_n[None, :], mask=(tl.arange(0, 512)[None, :] < 384), other=0.0)
        t = tl.where((tl.arange(0, 256)[None, :] < 32), a, 0.0)
        t_2 = tl.where((tl.arange(0, 256)[:, None] < 32), b, 0.0)
        t_3 = tl.dot(t, t_2, tl.full((256, 512), zero.to(tl.float32), tl.float32), input_precision="ieee")
        t_4 = tl.where((tl.arange(0, 256)[None, :] >= 32) & (tl.arange(0, 256)[None, :] < 64), a, 0.0)
        t_5 = tl.where((tl.arange(0, 256)[:, None] >= 32) & (tl.arange(0, 256)[:, None] < 64), b, 0.0)
        t_6 = tl.dot(t_4, t_5, tl.full((256, 512), zero.to(tl.float32), tl.float32), input_precision="ieee")
        t_7 = tl.where((tl.arange(0, 256)[None, :] >= 64) & (tl.arange(0, 256)[None, :] < 96), a, 0.0)
        t_8 = tl.where((tl.arange(0, 256)[:, None] >= 64) & (tl.arange(0, 256)[:, None] < 96), b, 0.0)
        t_9 = tl.dot(t_7, t_8, tl.full((256, 512), zero.to(tl.float32), tl.float32), input_precision="ieee")
        t_10 = tl.where((tl.arange(0, 256)[None, :] >= 96) & (tl.arange(0, 256)[None, :] < 128), a, 0.0)
        t_11 = tl.where((tl.arange(0, 256)[:, None] >= 96) & (tl.arange(0, 256)[:, None] < 128), b, 0.0)
        t_12 = tl.dot(t_10, t_11, tl.full((256, 512), zero.to(tl.float32), tl.float32), input_precision="ieee")
        t_13 = tl.where((tl.arange(0, 256)[None, :] >= 128) & (tl.arange(0, 256)[None, :] < 160), a, 0.0)
        t_14 = tl.where((tl.arange(0, 256)[:, None] >= 128) & (tl.arange(0, 256)[:, None] < 160), b, 0.0)
        t_15 = tl.dot(t_13, t_14, tl.full((256, 512), zero.to(tl.float32), tl.float32), input_precision="ieee")
        t_16 = tl.where((tl.arange(0, 256)[None, :] >= 160) & (tl.arange(0, 256)[None, :] < 192), a, 0.0)
        t_17 = tl.where((tl.arange(0, 256)[:, None] >= 160) & (tl.arange(0, 256)[:, None] < 192), b, 0.0)
        t_18 = tl.dot(t_16, t_17, tl.full((256, 512), zero.to(tl.float32), tl.float32), input_precision="ieee")
        t_19 = tl.where((tl.arange(0, 256)[None, :] >= 192) & (tl.arange(0, 256)[None, :] < 224), a, 0.0)
        t_20 = tl.where((tl.arange(0, 256)[:, None] >= 192) & (tl.arange(0, 256)[:, None] < 224), b, 0.0)
        t_21 = tl.dot(t_19, t_20, tl.full((256, 512), zero.to(tl.float32), tl.float32), input_precision="ieee")
        t_22 = tl.where((tl.arange(0, 256)[None, :] >= 224), a, 0.0)
        t_23 = tl.where((tl.arange(0, 256)[:, None] >= 224), b, 0.0)
        t_24 = tl.dot(t_22, t_23, tl.full((256, 512), zero.to(tl.float32), tl.float32), input_precision="ieee")
        t_25 = ((((((t_3 + t_6) + t_9) + t_12) + t_15) + t_18) + t_21) + t_24
        acc = acc + t_25.to(tl.float64)
    t_26 = acc.to(tl.float32)
    offs_m_2 = m * 256 + tl.arange(0, 256)
    offs_n_2 = n * 384 + tl.arange(0, 512)
    tl.store(y_ptr + offs_m_2[:, None] * 768 + offs_n_2[None, :], t_26, mask=(tl.arange(0, 512)[None, :] < 384))
