# Lowered from this sketch:
#
#   # Terms of a sum, of which the largest is 1, and terms that are read by themselves.
#   sketch logsumexp(x: f32[512, 4096], z: f32[512, 64, 32]) -> (y: f32[512], columns: f32[512, 32])
#
#   kernel rows over (r in 512) {
#     t = load x[r, 0 :+ 4096]
#     m = reduce_max(t, 0)
#     base = select(m == -inf, 0.0, m)
#     store y[r] = base + log(reduce_sum(exp(t - base), 0))
#   }
#
#   kernel other over (r in 512) {
#     t = load z[r, 0 :+ 64, 0 :+ 32]
#     m = reduce_max(t, 1)
#     store columns[r, 0 :+ 32] = reduce_sum(exp(t - m[:, None]), 0)
#   }
#
import triton
import triton.language as tl
from triton.language.extra import libdevice

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "logsumexp_rows": {"num_stages": 3, "num_warps": 4},
    "logsumexp_other": {"num_stages": 3, "num_warps": 8},
}


# Triton tells libdevice to flush subnormal numbers to zero: such results are computed e^22.1875 times as large.
@triton.jit
def akg_exp(x):
    low = x < -86.0
    y = libdevice.exp(tl.where(low, x + 22.1875, x))
    return tl.where(low, y * 2.3125502732234879e-10, y)


# A power of two times a fraction from 2/3 to 4/3, of whose logarithm a polynomial is taken: errs by less than 1 unit in the
# last place. What has no such form (zeros, infinities, NaN, negative and subnormal numbers) is 2^24 times as large left to the
# device's own approximation.
@triton.jit
def akg_log(x):
    bits = x.to(tl.int32, bitcast=True)
    exponent = (bits - 0x3F2AAAAB) & -0x800000
    f = (bits - exponent).to(tl.float32, bitcast=True) - 1.0
    p = -0.130310059
    p = tl.fma(p, f, 0.140869141)
    p = tl.fma(p, f, -0.121483512)
    p = tl.fma(p, f, 0.139814854)
    p = tl.fma(p, f, -0.166846126)
    p = tl.fma(p, f, 0.200120345)
    p = tl.fma(p, f, -0.2499962)
    p = tl.fma(p, f, 0.333331972)
    p = tl.fma(p, f, -0.5)
    p = tl.fma(p * f, f, f)
    normal = tl.fma(exponent.to(tl.float32), 8.262958405176314e-08, p)
    other = tl.fma(libdevice.fast_log2f(x * 16777216.0), 0.6931471805599453, -16.635532333438686)
    return tl.where((bits - 0x800000).to(tl.uint32, bitcast=True) >= 0x7F000000, other, normal)


# NaN if either is.
@triton.jit
def akg_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def logsumexp_rows(x_ptr, y_ptr):
    r = tl.program_id(0)
    offs = tl.arange(0, 4096)
    t = tl.load(x_ptr + r * 4096 + offs)
    m = tl.reduce(t, 0, akg_max)
    base = tl.where(m == float("-inf"), 0.0, m)
    tl.store(y_ptr + r, base + akg_log(tl.sum(libdevice.exp(t - base), 0)))


@triton.jit
def logsumexp_other(z_ptr, columns_ptr):
    r = tl.program_id(0)
    offs = tl.arange(0, 64)
    offs_2 = tl.arange(0, 32)
    t = tl.load(z_ptr + r * 2048 + offs[:, None] * 32 + offs_2[None, :])
    m = tl.reduce(t, 1, akg_max)
    tl.store(columns_ptr + r * 32 + offs_2, tl.sum(akg_exp(t - m[:, None]), 0))
