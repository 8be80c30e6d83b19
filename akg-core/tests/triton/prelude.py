import triton
import triton.language as tl
from triton.language.extra import libdevice


# Division and remainder that round down, from operators that truncate.
@triton.jit
def akg_floordiv(a, b):
    return (a - akg_mod(a, b)) // b


@triton.jit
def akg_mod(a, b):
    return (a % b + b) % b


@triton.jit
def akg_fmod(a, b):
    r = libdevice.fmod(a, b)
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


@triton.jit
def akg_sigmoid(x):
    one = tl.full((), 1.0, x.dtype)
    return one / (one + libdevice.exp(-x))


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


@triton.jit
def akg_add(a, b):
    return a + b


@triton.jit
def akg_mul(a, b):
    return a * b


@triton.jit
def akg_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def akg_min(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def akg_int_max(a, b):
    return tl.maximum(a, b)


@triton.jit
def akg_int_min(a, b):
    return tl.minimum(a, b)


@triton.jit
def akg_argmax(a, i, b, j):
    same = (a == b) | ((a != a) & (b != b))
    left = (a > b) | ((a != a) & (b == b)) | (same & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


@triton.jit
def akg_argmin(a, i, b, j):
    same = (a == b) | ((a != a) & (b != b))
    left = (a < b) | ((a != a) & (b == b)) | (same & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


# Every barrier adds the number of programs to the counter once.
@triton.jit
def akg_barrier(counter):
    tl.debug_barrier()
    programs = tl.num_programs(0)
    ticket = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu")
    goal = (ticket // programs + 1) * programs
    while tl.atomic_add(counter, 0, sem="acq_rel", scope="gpu") < goal:
        pass
    tl.debug_barrier()
