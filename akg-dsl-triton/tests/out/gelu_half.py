# Lowered from this sketch:
#
#   # GELU of a swish, where functions may be approximated.
#   sketch gelu_half(x: f32[N]) -> y: f32[N]
#   accuracy half
#
#   kernel main over (n in ceildiv(N, 1024)) {
#     t = load x[n*1024 :+ 1024] else 0.0
#     s = t * sigmoid(t)
#     e = exp(-abs(s)) / (s*s + 1.0)
#     store y[n*1024 :+ 1024] = 0.5*s * (1.0 + erf(s*0.7071067811865476)) + tanh(e)
#   }
#
import triton
import triton.language as tl
from triton.language.extra import libdevice

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "gelu_half_main": {"num_stages": 3, "num_warps": 8},
}


# For classes beyond fp32: errs by 3e-6 of the result at most.
@triton.jit
def akg_tanh_approx(x):
    a = tl.abs(x)
    s = a * a
    small = a * tl.fma(s, tl.fma(s, 0.13333333, -0.33333334), 1.0)
    e = libdevice.fast_expf(-2.0 * a)
    large = libdevice.fast_dividef(1.0 - e, 1.0 + e)
    return libdevice.copysign(tl.where(a < 0.0625, small, large), x)


# For classes beyond fp32: errs by 1e-5 of the result at most.
@triton.jit
def akg_sigmoid_approx(x):
    return libdevice.fast_dividef(1.0, 1.0 + libdevice.fast_expf(-x))


# For classes beyond fp32: Abramowitz and Stegun, 7.1.26, and the first terms of the series where that would be lost in
# rounding. Errs by 2e-6 of the result at most.
@triton.jit
def akg_erf_approx(x):
    a = tl.abs(x)
    s = a * a
    small = a * tl.fma(s, tl.fma(s, 0.11283792, -0.37612639), 1.1283792)
    t = libdevice.fast_dividef(1.0, tl.fma(a, 0.3275911, 1.0))
    p = tl.fma(t, 1.061405429, -1.453152027)
    p = tl.fma(t, p, 1.421413741)
    p = tl.fma(t, p, -0.284496736)
    p = tl.fma(t, p, 0.254829592)
    large = 1.0 - t * p * libdevice.fast_expf(-s)
    return libdevice.copysign(tl.where(a < 0.125, small, large), x)


@triton.jit
def gelu_half_main(x_ptr, y_ptr, N: tl.int64):
    n = tl.program_id(0).to(tl.int64)
    offs_n = n * 1024 + tl.arange(0, 1024)
    t = tl.load(x_ptr + tl.cast(offs_n, tl.int64), mask=offs_n < N, other=0.0)
    s = t * akg_sigmoid_approx(t)
    e = libdevice.fast_expf(-tl.abs(s)) / ((s * s) + 1.0)
    t_2 = ((0.5 * s) * (1.0 + akg_erf_approx(s * 0.7071067811865476))) + akg_tanh_approx(e)
    tl.store(y_ptr + tl.cast(offs_n, tl.int64), t_2, mask=offs_n < N)
