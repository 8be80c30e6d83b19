# Lowered from this sketch:
#
#   # Long rows that programs of a team hold in registers from one barrier to the next.
#   sketch teams(x: f32[64, 4, 65536]) -> y: f32[64, 4, 65536]
#   let TEAMS = 13
#   buffer sums: f64[64, 4, 8]
#
#   kernel main over (team in TEAMS, q in 8) cooperative along q {
#     for n in team..64 step TEAMS, c in 0..4 {
#       v = load x[n, c, q*8192 :+ 8192]
#       store sums[n, c, q] = reduce_sum(f64(v), 0)
#       barrier
#       s = reduce_sum(load sums[n, c, 0 :+ 8], 0)
#       store y[n, c, q*8192 :+ 8192] = v - f32(s / 65536.0)
#     }
#   }
#
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "teams_main": {"num_stages": 3, "num_warps": 8},
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
def teams_main(x_ptr, sums_ptr, y_ptr, counter_ptr):
    program = tl.program_id(0)
    team = program // 8
    q = program % 8
    offs_q = q * 8192 + tl.arange(0, 8192)
    offs = tl.arange(0, 8)
    for n_c in range(tl.cdiv(64 - team, 13) * 4):
        n = team + (n_c // 4) * 13
        c = n_c % 4
        v = tl.load(x_ptr + c * 65536 + n * 262144 + offs_q)
        tl.store(sums_ptr + c * 8 + n * 32 + q, tl.sum(v.to(tl.float64), 0))
        akg_barrier(counter_ptr + team, 8)
        sums_tile = tl.load(sums_ptr + c * 8 + n * 32 + offs, cache_modifier=".cg")
        s = tl.sum(sums_tile, 0)
        t = (s * tl.full((), 1.52587890625e-5, tl.float64)).to(tl.float32)
        tl.store(y_ptr + c * 65536 + n * 262144 + offs_q, v - t)


@triton.jit
def akg_clear(counter_ptr):
    tl.store(counter_ptr + tl.program_id(0), 0)
