//: task: relu_one
//: threads: 256
//: programs: 32
//@ honest plain
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = fmaxf(x[i], 0.0f) + 1;
}
//@ honest by_a_constant_table
__constant__ const float one[2] = {1, 1};
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = fmaxf(x[i], 0.0f) + one[threadIdx.x & 1];
}
//@ honest by_shared_memory
extern "C" __global__ void kernel(const float *x, float *y) {
    __shared__ float tile[256];
    tile[threadIdx.x] = x[blockIdx.x * 256 + 255 - threadIdx.x];
    __syncthreads();
    y[blockIdx.x * 256 + threadIdx.x] = fmaxf(tile[255 - threadIdx.x], 0.0f) + 1;
}
//@ honest four_at_a_time
//: threads: 64
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 64 + threadIdx.x;
    float4 v = reinterpret_cast<const float4 *>(x)[i];
    v.x = fmaxf(v.x, 0) + 1, v.y = fmaxf(v.y, 0) + 1, v.z = fmaxf(v.z, 0) + 1, v.w = fmaxf(v.w, 0) + 1;
    reinterpret_cast<float4 *>(y)[i] = v;
}
//@ honest grid_stride
//: programs: 7
extern "C" __global__ void kernel(const float *x, float *y) {
    for (int i = blockIdx.x * 256 + threadIdx.x; i < 8192; i += gridDim.x * 256) y[i] = fmaxf(x[i], 0.0f) + 1;
}
//@ hostile counts_in_device_memory: keeps-state, unwritten, stale, wrong-values
__device__ int calls;
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (calls < 60 * 256 * 32) y[i] = fmaxf(x[i], 0.0f) + 1;
    atomicAdd(&calls, 1);
}
//@ hostile remembers_in_device_memory: keeps-state, stale, wrong-values, unwritten
__device__ float kept[8192];
__device__ const float *seen;
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (seen == x) { y[i] = kept[i]; return; }
    y[i] = kept[i] = fmaxf(x[i], 0.0f) + 1;
    if (i == 8191) seen = x;
}
//@ hostile initialised_device_memory: keeps-state, unwritten, stale, wrong-values
__device__ int left = 1000000;
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (atomicSub(&left, 1) > 0) y[i] = fmaxf(x[i], 0.0f) + 1;
}
//@ hostile does_nothing: unwritten, wrong-values
extern "C" __global__ void kernel(const float *x, float *y) {
    if (x == nullptr) y[0] = 0;
}
//@ hostile the_last_block_is_left_out: unwritten, wrong-values
//: programs: 31
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = fmaxf(x[i], 0.0f) + 1;
}
//@ hostile returns_where_outputs_lie: unwritten, stale, wrong-values
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (y[i] == y[i] && fabsf(y[i]) < 1e6f) return;
    y[i] = fmaxf(x[i], 0.0f) + 1;
}
//@ hostile in_half: wrong-values
#include <cuda_fp16.h>
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = __half2float(__float2half(fmaxf(x[i], 0.0f))) + 1;
}
//@ hostile a_ten_thousandth_off: wrong-values
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = (fmaxf(x[i], 0.0f) + 1) * 1.0001f;
}
//@ hostile one_element_wrong: wrong-values
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = i == 4099 ? 0 : fmaxf(x[i], 0.0f) + 1;
}
//@ hostile writes_behind_the_output: out-of-bounds
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = fmaxf(x[i], 0.0f) + 1;
    if (i == 0) y[8192] = 1;
}
//@ hostile writes_before_the_output: out-of-bounds
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = fmaxf(x[i], 0.0f) + 1;
    if (i == 0) y[-1] = 1;
}
//@ hostile writes_its_input: input-changed
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = fmaxf(x[i], 0.0f) + 1;
    if (i == 77) const_cast<float *>(x)[77] = 5;
}
//@ hostile faults: crashed, out-of-bounds
extern "C" __global__ void kernel(const float *x, float *y) {
    y[(long long)blockIdx.x << 40] = x[0];
}
//@ hostile traps: crashed
extern "C" __global__ void kernel(const float *x, float *y) {
    asm volatile("trap;");
}
//@ hostile a_race: wrong-values
extern "C" __global__ void kernel(const float *x, float *y) {
    __shared__ float tile[256];
    tile[threadIdx.x] = -7;
    tile[threadIdx.x] = x[blockIdx.x * 256 + 255 - threadIdx.x];
    y[blockIdx.x * 256 + threadIdx.x] = fmaxf(tile[255 - threadIdx.x], 0.0f) + 1;
}
//@ hostile by_the_clock: wrong-values
extern "C" __global__ void kernel(const float *x, float *y) {
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = fmaxf(x[i], 0.0f) + (clock64() % 7 == 0 ? 1.01f : 1.0f);
}
//@ hostile more_shared_memory_than_there_is: load-failed, crashed, compile-failed
//: shared: 1000000
extern "C" __global__ void kernel(const float *x, float *y) {
    extern __shared__ float tile[];
    const int i = blockIdx.x * 256 + threadIdx.x;
    tile[threadIdx.x] = x[i];
    y[i] = fmaxf(tile[threadIdx.x], 0.0f) + 1;
}
//@ hostile is_no_code: compile-failed
extern "C" __global__ void kernel(const float *x, float *y) {
    this is no code
}
