# Lowered from this sketch:
#
#   # Long rows: a team asks for the next before its programs meet.
#   sketch rows_ahead(x: f32[64, 4, 65536], w: f32[4]) -> (y: f32[64, 4, 65536], mean: f32[64, 4])
#   let TEAMS = 13
#   hint STAGES in {2, 1}
#   buffer sums: f64[64, 4, 8]
#
#   kernel main over (team in TEAMS, q in 8) cooperative along q {
#     for n in team..64 step TEAMS, c in 0..4 pipeline(STAGES) {
#       v = load x[n, c, q*8192 :+ 8192]
#       store sums[n, c, q] = reduce_sum(f64(v), 0)
#       barrier
#       s = f32(reduce_sum(load sums[n, c, 0 :+ 8], 0) / 65536.0)
#       store y[n, c, q*8192 :+ 8192] = (v - s) * (load w[c])
#       if q == 0 {
#         store mean[n, c] = s
#       }
#     }
#   }
#
# Knobs: STAGES = 2
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "rows_ahead_main": {"num_stages": 3, "num_warps": 8},
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


# Asks for lines of the cache of all cores before they are loaded.
@triton.jit
def akg_prefetch(lines):
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.b32 $0, 0;", "=r,l", [lines], dtype=tl.int32, is_pure=False, pack=1
    )


@triton.jit
def rows_ahead_main(x_ptr, sums_ptr, w_ptr, y_ptr, mean_ptr, counter_ptr):
    program = tl.program_id(0)
    team = program // 8
    q = program % 8
    offs_q = q * 8192 + tl.arange(0, 8192)
    offs_q_2 = q * 8192 + tl.arange(0, 256) * 32
    offs = tl.arange(0, 8)
    for n_c in range(tl.cdiv(64 - team, 13) * 4):
        n = team + (n_c // 4) * 13
        c = n_c % 4
        v = tl.load(x_ptr + c * 65536 + n * 262144 + offs_q, eviction_policy="evict_first")
        tl.store(sums_ptr + c * 8 + n * 32 + q, tl.sum(v.to(tl.float64), 0))
        akg_prefetch(
            x_ptr + team * 262144 + (tl.minimum(tl.cdiv(64 - team, 13) * 4 - 1, n_c + 1) // 4) * 3407872 + (tl.minimum(tl.cdiv(64 - team, 13) * 4 - 1, n_c + 1) % 4) * 65536 + offs_q_2,
        )
        akg_barrier(counter_ptr + team, 8)
        sums_tile = tl.load(sums_ptr + c * 8 + n * 32 + offs, cache_modifier=".cg")
        t = tl.sum(sums_tile, 0) * tl.full((), 1.52587890625e-5, tl.float64)
        s = t.to(tl.float32)
        w_tile = tl.load(w_ptr + c)
        tl.store(y_ptr + c * 65536 + n * 262144 + offs_q, (v - s) * w_tile, eviction_policy="evict_first")
        if q == 0:
            tl.store(mean_ptr + c + n * 4, s)


@triton.jit
def akg_clear(counter_ptr):
    tl.store(counter_ptr + tl.program_id(0), 0)
