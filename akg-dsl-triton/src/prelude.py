#: akg_mod
# Remainder with the sign of the divisor; Triton's own has that of the dividend.
@triton.jit
def akg_mod(a, b):
    return (a % b + b) % b


#: akg_floordiv akg_mod
# Division that rounds down; Triton's own truncates.
@triton.jit
def akg_floordiv(a, b):
    return (a - akg_mod(a, b)) // b


#: akg_fmod
# Floating remainder with the sign of the divisor.
@triton.jit
def akg_fmod(a, b):
    r = libdevice.fmod(a, b)
    return tl.where((r != 0) & ((r < 0) != (b < 0)), r + b, r)


#: akg_exp
# Triton tells libdevice to flush subnormal numbers to zero: such results are computed e^22.1875 times as large.
@triton.jit
def akg_exp(x):
    low = x < -86.0
    y = libdevice.exp(tl.where(low, x + 22.1875, x))
    return tl.where(low, y * 2.3125502732234879e-10, y)


#: akg_log
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


#: akg_log1p
# Triton tells libdevice to flush subnormal numbers to zero: small numbers are their own results.
@triton.jit
def akg_log1p(x):
    return tl.where(tl.abs(x) < 5.9604644775390625e-08, x, libdevice.log1p(x))


#: akg_log1p_unit
# log1p from 0 to 1: a polynomial of least relative error, 2^-27. Errs by less than 2 units in the last place.
@triton.jit
def akg_log1p_unit(x):
    p = -0.003318438772112131
    p = tl.fma(x, p, 0.020204434171319008)
    p = tl.fma(x, p, -0.057664163410663605)
    p = tl.fma(x, p, 0.10680527240037918)
    p = tl.fma(x, p, -0.1535537987947464)
    p = tl.fma(x, p, 0.19695395231246948)
    p = tl.fma(x, p, -0.24958586692810059)
    p = tl.fma(x, p, 0.33330512046813965)
    p = tl.fma(x, p, -0.4999993145465851)
    return tl.fma(x, x * p, x)


#: akg_div
# Triton's quotients err by 2 units in the last place, and its rounded ones branch for each element. What a quotient leaves
# of the dividend is exact, and its own quotient makes up for the error. Nothing is left of zeros, and of infinities NaN.
@triton.jit
def akg_div(a, b):
    q = a / b
    rest = tl.fma(-q, b, a)
    return tl.where((rest != 0) & (tl.abs(rest) < float("inf")), q + rest / b, q)


#: akg_div_by
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


#: akg_tanh
# libdevice's branches for each element. Below 0.625 a polynomial of least relative error, 2^-27; above, one exponential.
# Errs by less than 4 units in the last place.
@triton.jit
def akg_tanh(x):
    a = tl.abs(x)
    s = a * a
    p = -0.005704974289983511
    p = tl.fma(s, p, 0.020639074966311455)
    p = tl.fma(s, p, -0.05373971164226532)
    p = tl.fma(s, p, 0.13331441581249237)
    p = tl.fma(s, p, -0.3333328068256378)
    small = tl.fma(a, s * p, a)
    large = 1.0 - libdevice.fast_dividef(2.0, libdevice.exp(a + a) + 1.0)
    return libdevice.copysign(tl.where(a < 0.625, small, large), x)


#: akg_sigmoid
@triton.jit
def akg_sigmoid(x):
    one = tl.full((), 1.0, x.dtype)
    return one / (one + libdevice.exp(-x))


#: akg_tanh_approx
# For classes beyond fp32: errs by 3e-6 of the result at most.
@triton.jit
def akg_tanh_approx(x):
    a = tl.abs(x)
    s = a * a
    small = a * tl.fma(s, tl.fma(s, 0.13333333, -0.33333334), 1.0)
    e = libdevice.fast_expf(-2.0 * a)
    large = libdevice.fast_dividef(1.0 - e, 1.0 + e)
    return libdevice.copysign(tl.where(a < 0.0625, small, large), x)


#: akg_sigmoid_approx
# For classes beyond fp32: errs by 1e-5 of the result at most.
@triton.jit
def akg_sigmoid_approx(x):
    return libdevice.fast_dividef(1.0, 1.0 + libdevice.fast_expf(-x))


#: akg_erf_approx
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


#: akg_pow2_floor
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


#: akg_tf32
# Rounds to 10 mantissa bits, ties away from zero; a product in TF32 cuts them off.
@triton.jit
def akg_tf32(x):
    return tl.inline_asm_elementwise(
        "cvt.rna.tf32.f32 $0, $1;", "=r,r", [x], dtype=tl.float32, is_pure=True, pack=1
    )


#: akg_tf32_bits
# Rounds to 10 mantissa bits, ties away from zero; a product in TF32 cuts them off.
@triton.jit
def akg_tf32_bits(x):
    bits = (x.to(tl.int32, bitcast=True) + 0x1000) & -0x2000
    return tl.where(x == x, bits.to(tl.float32, bitcast=True), x)


#: akg_mul
@triton.jit
def akg_mul(a, b):
    return a * b


#: akg_max
# NaN if either is.
@triton.jit
def akg_max(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


#: akg_min
# NaN if either is.
@triton.jit
def akg_min(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


#: akg_int_max
@triton.jit
def akg_int_max(a, b):
    return tl.maximum(a, b)


#: akg_int_min
@triton.jit
def akg_int_min(a, b):
    return tl.minimum(a, b)


#: akg_argmax
# The first of the largest; NaN is largest.
@triton.jit
def akg_argmax(a, i, b, j):
    same = (a == b) | ((a != a) & (b != b))
    left = (a > b) | ((a != a) & (b == b)) | (same & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


#: akg_argmin
# The first of the smallest; NaN is smallest.
@triton.jit
def akg_argmin(a, i, b, j):
    same = (a == b) | ((a != a) & (b != b))
    left = (a < b) | ((a != a) & (b == b)) | (same & (i < j))
    return tl.where(left, a, b), tl.where(left, i, j)


#: akg_barrier
# Waits for all programs of a team. Every barrier adds their number to the team's counter once.
@triton.jit
def akg_barrier(counter, programs):
    tl.debug_barrier()
    ticket = tl.atomic_add(counter, 1, sem="release", scope="gpu")
    goal = (ticket // programs + 1) * programs
    arrived = tl.atomic_add(counter, 0, sem="acquire", scope="gpu")
    while arrived < goal:
        arrived = tl.atomic_add(counter, 0, sem="acquire", scope="gpu")
    tl.debug_barrier()


#: akg_prefetch
# Asks for lines of the cache of all cores before they are loaded.
@triton.jit
def akg_prefetch(lines):
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [lines], dtype=tl.int32, is_pure=False, pack=1
    )


#: akg_settled
# A sum once it is complete. Triton 3.6 leaves a product under way whose left factor is in registers while it fills them
# with the next factor, unless something reads the sum first.
@triton.jit
def akg_settled(sum):
    return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [sum], dtype=tl.float32, is_pure=True, pack=1)
