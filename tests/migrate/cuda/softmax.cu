// Softmax of each row by one block: the maximum and the sum are reduced in shared memory.
#define THREADS 128

__global__ void softmax(const float *x, float *y, int columns) {
  __shared__ float shared[THREADS];
  const float *in = x + blockIdx.x * columns;
  float *out = y + blockIdx.x * columns;
  int tid = threadIdx.x;

  float largest = -INFINITY;
  for (int i = tid; i < columns; i += THREADS) largest = fmaxf(largest, in[i]);
  shared[tid] = largest;
  __syncthreads();
  for (int step = THREADS / 2; step > 0; step >>= 1) {
    if (tid < step) shared[tid] = fmaxf(shared[tid], shared[tid + step]);
    __syncthreads();
  }
  largest = shared[0];
  __syncthreads();

  float sum = 0.0f;
  for (int i = tid; i < columns; i += THREADS) sum += expf(in[i] - largest);
  shared[tid] = sum;
  __syncthreads();
  for (int step = THREADS / 2; step > 0; step >>= 1) {
    if (tid < step) shared[tid] += shared[tid + step];
    __syncthreads();
  }
  float inverse = 1.0f / shared[0];
  for (int i = tid; i < columns; i += THREADS) out[i] = expf(in[i] - largest) * inverse;
}
