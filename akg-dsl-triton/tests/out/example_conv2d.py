# Lowered from this sketch:
#
#   # 2-d convolution as a sum of matrix products, one for each tap and block of channels, over boxes of a channels-last
#   # copy; the zeros outside the boxes are the padding. Channels are padded so that rows start at multiples of 16 bytes.
#   sketch conv2d(x: f32[N, C, H, W], w: f32[O, C, KH, KW], b: f32[O]) -> y: f32[N, O, HO, WO]
#   param C = 5
#   param H = 11
#   param KH = 3
#   param KW = 3
#   param N = 2
#   param O = 7
#   param W = 13
#   param SH = 1
#   param SW = 1
#   param PH = 1
#   param PW = 1
#   param DH = 1
#   param DW = 1
#   let HO = (H + 2*PH - DH * (KH - 1) - 1) // SH + 1
#   let WO = (W + 2*PW - DW * (KW - 1) - 1) // SW + 1
#   knob CT in {f32, f16}
#   knob TH in {4, 1, 8}
#   knob TW in {8, 16, 32}
#   knob BO in {32, 64, 128}
#   knob BC in {16, 32, 64}
#   knob BW in {32, 64}
#   hint STAGES in {2, 3}
#   require TH*TW * BO <= 16384
#   let CP = roundup(C, 16 // sizeof(CT))
#   buffer xt: CT[N, H, W, CP] align 16
#   buffer wt: CT[KH, KW, O, CP] align 16
#
#   kernel nhwc over (n in N, h in H, i in ceildiv(W, BW), c in ceildiv(CP, BC)) {
#     t = load x[n, c*BC :+ BC, h, i*BW :+ BW] else 0
#     store xt[n, h, i*BW :+ BW, c*BC :+ BC] = CT(trans(t))
#   }
#
#   kernel weights over (kh in KH, kw in KW, o in O) {
#     for c in 0..CP step BC {
#       store wt[kh, kw, o, c :+ BC] = CT(load w[o, c :+ BC, kh, kw] else 0)
#     }
#   }
#
#   kernel main over (n in N, i in ceildiv(HO, TH), j in ceildiv(WO, TW), o in ceildiv(O, BO)) {
#     acc = zeros f32[TH*TW, BO]
#     for kh in 0..KH, kw in 0..KW, c in 0..CP step BC pipeline(STAGES) {
#       a = load xt[n, i*TH * SH + kh*DH - PH :+ TH by SH, j*TW * SW + kw*DW - PW :+ TW by SW, c :+ BC] else 0
#       k = load wt[kh, kw, o*BO :+ BO, c :+ BC] else 0
#       acc = dot(reshape(a, [TH*TW, BC]), trans(k), acc) ieee
#     }
#     t = trans(acc) + (load b[o*BO :+ BO] else 0)[:, None]
#     store y[n, o*BO :+ BO, i*TH :+ TH, j*TW :+ TW] = reshape(t, [BO, TH, TW])
#   }
#
# Knobs: BC = 16, BO = 32, BW = 32, CT = f32, STAGES = 2, TH = 4, TW = 8
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "conv2d_nhwc": {"num_stages": 3, "num_warps": 4},
    "conv2d_weights": {"num_stages": 3, "num_warps": 1},
    "conv2d_main": {"num_stages": 3, "num_warps": 4},
}


# A sum once it is complete. Triton 3.6 leaves a product under way whose left factor is in registers while it fills them
# with the next factor, unless something reads the sum first.
@triton.jit
def akg_settled(sum):
    return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [sum], dtype=tl.float32, is_pure=True, pack=1)


@triton.jit
def conv2d_nhwc(x_ptr, xt_ptr):
    program = tl.program_id(0)
    n = program // 11
    h = program % 11
    offs = tl.arange(0, 16)
    offs_2 = tl.arange(0, 32)
    t = tl.load(
        x_ptr + h * 13 + n * 715 + offs[:, None] * 143 + offs_2[None, :],
        mask=(offs[:, None] < 5) & (offs_2[None, :] < 13),
        other=0.0,
    )
    tl.store(
        xt_ptr + h * 104 + n * 1144 + offs_2[:, None] * 8 + offs[None, :],
        tl.trans(t),
        mask=(offs_2[:, None] < 13) & (offs[None, :] < 8),
    )


@triton.jit
def conv2d_weights(w_ptr, wt_ptr):
    program = tl.program_id(0)
    kh = program // 21
    kw = (program % 21) // 7
    o = (program % 21) % 7
    for c in range(0, 8, 16):
        offs_c = c + tl.arange(0, 16)
        w_tile = tl.load(w_ptr + kh * 3 + kw + o * 45 + offs_c * 9, mask=offs_c < 5, other=0.0)
        tl.store(wt_ptr + kh * 168 + kw * 56 + o * 8 + offs_c, w_tile, mask=offs_c < 8)


@triton.jit
def conv2d_main(xt_ptr, wt_ptr, b_ptr, y_ptr):
    program = tl.program_id(0)
    n = program // 6
    i = (program % 6) // 2
    j = (program % 6) % 2
    acc = tl.zeros((32, 32), tl.float32)
    offs = tl.arange(0, 16)
    offs_2 = tl.arange(0, 32)
    for kh_kw_c in tl.range(9, num_stages=2):
        kh = kh_kw_c // 3
        kw = kh_kw_c % 3
        offs_i_kh = i * 4 + kh - 1 + tl.arange(0, 4)
        offs_j_kw = j * 8 + kw - 1 + tl.arange(0, 8)
        a = tl.load(
            xt_ptr + n * 1144 + offs_i_kh[:, None, None] * 104 + offs_j_kw[None, :, None] * 8 + offs[None, None, :],
            mask=(offs_i_kh[:, None, None] >= 0) & (offs_i_kh[:, None, None] < 11) & (offs_j_kw[None, :, None] >= 0) & (offs_j_kw[None, :, None] < 13) & (offs[None, None, :] < 8),
            other=0.0,
        )
        k = tl.load(
            wt_ptr + kh * 168 + kw * 56 + offs_2[:, None] * 8 + offs[None, :],
            mask=(offs_2[:, None] < 7) & (offs[None, :] < 8),
            other=0.0,
        )
        acc = akg_settled(tl.dot(tl.reshape(a, (32, 16)), tl.trans(k), acc, input_precision="ieee"))
    b_tile = tl.load(b_ptr + offs_2, mask=offs_2 < 7, other=0.0)
    t = tl.trans(acc) + b_tile[:, None]
    offs_i = i * 4 + tl.arange(0, 4)
    offs_j = j * 8 + tl.arange(0, 8)
    tl.store(
        y_ptr + n * 1001 + offs_2[:, None, None] * 143 + offs_i[None, :, None] * 13 + offs_j[None, None, :],
        tl.reshape(t, (32, 4, 8)),
        mask=(offs_2[:, None, None] < 7) & (offs_i[None, :, None] < 11) & (offs_j[None, None, :] < 13),
    )
