# Lowered from this sketch:
#
#   # What the rules design for a transposed convolution with a stride: its phases have fewer taps the later they are.
#   sketch up(conv_weight: f32[32, 16, 3, 3], conv_bias: f32[16], x: f32[128, 32, 30, 40]) -> conv_transpose2d: f32[128, 16, 59, 79]
#   accuracy tf32
#   knob TH in {16, 8, 2}
#   knob TW in {8, 16, 64}
#   require TH*TW <= 128
#   let BM = 16
#   let BK = 32
#   hint STAGES in {4, 3, 2}
#   let BN1 = 79
#   buffer conv_transpose2d_out: f32[128, 16, 60, 80]
#   buffer A0_HIGH: f16[2, 2, 4, 16, 32] align 16
#   buffer A0_SCALE: f32[2, 2, 16]
#   buffer B0_HIGH: f16[128, 30, 40, 32] align 16
#   buffer B0_TOPS: f32[128, 32]
#
#   # conv_transpose2d
#   kernel k0_a over (p1 in 2, p2 in 2, p3 in 16) {
#     tops = zeros f32[32]
#     for r8 in 0..2, r10 in 0..2 {
#       x1 = load conv_weight[0 :+ 32, p3, p1 + 2*r8, p2 + 2*r10] else 0.0
#       tops = max(tops, abs(x1))
#     }
#     scale = max(pow2_floor(reduce_max(tops, 0)), 1.925929944387236e-34)
#     store A0_SCALE[p1, p2, p3] = scale
#     inverse = 16384.0 / scale
#     for r8 in 0..2, r10 in 0..2 {
#       x2 = load conv_weight[0 :+ 32, p3, p1 + 2*r8, p2 + 2*r10] else 0.0
#       whole = x2*inverse
#       high = f16(whole)
#       store A0_HIGH[p1, p2, r8*2 + r10, p3, 0 :+ 32] = high
#     }
#   }
#
#   # conv_transpose2d
#   kernel k0_b_tops over (p0 in 128, p6 in 32) {
#     tops = zeros f32[32, 64]
#     for h0 in 0..30 step 32, h1 in 0..40 step 64 {
#       tops = max(tops, abs(load x[p0, p6, h0 :+ 32, h1 :+ 64] else 0.0))
#     }
#     store B0_TOPS[p0, p6] = reduce_max(reduce_max(tops, 1), 0)
#   }
#
#   # conv_transpose2d
#   kernel k0_b over (p0 in 128, h0 in 30, h1 in 1, c0 in 1) {
#     scale = max(pow2_floor(reduce_max(load B0_TOPS[p0, 0 :+ 32], 0)), 1.925929944387236e-34)
#     x1 = load x[p0, c0*32 :+ 32, h0, h1*64 :+ 64] else 0.0
#     whole = x1 * (16384.0 / scale)
#     high = f16(whole)
#     store B0_HIGH[p0, h0, h1*64 :+ 64, c0*32 :+ 32] = trans(high)
#   }
#
#   # conv_transpose2d
#   kernel k0 over (p0 in 128, p4 in ceildiv(30, TH), p5 in ceildiv(40, TW), p3 in ceildiv(16, BM), p1 in 2, p2 in 2) {
#     acc0 = zeros f32[TH*TW, BM]
#     for r6 in 0..(4 - p1) // 2 * ((4 - p2) // 2) * ceildiv(32, BK) pipeline(STAGES) {
#       bh = reshape(load B0_HIGH[p0, p4*TH + -1 * (r6 // ceildiv(32, BK) // ((4 - p2) // 2)) :+ TH, p5*TW + -1 * (r6 // ceildiv(32, BK) % ((4 - p2) // 2)) :+ TW, r6 % ceildiv(32, BK) * BK :+ BK] else 0.0, [TH*TW, BK])
#       ah = trans(load A0_HIGH[p1, p2, r6 // ceildiv(32, BK) // ((4 - p2) // 2) * 2 + r6 // ceildiv(32, BK) % ((4 - p2) // 2), p3*BM :+ BM, r6 % ceildiv(32, BK) * BK :+ BK] else 0.0)
#       acc0 = dot(bh, ah, acc0) f16
#     }
#     a_scale = load A0_SCALE[p1, p2, p3*BM :+ BM]
#     b_scale = max(pow2_floor(reduce_max(load B0_TOPS[p0, 0 :+ 32], 0)), 1.925929944387236e-34)
#     z0 = trans(acc0) * 3.725290298461914e-9 * a_scale[:, None] * b_scale
#     y0 = reshape(z0, [BM, TH, TW])
#     t1 = y0
#     store conv_transpose2d_out[p0, p3*BM :+ BM, p4*TH * 2 + p1 :+ TH by 2, p5*TW * 2 + p2 :+ TW by 2] = reshape(t1, [BM, TH, TW])
#   }
#
#   # conv_transpose2d
#   kernel k1 over (p0 in 128, p1 in 16, p2 in 59) {
#     x1 = load conv_transpose2d_out[p0, p1, 1 + p2, 1 :+ BN1]
#     x2 = load conv_bias[p1]
#     t3 = x1 + x2
#     store conv_transpose2d[p0, p1, p2, 0 :+ BN1] = t3
#   }
#
# Knobs: STAGES = 4, TH = 16, TW = 8
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "up_k0_a": {"num_stages": 3, "num_warps": 1},
    "up_k0_b_tops": {"num_stages": 3, "num_warps": 8},
    "up_k0_b": {"num_stages": 3, "num_warps": 8},
    "up_k0": {"descriptors": {"A0_HIGH_desc": {"block_shape": [1, 1, 1, 16, 32], "shape": [2, 2, 4, 16, 32]}, "B0_HIGH_desc": {"block_shape": [1, 16, 8, 32], "shape": [128, 30, 40, 32]}}, "num_stages": 3, "num_warps": 4},
    "up_k1": {"num_stages": 3, "num_warps": 1},
}


# Remainder with the sign of the divisor; Triton's own has that of the dividend.
@triton.jit
def akg_mod(a, b):
    return (a % b + b) % b


# Division that rounds down; Triton's own truncates.
@triton.jit
def akg_floordiv(a, b):
    return (a - akg_mod(a, b)) // b


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


# conv_transpose2d
@triton.jit
def up_k0_a(conv_weight_ptr, A0_SCALE_ptr, A0_HIGH_ptr):
    program = tl.program_id(0)
    p1 = program // 32
    p2 = (program % 32) // 16
    p3 = (program % 32) % 16
    tops = tl.zeros((32,), tl.float32)
    offs = tl.arange(0, 32)
    for r8_r10 in range(4):
        r8 = r8_r10 // 2
        r10 = r8_r10 % 2
        x1 = tl.load(
            conv_weight_ptr + p1 * 3 + p2 + p3 * 9 + r10 * 2 + r8 * 6 + offs * 144,
            mask=((p1 + r8 * 2) < 3) & ((p2 + r10 * 2) < 3),
            other=0.0,
        )
        tops = tl.maximum(tops, tl.abs(x1), propagate_nan=tl.PropagateNan.ALL)
    scale = tl.maximum(
        akg_pow2_floor(tl.reduce(tops, 0, akg_max)),
        1.925929944387236e-34,
        propagate_nan=tl.PropagateNan.ALL,
    )
    tl.store(A0_SCALE_ptr + p1 * 32 + p2 * 16 + p3, scale)
    inverse = tl.full((), 16384.0, tl.float32) / scale
    for r8_1_r10_1 in range(4):
        r8_1 = r8_1_r10_1 // 2
        r10_1 = r8_1_r10_1 % 2
        x2 = tl.load(
            conv_weight_ptr + p1 * 3 + p2 + p3 * 9 + r10_1 * 2 + r8_1 * 6 + offs * 144,
            mask=((p1 + r8_1 * 2) < 3) & ((p2 + r10_1 * 2) < 3),
            other=0.0,
        )
        whole = x2 * inverse
        high = whole.to(tl.float16)
        tl.store(A0_HIGH_ptr + p1 * 4096 + p2 * 2048 + p3 * 32 + r10_1 * 512 + r8_1 * 1024 + offs, high)


# conv_transpose2d
@triton.jit
def up_k0_b_tops(x_ptr, B0_TOPS_ptr):
    program = tl.program_id(0)
    p0 = program // 32
    p6 = program % 32
    tops = tl.zeros((32, 64), tl.float32)
    offs = tl.arange(0, 64)
    for h0_h1 in range(1):
        h0 = h0_h1 * 32
        offs_h0 = h0 + tl.arange(0, 32)
        x_tile = tl.load(
            x_ptr + p0 * 38400 + p6 * 1200 + offs_h0[:, None] * 40 + offs[None, :],
            mask=(offs_h0[:, None] < 30) & (offs[None, :] < 40),
            other=0.0,
        )
        tops = tl.maximum(tops, tl.abs(x_tile), propagate_nan=tl.PropagateNan.ALL)
    tl.store(B0_TOPS_ptr + p0 * 32 + p6, tl.reduce(tl.reduce(tops, 1, akg_max), 0, akg_max))


# conv_transpose2d
@triton.jit
def up_k0_b(B0_TOPS_ptr, x_ptr, B0_HIGH_ptr):
    program = tl.program_id(0)
    p0 = program // 30
    h0 = program % 30
    offs = tl.arange(0, 32)
    B0_TOPS_tile = tl.load(B0_TOPS_ptr + p0 * 32 + offs)
    scale = tl.maximum(
        akg_pow2_floor(tl.reduce(B0_TOPS_tile, 0, akg_max)),
        1.925929944387236e-34,
        propagate_nan=tl.PropagateNan.ALL,
    )
    offs_2 = tl.arange(0, 64)
    x1 = tl.load(
        x_ptr + h0 * 40 + p0 * 38400 + offs[:, None] * 1200 + offs_2[None, :],
        mask=offs_2[None, :] < 40,
        other=0.0,
    )
    whole = x1 * (tl.full((), 16384.0, tl.float32) / scale)
    high = whole.to(tl.float16)
    tl.store(
        B0_HIGH_ptr + h0 * 1280 + p0 * 38400 + offs_2[:, None] * 32 + offs[None, :],
        tl.trans(high),
        mask=offs_2[:, None] < 40,
    )


# conv_transpose2d
@triton.jit
def up_k0(B0_HIGH_desc, A0_HIGH_desc, A0_SCALE_ptr, B0_TOPS_ptr, conv_transpose2d_out_ptr):
    program = tl.program_id(0)
    p0 = program // 40
    p4 = (program % 40) // 20
    p5 = ((program % 40) % 20) // 4
    p3 = (((program % 40) % 20) % 4) // 4
    p1 = ((((program % 40) % 20) % 4) % 4) // 2
    p2 = ((((program % 40) % 20) % 4) % 4) % 2
    acc0 = tl.zeros((128, 16), tl.float32)
    for r6 in tl.range(akg_floordiv(-p1, 2) * 2 + akg_floordiv(-p1, 2) * akg_floordiv(-p2, 2) + akg_floordiv(-p2, 2) * 2 + 4, num_stages=4):
        B0_HIGH_tile = tl.reshape(
            B0_HIGH_desc.load([p0, p4 * 16 - (r6 // (akg_floordiv(-p2, 2) + 2)), p5 * 8 - (r6 % (akg_floordiv(-p2, 2) + 2)), 0]),
            (16, 8, 32),
        )
        bh = tl.reshape(B0_HIGH_tile, (128, 32))
        A0_HIGH_tile = tl.reshape(
            A0_HIGH_desc.load([p1, p2, (r6 // (akg_floordiv(-p2, 2) + 2)) * 2 + (r6 % (akg_floordiv(-p2, 2) + 2)), p3 * 16, 0]),
            (16, 32),
        )
        ah = tl.trans(A0_HIGH_tile)
        acc0 = tl.dot(bh, ah, acc0)
    offs_p3 = p3 * 16 + tl.arange(0, 16)
    a_scale = tl.load(A0_SCALE_ptr + p1 * 32 + p2 * 16 + offs_p3)
    offs = tl.arange(0, 32)
    B0_TOPS_tile = tl.load(B0_TOPS_ptr + p0 * 32 + offs)
    b_scale = tl.maximum(
        akg_pow2_floor(tl.reduce(B0_TOPS_tile, 0, akg_max)),
        1.925929944387236e-34,
        propagate_nan=tl.PropagateNan.ALL,
    )
    z0 = ((tl.trans(acc0) * 3.725290298461914e-9) * a_scale[:, None]) * b_scale
    y0 = tl.reshape(z0, (16, 16, 8))
    offs_p1_p4 = p1 + p4 * 32 + tl.arange(0, 16) * 2
    offs_p2_p5 = p2 + p5 * 16 + tl.arange(0, 8) * 2
    tl.store(
        conv_transpose2d_out_ptr + p0 * 76800 + offs_p3[:, None, None] * 4800 + offs_p1_p4[None, :, None] * 80 + offs_p2_p5[None, None, :],
        y0,
        mask=offs_p1_p4[None, :, None] < 60,
    )


# conv_transpose2d
@triton.jit
def up_k1(conv_transpose2d_out_ptr, conv_bias_ptr, conv_transpose2d_ptr):
    program = tl.program_id(0)
    p0 = program // 944
    p1 = (program % 944) // 59
    p2 = (program % 944) % 59
    offs = 1 + tl.arange(0, 128)
    x1 = tl.load(
        conv_transpose2d_out_ptr + p0 * 76800 + p1 * 4800 + p2 * 80 + 80 + offs,
        mask=tl.arange(0, 128) < 79,
        other=0.0,
    )
    x2 = tl.load(conv_bias_ptr + p1)
    t3 = x1 + x2
    offs_2 = tl.arange(0, 128)
    tl.store(
        conv_transpose2d_ptr + p0 * 74576 + p1 * 4661 + p2 * 79 + offs_2,
        t3,
        mask=tl.arange(0, 128) < 79,
    )
