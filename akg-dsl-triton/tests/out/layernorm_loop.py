# Lowered from this sketch:
#
#   # Layer normalisation of long rows.
#   sketch layernorm_loop(x: f32[512, 100000], g: f32[100000]) -> y: f32[512, 100000]
#
#   kernel main over (r in 512) {
#     s = zeros f32[4096]
#     q = zeros f32[4096]
#     for l in 0..100000 step 4096 {
#       t = load x[r, l :+ 4096] else 0
#       s = s + t
#       q = q + t*t
#     }
#     mean = reduce_sum(s, 0) / 100000.0
#     inv = rsqrt(reduce_sum(q, 0) / 100000.0 - mean*mean + 1e-5)
#     for l in 0..100000 step 4096 {
#       t = load x[r, l :+ 4096] else 0
#       store y[r, l :+ 4096] = (t - mean) * inv * (load g[l :+ 4096] else 0)
#     }
#   }
#
import triton
import triton.language as tl
from triton.language.extra import libdevice

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "layernorm_loop_main": {"num_stages": 3, "num_warps": 8},
}


# Triton's quotients err by 2 units in the last place, and its rounded ones branch for each element. What a quotient leaves
# of the dividend is exact, and its own quotient makes up for the error. Nothing is left of zeros, and of infinities NaN.
@triton.jit
def akg_div(a, b):
    q = a / b
    rest = tl.fma(-q, b, a)
    return tl.where((rest != 0) & (tl.abs(rest) < float("inf")), q + rest / b, q)


@triton.jit
def layernorm_loop_main(x_ptr, g_ptr, y_ptr):
    r = tl.program_id(0)
    s = tl.zeros((4096,), tl.float32)
    q = tl.zeros((4096,), tl.float32)
    for l in range(0, 100000, 4096):
        offs_l = l + tl.arange(0, 4096)
        t = tl.load(x_ptr + r * 100000 + offs_l, mask=offs_l < 100000, other=0.0)
        s = s + t
        q = q + (t * t)
    mean = akg_div(tl.sum(s, 0), tl.full((), 100000.0, tl.float32))
    t_2 = akg_div(tl.sum(q, 0), tl.full((), 100000.0, tl.float32)) - (mean * mean)
    inv = libdevice.rsqrt(t_2 + 1e-5)
    for l_1 in range(0, 100000, 4096):
        offs_l_1 = l_1 + tl.arange(0, 4096)
        t_3 = tl.load(x_ptr + r * 100000 + offs_l_1, mask=offs_l_1 < 100000, other=0.0)
        g_tile = tl.load(g_ptr + offs_l_1, mask=offs_l_1 < 100000, other=0.0)
        tl.store(y_ptr + r * 100000 + offs_l_1, ((t_3 - mean) * inv) * g_tile, mask=offs_l_1 < 100000)
