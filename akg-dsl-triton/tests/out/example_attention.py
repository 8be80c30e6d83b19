# Lowered from this sketch:
#
#   # Causal attention over G = batch times heads, f16 outside and f32 inside, without storing the scores: a running maximum
#   # and denominator for each row, the accumulator rescaled when the maximum grows. Logarithms are of base 2.
#   sketch attention(q: f16[G, S, D], k: f16[G, S, D], v: f16[G, S, D]) -> o: f16[G, S, D]
#   param D = 16
#   param G = 2
#   param S = 50
#   param LOG2E: f32 = 1.4426950408889634
#   knob BM in {16, 32, 64, 128}
#   knob BN in {32, 16, 64, 128}
#   hint STAGES in {2, 1, 3}
#
#   kernel main over (g in G, m in ceildiv(S, BM)) {
#     qt = load q[g, m*BM :+ BM, 0 :+ D] else 0
#     scale = rsqrt(f32(D)) * LOG2E
#     row = m*BM + iota(BM)
#     mx = full f32[BM] -inf
#     den = zeros f32[BM]
#     acc = zeros f32[BM, D]
#     for n in 0..min(S, (m + 1) * BM) step BN pipeline(STAGES) {
#       kt = load k[g, n :+ BN, 0 :+ D] else 0
#       vt = load v[g, n :+ BN, 0 :+ D] else 0
#       s = dot(qt, trans(kt)) f16
#       s = s*scale
#       # Blocks left of the diagonal are all seen.
#       if n + BN > min(S, m*BM + 1) {
#         col = n + iota(BN)
#         s = select(row[:, None] >= col[None, :] & (col < S)[None, :], s, -inf)
#       }
#       nm = max(mx, reduce_max(s, 1))
#       p = exp2(s - nm[:, None])
#       shrink = exp2(mx - nm)
#       den = den*shrink + reduce_sum(p, 1)
#       acc = dot(f16(p), vt, acc * shrink[:, None]) f16
#       mx = nm
#     }
#     store o[g, m*BM :+ BM, 0 :+ D] = f16(acc / den[:, None])
#   }
#
# Knobs: BM = 16, BN = 32, STAGES = 2
import triton
import triton.language as tl
from triton.language.extra import libdevice

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "attention_main": {"descriptors": {"k_desc": {"block_shape": [1, 32, 16], "shape": [2, 50, 16]}, "v_desc": {"block_shape": [1, 32, 16], "shape": [2, 50, 16]}}, "num_stages": 3, "num_warps": 4},
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


# NaN if either is.
@triton.jit
def akg_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def attention_main(q_ptr, k_desc, v_desc, o_ptr):
    program = tl.program_id(0)
    g = program // 4
    m = program % 4
    offs_m = m * 16 + tl.arange(0, 16)
    offs = tl.arange(0, 16)
    qt = tl.load(q_ptr + g * 800 + offs_m[:, None] * 16 + offs[None, :], mask=offs_m[:, None] < 50, other=0.0)
    scale = libdevice.rsqrt(tl.full((), 16.0, tl.float32)) * 1.4426950408889634
    row = tl.cast(m * 16, tl.int32) + tl.arange(0, 16)
    mx = tl.full((16,), float("-inf"), tl.float32)
    den = tl.zeros((16,), tl.float32)
    acc = tl.zeros((16, 16), tl.float32)
    for n in tl.range(0, tl.minimum(m * 16 + 16, 50), 32, num_stages=2):
        kt = tl.reshape(k_desc.load([g, n, 0]), (32, 16))
        vt = tl.reshape(v_desc.load([g, n, 0]), (32, 16))
        s = tl.dot(qt, tl.trans(kt))
        s_2 = s * scale
        if (n + 32) > tl.minimum(m * 16 + 1, 50):
            col = tl.cast(n, tl.int32) + tl.arange(0, 32)
            s_2 = tl.where((row[:, None] >= col[None, :]) & (col < 50)[None, :], s_2, float("-inf"))
        nm = tl.maximum(mx, tl.reduce(s_2, 1, akg_max), propagate_nan=tl.PropagateNan.ALL)
        p = libdevice.exp2(s_2 - nm[:, None])
        shrink = libdevice.exp2(mx - nm)
        den = (den * shrink) + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), vt, acc * shrink[:, None])
        mx = nm
    tl.store(
        o_ptr + g * 800 + offs_m[:, None] * 16 + offs[None, :],
        akg_div_by(acc, den[:, None]).to(tl.float16),
        mask=offs_m[:, None] < 50,
    )
