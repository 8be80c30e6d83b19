# Lowered from this sketch:
#
#   # y = x w^T + b with the accuracy of f32 on hardware whose fast dot takes f16: each operand, scaled by row, is split into
#   # a high and a low half (the low one times 2^11), and three of the four products are summed.
#   sketch gemm_split(x: f32[M, K], w: f32[N, K], b: f32[N]) -> y: f32[M, N]
#   param K = 70
#   param M = 37
#   param N = 50
#   knob BM in {32, 16, 64, 128}
#   knob BN in {32, 64, 128, 256}
#   knob BK in {32, 64}
#   knob RB in {4, 1, 16}
#   knob SK in {64, 256, 1024}
#   hint STAGES in {2, 3, 4}
#   hint GROUP in {8, 1}
#   require BM*BN <= 32768
#   require RB*SK <= 16384
#   buffer xh: f16[M, K] align 16
#   buffer xl: f16[M, K] align 16
#   buffer sx: f32[M]
#   buffer wh: f16[N, K] align 16
#   buffer wl: f16[N, K] align 16
#   buffer sw: f32[N]
#
#   # Finds each row's scale, the power of two of its largest element, and splits the scaled row.
#   kernel split for (X, H, L, S, R) in {(x, xh, xl, sx, M), (w, wh, wl, sw, N)} over (r in ceildiv(R, RB)) {
#     top = zeros f32[RB]
#     for k in 0..K step SK {
#       top = max(top, reduce_max(abs(load X[r*RB :+ RB, k :+ SK] else 0), 1))
#     }
#     scale = pow2_floor(top)
#     store S[r*RB :+ RB] = scale
#     for k in 0..K step SK {
#       t = (load X[r*RB :+ RB, k :+ SK] else 0) / scale[:, None]
#       h = f16(t)
#       store H[r*RB :+ RB, k :+ SK] = h
#       store L[r*RB :+ RB, k :+ SK] = f16(ldexp(t - f32(h), 11))
#     }
#   }
#
#   # The partial sum of a block starts from the small products and is added to the accumulator once, rounded to f32.
#   kernel main over (m in ceildiv(M, BM), n in ceildiv(N, BN)) grouped m by GROUP {
#     acc = zeros f32[BM, BN]
#     for k in 0..K step BK pipeline(STAGES) {
#       ah = load xh[m*BM :+ BM, k :+ BK] else 0
#       al = load xl[m*BM :+ BM, k :+ BK] else 0
#       ch = load wh[n*BN :+ BN, k :+ BK] else 0
#       cl = load wl[n*BN :+ BN, k :+ BK] else 0
#       small = dot(ah, trans(cl)) f16
#       small = dot(al, trans(ch), small) f16
#       acc = acc + (dot(ah, trans(ch), ldexp(small, -11)) f16)
#     }
#     t = acc * (load sx[m*BM :+ BM] else 0)[:, None] * (load sw[n*BN :+ BN] else 0)[None, :]
#     store y[m*BM :+ BM, n*BN :+ BN] = t + (load b[n*BN :+ BN] else 0)[None, :]
#   }
#
# Knobs: BK = 32, BM = 32, BN = 32, GROUP = 8, RB = 4, SK = 64, STAGES = 2
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "gemm_split_split_0": {"num_stages": 3, "num_warps": 1},
    "gemm_split_split_1": {"num_stages": 3, "num_warps": 1},
    "gemm_split_main": {"num_stages": 3, "num_warps": 4},
}


# Quotients by a divisor that several dividends share, and so its reciprocal. What a quotient leaves of the dividend is exact,
# and the reciprocal's share of it makes up for the error. Very large and very small divisors would have no normal reciprocal;
# a power of two mends that. Infinities and zeros, and their signs, are right before.
@triton.jit
def akg_div_by(a, b):
    size = tl.abs(b)
    scale = tl.where(size > 1.2676506002282294e30, 5.421010862427522e-20, 1.0)
    scale = tl.where(size < 7.888609052210118e-31, 1.8446744073709552e19, scale)
    b = b * scale
    reciprocal = 1.0 / b
    a = a * scale
    q = a * reciprocal
    mended = tl.fma(tl.fma(-q, b, a), reciprocal, q)
    return tl.where(tl.abs(mended) > 0, mended, q)


# The largest power of two not above the magnitude; 1 for zero, infinity and NaN.
@triton.jit
def akg_pow2_floor(x):
    # Subnormal magnitudes are scaled up by 2^24 or 2^53 and back.
    if x.dtype == tl.float64:
        small = tl.abs(x) < 2.2250738585072014e-308
        scaled = tl.where(small, x * 9007199254740992.0, x)
        power = (scaled.to(tl.int64, bitcast=True) & 0x7FF0000000000000).to(tl.float64, bitcast=True)
        power = tl.where(small, power * 1.1102230246251565e-16, power)
    else:
        small = tl.abs(x) < 1.1754943508222875e-38
        scaled = tl.where(small, x * 16777216.0, x)
        power = (scaled.to(tl.int32, bitcast=True) & 0x7F800000).to(tl.float32, bitcast=True)
        power = tl.where(small, power * 5.9604644775390625e-08, power)
    return tl.where((x != 0) & (tl.abs(x) < float("inf")), power, tl.full((), 1.0, x.dtype))


# NaN if either is.
@triton.jit
def akg_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# Finds each row's scale, the power of two of its largest element, and splits the scaled row.
@triton.jit
def gemm_split_split_0(x_ptr, sx_ptr, xh_ptr, xl_ptr):
    r = tl.program_id(0)
    top = tl.zeros((4,), tl.float32)
    offs_r = r * 4 + tl.arange(0, 4)
    for k in range(0, 70, 64):
        offs_k = k + tl.arange(0, 64)
        x_tile = tl.load(
            x_ptr + offs_r[:, None] * 70 + offs_k[None, :],
            mask=(offs_r[:, None] < 37) & (offs_k[None, :] < 70),
            other=0.0,
        )
        top = tl.maximum(top, tl.reduce(tl.abs(x_tile), 1, akg_max), propagate_nan=tl.PropagateNan.ALL)
    scale = akg_pow2_floor(top)
    tl.store(sx_ptr + offs_r, scale, mask=offs_r < 37)
    for k_1 in range(0, 70, 64):
        offs_k_1 = k_1 + tl.arange(0, 64)
        x_tile_2 = tl.load(
            x_ptr + offs_r[:, None] * 70 + offs_k_1[None, :],
            mask=(offs_r[:, None] < 37) & (offs_k_1[None, :] < 70),
            other=0.0,
        )
        t = akg_div_by(x_tile_2, scale[:, None])
        h = t.to(tl.float16)
        tl.store(
            xh_ptr + offs_r[:, None] * 70 + offs_k_1[None, :],
            h,
            mask=(offs_r[:, None] < 37) & (offs_k_1[None, :] < 70),
        )
        tl.store(
            xl_ptr + offs_r[:, None] * 70 + offs_k_1[None, :],
            ((t - h.to(tl.float32)) * 2048.0).to(tl.float16),
            mask=(offs_r[:, None] < 37) & (offs_k_1[None, :] < 70),
        )


# Finds each row's scale, the power of two of its largest element, and splits the scaled row.
@triton.jit
def gemm_split_split_1(w_ptr, sw_ptr, wh_ptr, wl_ptr):
    r = tl.program_id(0)
    top = tl.zeros((4,), tl.float32)
    offs_r = r * 4 + tl.arange(0, 4)
    for k in range(0, 70, 64):
        offs_k = k + tl.arange(0, 64)
        w_tile = tl.load(
            w_ptr + offs_r[:, None] * 70 + offs_k[None, :],
            mask=(offs_r[:, None] < 50) & (offs_k[None, :] < 70),
            other=0.0,
        )
        top = tl.maximum(top, tl.reduce(tl.abs(w_tile), 1, akg_max), propagate_nan=tl.PropagateNan.ALL)
    scale = akg_pow2_floor(top)
    tl.store(sw_ptr + offs_r, scale, mask=offs_r < 50)
    for k_1 in range(0, 70, 64):
        offs_k_1 = k_1 + tl.arange(0, 64)
        w_tile_2 = tl.load(
            w_ptr + offs_r[:, None] * 70 + offs_k_1[None, :],
            mask=(offs_r[:, None] < 50) & (offs_k_1[None, :] < 70),
            other=0.0,
        )
        t = akg_div_by(w_tile_2, scale[:, None])
        h = t.to(tl.float16)
        tl.store(
            wh_ptr + offs_r[:, None] * 70 + offs_k_1[None, :],
            h,
            mask=(offs_r[:, None] < 50) & (offs_k_1[None, :] < 70),
        )
        tl.store(
            wl_ptr + offs_r[:, None] * 70 + offs_k_1[None, :],
            ((t - h.to(tl.float32)) * 2048.0).to(tl.float16),
            mask=(offs_r[:, None] < 50) & (offs_k_1[None, :] < 70),
        )


# The partial sum of a block starts from the small products and is added to the accumulator once, rounded to f32.
@triton.jit
def gemm_split_main(xh_ptr, xl_ptr, wh_ptr, wl_ptr, sx_ptr, sw_ptr, b_ptr, y_ptr):
    program = tl.program_id(0)
    m = (program // 16) * 8 + ((program % 16) % tl.minimum(2 - (program // 16) * 8, 8))
    n = (program % 16) // tl.minimum(2 - (program // 16) * 8, 8)
    acc = tl.zeros((32, 32), tl.float32)
    offs_m = m * 32 + tl.arange(0, 32)
    offs_n = n * 32 + tl.arange(0, 32)
    for k in tl.range(0, 70, 32, num_stages=2):
        offs_k = k + tl.arange(0, 32)
        ah = tl.load(
            xh_ptr + offs_m[:, None] * 70 + offs_k[None, :],
            mask=(offs_m[:, None] < 37) & (offs_k[None, :] < 70),
            other=0.0,
        )
        al = tl.load(
            xl_ptr + offs_m[:, None] * 70 + offs_k[None, :],
            mask=(offs_m[:, None] < 37) & (offs_k[None, :] < 70),
            other=0.0,
        )
        ch = tl.load(
            wh_ptr + offs_n[:, None] * 70 + offs_k[None, :],
            mask=(offs_n[:, None] < 50) & (offs_k[None, :] < 70),
            other=0.0,
        )
        cl = tl.load(
            wl_ptr + offs_n[:, None] * 70 + offs_k[None, :],
            mask=(offs_n[:, None] < 50) & (offs_k[None, :] < 70),
            other=0.0,
        )
        small = tl.dot(ah, tl.trans(cl))
        small_2 = tl.dot(al, tl.trans(ch), small)
        product = tl.dot(ah, tl.trans(ch), small_2 * 0.00048828125)
        acc = acc + product
    sx_tile = tl.load(sx_ptr + offs_m, mask=offs_m < 37, other=0.0)
    sw_tile = tl.load(sw_ptr + offs_n, mask=offs_n < 50, other=0.0)
    t = (acc * sx_tile[:, None]) * sw_tile[None, :]
    b_tile = tl.load(b_ptr + offs_n, mask=offs_n < 50, other=0.0)
    tl.store(
        y_ptr + offs_m[:, None] * 50 + offs_n[None, :],
        t + b_tile[None, :],
        mask=(offs_m[:, None] < 37) & (offs_n[None, :] < 50),
    )
