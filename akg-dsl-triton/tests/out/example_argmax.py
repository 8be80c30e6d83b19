# Lowered from this sketch:
#
#   # The index of the largest element of each row, the first among equals; NaN counts as the largest.
#   sketch argmax(x: f32[R, L]) -> y: i64[R]
#   param L = 100
#   param R = 5
#   knob RB in {2, 1, 8}
#   knob BL in {64, 256, 1024}
#
#   kernel main over (r in ceildiv(R, RB)) {
#     mx = full f32[RB] -inf
#     at = zeros i32[RB]
#     for l in 0..L step BL {
#       t = load x[r*RB :+ RB, l :+ BL] else -inf
#       m = reduce_max(t, 1)
#       better = m > mx | isnan(m) & !isnan(mx)
#       at = select(better, l + argmax(t, 1), at)
#       mx = max(mx, m)
#     } combine (mx: mx2, at: at2) {
#       better = mx2 > mx | isnan(mx2) & !isnan(mx)
#       at = select(better, at2, at)
#       mx = max(mx, mx2)
#     }
#     store y[r*RB :+ RB] = i64(at)
#   }
#
# Knobs: BL = 64, RB = 2
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "argmax_main": {"num_stages": 3, "num_warps": 1},
}


# NaN if either is.
@triton.jit
def akg_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


# The first of the largest; NaN is largest.
@triton.jit
def akg_argmax(a, i, b, j):
    same = (a == b) | ((a != a) & (b != b))
    left = (a > b) | ((a != a) & (b == b)) | (same & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


@triton.jit
def argmax_main(x_ptr, y_ptr):
    r = tl.program_id(0)
    mx = tl.full((2,), float("-inf"), tl.float32)
    at = tl.full((2,), 0, tl.int32)
    offs_r = r * 2 + tl.arange(0, 2)
    for l in range(0, 100, 64):
        offs_l = l + tl.arange(0, 64)
        t = tl.load(
            x_ptr + offs_r[:, None] * 100 + offs_l[None, :],
            mask=(offs_r[:, None] < 5) & (offs_l[None, :] < 100),
            other=float("-inf"),
        )
        m = tl.reduce(t, 1, akg_max)
        better = (m > mx) | ((m != m) & ((mx != mx) == 0))
        lane = tl.broadcast_to(tl.arange(0, 64)[None, :], (2, 64))
        t_2 = tl.reduce((t, lane), 1, akg_argmax)[1]
        at = tl.where(better, tl.cast(l, tl.int32) + t_2, at)
        mx = tl.maximum(mx, m, propagate_nan=tl.PropagateNan.ALL)
    tl.store(y_ptr + offs_r, at.to(tl.int64), mask=offs_r < 5)
