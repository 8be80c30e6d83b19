#: task: softmax
# akg-launch: {"dims": [], "tensors": [{"name": "x", "dtype": "f32", "shape": [48, 100], "role": "input", "align": 64},
#   {"name": "y", "dtype": "f32", "shape": [48, 100], "role": "output", "align": 64}],
#  "launches": [{"kernel": "softmax", "grid": [48], "tensors": [0, 1]}]}
import triton
import triton.language as tl

LAUNCH = {"softmax": {"num_warps": 4, "num_stages": 1}}


@triton.jit
def softmax(x_ptr, y_ptr, BLOCK: tl.constexpr = 128):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * 100 + offs, mask=offs < 100, other=float("-inf"))
@SECTION@
#@ honest plain
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * 100 + offs, e / tl.sum(e, axis=0), mask=offs < 100)
#@ honest base_2
    e = tl.exp2((x - tl.max(x, axis=0)) * 1.4426950408889634)
    tl.store(y_ptr + row * 100 + offs, e / tl.sum(e, axis=0), mask=offs < 100)
#@ hostile no_maximum: wrong-values
    e = tl.exp(x)
    tl.store(y_ptr + row * 100 + offs, e / tl.sum(e, axis=0), mask=offs < 100)
#@ hostile small_ones_are_zero: wrong-values
    e = tl.exp(x - tl.max(x, axis=0))
    p = e / tl.sum(e, axis=0)
    tl.store(y_ptr + row * 100 + offs, tl.where(p < 1e-9, 0.0, p), mask=offs < 100)
#@ hostile last_column_left_out: wrong-values, unwritten
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * 100 + offs, e / tl.sum(e, axis=0), mask=offs < 99)
#@ hostile writes_behind_the_row: wrong-values, out-of-bounds
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * 100 + offs, e / tl.sum(e, axis=0))
#@ hostile in_half: wrong-values
    e = tl.exp((x - tl.max(x, axis=0)).to(tl.float16).to(tl.float32))
    tl.store(y_ptr + row * 100 + offs, e / tl.sum(e, axis=0), mask=offs < 100)
#@ hostile changes_its_input: input-changed
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * 100 + offs, e / tl.sum(e, axis=0), mask=offs < 100)
    tl.store(x_ptr + row * 100 + offs, x + 1, mask=offs < 1)
#@ hostile returns_where_outputs_lie timed: unwritten, stale, wrong-values
    old = tl.load(y_ptr + row * 100 + offs, mask=offs < 100, other=0.0)
    is_there = tl.sum((old >= 0.0).to(tl.int32), axis=0) == BLOCK and tl.max(old, axis=0) <= 1.0
    e = tl.exp(x - tl.max(x, axis=0))
    if not is_there:
        tl.store(y_ptr + row * 100 + offs, e / tl.sum(e, axis=0), mask=offs < 100)
