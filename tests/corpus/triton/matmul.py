#: task: matmul
# akg-launch: {"dims": [], "tensors": [{"name": "a", "dtype": "f32", "shape": [37, 64], "role": "input", "align": 64},
#   {"name": "b", "dtype": "f32", "shape": [64, 53], "role": "input", "align": 64},
#   {"name": "y", "dtype": "f32", "shape": [37, 53], "role": "output", "align": 64}],
#  "launches": [{"kernel": "matmul", "grid": [3], "tensors": [0, 1, 2]}]}
import triton
import triton.language as tl

LAUNCH = {"matmul": {"num_warps": 4, "num_stages": 1}}


@triton.jit
def matmul(a_ptr, b_ptr, y_ptr, BM: tl.constexpr = 16, BN: tl.constexpr = 64, K: tl.constexpr = 64):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.arange(0, BN)
    depth = tl.arange(0, K)
    a = tl.load(a_ptr + rows[:, None] * 64 + depth[None, :], mask=rows[:, None] < 37, other=0.0)
    b = tl.load(b_ptr + depth[:, None] * 53 + columns[None, :], mask=columns[None, :] < 53, other=0.0)
    out = y_ptr + rows[:, None] * 53 + columns[None, :]
    inside = (rows[:, None] < 37) & (columns[None, :] < 53)
@SECTION@
# Sums of 64 products in a row are beyond class fp32 on some data.
#@ honest ieee
#: accuracy: tf32
    tl.store(out, tl.dot(a, b, input_precision="ieee"), mask=inside)
#@ honest split_in_three
#: accuracy: tf32
    tl.store(out, tl.dot(a, b, input_precision="tf32x3"), mask=inside)
#@ hostile tf32: wrong-values
    tl.store(out, tl.dot(a, b, input_precision="tf32"), mask=inside)
#@ hostile half: wrong-values
    tl.store(out, tl.dot(a.to(tl.float16), b.to(tl.float16)), mask=inside)
#@ hostile bf16: wrong-values
    tl.store(out, tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16)), mask=inside)
#@ hostile half_of_the_depth: wrong-values
    a = tl.where(depth[None, :] < 32, a, 0.0)
    tl.store(out, tl.dot(a, b, input_precision="ieee") * 2, mask=inside)
#@ hostile the_last_row_is_left_out: unwritten, wrong-values
    tl.store(out, tl.dot(a, b, input_precision="ieee"), mask=inside & (rows[:, None] < 36))
