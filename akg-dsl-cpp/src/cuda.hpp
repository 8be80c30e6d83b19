// CUDA's execution model on one processor thread, to see what a kernel computes: blocks one after the other, the threads of a
// block as contexts that change places where they wait for each other. Nothing here is fast.

#include <ucontext.h>

#include <cfloat>
#include <climits>
#include <cstdlib>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// Blocks follow each other, so that one copy serves them all.
#define __shared__ static
#define __constant__

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
struct float2 { float x, y; };
struct float4 { float x, y, z, w; };
struct int2 { int x, y; };
struct int4 { int x, y, z, w; };
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline int2 make_int2(int x, int y) { return {x, y}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

static dim3 threadIdx, blockIdx, blockDim, gridDim;
static const int warpSize = 32;

// What a thread waits for: nothing, its warp, its block; or it is at its end.
enum akg_state { AKG_RUNS, AKG_AT_WARP, AKG_AT_BLOCK, AKG_ENDED };

struct akg_thread {
  ucontext_t context;
  akg_state state;
  dim3 index;
  // What it shows to its warp.
  uint64_t shown;
  bool vote;
};

static const int AKG_MOST_THREADS = 1024;
static const size_t AKG_STACK = 64 << 10;
static akg_thread akg_threads[AKG_MOST_THREADS];
static ucontext_t akg_scheduler;
static int akg_count, akg_current;
static void (*akg_body)(const void *);
static const void *akg_closure;

static void akg_wait(akg_state state) {
  akg_thread &thread = akg_threads[akg_current];
  thread.state = state;
  swapcontext(&thread.context, &akg_scheduler);
}

static void akg_start() {
  akg_body(akg_closure);
  akg_threads[akg_current].state = AKG_ENDED;
  swapcontext(&akg_threads[akg_current].context, &akg_scheduler);
}

// Lets the threads of first..last go on that wait so, if none of them still runs or waits for less.
static bool akg_release(int first, int last, akg_state state) {
  bool any = false;
  for (int i = first; i < last; ++i) {
    if (akg_threads[i].state == state) any = true;
    else if (akg_threads[i].state < state) return false;
  }
  for (int i = first; any && i < last; ++i)
    if (akg_threads[i].state == state) akg_threads[i].state = AKG_RUNS;
  return any;
}

// The stacks of a block's threads, mapped when the code is loaded: memory that a call maps and keeps is a leftover.
static char *const akg_stacks = static_cast<char *>(malloc(AKG_MOST_THREADS * AKG_STACK));

static void akg_block() {
  for (int i = 0; i < akg_count; ++i) {
    akg_thread &thread = akg_threads[i];
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = akg_stacks + i * AKG_STACK;
    thread.context.uc_stack.ss_size = AKG_STACK;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, akg_start, 0);
    thread.state = AKG_RUNS;
    const unsigned rest = i / blockDim.x;
    thread.index = dim3(i % blockDim.x, rest % blockDim.y, rest / blockDim.y);
  }
  for (;;) {
    for (akg_current = 0; akg_current < akg_count; ++akg_current) {
      if (akg_threads[akg_current].state != AKG_RUNS) continue;
      threadIdx = akg_threads[akg_current].index;
      swapcontext(&akg_scheduler, &akg_threads[akg_current].context);
    }
    bool any = false;
    for (int warp = 0; warp < akg_count; warp += warpSize)
      any |= akg_release(warp, warp + warpSize < akg_count ? warp + warpSize : akg_count, AKG_AT_WARP);
    if (!any && !akg_release(0, akg_count, AKG_AT_BLOCK)) return;
  }
}

template <class Kernel> void akg_launch(dim3 grid, dim3 block, const Kernel &kernel) {
  gridDim = grid;
  blockDim = block;
  akg_count = block.x * block.y * block.z;
  if (akg_count < 1 || akg_count > AKG_MOST_THREADS) abort();
  akg_closure = &kernel;
  akg_body = [](const void *closure) { (*static_cast<const Kernel *>(closure))(); };
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        blockIdx = dim3(x, y, z);
        akg_block();
      }
}

inline void __syncthreads() { akg_wait(AKG_AT_BLOCK); }
inline void __syncwarp(unsigned = 0xffffffffu) { akg_wait(AKG_AT_WARP); }
inline void __threadfence() {}
inline void __threadfence_block() {}

inline int akg_lane() { return akg_current % warpSize; }

// What the thread of a lane of this warp shows; its own where there is none.
template <class T> T akg_shuffle(T value, int lane) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a register");
  akg_thread &own = akg_threads[akg_current];
  memcpy(&own.shown, &value, sizeof value);
  akg_wait(AKG_AT_WARP);
  const int from = akg_current - akg_lane() + lane;
  T got = value;
  if (lane >= 0 && lane < warpSize && from < akg_count) memcpy(&got, &akg_threads[from].shown, sizeof got);
  akg_wait(AKG_AT_WARP);
  return got;
}

// The lane that is `step` from this one, if that is in the same part of the warp; this one otherwise.
inline int akg_near(int lane, int width) { return lane / width == akg_lane() / width && lane >= 0 ? lane : akg_lane(); }
template <class T> T __shfl_sync(unsigned, T value, int lane, int width = 32) {
  return akg_shuffle(value, akg_lane() / width * width + (lane % width + width) % width);
}
template <class T> T __shfl_down_sync(unsigned, T value, unsigned step, int width = 32) {
  return akg_shuffle(value, akg_near(akg_lane() + int(step), width));
}
template <class T> T __shfl_up_sync(unsigned, T value, unsigned step, int width = 32) {
  return akg_shuffle(value, akg_near(akg_lane() - int(step), width));
}
template <class T> T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
  return akg_shuffle(value, akg_near(akg_lane() ^ mask, width));
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  akg_threads[akg_current].vote = predicate != 0;
  akg_wait(AKG_AT_WARP);
  const int first = akg_current - akg_lane();
  unsigned votes = 0;
  for (int i = 0; i < warpSize && first + i < akg_count; ++i)
    if (akg_threads[first + i].state != AKG_ENDED && akg_threads[first + i].vote) votes |= 1u << i;
  akg_wait(AKG_AT_WARP);
  return votes & mask;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate == 0) == 0; }

// Threads change places only where they wait.
template <class T, class V> T atomicAdd(T *at, V value) { T old = *at; *at = old + T(value); return old; }
template <class T, class V> T atomicMax(T *at, V value) { T old = *at; *at = old > T(value) ? old : T(value); return old; }
template <class T, class V> T atomicMin(T *at, V value) { T old = *at; *at = old < T(value) ? old : T(value); return old; }
template <class T, class V> T atomicExch(T *at, V value) { T old = *at; *at = T(value); return old; }
template <class T, class V> T atomicCAS(T *at, V compare, V value) { T old = *at; if (old == T(compare)) *at = T(value); return old; }

template <class T> T __ldg(const T *at) { return *at; }
inline int __float_as_int(float value) { int bits; memcpy(&bits, &value, sizeof bits); return bits; }
inline float __int_as_float(int bits) { float value; memcpy(&value, &bits, sizeof value); return value; }
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(value); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __fdividef(float x, float y) { return x / y; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __saturatef(float x) { return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; }
inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }

#define CUDART_INF_F __builtin_inff()
#undef INFINITY
#define INFINITY __builtin_inff()
