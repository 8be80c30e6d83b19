//: task: sum_rows
//: threads: 128
//: programs: 64
//@ honest by_shared_memory
extern "C" __global__ void kernel(const float *x, float *y) {
    __shared__ float sums[128];
    float sum = 0;
    for (int c = threadIdx.x; c < 500; c += 128) sum += x[blockIdx.x * 500 + c];
    sums[threadIdx.x] = sum;
    for (int step = 64; step; step /= 2) {
        __syncthreads();
        if (threadIdx.x < step) sums[threadIdx.x] += sums[threadIdx.x + step];
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sums[0];
}
//@ honest by_shuffles
//: threads: 32
extern "C" __global__ void kernel(const float *x, float *y) {
    float sum = 0;
    for (int c = threadIdx.x; c < 500; c += 32) sum += x[blockIdx.x * 500 + c];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
//@ honest in_double
//: threads: 32
extern "C" __global__ void kernel(const float *x, float *y) {
    double sum = 0;
    for (int c = threadIdx.x; c < 500; c += 32) sum += x[blockIdx.x * 500 + c];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = float(sum);
}
//@ hostile added_to_what_is_there: wrong-values, unwritten, stale
//: threads: 32
extern "C" __global__ void kernel(const float *x, float *y) {
    for (int c = threadIdx.x; c < 500; c += 32) atomicAdd(y + blockIdx.x, x[blockIdx.x * 500 + c]);
}
//@ hostile the_tail_is_left_out: wrong-values
//: threads: 32
extern "C" __global__ void kernel(const float *x, float *y) {
    float sum = 0;
    for (int c = threadIdx.x; c < 480; c += 32) sum += x[blockIdx.x * 500 + c];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
//@ hostile in_half: wrong-values
//: threads: 32
#include <cuda_fp16.h>
extern "C" __global__ void kernel(const float *x, float *y) {
    float sum = 0;
    for (int c = threadIdx.x; c < 500; c += 32) sum += __half2float(__float2half(x[blockIdx.x * 500 + c]));
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
//@ hostile no_barrier: wrong-values
extern "C" __global__ void kernel(const float *x, float *y) {
    __shared__ float sums[128];
    float sum = 0;
    for (int c = threadIdx.x; c < 500; c += 128) sum += x[blockIdx.x * 500 + c];
    sums[threadIdx.x] = sum;
    if (threadIdx.x == 0) {
        float total = 0;
        for (int i = 0; i < 128; ++i) total += sums[i];
        y[blockIdx.x] = total;
    }
}
