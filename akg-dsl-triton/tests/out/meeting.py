# Lowered from this sketch:
#
#   # Programs that meet: neighbours see each other's sums.
#   sketch meeting(x: f32[4, 100]) -> y: f32[4]
#   buffer s: f32[4]
#
#   kernel main over (p in 4) cooperative {
#     store s[p] = reduce_sum(load x[p, 0 :+ 100], 0)
#     barrier
#     store y[p] = (load s[(p + 1) % 4]) + (load s[(p + 3) % 4])
#   }
#
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "meeting_main": {"num_stages": 3, "num_warps": 1},
    "akg_clear": {"num_stages": 1, "num_warps": 1},
}


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


@triton.jit
def meeting_main(x_ptr, s_ptr, y_ptr, counter_ptr):
    p = tl.program_id(0)
    offs = tl.arange(0, 128)
    x_tile = tl.load(x_ptr + p * 100 + offs, mask=tl.arange(0, 128) < 100, other=0.0)
    tl.store(s_ptr + p, tl.sum(x_tile, 0))
    akg_barrier(counter_ptr, 4)
    s_tile = tl.load(s_ptr + (p + 1) % 4, cache_modifier=".cg")
    s_tile_2 = tl.load(s_ptr + (p + 3) % 4, cache_modifier=".cg")
    tl.store(y_ptr + p, s_tile + s_tile_2)


@triton.jit
def akg_clear(counter_ptr):
    tl.store(counter_ptr + tl.program_id(0), 0)
