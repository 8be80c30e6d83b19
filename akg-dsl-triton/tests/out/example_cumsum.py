# Lowered from this sketch:
#
#   # Prefix sums along a long last axis by several programs: sums of chunks, prefix sums of those, prefix sums of each
#   # chunk from there.
#   sketch cumsum(x: f32[R, L]) -> y: f32[R, L]
#   param L = 1000
#   param R = 2
#   knob BL in {256, 64, 1024, 4096}
#   knob STEPS in {4, 1, 16}
#   knob BS in {64, 16, 256}
#   let CHUNK = BL*STEPS
#   let CHUNKS = ceildiv(L, CHUNK)
#   buffer part: f32[R, CHUNKS]
#   buffer offset: f32[R, CHUNKS]
#
#   kernel sums over (r in R, c in CHUNKS) {
#     s = zeros f32[BL]
#     for t in 0..STEPS {
#       s = s + (load x[r, c*CHUNK + t*BL :+ BL] else 0)
#     }
#     store part[r, c] = reduce_sum(s, 0)
#   }
#
#   kernel offsets over (r in R) {
#     before = zeros f32[]
#     for c in 0..CHUNKS step BS {
#       v = load part[r, c :+ BS] else 0
#       store offset[r, c :+ BS] = scan_sum(v, 0, exclusive) + before
#       before = before + reduce_sum(v, 0)
#     }
#   }
#
#   kernel prefixes over (r in R, c in CHUNKS) {
#     before = load offset[r, c] else 0
#     for t in 0..STEPS {
#       v = load x[r, c*CHUNK + t*BL :+ BL] else 0
#       store y[r, c*CHUNK + t*BL :+ BL] = scan_sum(v, 0) + before
#       before = before + reduce_sum(v, 0)
#     }
#   }
#
# Knobs: BL = 256, BS = 64, STEPS = 4
import triton
import triton.language as tl

# How Triton compiles each kernel; `descriptors` says what parameters that are tensor descriptors describe.
LAUNCH = {
    "cumsum_sums": {"num_stages": 3, "num_warps": 1},
    "cumsum_offsets": {"num_stages": 3, "num_warps": 1},
    "cumsum_prefixes": {"num_stages": 3, "num_warps": 1},
}


@triton.jit
def cumsum_sums(x_ptr, part_ptr):
    r = tl.program_id(0)
    s = tl.zeros((256,), tl.float32)
    for t in range(4):
        offs_t = t * 256 + tl.arange(0, 256)
        x_tile = tl.load(x_ptr + r * 1000 + offs_t, mask=offs_t < 1000, other=0.0)
        s = s + x_tile
    tl.store(part_ptr + r, tl.sum(s, 0))


@triton.jit
def cumsum_offsets(part_ptr, offset_ptr):
    r = tl.program_id(0)
    before = tl.full((), 0.0, tl.float32)
    for c in range(0, 1, 64):
        offs_c = c + tl.arange(0, 64)
        v = tl.load(part_ptr + r + offs_c, mask=offs_c < 1, other=0.0)
        lane = tl.arange(0, 64)
        moved = tl.gather(v, tl.maximum(lane - 1, 0), 0)
        running = tl.cumsum(tl.where(lane == 0, tl.full((), 0, moved.dtype), moved), 0)
        tl.store(offset_ptr + r + offs_c, running + before, mask=offs_c < 1)
        before = before + tl.sum(v, 0)


@triton.jit
def cumsum_prefixes(offset_ptr, x_ptr, y_ptr):
    r = tl.program_id(0)
    before = tl.load(offset_ptr + r)
    for t in range(4):
        offs_t = t * 256 + tl.arange(0, 256)
        v = tl.load(x_ptr + r * 1000 + offs_t, mask=offs_t < 1000, other=0.0)
        running = tl.cumsum(v, 0)
        tl.store(y_ptr + r * 1000 + offs_t, running + before, mask=offs_t < 1000)
        before = before + tl.sum(v, 0)
