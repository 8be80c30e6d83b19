# Lowered from this sketch:
#
#   # 2-d maximum pooling by strided boxes. P counts images times channels.
#   sketch maxpool2d(x: f32[P, H, W]) -> y: f32[P, HO, WO]
#   param H = 13
#   param P = 4
#   param W = 17
#   param KH = 2
#   param KW = 2
#   param SH = 2
#   param SW = 2
#   param PH = 0
#   param PW = 0
#   param DH = 1
#   param DW = 1
#   let HO = (H + 2*PH - DH * (KH - 1) - 1) // SH + 1
#   let WO = (W + 2*PW - DW * (KW - 1) - 1) // SW + 1
#   knob TH in {4, 1, 8}
#   knob TW in {32, 8, 64, 128}
#
#   kernel main over (p in P, i in ceildiv(HO, TH), j in ceildiv(WO, TW)) {
#     acc = full f32[TH, TW] -inf
#     for kh in 0..KH, kw in 0..KW unroll {
#       t = load x[p, i*TH * SH + kh*DH - PH :+ TH by SH, j*TW * SW + kw*DW - PW :+ TW by SW] else -inf
#       acc = max(acc, t)
#     }
#     store y[p, i*TH :+ TH, j*TW :+ TW] = acc
#   }
#
# Knobs: TH = 4, TW = 32
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "maxpool2d_main": {"num_stages": 3, "num_warps": 1},
}


@triton.jit
def maxpool2d_main(x_ptr, y_ptr):
    program = tl.program_id(0)
    p = program // 2
    i = program % 2
    acc = tl.full((4, 32), float("-inf"), tl.float32)
    for kh_kw in tl.static_range(4):
        kh = kh_kw // 2
        kw = kh_kw % 2
        offs_i_kh = i * 8 + kh + tl.arange(0, 4) * 2
        offs_kw = kw + tl.arange(0, 32) * 2
        t = tl.load(
            x_ptr + p * 221 + offs_i_kh[:, None] * 17 + offs_kw[None, :],
            mask=(offs_i_kh[:, None] < 13) & (offs_kw[None, :] < 17),
            other=float("-inf"),
        )
        acc = tl.maximum(acc, t, propagate_nan=tl.PropagateNan.ALL)
    offs_i = i * 4 + tl.arange(0, 4)
    offs = tl.arange(0, 32)
    tl.store(
        y_ptr + p * 48 + offs_i[:, None] * 8 + offs[None, :],
        acc,
        mask=(offs_i[:, None] < 6) & (offs[None, :] < 8),
    )
