# Lowered from this sketch:
#
#   # Layer normalisation along the last axis: the mean, then the variance around it, then the results.
#   sketch layernorm(x: f32[R, L], g: f32[L], b: f32[L]) -> y: f32[R, L]
#   param L = 100
#   param R = 5
#   param EPS: f32 = 1e-5
#   knob RB in {1, 2, 4}
#   knob BL in {256, 64, 1024, 4096}
#   require RB*BL <= 16384
#
#   kernel main over (r in ceildiv(R, RB)) {
#     s = zeros f32[RB, BL]
#     for l in 0..L step BL {
#       s = s + (load x[r*RB :+ RB, l :+ BL] else 0)
#     }
#     mean = reduce_sum(s, 1) / f32(L)
#     q = zeros f32[RB, BL]
#     for l in 0..L step BL {
#       d = (load x[r*RB :+ RB, l :+ BL] else 0) - mean[:, None]
#       # Outside the row there is no deviation.
#       d = select((l + iota(BL) < L)[None, :], d, 0)
#       q = q + d*d
#     }
#     inv = rsqrt(reduce_sum(q, 1) / f32(L) + EPS)
#     for l in 0..L step BL {
#       t = ((load x[r*RB :+ RB, l :+ BL] else 0) - mean[:, None]) * inv[:, None]
#       t = t * (load g[l :+ BL] else 0)[None, :] + (load b[l :+ BL] else 0)[None, :]
#       store y[r*RB :+ RB, l :+ BL] = t
#     }
#   }
#
# Knobs: BL = 256, RB = 1
import triton
import triton.language as tl
from triton.language.extra import libdevice

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "layernorm_main": {"num_stages": 3, "num_warps": 1},
}


# Triton's quotients err by 2 units in the last place, and its rounded ones branch for each element. What a quotient leaves
# of the dividend is exact, and its own quotient makes up for the error. Nothing is left of zeros, and of infinities NaN.
@triton.jit
def akg_div(a, b):
    q = a / b
    rest = tl.fma(-q, b, a)
    return tl.where((rest != 0) & (tl.abs(rest) < float("inf")), q + rest / b, q)


@triton.jit
def layernorm_main(x_ptr, g_ptr, b_ptr, y_ptr):
    r = tl.program_id(0)
    s = tl.zeros((1, 256), tl.float32)
    offs_r = r + tl.arange(0, 1)
    for l in range(0, 100, 256):
        offs_l = l + tl.arange(0, 256)
        x_tile = tl.load(
            x_ptr + offs_r[:, None] * 100 + offs_l[None, :],
            mask=offs_l[None, :] < 100,
            other=0.0,
        )
        s = s + x_tile
    mean = akg_div(tl.sum(s, 1), tl.full((), 100.0, tl.float32))
    q = tl.zeros((1, 256), tl.float32)
    for l_1 in range(0, 100, 256):
        offs_l_1 = l_1 + tl.arange(0, 256)
        x_tile_2 = tl.load(
            x_ptr + offs_r[:, None] * 100 + offs_l_1[None, :],
            mask=offs_l_1[None, :] < 100,
            other=0.0,
        )
        d = x_tile_2 - mean[:, None]
        t = ((tl.cast(l_1, tl.int32) + tl.arange(0, 256)) < 100)[None, :]
        d_2 = tl.where(t, d, 0.0)
        q = q + (d_2 * d_2)
    inv = libdevice.rsqrt(akg_div(tl.sum(q, 1), tl.full((), 100.0, tl.float32)) + 1e-5)
    for l_2 in range(0, 100, 256):
        offs_l_2 = l_2 + tl.arange(0, 256)
        x_tile_3 = tl.load(
            x_ptr + offs_r[:, None] * 100 + offs_l_2[None, :],
            mask=offs_l_2[None, :] < 100,
            other=0.0,
        )
        t_2 = (x_tile_3 - mean[:, None]) * inv[:, None]
        g_tile = tl.load(g_ptr + offs_l_2, mask=offs_l_2 < 100, other=0.0)
        b_tile = tl.load(b_ptr + offs_l_2, mask=offs_l_2 < 100, other=0.0)
        t_3 = (t_2 * g_tile[None, :]) + b_tile[None, :]
        tl.store(y_ptr + offs_r[:, None] * 100 + offs_l_2[None, :], t_3, mask=offs_l_2[None, :] < 100)
